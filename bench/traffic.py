#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Prints the log of generated traffic in the order of time, one request a line: its time in nanoseconds, TAB, its
source. docs/accuracy.md defines each kind of traffic. The same options print the same log on every machine: all
arithmetic is on integers.

    bench/traffic.py poisson --rate 90/m --sources 100 --requests 400000 | weir accuracy --limit 100/m -"""

import argparse
import heapq
import itertools
import re
import sys

KINDS = ("steady", "poisson", "bursty", "heavy-tailed")
UNITS_NS = {"s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
MASK = 2**64 - 1
BEGIN_NS = 1767225600 * 10**9  # 2026-01-01T00:00:00Z
LAST_NS = 7 * 2**60
LN2 = 2977044472  # in units of 2^-32, rounded down


class SplitMix:
    """splitmix64, of Steele, Lea and Flood."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)


def log2_entry(i):
    """Returns log2(1 + i/1024) in units of 2^-40, from the squares of a number of 31 bits after the point."""
    if i == 1024:
        return 2**40
    x, bits = (1024 + i) * 2**21, 0
    for _ in range(40):
        x, bits = x * x // 2**31, bits * 2
        if x >= 2**32:
            x, bits = x // 2, bits + 1
    return bits


LOG2 = [log2_entry(i) for i in range(1025)]


def minus_log2(u):
    """Returns -log2(u / 2^64) in units of 2^-40."""
    exponent = u.bit_length() - 1
    fraction = (u << (64 - exponent)) & MASK  # 64 bits after the leading one
    step, rest = divmod(fraction, 2**54)
    rest //= 2**22
    return (64 - exponent) * 2**40 - LOG2[step] - (LOG2[step + 1] - LOG2[step]) * rest // 2**32


def shares(kind, sources, requests):
    """Returns how many requests each source sends."""
    weights = [2**30 // (i + 1) if kind == "heavy-tailed" else 1 for i in range(sources)]
    total, sent, weight, counts = sum(weights), 0, 0, []
    for w in weights:
        weight += w
        counts.append(weight * requests // total - sent)
        sent = weight * requests // total
    return counts


def source_times(kind, number, count, span_ns, seed):
    """Yields the times of the requests of source `number`, counted from 1."""
    random = SplitMix(SplitMix(seed).next() ^ (number * 0xD1342543DE82EF95 & MASK))
    random = SplitMix(random.next())
    gap = -(-span_ns // count)
    gap_unit = gap * LN2 // 2**32
    now = BEGIN_NS + random.next() * gap // 2**64
    for _ in range(count):
        yield now
        if kind == "steady":
            step = gap
        else:
            parts = 10
            if kind == "bursty":
                parts = 181 if random.next() * 20 // 2**64 == 0 else 1
            step = (gap_unit * minus_log2(random.next() | 1) // 2**40) * parts // 10
        now = min(now + step, LAST_NS)


def generate(kind, sources, requests, rate, period_ns, seed):
    """Returns the times of each source that sends requests, as iterators."""
    span_ns = requests * period_ns // (sources * rate)
    counts = enumerate(shares(kind, sources, requests), 1)
    return [source_times(kind, number, count, span_ns, seed) for number, count in counts if count]


def rate_of(text):
    found = re.fullmatch(r"([1-9][0-9]*)/([smhd])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected a number and a period such as 5/m, found '{text}'")
    return int(found[1]), UNITS_NS[found[2]]


def main():
    parser = argparse.ArgumentParser(description="Prints the log of generated traffic.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--sources", type=int, default=1000, help="how many send requests (1000)")
    parser.add_argument("--requests", type=int, default=1000000, help="how many all of them send (1000000)")
    parser.add_argument("--rate", type=rate_of, default="100/m", metavar="N/P", help="the mean rate of a source (100/m)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (1)")
    o = parser.parse_args()
    times = generate(o.kind, o.sources, o.requests, *o.rate, o.seed)
    log = heapq.merge(*(zip(source, itertools.repeat(i)) for i, source in enumerate(times)))
    sys.stdout.writelines(f"{now}\t{i}\n" for now, i in log)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()
