#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""examples/redis/run.sh prints the expected output, and leaves no processes and files.

    example_test.py WEIR MODULE [--long | NAME...]"""

import contextlib
import os
import pathlib
import random
import socket
import subprocess
import sys

from kit.process import HOST, PATIENCE_S, expect, run

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples/redis/run.sh"
WANTED = """login: fixed-window 5/h from-first
request 1, to daemon 1: allowed, 4 of 5 remaining
request 2, to daemon 0: allowed, 3 of 5 remaining
request 3, to daemon 1: allowed, 2 of 5 remaining
request 4, to daemon 0: allowed, 1 of 5 remaining
request 5, to daemon 1: allowed, 0 of 5 remaining
request 6, to daemon 0: denied, 0 of 5 remaining
request 7, to daemon 1: denied, 0 of 5 remaining
"""


def free_ports(count):
    """The first of `n` consecutive free ports."""
    for _ in range(100):
        first = random.randrange(15000, 32000)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.create_server((HOST, port)))
            return first
    raise OSError("no ports are free")


def start(box, first, **more):
    env = {**os.environ, "WEIR": str(box.weir), "PORT": str(first), "TMPDIR": str(box.path), **more}
    return subprocess.run([SCRIPT], env=env, capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)


def example(box, **more):
    first = free_ports(10)
    done = start(box, first, **more)
    shown = "\n".join(done.stdout.splitlines()[2:]) + "\n"
    expect(done.returncode == 0 and shown == WANTED, f"{done.stdout}\n{done.stderr}")
    expect(not list(box.path.iterdir()), "no files are left")
    for port in range(first, first + 10):
        socket.create_server((HOST, port)).close()


def with_functions(box):
    example(box)


def with_module(box):
    example(box, MODULE=os.path.relpath(box.module, SCRIPT.parents[2]))


def port_in_use(box):
    """If a port is in use, the script fails, and does not use the other process."""
    first = free_ports(10)
    with socket.create_server((HOST, first + 1)):
        done = start(box, first)
    expect(done.returncode == 1 and "Address already in use" in done.stderr, done.stderr)
    expect(not list(box.path.iterdir()), "no files are left")


if __name__ == "__main__":
    sys.exit(run([with_functions, port_in_use], sys.argv, [with_module]))
