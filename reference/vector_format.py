# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""The format of tests/vectors: the requests to one new key, and the decisions of the model."""

import json

from weir_reference import NS_MAX, Key, parse_policy

US = 1000
MICROSECONDS_MAX = 6_700_000_000_000_000  # in the year 2182, so that 73 years later is still below 2^53

FIELDS = ("limit", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns", "layer")


class Case:
    """One new key. Sends requests to the model and records them with the decisions. `now` is the last time.
    The clock has steps of `tick` ns, and ends at `end`."""

    tick, end = 1, NS_MAX

    def __init__(self, name, policy, start=0):
        self.name, self.policy, self.now = name, policy, start
        self.layers = parse_policy(policy)
        self.key = Key(self.layers)
        self.steps = []
        self.reservations = []  # of each `reserve`; None if it was denied
        self.limit = min(layer.limit for layer in self.layers)

    def take(self, cost=1, at=None, keep=0):
        decision = self.key.take(self.move_to(at), cost, keep)
        kept = {"keep": keep} if keep else {}
        self.steps.append(self.request("take", cost) | kept | verdict(decision))
        return decision

    def refund(self, cost=1, at=None):
        decision = self.key.refund(self.move_to(at), cost)
        answer = {"ok": False} if decision is None else {"ok": True} | fields(decision)
        self.steps.append(self.request("refund", cost) | answer)
        return decision

    def charge(self, cost=1, at=None):
        charged = self.key.charge(self.move_to(at), cost)
        answer = {"ok": False}
        if charged:
            answer = {"ok": True} | verdict(*charged)
        self.steps.append(self.request("charge", cost) | answer)
        return charged[0] if charged else self.take(0)

    def reserve(self, cost=1, at=None, ttl=None):
        """The reservation has the next number. Steps with the number of one that was denied are peeks."""
        made = self.key.reserve(self.move_to(at), cost, ttl)
        step = self.request("reserve", cost) | {"id": len(self.reservations)} | ({"ttl_ns": ttl} if ttl else {})
        answer = {"ok": True} | verdict(made[0]) if made else {"ok": False}
        self.reservations.append(made[1] if made else None)
        self.steps.append(step | answer)
        return made[0] if made else self.take(0)

    def renew(self, id_, at=None, ttl=None):
        if not self.reservations[id_]:
            return self.take(0, at)
        decision = self.key.renew(self.move_to(at), self.reservations[id_], ttl)
        step = self.request("renew", 0) | {"id": id_} | ({"ttl_ns": ttl} if ttl else {})
        answer = {"ok": True} | verdict(decision) if decision else {"ok": False}
        self.steps.append(step | answer)
        return decision or self.take(0)

    def commit(self, id_, cost, at=None, op="commit"):
        if not self.reservations[id_]:
            return self.take(0, at)
        settled = self.key.commit(self.move_to(at), self.reservations[id_], cost)
        answer = {"ok": False}
        if settled:
            answer = {"ok": True} | verdict(*settled)
        self.steps.append(self.request(op, cost) | {"id": id_} | answer)
        return settled[0] if settled else self.take(0)

    def cancel(self, id_, at=None):
        return self.commit(id_, 0, at, op="cancel")

    def up(self, at):
        """Returns the first tick at or after a time."""
        return -(-at // self.tick) * self.tick

    def move_to(self, at):
        """Never moves back if `at` is now or later."""
        if at is not None:
            at = at // self.tick * self.tick if at < self.now else self.up(at)
            self.now = max(0, min(self.end, at))
        return self.now

    def request(self, op, cost):
        return {"op": op, "t_ns": self.now, "cost": cost}


class MicrosecondCase(Case):
    """A case at times that the clock of a Redis server can have."""

    tick, end = US, MICROSECONDS_MAX * US


def fields(decision):
    return {field: getattr(decision, field) for field in FIELDS}


def verdict(decision, over=None):
    return {"allowed": decision.allowed} | ({} if over is None else {"over": over}) | fields(decision)


def document(cases, monotone):
    """Returns the file of vectors as text, with one step per line for readable diffs."""
    compact = {"separators": (",", ":")}
    head = f'{{"schema": "weir-vectors/1", "monotone": {json.dumps(monotone)}, "cases": [\n'
    blocks = []
    for case in cases:
        lines = ",\n".join("  " + json.dumps(step, **compact) for step in case.steps)
        title = f' {{"name": {json.dumps(case.name)}, "policy": {json.dumps(case.policy)}, "steps": [\n'
        blocks.append(f"{title}{lines}\n ]}}")
    return head + ",\n".join(blocks) + "\n]}\n"
