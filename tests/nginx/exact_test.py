#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests that two workers with 64 connections admit exactly what a policy admits, for one key and for
many. The access log has every decision.

    exact_test.py WEIR MODULE [--long | TEST ...]
"""

import collections
import shutil
import subprocess
import sys

from kit.nginx import Nginx, run
from kit.process import PATIENCE_S, Skipped, equal, expect

CONNECTIONS = 64
# Each admits 60 requests of a key, and then none for a long time.
POLICIES = {
    "gcra": "gcra 1/h burst 60",
    "bucket": "token-bucket 60 refill 1/h",
    "steps": "token-bucket 60 refill 5 every 52w",
    "leaky": "leaky-bucket 1/h capacity 60",
    "window": "fixed-window 60/52w",
    "calendar": "fixed-window 60/year tz Europe/Berlin",
    "first": "fixed-window 60/w from-first",
    "counted": "fixed-window 60/52w count-denied",
    "log": "sliding-log 60/w",
    "counter": "sliding-counter 60/52w",
    "slices": "sliding-slices 60/52w slices 52",
    "layers": "gcra 1/h burst 90 & fixed-window 60/52w",
}
ADMITTED = 60
HOT = 'wrk.path = "/{name}?k=hot"'
RANDOM = """
math.randomseed(os.time())
request = function() return wrk.format("GET", "/{name}?k=" .. math.random(1, {keys})) end
"""


def nginx(box, server, zone="weir_zone z 8m;"):
    if not shutil.which("wrk"):
        raise Skipped("there is no wrk")
    n = Nginx(box, f"{zone} log_format k '$uri $arg_k $status $weir_status'; access_log access.log k buffer=64k;",
              server, workers=2, quiet=True)
    (n.html / "ok").write_text("ok\n")
    return n.start()


def load(n, script, duration):
    """Sends requests for some seconds."""
    path = n.directory / "load.lua"
    path.write_text(script)
    done = subprocess.run(["wrk", "-c", str(CONNECTIONS), "-t", "1", "-d", duration, "-s", str(path), n.url()],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    expect(done.returncode == 0 and "Socket errors" not in done.stdout, done.stdout + done.stderr)


def admitted(n):
    """Stops nginx, which writes the rest of its access log. Returns how many requests were admitted and
    how many were sent, by path and key."""
    n.stop()
    passed, sent = collections.Counter(), collections.Counter()
    with open(n.access_log, encoding="utf-8") as lines:
        for line in lines:
            uri, key, status, verdict = line.split()
            expect(verdict == {"200": "PASSED", "429": "REJECTED"}.get(status), f"status: {line}")
            sent[uri, key] += 1
            passed[uri, key] += status == "200"
    return passed, sent


def check(n, least):
    passed, sent = admitted(n)
    wrong = {label: count for label, count in passed.items() if count != min(ADMITTED, sent[label])}
    equal(wrong, {}, f"keys with a wrong number of admitted requests, not {ADMITTED}")
    full = sum(count > ADMITTED for count in sent.values())
    expect(full >= least, f"{full} keys were asked for more than {ADMITTED} times, expected {least}")


def locations(names):
    return "".join(f'location /{name} {{ alias html/ok; weir z "{POLICIES[name]}" key=$arg_k; }}' for name in names)


def all_policies(box, script, duration, least, zone="weir_zone z 8m;"):
    n = nginx(box, locations(POLICIES), zone)
    for name in POLICIES:
        load(n, script.format(name=name, keys=40), duration)
    check(n, least)


def test_hot_key(box):
    """One key, with one layer and with two."""
    n = nginx(box, locations(["gcra", "layers"]))
    for name in ("gcra", "layers"):
        load(n, HOT.format(name=name), "1s")
    check(n, 2)


def test_several_limits(box):
    """Two limits in a location, for one key and for many: exactly what both admit."""
    n = nginx(box, """
        location /two { alias html/ok; weir z "gcra 1/h burst 300" key=all name=all;
                        weir z "sliding-log 60/w" key=$arg_k; }
    """)
    load(n, RANDOM.format(name="two", keys=9), "1s")
    passed, sent = admitted(n)
    expect(sum(sent.values()) > 1000, f"{sent} requests")
    equal(sum(passed.values()), 300, "all keys together")
    expect(max(passed.values()) <= ADMITTED, passed)


def test_two_zones(box):
    """Two limits in two zones, in both orders: exactly what both admit, and no deadlock."""
    first, second = 'weir z "gcra 1/h burst 300" key=all name=all;', 'weir y "sliding-log 60/w" key=$arg_k name=each;'
    n = nginx(box, f"location /a {{ alias html/ok; {first} {second} }} location /b {{ alias html/ok; {second} {first} }}",
              zone="weir_zone z 1m; weir_zone y 1m;")
    load(n, """
        math.randomseed(os.time())
        request = function()
            return wrk.format("GET", (math.random(2) == 1 and "/a" or "/b") .. "?k=" .. math.random(9))
        end
    """, "1s")
    passed, sent = admitted(n)
    expect(sum(sent.values()) > 1000, f"{sent} requests")
    equal(sum(passed.values()), 300, "all keys together")
    for key in range(1, 10):
        count = passed["/a", str(key)] + passed["/b", str(key)]
        expect(count <= ADMITTED, f"{count} requests of key {key} were admitted")


def test_queue(box):
    """A leaky queue serves one request, holds as many as its depth, and denies all others."""
    n = nginx(box, 'location /q { alias html/ok; weir z "leaky-queue 1/h depth 40" key=$arg_k; }'
                   "location = /status { access_log off; weir_status; }")
    load(n, HOT.format(name="q"), "1s")
    counts = n.get("/status").json()["zones"][0]["limits"][0]
    equal((counts["passed"], counts["delayed"]), (1, 40))
    expect(counts["rejected"] > 1000, counts)


def long_hot_key(box):
    """Every algorithm, for one key."""
    all_policies(box, HOT, "1s", len(POLICIES))


def long_random_keys(box):
    """Every algorithm, for 40 keys."""
    all_policies(box, RANDOM, "1s", 30 * len(POLICIES))


def long_random_keys_in_a_file(box):
    (box.path / "states").mkdir()
    (box.path / "states").chmod(0o777)
    all_policies(box, RANDOM, "1s", 30 * len(POLICIES), f"weir_zone z 16m file={box.path}/states/z;")


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]
LONG = [value for name, value in list(globals().items()) if name.startswith("long_")]

if __name__ == "__main__":
    sys.exit(run(TESTS, LONG))
