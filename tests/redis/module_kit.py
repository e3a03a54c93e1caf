# SPDX-License-Identifier: BSD-2-Clause
"""Shared by the tests of the module: redis-servers with the module, and a client that returns replies
unchanged."""

from kit import redis, resp


class Error(str):
    """An error reply."""


class Client(resp.Client):
    error = Error

    __call__ = resp.Client.call


class Server(redis.Server):
    """A redis-server with the module."""

    connection = Client

    def __init__(self, module, *options):
        super().__init__(*options, module=module)
