# SPDX-License-Identifier: BSD-2-Clause
"""The base of all tests with real servers: a RESP client, free ports, waiting for a condition, and
child processes that end with the test."""

import contextlib
import pathlib
import random
import shutil
import socket
import threading
import time

HOST = "127.0.0.1"
PATIENCE_S = 60  # the longest wait for a condition, on a busy machine


class Failed(Exception):
    pass


class Refused(Exception):
    """An error reply."""


def until(condition, what, patience_s=PATIENCE_S, every_s=0.005):
    """Calls `condition` until it returns something true, and returns that."""
    end = time.monotonic() + patience_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"not within {patience_s} s: {what}")
        threading.Event().wait(every_s)


def free_port():
    """A port p that is free on all addresses, as is p + 10000, the port of a Cluster's bus. No outgoing connection is
    given it: one could take a port between this call and the start of the server."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with contextlib.suppress(OSError), socket.socket() as s, socket.socket() as bus:
            port = random.randrange(10000, max(first - 10000, 20000))
            s.bind(("", port))
            bus.bind(("", port + 10000))
            return port


def mortal(words):
    """Changes a command line so that the process ends with the test, even if the test is killed."""
    return (["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []) + list(words)


def command(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Client:
    """A blocking client, RESP2 by default and RESP3 after HELLO 3. It returns replies as integers,
    bytes, lists, maps or None, simple strings as text, and errors as `error`. read() returns errors;
    call() raises them."""

    error = Refused

    def __init__(self, port, patience_s=PATIENCE_S):
        self.use(socket.create_connection((HOST, port), patience_s))

    def use(self, connected):
        self.socket = connected
        self.file = connected.makefile("rb")

    def send(self, *words):
        self.socket.sendall(command(*words))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return self.error(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"#":
            return rest == b"t"
        if kind == b"_" or kind in b"$*" and rest == b"-1":
            return None
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2]
        if kind in b"*~>":
            return [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {self.name(): self.read() for _ in range(int(rest))}
        raise Failed(f"no reply begins with {line!r}")

    def name(self):
        name = self.read()
        return name.decode() if isinstance(name, bytes) else name

    def many(self, commands):
        """Sends all commands in one pipeline. Returns their replies, errors among them."""
        self.socket.sendall(b"".join(command(*words) for words in commands))
        return [self.read() for _ in commands]

    def call(self, *words):
        self.send(*words)
        answer = self.read()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.file.close()
        self.socket.close()
