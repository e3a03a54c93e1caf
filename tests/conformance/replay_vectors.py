#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the vectors through `weir replay`: each case becomes a log of tsv lines, and the decisions, printed
as JSON, must equal the vectors. Replay supports neither refunds nor a clock that steps back.

    replay_vectors.py WEIR FILE..."""

import json
import subprocess
import sys

CASES_MIN = 50  # of a file
FIELDS = ("t_ns", "cost", "allowed", "limit", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns", "layer")


def decide(weir, case):
    log = "".join(f"{s['t_ns']}\tkey\t{s['cost']}\n" for s in case["steps"])
    command = [weir, "replay", "--policy", case["policy"], "--format", "tsv", "--reorder", "0"]
    command += ["--decisions", "jsonl", "-"]
    run = subprocess.run(command, input=log, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return [], run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()], ""


def difference(case, answers, error):
    if error:
        return error
    if len(answers) != len(case["steps"]) or not answers:
        return f"{len(answers)} decisions for {len(case['steps'])} requests"
    for i, (step, answer) in enumerate(zip(case["steps"], answers)):
        want = {name: step[name] for name in FIELDS} | {"key": "key"}
        if want != answer:
            return f"step {i}\n    want {want}\n    got  {answer}"
    return ""


def run_file(weir, path):
    with open(path, encoding="utf-8") as f:
        document = json.load(f)
    passed = failed = steps = 0
    for case in document["cases"]:
        wrong = difference(case, *decide(weir, case))
        if wrong:
            print(f"{path}: case {case['name']} ({case['policy']}): {wrong}", file=sys.stderr)
        failed += bool(wrong)
        passed += not wrong
        steps += len(case["steps"])
    print(f"replay   {passed + failed:5} cases, {steps:6} steps,    0 unsupported  {path}")
    if passed + failed < CASES_MIN:
        failed += 1
        print(f"{path}: too few cases, expected {CASES_MIN} or more", file=sys.stderr)
    return passed, failed


def main():
    totals = [run_file(sys.argv[1], path) for path in sys.argv[2:]]
    passed, failed = (sum(t) for t in zip(*totals))
    print(f"{passed + failed} cases, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
