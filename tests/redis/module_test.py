#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests the module in real redis-servers: the replies and the states of its commands, and that states
are the same in replicas, files, other nodes of a Cluster and after a restart.

    module_test.py MODULE WEIR [TEST ...]
"""

import contextlib
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

from module_kit import Client, Error, Server
from kit.process import Box, Failed, free_port, until
from kit.weir import Daemon

POLICIES = ["gcra 1/h burst 100", "gcra 7/d burst 50", "token-bucket 50 refill 100/h",
            "token-bucket 90 refill 9 every 1h", "leaky-bucket 50/h capacity 60",
            "leaky-queue 10/h depth 40", "fixed-window 100/d", "fixed-window 90/w from-first",
            "fixed-window 3/h count-denied", "sliding-log 40/h", "sliding-log 3/h count-denied",
            "sliding-counter 70/h", "sliding-slices 80/h slices 12",
            "sliding-slices 80/h slices 600", "gcra 1/h burst 100 & fixed-window 100/d",
            "fixed-window 100/day tz Europe/Berlin & sliding-log 30/h"]


def equal(found, wanted, what=""):
    if found != wanted or isinstance(found, Error) != isinstance(wanted, Error):
        raise Failed(f"{what}: found {found!r}, expected {wanted!r}")


def good(found, what=""):
    if not found or isinstance(found, Error):
        raise Failed(f"{what}: found {found!r}")


def good_policies(c):
    """Checks that the list of policies has every algorithm of the policy language."""
    for p in POLICIES:
        r = c("WEIR.ASK", "PEEK", p, "nothing", 1)
        if isinstance(r, Error):
            raise Failed(f"{p}: {r}")


def fill(c, keys=160, seed=1):
    """Keys of every policy, charged several times; some hold states of several policies."""
    rng = random.Random(seed)
    asks = []
    for i in range(keys * 4):
        key = f"key:{rng.randrange(keys)}"
        verb = rng.choice(["TAKE"] * 6 + ["REFUND", "GRANT", "RESET"])
        asks.append(("WEIR.ASK", verb, POLICIES[rng.randrange(len(POLICIES))], key,
                     rng.randrange(1, 4)))
        if i % 20 == 0:
            asks.append(("CL.THROTTLE", f"cell:{i}", 15, 30, 3600))
            asks.append(("WEIR.ASKALL", 2, POLICIES[0], key, 1, POLICIES[9], key, 1))
    return c.many(asks)


def digests(c):
    keys = sorted(c("KEYS", "*"))
    return dict(zip(keys, zip(c("DEBUG", "DIGEST-VALUE", *keys),
                              c.many([("PEXPIRETIME", k) for k in keys]))))


def same(a, b, what):
    alike(digests(a), digests(b), what)


def alike(x, y, what):
    equal(len(x), len(y), what)
    good(x, what)
    for key, value in x.items():
        equal(y.get(key), value, f"{what}: {key!r}")


def number(c, section, name):
    return int(re.search(rb"\b%s:(\d+)" % name.encode(), c("INFO", section))[1])


def is_linked(c):
    return b"master_link_status:up" in c("INFO", "replication")


def offset(c):
    return number(c, "replication", "master_repl_offset")


def in_step(master, replica):
    until(lambda: offset(master) == offset(replica), "the replica equals its master")


def wait_for_rewrite(c):
    until(lambda: number(c, "persistence", "aof_rewrite_in_progress") == 0 and
          number(c, "persistence", "aof_rewrite_scheduled") == 0, "the rewrite of the AOF")


# ---- replies -------------------------------------------------------------------------------------

NAMES = ["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"]


def test_answers(t):
    c, c3 = t.server.client(), t.server.client(3)
    equal(c("WEIR.POLICY", "SET", "api", "gcra 1/h burst 5"), "OK")
    equal(c("WEIR.TAKE", "api", "k"), [1, 5, 4, 0, 3600000, 0])
    first = c("WEIR.TAKE", "api", "k", "COST", 4)
    equal(first[:4], [1, 5, 0, 0])
    denied = c("WEIR.TAKE", "api", "k")
    equal(denied[:3], [0, 5, 0])
    good(0 < denied[3] <= 3600000)
    equal(c("WEIR.TAKE", "api", "k", "COST", 6)[3], -1)
    m = c3("WEIR.PEEK", "api", "k", "WITHNAMES")
    equal(list(m), NAMES + ["next_ms", "policy", "layer"])
    good(0 < m["next_ms"] <= 3600000)
    equal((m["policy"], m["layer"], m["limit"]), (b"api", 0, 5))
    counter, log = "sliding-counter 9/3650d", "sliding-log 9/3650d"
    c("WEIR.CHECK", counter, "k4", "COST", 3)
    c("WEIR.CHECK", log, "k5", "COST", 2)
    m = c3("WEIR.PEEK", counter, "k4", "WITHNAMES")
    equal(list(m), NAMES + ["next_ms", "policy", "layer", "count", "previous", "window_start_ms"])
    equal((m["count"], m["previous"], m["window_start_ms"] % (3650 * 86400000)), (3, 0, 0))
    equal(c3("WEIR.PEEK", log, "k5", "WITHNAMES")["count"], 2)
    equal("count" in c3("WEIR.CHECK", log, "k5", "WITHNAMES"), False, "only a peek has figures")
    two = "fixed-window 3/3650d & fixed-window 4/3649d from-first"
    equal(c("WEIR.CHECK", two, "k3", "COST", 3)[:3], [1, 3, 0])
    equal(c3("WEIR.TAKEALL", 2, two, "k3", 4, "api", "free", 1, "WITHNAMES")["next_ms"] > 10**9, True)
    c("WEIR.RESET", two, "k3")
    equal(c3("WEIR.CHECK", "gcra 60/h  burst 5", "k2", "COST", 2, "withnames")["policy"],
          b"gcra 60/h burst 5")
    equal(c("WEIR.REFUND", "api", "k", 2)[:3], [1, 5, 2])
    equal(c("WEIR.RESET", "api", "k"), "OK")
    equal(c("EXISTS", "k"), 0, "an idle key does not exist")
    equal(c("WEIR.TAKEALL", 2, "api", "a", 1, "api", "b", 9)[:4], [0, 5, 5, -1])
    equal(c("EXISTS", "a", "b"), 0, "no key was charged")
    equal(c("WEIR.TAKEALL", 2, "api", "a", 1, "api", "b", 2)[6:], [1])
    c("WEIR.RESET", "api", "a")
    equal(c("WEIR.TAKEALL", 2, "api", "a", 3, "api", "a", 3), [0, 5, 5, -1, 0, 0, 1], "a sum above the limit never passes")
    equal(c("WEIR.TAKEALL", 2, "api", "a", 3, "api", "a", 2)[:3], [1, 5, 0], "a repeated key is charged the sum")
    c("WEIR.RESET", "api", "a")
    m = c3("WEIR.TAKEALL", 1, "api", "a", 1, "WITHNAMES")
    equal(list(m), NAMES + ["next_ms", "index", "policy", "key", "layer"])
    equal((m["index"], m["policy"], m["key"]), (0, b"api", b"a"))
    equal(c("WEIR.POLICY", "SET", "hourly", "fixed-window 5/100d"), "OK")
    equal(c("WEIR.TAKEALL", 2, "api", "t", 1, "hourly", "t", 1)[6], 1, "of two with equal remaining, the later reset is reported")
    c("WEIR.POLICY", "DEL", "hourly")
    equal(c("CL.THROTTLE", "u", 15, 30, 60), [0, 16, 15, -1, 2])
    equal(c3("WEIR.POLICY", "GET", "api"), {"name": b"api", "limit": b"gcra 1/h burst 5",
                                            "overrides": 0, "allow": 0, "deny": 0, "shadow": False})
    equal(len(c("WEIR.POLICY", "LIST")[0]), 12)
    equal(c("WEIR.POLICY", "GET", "none"), None)
    equal([c("WEIR.POLICY", "DEL", "api"), c("WEIR.POLICY", "DEL", "api")], [1, 0])
    equal(c("WEIR.EXPLAIN", "gcra 1/h burst 5", "new"),
          [b"key      new", b"limit    gcra 1/h burst 5", b"state    5 of 5 free; full",
           b"next     now"])
    good(len(c("WEIR.HELP")) == 12, "help")


def test_protocols(t):
    """A decision is the same array of integers in RESP2 and RESP3. It is a map only with WITHNAMES in
    RESP3."""
    p = "gcra 1/3650d burst 2"
    for proto in (2, 3):
        c, k = t.server.client(proto), f"k{proto}"
        for words, first in ((("TAKE", p, k, "COST", 2), [1, 2, 0]), (("TAKE", p, k), [0, 2, 0]),
                             (("CHECK", p, k), [0, 2, 0]), (("PEEK", p, k), [0, 2, 0]),
                             (("TAKEALL", 2, p, k, 1, p, "new", 1), [0, 2, 0]),
                             (("REFUND", p, k, 1), [1, 2, 1]),
                             (("TAKEALL", 2, p, k, 1, p, "new", 0), [1, 2, 1])):
            reply = c("WEIR." + words[0], *words[1:])
            good(isinstance(reply, list) and all(type(n) is int for n in reply), (proto, words, reply))
            equal((reply[:3], len(reply)), (first, 7 if words[0] == "TAKEALL" else 6), (proto, words))
            named = c("WEIR." + words[0], *words[1:], "WITHNAMES")
            pairs = named if proto == 3 else dict(zip(map(bytes.decode, named[::2]), named[1::2]))
            good(isinstance(named, dict if proto == 3 else list), (proto, words, named))
            equal(list(pairs)[:6], NAMES, (proto, words))
            equal(pairs["policy"], p.encode(), (proto, words))
        equal(c("CL.THROTTLE", k + "u", 0, 1, 10**9)[0], 0, proto)
        equal(c("CL.THROTTLE", k + "u", 0, 1, 10**9)[:3], [1, 1, 0], proto)
        equal(c("WEIR.PEEK", p, "WITHNAMES"), [1, 2, 2, 0, 0, 0], "a key")
        good(isinstance(c("WEIR.TAKE", "none", k, "WITHNAMES"), Error), proto)
        script = "redis.setresp(3) return redis.call('WEIR.PEEK', ARGV[1], KEYS[1], ARGV[2]).map.remaining"
        equal(c("EVAL", script, 1, k, p, "WITHNAMES"), 0, "in a script")


def test_programs(t):
    """WEIR.ASK and WEIR.ASKALL."""
    c = t.server.client()
    p = "gcra 1/h burst 5"
    equal(c("WEIR.ASK", "take", p, "k", 1), [1, 5, 4, 0, 3600000000, 0, 0, 0])
    granted = c("WEIR.ASK", "GRANT", p, "k", 10)
    equal((granted[0], granted[2], granted[7]), (0, 0, 4))
    good(0 < granted[3] <= 3600000000)
    equal(c("WEIR.ASK", "Grant", p, "k", 10)[7], 0)
    equal(c("WEIR.ASK", "PEEK", p, "k", 6)[3], -1)
    equal(c("WEIR.ASK", "REFUND", p, "k", 2)[:3], [1, 5, 2])
    equal(c("WEIR.ASK", "RESET", p, "k", 0), [1, 5, 5, 0, 0, 0, 0, 0])
    all_ = c("WEIR.ASKALL", 2, p, "a", 2, p, "b", 6)
    equal((len(all_), all_[0]), (17, 1))
    equal(all_[1:4], [1, 5, 5])
    all_ = c("WEIR.ASKALL", 2, p, "a", 2, p, "a", 3)
    equal((all_[0], all_[3], all_[11]), (2, 3, 0))
    equal(c("WEIR.ASKALL", 2, "gcra 1/s", "g", 2, "fixed-window 1/h", "g", 1)[0], 0)
    c("WEIR.ASKALL", 2, "gcra 1/s", "g", 1, "fixed-window 1/h", "g", 1)
    equal(c("WEIR.ASKALL", 2, "gcra 1/s", "g", 2, "fixed-window 1/h", "g", 2)[0], 1, "of two that are never allowed, the later reset is reported")
    equal(c("WEIR.ASK", "TAKE", "gcra 5/h burst 9 & fixed-window 3/d", "l", 1)[6], 1)
    for words in (("TAKE", p, "k"), ("TAKE", p, "k", 1, 2), ("DROP", p, "k", 1),
                  ("TAKE", "gcra", "k", 1), ("TAKE", p, "k", -1), ("TAKE", p, "", 1)):
        good(isinstance(c("WEIR.ASK", *words), Error), words)
    good(c("WEIR.ASK", "TAKE", "gcra 1/x", "k", 1).startswith("ERR policy: column"))
    good(c("WEIR.ASKALL", 2, p, "a", 1, "gcra 1/x", "k", 1).startswith("ERR policy: column"))
    good(c("WEIR.ASK", "REFUND", "leaky-queue 1/h depth 3", "k", 1).startswith("ERR weir: leaky-queue"))


def test_daemon(t):
    """The same commands get the same errors and the same types of replies as from the daemon."""
    with contextlib.closing(Box(t.weir, t.module)) as box:
        policies = {"api": "gcra 1/h burst 5", "queue": "leaky-queue 1/h depth 4"}
        daemon = Daemon(box, policies, engine=None).start()
        compare(t.server.client(), Client(daemon.port), "two")
        resp3 = Client(daemon.port)
        resp3("HELLO", 3)
        compare(t.server.client(3), resp3, "three")


def compare(ours, theirs, key):
    text = "gcra 1/h burst 5"
    ours("FLUSHALL")
    ours("WEIR.POLICY", "SET", "api", text)
    ours("WEIR.POLICY", "SET", "queue", "leaky-queue 1/h depth 4")
    words = [
        ("TAKE",), ("TAKE", "api"), ("TAKE", "api", "k", "COST"), ("TAKE", "api", "k", "X", 1),
        ("TAKE", "api", "k", 2), ("PEEK", "api", "k", "x\ny" * 60), ("CHECK", text, "k", 2),
        ("TAKE", "api", "k", "COST", "x"), ("TAKE", "api", "k", "COST", -1),
        ("TAKE", "api", "k", "COST", 2**31), ("TAKE", "none", "k"), ("TAKE", "api", ""),
        ("TAKE", "gcra 1/x", "k"), ("TAKE", "gcra 1/h burst 0", "k"), ("TAKE", "a b c", "k"),
        ("TAKE", "api", "x" * 65537), ("TAKE", "n" * 200, "k"), ("TAKE", "n\x01\r\n", "k"),
        ("CHECK", "api", "k"), ("CHECK", text, "k", "COST", 1, 2), ("CHECK", text, key + "-k"),
        ("CHECK", "fixed-window 5/day tz Nowhere/Never", "k"),
        ("TAKE", "api", key, "COST", 2), ("TAKE", "api", key, "COST", 4),
        ("PEEK", "api", key, "cost", 9), ("PEEK", "api", "new"), ("REFUND", "api", key, 0),
        ("REFUND", "queue", key, 1), ("REFUND", "api", key), ("RESET", "api", key),
        ("RESET", "none", "key"), ("RESET", "api"),
        ("RESETALL",), ("RESETALL", "api", key), ("RESETALL", "none"), ("RESETALL", "gcra 1/x"),
        ("TAKE", "api", key + "r", "COST", 3), ("RESETALL", "api"), ("PEEK", "api", key + "r"),
        ("CHECK", text, key + "r", "COST", 3), ("RESETALL", text), ("PEEK", text, key + "r"), ("TAKE", "queue", key), ("TAKE", "queue", key),
        ("TAKEALL", 0, "api", "a", 1), ("TAKEALL", 17, "api", "a", 1), ("TAKEALL", "x", 1, 2, 3),
        ("TAKEALL", 2, "api", "a", 1), ("TAKEALL", 1, "api", "a", "x"), ("TAKEALL", 1),
        ("TAKEALL", 2, "api", "a", 1, "none", "b", 1),
        ("TAKEALL", 2, "api", key + "a", 1, text, key + "b", 1),
        ("TAKEALL", 2, "api", "a", 9, "api", "b", 1), ("TAKEALL", 1, "api", "", 1),
        ("TAKE", "api", key + "n", "WITHNAMES"), ("TAKE", "api", key + "n", "COST", 4, "withnames"),
        ("TAKE", "api", key + "n", "WITHNAMES"), ("PEEK", text, key + "n", "WITHNAMES"),
        ("CHECK", text, key + "n", "COST", 9, "WITHNAMES"),
        ("REFUND", "api", key + "n", 5, "WITHNAMES"), ("PEEK", "api", "WITHNAMES"),
        ("TAKE", "api", "k", "WITHNAMES", 1), ("TAKE", "api", "k", "WITHNAMES", "COST", 1),
        ("TAKE", "api", "k", "COST", "WITHNAMES"), ("CHECK", text, "k", "WITHNAMES", "WITHNAMES"),
        ("PEEK", "WITHNAMES"), ("REFUND", "api", "k", "WITHNAMES"), ("RESET", "api", "k", "WITHNAMES"),
        ("TAKEALL", 1, "api", "k", "WITHNAMES"), ("TAKEALL", 1, "api", "", 1, "WITHNAMES"),
        ("TAKEALL", 2, "api", key + "na", 1, text, key + "nb", 2, "WITHNAMES"),
        ("TAKEALL", 2, "api", key + "na", 1, text, key + "nb", 9, "WITHNAMES"),
        ("EXPLAIN", "api", "k", "WITHNAMES"),
        ("EXPLAIN", "api", "fresh"), ("EXPLAIN", text, "fresh"), ("EXPLAIN", "none", "fresh"),
        ("EXPLAIN", "api"), ("POLICY", "SET", "", text), ("POLICY", "SET", "n" * 65, text),
        ("POLICY", "SET", "n" * 70, text), ("POLICY", "SET", "a b", text),
        ("POLICY", "SET", "n", "gcra"), ("POLICY", "SET", "n", "x" * 3000),
        ("POLICY", "SET", "n", "gcra  60/m"), ("POLICY", "GET", "n"), ("POLICY", "LIST"),
        ("POLICY", "DEL", "n"), ("POLICY", "DEL", "n"), ("POLICY", "GET", "n"),
    ]
    for w in words:
        a, b = ours("WEIR." + w[0], *w[1:]), theirs("WEIR." + w[0], *w[1:])
        equal(rounded(a), rounded(b), f"WEIR.{' '.join(str(x)[:80] for x in w)}")
    for w in ((key + "u", 15, 30, 60), (key + "u", 15, 30, 60, 3), (key + "u", 0, 1, 0), (key + "u", "x", 1, 1), (key + "u",),
              (key + "u", 1, 2, 3, 4, 5), (key + "u", 2**63 - 1, 1, 1), (key + "u", 1, 1, 2**62),
              (key + "w", "+1", 1, 1), (key + "w", -5, 1, 1), (key + "x", 4, 1, 1, -9),
              ("", 1, 1, 1), (key + "v", 15, 30, 60, -2), (key + "v", 15, 30, 60, 20)):
        equal(ours("CL.THROTTLE", *w), theirs("CL.THROTTLE", *w), f"CL.THROTTLE {w}")


def rounded(reply):
    """Times are compared with a tolerance of a few seconds an hour."""
    if isinstance(reply, list):
        return [rounded(x) for x in reply]
    if isinstance(reply, dict):
        return {k: rounded(v) for k, v in reply.items()}
    if isinstance(reply, int) and not isinstance(reply, bool) and reply > 10000:
        return round(reply / 60000)
    return reply


def test_wrong(t):
    c = t.server.client()
    c("SET", "text", "x")
    for words in (("WEIR.TAKE", "gcra 1/s", "text"), ("WEIR.PEEK", "gcra 1/s", "text"),
                  ("WEIR.EXPLAIN", "gcra 1/s", "text"), ("CL.THROTTLE", "text", 1, 1, 1),
                  ("WEIR.ASKALL", 2, "gcra 1/s", "a", 1, "gcra 1/s", "text", 1),
                  ("WEIR.STATE", "text", 0, "x")):
        good(c(*words).startswith("WRONGTYPE"), words)
    equal(c("EXISTS", "a"), 0)
    c("WEIR.CHECK", "gcra 1/s", "k")
    good(c("GET", "k").startswith("WRONGTYPE"))
    equal(c("TYPE", "k"), "weirstate")
    for payload in ("", "x", b"\1\0\0\0", b"\1\0\1\0\0\0\0", b"\1\1\1\0\2\0\0"):
        good(c("WEIR.STATE", "none", 0, payload).startswith("ERR weir:"), payload)
    for at in ("x", "-1", ""):
        good(isinstance(c("WEIR.STATE", "none", at, "x"), Error))
    equal(c("EXISTS", "none"), 0)


def test_expiry(t):
    c = t.server.client()
    late = 1300  # milliseconds
    c("WEIR.CHECK", "gcra 60/h burst 5", "k")
    good(59000 <= c("PTTL", "k") <= 60000 + late, "reset_after")
    c("WEIR.CHECK", "gcra 60/h burst 5", "k", "COST", 2)
    good(179000 <= c("PTTL", "k") <= 180000 + late)
    c("WEIR.CHECK", "gcra 1/h burst 5", "k")
    good(3500000 <= c("PTTL", "k") <= 3600000 + late, "the longer of two")
    c("WEIR.RESET", "gcra 1/h burst 5", "k")
    good(100000 <= c("PTTL", "k") <= 180000 + late, "the remaining quota")
    for _ in range(40):
        c("WEIR.CHECK", "gcra 100/h burst 1000", "ahead")
        left = c("PTTL", "ahead")
        good(left >= c("WEIR.PEEK", "gcra 100/h burst 1000", "ahead")[4], "never early")
    c("WEIR.CHECK", "gcra 1000/s", "short")
    until(lambda: c("EXISTS", "short") == 0, "a key expires")
    equal(c("WEIR.CHECK", "gcra 1000/s", "short")[0], 1)
    c("WEIR.CHECK", "gcra 1/h burst 5", "long")
    c("PERSIST", "long")
    equal(c("WEIR.PEEK", "gcra 1/h burst 5", "long")[2], 4)
    c("SELECT", 1)
    equal(c("WEIR.PEEK", "gcra 1/h burst 5", "long")[2], 5, "another database")


def test_changed_policy(t):
    """A state is identified by the name and the text of its policy, and is converted when the text of the name changes.
    Idle states are removed at the next write."""
    c = t.server.client()
    c("WEIR.POLICY", "SET", "api", "gcra 1/h burst 5")
    c("WEIR.TAKE", "api", "k", "COST", 5)
    c("WEIR.POLICY", "SET", "api", "gcra 1/h burst 6")
    equal(c("WEIR.PEEK", "api", "k")[2], 1)
    equal(c("WEIR.TAKE", "api", "k")[2], 0)
    c("WEIR.POLICY", "SET", "api", "fixed-window 5/h from-first")
    equal(c("WEIR.TAKE", "api", "k")[2], 4, "another shape begins anew")
    c("WEIR.POLICY", "SET", "api", "gcra  1/h  burst  5")
    equal(c("WEIR.PEEK", "api", "k")[2], 0, "the same text with other spaces is the same policy")
    equal(c("WEIR.PEEK", "gcra 1/h burst 5", "k")[2], 5, "a policy without a name is another policy")
    for i in range(60):
        r = c("WEIR.CHECK", f"gcra 1/h burst {i + 1}", "many")
    good(isinstance(r, Error) and r.startswith("OOM"), r)
    equal(c("WEIR.CHECK", "gcra 1/h burst 3", "many")[0], 1, "existing keys are still decided")


# ---- expiry, memory, other commands --------------------------------------------------------------


def test_transactions(t):
    c = t.server.client()
    c("MULTI")
    c("WEIR.CHECK", "gcra 1/h burst 5", "k")
    c("WEIR.CHECK", "gcra 1/h burst 5", "k")
    equal([r[2] for r in c("EXEC")], [4, 3])
    script = "return redis.call('WEIR.CHECK', ARGV[1], KEYS[1], 'COST', '2')"
    equal(c("EVAL", script, 1, "k", "gcra 1/h burst 5")[:3], [1, 5, 1])
    equal(c("EVAL", script, 1, "k", "gcra 1/h burst 5")[0], 0)
    other = t.server.client()
    c("WATCH", "k")
    other("WEIR.CHECK", "gcra 1/h burst 5", "k", "COST", 5)  # denied: nothing is changed
    c("MULTI")
    c("PING")
    equal(c("EXEC"), ["PONG"])
    c("WATCH", "k")
    other("WEIR.CHECK", "gcra 1/h burst 5", "k", "COST", 1)
    c("MULTI")
    c("PING")
    equal(c("EXEC"), None)


def test_commands(t):
    c = t.server.client()
    equal(c("COMMAND", "GETKEYS", "WEIR.TAKEALL", 2, "p", "a", 1, "p", "b", 1), [b"a", b"b"])
    equal(c("COMMAND", "GETKEYS", "WEIR.TAKEALL", 2, "p", "a", 1, "p", "b", 1, "WITHNAMES"),
          [b"a", b"b"])
    equal(c("COMMAND", "GETKEYS", "WEIR.ASKALL", 2, "p", "a", 1, "p", "b", 1), [b"a", b"b"])
    equal(c("COMMAND", "GETKEYS", "WEIR.ASK", "TAKE", "p", "a", 1), [b"a"])
    equal(c("COMMAND", "GETKEYS", "CL.THROTTLE", "a", 1, 1, 1), [b"a"])
    take, peek = c("COMMAND", "INFO", "WEIR.TAKE", "WEIR.PEEK")
    equal(sorted(take[2]), ["denyoom", "fast", "module", "write"])
    equal(sorted(peek[2]), ["fast", "module", "readonly"])
    docs = t.server.client(3)("COMMAND", "DOCS", "weir.take", "weir.policy")
    good(docs["weir.take"]["summary"] and docs["weir.take"]["arguments"])
    equal(len(docs["weir.policy"]["subcommands"]), 4)
    c("ACL", "SETUSER", "reader", "on", "nopass", "~mine:*", "+weir.peek", "+weir.policy|get",
      "+auth")
    c("AUTH", "reader", "x")
    good(not isinstance(c("WEIR.PEEK", "gcra 1/s", "mine:1"), Error))
    for words in (("WEIR.PEEK", "gcra 1/s", "other"), ("WEIR.TAKE", "gcra 1/s", "mine:1"),
                  ("WEIR.POLICY", "SET", "a", "gcra 1/s"),
                  ("WEIR.ASKALL", 1, "gcra 1/s", "mine:1", 1)):
        good(c(*words).startswith("NOPERM"), words)
    equal(c("WEIR.POLICY", "GET", "a"), None)


def test_events(t):
    c, ear = t.server.client(), t.server.client()
    c("CONFIG", "SET", "notify-keyspace-events", "KEA")
    ear("PSUBSCRIBE", "__keyevent@0__:*")
    c("WEIR.CHECK", "gcra 1/h burst 5", "k")
    c("WEIR.CHECK", "gcra 1/h burst 5", "k", "COST", 5)  # denied
    c("WEIR.REFUND", "gcra 1/h burst 5", "k", 1)
    heard = []
    while not heard or heard[-1] != "del":
        heard.append(ear.read()[2].decode().split(":", 1)[1])
    equal([h for h in heard if h.startswith("weir") or h == "del"],
          ["weir.take", "weir.refund", "del"])
    c("CONFIG", "SET", "notify-keyspace-events", "")


def test_memory(t):
    c = t.server.client()
    c("WEIR.CHECK", "gcra 1/h burst 5", "small")
    small = c("MEMORY", "USAGE", "small")
    c("SET", "plain", 1700000000000)
    good(small <= c("MEMORY", "USAGE", "plain") + 16, "a single state needs no allocation")
    for _ in range(300):
        c("WEIR.CHECK", "sliding-log 1000/h", "log")
    good(c("MEMORY", "USAGE", "log") > 3000)
    good(c("MEMORY", "USAGE", "nothing") is None)
    for i in range(20000 // 100):
        c.many([("WEIR.CHECK", f"gcra 1/h burst {5 + k % 7}", f"k:{i}:{k}") for k in range(100)])
    c("FLUSHALL", "ASYNC")
    for i in range(300):  # policies are added and deleted while another thread frees memory
        c.many([("WEIR.CHECK", f"gcra {1 + i}/d burst {k + 1}", f"k:{k}") for k in range(20)])
        c("FLUSHALL", "ASYNC")
    c("CONFIG", "SET", "maxmemory", 1)
    good(c("WEIR.CHECK", "gcra 1/h", "full").startswith("OOM"))
    good(not isinstance(c("WEIR.PEEK", "gcra 1/h", "full"), Error))
    good(not isinstance(c("WEIR.REFUND", "gcra 1/h burst 5", "full", 1), Error))
    c("CONFIG", "SET", "maxmemory", 0)


def test_large(t):
    """A state has a maximum size. A command that exceeds it is an error, and charges nothing."""
    c = t.server.client()
    equal(c("WEIR.ASK", "TAKE", "sliding-slices 1000000/h slices 65536", "s", 3)[2], 999997)
    batch = [("WEIR.ASK", "TAKE", "sliding-log 100000/d", "log", 1)] * 1000
    for _ in range(20):
        replies = c.many(batch)
    good(replies[-1][2] <= 80000)
    before = c("DEBUG", "DIGEST-VALUE", "log")
    equal(c("WEIR.ASKALL", 2, "sliding-log 100000/d", "log", 1, "gcra 1/h", "x", 5)[0], 1)
    equal(c("DEBUG", "DIGEST-VALUE", "log"), before)
    dump, ttl = c("DUMP", "log"), c("PEXPIRETIME", "log")
    equal(c("RESTORE", "copy", ttl, dump, "ABSTTL"), "OK")
    equal(c("DEBUG", "DIGEST-VALUE", "copy"), before)


def states(c):
    """How many states were replicated to it."""
    return int(re.search(rb"cmdstat_weir.state:calls=(\d+)", c("INFO", "commandstats"))[1])


def test_crowded(t):
    """However its states grow, a key fits into one replicated command. Idle states do not count."""
    replica, c = t.open("--replicaof", f"127.0.0.1 {t.server.port}"), t.server.client()
    r = replica.client()
    until(lambda: is_linked(r), "the replica is connected")
    logs = [f"sliding-log {3000000 + i}/d" for i in range(4)]
    for command in ("WEIR.ASKALL", "WEIR.TAKEALL"):
        reply = c(command, 4, *[word for log in logs for word in (log, "logs", 1)])
        good(isinstance(reply, Error) and "too many policies" in reply, reply)
    equal(c("EXISTS", "logs"), 0)
    equal(c("WEIR.ASKALL", 3, *[word for log in logs[:3] for word in (log, "logs", 1)])[0], 3)
    good("too many policies" in c("WEIR.CHECK", logs[3], "logs"))
    def take(key, policies):
        for at in range(0, len(policies), 16):
            some = policies[at:at + 16]
            reply = c("WEIR.ASKALL", len(some), *[word for p in some for word in (p, key, 1)])
            equal(reply[0], len(some))
    take("full", [f"gcra 1/{1 + i}h" for i in range(48)])
    good("too many policies" in c("WEIR.CHECK", "gcra 2/h", "full"))
    good("too many policies" in c("WEIR.ASKALL", 2, "gcra 1/h", "full", 0, "gcra 2/h", "full", 1))
    brief = [f"gcra 1/{20 + i}ms" for i in range(46)]
    take("many", ["sliding-log 1000/h"] * 16 + ["gcra 1/h"] + brief)
    until(lambda: all(c("WEIR.PEEK", p, "many")[0] == 1 for p in brief), "keys with their full quota")
    take("many", [brief[0], "gcra 2/h", "sliding-log 1000/h", "gcra 3/h"])
    for policy in ("gcra 1/h", "gcra 2/h", "gcra 3/h"):
        equal(c("WEIR.CHECK", policy, "many")[0], 0)
    equal(c("WEIR.PEEK", "sliding-log 1000/h", "many")[2], 983)
    in_step(c, r)
    # A replica gets no full copy of a long state, however many requests are charged.
    for _ in range(100):
        c("WEIR.CHECK", logs[0], "logs")
    in_step(c, r)
    before = states(r)
    take("logs", logs[:3] + ["gcra 1/h", "fixed-window 1/d"])
    in_step(c, r)
    equal(states(r) - before, 5, "each change is replicated")
    for key in ("many", "logs", "full"):
        equal(r("DEBUG", "DIGEST-VALUE", key), c("DEBUG", "DIGEST-VALUE", key))


# ---- replication and persistence -----------------------------------------------------------------


def test_replica(t):
    master = t.server.client()
    fill(master, seed=2)
    replica_server = t.open("--replicaof", f"127.0.0.1 {t.server.port}")
    replica = replica_server.client()
    until(lambda: is_linked(replica), "the replica is connected")
    master("WEIR.POLICY", "SET", "api", "gcra 1/h burst 5")
    fill(master, seed=3)
    c = [("WEIR.ASK", "TAKE", "sliding-log 2000/d", "long", 1)] * 300
    master.many(c)
    in_step(master, replica)
    same(master, replica, "the replica is connected")
    equal(replica("WEIR.POLICY", "GET", "api")[3], b"gcra 1/h burst 5")
    # A command that changes nothing is not replicated.
    master("WEIR.TAKE", "api", "denied", "COST", 5)
    before = offset(master)
    for words in (("WEIR.TAKE", "api", "denied"), ("WEIR.PEEK", "api", "denied"),
                  ("WEIR.EXPLAIN", "api", "denied"), ("WEIR.RESET", "api", "none"),
                  ("WEIR.REFUND", "api", "none", 1), ("CL.THROTTLE", "none", 1, 1, 1, 0),
                  ("WEIR.TAKEALL", 2, "api", "denied", 1, "api", "none", 1)):
        good(not isinstance(master(*words), Error), words)
    if offset(master) - before > 100:  # at most a PING
        raise Failed("a denial was replicated")
    for words in (("WEIR.TAKE", "api", "k"), ("WEIR.POLICY", "SET", "b", "gcra 1/s"),
                  ("WEIR.POLICY", "DEL", "api")):
        good(replica(*words).startswith("READONLY"), words)
    equal(replica("WEIR.PEEK", "api", "denied")[0], 0)
    replica("REPLICAOF", "NO", "ONE")
    equal(replica("WEIR.TAKE", "api", "denied")[0], 0, "after a promotion")


class Writing:
    """Writes from another connection while the body of `with` runs."""

    def __init__(self, server):
        self.client, self.is_over = server.client(), threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        seed = 100
        while not self.is_over.is_set():
            fill(self.client, 20, seed)
            seed += 1

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.client.close()


def follows(master_server, replica_server, what):
    """A replica equals its master during the writes, and after them."""
    m, r = master_server.client(), replica_server.client()
    with Writing(master_server):
        until(lambda: is_linked(r), what)
        before = number(m, "stats", "total_commands_processed")
        until(lambda: number(m, "stats", "total_commands_processed") > before + 500, "more writes are replicated")
    in_step(m, r)
    same(m, r, what)


def test_followers(t):
    """Without a replica or an AOF, nothing is replicated. A replica or an AOF that starts later gets all
    states. Changes are always counted, because the server saves an RDB after so many."""
    server = t.open("--repl-diskless-sync-delay", "0")
    c = server.client()
    fill(c)
    equal(number(c, "replication", "master_repl_offset"), 0, "nothing is replicated")
    good(number(c, "persistence", "rdb_changes_since_last_save") > 300, "changes are counted")
    c("BGSAVE")
    fill(c, seed=2)
    equal(number(c, "replication", "master_repl_offset"), 0, "a child process writes the file")
    # A full synchronisation: diskless, then with a file.
    to = ("--replicaof", f"127.0.0.1 {server.port}", "--repl-diskless-sync-delay", "0")
    until(lambda: number(c, "persistence", "rdb_bgsave_in_progress") == 0, "the file")
    first = t.open(*to)
    follows(server, first, "a replica, by a socket")
    c("CONFIG", "SET", "repl-diskless-sync", "no")
    second = t.open(*to)
    follows(server, second, "a replica, by a file")
    # A partial synchronisation.
    second.client()("REPLICAOF", "NO", "ONE")
    first.client()("CLIENT", "KILL", "TYPE", "master")
    follows(server, first, "a replica whose connection was closed")
    good(number(c, "stats", "sync_partial_ok") >= 1, "a partial synchronisation was enough")
    # An AOF, on servers that had replicas, that were a replica, and that were neither.
    alone = t.open()
    fill(alone.client())
    for one in (server, second, alone):
        with Writing(one):
            one.client()("CONFIG", "SET", "appendonly", "yes")
        fill(one.client(), seed=3)
    for one in (server, second, alone):
        client = one.client()
        wait_for_rewrite(client)
        before = digests(client)
        one.options["appendonly"] = "yes"
        one.options.pop("replicaof", None)  # otherwise it would synchronise with its master again
        one.restart()
        alike(before, digests(one.client()), "an AOF begun meanwhile")


def test_restarted(t):
    """A master whose RDB has its replication offset continues with its replicas without a full copy."""
    master = t.open("--save", "3600 1000000", "--appendonly", "no")
    replica = t.open("--replicaof", f"127.0.0.1 {master.port}")
    follows(master, replica, "a replica")
    replica.client()("REPLICAOF", "127.0.0.1", 1)
    until(lambda: number(master.client(), "replication", "connected_slaves") == 0, "the replica is disconnected")
    master.client()("SAVE")
    master.restart()
    c = master.client()
    fill(c, seed=9)
    replica.client()("REPLICAOF", "127.0.0.1", master.port)
    follows(master, replica, "the replica of a master that was restarted")
    equal([number(c, "stats", name) for name in ("sync_partial_ok", "sync_full")], [1, 0])
    # It was a master, then a replica beside another one, and becomes the master of that one.
    heir = t.open()
    h, r = heir.client(), replica.client()
    fill(h)
    h("REPLICAOF", "127.0.0.1", master.port)
    until(lambda: is_linked(h) and offset(h) == offset(r), "two replicas are connected")
    h("REPLICAOF", "NO", "ONE")
    fill(h, seed=10)
    r("REPLICAOF", "127.0.0.1", heir.port)
    follows(heir, replica, "a replica of the replica that became a master")
    equal([number(h, "stats", name) for name in ("sync_partial_ok", "sync_full")], [1, 0])


def test_seeded(t):
    """A replica that synchronises with an RDB file that the master makes for another, waiting replica:
    the replicated stream begins with that file although no new child process is started."""
    master = t.open("--repl-diskless-sync-delay", "600")
    c = master.client()
    fill(c)
    t.open("--replicaof", f"127.0.0.1 {master.port}")
    until(lambda: number(c, "replication", "connected_slaves") == 1, "a replica waits")
    fill(c, seed=2)
    c("SAVE")
    fill(c, seed=3)
    seeded = t.open()
    seeded.end()
    shutil.copy(master.directory / "dump.rdb", seeded.directory)
    seeded.options["replicaof"] = f"127.0.0.1 {master.port}"
    seeded.start()
    follows(master, seeded, "a replica of a copied file")
    equal(number(c, "stats", "sync_partial_ok"), 1, "replication continues from the file")


def test_files(t):
    """An AOF of commands, a rewritten one in both forms, and an RDB."""
    for options, finish in (
            (("--appendonly", "yes"), None),
            (("--appendonly", "yes", "--aof-use-rdb-preamble", "no"), "BGREWRITEAOF"),
            (("--appendonly", "yes", "--aof-use-rdb-preamble", "yes"), "BGREWRITEAOF"),
            ((), "SAVE")):
        server = t.open(*options)
        c = server.client()
        c("WEIR.POLICY", "SET", "api", "gcra 1/h burst 5")
        c("WEIR.TAKE", "api", "named")
        fill(c, seed=4)
        c.many([("WEIR.ASK", "TAKE", "sliding-log 2000/d", "long", 1)] * 200)
        if finish == "BGREWRITEAOF":
            wait_for_rewrite(c)
            c(finish)
            wait_for_rewrite(c)
        elif finish:
            c(finish)
        before = digests(c)
        c.close()
        server.restart()
        c = server.client()
        alike(before, digests(c), f"{options}")
        equal(c("WEIR.TAKE" if "no" not in options else "WEIR.CHECK",
                "api" if "no" not in options else "gcra 1/h burst 5", "named")[0], 1)
        server.close()


def test_reset_all(t):
    """All keys of a policy are reset on a replica, too, and after a restart from each kind of file."""
    for options in (("--appendonly", "yes"), ("--save", "3600 1"), None):
        server = t.open(*(options or ("--appendonly", "yes")))
        c = server.client()
        c("WEIR.POLICY", "SET", "api", "gcra 1/h burst 5")
        for words in (("api", "a"), ("api", "b"), ("gcra 1/h burst 5", "a")):
            equal(c("WEIR.TAKE", *words, "COST", 4)[2], 1)
        replica_server = t.open("--replicaof", f"127.0.0.1 {server.port}")
        replica = replica_server.client()
        until(lambda: is_linked(replica), "the replica is connected")
        equal(c("WEIR.RESETALL", "api"), "OK")
        equal(c("WEIR.TAKE", "api", "a", "COST", 2)[2], 3)
        in_step(c, replica)
        same(c, replica, "after a reset")
        if options is None:  # the replica has a generation, and so does its own replica
            equal(c("WEIR.RESETALL", "api"), "OK")
            equal(c("WEIR.TAKE", "api", "a", "COST", 1)[2], 4)
            in_step(c, replica)
            replica("REPLICAOF", "NO", "ONE")
            equal([replica("WEIR.PEEK", "api", k)[2] for k in "ab"], [4, 5])
            continue
        if "--save" in options:
            c("SAVE")
        else:
            wait_for_rewrite(c)
            c("BGREWRITEAOF")
            wait_for_rewrite(c)
        c.close()
        server.restart()
        c = server.client()
        equal([c("WEIR.PEEK", "api", k)[2] for k in "ab"], [3, 5], f"{options}")
        equal(c("WEIR.PEEK", "gcra 1/h burst 5", "a")[2], 1)
        equal(c("WEIR.RESETALL", "api"), "OK")
        equal(c("WEIR.PEEK", "api", "a")[2], 5)
        server.close()


def test_dump(t):
    c = t.server.client()
    fill(c, seed=5)
    other_server = t.open()
    other = other_server.client()
    for i, key in enumerate(sorted(c("KEYS", "*"))):
        dump, ttl = c("DUMP", key), c("PEXPIRETIME", key)
        equal(c("COPY", key, b"copy:" + key), 1)
        equal(c("DEBUG", "DIGEST-VALUE", b"copy:" + key), c("DEBUG", "DIGEST-VALUE", key))
        if i % 2:
            equal(other("RESTORE", key, ttl, dump, "ABSTTL"), "OK")
            equal(other("DEBUG", "DIGEST-VALUE", key), c("DEBUG", "DIGEST-VALUE", key))
            equal(other("PEXPIRETIME", key), ttl)
        else:
            digest = c("DEBUG", "DIGEST-VALUE", key)
            equal(c("MIGRATE", "127.0.0.1", other_server.port, key, 0, 5000), "OK")
            equal(other("DEBUG", "DIGEST-VALUE", key), digest)
            equal(c("EXISTS", key), 0)


def test_damage(t):
    """Thousands of damaged payloads: each is refused, or is a valid state."""
    c = t.server.client()
    fill(c, keys=40, seed=6)
    equal(c("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1), "OK")
    rng = random.Random(7)
    dumps = [c("DUMP", key) for key in sorted(c("KEYS", "*"))]
    refused = taken = 0
    for _ in range(60):
        asks = []
        for _ in range(100):
            bad = bytearray(rng.choice(dumps))
            for _ in range(rng.randrange(1, 4)):
                at = rng.randrange(len(bad) - 10)
                how = rng.randrange(4)
                if how == 0:
                    bad[at] = rng.randrange(256)
                elif how == 1:
                    bad[at] ^= 1 << rng.randrange(8)
                elif how == 2:
                    del bad[at:at + rng.randrange(1, 9)]
                else:
                    bad[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
                if len(bad) < 20:
                    break
            asks.append(("RESTORE", "bad", 0, bytes(bad), "REPLACE"))
            asks += [("WEIR.ASK", verb, rng.choice(POLICIES), "bad", 2)
                     for verb in ("TAKE", "REFUND", "PEEK")]
        replies = c.many(asks)[::4]
        refused += sum(isinstance(r, Error) for r in replies)
        taken += sum(r == "OK" for r in replies)
    good(refused > 1000 and taken > 0, f"{refused} refused, {taken} taken")
    equal(c("PING"), "PONG")
    if t.server.process.poll() is not None:
        raise Failed("the server has stopped")


def test_far(t):
    """A state whose time is the largest possible is replicated."""
    c, text = t.server.client(), b"gcra 7/d burst 50"
    for word in (1 << 62, (1 << 64) - 1):
        state = struct.pack("<BBHBHBBHI", 1, 0, 1, 0, 0, 0, 0, len(text), 2) + text
        equal(c("WEIR.STATE", "far", 0, state + struct.pack("<QQ", word, word)), "OK")
        equal(c("WEIR.CHECK", text, "far")[0], 0)
        equal(c("WEIR.EXPLAIN", text, "far")[-1], b"next     never")


def test_refuses(t):
    c = t.server.client()
    c("WEIR.CHECK", "gcra 1/h burst 5", "k")
    good(isinstance(c("MODULE", "LOAD", t.module), Error), "a second time")
    copy = shutil.copy(t.module, t.server.directory / "copy.so")
    good(isinstance(c("MODULE", "LOAD", copy), Error), "from another file")
    c("BGSAVE")  # an event, which must not be replicated
    equal(c("WEIR.CHECK", "gcra 1/h burst 5", "k")[:3], [1, 5, 3], "the first module continues")
    good(isinstance(c("MODULE", "UNLOAD", "weir"), Error), "its type stays registered")
    with tempfile.TemporaryDirectory() as tmp:
        run = subprocess.run(["redis-server", "--port", str(free_port()), "--dir", tmp, "--save", "",
                              "--loadmodule", t.module, "nonsense"],
                             capture_output=True, text=True, timeout=30, check=False)
    good(run.returncode != 0 and "expected no arguments" in run.stdout, run.stdout)
    run = subprocess.run(["nm", "-D", "--defined-only", t.module], capture_output=True,
                         text=True, timeout=30, check=True)
    equal([line.split()[2] for line in run.stdout.splitlines()], ["RedisModule_OnLoad"], "exports")


def test_reshard(t):
    servers = [t.open("--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
               for _ in range(3)]
    hosts = [f"127.0.0.1:{s.port}" for s in servers]
    cli("--cluster", "create", *hosts, "--cluster-yes")
    clients = [s.client() for s in servers]
    until(lambda: all(b"cluster_state:ok" in c("CLUSTER", "INFO") for c in clients), "the Cluster is ready")
    policy, used = "gcra 1/d burst 2", set()
    for i in range(300):
        at, r = ask(servers, "WEIR.ASK", "TAKE", policy, f"user:{i}", 2)
        used.add(at)
        equal(r[:3], [1, 2, 0])
    equal(len(used), 3, "every node has keys")
    good(isinstance(clients[0]("WEIR.ASKALL", 2, policy, "user:1", 1, policy, "user:2", 1), Error))
    ids = [c("CLUSTER", "MYID").decode() for c in clients]
    sizes = [c("DBSIZE") for c in clients]
    cli("--cluster", "reshard", hosts[0], "--cluster-from", ids[0], "--cluster-to", ids[2],
        "--cluster-slots", "3000", "--cluster-yes")
    until(lambda: all(b"cluster_state:ok" in c("CLUSTER", "INFO") for c in clients), "the Cluster is ready")
    after = [c("DBSIZE") for c in clients]
    equal(sum(after), 300)
    good(after[0] < sizes[0] and after[2] > sizes[2], f"{sizes} {after}")
    for i in range(300):
        equal(ask(servers, "WEIR.ASK", "TAKE", policy, f"user:{i}", 1)[1][:3], [0, 2, 0], f"key {i}")


def cli(*words):
    run = subprocess.run(["redis-cli", *words], capture_output=True, text=True, timeout=120,
                         check=False)
    if run.returncode != 0:
        raise Failed(f"redis-cli {words}: {run.stdout}{run.stderr}")


def ask(servers, *words):
    """The reply of the node that has the key."""
    port = servers[0].port
    for _ in range(5):
        c = Client(port)
        r = c(*words)
        c.close()
        if not isinstance(r, Error):
            return port, r
        moved = re.match(r"(?:MOVED|ASK) \d+ [^:]*:(\d+)", r)
        if not moved:
            raise Failed(f"{words}: {r}")
        port = int(moved[1])
    raise Failed(f"{words}: redirected too often")


class Tests:
    def __init__(self, module, weir):
        self.module, self.weir, self.opened = os.path.abspath(module), weir, []
        self.server = self.open()

    def open(self, *options):
        server = Server(self.module, *options)
        self.opened.append(server)
        return server

    def run(self, test):
        try:
            self.server.client()("FLUSHALL")
            if test is test_answers:
                good_policies(self.server.client())
            test(self)
            if self.server.process.poll() is not None:
                raise Failed("the server has stopped")
            return True
        except (Failed, OSError, KeyError, TypeError, AttributeError,
                subprocess.SubprocessError) as e:
            print(f"{test.__name__}: {type(e).__name__}: {e}")
            print(self.server.log_text())
            return False
        finally:
            for server in self.opened[1:]:
                server.close()
            del self.opened[1:]
            if self.server.process.poll() is not None:
                self.server.start()

    def close(self):
        for server in self.opened:
            server.close()


def main():
    module, weir, *only = sys.argv[1:]
    tests = [f for name, f in globals().items()
             if name.startswith("test_") and (not only or name[5:] in only)]
    t = Tests(module, weir)
    try:
        passed = sum(t.run(test) for test in tests)
    finally:
        t.close()
    print(f"{passed} passed, {len(tests) - passed} failed, 0 skipped")
    return passed < len(tests)


if __name__ == "__main__":
    sys.exit(main())
