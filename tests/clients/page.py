# SPDX-License-Identifier: BSD-2-Clause
"""Runs the examples of docs/clients.md unchanged except for the ports, and sends them HTTP requests: they
allow, deny, and work without weir."""

import contextlib
import http.client
import pathlib
import re
import socket

from kit.process import HOST, Process, expect, until
from kit.weir import Daemon

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "clients.md"
PATIENCE_S = 20
QUICK_S = 0.9  # more than the timeout of the examples, less than the default of any library
BURST = 5


def block(heading, language, file=PAGE):
    """The first code block of a language below a heading of a page."""
    section = file.read_text().split(f"\n## {heading}\n", 1)
    expect(len(section) == 2, f"{file} has no heading {heading!r}")
    found = re.search(rf"^```{language}\n(.*?)^```$", section[1].split("\n## ")[0], re.M | re.S)
    expect(found, f"{file} has no {language} below {heading!r}")
    return found[1]


def unused_port():
    with socket.socket() as s:
        s.bind((HOST, 0))
        return s.getsockname()[1]


class Weir(Daemon):
    """A daemon that keeps its port, with the policy that the examples name."""

    def __init__(self, box, port):
        self.resp, self.deny = port, False
        super().__init__(box, {}, None)

    def write(self):
        deny = "[127.0.0.1]" if self.deny else "[]"
        self.config.write_text(f"listen: {{resp: {HOST}:{self.resp}, http: {HOST}:0}}\nthreads: 1\n"
                               f"policies:\n  api: {{limit: gcra 1/h burst {BURST}, deny: {deny}}}\n")


class Example(Process):
    """A program that serves HTTP."""

    def __init__(self, box, words, directory, port):
        super().__init__(box, "example")
        self.port = port
        self.spawn(words, cwd=directory)

    def get(self, patience_s=PATIENCE_S):
        """The status and the headers of a response."""
        with contextlib.closing(http.client.HTTPConnection(HOST, self.port, timeout=patience_s)) as web:
            web.request("GET", "/")
            response = web.getresponse()
            expect(response.read(), "the response has no body")
            return response.status, response.headers

    def is_serving(self):
        expect(self.is_running(), "the example ended")
        with contextlib.suppress(OSError):
            return self.get()[0] == 200
        return False

    def is_limited(self):
        """The example has a connection to weir."""
        return "RateLimit" in self.get()[1]


def seconds(ms):
    return -(-ms // 1000)


def check_allowed(example):
    for remaining in reversed(range(BURST)):
        status, headers = example.get()
        expect(status == 200, f"request {BURST - remaining} of {BURST}: expected 200, found {status}")
        expect(headers["RateLimit-Policy"] == f'"api";q={BURST}', f"found {headers['RateLimit-Policy']}")
        # One unit returns each hour, so the time is between n - 1 and n hours.
        n = BURST - remaining
        found = re.fullmatch(rf'"api";r={remaining};t=(\d+)', headers["RateLimit"])
        expect(found and 3600 * (n - 1) < int(found[1]) <= 3600 * n, f"found {headers['RateLimit']}")
        expect("Retry-After" not in headers, "an allowed response has Retry-After")


def check_denied(example, daemon):
    def wait():
        return daemon.call("WEIR.PEEK", "api", HOST)[3]

    longest = wait()
    status, headers = example.get()
    shortest = wait()
    expect(status == 429, f"over the limit: expected 429, found {status}")
    expect(seconds(shortest) <= int(headers["Retry-After"]) <= seconds(longest),
           f"Retry-After is {headers['Retry-After']}, and weir says {shortest} to {longest} ms")
    expect(re.fullmatch(r'"api";r=0;t=\d+', headers["RateLimit"]), f"found {headers['RateLimit']}")
    expect(headers["RateLimit-Policy"] == f'"api";q={BURST}', f"found {headers['RateLimit-Policy']}")


def check_open(example, what):
    """The example serves a request without weir, and quickly. A busy machine may need several tries."""
    def soon():
        with contextlib.suppress(TimeoutError):
            return example.get(QUICK_S)
        return None

    status, headers = until(soon, f"{what}: a response within the timeout", PATIENCE_S)
    expect(status == 200, f"{what}: expected 200, found {status}")
    expect("RateLimit" not in headers, f"{what}: found RateLimit {headers['RateLimit']}")
    expect("the request is not limited" in example.log_text(), f"{what}: nothing was logged")


def check_example(box, heading, language, prepare):
    """`prepare(text, port)` stores an example and returns a command line and its directory."""
    resp, web = unused_port(), unused_port()
    daemon = Weir(box, resp).start()
    text = block(heading, language)
    expect("6380" in text, "the example does not name weir's port")
    words, directory = prepare(text.replace("6380", str(resp)).replace("3000", str(web)), web)
    example = Example(box, words, directory, web)
    until(example.is_serving, "the example serves HTTP")
    until(example.is_limited, "the example uses weir")
    daemon.call("WEIR.RESET", "api", HOST)
    check_allowed(example)
    check_denied(example, daemon)

    daemon.pause()  # like a machine that hangs: connections stay open, without replies
    check_open(example, "weir hangs")
    daemon.resume()
    until(example.is_limited, "weir limits again")
    check_denied(example, daemon)

    daemon.call("WEIR.POLICY", "DEL", "api")
    check_open(example, "there is no such policy")

    expect(daemon.end() == 0, "weir did not end")
    check_open(example, "weir is stopped")

    daemon.deny = True
    daemon.write()
    daemon.start()
    until(lambda: example.get()[0] == 429, "weir limits after a restart")
    expect("Retry-After" not in example.get()[1], "Retry-After where no wait helps")
