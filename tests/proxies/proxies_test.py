#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests weir behind real proxies that ask it before they forward a request: Caddy, nginx, Envoy, Traefik
and HAProxy, with the files of examples/proxies. A proxy that cannot be fetched is skipped and counted.

    proxies_test.py WEIR MODULE [NAME...]"""

import pathlib
import sys

import behind
import page
import programs
import proxy_protocol
from kit import proxies as kit
from kit.process import run

MODULES = (page, proxy_protocol, behind)


def main():
    tests = [test for module in MODULES for test in module.TESTS]
    names = sys.argv[3:] or [test.__name__ for test in tests]
    found = programs.Programs(pathlib.Path(sys.argv[1]).resolve().parent, names)
    tests = [kit.prepared(test, found) for test in tests]
    return run(tests, sys.argv, needs_redis=False)


if __name__ == "__main__":
    sys.exit(main())
