#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Benchmarks the storages of clients/python beside those that they replace: `limits` with memory://, redis://, weir:// and
weir+file://, in one process that decides on one key after another.

The figures are decisions a second, and the CPU time of a decision: of the program, and of the server. They and their
ratios are medians of short rounds in which the storages alternate. Every decision is allowed: the limit is not reached.

    bench/clients/limits_storages.py WEIR [--json FILE] [--rounds N]

It runs with a Python that has the package, `limits` and redis-py; `make bench-clients` has one."""

import argparse
import itertools
import json
import pathlib
import re
import socket
import statistics
import subprocess
import tempfile
import time

from limits import parse, storage, strategies
import weir.limits  # registers its storages

KEYS = 1000
STRATEGIES = {"fixed-window": ("1000000/hour", 3000), "moving-window": ("10000/hour", 3000)}
LOCAL = 20  # times as many decisions where no server is asked
TARGETS = {("weir+file", "time", "memory"): 2.0, ("weir", "server", "redis"): 0.7}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server, with the CPU time of all its threads."""

    def __init__(self, words, ready):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if re.search(ready, line):
                return
        raise SystemExit(f"{words[0]} did not start")

    def cpu_ns(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks)


def servers(weir_program, directory):
    redis_port, weir_port = free_port(), free_port()
    config = directory / "weir.yaml"
    config.write_text(f"listen: {{resp: 127.0.0.1:{weir_port}}}\nthreads: 1\nmemory: {{size: 64m}}\n"
                      "policies: {api: gcra 1/s}\n")
    redis = Server(["redis-server", "--port", str(redis_port), "--save", "", "--dir", str(directory)],
                   "eady to accept connections")
    daemon = Server([weir_program, "serve", str(config)], " started ")
    return {"memory": ("memory://", None), "redis": (f"redis://127.0.0.1:{redis_port}", redis),
            "weir": (f"weir://127.0.0.1:{weir_port}?timeout=10", daemon),
            "weir+file": (f"weir+file://{directory}/limits?size=64m", None)}


def measure(limiter, item, keys, count, server):
    """The ns of a decision: elapsed, of the program's CPU, and of the server's."""
    began, cpu, served = time.perf_counter_ns(), time.process_time_ns(), server.cpu_ns() if server else 0
    for key in itertools.islice(keys, count):
        if not limiter.hit(item, key):
            raise SystemExit("a decision was denied")
    return ((time.perf_counter_ns() - began) / count, (time.process_time_ns() - cpu) / count,
            ((server.cpu_ns() if server else 0) - served) / count)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    a.add_argument("weir")
    a.add_argument("--json")
    a.add_argument("--rounds", type=int, default=9)
    a = a.parse_args()
    keys = itertools.cycle([f"user-{n}" for n in range(KEYS)])
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        places = servers(a.weir, pathlib.Path(directory))
        try:
            for strategy, (limit, count) in STRATEGIES.items():
                rows += compare(places, strategy, limit, count, keys, a.rounds)
        finally:
            for _, server in places.values():
                if server:
                    server.process.terminate()
                    server.process.wait()
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(rows, indent=1) + "\n")


def compare(places, strategy, limit, count, keys, rounds):
    item = parse(limit)
    limiters = {name: strategies.STRATEGIES[strategy](storage.storage_from_string(uri))
                for name, (uri, _) in places.items()}
    found = {name: [] for name in places}
    for round in range(rounds + 1):
        for name, (_, server) in places.items():
            times = measure(limiters[name], item, keys, count if server else count * LOCAL, server)
            if round > 0:  # the first round fills caches
                found[name].append(times)
    print(f"\n{strategy:24}decisions/s   CPU of the program   CPU of the server")
    rows = []
    for name, times in found.items():
        wall, cpu, served = (statistics.median(column) for column in zip(*times))
        print(f"  {name:20} {1e9 / wall:12,.0f} {cpu / 1000:17.1f} us {served / 1000:16.1f} us")
        rows.append({"name": f"clients/python/{strategy}/{name}/cpu", "value": cpu, "unit": "ns", "baseline": None,
                     "ratio": None})
    for name, kind, baseline in TARGETS:
        column = 1 if kind == "time" else 2
        ratio = statistics.median(one[column] / other[column] for one, other in zip(found[name], found[baseline]))
        print(f"  {name} / {baseline}: {ratio:.2f} of the CPU of the {'program' if column == 1 else 'server'}; "
              f"to reach {TARGETS[name, kind, baseline]}")
        rows.append({"name": f"clients/python/{strategy}/{name}/{kind}", "value": ratio, "unit": "ratio",
                     "baseline": baseline, "ratio": ratio})
    return rows


if __name__ == "__main__":
    main()
