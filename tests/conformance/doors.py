# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Clients of SPOP and of Envoy's Rate Limit Service over gRPC, which write and read the bytes themselves. They
need no library, and share no code with weir."""

import socket
import struct

from kit.process import HOST, PATIENCE_S, expect

# ---- SPOP ----------------------------------------------------------------------------------------

HAPROXY_HELLO, NOTIFY, AGENT_HELLO, ACK = 1, 3, 101, 103
FIN = 1
SET_VAR, UNSET_VAR = 1, 2
BOOL, INT32, UINT32, INT64, UINT64, STRING = 1, 2, 3, 4, 5, 8


def spop_number(n):
    """An integer of variable length, as HAProxy's SPOE.txt defines it."""
    if n < 240:
        return bytes([n])
    out, n = [n & 15 | 240], (n - 240) >> 4
    while n >= 128:
        out.append(n & 127 | 128)
        n = (n - 128) >> 7
    return bytes([*out, n])


def spop_string(text):
    return spop_number(len(text)) + text.encode()


def spop_text(name, value):
    return spop_string(name) + bytes([STRING]) + spop_string(value)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        expect(self.at + count <= len(self.data), "the frame ends too early")
        self.at += count
        return self.data[self.at - count:self.at]

    def byte(self):
        return self.take(1)[0]

    def number(self):
        n = shift = 0
        part = n = self.byte()
        if part < 240:
            return n
        shift = 4
        while True:
            part = self.byte()
            n += part << shift
            shift += 7
            if part < 128:
                return n

    def string(self):
        return self.take(self.number()).decode()

    def value(self):
        kind = self.byte()
        if kind & 15 == BOOL:
            return bool(kind >> 4)
        if kind & 15 == STRING:
            return self.string()
        expect(kind & 15 in (INT32, UINT32, INT64, UINT64), f"a value of type {kind}")
        n = self.number()
        return n - (1 << 64) if n >> 63 else n


class Spop:
    """A connection of HAProxy."""

    def __init__(self, port):
        self.socket = socket.create_connection((HOST, port), PATIENCE_S)
        self.file, self.frames = self.socket.makefile("rb"), 0
        self.send(HAPROXY_HELLO, 0, spop_text("supported-versions", "2.0") + spop_string("max-frame-size")
                  + bytes([UINT32]) + spop_number(16380) + spop_text("capabilities", "pipelining"))
        expect(self.read().byte() == AGENT_HELLO, "AGENT-HELLO")

    def send(self, kind, stream, payload):
        frame = bytes([kind]) + struct.pack(">I", FIN) + spop_number(stream) + spop_number(stream) + payload
        self.socket.sendall(struct.pack(">I", len(frame)) + frame)

    def read(self):
        size = struct.unpack(">I", self.file.read(4))[0]
        return Reader(self.file.read(size))

    def notify(self, messages, **arguments):
        """Sends the messages with the same arguments in one frame. Returns the variables that are set."""
        self.frames += 1
        listed = b"".join(spop_text(name, str(value)) for name, value in arguments.items())
        self.send(NOTIFY, self.frames, b"".join(spop_string(one) + bytes([len(arguments)]) + listed
                                                for one in messages))
        frame, found = self.read(), {}
        expect(frame.byte() == ACK, "ACK")
        frame.take(4)
        expect([frame.number(), frame.number()] == [self.frames] * 2, "the ids of the frame")
        while frame.at < len(frame.data):
            action, _, _ = frame.byte(), frame.byte(), frame.byte()
            name = frame.string()
            if action == SET_VAR:
                expect(name not in found, f"{name} is set twice")
                found[name] = frame.value()
            else:
                expect(action == UNSET_VAR, f"action {action}")
        return found

    def close(self):
        self.file.close()
        self.socket.close()


# ---- gRPC ----------------------------------------------------------------------------------------

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, ACKNOWLEDGED, END_HEADERS = 1, 1, 4
PATH = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def field(number, value):
    """A field of a message of Protocol Buffers: a number, a text or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(data):
    """The fields of a message: pairs of a number and its value, an integer or bytes."""
    at = 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    while at < len(data):
        tag = number()
        value = number()
        if tag & 7 == 2:
            at += value
            value = data[at - value:at]
        else:
            expect(tag & 7 == 0, f"wire type {tag & 7}")
        yield tag >> 3, value


def http2_frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literals(*pairs):
    """A header block without a dynamic table and without Huffman codes."""
    return b"".join(b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in pair) for pair in pairs)


def read_exactly(file, count):
    data = file.read(count)
    expect(len(data) == count, "the connection ended")
    return data


def should_rate_limit(port, domain, descriptors, hits):
    """Calls ShouldRateLimit on a connection of its own. A descriptor is a pair. Returns the code and the
    header fields to add, as pairs."""
    message = field(1, domain) + field(3, hits)
    message += b"".join(field(2, field(1, field(1, key) + field(2, value))) for key, value in descriptors)
    head = literals((":method", "POST"), (":scheme", "http"), (":path", PATH), (":authority", "localhost"),
                    ("content-type", "application/grpc"), ("te", "trailers"))
    body, settings = b"", http2_frame(SETTINGS, 0, 0)
    with socket.create_connection((HOST, port), PATIENCE_S) as connection, connection.makefile("rb") as file:
        connection.sendall(PREFACE + settings + http2_frame(HEADERS, END_HEADERS, 1, head)
                           + http2_frame(DATA, END_STREAM, 1, struct.pack(">BI", 0, len(message)) + message))
        while True:
            head = read_exactly(file, 9)
            kind, flags = head[3], head[4]
            payload = read_exactly(file, int.from_bytes(head[:3], "big"))
            if kind == SETTINGS and not flags & ACKNOWLEDGED:
                connection.sendall(http2_frame(SETTINGS, ACKNOWLEDGED, 0))
            if kind == DATA:
                body += payload
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                break
    expect(len(body) >= 5, "no message in the response")
    code, added = 0, []
    for number, value in fields(body[5:]):
        if number == 1:
            code = value
        elif number == 3:
            pair = dict(fields(value))
            added.append((pair[1].decode(), pair.get(2, pair.get(3, b"")).decode()))
    return code, added
