#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Benchmarks state in Redis on loopback. It compares:

- the module with INCR, with SET and its EX, and with weir's library of functions;
- the daemon with `engine: redis` with EVALSHA from redis-benchmark, of weir's library as a script and
  of a common GCRA script;
- the same daemon with and without its deny cache;
- the hybrid engine with the daemon's own memory.

It uses the parts of bench/daemon.py: every figure is the median of short rounds in which the servers
alternate, and only ratios are meaningful.

    bench/redis.py WEIR MODULE LIBRARY [--json FILE] [--rounds N] [--only PART,...]
"""

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile

from daemon import GCRA, KEYS, POLICY, TAKE, UNITS, Report, Server, free_port

REQUESTS = {1: 80_000, 16: 400_000, 64: 400_000}
FILL = 2_000_000         # requests that create most of the keys
HELD, BATCH = 1_000_000, 1000  # keys whose memory is measured; keys in one batch
LONG = "gcra 100/h burst 1000"  # keys do not expire, and all requests are allowed
# The use of the hybrid engine: keys with thousands of requests a second, within their limit.
HOT_KEYS, HOT = "1000", "gcra 10000/s burst 1000"
TAKE_HOT = ["WEIR.TAKE", "hot", "key:__rand_int__"]
# The use of the deny cache: keys with many requests a second; one request a second is allowed for each.
DENIED = "gcra 1/s"
TAKE_DENIED = ["WEIR.TAKE", "denied", "key:__rand_int__"]
UNITS["bytes"] = "bytes/key"
UNITS["commands"] = "commands/1000 requests"


# ---- servers -------------------------------------------------------------------------------------


class Redis(Server):
    def __init__(self, bench, module=None):
        port = free_port()
        tmp = os.path.join(bench.tmp, f"redis-{port}")
        os.mkdir(tmp)
        more = ["--loadmodule", module] if module else []
        super().__init__("redis", ["redis-server", "--port", str(port), "--bind", "127.0.0.1",
                                   "--save", "", "--appendonly", "no", "--dir", tmp, *more], port)
        bench.servers.append(self)

    def call(self, *words, body=None):
        more = ["-x"] if body is not None else []
        done = subprocess.run(["redis-cli", "-p", str(self.port), *more, *words], input=body,
                              capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    def used(self):
        return int(re.search(r"used_memory:(\d+)", self.call("INFO", "memory"))[1])

    def commands(self):
        return int(re.search(r"total_commands_processed:(\d+)", self.call("INFO", "stats"))[1])

    def many(self, commands):
        """Sends commands and reads their replies, each of them a line or an array of integers."""
        with socket.create_connection(("127.0.0.1", self.port), 60) as s, s.makefile("rb") as replies:
            for first in range(0, len(commands), BATCH):
                batch = commands[first:first + BATCH]
                s.sendall(b"".join(batch))
                for _ in batch:
                    line = replies.readline()
                    if line[:1] == b"-":
                        sys.exit(f"bench: {line.decode()}")
                    for _ in range(int(line[1:]) if line[:1] == b"*" else 0):
                        replies.readline()


def command(*words):
    words = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Daemon(Server):
    def __init__(self, bench, engine, redis=None, more=""):
        port = free_port()
        config = os.path.join(bench.tmp, f"weir-{port}.yaml")
        with open(config, "w", encoding="ascii") as f:
            f.write(f'listen: {{resp: "127.0.0.1:{port}", http: off}}\nthreads: 1\nengine: {engine}\n')
            if redis:
                # A long deadline, so that slow replies are measured, too.
                f.write(f'redis: {{url: "redis://127.0.0.1:{redis.port}", deadline: 5s{more}}}\n')
            f.write(f'policies: {{api: "{POLICY}", hot: "{HOT}", denied: "{DENIED}"}}\n')
        super().__init__(engine, [bench.args.weir, "serve", config], port)
        bench.servers.append(self)


# ---- loads ---------------------------------------------------------------------------------------


def load(server, pipeline, command, keys=KEYS, also=(), requests=None):
    """Runs one round with 50 connections. Returns requests a second, latencies, and the CPU time a
    request of the server and of the servers in `also`."""
    requests = requests or REQUESTS[pipeline]
    measured = [server, *also]
    before = sum(one.cpu_ns() for one in measured)
    out = subprocess.run(
        ["redis-benchmark", "-p", str(server.port), "-c", "50", "-P", str(pipeline), "-r", keys,
         "-n", str(requests), "--csv", *command],
        capture_output=True, text=True, timeout=300, check=False).stdout
    found = re.findall(r'^"[^"\n]*((?:","[0-9.]+){7})"\s*$', out, re.M)
    if not found:
        sys.exit(f"bench: redis-benchmark failed: {out[-500:]}")
    rps, _, _, p50, _, p99, _ = (float(word) for word in found[-1].strip('",').split('","'))
    cpu = (sum(one.cpu_ns() for one in measured) - before) / requests
    return {"cpu": cpu, "rps": rps, "p50": p50 * 1000, "p99": p99 * 1000}


def check(server, command, expected=("1", "20")):
    """Checks that the reply is the expected decision and not an error."""
    words = [word.replace("__rand_int__", "check") for word in command]
    answer = subprocess.run(["redis-cli", "-p", str(server.port), *words], capture_output=True,
                            text=True, timeout=60, check=True).stdout.split()
    if answer[:2] != list(expected):
        sys.exit(f"bench: unexpected reply to {words}: {answer}")


# ---- the parts -----------------------------------------------------------------------------------


class Bench:
    def __init__(self, args, tmp, report):
        self.args, self.tmp, self.report, self.servers = args, tmp, report, []
        self.module = self.plain = None

    def open(self):
        self.module = Redis(self, self.args.module)
        self.plain = Redis(self)
        with open(self.args.library, encoding="ascii") as f:
            library = f.read()
        self.module.call("FUNCTION", "LOAD", "REPLACE", body=library)
        self.module.call("WEIR.POLICY", "SET", "long", LONG)
        # Without its first line, the library is a script.
        sha = self.plain.call("SCRIPT", "LOAD", body=library.partition("\n")[2])
        self.evalsha = ["EVALSHA", sha, "1", "take:__rand_int__", "weir_take", POLICY]
        # The common GCRA script.
        sha = self.plain.call("SCRIPT", "LOAD", body=GCRA)
        self.gcra = ["EVALSHA", sha, "1", "gcra:__rand_int__", "10000", "20"]
        check(self.plain, self.evalsha)
        check(self.plain, self.gcra)

    def rows(self, prefix, suffix, ours, theirs, kinds):
        self.report.pair(prefix, suffix, lambda: only(ours(), kinds), lambda: only(theirs(), kinds),
                         self.args.rounds)

    def held(self):
        """Compares the memory of a key with that of a key that holds a timestamp and expires."""
        grown = []
        for make in (lambda i: command("WEIR.CHECK", "gcra 1/d", f"key:{i:012d}"),
                     lambda i: command("SET", f"key:{i:012d}", 1700000000000000 + i, "EX", 86400)):
            server = Redis(self, self.args.module)
            before = server.used()
            server.many([make(i) for i in range(HELD)])
            # A hash table that is being resized exists twice: let the server finish.
            server.many([command("EXISTS", f"key:{i:012d}") for i in range(200 * BATCH)])
            if server.call("DBSIZE") != str(HELD):
                sys.exit("bench: some keys are missing")
            grown.append((server.used() - before) / HELD)
            server.stop()
        self.report.add("module.bytes_vs_set", "bytes", *grown)

    def inside(self):
        """Compares the module with INCR, which has no expiry; with SET EX, which writes a value and its
        expiry as a limiter does; and with the library of functions, inside one server."""
        take = ["WEIR.TAKE", "long", "key:__rand_int__"]
        pairs = (("incr", ["INCR", "n:__rand_int__"]),
                 ("set_ex", ["SET", "s:__rand_int__", "1", "EX", "36000"]),
                 ("lua", ["FCALL", "weir_ask", "1", "lua:__rand_int__", "TAKE", LONG, "1"]))
        for made, share in ((take, 1), (pairs[0][1], 1), (pairs[1][1], 1), (pairs[2][1], 2)):
            load(self.module, 64, made, requests=FILL // share)
        for name, theirs in pairs:
            self.rows("module", name, lambda: load(self.module, 16, take),
                      lambda c=theirs: load(self.module, 16, c), ("cpu", "rps"))

    def engine(self):
        """Measures the daemon with `engine: redis`, unpipelined."""
        for name, server in (("module", self.module), ("functions", self.plain)):
            daemon = Daemon(self, "redis", server)
            check(daemon, TAKE)
            prefix = "engine.redis" if name == "module" else f"engine.redis.{name}"
            kinds = ("rps", "p50", "p99", "cpu")
            for suffix, script in (("evalsha", self.evalsha), ("gcra", self.gcra)):
                self.rows(prefix, suffix, lambda d=daemon, s=server: load(d, 1, TAKE, also=(s,)),
                          lambda c=script: load(self.plain, 1, c), kinds)

    def denied(self):
        """Compares the deny cache with none, on keys that are mostly denied. The CPU time is that of the
        daemon alone; the commands of Redis are counted instead of its time."""
        cached = Daemon(self, "redis", self.module)
        bare = Daemon(self, "redis", self.module, ", deny_cache: off")
        check(cached, TAKE_DENIED, ("1", "1"))
        for server in (bare, cached):
            load(server, 64, TAKE_DENIED, HOT_KEYS)

        def loaded(server, pipeline):
            count, before = 3 * REQUESTS[pipeline], self.module.commands()
            figures = load(server, pipeline, TAKE_DENIED, HOT_KEYS, requests=count)
            return {"cpu": figures["cpu"], "commands": (self.module.commands() - before) * 1000 / count}

        for pipeline, prefix in ((1, "engine.redis.denied"), (16, "engine.redis.denied.p16")):
            self.report.pair(prefix, "off", lambda p=pipeline: loaded(cached, p),
                             lambda p=pipeline: loaded(bare, p), self.args.rounds)

    def hybrid(self):
        """Measures `engine: hybrid` on hot keys, on hot keys that are mostly denied, and on random
        keys. Random keys are not a use of the hybrid: each of them needs a request to Redis."""
        local, hybrid = Daemon(self, "local"), Daemon(self, "hybrid", self.module)
        check(hybrid, TAKE)
        for prefix, pipeline, command, keys in (
                ("hybrid", 16, TAKE_HOT, HOT_KEYS), ("hybrid.p1", 1, TAKE_HOT, HOT_KEYS),
                ("hybrid.denied", 16, TAKE, "100"), ("hybrid.random", 16, TAKE, KEYS)):
            for server in (local, hybrid):
                load(server, 64, command, keys)
            kinds = ("rps", "cpu", "p50", "p99") if pipeline == 1 else ("rps", "cpu")
            count = 3 * REQUESTS[pipeline]
            self.rows(prefix, "local",
                      lambda p=pipeline, c=command, k=keys, n=count: load(hybrid, p, c, k, requests=n),
                      lambda p=pipeline, c=command, k=keys, n=count: load(local, p, c, k, requests=n),
                      kinds)


def only(figures, kinds):
    return {kind: figures[kind] for kind in kinds}


PARTS = ("held", "inside", "engine", "denied", "hybrid")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("module")
    parser.add_argument("library", help="modules/lua/weir.lua")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(PARTS), help=",".join(PARTS))
    args = parser.parse_args()
    parts = args.only.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--only: expected some of {','.join(PARTS)}")
    args.weir, args.module = os.path.abspath(args.weir), os.path.abspath(args.module)
    report = Report()
    print(f"{POLICY}, 50 connections, 1 M random keys; hybrid: {HOT}, {HOT_KEYS} keys; CPU time\n"
          "of all servers: for engine.redis, of the daemon and its Redis together; for\n"
          "engine.redis.denied, of the daemon\n\n"
          f"{'':<30} {'weir':>12} {'baseline':>12} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as tmp:
        bench = Bench(args, tmp, report)
        try:
            bench.open()
            for part in parts:
                getattr(bench, part)()
        finally:
            for server in bench.servers:
                server.stop()
    report.save(args.json)


if __name__ == "__main__":
    main()
