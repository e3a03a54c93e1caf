#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Benchmarks the files of docs/haproxy.md: HAProxy that asks weir over SPOE or with the Lua action,
beside HAProxy with a stick table and without a limit. wrk sends requests over 50 connections; HAProxy
forwards them to another HAProxy, which answers all by itself. No limit is ever reached, and all requests
have the same key, the address of the client.

The timeouts for weir are longer than on the page, because every request must be decided, even on a busy
machine. The figures are requests a second, the CPU time a request of HAProxy and weir together, and the CPU time
a request of weir alone, as the kernel accounts it; and the requests that a second of CPU time is enough for, which
depends less than the rest on what else the machine does. They and their ratios are medians of short rounds in
which the systems alternate. HAProxy, with one thread, and weir share one processor; wrk and the
application are on another.

After each round, weir must have counted as many requests as HAProxy answered.

    bench/haproxy.py WEIR [--json FILE] [--rounds N] [--seconds S]
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request

import daemon
from envoy import pinned, processors

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONNECTIONS = 50
POLICY = "gcra 100000000/s burst 100000000"
APP = """
defaults
    mode http
    timeout client 30s
    timeout server 30s
    timeout connect 5s
frontend app
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string "app"
"""


def files_of_page():
    text = (ROOT / "docs/haproxy.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^```\w+\n# /etc/\w+/([^\n]+)\n(.*?)^```$", text, re.M | re.S))


def without_table(text):
    return re.sub(r"^    (stick-table|http-request) .*\n", "", text, flags=re.M)


class Start:
    """Writes the files into a directory and starts the servers."""

    def __init__(self, tmp, cpus):
        self.tmp, (self.cpu, self.app_cpu) = tmp, cpus
        self.files, self.spoe, self.http, self.app = files_of_page(), *(daemon.free_port() for _ in range(3))

    def write(self, name, text):
        path = os.path.join(self.tmp, name)
        for old, new in (("127.0.0.1:9001", f"127.0.0.1:{self.spoe}"), ("127.0.0.1:8080", f"127.0.0.1:{self.http}"),
                         ("127.0.0.1:8000", f"127.0.0.1:{self.app}"), ("gcra 10/s burst 20", POLICY),
                         ("gt 100", "gt 1000000000"), ("processing 50ms", "processing 30s"),
                         ("WEIR_TIMEOUT_MS 50", "WEIR_TIMEOUT_MS 30000"),
                         ("/etc/haproxy/weir.cfg", os.path.join(self.tmp, "weir.cfg")),
                         ("/usr/local/share/weir/haproxy/weir.lua", str(ROOT / "modules/haproxy/weir.lua")),
                         ("maxconn 10000", "maxconn 2000\n    nbthread 1")):
            text = text.replace(old, new)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def weir(self, program):
        path = self.write("weir.yaml", self.files["weir.yaml"].replace(
            "listen:\n", f"threads: 1\nlisten:\n  http: 127.0.0.1:{self.http}\n"))
        return daemon.Server("weir", pinned(self.cpu, [program, "serve", path]), self.spoe, self.http)

    def application(self):
        path = self.write("app.cfg", APP.format(port=self.app))
        return daemon.Server("app", pinned(self.app_cpu, ["haproxy", "-db", "-f", path]), self.app)

    def haproxy(self, name, text):
        port = daemon.free_port()
        if "nbthread" not in text and not text.startswith("global"):
            text = "global\n    maxconn 10000\n\n" + text
        path = self.write(f"{name}.cfg", text.replace("bind :80", f"bind 127.0.0.1:{port}"))
        return daemon.Server(name, pinned(self.cpu, ["haproxy", "-db", "-f", path]), port)


def decided(weir):
    with urllib.request.urlopen(f"http://127.0.0.1:{weir.http}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return int(re.search(r'weir_decisions_total{policy="api",verdict="allowed"} (\d+)', text)[1])


def load(server, weir, asks, cpu, seconds):
    """One round. Returns requests a second and CPU times a request."""
    before, counted = (server.cpu_ns(), weir.cpu_ns()), decided(weir)
    out = subprocess.run(pinned(cpu, ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s",
                                      f"http://127.0.0.1:{server.port}/"]),
                         capture_output=True, text=True, timeout=120, check=True).stdout
    own, agent = server.cpu_ns() - before[0], weir.cpu_ns() - before[1]
    requests = int(re.search(r"(\d+) requests in", out)[1])
    if "Non-2xx" in out or "Socket errors" in out:
        sys.exit(f"bench: {server.name}: not all requests were answered with 200:\n{out}")
    found, most = decided(weir) - counted, (requests + CONNECTIONS if asks else 0)
    if not (requests if asks else 0) <= found <= most:
        sys.exit(f"bench: {server.name}: {requests} requests, but weir decided {found}")
    return {"rps": float(re.search(r"Requests/sec: +([\d.]+)", out)[1]), "own": own / requests,
            "agent": agent / requests, "cpu": (own + (agent if asks else 0)) / requests}


def measure(systems, weir, cpu, args):
    """Runs each system once a round, after one round that only warms up."""
    samples = {server.name: [] for server, _ in systems}
    for i in range(args.rounds + 1):
        for server, asks in systems if i % 2 == 0 else reversed(systems):
            sample = load(server, weir, asks, cpu, args.seconds)
            if i > 0:
                samples[server.name].append(sample)
    return samples


def median(samples, name, kind):
    return statistics.median(sample[kind] for sample in samples[name])


def compare(report, prefix, samples, ours, theirs):
    for kind in ("rps", "cpu"):
        ratio = statistics.median(a[kind] / b[kind] for a, b in zip(samples[ours], samples[theirs]))
        report.add(f"{prefix}.{kind}_vs_{theirs}", kind, median(samples, ours, kind), median(samples, theirs, kind),
                   ratio)
        if kind == "cpu":
            report.add(f"{prefix}.capacity_vs_{theirs}", "capacity", *(1e9 / median(samples, name, kind)
                                                                       for name in (ours, theirs)), 1 / ratio)


def report_all(report, samples):
    compare(report, "haproxy", samples, "spoe", "stick_table")
    compare(report, "haproxy", samples, "spoe", "no_limit")
    compare(report, "haproxy.lua", samples, "lua", "stick_table")
    compare(report, "haproxy.stick_table", samples, "stick_table", "no_limit")
    for prefix, name in (("haproxy", "spoe"), ("haproxy.lua", "lua")):
        report.add(f"{prefix}.agent_cpu_us", "agent", median(samples, name, "agent") / 1000,
                   median(samples, name, "own") / 1000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=2)
    args = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    report, servers = daemon.Report(), []
    cpus = processors()
    print(f"HAProxy with weir, {CONNECTIONS} connections; the baseline of agent_cpu_us is HAProxy's own CPU time\n\n"
          f"{'':<30} {'weir':>12} {'baseline':>12} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as tmp:
        try:
            start = Start(tmp, cpus)
            servers.append(start.weir(args.weir))
            servers.append(start.application())
            start.write("weir.cfg", start.files["weir.cfg"])
            table = start.files["stick-table.cfg"]
            systems = []
            for name, text, asks in (("no_limit", without_table(table), False), ("stick_table", table, False),
                                     ("spoe", start.files["haproxy.cfg"], True), ("lua", start.files["lua.cfg"], True)):
                systems.append((start.haproxy(name, text), asks))
                servers.append(systems[-1][0])
            report_all(report, measure(systems, servers[0], cpus[1], args))
        finally:
            for server in servers:
                server.stop()
    report.save(args.json)


if __name__ == "__main__":
    main()
