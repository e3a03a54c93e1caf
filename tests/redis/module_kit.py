# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of the module share: redis-servers of their own, and a client that shows replies as
they came."""

import os
import shutil
import subprocess
import tempfile

import resp
from resp import PATIENCE_S, Failed, free_port, mortal, until


class Error(str):
    """An error reply."""


class Client(resp.Client):
    error = Error

    def __init__(self, port, proto=2):
        super().__init__(port)
        if proto == 3:
            self("HELLO", 3)

    __call__ = resp.Client.call


class Server:
    """A redis-server with the module; restart() is the same files again."""

    def __init__(self, module, *options, port=None):
        self.module, self.options = module, options
        self.dir = tempfile.mkdtemp(prefix="weir-module-")
        self.port = port or free_port()
        self.process = None
        self.start()

    def start(self):
        # Its own file, since a Cluster and a rewrite write beside it.
        self.log = open(os.path.join(self.dir, "log"), "a+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            mortal(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1",
                    "--dir", self.dir, "--save", "", "--enable-debug-command", "local",
                    "--enable-module-command", "local", "--loadmodule", self.module,
                    *self.options]),
            stdout=self.log, stderr=self.log)
        until(self.answers, f"a server on port {self.port}:\n{self.said()}")

    def answers(self):
        if self.process.poll() is not None:
            raise Failed(f"the server ended with {self.process.returncode}:\n{self.said()}")
        try:
            c = Client(self.port)
            good = c("PING") == "PONG"
            c.close()
            return good
        except (OSError, Failed):
            return False

    def client(self, proto=2):
        return Client(self.port, proto)

    def said(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()[-4000:]

    def restart(self):
        self.stop()
        self.start()

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.log.close()

    def close(self):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)
