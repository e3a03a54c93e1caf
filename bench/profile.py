#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Profiles the daemon's CPU time with perf under the loads of bench/daemon.py. Each sample is assigned
to its system call, or to the purpose of its function. Prints the table of
docs/internals/performance.md. Needs perf and the permission to use it.

    bench/profile.py WEIR      make first; 1 minute
"""

import collections
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

import daemon

LOADS = {"p1": 1, "p16": 16, "p64": 64, "http": None}
# Purposes of system calls, by a kernel function that only this call uses.
KERNEL = [
    ("send", r"ksys_write|__sys_sendto|__x64_sys_(write|sendto)"),
    ("receive", r"ksys_read|__sys_recvfrom|__x64_sys_(read|recvfrom)"),
    ("wait for events", r"do_epoll_wait|__x64_sys_epoll_p?wait"),
]
# Purposes of functions, by source file and name; the first match counts.
OURS = [
    ("write the reply", r"/codec/.*:(put_|weir_\w*put_|write_|add|weir_i64|drain|send_)"
                        r"|/codec/(http/message|answer/ratelimit_fields|answer/json)\.c"),
    ("parse the request", r"/codec/|/llhttp"),
    ("find the policy", r"/service/"),
    ("find the key's state", r"/store/"),
    ("decide", r"/core/"),
    ("connections", r"/net/|/port/|/cmd/"),
]
ROWS = [name for name, _ in KERNEL] + ["other kernel work"] + [name for name, _ in reversed(OURS)] + [
    "libuv", "C library and clock"]


def sources(weir):
    """Maps each function to "file:function", by the debugging information."""
    out = subprocess.run(["nm", "--line-numbers", "--defined-only", weir], capture_output=True,
                         text=True, check=True).stdout
    found = {}
    for line in out.splitlines():
        words, _, place = line.partition("\t")
        symbol = words.split()[-1]
        found[symbol] = f"{place.rpartition(':')[0]}:{symbol}"
    return found


def purpose(stack, files):
    """The purpose of a sample. Its innermost function comes first."""
    symbol, where = stack[0]
    if "kernel" in where:
        names = " ".join(name for name, _ in stack)
        return next((row for row, pattern in KERNEL if re.search(pattern, names)), "other kernel work")
    if "libuv" in where:
        return "libuv"
    place = files.get(symbol, "")
    return next((row for row, pattern in OURS if re.search(pattern, place)), "C library and clock")


def samples(data):
    out = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym,dso"], capture_output=True,
                         text=True, check=True).stdout
    for block in out.split("\n\n"):
        stack = re.findall(r"^\s*[0-9a-f]+ (\S+)(?: .*)? \(([^()]*)\)$", block, re.M)
        if stack:
            yield [(name.split("+")[0], where) for name, where in stack]


def profile(weir, load, tmp, files):
    """Returns the share of each row, and the CPU time in ns a request."""
    data = os.path.join(tmp, "perf.data")
    with subprocess.Popen(["perf", "record", "-F", "4000", "-g", "-o", data, "-p",
                           str(weir.process.pid)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as perf:
        ns = [load()["cpu"] for _ in range(4)]
        perf.send_signal(signal.SIGINT)
    counts = collections.Counter(purpose(stack, files) for stack in samples(data))
    total = sum(counts.values()) or sys.exit("profile: perf took no samples")
    return {row: counts[row] / total for row in ROWS}, sorted(ns)[len(ns) // 2]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bench/profile.py WEIR")
    files = sources(sys.argv[1])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as tmp:
        weir = daemon.start_weir(sys.argv[1], tmp, 1)
        try:
            script = os.path.join(tmp, "requests.lua")
            with open(script, "w", encoding="ascii") as f:
                f.write(daemon.HTTP_REQUESTS)
            for _ in range(3):
                daemon.resp_load(weir, 64, daemon.TAKE)
            shares, totals = {}, {}
            for name, pipeline in LOADS.items():
                def load(p=pipeline):
                    return daemon.resp_load(weir, p, daemon.TAKE) if p else daemon.http_load(weir, script)
                shares[name], totals[name] = profile(weir, load, tmp, files)
        finally:
            weir.stop()
    print("| share of the CPU time, in % |", " | ".join(LOADS), "|")
    print("| --- |" + " ---: |" * len(LOADS))
    for row in ROWS:
        print(f"| {row} |", " | ".join(f"{100 * shares[load][row]:.1f}" for load in LOADS), "|")
    print("| ns a request, under perf |", " | ".join(f"{totals[load]:.0f}" for load in LOADS), "|")


if __name__ == "__main__":
    main()
