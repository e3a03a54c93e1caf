#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Tests keys that are IP addresses. Every interface that reads addresses counts them as in keys.json:
replay and the daemon, by policy text and by name, over RESP and HTTP, with local states and states in
Redis. Elsewhere keys are bytes: in CL.THROTTLE, the module and the Functions library.

    keys_test.py WEIR MODULE tests/vectors/keys.json [NAME...]"""

import http.client
import json
import os
import pathlib
import subprocess
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kit.process import HOST, Skipped, expect, is_redis_here, run
from kit.redis import Redis
from kit.weir import Daemon

with open(sys.argv[3], encoding="utf-8") as f:
    ROWS = json.load(f)["keys"]
DEFAULT = [row for row in ROWS if (row["v4"], row["v6"]) == (32, 64)]
WAYS = sorted({(row["v4"], row["v6"]) for row in ROWS})
ONCE = "fixed-window 1/36500h"  # admits one request of each key during the test


def name_of(v4, v6):
    return f"ip-{v4}-{v6}"


POLICIES = {name_of(v4, v6): f"{{limit: {ONCE}, ip: {{v4: {v4}, v6: {v6}}}}}" for v4, v6 in WAYS}


def rows_of(v4, v6):
    return [row for row in ROWS if (row["v4"], row["v6"]) == (v4, v6)]


def verdicts(rows, form="key"):
    """The verdicts of a policy that admits one request of each key."""
    seen = set()
    return [not (row[form] in seen or seen.add(row[form])) for row in rows]


def same(rows, found, what, form="key"):
    wanted = verdicts(rows, form)
    expect(len(found) == len(wanted), f"{what}: {len(found)} replies, expected {len(wanted)}")
    for row, verdict, want in zip(rows, found, wanted):
        expect(bool(verdict) == want, f"{what}: {row}: found {verdict}, expected {want}")


# ---- replay --------------------------------------------------------------------------------------


def replay(box, rows, *words):
    log = "".join(json.dumps({"t_ns": 1, "key": row["text"]}) + "\n" for row in rows)
    done = subprocess.run([box.weir, "replay", *words, "--decisions", "jsonl", "-"], input=log,
                          capture_output=True, text=True, check=False)
    expect(done.returncode == 0, done.stderr)
    return [json.loads(line)["allowed"] for line in done.stdout.splitlines()]


def replay_by_text(box):
    same(DEFAULT, replay(box, DEFAULT, "--policy", ONCE), "replay by text")


def replay_by_name(box):
    config = box.path / "keys.yaml"
    config.write_text("policies:\n" + "".join(f"  {n}: {p}\n" for n, p in POLICIES.items()))
    for v4, v6 in WAYS:
        words = ("--config", config, "--policy", name_of(v4, v6))
        same(rows_of(v4, v6), replay(box, rows_of(v4, v6), *words), name_of(v4, v6))


# ---- the daemon ----------------------------------------------------------------------------------


def daemon_of(box, redis=None):
    return Daemon(box, POLICIES, redis, engine="redis" if redis else None, threads=2).start()


def resp(client, rows, *words):
    """Sends a request for each row, with the key in place of the word None. Returns the replies."""
    asks = [[row["text"].encode() if word is None else word for word in words] for row in rows]
    answers = []
    for i in range(0, len(asks), 50):
        answers += client.many(asks[i:i + 50])
    for answer in answers:
        expect(isinstance(answer, list), f"{words}: {answer}")
    return answers


def policy(n):
    """A policy like ONCE, but with states of its own."""
    return f"fixed-window 1/{36501 + n}h"


def resp_by_text(box):
    client = daemon_of(box).client()
    for n, words in enumerate((("WEIR.CHECK", policy(0), None), ("WEIR.TAKE", policy(1), None),
                               ("WEIR.TAKEALL", 1, policy(2), None, 1))):
        same(DEFAULT, [answer[0] for answer in resp(client, DEFAULT, *words)], words[0])
        left = [answer[2] for answer in resp(client, DEFAULT, "WEIR.PEEK", policy(n), None)]
        expect(not any(left), f"WEIR.PEEK finds what {words[0]} charged")
    for row, lines in zip(DEFAULT, resp(client, DEFAULT, "WEIR.EXPLAIN", policy(0), None)):
        expect(lines[0].decode() == f"key      {row['key']}", f"WEIR.EXPLAIN: {row}: {lines[0]}")
    client.call("WEIR.REFUND", policy(0), "2001:db8::9", 1)
    client.call("WEIR.RESET", policy(1), "::ffff:1.2.3.4")
    expect(client.call("WEIR.PEEK", policy(0), "2001:DB8:0::1")[2] == 1, "WEIR.REFUND")
    expect(client.call("WEIR.PEEK", policy(1), "1.2.3.4")[2] == 1, "WEIR.RESET")
    reserved = client.call("WEIR.RESERVE", policy(3), "2001:db8::1", 1, "TTL", "30s")
    expect(reserved[0] == 1, reserved)
    expect(client.call("WEIR.CHECK", policy(3), "2001:db8::2")[0] == 0, "WEIR.RESERVE")
    client.close()


def by_name(box):
    client = daemon_of(box).client()
    for v4, v6 in WAYS:
        rows, name = rows_of(v4, v6), name_of(v4, v6)
        same(rows, [answer[0] for answer in resp(client, rows, "WEIR.TAKE", name, None)], name)
        for row, lines in zip(rows, resp(client, rows, "WEIR.EXPLAIN", name, None)):
            expect(lines[1].decode() == f"key      {row['key']}", f"{name}: {row}: {lines[1]}")
    client.close()


def post(connection, path, **members):
    connection.request("POST", path, json.dumps(members), {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read())


def http_by_text(box):
    daemon = daemon_of(box)
    connection, client = http.client.HTTPConnection(HOST, daemon.http), daemon.client()
    found = [post(connection, "/v1/check", limit=policy(0), key=row["text"])["allowed"]
             for row in DEFAULT]
    same(DEFAULT, found, "/v1/check")
    connection.request("GET", "/v1/peek?limit=" + policy(0).replace(" ", "+") + "&key=2001:DB8::77")
    expect(json.loads(connection.getresponse().read())["remaining"] == 0, "/v1/peek")
    asked = [{"limit": policy(1), "key": "2001:db8::1"}]
    expect(post(connection, "/v1/takeall", requests=asked)["allowed"], "/v1/takeall")
    expect(client.call("WEIR.CHECK", policy(1), "2001:db8:0:0:9::")[0] == 0, "RESP after HTTP")
    connection.close()
    client.close()


def throttle_is_redis_cell(box):
    """The keys of CL.THROTTLE are bytes."""
    client = daemon_of(box).client()
    found = [not answer[0] for answer in resp(client, DEFAULT, "CL.THROTTLE", None, 0, 1, 360000)]
    same(DEFAULT, found, "CL.THROTTLE", form="text")
    client.close()


# ---- with a Redis --------------------------------------------------------------------------------


def need_redis():
    if not is_redis_here():
        raise Skipped("redis-server is missing")


def in_redis(box, redis):
    """The daemon sends the key in its counted form, so that a Cluster routes by it."""
    client = daemon_of(box, {"url": redis.url(), "deadline": "20s"}).client()
    for n, words in enumerate((("WEIR.CHECK", policy(0), None), ("WEIR.TAKE", policy(1), None))):
        same(DEFAULT, [answer[0] for answer in resp(client, DEFAULT, *words)], f"redis {words[0]}")
        expect(client.call("WEIR.PEEK", policy(n), "2001:DB8::3")[2] == 0, "WEIR.PEEK")
    client.close()
    filed = {name.decode().split("{", 1)[1].split("}", 1)[0] for name in redis.call("KEYS", "*")
             if not name.endswith(b":#handshake")}
    want = {row["key"] for row in DEFAULT}
    expect(filed == want, f"other keys: {sorted(filed - want)}, without {sorted(want - filed)}")


def in_redis_by_module(box):
    need_redis()
    in_redis(box, Redis(box, module=True).start())


def in_redis_by_functions(box):
    need_redis()
    in_redis(box, Redis(box).start())


def module_keys_are_bytes(box):
    need_redis()
    client = Redis(box, module=True).start().client()
    for words in (("WEIR.CHECK", policy(0), None), ("WEIR.TAKE", policy(1), None)):
        found = [answer[0] for answer in resp(client, DEFAULT, *words)]
        same(DEFAULT, found, f"module {words[0]}", form="text")
    client.close()


def functions_keys_are_bytes(box):
    need_redis()
    client = Redis(box).start().client()
    library = pathlib.Path(REPO, "modules", "lua", "weir.lua").read_text(encoding="ascii")
    client.call("FUNCTION", "LOAD", library)
    found = [answer[0] for answer in resp(client, DEFAULT, "FCALL", "weir_take", 1, None, ONCE)]
    same(DEFAULT, found, "FCALL", form="text")
    client.close()


TESTS = [replay_by_text, replay_by_name, resp_by_text, by_name, http_by_text, throttle_is_redis_cell,
         in_redis_by_module, in_redis_by_functions, module_keys_are_bytes, functions_keys_are_bytes]

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv[:3] + sys.argv[4:], needs_redis=False))
