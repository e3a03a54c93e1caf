#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`weir suggest` on random logs, beside the reference model and `weir replay`: the counts are those of the
model and of replay, and the limit and the burst are the smallest that meet the target.

    suggest_model_test.py WEIR
"""
import json
import os
import random
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import weir_reference as model

WEIR = sys.argv[1]
LOGS = 24
ALGORITHMS = ("gcra", "token-bucket", "leaky-bucket", "fixed-window", "sliding-log", "sliding-counter",
              "sliding-slices")
BURST = {"gcra": r"burst (\d+)", "token-bucket": r"bucket (\d+)", "leaky-bucket": r"capacity (\d+)"}
TARGETS = ("no key denied", "10% of keys denied", "2 keys denied", "0% of keys denied", "60% of keys denied",
           "3% of requests denied", "4 requests denied")
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    if not good:
        print(f"not ok - {name}\n  {detail}")
    passed, failed = passed + bool(good), failed + (not good)


def random_log(rng):
    """Requests (t_ns, key, cost) in the order of time. Many share a time, as in logs with whole seconds."""
    log, now = [], 1700000000 * 10**9
    costs = rng.choice(((1,), (1,), (0, 1, 2, 7)))
    for _ in range(rng.choice((1, 2, 30, 120))):
        now += rng.choice((0, 0, 10**9, int(rng.expovariate(1) * 3e9)))
        log.append((now, f"k{int(rng.paretovariate(0.6)) % 12}", rng.choice(costs)))
    return log


def weir(command, log, *arguments):
    text = "".join(f"{t}\t{key}\t{cost}\n" for t, key, cost in log)
    found = subprocess.run([WEIR, command, "--json", *arguments, "-"], input=text, capture_output=True, text=True,
                           check=False)
    return json.loads(found.stdout) if found.returncode == 0 else found.stderr


def decide(policy, log, split_ns):
    """The counts of weir suggest, by the model: requests, requests denied, keys, keys denied."""
    (layer,) = model.parse_policy(policy)
    state, parts = {}, {name: [set(), [], set(), set()] for name in ("searched", "held_out", "all")}
    for index, (now, key, cost) in enumerate(log):
        before = state.get(key, layer.initial)
        allowed = layer.allows(before, now, cost)
        if allowed and cost > 0:
            state[key] = layer.charge(before, now, cost)
        for name in ("all", "searched" if split_ns is None or now < split_ns else "held_out"):
            requests, denied, keys, keys_denied = parts[name]
            requests.add(index)
            keys.add(key)
            if not allowed:
                denied.append(index)
                keys_denied.add(key)
    return {name: dict(zip(("requests", "requests_denied", "keys", "keys_denied"), map(len, sets)))
            for name, sets in parts.items()}


def with_numbers(policy, algorithm, limit, burst):
    """The policy with another limit and burst."""
    text = re.sub(r"\d+/", f"{limit}/", policy, count=1)
    if algorithm in BURST:
        text = re.sub(BURST[algorithm], lambda m: m.group(0).replace(m.group(1), str(burst)), text)
    return text


def check_choice(name, answer, choice, log):
    """The counts of a choice are those of the model, and no smaller number meets the target."""
    split_ns, target, algorithm = answer["split_ns"], answer["target"], answer["algorithm"]
    unit = target["unit"] + "_denied"
    counted = decide(choice["policy"], log, split_ns)
    for part in ("searched", "held_out", "all"):
        if choice[part] is not None:
            check(f"{name}: counts, {part}", choice[part] == counted[part], f"{choice} {counted}")
    met = counted["searched"][unit] <= target["allowed"]
    check(f"{name}: meets_target", choice["meets_target"] == met, str(choice))
    if algorithm not in BURST and choice != answer["suggestion"]:
        return
    check(f"{name}: the target is met", met, str(choice))

    def meets(limit, burst):
        policy = with_numbers(choice["policy"], algorithm, limit, burst)
        return decide(policy, log, split_ns)["searched"][unit] <= target["allowed"]

    limit, burst = choice["limit"], choice["burst"]
    lower = range(1, limit) if target["unit"] == "keys" and limit < 40 else range(max(1, limit - 1), limit)
    check(f"{name}: the limit is the smallest", not any(meets(n, burst) for n in lower), str(choice))
    if burst is not None and burst > 1:
        check(f"{name}: the burst is the smallest", not meets(limit, burst - 1), str(choice))


def check_optimum(name, answer, log):
    """No limit and burst of a smaller worst case meet the target."""
    best, allowed = answer["suggestion"], answer["target"]["allowed"]
    total = best["limit"] + best["burst"] - 1
    for burst in range(1, total):
        policy = with_numbers(best["policy"], answer["algorithm"], total - burst, burst)
        counted = decide(policy, log, answer["split_ns"])["searched"]
        check(f"{name}: {policy} does not meet the target", counted["keys_denied"] > allowed, str(best))


def check_log(rng, index):
    log = random_log(rng)
    algorithm, target = ALGORITHMS[index % len(ALGORITHMS)], rng.choice(TARGETS)
    name = f"log {index}, {algorithm}, {target}"
    answer = weir("suggest", log, "--algorithm", algorithm, "--target", target, "--per",
                  rng.choice(("10s", "1m", "1h")), "--hold-out", rng.choice(("0%", "25%", "70%")), "--format", "tsv")
    if isinstance(answer, str):
        check(name, False, answer)
        return
    best = answer["suggestion"]
    if algorithm in BURST and answer["target"]["unit"] == "keys" and best["worst_case"] < 40:
        check_optimum(name, answer, log)
    for choice in answer["choices"]:
        check_choice(f"{name}: {choice['policy']}", answer, choice, log)
    if algorithm in BURST:
        check(f"{name}: the smallest worst case", best["worst_case"] == min(c["worst_case"] for c in answer["choices"]))
    replayed = weir("replay", log, "--policy", best["policy"], "--format", "tsv")["policies"][0]
    check(f"{name}: weir replay counts the same",
          (replayed["denied"], replayed["keys_denied"]) == (best["all"]["requests_denied"], best["all"]["keys_denied"]),
          f"{replayed} {best}")


def smallest_worst_case(log, period_ns):
    """The smallest limit + burst - 1 of a gcra policy that denies no request of a key.

    It denies none if the units of each run of requests are at most burst + limit * length / period."""
    runs = []  # (units, length)
    for key in {key for _, key, _ in log}:
        own = [(now, cost) for now, k, cost in log if k == key]
        for i, (begin, _) in enumerate(own):
            units = 0
            for now, cost in own[i:]:
                units += cost
                runs.append((units, now - begin))
    least = max(units for units, length in runs if length == 0)
    best = None
    for burst in range(least, max(units for units, _ in runs) + 1):
        limit = max([1] + [-((burst - units) * period_ns // length) for units, length in runs if length])
        best = min(best or limit + burst, limit + burst)
    return best - 1


def check_large_costs(rng, index):
    """With large costs, the best pair lies anywhere between two steps of the ladder of bursts."""
    log, now = [], 1700000000 * 10**9
    for _ in range(40):
        now += int(rng.expovariate(1) * 6e9)
        log.append((now, f"k{rng.randrange(3)}", rng.randrange(1, 1500)))
    answer = weir("suggest", log, "--target", "no key denied", "--hold-out", "0%", "--format", "tsv")
    check(f"large costs {index}: the search is complete", answer["search_complete"] is True)
    found, best = answer["suggestion"]["worst_case"], smallest_worst_case(log, 60 * 10**9)
    check(f"large costs {index}: the smallest worst case", found == best, f"{found} {best}")


def main():
    rng = random.Random(int(os.environ.get("WEIR_SEED", "17")))
    for index in range(LOGS):
        check_log(rng, index)
    for index in range(8):
        check_large_costs(rng, index)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()
