#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The daemon behind proxies: the client of a request by X-Forwarded-For, Forwarded and the PROXY protocol, with and
without TLS. The proxy is 127.0.0.1; 127.0.0.2 is a stranger.

    proxied_test.py WEIR MODULE [NAME...]"""

import pathlib
import socket
import ssl
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
from kit.process import HOST, PATIENCE_S, expect, free_port, run, until
from kit.weir import Daemon

STRANGER = "127.0.0.2"
V1 = b"PROXY TCP4 198.51.100.9 127.0.0.1 4711 80\r\n"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
# Addresses of the client, a TLV, and a checksum.
V2 = SIGNATURE + b"\x21\x11\0\x10" + bytes([198, 51, 100, 9, 127, 0, 0, 1]) + struct.pack(">HH", 4711, 80) + b"\4\0\1x"


class Proxied(Daemon):
    """A daemon with plain and proxied addresses, all with fixed ports."""

    def __init__(self, box, header="X-Forwarded-For", more=""):
        self.ports = {name: free_port() for name in ("resp", "proxied_resp", "plain", "proxied", "tls")}
        self.header, files = header, box.tls()
        self.tls_files, self.extra = f"{{cert: '{files.cert}', key: '{files.key}'}}", more
        self.tls = ssl.create_default_context(cafile=str(files.ca))
        super().__init__(box, {}, engine=None)

    def write(self):
        at = {name: f"{HOST}:{port}" for name, port in self.ports.items()}
        self.config.write_text(f"""
trusted_proxies: {HOST}
http: {{client_header: {self.header}}}
threads: 1
memory: {{size: 16m}}
listen:
  resp: [{at["resp"]}, {{address: {at["proxied_resp"]}, proxy_protocol: true}}]
  http:
    - {{address: {at["proxied"]}, proxy_protocol: true}}
    - {{address: {at["tls"]}, proxy_protocol: true, tls: {self.tls_files}}}
    - {at["plain"]}
policies:
  api: {{limit: gcra 1/d burst 2, key: $client}}
{self.extra}""")

    def connect(self, name, source=HOST):
        return socket.create_connection((HOST, self.ports[name]), PATIENCE_S, source_address=(source, 0))

    def take(self, name="plain", source=HOST, before=b"", headers=(), host="127.0.0.1"):
        """The status of a request whose key is the client's address."""
        with self.connect(name, source) as s:
            s.sendall(before)
            if name == "tls":
                s = self.tls.wrap_socket(s, server_hostname=HOST)
            lines = ["GET /v1/take?policy=api HTTP/1.1", f"Host: {host}", *headers, "Connection: close", "", ""]
            s.sendall("\r\n".join(lines).encode("latin-1"))
            head = s.recv(64)
        return int(head.split()[1]) if head else None


def expect_one_client(take, others):
    """Each variant of a request has the same client: two requests pass, whatever is forged."""
    codes = [take(other) for other in others]
    expect(codes == [200, 200] + [429] * (len(codes) - 2), codes)


def forged_lists(box):
    """What a client sends in X-Forwarded-For does not choose its key."""
    daemon = Proxied(box).start()
    forged = [[], ["203.0.113.1"], ["203.0.113.2, 127.0.0.1"], ["127.0.0.1", "203.0.113.3"], ['"203.0.113.4'],
              ["unknown"], ["[::1]:80, [::1"], ["::ffff:127.0.0.1"], [",,, ,"], ["fe80::1%eth0"],
              ["203.0.113.5," * 900], [f"203.0.113.{i}" for i in range(20)], [""], ["_x, for=203.0.113.6"]]

    def take(lines, own="198.51.100.7"):
        return daemon.take(headers=[f"X-Forwarded-For: {line}" for line in [*lines, own]])

    expect_one_client(take, forged)
    for own in ("198.51.100.7:4711", "::ffff:198.51.100.7", "198.51.100.7, 127.0.0.1"):
        expect(take(["203.0.113.1"], own) == 429, own)
    expect(take([], "198.51.100.8") == 200, "another client")
    # A stranger may send any header; its own address counts.
    expect_one_client(lambda i: daemon.take(source=STRANGER, headers=[f"X-Forwarded-For: 203.0.113.{i}"]), range(4))


def forged_forwarded(box):
    """What a client sends in Forwarded or in its Host does not choose its key."""
    daemon = Proxied(box, header="Forwarded").start()
    forged = ["", "for=203.0.113.1", 'for="203.0.113.2', 'for="203.0.113.3\\', "for=unknown", 'host="a, for=127.0.0.1',
              '"', "for=127.0.0.1;for=203.0.113.4", "for=203.0.113.5," * 600]

    def take(line):
        own = 'host="x\\", for=203.0.113.9";for="198.51.100.7:4711"'
        return daemon.take(headers=[f"Forwarded: {line}", f"Forwarded: {own}", "X-Forwarded-For: 203.0.113.8"])

    expect_one_client(take, forged)
    expect(daemon.take(headers=['Forwarded: for="198.51.100.7"']) == 429, "the same client")
    expect(daemon.take(headers=['Forwarded: for="[2001:db8::7]:1"']) == 200, "another client")


def proxy_protocol(box):
    """The PROXY header names the client, in both versions, before TLS too. Only the proxy may send it."""
    daemon = Proxied(box).start()
    expect([daemon.take("proxied", before=v) for v in (V1, V2)] == [200, 200], "the client has two requests")
    expect(daemon.take("tls", before=V1) == 429, "the same client by TLS")
    expect(daemon.take("tls", before=V2) == 429, "the same client by TLS, version 2")
    # The client is not a trusted proxy, so its own header is not read.
    forged = ["X-Forwarded-For: 203.0.113.1"]
    expect(daemon.take("proxied", before=V1, headers=forged) == 429, "a forged header")
    expect(daemon.take("proxied", before=V1.replace(b".9 ", b".8 ")) == 200, "another client")
    # A proxy of HTTP behind a proxy of TCP: both report.
    inner = V1.replace(b"198.51.100.9", b"127.0.0.1")
    expect(daemon.take("proxied", before=inner, headers=["X-Forwarded-For: 198.51.100.9"]) == 429, "two proxies")
    # LOCAL and UNKNOWN keep the address of the connection.
    expect(daemon.take("proxied", before=SIGNATURE + b"\x20\0\0\0") == 200, "LOCAL")
    expect(daemon.take("proxied", before=b"PROXY UNKNOWN\r\n") == 200, "UNKNOWN")
    expect(daemon.take() == 429, "the address of the connection")
    wrong = V2[:-1] + b"x\3\0\4abcd"
    for before in (b"", b"PROXY\r\n", wrong[:14] + struct.pack(">H", len(wrong) - 16) + wrong[16:]):
        expect(daemon.take("proxied", before=before) is None, before)
    with daemon.connect("proxied", STRANGER) as s:
        expect(s.recv(1) == b"", "a stranger is refused")
    expect(daemon.take("plain", STRANGER) == 200, "a stranger has the other addresses")
    daemon.http = daemon.ports["plain"]
    expect(daemon.metric("weir_connections_bad_proxy_header_total") == 4, daemon.metrics())
    until(lambda: "proxy-header" in daemon.log_text(), "the log")


def every_split(box):
    """The header, and the beginning of TLS, in pieces of every length."""
    daemon = Proxied(box).start()
    for version in (V1, V2):
        for at in range(1, len(version)):
            with daemon.connect("proxied_resp") as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                s.sendall(version[:at])
                s.sendall(version[at:] + b"PING\r\n")
                expect(s.recv(64) == b"+PONG\r\n", f"{version} at {at}")


def in_the_log(box):
    """Wrong passwords are logged with the address in the PROXY header, and counted by it."""
    daemon = Proxied(box, more="password: secret").start()
    with daemon.connect("proxied_resp") as s:
        s.sendall(V1 + b"AUTH guess\r\n")
        expect(s.recv(64).startswith(b"-WRONGPASS"), "a wrong password")
    until(lambda: "198.51.100.9" in daemon.log_text(), "the address of the client")
    expect("peer=127.0.0.1" not in daemon.log_text(), daemon.log_text())


def slow_headers(box):
    """A header that is not complete within limits.request closes the connection, without a reply."""
    daemon = Proxied(box, more="limits: {request: 1s}").start()
    with daemon.connect("proxied") as silent, daemon.connect("tls") as half:
        half.sendall(V2[:20])
        expect(silent.recv(64) == b"", "a silent connection")
        expect(half.recv(64) == b"", "half a header")
    until(lambda: "PROXY header was not complete in time" in daemon.log_text(), "the log")


if __name__ == "__main__":
    sys.exit(run([forged_lists, forged_forwarded, proxy_protocol, every_split, in_the_log, slow_headers], sys.argv,
                 needs_redis=False))
