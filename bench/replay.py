#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Benchmarks `weir replay` beside `wc -l` and goaccess, all of which read the same access log from the
page cache: a combined log with a fixed seed, heavy-tailed clients, and lines up to two seconds out of
order. weir decides it with one policy and prints its report.

The figures are lines a second and the CPU time of the whole process, as the kernel accounts it:
medians of rounds in which the programs alternate. Lines a second are those of a CPU second, so that
other work on the machine counts less. The figure of a compressed log has the CPU time of gzip too. goaccess
is much slower, and is compared once, on a tenth of the log.

It also compares the resident memory at a log and at one of ten times as many lines with the same
keys, and measures the memory of a million keys.

    bench/replay.py WEIR [--json FILE] [--lines N] [--rounds N]
"""

import argparse
import bisect
import gzip
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

SEED = 20260101
CLIENTS = 100_000
KEYS = 1_000_000
POLICY = "gcra 100/m burst 20"
BEGIN = 1767225600  # 2026-01-01T00:00:00Z
LINES_A_SECOND = 50  # of log time
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5",
    "curl/8.5.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
)
PATHS = ("/", "/index.html", "/login", "/api/v1/items?page=2", "/api/v1/search?q=rate+limiter&sort=date",
         "/static/app.3f2a91.js", "/static/style.css", "/img/logo.svg", "/favicon.ico", "/feed.xml")


# ---- the logs ------------------------------------------------------------------------------------


def address(n):
    return f"{n % 223 + 1}.{n // 223 % 256}.{n // 57088 % 256}.{n % 254 + 1}"


def zipf(clients):
    """The cumulative weights of clients, the client of rank r having the weight 1/r."""
    return list(itertools.accumulate(1 / rank for rank in range(1, clients + 1)))


def write_log(path, lines, clients=CLIENTS, uniform=False):
    """Writes a log unless the file is there. With `uniform`, the clients take turns."""
    if os.path.exists(path):
        return path
    rng = random.Random(SEED)
    names = [address(i) for i in range(clients)]
    weights = zipf(clients)
    # Requests and times are chosen from tables: formatting each of them would take minutes.
    ends = [f'+0000] "GET {rng.choice(PATHS)} HTTP/1.1" {rng.choice((200, 200, 200, 304, 404))} '
            f'{rng.randrange(100, 90000)} "-" "{rng.choice(AGENTS)}"\n' for _ in range(4096)]
    second_text = {}
    with open(path + ".new", "w", encoding="ascii", buffering=1 << 20) as f:
        for i in range(lines):
            second = BEGIN + i // LINES_A_SECOND - rng.randrange(3)
            text = second_text.get(second)
            if text is None:
                if len(second_text) > 64:
                    second_text.clear()
                text = time.strftime("%d/%b/%Y:%H:%M:%S", time.gmtime(second))
                second_text[second] = text
            at = i % clients if uniform else bisect.bisect(weights, rng.random() * weights[-1])
            f.write(f"{names[min(at, clients - 1)]} - - [{text} {ends[rng.getrandbits(12)]}")
    os.replace(path + ".new", path)
    return path


def compress(path):
    packed = path + ".gz"
    if not os.path.exists(packed):
        with open(path, "rb") as source, gzip.open(packed + ".new", "wb", compresslevel=6) as f:
            shutil.copyfileobj(source, f, 1 << 20)
        os.replace(packed + ".new", packed)
    return packed


# ---- running -------------------------------------------------------------------------------------


def run(*command):
    """Runs a program. Returns its CPU seconds and its peak resident memory in MiB."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as child:
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"bench/replay.py: {command[0]} failed: {errors.decode(errors='replace')[-400:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def replay(weir, path):
    return run(weir, "replay", "--policy", POLICY, "--no-progress", path)


class Rows:
    def __init__(self):
        self.rows = []

    def add(self, name, value, unit, baseline, ratio=None):
        ratio = round(value / baseline, 3) if ratio is None else round(ratio, 3)
        self.rows.append({"name": name, "value": round(value, 3), "unit": unit,
                          "baseline": round(baseline, 3), "ratio": ratio})
        print(f"{name:<26} {value:>14.3f} {baseline:>14.3f} {ratio:>8.3f}  {unit}", flush=True)


def speed(args, rows):
    log = write_log(os.path.join(args.dir, f"replay-{args.lines}.log"), args.lines)
    tenth = write_log(os.path.join(args.dir, f"replay-{args.lines // 10}.log"), args.lines // 10)
    packed = compress(log)
    programs = {
        "weir": lambda: replay(args.weir, log),
        "wc": lambda: run("wc", "-l", log),
        "gz": lambda: replay(args.weir, packed),
        "zcat": lambda: run("zcat", packed),
        "tenth": lambda: replay(args.weir, tenth),
    }
    run("wc", "-l", log)  # reads the log into the page cache
    samples = {name: [] for name in programs}
    for _ in range(args.rounds):
        for name, program in programs.items():
            samples[name].append(program()[0])
    cpu = {name: statistics.median(values) for name, values in samples.items()}
    # The baseline is the target: 2 million lines a second on one processor.
    rows.add("replay.lines_per_s", args.lines / cpu["weir"], "lines/s", 2_000_000)
    rows.add("replay.cpu_vs_wc", cpu["weir"], "CPU s", cpu["wc"])
    goaccess = run("goaccess", tenth, "--log-format=COMBINED", "-o", "json", "--no-progress")[0]
    rows.add("replay.cpu_vs_goaccess", cpu["tenth"], "CPU s", goaccess)
    rows.add("replay.gz.cpu_vs_zcat", cpu["gz"], "CPU s", cpu["zcat"])


def memory(args, rows):
    keys = args.lines // 1000  # each of them has 100 requests in the short log, 1000 in the long one
    short = write_log(os.path.join(args.dir, f"replay-keys-{args.lines // 10}.log"), args.lines // 10, keys, True)
    tenfold = write_log(os.path.join(args.dir, f"replay-keys-{args.lines}.log"), args.lines, keys, True)
    less = replay(args.weir, short)[1]
    rows.add("replay.memory.tenfold", replay(args.weir, tenfold)[1], "MiB", less)
    most = write_log(os.path.join(args.dir, f"replay-{KEYS}-keys.log"), KEYS, KEYS, True)
    rows.add("replay.memory.1M_keys", replay(args.weir, most)[1], "MiB", less)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("--json")
    parser.add_argument("--dir", default="build", help="where the logs are kept")
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    rows = Rows()
    print(f"weir replay, {args.lines} lines of {CLIENTS} clients, from the page cache; CPU time\n\n"
          f"{'':<26} {'weir':>14} {'baseline':>14} {'ratio':>8}")
    speed(args, rows)
    memory(args, rows)
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(rows.rows, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
