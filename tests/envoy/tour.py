# SPDX-License-Identifier: BSD-2-Clause
"""Runs the tour examples/envoy/run.sh with a real Envoy, and its errors."""

import os
import re
import socket
import subprocess
import time

from kit.process import HOST, equal, expect, free_port
from kit.process import ROOT

SCRIPT = "examples/envoy/run.sh"
PORTS = ("ENVOY_PORT", "BACKEND_PORT", "GRPC_PORT", "HTTP_PORT", "RESP_PORT")
DAY_S = 86400
# The tour prints these lines, in this order, among others.
LINES = (
    "200", "200", "200", "429",
    r"HTTP/1\.1 429 Too Many Requests", "x-envoy-ratelimited: true", "x-ratelimit-limit: 3, .*",
    "x-ratelimit-remaining: 0", "x-ratelimit-reset: [0-9]+",
    r"Hello from the backend\.",
    "200", "200", "429",
    r".* user=alice",
    r"ratelimit\.service\.rate_limit\.shop\.user\.over_limit: 2",
    "200", "200",
)


def environment(box, **more):
    return {**os.environ, "WEIR": str(box.weir), "ENVOY": str(box.parts.envoy()),
            **{name: str(free_port()) for name in PORTS}, **more}


def run(variables):
    return subprocess.run([ROOT / SCRIPT], env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, check=False)


def accepts(port):
    with socket.socket() as s:
        return s.connect_ex((HOST, int(port))) == 0


def the_tour(box):
    """The tour shows what it says, and stops everything that it started."""
    variables = environment(box)
    day = time.time() // DAY_S
    done = run(variables)
    if time.time() // DAY_S != day:  # its limit of a day began anew
        done = run(variables)
    said = f"{done.stdout}\n{done.stderr}"
    equal((done.returncode, done.stderr), (0, ""), said)
    lines = iter(done.stdout.splitlines())
    for wanted in LINES:
        expect(any(re.fullmatch(wanted, line) for line in lines), f"the line {wanted} is missing or late:\n{said}")
    equal([name for name in PORTS if accepts(variables[name])], [], "servers that run after the tour")


def the_tour_names_what_is_missing(box):
    """A port in use, a missing weir, and an unknown argument are errors that say what to do."""
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        done = run(environment(box, HTTP_PORT=str(port)))
    equal((done.returncode, done.stdout, done.stderr),
          (1, "", f"{SCRIPT}: port {port} is in use; choose another: HTTP_PORT={port ^ 1024} {SCRIPT}\n"),
          "a port in use")
    missing = str(box.path / "none")
    done = run(environment(box, WEIR=missing))
    equal((done.returncode, done.stderr),
          (1, f"{SCRIPT}: there is no {missing}; build it with 'make', or set WEIR to the program\n"), "no weir")


TESTS = (the_tour, the_tour_names_what_is_missing)
