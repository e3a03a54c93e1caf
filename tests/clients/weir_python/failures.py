# SPDX-License-Identifier: BSD-2-Clause
"""Answers one line for each line of its input: a decision of the daemon at a port, the failures so far, and what remains.

    failures.py sync|async PORT

`closed` asks a limiter with on_error=closed, every other word one with the default."""

import asyncio
import sys
import time

import weir

TIMEOUT_S = 0.5
seen = {}


def limiters(kind, port):
    for name in ("open", "closed"):
        seen[name] = []
        yield name, kind("api", f"weir://127.0.0.1:{port}?timeout={TIMEOUT_S}&on_error={name}", on_failure=seen[name].append)


def show(limiter, name, decision, began):
    assert time.monotonic() - began < 20 * TIMEOUT_S, "it took long"
    assert limiter.failures == len(seen[name]) and all(isinstance(error, weir.Unavailable) for error in seen[name])
    print(f"allowed {decision.allowed} {decision.reason}, failures {limiter.failures}, remaining {decision.remaining}", flush=True)


def sync(port):
    of = dict(limiters(weir.Limiter, port))
    for line in sys.stdin:
        name, began = "closed" if line == "closed\n" else "open", time.monotonic()
        show(of[name], name, of[name].check("a"), began)


async def with_asyncio(port):
    of = dict(limiters(weir.AsyncLimiter, port))
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, began = "closed" if line == "closed\n" else "open", time.monotonic()
        show(of[name], name, await of[name].check("a"), began)


if sys.argv[1] == "sync":
    sync(sys.argv[2])
else:
    asyncio.run(with_asyncio(sys.argv[2]))
