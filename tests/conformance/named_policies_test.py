#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Compares `weir replay --config` with a daemon of the same configuration: both must decide alike on the
same requests, with overrides, lists, shadow, ip, and inline policies.

The daemon uses the current time and replay one fixed time. The policies are so slow that no quota
returns during the test.

    named_policies_test.py WEIR MODULE [NAME...]"""

import http.client
import json
import os
import random
import subprocess
import sys
import time

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kit.process import HOST, expect, run, say
from kit.weir import Daemon

SEED = int(os.environ.get("WEIR_SEED", "20260101"))
REQUESTS = 400
LIMITS = ("gcra 1/300d burst 5", "token-bucket 6 refill 1/300d", "leaky-bucket 1/300d capacity 4",
          "fixed-window 7/5000d", "fixed-window 5/5000d count-denied", "sliding-log 4/5000d",
          "sliding-log 4/5000d count-denied", "sliding-slices 6/5000d slices 5",
          "gcra 1/300d burst 9 & fixed-window 6/5000d", "leaky-queue 1/300d depth 4")
KEYS = ("alice", "bob", "big", "big-1", "big-2", "trial-7", "evil", "evil-twin", "10.1.2.3", "10.6.6.6",
        "192.0.2.1", "192.0.2.9", "::ffff:192.0.2.1", "198.51.100.7", "2001:db8::1", "2001:DB8:0::2",
        "2001:db8:0:1::1", "2001:db8:0:2::9", "fe80::1%lo", "10.0.0.0/8")
PATTERNS = ("big", "big-*", "trial-*", "evil*", "10.0.0.0/8", "10.6.6.6", "192.0.2.0/24", "192.0.2.9",
            "2001:db8::/32", "2001:db8:0:1::/64", "alice")
IP = (None, "false", "{v4: 24}", "{v6: 48}", "{v4: 8, v6: 128}")
MEMBERS = ("allowed", "limit", "remaining", "layer", "reason")


def some(rng, most):
    return rng.sample(PATTERNS, rng.randrange(most + 1))


def policy(rng):
    parts = {"limit": json.dumps(rng.choice(LIMITS))}
    overrides = {json.dumps(p): json.dumps(rng.choice(LIMITS)) for p in some(rng, 4)}
    parts["overrides"] = "{" + ", ".join(f"{k}: {v}" for k, v in overrides.items()) + "}"
    parts["allow"], parts["deny"] = json.dumps(some(rng, 2)), json.dumps(some(rng, 2))
    parts["shadow"] = rng.choice(("true", "false", "false"))
    ip = rng.choice(IP)
    if ip:
        parts["ip"] = ip
    return "{" + ", ".join(f"{k}: {v}" for k, v in parts.items()) + "}"


def requests(rng):
    return [{"key": rng.choice(KEYS), "cost": rng.choice((0, 1, 1, 1, 2, 3, 9))} for _ in range(REQUESTS)]


def decide_by_daemon(daemon, which, asked):
    """Sends the requests over HTTP, whose responses have the reason."""
    connection = http.client.HTTPConnection(HOST, daemon.http)
    answers = []
    for request in asked:
        path, named = ("/v1/check", "limit") if " " in which else ("/v1/take", "policy")
        body = json.dumps({named: which, "delay": "report", **request})
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answers.append(json.loads(connection.getresponse().read()))
    connection.close()
    return answers


def decide_by_replay(box, config, which, asked):
    now_ns = time.time_ns()
    log = "".join(json.dumps({"t_ns": now_ns, **request}) + "\n" for request in asked)
    words = [box.weir, "replay", "--config", config, "--decisions", "jsonl", "-"]
    for name in which:
        words += ["--policy", name]
    done = subprocess.run(words, input=log, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, done.stderr)
    answers = {name: [] for name in which}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        answers[answer["policy"]].append(answer)
    return answers


def compare(name, asked, daemon, replay):
    expect(len(daemon) == len(replay) == len(asked), f"{name}: {len(daemon)}, {len(replay)} decisions")
    for i, (request, one, two) in enumerate(zip(asked, daemon, replay)):
        one = {m: one[m] for m in MEMBERS} | {"never": not one["allowed"] and one["retry_after_ms"] == -1}
        two = {m: two[m] for m in MEMBERS} | {"never": two["retry_after_ns"] is None}
        expect(one == two, f"{name}: request {i}, {request}:\n  daemon {one}\n  replay {two}")


def named_policies(box):
    say(f"seed {SEED}")
    rng = random.Random(SEED)
    policies = {f"p{i}": policy(rng) for i in range(24)}
    daemon = Daemon(box, policies, None, engine=None, threads=1).start()
    which, asked = [*policies, "gcra 1/299d burst 3", "sliding-log 2/5001d & gcra 1/299d burst 2"], requests(rng)
    replayed = decide_by_replay(box, daemon.config, which, asked)
    reasons = set()
    for name in which:
        answers = decide_by_daemon(daemon, name, asked)
        compare(f"{name} {policies.get(name, '')}", asked, answers, replayed[name])
        reasons |= {answer["reason"] for answer in answers}
    expect(reasons == {"limit", "shadow", "allow-list", "deny-list"}, f"expected every reason, found {reasons}")


TESTS = [named_policies]

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv, needs_redis=False))
