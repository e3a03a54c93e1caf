#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Benchmarks the nginx module beside nginx's own limit_req, in one nginx with two workers. wrk sends
requests for a 43-byte image over 50 connections that are kept open. Each load has a location of its
own: without a limiter, with limit_req, with one policy of weir, with a policy of two layers, and
two that deny. The key is an argument of the request line: one key, or one of a million at random. The
limits are so high that they neither delay nor deny, except in the two that deny.

The figures are requests a second, and the CPU time of the workers a request, as the kernel accounts
it. They and their ratios are medians of short rounds in which the loads alternate. The workers and wrk
share the processors, so only ratios are meaningful.

It also sends a million requests with a million distinct keys to a zone of 24 MiB, and fails if that
evicts a key.

    bench/nginx.py MODULE [--json FILE] [--rounds N] [--threads N]
"""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import urllib.request

import daemon

KEYS = 1_000_000
FILLED = 24 << 20  # the size of the zone that a million keys fill
SECONDS = 1  # the duration of a round
WORKERS = 2

CONF = """
load_module {module};
worker_processes {workers};
daemon off;
pid {tmp}/nginx.pid;
error_log {tmp}/error.log error;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    client_body_temp_path {tmp}/body; proxy_temp_path {tmp}/proxy; fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi; scgi_temp_path {tmp}/scgi;

    limit_req_zone $arg_k zone=most:256m rate=1000000r/s;
    limit_req_zone $arg_k zone=deny:1m rate=1r/m;
    limit_req_log_level info;
    limit_req_status 429;
    weir_zone gcra 64m;
    weir_zone fixed-window 64m;
    weir_zone layers 64m;
    weir_zone filled {filled};

    server {{
        listen 127.0.0.1:{port};
        location = /none         {{ empty_gif; }}
        location = /limit_req    {{ empty_gif; limit_req zone=most burst=1000000 nodelay; }}
        location = /gcra         {{ empty_gif; weir gcra "gcra 100000000/h burst 100000000" key=$arg_k; }}
        location = /fixed-window {{ empty_gif; weir fixed-window "fixed-window 100000000/h" key=$arg_k; }}
        location = /layers {{
            empty_gif;
            weir layers "gcra 100000000/h burst 100000000 & fixed-window 100000000/day" key=$arg_k;
        }}
        location = /deny         {{ empty_gif; weir gcra "gcra 1/w" key=$arg_k log_level=info; }}
        location = /deny_req     {{ empty_gif; limit_req zone=deny; }}
        location = /fill         {{ empty_gif; weir filled "gcra 10/h burst 10" key=$arg_k; }}
        location = /status       {{ weir_status; }}
    }}
}}
"""

# A script for wrk. A request is written as bytes, because wrk.format() would cost wrk more than the
# request costs nginx.
MANY = """
local from = 0
function setup(thread) from = from + 1; thread:set("seed", from) end
function init() math.randomseed(seed + os.time()) end
function request()
    return string.format("GET %s?k=%012d HTTP/1.1\\r\\nHost: bench\\r\\n\\r\\n", wrk.path, math.random(0, 999999))
end
"""
ONE = """
local text
function init() text = "GET " .. wrk.path .. "?k=000000000000 HTTP/1.1\\r\\nHost: bench\\r\\n\\r\\n" end
function request() return text end
"""

POLICIES = ("gcra", "fixed-window", "layers")


class Nginx:
    """An nginx, and the two scripts of wrk."""

    def __init__(self, module, tmp, threads):
        self.tmp, self.threads, self.port = tmp, threads, daemon.free_port()
        config = os.path.join(tmp, "nginx.conf")
        with open(config, "w", encoding="ascii") as f:
            f.write(CONF.format(module=os.path.realpath(module), tmp=tmp, port=self.port, workers=WORKERS,
                                filled=FILLED))
        for name, script in (("many", MANY), ("one", ONE)):
            with open(self.script(name), "w", encoding="ascii") as f:
                f.write(script)
        self.server = daemon.Server("nginx", ["nginx", "-c", config, "-p", tmp, "-e", f"{tmp}/error.log"],
                                    self.port, self.port)

    def script(self, keys):
        return os.path.join(self.tmp, f"{keys}.lua")

    def load(self, path, keys, denied=False):
        """Runs one round. Returns the CPU time in ns a request, and requests a second."""
        before = self.server.cpu_ns()
        out = subprocess.run(["wrk", "-t", str(self.threads), "-c", "50", "-d", f"{SECONDS}s", "-s",
                              self.script(keys), f"http://127.0.0.1:{self.port}/{path}"],
                             capture_output=True, text=True, timeout=60, check=True).stdout
        cpu = self.server.cpu_ns() - before
        requests = int(re.search(r"(\d+) requests in", out)[1])
        rps = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
        bad = int(bad[1]) if bad else 0
        if (bad < requests - 1) if denied else bad:
            sys.exit(f"bench: /{path} denied {bad} of {requests} requests")
        return {"cpu": cpu / requests, "rps": rps}

    def fill(self, path):
        """Sends a request for each key, in pipelines over four connections."""
        at_once, connections = 500, 4
        sockets = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(connections)]
        for first in range(0, KEYS, at_once * connections):
            for i, s in enumerate(sockets):
                begin = first + i * at_once
                s.sendall("".join(f"GET /{path}?k={key:012d} HTTP/1.1\r\nHost: bench\r\n\r\n"
                                  for key in range(begin, begin + at_once)).encode())
            for s in sockets:
                self.read_200s(path, s, at_once)
        for s in sockets:
            s.close()

    @staticmethod
    def read_200s(path, s, n):
        got = b""
        while got.count(b"GIF89a") < n:
            more = s.recv(1 << 20)
            got += more
            if not more or got.count(b"HTTP/1.1 ") != got.count(b"HTTP/1.1 200 "):
                sys.exit(f"bench: /{path} did not allow the first request of a key")

    def zone(self, name):
        """What weir_status reports about a zone."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status") as answer:
            return next(zone for zone in json.load(answer)["zones"] if zone["zone"] == name)


MANY_KEYS = [(path, "many", False) for path in ("none", "limit_req", *POLICIES)]
ONE_KEY = [(path, "one", False) for path in ("none", "limit_req", *POLICIES)]
DENIED = [("deny_req", "one", True), ("deny", "one", True)]


def rounds_of(nginx, loads, rounds):
    """Runs every load once a round. Returns the figures of each round by (path, keys)."""
    samples = {load[:2]: [] for load in loads}
    for i in range(rounds):
        for load in loads if i % 2 == 0 else reversed(loads):
            samples[load[:2]].append(nginx.load(*load))
    return samples


def compare(report, name, kind, ours, theirs):
    """Adds a row with the medians of both. The ratio is the median of the ratios in each round, because
    what else the machine does changes from round to round."""
    ours, theirs = [sample[kind] for sample in ours], [sample[kind] for sample in theirs]
    report.add(name, kind, statistics.median(ours), statistics.median(theirs),
               statistics.median(a / b for a, b in zip(ours, theirs)))


def compare_all(report, prefix, keys, samples):
    for path in (*POLICIES, "limit_req"):
        name = prefix + ("" if path == "gcra" else f".{path}")
        for theirs in ("limit_req", "none"):
            for kind in ("rps", "cpu"):
                if theirs != path:
                    compare(report, f"{name}.{kind}_vs_{theirs}", kind, samples[path, keys],
                            samples[theirs, keys])


def run_all(nginx, report, rounds):
    """The figures with many keys have twice as many rounds, because the performance goals are about them."""
    compare_all(report, "nginx", "many", rounds_of(nginx, MANY_KEYS, 2 * rounds))
    compare_all(report, "nginx.one-key", "one", rounds_of(nginx, ONE_KEY, rounds))
    samples = rounds_of(nginx, DENIED, rounds)
    compare(report, "nginx.deny_cpu_vs_limit_req", "cpu", samples["deny", "one"], samples["deny_req", "one"])


def fill_zone(nginx, report):
    nginx.fill("fill")
    zone = nginx.zone("filled")
    if zone["keys"] != KEYS or zone["evicted"] != 0:
        sys.exit(f"bench: {KEYS} keys in a zone of {FILLED} bytes: {zone}, expected all keys, and none evicted")
    # The goal is at most 32 bytes a key.
    report.add("nginx.bytes_per_key", "bytes", FILLED / zone["keys"], 32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="threads of wrk")
    args = parser.parse_args()
    daemon.UNITS["bytes"] = "bytes/key"
    report = daemon.Report()
    print("weir in nginx, 1 M random keys or one, 50 connections; CPU time of the workers\n\n"
          f"{'':<30} {'weir':>12} {'baseline':>12} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as tmp:
        nginx = Nginx(args.module, tmp, args.threads)
        try:
            fill_zone(nginx, report)
            for path in ("limit_req", *POLICIES):
                nginx.fill(path)
            run_all(nginx, report, args.rounds)
        finally:
            nginx.server.stop()
    report.save(args.json)


if __name__ == "__main__":
    main()
