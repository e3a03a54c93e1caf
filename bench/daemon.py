#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Benchmarks the daemon against redis-server and nginx on loopback, with redis-benchmark (50
connections, a million random keys) and wrk. The main figure is the server's CPU time a request, as
the kernel accounts it, because the clients are slower than the servers; requests a second are
reported, too. Every figure is the median of several short rounds in which the servers alternate. On
a shared machine only ratios are meaningful.

    bench/daemon.py WEIR [--offered PROGRAM] [--top PROGRAM] [--json FILE] [--rounds N] [--only PART,...]
"""

import argparse
import glob
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# A common GCRA script for Redis: TAT in microseconds, by the clock of the server.
GCRA = """
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + interval
if new - now > interval * burst then
  return {0, burst, 0, math.ceil((new - now - interval * burst) / 1000), math.ceil((tat - now) / 1000)}
end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return {1, burst, math.floor((interval * burst - (new - now)) / interval), 0, math.ceil((new - now) / 1000)}
"""

# A script for wrk. Each of its threads has its own random generator.
HTTP_REQUESTS = """
request = function()
  return wrk.format("GET", string.format("/v1/take?policy=api&key=key:%012d", math.random(0, 999999)))
end
"""

NGINX = """
worker_processes 1;
daemon off;
pid {tmp}/nginx.pid;
error_log {tmp}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {tmp}/body; proxy_temp_path {tmp}/proxy; fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi; scgi_temp_path {tmp}/scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200; }} }}
}}
"""

KEYS = "1000000"
POLICY = "gcra 100/s burst 20"
TAKE = ["WEIR.TAKE", "api", "key:__rand_int__"]
INCR = ["INCR", "key:__rand_int__"]
REQUESTS = {1: 80_000, 16: 600_000, 64: 1_200_000}
# (pipeline, compared with)
PAIRS = [(1, "ping"), (1, "incr"), (16, "incr"), (16, "evalsha"), (64, "incr")]
IDLE = 10_000
BUSY = (50, 1000)  # connections
BEHIND = 200  # connections
OFFERED = 10_000  # requests a second
SHARES = {"half": 0.5, "most": 0.8}  # of the requests a second that a whole core answers
SECONDS = 2  # duration of a round that is not limited by requests


# ---- servers -------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port):
    for _ in range(2000):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            time.sleep(0.005)
    sys.exit(f"bench: no server is listening on port {port}")


class Server:
    def __init__(self, name, command, port, http=None):
        self.name, self.port, self.http = name, port, http
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(port)

    def pids(self):
        """The process and its children; nginx serves in a child."""
        pids = {self.process.pid}
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path, encoding="utf-8", errors="replace") as f:
                    parent = int(f.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == self.process.pid:
                pids.add(int(path.split("/")[2]))
        return pids

    def cpu_ns(self):
        """CPU time of all threads."""
        total = 0
        for pid in self.pids():
            for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
                with open(path, encoding="ascii") as f:
                    total += int(f.read().split()[0])
        return total

    def memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) << 10

    def stop(self):
        self.process.terminate()
        self.process.wait()


def start_weir(weir, tmp, threads, more=""):
    port, http = free_port(), free_port()
    config = os.path.join(tmp, f"weir-{port}.yaml")
    with open(config, "w", encoding="ascii") as f:
        f.write(f'listen: {{resp: "127.0.0.1:{port}", http: "127.0.0.1:{http}"}}\n'
                f'threads: {threads}\nlimits: {{connections: {2 * IDLE}}}\n'
                f'policies: {{api: "{POLICY}"}}\n{more}')
    return Server("weir", [weir, "serve", config], port, http)


def start_redis(tmp):
    port = free_port()
    return Server("redis", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                            "--appendonly", "no", "--dir", tmp], port)


def start_nginx(tmp):
    port = free_port()
    config = os.path.join(tmp, "nginx.conf")
    with open(config, "w", encoding="ascii") as f:
        f.write(NGINX.format(tmp=tmp, port=port))
    return Server("nginx", ["nginx", "-c", config, "-p", tmp, "-e", f"{tmp}/nginx.log"], port, port)


# ---- loads ---------------------------------------------------------------------------------------


def benchmark(server, pipeline, command, requests, connections=50):
    return subprocess.Popen(
        ["redis-benchmark", "-p", str(server.port), "-c", str(connections), "-P", str(pipeline), "-r",
         KEYS, "-n", str(requests), "--csv", *command],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def rate_of(client):
    out, _ = client.communicate(timeout=300)
    found = re.findall(r'^"[^"]*","([0-9.]+)"', out, re.M)
    if client.returncode != 0 or not found:
        sys.exit(f"bench: redis-benchmark failed: {out}")
    return float(found[-1])


def resp_load(server, pipeline, command, connections=50, clients=1):
    """Runs one round. Returns the CPU time in ns a request, and requests a second."""
    requests = REQUESTS[pipeline] // (4 if "EVALSHA" in command and pipeline > 1 else 1)
    before = server.cpu_ns()
    running = [benchmark(server, pipeline, command, requests, connections) for _ in range(clients)]
    rps = sum(rate_of(client) for client in running)
    return {"cpu": (server.cpu_ns() - before) / (requests * clients), "rps": rps}


def http_load(server, script):
    before = server.cpu_ns()
    out = subprocess.run(["wrk", "-t", "1", "-c", "50", "-d", f"{SECONDS}s", "-s", script,
                          f"http://127.0.0.1:{server.http}/"],
                         capture_output=True, text=True, timeout=60, check=True).stdout
    requests = int(re.search(r"(\d+) requests in", out)[1])
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    if bad and int(bad[1]) > requests // 100:
        sys.exit(f"bench: {server.name} answered {bad[1]} of {requests} requests with a status other than 200")
    return {"cpu": (server.cpu_ns() - before) / requests, "rps": requests / SECONDS}


def offered_load(offered, server, what, rate):
    out = subprocess.run([offered, str(server.port), what, str(int(rate)), str(SECONDS)],
                         capture_output=True, text=True, timeout=60, check=True).stdout
    p50, p99, _ = (float(word) for word in out.split())
    return {"p50": p50, "p99": p99}


def wait_behind(server, clients):
    """How long a PING waits while the clients send pipelines of 64 KB all the time. Returns percentiles
    in us, and the CPU time in ns of one of their requests."""
    pipeline = (64 << 10) // 57
    before = server.cpu_ns()
    load = benchmark(server, pipeline, TAKE if server.name == "weir" else INCR, pipeline * clients * 8, clients)
    waited = []
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as s:
        while load.poll() is None:
            began = time.monotonic()
            s.sendall(b"PING\r\n")
            if s.recv(16) != b"+PONG\r\n":
                sys.exit(f"bench: {server.name} did not answer PING")
            waited.append((time.monotonic() - began) * 1e6)
            time.sleep(0.001)
    rate_of(load)
    waited.sort()
    return {"p99": waited[len(waited) * 99 // 100], "longest": waited[-1],
            "cpu": (server.cpu_ns() - before) / (pipeline * clients * 8)}


# ---- figures -------------------------------------------------------------------------------------

UNITS = {"cpu": "ns/request", "rps": "requests/s", "p50": "us", "p99": "us", "longest": "us", "memory": "MiB", "agent": "us/request",
         "capacity": "requests/s of CPU time"}


class Report:
    def __init__(self):
        self.rows = []

    def add(self, name, kind, value, baseline, ratio=None):
        row = {"name": name, "value": round(value, 1), "unit": UNITS[kind],
               "baseline": round(baseline, 1), "ratio": round(ratio or value / baseline, 3)}
        self.rows.append(row)
        print(f"{name:<30} {value:>12.1f} {baseline:>12.1f} {row['ratio']:>8.3f}  {row['unit']}",
              flush=True)

    def pair(self, prefix, suffix, ours, theirs, rounds):
        """Alternates two loads and adds a row for each figure. Returns the medians of both."""
        samples = [(ours(), theirs()) for _ in range(rounds)]
        medians = [{kind: statistics.median(s[i][kind] for s in samples) for kind in samples[0][i]}
                   for i in (0, 1)]
        for kind in medians[0]:
            self.add(f"{prefix}.{kind}_vs_{suffix}", kind, medians[0][kind], medians[1][kind])
        return medians

    def save(self, path):
        """Writes the rows as JSON, unless there is no path."""
        if path:
            with open(path, "w", encoding="ascii") as f:
                json.dump(self.rows, f, indent=1)
                f.write("\n")


def hold_idle(server, report):
    """Measures the memory of connections that sent one request and then stay idle."""
    before = server.memory()
    clients = []
    try:
        for _ in range(IDLE):
            s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            clients.append(s)
            s.sendall(b"PING\r\n")
            if not s.recv(16).startswith(b"+PONG"):
                sys.exit("bench: an idle connection was refused")
        grown = server.memory() - before
    finally:
        for s in clients:
            s.close()
    # The baseline of 100 MiB is the target.
    report.add("daemon.idle10000.memory", "memory", grown / (1 << 20), 100)


# ---- the parts -----------------------------------------------------------------------------------


class Bench:
    def __init__(self, args, tmp, servers, report):
        self.args, self.tmp, self.servers, self.report = args, tmp, servers, report
        self.weir = self.open(start_weir(args.weir, tmp, 1))
        self.redis = self.open(start_redis(tmp))
        sha = subprocess.run(["redis-cli", "-p", str(self.redis.port), "SCRIPT", "LOAD", GCRA],
                             capture_output=True, text=True, check=True).stdout.strip()
        self.theirs = {
            "ping": ["-t", "ping_mbulk"],
            "incr": INCR,
            "evalsha": ["EVALSHA", sha, "1", "gcra:__rand_int__", "10000", "20"],
        }
        # Create every key before anything is measured.
        for _ in range(2):
            resp_load(self.weir, 64, TAKE)
            resp_load(self.redis, 64, self.theirs["incr"])

    def open(self, server):
        self.servers.append(server)
        return server

    def resp(self):
        for pipeline, name in PAIRS:
            self.report.pair(f"daemon.p{pipeline}", name,
                             lambda p=pipeline: resp_load(self.weir, p, TAKE),
                             lambda p=pipeline, n=name: resp_load(self.redis, p, self.theirs[n]),
                             self.args.rounds)

    def http(self):
        nginx = self.open(start_nginx(self.tmp))
        script = os.path.join(self.tmp, "requests.lua")
        with open(script, "w", encoding="ascii") as f:
            f.write(HTTP_REQUESTS)
        self.report.pair("daemon.http", "nginx", lambda: http_load(self.weir, script),
                         lambda: http_load(nginx, script), self.args.rounds)

    def offered_pair(self, name, rate):
        self.report.pair(f"daemon.{name}", "incr",
                         lambda: offered_load(self.args.offered, self.weir, "take", rate),
                         lambda: offered_load(self.args.offered, self.redis, "incr", rate),
                         self.args.rounds)

    def offered(self):
        """Measures latencies at a fixed rate, and at shares of what redis-server can do with its CPU time."""
        self.offered_pair(f"offered{OFFERED}", OFFERED)
        most = 1e9 / resp_load(self.redis, 1, self.theirs["incr"])["cpu"]
        for name, share in SHARES.items():
            self.offered_pair(name, most * share)

    def busy(self):
        few, many = BUSY
        self.report.pair(f"daemon.busy{many}", str(few),
                         lambda: resp_load(self.weir, 1, TAKE, connections=many),
                         lambda: resp_load(self.weir, 1, TAKE, connections=few), self.args.rounds)
        self.report.pair(f"daemon.busy{many}", "incr",
                         lambda: resp_load(self.weir, 1, TAKE, connections=many),
                         lambda: resp_load(self.redis, 1, self.theirs["incr"], connections=many),
                         self.args.rounds)

    def behind(self):
        self.report.pair(f"daemon.behind{BEHIND}", "redis", lambda: wait_behind(self.weir, BEHIND),
                         lambda: wait_behind(self.redis, BEHIND), self.args.rounds)

    def loops(self):
        """Compares two event loops with one, each under two clients. Without a core for each loop
        and client, requests a second depend on the machine alone. The capacity is then the figure:
        requests per second of CPU time, times the number of loops."""
        two = self.open(start_weir(self.args.weir, self.tmp, 2))
        for _ in range(2):
            resp_load(two, 64, TAKE)
        medians = self.report.pair("daemon.loops2", "1", lambda: resp_load(two, 64, TAKE, clients=2),
                                   lambda: resp_load(self.weir, 64, TAKE, clients=2),
                                   self.args.rounds)
        self.report.add("daemon.loops2.capacity_vs_1", "capacity", 2e9 / medians[0]["cpu"],
                        1e9 / medians[1]["cpu"])

    def top(self):
        """Measures the cost of the top keys: of a decision (no lists, sampled, each request counted), and
        in the daemon."""
        out = subprocess.run([self.args.top], capture_output=True, text=True, timeout=300, check=True).stdout
        without, sampled, counted = (float(word) for word in out.split())
        self.report.add("daemon.top.decision.sampled_vs_off", "cpu", sampled, without)
        self.report.add("daemon.top.decision.counted_vs_off", "cpu", counted, without)
        bare = self.open(start_weir(self.args.weir, self.tmp, 1, "top: off\n"))
        for _ in range(2):
            resp_load(bare, 64, TAKE)
        self.report.pair("daemon.top", "off", lambda: resp_load(self.weir, 16, TAKE),
                         lambda: resp_load(bare, 16, TAKE), self.args.rounds)

    def idle(self):
        hold_idle(self.weir, self.report)


PARTS = ("resp", "http", "offered", "busy", "behind", "loops", "top", "idle")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("--offered", default="build/bench/offered")
    parser.add_argument("--top", default="build/bench/top")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(PARTS), help=",".join(PARTS))
    args = parser.parse_args()
    parts = args.only.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--only: expected some of {','.join(PARTS)}")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    report, servers = Report(), []
    print("WEIR.TAKE, 1 M random keys, 50 connections; CPU time of the server\n\n"
          f"{'':<30} {'weir':>12} {'baseline':>12} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as tmp:
        try:
            bench = Bench(args, tmp, servers, report)
            for part in parts:
                getattr(bench, part)()
        finally:
            for server in servers:
                server.stop()
    report.save(args.json)


if __name__ == "__main__":
    main()
