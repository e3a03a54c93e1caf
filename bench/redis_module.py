#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The module beside the server's own commands and beside our library of functions, in one run in one
redis-server: a million random keys, 16 requests in a pipeline, no AOF and no replica. Processor time
of the server for each request, and bytes of its memory for each key. Every figure is the median of
several short rounds in which the commands take turns.

    bench/redis_module.py MODULE [--lua FILE] [--json FILE] [--rounds N]
"""

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile

from daemon import Report, Server, UNITS, free_port, resp_load

KEYS, BATCH = 1_000_000, 1000
# A key is charged for less than a minute, so that most are there when they are asked for again.
POLICY = "gcra 1000/h burst 16"
PIPELINE = 16
UNITS["bytes"] = "bytes/key"


def command(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.file = self.socket.makefile("rb")

    def read(self):
        line = self.file.readline()
        if line[:1] == b"-":
            sys.exit(f"bench: {line.decode()}")
        if line[:1] == b"*":
            return [self.read() for _ in range(int(line[1:]))]
        if line[:1] == b"$":
            return self.file.read(int(line[1:]) + 2)[:-2]
        return line[1:-2]

    def ask(self, *words):
        self.socket.sendall(command(*words))
        return self.read()

    def many(self, commands):
        self.socket.sendall(b"".join(commands))
        for _ in commands:
            self.read()

    def used(self):
        info = self.ask("INFO", "memory").decode()
        return int(info.split("used_memory:")[1].split()[0])


def bytes_of(client, make):
    """Memory that a million keys of one kind take, with what the server itself needs for them."""
    client.ask("FLUSHALL")
    before = client.used()
    for first in range(0, KEYS, BATCH):
        client.many([make(i) for i in range(first, first + BATCH)])
    # Tables that are being widened are there twice: let the server come to rest.
    for _ in range(200):
        client.many([command("EXISTS", f"key:{i:012d}") for i in range(BATCH)])
    if client.ask("DBSIZE") != b"%d" % KEYS:
        sys.exit("bench: some of the keys are not there")
    used = (client.used() - before) / KEYS
    client.ask("FLUSHALL")
    return used


def start(module, tmp):
    port = free_port()
    return Server("redis", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                            "--appendonly", "no", "--dir", tmp, "--loadmodule", os.path.abspath(module)],
                  port)


def measure(server, report, args):
    client = Client(server.port)
    # The same number that our state is: a time.
    report.add("module.bytes_vs_set", "bytes",
               bytes_of(client, lambda i: command("WEIR.CHECK", "gcra 1/d", f"key:{i:012d}")),
               bytes_of(client, lambda i: command("SET", f"key:{i:012d}", 1700000000000000 + i,
                                                  "EX", 86400)))
    client.ask("WEIR.POLICY", "SET", "api", POLICY)
    loads = {"take": ["WEIR.TAKE", "api", "key:__rand_int__"],
             "incr": ["INCR", "n:__rand_int__"]}
    if args.lua:
        with open(args.lua, "rb") as f:
            client.ask("FUNCTION", "LOAD", "REPLACE", f.read())
        loads["lua"] = ["FCALL", "weir_ask", "1", "lua:__rand_int__", "TAKE", POLICY, "1"]
    samples = {name: [] for name in loads}
    for i in range(args.rounds + 2):  # the first two make the keys
        for name, load in loads.items():
            cpu = resp_load(server, PIPELINE, load)
            if i > 1:
                samples[name].append(cpu["cpu"])
    medians = {name: statistics.median(values) for name, values in samples.items()}
    for name in sorted(set(medians) - {"take"}):
        report.add(f"module.cpu_vs_{name}", "cpu", medians["take"], medians[name])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--lua", help="the library of functions")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as tmp:
        server = start(args.module, tmp)
        try:
            print(f"{'':<30} {'weir':>12} {'beside':>12} {'ratio':>8}")
            measure(server, report, args)
        finally:
            server.stop()
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(report.rows, f, indent=1)


if __name__ == "__main__":
    main()
