# SPDX-License-Identifier: BSD-2-Clause
"""A client of RESP, for weir and for Redis."""

import pathlib
import socket

from kit.process import HOST, PATIENCE_S, Failed


class Refused(Exception):
    """An error reply."""


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

    def __init__(self, address, password=None, user=None, tls=None, patience_s=PATIENCE_S):
        if isinstance(address, (str, pathlib.Path)):
            connected = socket.socket(socket.AF_UNIX)
            connected.settimeout(patience_s)
            connected.connect(str(address))
        else:
            connected = socket.create_connection((HOST, address), patience_s)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.use(tls.wrap_socket(connected, server_hostname=HOST) if tls else connected)
        if password:
            self.call("AUTH", *([user] if user else []), password)

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


def info(client, section):
    text = client.call("INFO", section)
    return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
