#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Benchmarks weir as Envoy's rate limit service beside the reference service, envoyproxy/ratelimit,
with its redis-server, and beside a gRPC method of weir that decides nothing (bench/grpc_noop.c). h2load
sends the same request to all of them, over 50 connections with 10 or with 1 concurrent streams: two
descriptors, of one and of two entries, which both match a limit that is never reached.

h2load sends one body, so the keys are always the same two: the figures are those of hot keys.

The figures are requests a second, and the CPU time of the server a request, as the kernel accounts it;
that of the reference is the sum of the service and of redis-server. They and their ratios are medians
of short rounds in which the servers alternate. All processes of a server run on one processor, and
h2load runs on another.

After each round, the remaining quota of both keys must have decreased by the number of requests. All
servers must send replies of about the same size.

    bench/envoy.py WEIR NOOP [--reference FILE] [--json FILE] [--rounds N]

Without --reference, only weir and the method that decides nothing are measured.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request

import daemon

CONNECTIONS = 50
STREAMS = (10, 1)  # concurrent streams of a connection
SECONDS = 1  # the duration of a round, about
LIMIT = 2_000_000_000  # a year
REPLY = (50, 65)  # bytes of a response with two statuses
METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
DOMAIN = "bench"
DESCRIPTORS = ((("remote_address", "203.0.113.7"),), (("plan", "gold"), ("user", "alice")))
CONFIG = f"""
domain: {DOMAIN}
descriptors:
  - key: remote_address
    rate_limit: {{unit: year, requests_per_unit: {LIMIT}}}
  - key: plan
    value: gold
    descriptors:
      - key: user
        rate_limit: {{unit: year, requests_per_unit: {LIMIT}}}
"""


# ---- the request ---------------------------------------------------------------------------------


def field(number, data):
    """A field of a protobuf message whose wire type is LEN; the data is shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(data)]) + data


def grpc_body():
    """A RateLimitRequest behind the prefix of a gRPC message."""
    message = field(1, DOMAIN.encode())
    for entries in DESCRIPTORS:
        message += field(2, b"".join(field(1, field(1, k.encode()) + field(2, v.encode())) for k, v in entries))
    return b"\0" + len(message).to_bytes(4, "big") + message


def json_body():
    return json.dumps({"domain": DOMAIN, "descriptors": [
        {"entries": [{"key": k, "value": v} for k, v in entries]} for entries in DESCRIPTORS]}).encode()


# ---- servers -------------------------------------------------------------------------------------


def pinned(cpu, command):
    return command if cpu is None else ["taskset", "-c", str(cpu), *command]


class System:
    """What answers requests: one server, or several that are measured together.
    json_port  of POST /json, or None."""

    def __init__(self, name, servers, port, json_port, requests):
        self.name, self.servers, self.port, self.json_port = name, servers, port, json_port
        self.requests = dict.fromkeys(STREAMS, requests)

    def cpu_ns(self):
        return sum(server.cpu_ns() for server in self.servers)

    def remaining(self):
        """The remaining quota of each descriptor, after one more request."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.json_port}/json", json_body(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            statuses = json.load(answer)["statuses"]
        if len(statuses) != len(DESCRIPTORS) or any("limitRemaining" not in status for status in statuses):
            sys.exit(f"bench: {self.name}: no limit was found: {statuses}")
        return [status["limitRemaining"] for status in statuses]

    def expect(self, before, requests):
        after = self.remaining()
        if [b - a for b, a in zip(before, after)] != [requests + 1] * len(before):
            sys.exit(f"bench: {self.name}: {requests} requests, but the remaining quota went from {before} to {after}")

    def stop(self):
        for server in self.servers:
            server.stop()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


class Start:
    """Starts the servers on a processor, with the limits in a directory."""

    def __init__(self, tmp, cpu):
        self.tmp, self.cpu = tmp, cpu
        self.limits = os.path.join(tmp, "ratelimit", "config")
        write(os.path.join(self.limits, "bench.yaml"), CONFIG)

    def weir(self, program):
        port, http, config = daemon.free_port(), daemon.free_port(), os.path.join(self.tmp, "weir.yaml")
        write(config, f'listen: {{grpc: "127.0.0.1:{port}", http: "127.0.0.1:{http}"}}\nthreads: 1\n'
                      f'envoy: {{config: "{self.limits}"}}\n')
        server = daemon.Server("weir", pinned(self.cpu, [program, "serve", config]), port)
        return System("weir", [server], port, http, 20_000)

    def noop(self, program):
        port = daemon.free_port()
        return System("noop", [daemon.Server("noop", pinned(self.cpu, [program, str(port)]), port)], port,
                      None, 20_000)

    def reference(self, program):
        redis, port, http, debug = (daemon.free_port() for _ in range(4))
        store = daemon.Server("redis", pinned(self.cpu, [
            "redis-server", "--port", str(redis), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
            "--dir", self.tmp]), redis)
        os.environ.update(
            USE_STATSD="false", LOG_LEVEL="error", REDIS_SOCKET_TYPE="tcp", REDIS_URL=f"127.0.0.1:{redis}",
            RUNTIME_ROOT=self.tmp, RUNTIME_SUBDIRECTORY="ratelimit", RUNTIME_WATCH_ROOT="false",
            HOST="127.0.0.1", PORT=str(http), GRPC_HOST="127.0.0.1", GRPC_PORT=str(port),
            DEBUG_HOST="127.0.0.1", DEBUG_PORT=str(debug))
        service = daemon.Server("reference", pinned(self.cpu, [program]), port)
        daemon.wait_for(http)
        return System("reference", [service, store], port, http, 3_000)


# ---- loads ---------------------------------------------------------------------------------------


class Client:
    """h2load on a processor."""

    def __init__(self, tmp, cpu):
        self.cpu, self.body = cpu, os.path.join(tmp, "body")
        with open(self.body, "wb") as f:
            f.write(grpc_body())

    def load(self, system, streams):
        """Runs one round. Returns the CPU time in ns a request, and requests a second. The next round has
        as many requests as the system answers in SECONDS."""
        requests = system.requests[streams]
        quota = system.remaining() if system.json_port else None
        before = system.cpu_ns()
        out = subprocess.run(pinned(self.cpu, [
            "h2load", "-n", str(requests), "-c", str(CONNECTIONS), "-m", str(streams), "-t", "1", "-d", self.body,
            "-H", "content-type: application/grpc", "-H", "te: trailers",
            f"http://127.0.0.1:{system.port}{METHOD}"]), capture_output=True, text=True, timeout=120, check=True).stdout
        cpu = system.cpu_ns() - before
        done = re.search(r"(\d+) succeeded, (\d+) failed", out)
        if not done or int(done[1]) != requests:
            sys.exit(f"bench: {system.name} did not answer {requests} requests:\n{out}")
        size = int(re.search(r"\((\d+)\) data", out)[1]) / requests
        if not REPLY[0] <= size <= REPLY[1]:
            sys.exit(f"bench: {system.name}: a reply has {size} bytes, expected {REPLY[0]} to {REPLY[1]}:\n{out}")
        if quota:
            system.expect(quota, requests)
        rps = float(re.search(r"([\d.]+) req/s", out)[1])
        system.requests[streams] = max(CONNECTIONS * streams, int(rps * SECONDS))
        return {"cpu": cpu / requests, "rps": rps}


def measure(client, systems, streams, rounds):
    """Runs each system once a round, after one round that only warms up."""
    samples = {system.name: [] for system in systems}
    for i in range(rounds + 1):
        for system in systems if i % 2 == 0 else reversed(systems):
            sample = client.load(system, streams)
            if i > 0:
                samples[system.name].append(sample)
    return samples


def compare(report, prefix, samples, theirs):
    """Adds rows with the medians of weir and of another. The ratio is the median of the ratios in each
    round, because what else the machine does changes from round to round."""
    for kind in ("cpu", "rps"):
        mine, other = ([sample[kind] for sample in samples[name]] for name in ("weir", theirs))
        report.add(f"{prefix}.{kind}_vs_{theirs}", kind, statistics.median(mine), statistics.median(other),
                   statistics.median(a / b for a, b in zip(mine, other)))


def processors():
    """A processor for the servers and another for h2load; None and None if there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[:2] if len(usable) > 1 else (None, None)


def run_all(args, start, client, systems, report):
    systems.append(start.weir(args.weir))
    systems.append(start.noop(args.noop))
    if args.reference:
        systems.append(start.reference(args.reference))
    for streams in STREAMS:
        samples = measure(client, systems, streams, args.rounds)
        prefix = "envoy" if streams == STREAMS[0] else f"envoy.streams{streams}"
        for system in reversed(systems[1:]):
            compare(report, prefix, samples, system.name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("noop")
    parser.add_argument("--reference", help="the program of envoyproxy/ratelimit")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    report, systems = daemon.Report(), []
    servers_cpu, client_cpu = processors()
    print(f"ShouldRateLimit, 2 descriptors, {CONNECTIONS} connections with {STREAMS[0]} streams (or {STREAMS[1]}); "
          f"CPU time of the server\n\n{'':<30} {'weir':>12} {'baseline':>12} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as tmp:
        try:
            run_all(args, Start(tmp, servers_cpu), Client(tmp, client_cpu), systems, report)
        finally:
            for system in systems:
                system.stop()
    report.save(args.json)


if __name__ == "__main__":
    main()
