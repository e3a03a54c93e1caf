#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Reads the logs that real servers wrote with `weir replay`, and compares each request with what was sent.

    logs_test.py WEIR MODULE [NAME...]"""

import ipaddress
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

from kit.process import expect, run

POLICY = "gcra 1000000/s burst 1000000"
ROUNDING_NS = 1000  # of a time that is a JSON number with a fraction

with open(f"{HERE}/expected.json", encoding="utf-8") as expected_file:
    LOGS = json.load(expected_file)


def lines_of(name, requests):
    with open(f"{HERE}/{name}", "rb") as f:
        lines = f.read().split(b"\n")
    return b"".join(lines[r["line"] - 1] + b"\n" for r in requests)


def replay(box, name, requests, *options):
    """The decisions on the lines of these requests."""
    words = [box.weir, "replay", "--policy", POLICY, "--decisions", "jsonl", "--strict", *options, "-"]
    done = subprocess.run(words, input=lines_of(name, requests), capture_output=True, check=False)
    expect(done.returncode == 0, f"{name} {options}: {done.stderr.decode()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(name, options, expected, found):
    """`expected` has (t_ns, key, cost)."""
    expect(len(found) == len(expected), f"{name} {options}: {len(expected)} requests, found {len(found)}")
    # Requests of one log are in the order of time, except that servers log at different moments.
    for (t_ns, key, cost), answer in zip(expected, found):
        same = abs(answer["t_ns"] - t_ns) <= ROUNDING_NS and answer["key"] == key and answer["cost"] == cost
        expect(same, f"{name} {options}: expected {t_ns} {key} {cost}, found {answer}")


def by_time(requests):
    return sorted(requests, key=lambda r: r["t_ns"])


def check_key(box, name, log, field):
    requests = [r for r in log["requests"] if r.get(field)]
    options = ["--format", log["format"], "--key", field]
    expected = [(r["t_ns"], str(r[field]), 1) for r in by_time(requests)]
    compare(name, options, expected, replay(box, name, requests, *options))


def keys(box):
    for name, log in LOGS.items():
        for field in sorted({f for r in log["requests"] for f in r} - {"line", "t_ns", "whole", "bytes"}):
            check_key(box, name, log, field)


def default_key(box):
    """The format is detected, and the key is the client, also of malformed requests."""
    for name, log in LOGS.items():
        requests = [r for r in log["requests"] if "client" in r]
        expected = [(r["t_ns"], r["client"], 1) for r in by_time(requests)]
        compare(name, "detected", expected, replay(box, name, requests))


def costs(box):
    for name, log in LOGS.items():
        requests = [r for r in log["requests"] if "bytes" in r]
        expected = [(r["t_ns"], r["client"], r["bytes"]) for r in by_time(requests)]
        compare(name, "--cost bytes", expected, replay(box, name, requests, "--cost", "bytes"))


def holds(request):
    return request["status"] in ("200", "401") and request["method"] != "HEAD" and request["bytes"] >= 5


def filters(box):
    """All filters must hold; a filter by status leaves out requests that the server refused as malformed."""
    where = ("--where", "status=200|401 method!=HEAD", "--where", "bytes>=5")
    for name, log in LOGS.items():
        whole = [r for r in log["requests"] if "status" in r]
        expected = [(r["t_ns"], r["client"], 1) for r in by_time(whole) if holds(r)]
        expect(0 < len(expected) < len(whole), f"{name}: {len(expected)} of {len(whole)} requests")
        compare(name, where, expected, replay(box, name, whole, *where))


def network(address):
    return str(ipaddress.ip_network(f"{address}/64", strict=False)) if ":" in address else address


def templates(box):
    options = ("--key", "${client/64} $method=$status")
    for name, log in LOGS.items():
        requests = [r for r in log["requests"] if "status" in r]
        expected = [(r["t_ns"], f"{network(r['client'])} {r['method']}={r['status']}", 1)
                    for r in by_time(requests)]
        compare(name, options, expected, replay(box, name, requests, *options))


def headers(box):
    """A request header as the key, where the format logs it."""
    for name in ("nginx-json.log", "caddy.log", "traefik-json.log"):
        requests = [r for r in LOGS[name]["requests"] if "http_x_api_key" in r]
        expected = [(r["t_ns"], "key " + r["http_x_api_key"], 1) for r in by_time(requests)]
        expect(expected, f"{name} has no X-Api-Key")
        compare(name, "header", expected, replay(box, name, requests, "--key", "key $http_x_api_key"))


TESTS = [keys, default_key, costs, filters, templates, headers]

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv, needs_redis=False))
