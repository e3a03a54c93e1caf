#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Tests the Functions library in a real redis-server: the format and the expiry of keys, errors,
concurrency, damaged states, time zones, several keys, and a server that loses the library, is out of
memory, replicates, or is a Cluster.

    lua_test.py WEIR"""

import collections
import datetime
import glob
import os
import random
import re
import subprocess
import sys
import threading

from kit import lua as kit
from kit.lua import CLOCK_KEY, REPO, Functions, Refused, Script, Server
from kit.process import until

WEIR = sys.argv[1] if len(sys.argv) > 1 else os.path.join(REPO, "build", "weir")
WAYS = (Functions, Script)
T0_US = 1_800_000_000_123_456
H_US = 3600 * 10**6

# Each admits exactly LIMIT at once, and then nothing for a long time.
LIMIT = 50
SLOW = (
    "gcra 1/h burst 50", "token-bucket 50 refill 1/h", "token-bucket 50 refill 1 every 30d", "leaky-bucket 1/h capacity 50",
    "leaky-queue 1/h depth 49", "fixed-window 50/3650d", "fixed-window 50/3650d from-first",
    "fixed-window 50/3650d count-denied", "sliding-log 50/d", "sliding-log 50/d count-denied",
    "sliding-counter 50/3650d", "sliding-counter 50/3650d relaxed", "sliding-slices 50/3650d slices 10",
    "gcra 1/h burst 60 & sliding-log 50/d & fixed-window 55/3650d",
)


class At:
    """The library on a client, with a clock that the test sets."""

    def __init__(self, client, way=Functions):
        self.client = client
        self.way = way(client, kit.with_clock(kit.library()))

    def ask(self, now_us, key, verb, policy, n=1, *bounds):
        return self.call(now_us, "weir_ask", [key], verb, policy, n, *bounds)

    def call(self, now_us, function, keys, *args):
        """Returns the reply, which may be an error."""
        return self.client.many([("SET", CLOCK_KEY, now_us), self.way.call(function, keys, *args)])[1]


def error_of(answer):
    return str(answer) if isinstance(answer, Refused) else f"no error: {answer!r}"


# ---- concurrency ---------------------------------------------------------------------------------


def test_race(tally):
    """8 concurrent clients: reading and then writing in the client admits too many, the library never does"""
    with Server() as server:
        clients = [server.client() for _ in range(8)]
        # The usual wrong way: read the counter, compare, then increment. All clients read before one writes.
        seen = [int(c("GET", "naive") or 0) for c in clients]
        admitted = sum(1 for c, n in zip(clients, seen) if n < 5 and c("INCR", "naive"))
        tally.check(admitted == 8 > 5, "the wrong way did not admit too many", admitted)
        for way in WAYS:
            apis = [way(c, kit.library()) for c in clients]
            for policy in SLOW:
                counts = take_from_all(clients, apis, f"k:{way.name}:{policy}", policy)
                tally.equal(sum(counts), LIMIT, way.name, policy)


def take_from_all(clients, apis, key, policy):
    """How many requests of each client are allowed; each sends 40 at the same time."""
    counts, gate = [0] * len(clients), threading.Barrier(len(clients))

    def ask(i):
        gate.wait()
        for _ in range(40):
            counts[i] += clients[i](*apis[i].call("weir_ask", [key], "TAKE", policy, 1))[0]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(clients))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    return counts


def test_denials(tally):
    """a denial and a peek write nothing, except with count-denied"""
    with Server() as server:
        client = server.client()
        for way in WAYS:
            at = At(client, way)
            for policy in SLOW:
                client("DEL", "k")
                at.ask(T0_US, "k", "TAKE", policy, LIMIT)
                before = client("DUMP", "k")
                at.ask(T0_US + 5, "k", "PEEK", policy, 3)
                at.ask(T0_US + 5, "k", "GRANT", policy, 3)
                tally.check(client("DUMP", "k") == before, policy, "a peek wrote")
                denied = at.ask(T0_US + 5, "k", "TAKE", policy, 3)
                tally.equal(denied[0], 0, policy)
                if "sliding-log 50/d count-denied" != policy:
                    tally.check(client("DUMP", "k") == before, policy, "a denial wrote")


# ---- keys ----------------------------------------------------------------------------------------

KEYS = {  # the type, and the parts that do not depend on the policy's id
    "gcra 100/s burst 20": ("string", ["1800000000133456", "100"]),
    "fixed-window 100/m": ("string", ["1800000000000000", "1"]),
    "fixed-window 100/m from-first": ("string", ["1800000000123456", "1"]),
    "fixed-window 100/month": ("string", ["1798761600000000", "1"]),
    "gcra 3/s burst 20": ("string", ["1800000000456789:1", "3"]),
    "token-bucket 20 refill 100/s": ("hash", {"time": "1800000000123456", "level": "10000", "rate": "100"}),
    "token-bucket 20 refill 5 every 1s": ("hash", {"step": "1800000000", "level": "1", "rate": "5"}),
    "leaky-bucket 7/s capacity 9": ("hash", {"time": "1800000000123456", "level": "142857:1", "rate": "7"}),
    "leaky-queue 10/s depth 9": ("hash", {"time": "1800000000123456", "level": "100000", "rate": "10"}),
    "sliding-counter 100/m": ("hash", {"start": "1800000000000000", "before": "0", "count": "1"}),
    "sliding-slices 100/m slices 60": ("hash", {"low": "1", "next": "2", "at": "1800000000", "total": "1",
                                                "1": "1800000000 1 1"}),
    "sliding-log 100/m": ("zset", ["1:1", "1800000000123456"]),
    "gcra 100/s burst 20 & sliding-log 5/m": ("hash", {
        "1.tat": "1800000000133456", "1.rate": "100", "2.low": "1", "2.next": "2", "2.at": "1800000000123456", "2.total": "1",
        "2.1": "1800000000123456 1 1"}),
}


def contents(client, key):
    kind = client("TYPE", key).decode()
    if kind == "string":
        tag, policy, *rest = client("GET", key).decode().split(" ")
        return kind, f"{tag} {policy}", rest
    if kind == "hash":
        words = [w.decode() for w in client("HGETALL", key)]
        fields = dict(zip(words[::2], words[1::2]))
        return kind, fields.pop("weir", ""), fields
    members = [w.decode() for w in client("ZRANGE", key, 0, -1, "WITHSCORES")] if kind == "zset" else [""] * 2
    return kind, members[0], members[2:]


def test_keys(tally):
    """keys have the formats of docs/redis-functions.md"""
    with Server() as server:
        client = server.client()
        at = At(client)
        tags = set()
        for policy, (kind, state) in KEYS.items():
            at.ask(T0_US, "k", "TAKE", policy)
            found, tag, rest = contents(client, "k")
            tally.equal((found, rest), (kind, state), policy)
            tags.add(tag)
            tally.check(tag.startswith("weir1 ") and len(tag) == 14, policy, tag)
            # The next policy finds the state of this one, which has another type or another tag.
        tally.equal(len(tags), len(KEYS) - 1, "the two of gcra have one shape")
        at.ask(T0_US, "k", "TAKE", "gcra 100/s burst 20")
        tally.equal(at.ask(T0_US, "k", "PEEK", " gcra  0100/1s\tburst 20\n")[2], 19, "the canonical text's state")
        tally.equal(at.ask(T0_US, "k", "PEEK", "gcra 6000/m burst 20")[2], 20, "another shape's state")


def test_changed_limits(tally):
    """a key keeps what it used when its limit changes; a peek and a denied transaction write nothing"""
    with Server() as server:
        client = server.client()
        at = At(client)
        at.ask(T0_US, "k", "TAKE", "gcra 100/s burst 20", 12)
        before = contents(client, "k")
        tally.equal(at.ask(T0_US, "k", "PEEK", "gcra 50/s burst 15", 0)[:5], [1, 15, 3, 0, 240000])
        tally.equal(contents(client, "k"), before, "a peek")
        denied = at.call(T0_US, "weir_ask_all", ["k", "l"], "gcra 50/s burst 15", 1, "gcra 1/s", 2)
        tally.equal(denied[0], 1)
        tally.equal(contents(client, "k"), before, "a denied transaction")
        tally.equal(at.ask(T0_US, "k", "TAKE", "gcra 50/s burst 15", 4)[:4], [0, 15, 3, 20000])
        tally.equal(contents(client, "k")[2], [str(T0_US + 240000), "50"], "a denial")
        tally.equal(at.ask(T0_US, "k", "TAKE", "gcra 3/s burst 15", 1)[:3], [1, 15, 2])
        tally.equal(contents(client, "k")[2], [f"{T0_US + 4333333}:1", "3"])
        tally.equal(at.ask(T0_US, "k", "TAKE", "gcra 3/s burst 10", 1)[:4], [0, 10, 0, 1333334])
        client("SET", "k", f"{before[1]} {T0_US - 1} 100")  # all units are free again
        tally.equal(at.ask(T0_US, "k", "TAKE", "gcra 3/s burst 10", 10)[:4], [1, 10, 0, 0])
        tally.equal(contents(client, "k")[2], [f"{T0_US + 3333333}:1", "3"])
        for damaged in ("0", "1099511627777", "x", ""):
            client("SET", "k", f"{before[1]} {T0_US + 10**6} {damaged}")
            tally.equal(at.ask(T0_US, "k", "PEEK", "gcra 3/s burst 10", 0)[2], 10, damaged)
        client("SET", "k", f"{before[1]} {T0_US + 10**6} 1099511627776")
        tally.equal(at.ask(T0_US, "k", "PEEK", "gcra 1/s burst 10", 0)[:5],
                    [0, 10, 0, 1152921494606847, 1152921504606847])


def test_wrong_type(tally):
    """a key of another program is refused and not changed"""
    with Server() as server:
        client = server.client()
        make = (("SET", "k", "hello"), ("SET", "k", "weird1"), ("HSET", "k", "a", "1"), ("HSET", "k", "weir", "mine"),
                ("ZADD", "k", 1, "m"), ("RPUSH", "k", "1"), ("SADD", "k", "1"), ("XADD", "k", "*", "a", "b"))
        for way in WAYS:
            at = At(client, way)
            for command in make:
                client("DEL", "k")
                client(*command)
                before = client("DUMP", "k")
                for policy in KEYS:
                    tally.check(error_of(at.ask(T0_US, "k", "TAKE", policy)).startswith("WRONGTYPE"), command, policy)
                for verb in ("PEEK", "RESET", "REFUND", "GRANT"):
                    answer = at.ask(T0_US, "k", verb, "gcra 1/s")
                    tally.check(error_of(answer).startswith("WRONGTYPE"), command, verb, answer)
                tally.check(client("DUMP", "k") == before, command, "the key was changed")


def test_damaged(tally):
    """a truncated or damaged state gets a reply, and does not block the server"""
    with Server() as server:
        client = server.client()
        at, rng = At(client), random.Random(5)
        damaged = (b"", b"x", b"-1", b"0", b"1", b"9" * 15, b"1 1", b"1 1 1", b"1:1", b"9007199254740991")
        for policy in KEYS:
            for _ in range(30):
                client("DEL", "k")
                for i in range(3):
                    at.ask(T0_US + i, "k", "TAKE", policy)
                damage(client, rng, damaged)
                for verb in ("PEEK", "TAKE", "REFUND", "TAKE"):
                    at.ask(T0_US + 10, "k", verb, policy, rng.choice((1, 2, 2**31 - 1)))
            tally.equal(client("PING"), b"PONG", policy)


def test_damaged_fraction(tally):
    """an invalid fraction of a microsecond is ignored"""
    with Server() as server:
        client = server.client()
        at = At(client)
        for policy, key in (("gcra 3/s burst 2147483647", "string"), ("token-bucket 2147483647 refill 3/s", "hash")):
            for damaged, left in (("2", 2147483646), ("3", 2147483647), ("9007199254740991", 2147483647)):
                client("DEL", "k")
                at.ask(T0_US, "k", "TAKE", policy)
                kind, tag, _ = contents(client, "k")
                tally.equal(kind, key, policy)
                if kind == "string":
                    client("SET", "k", f"{tag} {T0_US}:{damaged} 3")
                else:
                    client("HSET", "k", "level", f"0:{damaged}")
                tally.equal(at.ask(T0_US, "k", "PEEK", policy)[2], left, policy, damaged)


FAR = (  # policy, field, and the damaged value: a time that exceeds every reply and expiry
    ("token-bucket 10 refill 5 every 3650d", "step", 2**31), ("token-bucket 10 refill 5 every 3650d", "level", 2**53 - 1),
    ("token-bucket 10 refill 2 every 7d", "step", 2**53), ("sliding-slices 100/3650d slices 7", "at", 2**53 - 1),
    ("fixed-window 9/m count-denied & sliding-slices 5/3650d slices 10", "2.at", 2**53 - 1),
    ("fixed-window 5/m & fixed-window 7/3650d", "2.count", 2**31 - 1),
)


def test_far(tally):
    """a damaged state gets a reply without negative fields, and a write sets its expiry"""
    with Server() as server:
        client = server.client()
        for way in WAYS:
            api = way(client, kit.library())
            ask = lambda verb, policy, n: client.many([api.call("weir_ask", ["k"], verb, policy, n)])[0]  # noqa: E731
            for policy, field, damaged in FAR:
                for verb, n in (("PEEK", 1), ("TAKE", 1), ("GRANT", 3), ("REFUND", 1), ("REFUND", 2**31 - 1)):
                    client("DEL", "k")
                    ask("TAKE", policy, 2)
                    client("HSET", "k", field, damaged)
                    before = client("DUMP", "k")
                    answer = ask(verb, policy, n)
                    if verb == "REFUND" and "count-denied" in policy:
                        tally.equal((error_of(answer)[:9], client("DUMP", "k")), ("ERR weir:", before), policy)
                        continue
                    tally.check(isinstance(answer, list) and min(answer) >= 0, way.name, policy, field, verb, answer)
                    tally.check(client("PTTL", "k") != -1, way.name, policy, field, verb, "no expiry")


def damage(client, rng, damaged):
    kind, tag, _ = contents(client, "k")
    if kind == "string":
        client("SET", "k", tag.encode() + b" " + rng.choice(damaged))
    elif kind == "hash":
        name = rng.choice([f for f in client("HKEYS", "k") if f != b"weir"])
        client("HSET", "k", name, rng.choice(damaged)) if rng.random() < 0.7 else client("HDEL", "k", name)
    elif rng.random() < 0.5:
        client("ZADD", "k", T0_US, rng.choice(damaged))
    else:
        client("ZREMRANGEBYRANK", "k", 1, 1)


def test_expiry(tally):
    """a key expires in the millisecond in which it has its full quota"""
    with Server() as server:
        client = server.client()
        for way in WAYS:
            api = way(client, kit.library())
            for policy in (*SLOW, *KEYS):
                client("DEL", "k")
                lower = time_us(client)
                answer = client(*api.call("weir_ask", ["k"], "TAKE", policy, 2))
                upper = time_us(client)
                layers = policy.count("&")
                expires = client("PEXPIRETIME", "k") * 1000
                if expires < 0:  # it has expired
                    tally.check(lower + answer[4] <= time_us(client), way.name, policy, expires)
                elif layers == 0:
                    tally.check(lower + answer[4] <= expires < upper + answer[4] + 1000, way.name, policy, expires)
                else:
                    tally.check(expires >= lower + answer[4], way.name, policy, expires)


def time_us(client):
    s, us = client("TIME")
    return int(s) * 10**6 + int(us)


def test_rows(tally):
    """logs and slices with thousands of entries are exact, and old entries are removed"""
    with Server() as server:
        client = server.client()
        for way in WAYS:
            for policy in ("sliding-log 3000/10s", "sliding-slices 3000/10s slices 5000",
                           "sliding-log 3000/10s & sliding-slices 5000/20s slices 1000", "sliding-log 300/10s count-denied"):
                at = At(client, way)
                client("DEL", "k")
                rows(tally, client, at, policy, 3500 if way is Functions else 800)


def rows(tally, client, at, policy, steps):
    """Compares with a list of the charges. At the end, only the last charges are in the window."""
    rng, log, used, now = random.Random(policy), collections.deque(), 0, T0_US
    counted, limit = "count-denied" in policy, 300 if "count-denied" in policy else 3000
    span = 10 * 10**6
    for _ in range(steps):
        now += rng.choice((0, 1, 300, 2500, 9000))
        cost = rng.choice((1, 1, 1, 2, 3))
        got = at.ask(now, "k", "TAKE", policy, cost)
        if not policy.startswith("sliding-log"):
            continue
        while log and log[0][0] <= now - span:
            used -= log.popleft()[1]
        allowed = used + cost <= limit
        if allowed or counted:
            log.append((now, cost))
            used += cost
        while used > limit:
            at_us, units = log.popleft()
            used -= 1
            log.extendleft([(at_us, units - 1)] * (units > 1))
        if got[0] != allowed or got[2] != limit - used:
            tally.check(False, policy, "at", now, got, allowed, limit - used)
            return
    tally.check(True)
    size = client("ZCARD", "k") if client("TYPE", "k") == b"zset" else client("HLEN", "k")
    for i in range(40):
        at.ask(now + 10 * 60 * 10**6 + i * 10**5, "k", "TAKE", policy, 1)
    left = client("ZCARD", "k") if client("TYPE", "k") == b"zset" else client("HLEN", "k")
    tally.check(left < 120 < size, policy, "old entries stay:", size, left)


MANY = 9000


def test_refund_of_many(tally):
    """a refund in a log with thousands of old entries is exact, and removes some of them"""
    with Server() as server:
        client = server.client()
        at = At(client)
        size = lambda: client("ZCARD", "k") if client("TYPE", "k") == b"zset" else client("HLEN", "k")  # noqa: E731
        # In the second layer all entries are old, and the last takes have removed some of them.
        in_second = MANY + 3 - 4 * 256
        for policy, by_charge, by_refund in (("sliding-log 20000/10s", 256 - 1, 8192 + 2), (
                "sliding-log 20000/10s & sliding-log 30000/1s", 2 * (256 - 1), 8192 + 2 + in_second + 1)):
            client("DEL", "k")
            takes = [(T0_US + i, 1) for i in range(MANY)] + [(T0_US + 9_000_000 + i, 2) for i in range(3)]
            for now, n in takes:
                at.ask(now, "k", "TAKE", policy, n)
            now, before = T0_US + 10_500_000, size()
            tally.equal(at.ask(now, "k", "TAKE", policy, 1)[2], 20000 - 7, policy)
            tally.equal(before - size(), by_charge, policy)
            before = size()
            tally.equal(at.ask(now, "k", "REFUND", policy, 4)[2], 20000 - 3, policy)
            tally.equal(before - size(), by_refund, policy)
            for n, left in ((3, 20000), (1, 20000)):
                tally.equal(at.ask(now, "k", "REFUND", policy, n)[2], left, policy)
            # All is refunded. If the clock steps back, the remaining old entries count, which is stricter.
            back = at.ask(T0_US + 9_000_000, "k", "PEEK", policy, 1)
            tally.check(20000 - MANY < back[2] <= 20000, policy, back)
            for i in range(3):
                tally.equal(at.ask(now + i, "k", "TAKE", policy, 5)[2], 20000 - 5 * (i + 1), policy)


def test_mad_row(tally):
    """a row with a wrong number of entries is not removed entry by entry"""
    with Server() as server:
        client = server.client()
        at, policy = At(client), "sliding-slices 1000000/m slices 60"
        for low in (1, 10**9 - 1):
            client("DEL", "k")
            at.ask(T0_US, "k", "TAKE", policy, 2)
            at_slice = T0_US // 10**6
            client("HSET", "k", "next", 10**9 + 1, "low", low, str(low), f"{at_slice * low // 10**9} 1 1",
                   str(10**9), f"{at_slice} 3 2")
            tally.check(isinstance(at.ask(T0_US, "k", "REFUND", policy, 1), list), low)
        tally.equal(client("PING"), b"PONG")


# ---- policies, arguments and replies -------------------------------------------------------------


VERSION = 6  # reasons of the library
FINER = ("whole microseconds", "a number of slices, from 1 to 10")  # refused by the library alone


def test_errors(tally):
    """the library has the same errors and the same canonical texts as the program"""
    with Server() as server:
        client = server.client()
        api = Functions(client, kit.library())
        texts = texts_to_try()
        same = 0
        for text in texts:
            run = subprocess.run([WEIR, "policy", text], capture_output=True, text=True, check=False)
            answer = client.many([api.call("weir_policy_check", [], text)])[0]
            finer = isinstance(answer, Refused) and any(w in str(answer) for w in FINER)
            if finer or text.startswith("-"):
                continue  # the program would read it as an option
            if run.returncode == 0:
                want = " & ".join(line for line in run.stdout.splitlines() if line[:1] not in (" ", "") and
                                  not line.startswith("state "))
                got = answer.decode() if isinstance(answer, bytes) else str(answer)
            else:
                want = run.stderr.splitlines()[0].replace("weir policy: ", "ERR policy: ")
                got = error_of(answer)
            if "name of a time zone" in want or ("time zone" in want and "no " in want):
                continue  # the program has the time zones of the system
            same += tally.equal(got, want, repr(text))
        tally.check(same > len(texts) // 2, "too few texts were compared", same, len(texts))


# Buckets that refill in 36.5 years (1152921504606846975 ns), and in a fraction of 1 ns more and less.
LONGEST = ("gcra 40/1124801467909119us burst 41", "gcra 122/8322372851431us burst 16901", "gcra 77/162294252019611us burst 547")


ANCHORED = ("day from 00:00", "day from 00:01", "day from 23:59", "day from 24:00", "day from 23:60", "day from 6:00",
            "day from 06-00", "day from", "day from 06:000", "day from sunday", "week from monday", "week from sunday",
            "week from sunday&gcra 1/s", "week from Sunday", "week from 3", "week from mondays", "month from 1", "month from 017",
            "month from 31", "month from 0", "month from 32", "month from sunday", "month from 17th", "year from 01-01",
            "year from 02-29", "year from 03-01", "year from 12-31", "year from 13-01", "year from 00-01", "year from 04-31",
            "year from 02-30", "year from 12-00", "year from 17", "24h from 06:00", "24h from-first from 06:00",
            "day from 06:00 from 06:00", "month count-denied tz Asia/Tokyo from 17", "month tz Asia/Tokyo from 17 count-denied",
            "month from 17 from-first")


def texts_to_try():
    good = [*KEYS, *SLOW, "fixed-window 5/day tz Europe/Berlin count-denied", "gcra 1/2w3d4h5m6s7ms8us9ns", "gcra 1/500ns",
            "gcra 1/1152921504606846975ns", "gcra 1/1152921504606846976ns", "gcra 2/3650d burst 8", "gcra 1/3650d burst 4",
            "gcra 1099511627776/s burst 2147483647", "gcra 1099511627777/s", "gcra 3/36w burst 2147483647",
            "token-bucket 9 refill 1 every 3650d", "fixed-window 2147483648/s", "leaky-queue 1/s depth 2147483647",
            "sliding-slices 5/10us slices 11", "sliding-slices 5/m slices 65537", " & ".join(["gcra 1/s"] * 9),
            " & ".join(["gcra 1/s"] * 8), "gcra 1/s" + " " * 1015, *LONGEST, "leaky-queue 1/3650d depth 9",
            "leaky-queue 1/s depth 5 nodelay 5", "leaky-queue 1/s depth 5 nodelay 6", "leaky-queue 1/s depth 5 nodelay 0",
            "leaky-queue 1/s depth 0 nodelay 1", "leaky-queue 1/s depth 5 nodelay", "leaky-queue 1/s nodelay 5 depth 5",
            "leaky-queue 1/3650d depth 9 nodelay 1", "leaky-queue 1/s depth 2147483646 nodelay 2147483646",
            *("gcra " + "x" * n for n in (31, 32, 33)), "gcra 0.5/1000000000s", "gcra 0.5/1000000001s",
            "gcra 1/s & ", "", "gcra 1/" + "0" * 900 + "1s", "gcra 1/s" + " " * 1016, "gcra 99999999999999999999/s",
            *(f"fixed-window 5/{text}" for text in ANCHORED),
            "fixed-window 1/day from-first", "fixed-window 1/s tz UTC", "sliding-log 1/day", "gcra 1/1day", "gcra 1/1s1m"]
    habits = ["gcra 0.5/s", "gcra 2.5/sec", "gcra 0.5/10s burst 3", "gcra 3.0/m", "gcra 0.000001/s", "gcra 0.0000001/s",
              "gcra 1000000000.5/999999999s", "gcra 1000000001.5/s", "gcra 0.5/99999999999999999999s", "gcra 0.0/s",
              "gcra 1.5", "gcra 0.5/x", "fixed-window 0.5/day", "token-bucket 5 refill 0.1/s", "gcra 5/sec", "gcra 5/10seconds",
              "sliding-log 5/minutes", "gcra 5/days", "GCRA 1/s", "Token_Bucket 5 refill 1/s", "tokenbucket 5 refill 1/s",
              "fixed window 5/m", "gcra 1/s & sliding window log 5/m", "sliding-window 5/m", "sliding 5/m", "leaky 5/m", "5/s",
              "5/ s", "5/a&b%c'd", "5/" + "x" * 40, "token-bucket 10/s burst 5", "token-bucket 10/s", "token-bucket 10/sx9 5",
              "FIXED__WINDOW  5/m", "sliding-window-counterx 5/m", "10r/s", "10 per minute", "gcra 10r/s",
              "gcra 10r/sec burst=2", "gcra 1,000/s", "gcra 1_000/s", "gcra 10/s burst=20", "leaky-bucket 10/s capacity=20",
              "leaky-queue 10/s depth 20 nodelay=8",
              "fixed-window 100/day tz=UTC", "fixed-window 100/month from=17", "token-bucket 5 refill=1/s", "token-bucket 5 refill 1 every=1s",
              "gcra 1/s && gcra 5/m", "gcra 1/s burst=" + "x" * 40, "sliding-slices 5/m slices=5"]
    good += habits
    rng = random.Random(3)
    for i in range(300):
        text = list(rng.choice(good if i < 150 else habits))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text) + 1)
            text[at:at + rng.randint(0, 1)] = rng.choice(("", "&", " ", "x", "0", "9", "/", "s", "-", "day", "burst ", "7", ".", "S", "_", "=", "r", ","))
        good.append("".join(text))
    for path in sorted(glob.glob(os.path.join(REPO, "tests", "fuzz", "corpus", "policy", "*"))):
        with open(path, encoding="latin-1") as f:
            text = f.read()
        if text.isascii() and "\0" not in text:
            good.append(text)
    return good


def test_refusals(tally):
    """a policy that exceeds doubles or microseconds is refused, with the reason"""
    with Server() as server:
        at = At(server.client())
        for policy, column in (("fixed-window 5/1500ns", 16), ("sliding-log 5/1ns", 15), ("sliding-counter 5/999ns", 19),
                               ("sliding-slices 5/1500ns slices 1", 18), ("token-bucket 5 refill 1 every 1us1ns", 31),
                               ("gcra 1/1y", 9), ("gcra 1/9007199254740992ns", 8),
                               *((f"fixed-window 5/day tz {zone}", 23) for zone in ("z" * 64, "/z", "z/", "z//z", ""))):
            for answer in (at.call(T0_US, "weir_policy_check", [], policy), at.ask(T0_US, "k", "TAKE", policy)):
                tally.check(error_of(answer).startswith(f"ERR policy: column {column}: "), policy, answer)
        tally.check("10" in error_of(at.call(T0_US, "weir_policy_check", [], "sliding-slices 5/10us slices 11")), "slices")
        for policy in ("gcra 1/9007199254740991ns", "fixed-window 5/day tz " + "z" * 63):
            tally.equal(at.call(T0_US, "weir_policy_check", [], policy)[:len(policy)], policy.encode())
        for args, word in (((["k"], "TAKE", "gcra 1/s", "-1"), "cost"), ((["k"], "TAKE", "gcra 1/s", "2147483648"), "cost"),
                           ((["k"], "TAKE", "gcra 1/s", "1e3"), "cost"), ((["k"], "TAKE", "gcra 1/s", ""), "cost"),
                           *(((["k"], "PEEK", "gcra 1/s", f"1+{keep}"), "what to keep")
                             for keep in ("", "x", "-1", "2147483648", "101%", "%", "1%%", "1+1")),
                           ((["k"], "TAKE", "gcra 1/s", "+1"), "cost"), ((["k"], "GRANT", "gcra 1/s", "1+1"), "cost"),
                           ((["k"], "TOOK", "gcra 1/s", "1"), "verb"), ((["k"], "TAKE", "gcra 1/s"), "arguments"),
                           (([], "TAKE", "gcra 1/s", "1"), "arguments"),
                           ((["k"], "TAKE", "gcra 1/s", "1", "2"), "too many"),
                           ((["k"], "TAKE", "fixed-window 1/day tz Asia/Tokyo", "1", 0, 1, T0_US * 2, T0_US * 3, 9),
                            "too many")):
            answer = at.call(T0_US, "weir_ask", *args)
            tally.check(error_of(answer).startswith("ERR ") and word in error_of(answer), args, answer)
        for function, keys, args in (("weir_ask", ["k", "l"], ["TAKE", "gcra 1/s", 1]), ("weir_take", [], ["gcra 1/s"]),
                                     ("weir_take", ["k", "l"], ["gcra 1/s"]), ("weir_take", ["k"], []),
                                     ("weir_reset", [], []), ("weir_reset", ["k", "l"], [])):
            answer = at.call(T0_US, function, keys, *args)
            tally.check("wrong number of arguments" in error_of(answer), function, keys, answer)
        # A text without quotes: the rest of its words are an error.
        for function in ("weir_take", "weir_peek", "weir_refund"):
            answer = at.call(T0_US, function, ["k"], "gcra 100/s", "1", "burst", "20")
            tally.check("too many arguments" in error_of(answer), function, answer)
        for policy in ("leaky-queue 1/s depth 5", "fixed-window 5/m count-denied", "gcra 1/s & sliding-log 5/m count-denied"):
            answer = at.ask(T0_US, "k", "REFUND", policy, 1)
            tally.check(error_of(answer).startswith("ERR weir: ") and "do not support refunds" in error_of(answer), policy, answer)


def test_people(tally):
    """the functions for users reply in milliseconds, rounded up"""
    with Server() as server:
        client = server.client()
        for way in WAYS:
            at = At(client, way)
            client("DEL", "k")
            policy = "gcra 3/s burst 2"
            tally.equal(at.call(T0_US, "weir_take", ["k"], policy), [1, 2, 1, 0, 334, 0], way.name)
            tally.equal(at.call(T0_US, "weir_peek", ["k"], policy, 2), [0, 2, 1, 334, 334, 0], way.name)
            tally.equal(at.call(T0_US, "weir_take", ["k"], policy, 3), [0, 2, 1, -1, 334, 0], way.name)
            tally.equal(at.call(T0_US, "weir_refund", ["k"], policy, 1), [1, 2, 2, 0, 0, 0], way.name)
            tally.equal(at.call(T0_US, "weir_take", ["k"], policy, 2), [1, 2, 0, 0, 667, 0], way.name)
            tally.equal(at.call(T0_US, "weir_reset", ["k"]), b"OK", way.name)
            tally.equal(client("EXISTS", "k"), 0, way.name)
            tally.equal(at.ask(T0_US, "k", "reset", policy, 0), [1, 2, 2, 0, 0, 0, 0, 0], way.name)
            tally.equal(at.call(T0_US, "weir_version", []), VERSION, way.name)
            tally.equal(at.call(T0_US, "weir_policy_check", [], "gcra 60/60s"), b"gcra 60/m burst 1", way.name)
            all_of = at.call(T0_US, "weir_take_all", ["k", "l"], policy, 1, "leaky-queue 1/s depth 5", 2)
            tally.equal(all_of, [1, 2, 1, 0, 334, 0, 0], way.name)
            client("DEL", "k", "l")
            tie = ["gcra 1/s", 1, "fixed-window 1/h", 1, "gcra 1/s", 1]
            all_of = at.call(T0_US, "weir_take_all", ["k", "l", "m"], *tie)
            tally.equal((all_of[:4], all_of[6]), ([1, 1, 0, 0], 1), way.name, "of equals the latest reset")
            tie[1], tie[3] = 2, 2
            all_of = at.call(T0_US, "weir_take_all", ["k", "l", "m"], *tie)
            tally.equal((all_of[:4], all_of[6]), ([0, 1, 0, -1], 1), way.name, "also if both never pass")
            client("DEL", "k", "l", "m")
            queue = "leaky-queue 3/s depth 5"
            tally.equal(at.call(T0_US, "weir_take", ["k"], queue), [1, 6, 5, 0, 334, 0], way.name)
            tally.equal(at.call(T0_US, "weir_take", ["k"], queue), [1, 6, 4, 0, 667, 334], way.name)
            all_of = at.call(T0_US, "weir_take_all", ["k", "l"], queue, 1, policy, 1)
            tally.equal(all_of, [1, 2, 1, 0, 334, 667, 1], way.name, "the longest delay")
            client("DEL", "k", "l")
            twice = ["gcra 1/s burst 5", 3] * 2
            tally.equal(at.call(T0_US, "weir_take_all", ["k", "k"], *twice), [0, 5, 5, -1, 0, 0, 1], way.name)
            twice[1], twice[3] = 2, "3+1"
            tally.equal(at.call(T0_US, "weir_take_all", ["k", "k"], *twice), [0, 5, 4, -1, 0, 0, 1], way.name)
            most = ["fixed-window 2147483647/d", 2147483647] * 2
            tally.equal(at.call(T0_US, "weir_take_all", ["k", "k"], *most), [0, 2147483647, 2147483647, -1, 0, 0, 1],
                        way.name)
            twice[3] = 3
            tally.equal(at.call(T0_US, "weir_take_all", ["k", "k"], *twice), [1, 5, 0, 0, 5000, 0, 1], way.name)
            tally.equal(at.call(T0_US + 4 * 10**6, "weir_take_all", ["k", "k"], *twice), [0, 5, 4, 1000, 1000, 0, 1],
                        way.name)
            tally.equal(at.call(T0_US + 5 * 10**6, "weir_take_all", ["k", "k"], *twice), [1, 5, 0, 0, 5000, 0, 1],
                        way.name)
            client("DEL", "k")
            brief = ["block 2s & gcra 1/s burst 5", 3, "block 2s & gcra 1/s burst 5", 2]
            tally.equal(at.call(T0_US, "weir_take_all", ["k", "k"], *brief), [1, 5, 0, 0, 5000, 0, 1], way.name)
            tally.equal(at.call(T0_US + 2 * 10**6, "weir_take_all", ["k", "k"], *brief), [0, 5, 2, 3000, 3000, 0, 1],
                        way.name, "the sum waits longer than the block of the first")
            tally.equal(at.call(T0_US + 4 * 10**6, "weir_take", ["k"], *brief[:2]), [1, 5, 1, 0, 4000, 0], way.name,
                        "the block lasts for 2 s")
            client("DEL", "k")
            both = ["gcra 1/s", 1, "block 10m & gcra 1/m", 1]
            tally.equal(at.call(T0_US, "weir_take_all", ["k", "l"], *both), [1, 1, 0, 0, 60000, 0, 1], way.name)
            tally.equal(at.call(T0_US + 2, "weir_take_all", ["k", "l"], *both), [0, 1, 0, 600000, 600000, 0, 1],
                        way.name, "a denial of several begins a block")
            tally.equal(at.call(T0_US + 10**6, "weir_take", ["k"], both[0]), [1, 1, 0, 0, 1000, 0], way.name)
            later = T0_US + 2 + 600 * 10**6
            tally.equal(at.call(later - 1, "weir_take_all", ["k", "l"], *both), [0, 1, 0, 1, 1, 0, 1], way.name)
            tally.equal(at.call(later, "weir_take_all", ["k", "l"], *both), [1, 1, 0, 0, 60000, 0, 1], way.name)
            client("DEL", "k", "l")


NAMES = ("allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms")


# The figures of a peek at T0_US, after 2 units a minute earlier and 1 unit then.
FIGURE_NAMES = ("count", "previous", "window_start_ms")
START_MS = T0_US // 1000 // 60000 * 60000
FIGURES = [("sliding-counter 9/m", {"count": 1, "previous": 2, "window_start_ms": START_MS}),
           ("fixed-window 9/m", {"count": 1, "window_start_ms": START_MS}),
           ("fixed-window 9/2m from-first", {"count": 3, "window_start_ms": T0_US // 1000 - 60000}),
           ("sliding-log 9/2m", {"count": 3}),
           ("sliding-slices 9/2m slices 2", {"count": 3}),
           ("concurrent 9 lease 10m", {"count": 3}),
           ("gcra 1/m burst 9", {}),
           ("sliding-log 9/2m & gcra 1/h burst 9", {}),
           ("sliding-log 3/2m & block 1m", {"count": 3})]


def named(*values, **more):
    return dict(zip(NAMES, values), **more)


def test_protocols(tally):
    """a decision is the same array of integers in RESP2 and RESP3, and a map with WITHNAMES in RESP3"""
    policy, queue = "gcra 60/60s burst 2 & gcra 3/s burst 9", "leaky-queue 1/s depth 5"
    text = b"gcra 60/m burst 2 & gcra 3/s burst 9"
    with Server() as server:
        for proto in (2, 3):
            client = server.client(proto)
            for way in WAYS:
                client("DEL", "k", "l")
                at = At(client, way)
                where = f"{way.name}, RESP{proto}"

                def both(function, keys, args, values, more):
                    tally.equal(at.call(T0_US, function, keys, *args), values, where, function)
                    answer = at.call(T0_US, function, keys, *args, "WithNames")
                    tally.check(isinstance(answer, dict if proto == 3 else list), where, function, answer)
                    if proto == 2:
                        answer = dict(zip(map(bytes.decode, answer[::2]), answer[1::2]))
                    tally.equal(answer, named(*values[:6], **more), where, function)

                tally.equal(at.call(T0_US, "weir_take", ["k"], policy, 2), [1, 2, 0, 0, 2000, 0], where)
                mine = {"policy": text, "layer": 0, "next_ms": 1000}
                both("weir_take", ["k"], [policy], [0, 2, 0, 1000, 2000, 0], mine)
                both("weir_peek", ["k"], [policy, 3], [0, 2, 0, -1, 2000, 0], mine)
                for limit, more in FIGURES:
                    client("DEL", "f")
                    tally.equal(at.call(T0_US - 60_000_000, "weir_take", ["f"], limit, 2)[0], 1, where, limit)
                    tally.equal(at.call(T0_US, "weir_take", ["f"], limit, 1)[0], 1, where, limit)
                    got = at.call(T0_US, "weir_peek", ["f"], limit, 1, "WITHNAMES")
                    got = got if proto == 3 else dict(zip(map(bytes.decode, got[::2]), got[1::2]))
                    tally.equal({name: got[name] for name in got if name in FIGURE_NAMES}, more, where, limit)
                    asked = at.call(T0_US, "weir_ask", ["f"], "PEEK", limit, 1, "Figures")
                    asked[11] //= 1000 if asked[11] > 0 else 1
                    tally.equal(asked[8:], [got["next_ms"] * 1000, *(more.get(name, -1) for name in FIGURE_NAMES)],
                                where, limit)
                client("DEL", "f")
                both("weir_take", ["l"], [queue, 0], [1, 6, 6, 0, 0, 0],
                     {"policy": queue.encode(), "layer": 0, "next_ms": 0})
                plain = at.call(T0_US, "weir_ask", ["k"], "TAKE", policy, 1)
                tally.equal(at.call(T0_US, "weir_ask", ["k"], "TAKE", policy, 1, "FIGURES"),
                            plain + [1_000_000, -1, -1, -1], where)
                tally.equal(at.call(T0_US, "weir_ask", ["k"], "PEEK", policy, "1+2", "FIGURES")[8:], [-1] * 4, where)
                plain = at.call(T0_US, "weir_ask_all", ["l", "k"], queue, 1, policy, 1)
                tally.equal(at.call(T0_US, "weir_ask_all", ["l", "k"], queue, 1, policy, 1, "FIGURES"),
                            plain[:9] + [0, -1, -1, -1] + plain[9:] + [1_000_000, -1, -1, -1], where)
                both("weir_take_all", ["l", "k"], [queue, 1, policy, 1], [0, 2, 0, 1000, 2000, 0, 1],
                     {"index": 1, "key": b"k", **mine})
                both("weir_refund", ["k"], [policy, 0], [1, 2, 0, 0, 2000, 0], mine)
                tally.equal(at.call(T0_US, "weir_refund", ["k"], policy, 2), [1, 2, 2, 0, 0, 0], where)
                both("weir_take_all", ["l", "k"], [queue, 0, policy, 0], [1, 2, 2, 0, 0, 0, 1],
                     {"index": 1, "key": b"k", **mine, "next_ms": 0})
                for function, args, word in (("weir_take", [policy, "WITHNAMES", 1], "cost"),
                                             ("weir_take", [policy, 1, "WITHNAMES", "WITHNAMES"], "too many"),
                                             ("weir_take", ["WITHNAMES"], "policy"),
                                             ("weir_refund", [policy, "WITHNAMES"], "cost"),
                                             ("weir_take_all", [policy, "WITHNAMES"], "cost"),
                                             ("weir_ask", ["TAKE", policy, 1, "WITHNAMES"], "too many")):
                    answer = at.call(T0_US, function, ["k"], *args)
                    tally.check(error_of(answer).startswith("ERR ") and word in error_of(answer), where, args, answer)
                zone = "fixed-window 2/day tz Asia/Kathmandu"
                day, b = 24 * H_US, T0_US - 5 * H_US
                client("DEL", "k")
                answer = at.call(T0_US, "weir_take", ["k"], zone, 1, b - day, b, b + day, b + 2 * day, "WITHNAMES")
                tally.equal(len(answer), 9 if proto == 3 else 18, where, "behind the bounds of a zone")


def test_names_without_maps(tally):
    """a server without RESP3 gets an array of names and values"""
    with Server() as server:
        client = server.client(3)
        text = kit.library()
        tally.equal(text.count("redis.setresp"), 1)
        way = Script(client, text.replace("redis.setresp", "redis.no_such_function"))
        answer = client(*way.call("weir_take", ["k"], "gcra 1/h burst 5", "WITHNAMES"))
        pairs = dict(zip(answer[::2], answer[1::2]))
        tally.equal((len(answer), pairs[b"allowed"], pairs[b"remaining"], pairs[b"policy"]), (18, 1, 4, b"gcra 1/h burst 5"))


# ---- arithmetic ----------------------------------------------------------------------------------

# Functions of the library that the test calls by themselves. `widest` gets limit, relaxed, before and spare.
INSIDE = """local FUNCTIONS = {
  mul_div = function(_, a)
    local q, r = mul_div(tonumber(a[1]), tonumber(a[2]), tonumber(a[3]))
    return { whole(q), whole(r) }
  end,
  widest = function(_, a)
    local L = { period = tonumber(a[1]), relaxed = a[2] == 'relaxed' }
    local us, ns = widest(L, tonumber(a[3]), tonumber(a[4]))
    return { whole(us), whole(ns) }
  end,
  left = function(_, a)
    local n = {}
    for i = 1, #a do
      n[i] = tonumber(a[i])
    end
    return whole(rate.left({ limit = n[1], whole = n[2], part = n[3], num = n[4] }, { q = n[5], r = n[6] }, n[7]))
  end,
  slices = function(_, a)
    local L, at = { period = tonumber(a[1]), slices = tonumber(a[2]) }, tonumber(a[3])
    local start, ns = slice_start(L, at)
    return { whole(slice_at(L, at)), whole(start), whole(ns) }
  end,
"""


def of_any_size(rng, bits):
    return rng.randrange(2 ** rng.randint(0, bits))


def mul_div_cases(rng):
    """Products next to a multiple of the divisor, of every size that mul_div() allows."""
    while True:
        a, d = of_any_size(rng, 31) or 1, of_any_size(rng, 51) or 1
        q = of_any_size(rng, 31 if d >= 2**31 else 51)
        x = rng.choice((q * d // a, q * d // a + 1, of_any_size(rng, 51)))
        quotient = a * x // d
        if x < 2**51 and quotient < 2**51 and (quotient < 2**31 or d < 2**31):
            yield a, x, d


def left_cases(rng):
    """Arrival times next to a multiple of the interval T = whole + part/num ahead, and how many units are left."""
    while True:
        limit, num = 1 + of_any_size(rng, 30), 1 + of_any_size(rng, rng.choice((0, 10, 40)))
        whole, part, now = of_any_size(rng, 20), rng.randrange(num), of_any_size(rng, 50)
        interval = whole * num + part  # this and `ahead` are in 1/num microseconds
        ahead = rng.randint(0, limit + 1) * interval + rng.choice((-1, 0, 1, of_any_size(rng, 20)))
        if interval and ahead >= 0 and limit * interval // num < 2**50:
            left = limit - -(-ahead // interval)
            yield (limit, whole, part, num, now + ahead // num, ahead % num, now), max(0, left)


def widest_of(period, relaxed, before, spare):
    """The largest overlap, in ns, with which `before` counts as at most `spare` units."""
    if spare < 0:
        return 0
    if before <= spare:
        return period * 1000
    return -(-(spare + 1) * period * 1000 // before) - 1 if relaxed else spare * period * 1000 // before


def test_arithmetic(tally):
    """products and quotients are exact, of every size and next to every bound"""
    rng = random.Random(11)
    text = kit.library()
    tally.equal(text.count("local FUNCTIONS = {\n"), 1)
    with Server() as server:
        client = server.client()
        way = Script(client, text.replace("local FUNCTIONS = {\n", INSIDE))
        asked = []
        for _, (a, x, d) in zip(range(3000), mul_div_cases(rng)):
            asked.append((("mul_div", a, x, d), divmod(a * x, d)))
        asked += [(("left", *args), (left,)) for _, (args, left) in zip(range(2000), left_cases(rng))]
        for _ in range(1000):
            before, spare = of_any_size(rng, 31), of_any_size(rng, 31) - rng.randrange(2)
            spare = rng.choice((spare, before - 1, before, before - 2))
            period, kind = 1 + of_any_size(rng, 50), rng.choice(("strict", "relaxed"))
            asked.append((("widest", period, kind, before, spare), divmod(widest_of(period, kind == "relaxed", before, spare), 1000)))
        for _ in range(1000):
            period, slices = 1 + of_any_size(rng, 50), 1 + of_any_size(rng, 16)
            at = rng.choice((of_any_size(rng, 51), of_any_size(rng, 51) // period * period))
            start = -(-at * period // slices)
            if slices <= period and start < 2**53:
                early = (start * slices - at * period) * 1000 // slices
                asked.append((("slices", period, slices, at), (at * slices // period, start, early)))
        answers = client.many([way.call(name, [], *args) for (name, *args), _ in asked])
        for (what, want), answer in zip(asked, answers):
            found = answer if isinstance(answer, list) else [answer]
            tally.equal([n if isinstance(n, Refused) else int(n) for n in found], list(want), what)


# ---- time ----------------------------------------------------------------------------------------


def test_zones(tally):
    """calendar windows of a time zone are those in the request, and no others"""
    policy = "fixed-window 2/day tz Asia/Kathmandu & fixed-window 3/week tz Asia/Kathmandu"
    day, b = 24 * H_US, T0_US - 5 * H_US
    days, weeks = [b - day, b, b + day, b + 2 * day], [b - 7 * day, b, b + 7 * day, b + 14 * day]
    with Server() as server:
        client = server.client()
        for way in WAYS:
            at = At(client, way)
            client("DEL", "k")
            for bounds in ((), days, weeks + days[:3], [b + day] * 3 + [b], ["x"] * 8, [-1] + days[1:] + weeks):
                answer = at.ask(T0_US, "k", "TAKE", policy, 1, *bounds)
                tally.check("bounds" in error_of(answer), bounds, answer)
            take = lambda now, n=1: at.ask(now, "k", "TAKE", policy, n, *days, *weeks)  # noqa: E731
            tally.equal(take(T0_US, 2)[:5], [1, 2, 0, 0, 19 * H_US], way.name)
            tally.equal(take(T0_US)[:4], [0, 2, 0, 19 * H_US], way.name)
            tally.equal(take(b + day)[:3], [1, 3, 0], way.name)
            tally.equal(take(b + day)[6], 1, way.name)
            # The clock steps back to before the window in the key: that window stays current.
            tally.equal(take(b)[:4], [0, 3, 0, 7 * day], way.name)
            tally.check("bounds" in error_of(at.ask(T0_US, "k", "RESET", policy, 0, *days)), way.name)
            tally.equal(client("EXISTS", "k"), 1, "a reset that fails resets nothing")
            for now in (b - 7 * day - 1, b - day - 1, b + 2 * day, b + 14 * day):
                tally.check("outside" in error_of(take(now)), way.name, now, take(now))
            # The first window begins in 1970, as the one before it does, and is empty before.
            early = at.ask(3, "early", "TAKE", "fixed-window 2/day tz Asia/Kathmandu", 1, 0, 0, day, 2 * day)
            tally.equal(early[:5], [1, 2, 1, 0, day - 3], way.name)
            client("DEL", "early")
            # The clock was months ahead for a moment: no request names the window in the key.
            ahead = [t + 70 * day for t in days + weeks]
            tally.equal(at.ask(T0_US + 70 * day, "k", "TAKE", policy, 1, *ahead)[0], 1, way.name)
            tally.check("outside" in error_of(take(T0_US)), way.name, take(T0_US))
            tally.check("outside" in error_of(at.ask(b - 7 * day - 1, "k", "RESET", policy, 0, *days, *weeks)), way.name)
            tally.equal(client("EXISTS", "k"), 1, way.name)
            reset = at.ask(T0_US, "k", "RESET", policy, 0, *days, *weeks)
            tally.equal((reset, client("EXISTS", "k")), ([1, 2, 2, 0, 0, 0, 0, 0], 0), way.name)


def test_two_rules(tally):
    """daemons with different time zone data admit the limit of a window at most twice"""
    day, b, limit = 24 * H_US, T0_US - 5 * H_US, 10
    mine, yours = ([b + shift + i * day for i in (-1, 0, 1, 2)] for shift in (0, H_US))
    with Server() as server:
        client = server.client()
        at = At(client)
        for policy in (f"fixed-window {limit}/day tz Africa/Cairo", f"fixed-window {limit}/day tz Africa/Cairo & gcra 9/s burst 99"):
            client("DEL", "k")
            admitted = []  # before, between and after the two ends of the day
            for now in (T0_US, b + day + H_US // 2, b + day + 2 * H_US):
                admitted.append(sum(at.ask(now, "k", "TAKE", policy, 1, *bounds)[0] for _ in range(30) for bounds in (mine, yours)))
            tally.check(limit <= admitted[0] <= 2 * limit and sum(admitted) <= 4 * limit, policy, admitted)


def test_clock_back(tally):
    """a clock that steps back makes decisions stricter, for as long as it stepped back"""
    with Server() as server:
        client = server.client()
        at = At(client)
        for policy in SLOW:
            client("DEL", "k")
            at.ask(T0_US, "k", "TAKE", policy, 20)
            left = at.ask(T0_US, "k", "PEEK", policy, 0)[2]
            for back in (1, 1000, H_US):
                then = at.ask(T0_US - back, "k", "PEEK", policy, 0)
                tally.check(then[2] <= left, policy, "looser by", back)
                tally.check(then[4] <= at.ask(T0_US, "k", "PEEK", policy, 0)[4] + back, policy, "for longer than", back)
            tally.equal(at.ask(T0_US, "k", "PEEK", policy, 0)[2], left, policy)
        # Refunds two steps before the last charge. A refund beyond the full quota fills it as of then.
        policy = "token-bucket 10 refill 2 every 1s"
        for n, left, earlier in ((2, 5, 1), (6, 9, 5), (7, 10, 6), (10, 10, 6)):
            client("DEL", "k")
            at.ask(T0_US, "k", "TAKE", policy, 3)
            tally.equal(at.ask(T0_US - 2 * 10**6, "k", "REFUND", policy, n)[2], left, policy, n)
            tally.equal(at.ask(T0_US - 4 * 10**6, "k", "PEEK", policy, 0)[2], earlier, policy, n)


DAY_US = 24 * H_US
EPOCH = datetime.date(1970, 1, 1).toordinal()
CALENDAR_YEARS = (*range(1970, 1978), *range(1999, 2003), *range(2023, 2029), *range(2095, 2105), 2180)
DATES = {  # the first day of the window with a day, and a day of the next window
    "day": (lambda d: d, lambda d: d + datetime.timedelta(1)),
    "week": (lambda d: d - datetime.timedelta(d.weekday()), lambda d: d + datetime.timedelta(7)),
    "month": (lambda d: d.replace(day=1), lambda d: d + datetime.timedelta(31)),
    "year": (lambda d: d.replace(month=1, day=1), lambda d: d + datetime.timedelta(366)),
    "week from sunday": (lambda d: d - datetime.timedelta(d.isoweekday() % 7), lambda d: d + datetime.timedelta(7)),
    "month from 2": (lambda d: (d - datetime.timedelta(1)).replace(day=2), lambda d: d + datetime.timedelta(31)),
    "month from 31": (lambda d: (d + datetime.timedelta(1)).replace(day=1) - datetime.timedelta(1),
                      lambda d: d + datetime.timedelta(31)),
    "year from 02-29": (lambda d: datetime.date((d + datetime.timedelta(1)).year - ((d + datetime.timedelta(1)).month < 3), 3, 1)
                        - datetime.timedelta(1), lambda d: d + datetime.timedelta(366)),
    "year from 12-31": (lambda d: datetime.date((d + datetime.timedelta(1)).year - 1, 12, 31),
                        lambda d: d + datetime.timedelta(366)),
}


def date_window(word, day):
    """Returns the start and the end, in microseconds, of the window with a day. No window begins before 1970."""
    first, later = DATES[word]
    start = first(day)
    after = first(later(start))
    return max(0, start.toordinal() - EPOCH) * DAY_US, (after.toordinal() - EPOCH) * DAY_US


def test_largest(tally):
    """the largest charge is exact and is kept"""
    most = 2**31 - 1
    with Server() as server:
        client = server.client()
        at = At(client)
        for policy in (f"gcra 1000/s burst {most}", f"token-bucket {most} refill 1000/s", f"token-bucket {most} refill 5 every 1s",
                       f"fixed-window {most}/d", f"fixed-window {most}/d from-first", f"sliding-log {most}/d",
                       f"sliding-counter {most}/d", f"sliding-slices {most}/d slices 9"):
            client("DEL", "k")
            tally.equal(at.ask(T0_US, "k", "TAKE", policy, most)[:4], [1, most, 0, 0], policy)
            tally.equal(at.ask(T0_US, "k", "TAKE", policy, 1)[:3], [0, most, 0], policy)
            tally.equal(at.ask(T0_US, "k", "REFUND", policy, most)[:3], [1, most, most], policy)


def test_ties(tally):
    """of two waits within one microsecond, the longer one is reported"""
    policy, start = "sliding-counter 2000/1ms & fixed-window 1998/1ms", T0_US // 1000 * 1000
    with Server() as server:
        at = At(server.client())
        tally.equal(at.ask(start, "k", "TAKE", policy, 1998)[0], 1)
        tally.equal(at.ask(start + 1500, "k", "TAKE", policy, 999)[0], 1)
        # The counter allows 1000 units half a microsecond before the end of the window.
        denied = at.ask(start + 1500, "k", "TAKE", policy, 1000)
        tally.equal((denied[0], denied[3], denied[6]), (0, 500, 1))
        # Both layers have 4 units left. The window has ended, and the other has its full quota in 1 us.
        for policy, layer in (("fixed-window 4/500ms & gcra 1/s burst 5", 1), ("gcra 1/s burst 5 & fixed-window 4/500ms", 0)):
            tally.equal(at.ask(T0_US, policy, "TAKE", policy, 1)[0], 1)
            tally.equal(at.ask(T0_US + 10**6 - 1, policy, "PEEK", policy, 1)[2:7], [4, 0, 1, 0, layer], policy)


def test_calendar(tally):
    """calendar windows begin and end as Python's calendar says, around each end of a month"""
    with Server() as server:
        client = server.client()
        at = At(client)
        for year in CALENDAR_YEARS:
            requests = []
            for month in range(1, 13):
                first = datetime.date(year, month, 1)
                for day in (first, first + datetime.timedelta(27), DATES["month"][1](first).replace(day=1) - datetime.timedelta(1)):
                    requests += [(word, day, (day.toordinal() - EPOCH) * DAY_US + us) for word in DATES for us in (0, DAY_US - 1)]
            commands = []
            for word, _, now in requests:
                commands += [("DEL", "k"), ("SET", CLOCK_KEY, now), at.way.call("weir_ask", ["k"], "TAKE", f"fixed-window 5/{word}", 1),
                             ("GET", "k")]
            answers = client.many(commands)
            wrong = [(word, str(day)) for (word, day, now), answer, stored in zip(requests, answers[2::4], answers[3::4])
                     if (int(stored.split(b" ")[2]), now + answer[4]) != date_window(word, day)]
            tally.check(not wrong, year, wrong)


# ---- several keys --------------------------------------------------------------------------------


def test_all(tally):
    """several keys: all or none are charged, a repeated key gets the sum, as in a simple model"""
    with Server() as server:
        client = server.client()
        for way in WAYS:
            at, rng = At(client, way), random.Random(9)
            policies = ("gcra 1/s burst 5", "sliding-log 6/10s", "fixed-window 5/m count-denied", "sliding-slices 7/10s slices 5",
                        "sliding-counter 5/m", "gcra 1/s burst 9 & sliding-log 5/m count-denied")
            key = {p: f"all:{way.name}:{i}" for i, p in enumerate(policies)}
            now, kept = T0_US, 0
            for _ in range(150):
                now += rng.choice((0, 10**5, 2 * 10**6, 2 * 10**7))
                chosen = [(p, rng.choice((0, 1, 1, 2))) for p in rng.choices(policies, k=rng.randint(1, 5))]
                kept += all_once(tally, client, at, now, key, chosen)
            tally.check(20 < kept < 140, "too few of either", kept)
        too_many = at.call(now, "weir_ask_all", ["k"] * 17, *["gcra 1/s", 1] * 17)
        tally.check("expected 1 to 16" in error_of(too_many), too_many)
        as_many = at.call(now, "weir_ask_all", ["k"] * 16, *["gcra 1/s", 0] * 16)
        tally.equal(as_many[0], 16, "as many keys as possible")
        no_key = at.call(now, "weir_ask_all", [])
        tally.check("expected 1 to 16" in error_of(no_key), no_key)
        for args, why in ((("gcra 1/s",), "request 0: expected a policy"), (("gcra 1/s", 1, "gcra 1/s"), "too many"),
                          (("gcra 1/s", 1, "x"), "too many"), (("gcra 1/s", "y"), "request 0: the cost")):
            answer = at.call(now, "weir_ask_all", ["k"], *args)
            tally.check(error_of(answer).startswith("ERR ") and why in error_of(answer), args, answer)
        answer = at.call(now, "weir_ask_all", ["k", "l"], "gcra 1/s", 1, "gcra 1/x", 1)
        tally.check(error_of(answer).startswith("ERR policy: column 8: ") and "(request 1)" in error_of(answer), answer)
        answer = at.call(now, "weir_ask_all", ["k", "k"], "gcra 1/s", 1, "gcra 2/s", 1)
        tally.check("two different policies" in error_of(answer), answer)


def all_once(tally, client, at, now, key, chosen):
    """Compares a request with single requests on copies of the keys. Returns whether it was charged."""
    for p, k in key.items():
        client("COPY", k, k + ":copy", "REPLACE") if client("EXISTS", k) else client("DEL", k + ":copy")
    before = {k: client("DUMP", k) for k in key.values()}
    sums = [sum(cost for p, cost in chosen[:i + 1] if p == chosen[i][0]) for i in range(len(chosen))]
    alone = [at.ask(now, key[p] + ":copy", "PEEK", p, cost) for p, cost in chosen]
    together = [at.ask(now, key[p] + ":copy", "PEEK", p, total) for (p, _), total in zip(chosen, sums)]
    if all(t[0] for t in together):
        together = [at.ask(now, key[p] + ":copy", "TAKE", p, cost) for p, cost in chosen]
    got = at.call(now, "weir_ask_all", [key[p] for p, _ in chosen], *[w for p, cost in chosen for w in (p, cost)])
    kept = all(t[0] for t in together)
    waits = [(2**60 if t[3] < 0 else t[3]) if not t[0] else -1 for t in together]
    ranks = [(wait, t[4]) for wait, t in zip(waits, together)]
    want = [len(chosen) if kept else ranks.index(max(ranks))]
    for a, t in zip(alone, together):
        want += t if kept or not t[0] else a
    tally.equal(got, want, chosen)
    for k in key.values():
        after = client("DUMP", k + ":copy" if kept else k)
        tally.check(client("DUMP", k) == after and (kept or after == before[k]), chosen, "wrote otherwise", k)
    return kept


# ---- servers -------------------------------------------------------------------------------------


def test_flush(tally):
    """states survive a flush, a reload, another version of the library, and the script"""
    with Server() as server:
        client = server.client()
        text, policy = kit.library(), "sliding-log 50/d"
        functions, script = Functions(client, text), Script(client, text)
        client(*functions.call("weir_ask", ["k"], "TAKE", policy, 20))
        client("FUNCTION", "FLUSH")
        tally.check("Function not found" in error_of(client.many([functions.call("weir_version", [])])[0]))
        tally.equal(client(*script.call("weir_ask", ["k"], "TAKE", policy, 20))[2], 10)
        client("SCRIPT", "FLUSH")
        tally.check(error_of(client.many([script.call("weir_version", [])])[0]).startswith("NOSCRIPT"))
        newer = Functions(client, text.replace(f"local VERSION = {VERSION} ", f"local VERSION = {VERSION + 1} "))
        tally.equal(client(*newer.call("weir_version", [])), VERSION + 1)
        tally.equal(client(*newer.call("weir_ask", ["k"], "TAKE", policy, 10))[2], 0)
        tally.check("no such function" in error_of(client.many([Script(client, text).call("weir_x", [])])[0]))


def test_cache(tally):
    """many policy texts do not fill the server: the cache of parsed policies is limited"""
    with Server() as server:
        client = server.client()
        api = Functions(client, kit.library())
        ask = lambda i: api.call("weir_policy_check", [], f"gcra {i}/s burst 7")  # noqa: E731
        client.many([ask(i) for i in range(1, 1500)])
        lua = lambda: int(dict(line.split(":", 1) for line in client("INFO", "memory").decode().splitlines()  # noqa: E731
                               if ":" in line)["used_memory_vm_functions"])
        first = lua()
        for i in range(1, 12):
            client.many([ask(i * 1500 + k) for k in range(1500)])
        tally.check(lua() < first + 3 * 2**20, first, lua())


def test_memory(tally):
    """without memory nothing is charged, and the error is OOM"""
    with Server("--maxmemory-policy", "noeviction") as server:
        client = server.client()
        api = Functions(client, kit.library())
        client("CONFIG", "SET", "maxmemory", "1")
        answer = client.many([api.call("weir_ask", ["k"], "TAKE", "gcra 1/s", 1)])[0]
        tally.check(error_of(answer).startswith("OOM"), answer)
        tally.equal(client(*api.call("weir_version", [])), VERSION)
        client("CONFIG", "SET", "maxmemory", "0")
        tally.equal(client(*api.call("weir_ask", ["k"], "TAKE", "gcra 1/s", 1))[0], 1)


def test_replica(tally):
    """replicas get the writes, not the commands, and can be peeked at"""
    with Server() as master:
        client = master.client()
        text = kit.library()
        ways = [way(client, text) for way in WAYS]
        with Server("--replicaof", f"127.0.0.1 {master.port}") as replica:
            other = replica.client()
            until(lambda: b"master_link_status:up" in other("INFO", "replication"), "the replica is linked")
            for way in ways:
                for i, policy in enumerate(SLOW):
                    client(*way.call("weir_ask", [f"{way.name}:{i}"], "TAKE", policy, 20))
                    client(*way.call("weir_ask", [f"{way.name}:{i}"], "TAKE", policy, 20))
            tally.equal(client("WAIT", 1, 20000), 1)
            for way in ways:
                for i, policy in enumerate(SLOW):
                    key = f"{way.name}:{i}"
                    same = [c("DUMP", key) for c in (client, other)] + [c("PEXPIRETIME", key) for c in (client, other)]
                    tally.check(same[0] == same[1] and same[2] == same[3], key, policy)
            peek = other("FCALL_RO", "weir_peek", 1, "functions:0", SLOW[0], 1)
            tally.equal(peek[:3], [1, 50, 10])
            refused = other.many([ways[0].call("weir_ask", ["functions:0"], "TAKE", SLOW[0], 1)])[0]
            tally.check(error_of(refused).startswith("READONLY"), refused)


class OldScript(Script):
    """Emulates a server before 7.0, as far as the library can detect it."""

    name = "old script"

    def __init__(self, client, text):
        assert text.count("redis.REDIS_VERSION_NUM") == 1
        super().__init__(client, text.replace("redis.REDIS_VERSION_NUM", "nil"))


def test_old(tally):
    """keys expire without the option PXAT of SET"""
    with Server() as server:
        client = server.client()
        api = OldScript(client, kit.library())
        for policy in ("gcra 1/m", "fixed-window 5/h"):
            answer = client(*api.call("weir_ask", [policy], "TAKE", policy, 1))
            tally.check(0 < client("PTTL", policy) <= answer[4] // 1000 + 1, policy)


def test_access(tally):
    """a user with the ACL rules of docs/redis-functions.md may decide on its keys, and on no others"""
    with open(os.path.join(REPO, "docs", "redis-functions.md"), encoding="utf-8") as f:
        rights = re.findall(r"\+[a-z_]+(?= |`)", f.read())
    with Server() as server:
        client = server.client()
        client("FUNCTION", "LOAD", kit.library())
        client("ACL", "SETUSER", "limiter", "on", ">secret", "~weir:*", *rights)
        client("AUTH", "limiter", "secret")
        api = Functions.__new__(Functions)
        for policy in (*SLOW, *KEYS):
            key = f"weir:{policy}"
            for verb in ("TAKE", "PEEK", "GRANT", "TAKE", "RESET", "TAKE"):
                tally.check(isinstance(client(*api.call("weir_ask", [key], verb, policy, 2)), list), policy)
            answer = client.many([api.call("weir_ask", [key], "REFUND", policy, 1)])[0]
            tally.check(isinstance(answer, list) or "do not support refunds" in str(answer), answer)
        for command in (api.call("weir_ask", ["k"], "TAKE", "gcra 1/s", 1), ("GET", "k"), ("EVAL", "return 1", 0),
                        ("FUNCTION", "FLUSH"), ("FLUSHALL",)):
            tally.check(error_of(client.many([command])[0]).startswith("NOPERM"), command)


def test_refused_time(tally):
    """where the server refuses TIME, the caller's time decides, and nowhere else"""
    with Server() as server:
        admin, client = server.client(), server.client()
        for way in WAYS:
            api = way(admin, kit.library())
            ask = lambda *args, f="weir_ask", keys=("k",): client.many([api.call(f, keys, *args)])[0]  # noqa: B023, E731
            admin("DEL", "k", "l", "m")
            admin("ACL", "SETUSER", "default", "-time")
            for answer in (ask("TAKE", "gcra 1/h", 1), ask("gcra 1/h", 1, f="weir_ask_all"), ask("gcra 1/h", f="weir_take")):
                tally.check(re.match("NOTIME .* TIME .*", error_of(answer)), answer)
            tally.equal(admin("EXISTS", "k"), 0)
            tally.equal(ask("AT", T0_US, "TAKE", "gcra 1/h", 1)[0], 1, way.name)
            tally.equal(ask("at", T0_US, "TAKE", "gcra 1/h", 1)[:4], [0, 1, 0, H_US], way.name)
            tally.equal(ask("AT", T0_US + H_US, "TAKE", "gcra 1/h", 1)[0], 1, way.name)
            both = ["gcra 2/h burst 2", 1, "fixed-window 5/h", 5]
            tally.equal(ask("AT", T0_US, *both, f="weir_ask_all", keys=("m", "l"))[0], 2, way.name)
            tally.equal(ask("AT", T0_US, *both, f="weir_ask_all", keys=("m", "l"))[0], 1, way.name)
            for words in (["AT"], ["AT", "x"], ["AT", -1], ["AT", "9999999999999999"], ["AT", T0_US]):
                tally.check(error_of(ask(*words)).startswith("ERR "), words)
                tally.check(error_of(ask(*words, f="weir_ask_all")).startswith("ERR "), words)
            year_2180 = 6626880000000000
            tally.equal(ask("AT", year_2180, "TAKE", "gcra 1/h", 1)[0], 1, way.name)
            tally.check(error_of(ask("AT", year_2180 + 1, "TAKE", "gcra 1/h", 1)).startswith("ERR "), way.name)
            admin("ACL", "SETUSER", "default", "+time")
            admin("DEL", "k")
            tally.equal(ask("TAKE", "gcra 1/h", 1)[0], 1, way.name)
            tally.equal(ask("AT", 4 * T0_US // 2, "TAKE", "gcra 1/h", 1)[0], 0, way.name)  # not that time


def test_refused_replication(tally):
    """a server may refuse replicate_commands() of scripts"""
    first = "local refuses = { replicate_commands = function() error('not supported') end }\n"
    head, body = kit.library().split("\n", 1)
    tally.equal(body.count("redis.replicate_commands"), 2)
    with Server() as server:
        client = server.client()
        api = Script(client, head + "\n" + first + body.replace("redis.replicate_commands", "refuses.replicate_commands"))
        tally.equal(client(*api.call("weir_ask", ["k"], "TAKE", "gcra 1/h", 1))[0], 1)


def test_cluster(tally):
    """in a Cluster, keys of different slots are refused, and keys with one hash tag are charged together"""
    with Server("--cluster-enabled", "yes") as server:
        client = server.client()
        client("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: b"cluster_state:ok" in client("CLUSTER", "INFO"), "the Cluster is whole")
        for way in WAYS:
            api = way(client, kit.library())
            apart = client.many([api.call("weir_ask_all", ["a", "b"], "gcra 1/s", 1, "gcra 1/s", 1)])[0]
            tally.check(error_of(apart).startswith("CROSSSLOT"), apart)
            together = api.call("weir_ask_all", ["{u}:a", "{u}:b"], "gcra 1/d", 1, "sliding-log 1/d", 1)
            tally.equal(client(*together)[:2], [2, 1], way.name)
            tally.equal(client(*together)[:2], [0, 0], way.name)
            client("DEL", "{u}:a", "{u}:b")
            tally.equal(client(*api.call("weir_policy_check", [], "gcra 1/d")), b"gcra 1/d burst 1")


if __name__ == "__main__":
    sys.exit(kit.run(
        test_race, test_denials, test_keys, test_changed_limits, test_wrong_type, test_damaged, test_damaged_fraction, test_far, test_expiry,
        test_rows, test_refund_of_many, test_mad_row, test_errors, test_refusals, test_people, test_protocols,
        test_names_without_maps, test_arithmetic, test_largest, test_ties, test_calendar, test_zones, test_two_rules, test_clock_back, test_all, test_flush, test_cache, test_memory, test_replica, test_old, test_refused_time,
        test_refused_replication, test_access, test_cluster))
