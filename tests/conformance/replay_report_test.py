#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Recomputes every figure of `weir replay --json` from the decisions of the same run: random logs, through
several policies, with shadow mode, lists, overrides, networks of addresses and costs. The model is slow and
obvious: it keeps all decisions, and looks through them for each figure.

    replay_report_test.py WEIR [CASES]"""

import json
import os
import random
import subprocess
import sys
import tempfile

from address_keys import key_of

SEED = int(os.environ.get("WEIR_SEED", "20260301"))
CASES = 60
COST_MAX = 2**31 - 1
MS, S, M, H, D = 10**6, 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9
WIDTHS = [MS, 5 * MS, 10 * MS, 50 * MS, 100 * MS, 500 * MS, S, 5 * S, 15 * S, 30 * S, M, 5 * M, 15 * M, 30 * M, H,
          3 * H, 6 * H, 12 * H, D, 4 * D, 16 * D, 64 * D, 256 * D, 1024 * D]
BUCKETS_MAX = 96

# Policy texts with the window and the limit of the layer with the longest window.
POLICIES = [
    ("gcra 10/m burst 3", M, 10), ("gcra 2/s burst 5", S, 2), ("gcra 7/ns burst 2", 1, 7),
    ("token-bucket 4 refill 3 every 2s", 2 * S, 3), ("leaky-queue 5/s depth 2", S, 5),
    ("fixed-window 6/10s", 10 * S, 6), ("fixed-window 5/h count-denied", H, 5), ("fixed-window 9/day", D, 9),
    ("fixed-window 90/month", 28 * D, 90), ("sliding-log 4/5s", 5 * S, 4), ("sliding-counter 20/m", M, 20),
    ("sliding-slices 12/h slices 6", H, 12), ("gcra 3/s burst 3 & fixed-window 30/h", H, 30),
    ("fixed-window 20/h & sliding-log 3/s & fixed-window 40/h", H, 20), ("gcra 1/s burst 1000", S, 1),
]
KEYS = ["alice", "bob", "carol", "big", "trial-1", "trial-2", "evil", "10.0.0.7", "10.0.0.8", "192.0.2.1", "192.0.2.9",
        "2001:db8::1", "2001:DB8::2", "2001:db8:0:1::1", 'q"\\', "grün"]


class Policy:
    """A policy of a run: its name or text, and what the model must know of it."""

    def __init__(self, rng, name):
        self.text, self.window, self.limit = rng.choice(POLICIES)
        self.name, self.shadow, self.overrides = name, False, {}
        self.v4, self.v6 = 32, 64
        if name:
            self.shadow = rng.random() < 0.3
            self.overrides = {k: rng.choice(POLICIES) for k in ("big", "trial-1") if rng.random() < 0.5}
            self.v4, self.v6 = rng.choice(((32, 64), (24, 64), (24, 48), (None, None)))
        self.allow = ["10.0.0.7"] if name and rng.random() < 0.5 else []
        self.deny = ["evil"] if name and rng.random() < 0.5 else []

    def key(self, text):
        return text if self.v4 is None else key_of(text, self.v4, self.v6)

    def counts_for_peak(self, text):
        """Whether the key has the window and the limit of the policy itself."""
        _, window, limit = self.overrides.get(text, (self.text, self.window, self.limit))
        return (window, limit) == (self.window, self.limit)

    def config(self):
        entry = {"limit": self.text, "shadow": self.shadow, "allow": self.allow, "deny": self.deny,
                 "overrides": {k: v[0] for k, v in self.overrides.items()},
                 "ip": False if self.v4 is None else {"v4": self.v4, "v6": self.v6}}
        return {name: value for name, value in entry.items() if value not in ([], {})}


def random_log(rng):
    """Returns lines of tsv. The steps range from nanoseconds to weeks."""
    step = 10 ** rng.randrange(0, 16)
    now, lines = rng.randrange(10**18), []
    keys = rng.sample(KEYS, rng.randrange(1, len(KEYS) + 1))
    costs = rng.choice(((1,), (1,), (0, 1, 1, 2, 5), (1, 1, 1, 3 * 10**9), (1, 2**62)))
    for _ in range(rng.choice((1, 5, 100, 2000))):
        now += rng.choice((0, 0, 0, 1, rng.randrange(step + 1), rng.randrange(20 * step + 1)))
        at = now - rng.randrange(step) if rng.random() < 0.1 else now
        lines.append(f"{max(at, 0)}\t{rng.choice(keys[: rng.randrange(1, len(keys) + 1)])}\t{rng.choice(costs)}\n")
    return lines


def run(weir, lines, policies, top):
    words = [weir, "replay", "--format", "tsv", "--json", "--decisions", "jsonl", "--top", str(top), "--no-progress"]
    with tempfile.TemporaryDirectory() as box:
        with open(os.path.join(box, "weir.yaml"), "w", encoding="utf-8") as f:
            json.dump({"policies": {p.name: p.config() for p in policies if p.name}}, f)
        if any(p.name for p in policies):
            words += ["--config", f.name]
        for p in policies:
            words += ["--policy", p.name or p.text]
        log = "".join(lines).encode()
        done = subprocess.run([*words, "-"], input=log, capture_output=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    decisions = [json.loads(line) for line in done.stdout.splitlines()]
    end = done.stderr.rindex(b"]}\n") + 3  # notes follow
    return decisions, json.loads(done.stderr[done.stderr.index(b"{") : end])


# ---- the model -----------------------------------------------------------------------------------


class Request:
    def __init__(self, now, text, cost):
        self.now, self.text, self.cost = now, text, cost
        self.answers = []


def read_decisions(decisions, policies):
    """Groups the decisions by request. Time never goes back."""
    requests, now = [], 0
    for i in range(0, len(decisions), len(policies)):
        answers = decisions[i : i + len(policies)]
        now = max(now, answers[0]["t_ns"])
        requests.append(Request(now, answers[0]["key"], answers[0]["cost"]))
        requests[-1].answers = answers
    return requests


def is_denied(answer):
    return not answer["allowed"] or answer.get("reason") == "shadow"


def by_key(requests, policy):
    keys = {}
    for r in requests:
        keys.setdefault(policy.key(r.text), []).append(r)
    return keys


class Buckets:
    def __init__(self, first, last):
        self.width = next(w for w in WIDTHS if last // w - first // w < BUCKETS_MAX)
        self.first = first // self.width
        self.len = last // self.width - self.first + 1

    def count(self, requests):
        counts = [0] * self.len
        for r in requests:
            counts[r.now // self.width - self.first] += 1
        return counts


def peak_of(requests, period):
    units = {}
    for r in requests:
        units[r.now // period] = units.get(r.now // period, 0) + r.cost
    return min(max(units.values()), 2**63 - 1)


def percentiles(peaks):
    ranked = sorted(peaks)
    rank = {f"p{p}": ranked[-(-len(ranked) * p // 100) - 1] for p in (50, 90, 99)}
    return rank | {"max": ranked[-1]}


def lockouts(requests, index):
    """Returns the lock-outs of a key as (length, start): from the first of consecutive denied requests until each
    of them could have been allowed. Requests that a deny list denied are no part of it."""
    found, since, until = [], None, 0
    for r in [*requests, None]:
        if r and r.answers[index].get("reason") == "deny-list":
            continue
        if r and is_denied(r.answers[index]):
            end = min(r.now + (r.answers[index]["retry_after_ns"] or 0), 2**63 - 1)
            until = end if since is None else max(until, end)
            since = r.now if since is None else since
        elif since is not None:
            found.append((until - since, since))
            since = None
    return found


def longest(found):
    return max(found, key=lambda lockout: (lockout[0], -lockout[1]), default=(0, None))


def peak_admitted(requests, policy, index):
    """The most units of a key in eight slices of the window, and the first time of that."""
    slices = min(8, policy.window)
    width = policy.window // slices
    best, admitted = None, {}
    for r in requests:
        answer = r.answers[index]
        listed = answer.get("reason") == "allow-list"
        if is_denied(answer) or listed or not policy.counts_for_peak(r.text):
            continue
        mine = admitted.setdefault(policy.key(r.text), {})
        now = r.now // width
        mine[now] = mine.get(now, 0) + r.cost
        units = sum(mine.get(now - i, 0) for i in range(slices))
        if units > (best["units"] if best else 0):
            best = {"units": units, "limit": policy.limit, "window_ns": policy.window, "key": policy.key(r.text),
                    "at_ns": r.now}
    return best


def worst_keys(keys, index, buckets):
    rows = []
    for key, requests in keys.items():
        denied = [r for r in requests if is_denied(r.answers[index])]
        if denied:
            rows.append({"key": key, "requests": len(requests), "denied": len(denied),
                         "lockout_ns": longest(lockouts(requests, index))[0], "peak_minute": peak_of(requests, M),
                         "first_denied_ns": denied[0].now, "last_denied_ns": denied[-1].now,
                         "requests_over_time": buckets.count(requests), "denied_over_time": buckets.count(denied)})
    return sorted(rows, key=lambda row: (-row["denied"], -row["requests"], row["key"].encode()))


def change(requests, keys, index):
    pairs = [(is_denied(r.answers[0]), is_denied(r.answers[index])) for r in requests]
    by_baseline = {k for k, rs in keys.items() if any(is_denied(r.answers[0]) for r in rs)}
    by_this = {k for k, rs in keys.items() if any(is_denied(r.answers[index]) for r in rs)}
    return {"requests_newly_denied": pairs.count((False, True)), "requests_newly_allowed": pairs.count((True, False)),
            "keys_newly_denied": len(by_this - by_baseline), "keys_no_longer_denied": len(by_baseline - by_this)}


def model_policy(requests, policy, index, buckets, top):
    keys = by_key(requests, policy)
    answers = [r.answers[index] for r in requests]
    reasons = [a.get("reason") for a in answers]
    worst = worst_keys(keys, index, buckets)
    spans = [(*longest(lockouts(keys[row["key"]], index)), row["key"]) for row in worst]
    spans = [span for span in spans if span[1] is not None]
    lockout = min(spans, key=lambda s: (-s[0], s[1], s[2].encode())) if spans else None
    model = {
        "name": policy.name, "shadow": policy.shadow, "baseline": index == 0,
        "allowed": sum(a["allowed"] for a in answers), "denied": sum(not a["allowed"] for a in answers),
        "would_be_denied": reasons.count("shadow"), "allow_listed": reasons.count("allow-list"),
        "deny_listed": reasons.count("deny-list"), "keys_denied": len(worst), "keys": len(keys),
        "lockout": {"longest_ns": lockout[0], "key": lockout[2], "from_ns": lockout[1]} if lockout else None,
        "peak_admitted": peak_admitted(requests, policy, index),
        "denied_over_time": buckets.count([r for r in requests if is_denied(r.answers[index])]),
        "worst": worst[:top],
    }
    if index > 0:
        model["change"] = change(requests, keys, index)
    return model


def model_report(lines, decisions, policies, top):
    requests = read_decisions(decisions, policies)
    keys = by_key(requests, policies[0])
    buckets = Buckets(requests[0].now, requests[-1].now)
    late = sum(r.answers[0]["t_ns"] != r.now for r in requests)
    peaks = {name: percentiles([peak_of(rs, period) for rs in keys.values()])
             for name, period in (("second", S), ("minute", M), ("hour", H))}
    log = {"name": "<stdin>", "lines": len(lines), "requests": len(lines), "bad": 0, "left_out": 0}
    return {
        "weir": "replay", "version": 1, "logs": [log], "requests": len(requests), "keys": len(keys),
        "cost": min(sum(r.cost for r in requests), 2**63 - 1), "late": late, "first_ns": requests[0].now,
        "last_ns": requests[-1].now,
        "time": {"first_ns": buckets.first * buckets.width, "width_ns": buckets.width, "buckets": buckets.len},
        "load": {"requests": buckets.count(requests), "peak": peaks},
        "policies": [model_policy(requests, p, i, buckets, top) for i, p in enumerate(policies)],
    }


# ---- comparison ----------------------------------------------------------------------------------


def differences(path, want, got):
    """Yields the places where two values differ. The order of members counts."""
    if isinstance(want, dict) and isinstance(got, dict):
        if list(want) != list(got):
            yield f"{path}: members {list(want)}, found {list(got)}"
            return
        for name in want:
            yield from differences(f"{path}.{name}", want[name], got[name])
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for i, (a, b) in enumerate(zip(want, got)):
            yield from differences(f"{path}[{i}]", a, b)
    elif want != got or type(want) is not type(got):
        yield f"{path}: expected {want}, found {got}"


def random_policies(rng):
    policies, seen = [], set()
    for i in range(rng.choice((1, 1, 2, 3, 5))):
        policy = Policy(rng, f"p{i}" if rng.random() < 0.5 else None)
        if policy.name or policy.text not in seen:
            policies.append(policy)
            seen.add(policy.text)
    return policies


def check_case(weir, number):
    rng = random.Random(f"{SEED} {number}")
    lines, policies, top = random_log(rng), random_policies(rng), rng.choice((0, 3, 1000))
    decisions, report = run(weir, lines, policies, top)
    if len(decisions) != len(lines) * len(policies):
        return [f"{len(decisions)} decisions for {len(lines)} lines and {len(policies)} policies"]
    report.pop("notes", None)  # these and the texts of policies are checked by the tests of the table
    for entry in report["policies"]:
        entry.pop("policy")
    return list(differences("report", model_report(lines, decisions, policies, top), report))


def main():
    weir, cases = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else CASES
    failed = 0
    print(f"seed {SEED}")
    for number in range(cases):
        wrong = check_case(weir, number)
        for line in wrong[:5]:
            print(f"case {number}: {line}", file=sys.stderr)
        failed += bool(wrong)
    print(f"{cases} cases, {failed} failed")
    return failed > 0 or cases == 0


if __name__ == "__main__":
    sys.exit(main())
