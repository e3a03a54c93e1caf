#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares `weir accuracy` with the model in reference/accuracy_model.py, on generated traffic and on random logs:
every count exactly, and the errors to six digits. With LOG, an access log in the common format, it compares only
that log, at 5 requests a minute for each client.

    accuracy_test.py WEIR [LOG]"""

import datetime
import importlib.util
import json
import pathlib
import random
import re
import subprocess
import sys

import accuracy_model as model

GENERATOR = importlib.util.spec_from_file_location(
    "traffic", pathlib.Path(__file__).resolve().parents[2] / "bench" / "traffic.py")
traffic = importlib.util.module_from_spec(GENERATOR)
GENERATOR.loader.exec_module(traffic)

SECOND = 10**9
AGAINST = ("own", "log", "rate")
COUNTS = ("allowed", "denied", "wrongly_allowed", "wrongly_denied", "keys_missed", "keys_wrongly_denied")


def run(weir, arguments, log=None):
    done = subprocess.run([weir, "accuracy", "--json", *arguments], input=log, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"weir accuracy {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def differences(got, want, against):
    """Returns what of a row differs."""
    found = [name for name in COUNTS if got[name] != getattr(want, name)]
    if against == "own" and got["peak"] != want.peak:
        found.append("peak")
    if want.estimates:
        mean = want.error_sum / want.estimates
        if abs(got["error"]["mean"] - mean) > 1e-5 * mean or abs(got["error"]["max"] - want.error_max) > 1e-5 * want.error_max:
            found.append("error")
    elif "error" in got:
        found.append("error")
    return found


def compare(name, got, keys, against, limit, period):
    """Compares the JSON of weir with the model. Returns how many rows differ."""
    tallies, denied = model.measure(against, limit, period, model.policies(limit, period, against), keys)
    failed = 0
    if len(got["policies"]) != len(tallies) or got["keys"] != len(keys) or got["requests"] != sum(map(len, keys)):
        print(f"{name}: {got['keys']} keys, {got['requests']} requests")
        failed += 1
    if against != "own" and got["exactly_denied"] != denied:
        print(f"{name}: exactly_denied {got['exactly_denied']}, expected {denied}")
        failed += 1
    for row, want in zip(got["policies"], tallies):
        wrong = differences(row, want, against)
        if wrong:
            print(f"{name}: {row['policy']}: {', '.join(wrong)}\n    got  {row}\n    want {want}")
            failed += 1
    return failed


def check_traffic(weir, kind, against, limit, sources, requests, rate, seed):
    keys = [[(now, 1) for now in times] for times in traffic.generate(kind, sources, requests, rate, 60 * SECOND, seed)]
    lines = sorted((now, i) for i, times in enumerate(keys) for now, _ in times)
    arguments = ["--against", against, "--limit", f"{limit}/m", "-"]
    got = run(weir, arguments, "".join(f"{now}\t{i}\n" for now, i in lines))
    return compare(f"{kind} {' '.join(arguments)}", got, keys, against, limit, 60 * SECOND)


def check_log(weir, against, seed):
    """A random log, with costs, equal times, and a period that is no multiple of its slices."""
    draw = random.Random(seed)
    limit, period = draw.randint(1, 12), draw.choice([60, 61, 61 * SECOND, 10 * SECOND])
    keys, lines = {}, []
    now = draw.randrange(10**18)
    for _ in range(1500):
        now += draw.choice([0, 0, 1, period // 50, period // 9, draw.randrange(period)])
        key, cost = f"key {draw.randrange(6)}", draw.choice([1, 1, 1, 2, 3, limit, limit + 1])
        keys.setdefault(key, []).append((now, cost))
        lines.append(f"{now}\t{key}\t{cost}\n")
    arguments = ["--against", against, "--limit", f"{limit}/{period}ns", "--format", "tsv", "-"]
    got = run(weir, arguments, "".join(lines))
    return compare(f"log {seed} {' '.join(arguments)}", got, list(keys.values()), against, limit, period)


LINE = re.compile(r'(\S+) \S+ \S+ \[([^]]*)\] "')


def read_log(path):
    """Returns the requests of each client. A time that goes back is the latest time before."""
    keys, latest = {}, 0
    with open(path, encoding="latin-1") as lines:
        for line in lines:
            client, text = LINE.match(line).groups()
            moment = datetime.datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z")
            latest = max(latest, int(moment.timestamp()) * SECOND)
            keys.setdefault(client, []).append((latest, 1))
    return list(keys.values())


def check_access_log(weir, path):
    keys, failed = read_log(path), 0
    for against in AGAINST:
        arguments = ["--against", against, "--limit", "5/m", path]
        failed += compare(" ".join(arguments), run(weir, arguments), keys, against, 5, 60 * SECOND) > 0
    return failed, len(AGAINST)


def check_all(weir):
    cases = failed = 0
    for i, kind in enumerate(traffic.KINDS):
        for j, against in enumerate(AGAINST):
            rate = (50, 100, 130)[(i + j) % 3]
            failed += check_traffic(weir, kind, against, 100, 9, 16000, rate, 1 + 10 * i + j) > 0
            failed += check_traffic(weir, kind, against, 5, 40, 500, 4, 2**64 - 1 - i) > 0
            cases += 2
    for seed in range(8):
        for against in AGAINST:
            failed += check_log(weir, against, seed) > 0
            cases += 1
    return failed, cases


def main():
    weir, *logs = sys.argv[1:]
    failed, cases = check_access_log(weir, logs[0]) if logs else check_all(weir)
    print(f"{cases - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
