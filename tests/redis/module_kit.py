# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of the module share: redis-servers of their own on free ports of the loopback, and
a client that shows replies as they came."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

PATIENCE_S = 30


class Failed(Exception):
    pass


class Error(str):
    """An error reply."""


def free_port():
    """With the port of a Cluster's bus, which is 10000 more, free as well."""
    while True:
        with socket.socket() as s, socket.socket() as bus:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
            if port > 50000:
                continue
            try:
                bus.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
            return port


def until(condition, what):
    """Waits for a condition, for so long as a busy machine may take."""
    end, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while time.monotonic() < end:
        if condition():
            return
        pause.wait(0.01)
    raise Failed(f"not within {PATIENCE_S} s: {what}")


def command(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Client:
    def __init__(self, port, proto=2):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.file = self.socket.makefile("rb")
        if proto == 3:
            self("HELLO", 3)

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise Failed("the server hung up")
        kind, text = line[:1], line[1:-2]
        if kind == b"+":
            return text.decode()
        if kind == b"-":
            return Error(text.decode("utf-8", "replace"))
        if kind == b":":
            return int(text)
        if kind == b"#":
            return text == b"t"
        if kind == b"_":
            return None
        if kind == b"$":
            return None if text == b"-1" else self.file.read(int(text) + 2)[:-2]
        if kind in b"*~>":
            return None if text == b"-1" else [self.read() for _ in range(int(text))]
        if kind == b"%":
            return {self.name(): self.read() for _ in range(int(text))}
        raise Failed(f"not a reply: {line}")

    def name(self):
        name = self.read()
        return name.decode() if isinstance(name, bytes) else name

    def __call__(self, *words):
        self.socket.sendall(command(*words))
        return self.read()

    def many(self, commands):
        self.socket.sendall(b"".join(command(*words) for words in commands))
        return [self.read() for _ in commands]

    def close(self):
        self.file.close()
        self.socket.close()


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
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.dir,
             "--save", "", "--enable-debug-command", "local", "--enable-module-command", "local",
             "--loadmodule", self.module, *self.options],
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
