#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests weir as Envoy's rate limit service: beside the reference service, behind a real Envoy, and with
the gRPC libraries of several languages. What cannot be fetched is skipped and counted.

    envoy_test.py WEIR MODULE [NAME...]"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

# pylint: disable=wrong-import-position
import kit  # noqa: E402
import behind_envoy  # noqa: E402
import checked  # noqa: E402
import clients  # noqa: E402
import drop_in  # noqa: E402
import servers  # noqa: E402
import side_by_side  # noqa: E402
import tour  # noqa: E402

# Those that need the reference service are last: its build takes minutes.
MODULES = (tour, clients, behind_envoy, checked, drop_in, side_by_side)


def main():
    parts = kit.parts_of(sys.argv)
    tests = [kit.prepared(test, parts) for module in MODULES for test in module.TESTS]
    return servers.run(tests, sys.argv)


if __name__ == "__main__":
    sys.exit(main())
