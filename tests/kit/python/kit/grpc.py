# SPDX-License-Identifier: BSD-2-Clause
"""A client of gRPC without libraries: one call at a time, over HTTP/2 in the clear. It knows the frames that weir sends,
and Envoy's rate limit service."""

import socket
import struct

from kit.process import HOST, PATIENCE_S, Failed

DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
ACK = END_STREAM = 1
END_HEADERS = 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">IBBI", len(payload), kind, flags, stream)[1:] + payload


def header(name, value):
    """A field without compression (RFC 7541, 6.2.2)."""
    return b"\x00" + b"".join(bytes([len(text)]) + text for text in (name.encode(), value.encode()))


def field(number, value):
    """A length-delimited field of a protobuf message."""
    value = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(value)]) + value


def varint(message, at):
    value = shift = 0
    while True:
        byte = message[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields(message):
    """The last value of each field of a protobuf message that has only varints and delimited fields."""
    found, at = {}, 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        if tag & 7 == 2:
            value, at = message[at:at + value], at + value
        elif tag & 7 != 0:
            raise Failed(f"field {tag >> 3} has type {tag & 7}")
        found[tag >> 3] = value
    return found


class Grpc:
    def __init__(self, port):
        self.socket = socket.create_connection((HOST, port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        self.stream, self.goaway, self.last = -1, False, None
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))

    def read(self):
        """The next frame: kind, flags, stream, payload."""
        head = self.file.read(9)
        if len(head) < 9:
            raise ConnectionResetError(f"the server closed the connection; stream {self.stream}, GOAWAY {self.last}")
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        return kind, flags, stream, self.file.read(int.from_bytes(head[:3], "big"))

    def call(self, method, message, metadata=()):
        """Returns the message of the reply. After the first GOAWAY, `goaway` is true: the call was still answered."""
        self.stream += 2
        names = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost"),
                 ("content-type", "application/grpc"), ("te", "trailers"), *dict(metadata).items()]
        self.socket.sendall(frame(HEADERS, END_HEADERS, self.stream, b"".join(header(*name) for name in names)) +
                            frame(DATA, END_STREAM, self.stream, struct.pack(">BI", 0, len(message)) + message))
        reply = b""
        while True:
            kind, flags, stream, payload = self.read()
            if kind == GOAWAY:
                self.goaway, self.last = True, int.from_bytes(payload[:4], "big")
            elif kind in (SETTINGS, PING) and not flags & ACK:
                self.socket.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
            elif kind == DATA and stream == self.stream:
                reply += payload
                self.socket.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))))
            elif kind == HEADERS and stream == self.stream and flags & END_STREAM:
                if not reply:
                    raise Failed(f"{method}: no message, trailers {payload!r}")
                return reply[5:]

    def rate_limit(self, domain, entries, metadata=()):
        """ShouldRateLimit with one descriptor: 1 is OK, 2 is OVER_LIMIT."""
        return fields(self.should_rate_limit(domain, entries, metadata))[1]

    def remaining(self, domain, entries):
        """What remains of the limit, after one unit."""
        return fields(fields(self.should_rate_limit(domain, entries))[2])[3]

    def should_rate_limit(self, domain, entries, metadata=()):
        descriptor = b"".join(field(1, field(1, key) + field(2, value)) for key, value in entries.items())
        return self.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                         field(1, domain) + field(2, descriptor), metadata)

    def close(self):
        self.file.close()
        self.socket.close()
