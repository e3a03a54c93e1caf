#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests weir as Envoy's rate limit service: beside the reference service, behind a real Envoy, and with
the gRPC libraries of several languages. What cannot be fetched is skipped and counted.

    envoy_test.py WEIR MODULE [NAME...]"""

import sys

import behind_envoy
import checked
import clients
import drop_in
import side_by_side
import tour
from kit import envoy as kit
from kit.process import run

# Those that need the reference service are last: its build takes minutes.
MODULES = (tour, clients, behind_envoy, checked, drop_in, side_by_side)


def main():
    parts = kit.parts_of(sys.argv)
    tests = [kit.prepared(test, parts) for module in MODULES for test in module.TESTS]
    return run(tests, sys.argv)


if __name__ == "__main__":
    sys.exit(main())
