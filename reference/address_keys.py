# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""The model of keys that are IP addresses, on top of Python's ipaddress module.

An IPv4-mapped IPv6 address is the IPv4 address. All addresses of a network with a prefix of `v4` or `v6` bits
are one key, in the form of RFC 5952. Any other key is its bytes.
"""

import ipaddress
import json
import random

V4, V6 = 32, 64  # the default prefixes

PLAIN = (
    "alice", "user:42", "", ":", "::1%lo", "fe80::1%eth0", "[::1]", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256",
    "1.2.3.4 ", " 1.2.3.4", "1.2.3.4:80", "1.2.3.4/32", "::/64", "2001:db8::/64", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
    "1::2::3", ":::", "1:2:3:4:5:6:7:", ":1:2:3:4:5:6:7", "12345::", "g::", "::1.2.3", "1.2.3.4::", "::1.2.3.4:5",
    "1:2:3:4:5:6:7:1.2.3.4", "::ffff:1.2.3.04", "0x1.2.3.4", "1.2.3.٤", "dead", "a:b", "-", "%",
)
ADDRESSES = (
    "1.2.3.4", "0.0.0.0", "255.255.255.255", "::", "::1", "1::", "2001:db8::1", "2001:DB8:0:0:0:0:0:1",
    "2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::2", "2001:db8:0:0:ffff:ffff:ffff:ffff", "2001:db8:0:1::1",
    "2001:db8::1:0:0:1", "2001:0:0:1:0:0:0:1", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8",
    "::ffff:1.2.3.4", "::FFFF:1.2.3.4", "::ffff:102:304", "0:0:0:0:0:ffff:1.2.3.4", "::1.2.3.4", "64:ff9b::1.2.3.4",
    "::fffe:1.2.3.4", "0:1::", "fe80::1", "abcd:ef01:2345:6789:abcd:ef01:2345:6789", "dead::beef", "0:0:1::",
)


def key_of(text, v4=V4, v6=V6):
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if getattr(address, "scope_id", None) or not text.isascii():
        return text
    address = getattr(address, "ipv4_mapped", None) or address
    bits = v4 if address.version == 4 else v6
    if bits == address.max_prefixlen:
        return str(address)
    return str(ipaddress.ip_network(f"{address}/{bits}", strict=False))


def spelt(rng, number):
    """Returns a random spelling of an IPv6 address."""
    groups = [number >> 16 * (7 - i) & 0xFFFF for i in range(8)]
    words = [rng.choice((f"{g:x}", f"{g:X}", f"{g:04x}")) for g in groups]
    tail = 8
    if rng.random() < 0.3:
        words[6:] = [str(ipaddress.IPv4Address(number & 0xFFFFFFFF))]
        tail = 6
    runs = [(i, j) for i in range(tail) for j in range(i + 1, tail + 1) if not any(groups[i:j])]
    if not runs or rng.random() < 0.3:
        return ":".join(words)
    i, j = rng.choice(runs)
    return ":".join(words[:i]) + "::" + ":".join(words[j:])


def random_address(rng):
    if rng.random() < 0.3:
        number = rng.choice((0, 0xFFFF << 32)) | rng.getrandbits(32)
        return spelt(rng, number) if rng.random() < 0.6 else str(ipaddress.IPv4Address(number & 0xFFFFFFFF))
    groups = [rng.choice((0, 0, 0, 1, 0x20, 0xFFFF, rng.getrandbits(16))) for _ in range(8)]
    return spelt(rng, sum(g << 16 * (7 - i) for i, g in enumerate(groups)))


def rows():
    rng = random.Random(20260101)
    texts = [text for text in PLAIN if text] + list(ADDRESSES) + [random_address(rng) for _ in range(120)]
    for text in texts:
        yield text, V4, V6
    for text in texts:
        yield text, rng.choice((0, 1, 8, 15, 24, 31, 32)), rng.choice((0, 1, 7, 32, 48, 63, 65, 96, 127, 128))


def document():
    lines = [" " + json.dumps({"text": text, "v4": v4, "v6": v6, "key": key_of(text, v4, v6)}) for text, v4, v6 in rows()]
    return '{"schema": "weir-keys/1", "keys": [\n' + ",\n".join(lines) + "\n]}\n"
