# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Prints random cases in which the limit of a key changes, for the differential test of the store.

    limit_changes.py --seed 7 --cases 200 --steps 60

The limits of a case have one shape. Each step names the limit that decides it.
"""

import argparse
import json
import random
import sys

from random_vectors import (
    COST_MAX, PERIOD_MAX, RATE_MAX, START_2026, maybe, period, small_or_spread, spread,
)
from vector_format import fields
from weir_reference import Key, parse_policy

LIMITS = 3
TIME_MAX = START_2026 + 2**60
STEP_PERIODS_NS = (1, 1000, 10**8 + 7)


def bucket(rng, ns, shape):
    """Returns a rate per `ns`, and a capacity that is in range. Few rates are whole."""
    n = small_or_spread(rng, RATE_MAX)
    return shape.format(n=n, c=small_or_spread(rng, max(1, min(COST_MAX, PERIOD_MAX * n // ns))))


def window(rng, shape):
    return shape.format(n=small_or_spread(rng, COST_MAX))


def layer(rng):
    """Returns a function that returns the text of a random limit, always of one shape."""
    text, ns = period(rng)
    slices = rng.choice((1, 3, 10, 60))
    if rng.random() < 0.5:
        shape = rng.choice((f"gcra {{n}}/{text} burst {{c}}", f"token-bucket {{c}} refill {{n}}/{text}",
                            f"leaky-bucket {{n}}/{text} capacity {{c}}"))
        return lambda: bucket(rng, ns, shape)
    shape = rng.choice((f"fixed-window {{n}}/{text} from-first", "fixed-window {n}/month", "fixed-window {n}/1h",
                        f"sliding-counter {{n}}/{text}", f"sliding-counter {{n}}/{text} relaxed",
                        f"sliding-slices {{n}}/{slices * 7}s slices {slices}", "sliding-log {n}/1h", "concurrent {n} lease 1h"))
    if shape.startswith(("sliding-log", "concurrent")):
        return lambda: shape.format(n=1 + rng.randrange(30))
    if shape.endswith("/1h"):
        return lambda: window(rng, shape) + " " + maybe(rng, "count-denied")
    return lambda: window(rng, shape)


def steps_bucket(rng):
    ns = rng.choice(STEP_PERIODS_NS)
    return lambda: f"token-bucket {small_or_spread(rng, COST_MAX)} refill {small_or_spread(rng, 2**20)} every {ns}ns"


def limits(rng):
    """Returns texts of limits of one shape."""
    if rng.random() < 0.1:
        make = steps_bucket(rng)
        return [make() for _ in range(LIMITS)]
    layers = [layer(rng) for _ in range(rng.choice((1, 1, 1, 2)))]
    block = rng.choice(("", "", "", " & block 90s", " & block 1s doubling 1h"))
    return [" & ".join(make() for make in layers) + block for _ in range(LIMITS)]


def time_after(rng, key, now, last):
    roll = rng.random()
    if roll < 0.5 or last is None:
        return now
    if roll < 0.8:
        wait = rng.choice((last.retry_after_ns or 0, last.reset_after_ns))
        return min(TIME_MAX, now + max(0, wait + rng.choice((-1, 0, 1))))
    edge = rng.choice(key.layers).edge_after(now)
    return min(TIME_MAX, now + rng.randrange(edge - now + 1))


def cost_of(rng, last):
    roll = rng.random()
    if roll < 0.4 or last is None:
        return 1
    if roll < 0.7:
        return rng.choice((0, last.remaining, min(COST_MAX, last.remaining + 1), last.remaining // 2))
    return spread(rng, last.limit)


def case(rng, name, length):
    texts = limits(rng)
    layers = [parse_policy(text) for text in texts]
    key, current, now, last, steps = Key(layers[0]), 0, START_2026 + rng.randrange(2**50), None, []
    for _ in range(length):
        now = time_after(rng, key, now, last)
        index = rng.randrange(LIMITS) if rng.random() < 0.3 else current
        if index != current:
            key.change_limit(now, layers[index])
            current = index
        cost = cost_of(rng, last)
        refunds = rng.random() < 0.15 and all(layer.refundable for layer in key.layers)
        last = key.refund(now, cost) if refunds else key.take(now, cost)
        steps.append({"index": index, "op": "refund" if refunds else "take", "t_ns": now, "cost": cost,
                      "allowed": last.allowed} | fields(last))
    return {"name": name, "limits": texts, "steps": steps}


def main():
    parser = argparse.ArgumentParser(description="Prints random changes of limits.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--cases", type=int, required=True)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cases = [case(rng, f"seed {options.seed} case {i}", options.steps) for i in range(options.cases)]
    json.dump({"schema": "weir-limit-changes/1", "cases": cases}, sys.stdout)


if __name__ == "__main__":
    main()
