#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The daemon beside redis-server, in one run: redis-benchmark asks both in turn, on loopback, with
50 connections and a million random keys. What is told is the server's processor time for each
request, read from the kernel's own account of its threads, since the client saturates its own core
first; requests a second stand beside it. Every figure is the median of several short rounds that
alternate between the servers, and only ratios mean anything on a machine that is shared.

    bench/daemon.py WEIR [--json FILE] [--rounds N]
"""

import argparse
import glob
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile

# GCRA as it is commonly written for Redis: TAT in microseconds, the clock of the server.
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

KEYS = "1000000"
POLICY = "gcra 100/s burst 20"
REQUESTS = {1: 100_000, 16: 800_000, 64: 1_600_000}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port):
    for _ in range(2000):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
                s.sendall(b"PING\r\n")
                if s.recv(64).startswith(b"+PONG"):
                    return
        except OSError:
            pass
    sys.exit(f"bench: nothing answers on port {port}")


def cpu_ns(pid):
    """Processor time of all threads of a process, in ns."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as f:
            total += int(f.read().split()[0])
    return total


def load(server, pipeline, command):
    """One round: (processor ns a request, requests a second)."""
    requests = REQUESTS[pipeline] // (4 if "EVALSHA" in command and pipeline > 1 else 1)
    before = cpu_ns(server["pid"])
    out = subprocess.run(
        ["redis-benchmark", "-p", str(server["port"]), "-c", "50", "-P", str(pipeline), "-r", KEYS,
         "-n", str(requests), "--csv", *command],
        capture_output=True, text=True, timeout=300, check=True).stdout
    cpu = cpu_ns(server["pid"]) - before
    rps = float(re.findall(r'^"[^"]*","([0-9.]+)"', out, re.M)[-1])
    return cpu / requests, rps


def compare(name, pipeline, ours, theirs, rounds, results):
    """ours and theirs: (server, command). Adds two results and prints a line."""
    samples = {"ours": [], "theirs": []}
    for _ in range(rounds):
        samples["ours"].append(load(ours[0], pipeline, ours[1]))
        samples["theirs"].append(load(theirs[0], pipeline, theirs[1]))
    cpu = {k: statistics.median(s[0] for s in v) for k, v in samples.items()}
    rps = {k: statistics.median(s[1] for s in v) for k, v in samples.items()}
    for kind, unit, value in (("cpu", "ns/request", cpu), ("rps", "requests/s", rps)):
        results.append({"name": f"daemon.p{pipeline}.{kind}_vs_{name}", "value": round(value["ours"], 1),
                        "unit": unit, "baseline": round(value["theirs"], 1),
                        "ratio": round(value["ours"] / value["theirs"], 3)})
    print(f"{pipeline:>8}  {name:<8} {cpu['ours']:>9.0f} {cpu['theirs']:>9.0f} "
          f"{cpu['ours'] / cpu['theirs']:>7.2f}   {rps['ours']:>10.0f} {rps['theirs']:>10.0f} "
          f"{rps['ours'] / rps['theirs']:>7.2f}", flush=True)


def start(command, port):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    return {"pid": process.pid, "port": port, "process": process}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    servers = []
    results = []
    with tempfile.TemporaryDirectory() as tmp:
        try:
            port = free_port()
            config = os.path.join(tmp, "weir.yaml")
            with open(config, "w", encoding="ascii") as f:
                f.write(f'listen: {{resp: "127.0.0.1:{port}"}}\nthreads: 1\n'
                        f'policies: {{api: "{POLICY}"}}\n')
            servers.append(start([args.weir, "serve", config], port))
            port = free_port()
            servers.append(start(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save",
                                  "", "--appendonly", "no", "--dir", tmp], port))
            weir, redis = servers
            sha = subprocess.run(["redis-cli", "-p", str(redis["port"]), "SCRIPT", "LOAD", GCRA],
                                 capture_output=True, text=True, check=True).stdout.strip()
            take = (weir, ["WEIR.TAKE", "api", "key:__rand_int__"])
            theirs = {
                "ping": (redis, ["-t", "ping_mbulk"]),
                "incr": (redis, ["INCR", "key:__rand_int__"]),
                "evalsha": (redis, ["EVALSHA", sha, "1", "gcra:__rand_int__", "10000", "20"]),
            }
            print("WEIR.TAKE, 1 M random keys, beside redis-server; processor time is the server's\n")
            print(f"{'pipeline':>8}  {'against':<8} {'ns/req':>9} {'theirs':>9} {'ratio':>7}   "
                  f"{'req/s':>10} {'theirs':>10} {'ratio':>7}")
            load(take[0], 16, take[1])  # every key is there before anything is measured
            load(*[theirs["incr"][0], 16, theirs["incr"][1]])
            for pipeline in REQUESTS:
                for name, their in theirs.items():
                    compare(name, pipeline, take, their, args.rounds, results)
        finally:
            for server in servers:
                server["process"].terminate()
                server["process"].wait()
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(results, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
