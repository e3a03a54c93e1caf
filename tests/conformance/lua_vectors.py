#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Runs vectors with times in whole microseconds through the Functions library in a real redis-server,
with a fake clock in a key: half of the cases as functions, the others as a script. The replies must equal
the vectors in microseconds, rounded up. Unsupported cases are counted: policies that the library refuses,
time zones if the clock steps back, which it may only do by one window, and reservations. Most other cases of
each file must be supported.

    lua_vectors.py FILE...                      runs vectors
    lua_vectors.py --random SEED CASES STEPS    compares with the model on random policies
    lua_vectors.py --changes SEED CASES STEPS   the same on keys whose limit changes"""

import argparse
import json
import math
import os
import random
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import limit_changes
import random_vectors
import weir_reference as model
from kit import lua
from vector_format import MicrosecondCase

CASES_MIN = 40  # of a file
REFUSED = " do not support "
LIMITS_OF_DOUBLES = ("whole microseconds", "a number of slices")
FIELDS = ("limit", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns", "layer")
NEVER = (None, model.INT64_MAX)


def up_us(ns):
    return -(-ns // 1000)


def wanted(step):
    """The first seven integers of the reply to a step, or None if the refund is not supported."""
    if not step.get("ok", True):
        return None
    retry = step["retry_after_ns"]
    return [int(step.get("allowed", step["op"] != "take")), step["limit"], step["remaining"],
            -1 if retry in NEVER else up_us(retry), up_us(step["reset_after_ns"]), up_us(step["delay_ns"]),
            step["layer"]]


def units(step):
    """The cost of a step, with what it keeps."""
    return f"{step['cost']}+{step['keep']}" if "keep" in step else step["cost"]


def bounds(layers, now_ns):
    """The calendar windows that a request has for each layer with a time zone."""
    out = []
    for layer in layers:
        windows = getattr(layer, "windows", None)
        if not isinstance(windows, model.CalendarWindows) or windows.zone == "UTC":
            continue
        start, after = windows.bounds(now_ns)
        before = windows.bounds(start - 1)[0] if start > 0 else start
        out += [max(0, t) // 1000 for t in (before, start, after, windows.bounds(after)[1])]
    return out


def commands(adapter, policy, steps, key):
    for step in steps:
        policy = step.get("policy", policy)
        layers = model.parse_policy(policy)
        yield ("SET", lua.CLOCK_KEY, step["t_ns"] // 1000)
        yield adapter.call("weir_ask", [key], step["op"].upper(), policy, units(step), *bounds(layers, step["t_ns"]))


def difference(policy, steps, answers):
    for i, (step, answer) in enumerate(zip(steps, answers[1::2])):
        want = wanted(step)
        if want is None:
            good = isinstance(answer, lua.Refused) and REFUSED in str(answer)
        elif isinstance(answer, lua.Refused):
            good = False
        elif step["op"] == "refund":
            good = answer[1:7] == want[1:]
        else:
            granted = step["cost"] - step["over"] if step["op"] == "charge" else step.get("granted", 0)
            good = answer[:7] == want and answer[7] == granted
        if not good:
            before = "".join(f"\n    {s} -> {a}" for s, a in zip(steps[:i], answers[1::2]))
            return f"step {i}{before}\n    step {step}\n    want {want}\n    got  {answer!r}"
    return ""


class Adapter:
    def __init__(self, client):
        self.client = client
        self.ways = [way(client, lua.with_clock(lua.library())) for way in (lua.Functions, lua.Script)]
        self.run = self.unsupported = self.reserving = self.steps = 0

    def refused(self, policy):
        """Whether the policy exceeds the limits of the library. Any other error is raised."""
        try:
            self.client(*self.ways[0].call("weir_policy_check", [], policy))
            return False
        except lua.Refused as e:
            if not any(reason in str(e) for reason in LIMITS_OF_DOUBLES):
                raise
            return True

    def case(self, tally, name, policy, steps):
        if "policy" not in steps[0] and self.refused(policy):
            self.unsupported += 1
            return
        way = self.ways[len(name) % 2]
        self.run += 1
        self.steps += len(steps)
        key = f"{{test}}:{self.run}"
        wrong = difference(policy, steps, self.client.many(list(commands(way, policy, steps, key))))
        self.client("DEL", key)
        tally.check(not wrong, f"{way.name}: {name} ({policy}): {wrong}")

    def end_file(self, tally, what):
        unsupported = self.unsupported + self.reserving
        print(f"lua      {self.run:5} cases, {self.steps:6} steps, {unsupported:4} unsupported  {what}")
        if self.run + self.reserving < max(CASES_MIN, self.unsupported):
            tally.check(False, f"{what}: too few cases: {self.run}, and {unsupported} are unsupported")
        self.run = self.unsupported = self.reserving = self.steps = 0


def run_files(tally, adapter, paths):
    for path in paths:
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        for case in document["cases"]:
            if any(step["op"] == "reserve" for step in case["steps"]):
                adapter.reserving += 1
                continue
            if "tz " in case["policy"] and not document["monotone"]:
                adapter.unsupported += 1
                continue
            adapter.case(tally, case["name"], case["policy"], case["steps"])
        adapter.end_file(tally, os.path.basename(path))


# ---- random policies -----------------------------------------------------------------------------


def whole_period(rng):
    """Like the periods of the model, but mostly in whole microseconds."""
    text, ns = random_vectors_period(rng)
    if ns % 1000 == 0 or rng.random() < 0.1:
        return text, ns
    us = min(max(1, ns // rng.choice((1, 1000))), model.PERIOD_MAX // 1000)
    return f"{us}us", us * 1000


class WholeCase(MicrosecondCase):
    """A case also with the operations peek and grant."""

    def note(self, op, cost, decision, **more):
        answer = {field: getattr(decision, field) for field in FIELDS}
        self.steps.append(self.request(op, cost) | {"allowed": decision.allowed} | answer | more)
        return decision

    def look(self, cost):
        states = zip(self.key.layers, self.key.states)
        if all(layer.allows(state, self.now, cost) for layer, state in states):
            return self.key.take(self.now, 0)
        return self.key.denied_decision(self.now, cost, [0] * len(self.key.layers))

    def peek(self, cost, at):
        self.move_to(at)
        return self.note("peek", cost, self.look(cost))

    def grant(self, cost, at):
        self.move_to(at)
        left = min(model.COST_MAX * layer.allows(state, self.now, 0) if isinstance(layer, model.Block)
                   else model.remaining(layer, state, self.now)
                   for layer, state in zip(self.key.layers, self.key.states))
        granted = min(cost, left)
        self.key.take(self.now, granted)
        return self.note("grant", cost, self.look(1), granted=granted)


class WholeWalk(random_vectors.Walk):
    def take(self):
        roll = self.rng.random()
        if roll < 0.1:
            self.last = self.case.peek(self.cost(), self.time())
        elif roll < 0.2:
            self.last = self.case.grant(self.cost(), self.time())
        else:
            super().take()

    def check_retry(self, cost):
        until = up_us(self.case.now + self.last.retry_after_ns) * 1000
        if until - 1000 >= self.case.now:
            self.last = self.case.take(cost, until - 1000)
        self.last = self.case.take(cost, until)


# Small limits and short periods, so that all is used up and refunded within a few steps.
CLOSE = (
    "gcra 3/7s burst 4", "token-bucket 9 refill 3/7us", "token-bucket 10 refill 3 every 1s",
    "token-bucket 7 refill 2 every 3us", "leaky-bucket 3/s capacity 5", "leaky-queue 3/s depth 4",
    "leaky-queue 7/10s depth 6 nodelay 3",
    "fixed-window 5/10s", "fixed-window 5/10s from-first", "fixed-window 5/10s from-first count-denied",
    "fixed-window 5/day count-denied", "sliding-log 6/10s", "sliding-log 6/9us count-denied", "sliding-counter 9/10s",
    "sliding-counter 9/7us relaxed", "sliding-counter 7/9us", "sliding-slices 8/10s slices 4",
    "sliding-slices 8/7us slices 7", "sliding-slices 8/10us slices 3",
    "token-bucket 10 refill 3 every 1s & sliding-counter 7/3s", "sliding-log 5/9us count-denied & sliding-slices 9/9us slices 2",
)


class CloseWalk(WholeWalk):
    """Goes back and forth by a few edges of a policy of CLOSE."""

    def take(self):
        super().refund() if self.rng.random() < 0.15 else super().take()

    def time(self):
        edge = self.rng.choice(self.case.layers).edge_after(self.case.now) - self.case.now
        near = self.case.now + self.rng.choice((0, 1, 1, 2, -1, -2)) * edge + self.rng.choice((-1000, 0, 0, 1000))
        return super().time() if self.rng.random() < 0.4 else max(0, near)

    def scale(self):
        return self.rng.choice(self.case.layers).edge_after(self.case.now) - self.case.now


def run_close(tally, adapter, seed, steps):
    rng = random.Random(seed)
    for i in range(2 * len(CLOSE)):
        case = WholeCase(f"seed {seed} close case {i}", CLOSE[i % len(CLOSE)])
        case.move_to(random_vectors.START_2026 + rng.randrange(10**9) * 1000)
        CloseWalk(rng, case, monotone=False).run(steps)
        adapter.case(tally, case.name, case.policy, case.steps)


def run_random(tally, adapter, seed, cases, steps):
    rng = random.Random(seed)
    for i in range(cases):
        policy = random_vectors.policy(rng)
        case = WholeCase(f"seed {seed} case {i}", policy)
        case.move_to(random_vectors.start(rng))
        if adapter.refused(policy):
            adapter.unsupported += 1
            continue
        # A request has only the windows around its own time, so the clock must not step far back.
        WholeWalk(rng, case, monotone="tz " in policy).run(steps)
        adapter.case(tally, case.name, policy, case.steps)
    run_close(tally, adapter, seed, steps)
    adapter.end_file(tally, f"random policies, seed {seed}")


# ---- limits that change --------------------------------------------------------------------------


def carry_over(layer, old, tat, now):
    """As the model's, but rounded up to a tick of the library: 1/num us."""
    backlog = old.backlog(tat, now)
    if backlog == 0:
        return layer.initial
    unit = 1000 if layer.period % 1000 == 0 else 1
    tick = unit * math.gcd(layer.period // unit, layer.n * (1000 // unit))
    most = up_us(model.PERIOD_MAX) * 1000 * layer.n
    return now * layer.n + min(-(-backlog * layer.period // (old.period * tick)) * tick, most)


def changes_of(rng, name, steps):
    """A case in whole microseconds."""
    case = limit_changes.case(rng, name, steps)
    for step in case["steps"]:
        step["policy"] = case["limits"][step["index"]]
    return case


def run_changes(tally, adapter, seed, cases, steps):
    time_after, period = limit_changes.time_after, limit_changes.period
    model.Rate.carry_over = carry_over
    limit_changes.time_after = lambda *of: up_us(time_after(*of)) * 1000
    limit_changes.period = whole_period
    limit_changes.STEP_PERIODS_NS = (1000, 7000, 10**8)
    rng = random.Random(seed)
    for i in range(cases):
        case = changes_of(rng, f"seed {seed} change {i}", steps)
        if any(map(adapter.refused, case["limits"])):
            adapter.unsupported += 1
        else:
            adapter.case(tally, case["name"], " / ".join(case["limits"]), case["steps"])
    limit_changes.period = period
    adapter.end_file(tally, f"limits that change, seed {seed}")


random_vectors_period = random_vectors.period
random_vectors.period = whole_period


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", nargs=3, type=int)
    parser.add_argument("--changes", nargs=3, type=int)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()

    def run_all(tally):
        """vectors, as functions or as a script"""
        with lua.Server() as server:
            adapter = Adapter(server.client())
            if options.random:
                run_random(tally, adapter, *options.random)
            if options.changes:
                run_changes(tally, adapter, *options.changes)
            run_files(tally, adapter, options.files)

    return lua.run(run_all)


if __name__ == "__main__":
    sys.exit(main())
