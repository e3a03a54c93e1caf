# SPDX-License-Identifier: BSD-2-Clause
"""A client of HTTP: one request over a connection of its own."""

import collections
import contextlib
import http.client
import json

from kit.process import HOST, PATIENCE_S, expect


class Answer(collections.namedtuple("Answer", "status headers body")):
    """`headers` knows names in any case, as http.client.HTTPMessage does."""

    def __getitem__(self, name):
        """The value of a header, or None. Fails if there are two."""
        found = self.headers.get_all(name, [])
        expect(len(found) < 2, f"{len(found)} headers {name}: {found}")
        return found[0] if found else None

    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)


def fetch(port, path="/", *, method="GET", headers=(), body=None, client=None, host=None):
    """`headers` is a map, or pairs. `client` is the address to send from, `host` the header Host."""
    source = (client, 0) if client else None
    pairs = [("Host", host or f"{HOST}:{port}"), *(headers.items() if isinstance(headers, dict) else headers)]
    body = body.encode() if isinstance(body, str) else body
    with contextlib.closing(http.client.HTTPConnection(HOST, port, PATIENCE_S, source)) as connection:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in pairs:
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
