# SPDX-License-Identifier: BSD-2-Clause
"""Runs the shared vectors through the package.

    vectors.py weir://HOST:PORT CLOCK FILE...   CLOCK is the file that the daemon reads its time from
    vectors.py weir+file:///PATH '' FILE...

All cases are in one store, each with a key of its own, and their steps are made in the order of their times. The last
line of the output counts the cases; unsupported are those with a clock that steps back."""

import fractions
import json
import struct
import sys

import weir

url, clock_file, *files = sys.argv[1:]
in_file = url.startswith("weir+file")
now = {"ns": 0}
clock = open(clock_file, "r+b", buffering=0) if clock_file else None


def set_clock(ns):
    now["ns"] = ns
    if clock:
        clock.seek(0)
        clock.write(struct.pack("=q", ns))


def in_unit(ns):
    """A time as the package returns it: the daemon answers in whole milliseconds, rounded up."""
    return ns if in_file or ns is None else -(-ns // 1_000_000) * 1_000_000


def wanted(step):
    if step.get("ok") is False:
        return None
    retry_ns = in_unit(step["retry_after_ns"])
    return (step.get("allowed", retry_ns == 0), step["limit"], step["remaining"], retry_ns,
            in_unit(step["reset_after_ns"]), in_unit(step["delay_ns"]), step.get("over", 0))


class Case:
    def __init__(self, one, key, limiter):
        self.name, self.key, self.limiter, self.ids, self.failed = one["name"], key, limiter, {}, False

    def call(self, step):
        limiter, cost = self.limiter, step["cost"]
        ttl = fractions.Fraction(step["ttl_ns"], 10**9) if "ttl_ns" in step else None
        if step["op"] == "take":
            return limiter.check(self.key, cost, step.get("keep", 0), named="keep" in step)
        if step["op"] in ("refund", "charge"):
            return getattr(limiter, step["op"])(self.key, cost)
        if step["op"] == "reserve":
            reservation = limiter.reserve(self.key, cost, ttl)
            self.ids[step["id"]] = reservation.id
            return reservation.decision
        more = {"commit": [cost], "renew": [ttl], "cancel": []}[step["op"]]
        return getattr(limiter, step["op"])(self.ids[step["id"]], *more)

    def found(self, step):
        try:
            d = self.call(step)
        except (weir.UnsupportedError, weir.ReservationError):
            return None
        return (d.allowed, d.limit, d.remaining, d.retry_after_ns, d.reset_after_ns, d.delay_ns, d.over)

    def judge(self, step):
        if self.failed:
            return
        expected, found = wanted(step), self.found(step)
        if found != expected:
            self.failed = True
            print(f"{self.name}: {step}: expected {expected}, found {found}")


limiters = {}
cases, steps, unsupported = [], [], 0
options = {"size": "128m", "clock": lambda: now["ns"]} if in_file else {"timeout": 30}
for file in files:
    with open(file, encoding="utf-8") as text:
        document = json.load(text)
    if not document["monotone"]:
        unsupported += len(document["cases"])
        continue
    for one in document["cases"]:
        policy = one["policy"]
        if policy not in limiters:
            limiters[policy] = weir.Limiter(policy, url, on_error="raise", **options)
        cases.append(Case(one, f"case-{len(cases)}", limiters[policy]))
        steps += [(step["t_ns"], len(cases) - 1, number, step) for number, step in enumerate(one["steps"])]

for t_ns, case, _, step in sorted(steps, key=lambda one: one[:3]):
    set_clock(t_ns)
    cases[case].judge(step)
failed = sum(case.failed for case in cases)
print(f"{len(cases) - failed} cases passed, {failed} failed, {unsupported} unsupported, {len(steps)} steps")
sys.exit(failed > 0)
