# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of the module share: redis-servers of their own, and a client that shows replies as
they came."""

import resp


class Error(str):
    """An error reply."""


class Client(resp.Client):
    error = Error

    def __init__(self, port, proto=2):
        super().__init__(port)
        if proto == 3:
            self("HELLO", 3)

    __call__ = resp.Client.call


class Server(resp.Server):
    """With the module."""

    prefix = "weir-module-"

    def __init__(self, module, *options):
        self.module = module
        super().__init__("--enable-debug-command", "local", "--enable-module-command", "local",
                         "--loadmodule", module, *options)

    def client(self, proto=2):
        return Client(self.port, proto)
