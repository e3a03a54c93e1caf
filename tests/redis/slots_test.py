#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Atomic slot migration of Valkey 9: CLUSTER MIGRATESLOTS moves slots with the states of the module.
The states, their expiries and their replicas are the same afterwards, and no charge is lost or repeated.
Skipped where valkey-server is missing or older than 9.

    slots_test.py WEIR MODULE [NAME...]"""

import binascii
import contextlib
import re
import shutil
import subprocess
import sys

from kit.process import Skipped, expect, run, until
from kit.redis import Cluster
from kit.resp import Refused

SLOTS = 100  # the first slots, which are moved
LIMIT = 3000
POLICIES = ["gcra 100/h burst 1000", "gcra 3/h burst 7", "gcra 10/s burst 5 & gcra 1000/d", "fixed-window 50/d",
            "fixed-window 50/d from-first", "sliding-log 200/d", "sliding-counter 100/d",
            "sliding-slices 100/d slices 16", "leaky-queue 10/h depth 20"]


def valkey_server():
    """The path of a valkey-server of version 9 or later."""
    path = shutil.which("valkey-server")
    if not path:
        raise Skipped("valkey-server is missing, expected version 9 or later")
    text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    version = re.search(r"v=(\d+)", text)
    if not version or int(version[1]) < 9:
        raise Skipped(f"expected valkey-server 9 or later, found: {text.strip()}")
    return path


def keys_to_move(count):
    return [key for key in (f"key{i}" for i in range(200000))
            if binascii.crc_hqx(key.encode(), 0) % 16384 < SLOTS][:count]


def charge(node, keys):
    """Charges each policy on keys of its own, and all of them on one key."""
    for i, key in enumerate(keys[1:]):
        for n in range(1 + i % 3):
            node.call("WEIR.CHECK", POLICIES[i % len(POLICIES)], key, "COST", n + 1)
    for policy in POLICIES:
        node.call("WEIR.CHECK", policy, keys[0])


def states(node, keys, replica=False):
    """The digest and the expiry of each key."""
    with contextlib.closing(node.client()) as client:
        if replica:
            client.call("READONLY")
        return {key: (client.call("DEBUG", "DIGEST-VALUE", key), client.call("PEXPIRETIME", key))
                for key in keys}


class Migration:
    """A Cluster, the master of the first slots, and another master that will have them."""

    def __init__(self, box):
        self.cluster = Cluster(box, module=True, program=valkey_server())
        known = self.cluster.known()
        self.source = self.cluster.by_port(next(port for port, _, slots in known.values()
                                                if slots and slots[0][0] == 0))
        self.name, self.target = next((name, node) for name, node in self.cluster.masters().items()
                                      if node is not self.source)

    def begin(self):
        reply = self.source.call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, SLOTS - 1, "NODE", self.name)
        expect(reply == "OK", f"MIGRATESLOTS is accepted: {reply}")

    def is_complete(self):
        return any(first == 0 for first, _ in self.cluster.told_by(self.target)[self.name][2])


def same_states(box):
    """Every kind of state moves unchanged."""
    move, keys = Migration(box), keys_to_move(200)
    charge(move.source, keys)
    before = states(move.source, keys)
    expect(all(at > 0 for _, at in before.values()), "every key has an expiry")
    move.begin()
    until(move.is_complete, "the slots have moved")
    expect(states(move.target, keys) == before, "the new master has the same states and expiries")
    replica = move.cluster.replica_of(move.target)
    until(lambda: states(replica, keys, replica=True) == before, "so has its replica")
    until(lambda: move.source.call("DBSIZE") == 0, "the old master deletes them")


def charged_meanwhile(box):
    """A key is charged while its slot moves: exactly its limit is admitted."""
    move, keys = Migration(box), keys_to_move(2000)
    charge(move.source, keys)
    take, admitted, moved = ("WEIR.CHECK", f"sliding-log {LIMIT}/w", keys[0]), 0, False
    with contextlib.closing(move.source.client()) as old, contextlib.closing(move.target.client()) as new:
        for n in range(2 * LIMIT):
            if n == LIMIT // 3:
                move.begin()
            try:
                reply = (new if moved else old).call(*take)
            except Refused as refused:
                expect(not moved and str(refused).startswith("MOVED"), f"the only error is MOVED: {refused}")
                moved = True
                continue
            admitted += reply[0]
            if n == LIMIT // 2 and not moved:
                until(move.is_complete, "the slots have moved")
    expect(moved, "the slots moved meanwhile")
    expect(admitted == LIMIT, f"{admitted} of {LIMIT} were admitted")


if __name__ == "__main__":
    sys.exit(run([same_states, charged_meanwhile], sys.argv, needs_redis=False))
