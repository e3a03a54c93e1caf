# SPDX-License-Identifier: BSD-2-Clause
"""limits in memory: its fixed window, the cheapest of its strategies, which reads the clock
itself."""

import statistics
import sys
import time

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

KEYS = 1000000
REQUESTS = 1 << 18  # a part of the file, because it is slow
ROUNDS = 3


def median(limiter, limit, requests):
    """Millions of requests a second."""
    figures = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for key in requests:
            if not limiter.hit(limit, key):
                raise SystemExit("a request was denied")
        figures.append(len(requests) / (time.process_time() - began) / 1e6)
    return statistics.median(figures)


def main():
    with open(sys.argv[1]) as f:
        lines = f.read().split()
    limiter, limit = FixedWindowRateLimiter(MemoryStorage()), parse("1000000000/hour")
    for key in lines[:KEYS]:
        limiter.hit(limit, key)
    many = median(limiter, limit, lines[KEYS : KEYS + REQUESTS])
    one = median(limiter, limit, ["one-hot-key-of-all"] * REQUESTS)
    print('{"hot": %.4f, "1M": %.4f}' % (one, many))


main()
