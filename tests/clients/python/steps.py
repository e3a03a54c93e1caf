# SPDX-License-Identifier: BSD-2-Clause
"""Reads steps and prints replies. clients_test.py describes both formats."""

import sys


def steps():
    for line in sys.stdin:
        yield [command.split("\t") for command in line.rstrip("\n").split("\t|\t")]


def show(reply):
    if isinstance(reply, list) and all(type(one) is int for one in reply):
        print(*reply, flush=True)
    elif isinstance(reply, Exception):
        print(f"error: {reply}", flush=True)
    else:
        print(f"{type(reply).__name__}: {reply!r}", flush=True)
