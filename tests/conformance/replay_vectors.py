#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the vectors through `weir replay`: the cases of a policy become one log of tsv lines, each case a key,
and the decisions, printed as JSON, must equal the vectors. Replay supports neither refunds nor a clock that
steps back.

    replay_vectors.py WEIR FILE..."""

import json
import subprocess
import sys

CASES_MIN = 50  # of a file
FIELDS = ("t_ns", "cost", "allowed", "limit", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns", "layer")


def by_policy(cases):
    """Returns lists of cases with the same policy."""
    lists = {}
    for case in cases:
        lists.setdefault(case["policy"], []).append(case)
    return list(lists.values())


def decide(weir, cases):
    """Decides the requests of all cases in the order of time. Returns the decisions of each case, and an error."""
    requests = [(step["t_ns"], i, step["cost"]) for i, case in enumerate(cases) for step in case["steps"]]
    requests.sort(key=lambda request: request[0])  # stable: each case keeps its order
    log = "".join(f"{t_ns}\t{i}\t{cost}\n" for t_ns, i, cost in requests)
    command = [weir, "replay", "--policy", cases[0]["policy"], "--format", "tsv", "--reorder", "0"]
    command += ["--decisions", "jsonl", "-"]
    run = subprocess.run(command, input=log, capture_output=True, text=True, check=False)
    answers = [[] for _ in cases]
    for line in run.stdout.splitlines() if run.returncode == 0 else ():
        answer = json.loads(line)
        answers[int(answer.pop("key"))].append(answer)
    return answers, run.stderr if run.returncode != 0 else ""


def difference(case, answers, error):
    if error:
        return error
    if len(answers) != len(case["steps"]) or not answers:
        return f"{len(answers)} decisions for {len(case['steps'])} requests"
    for i, (step, answer) in enumerate(zip(case["steps"], answers)):
        want = {name: step[name] for name in FIELDS}
        if want != answer:
            return f"step {i}\n    want {want}\n    got  {answer}"
    return ""


def run_file(weir, path):
    with open(path, encoding="utf-8") as f:
        document = json.load(f)
    passed = failed = steps = 0
    for cases in by_policy(document["cases"]):
        answers, error = decide(weir, cases)
        for case, answer in zip(cases, answers):
            wrong = difference(case, answer, error)
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
