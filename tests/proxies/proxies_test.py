#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests weir behind real proxies that ask it before they forward a request: Caddy, nginx, Envoy, Traefik
and HAProxy, with the files of examples/proxies. A proxy that cannot be fetched is skipped and counted.

    proxies_test.py WEIR MODULE [NAME...]"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

# pylint: disable=wrong-import-position
import kit  # noqa: E402
import behind  # noqa: E402
import page  # noqa: E402
import programs  # noqa: E402
import proxy_protocol  # noqa: E402
import servers  # noqa: E402

MODULES = (page, proxy_protocol, behind)


def main():
    found = programs.Programs(pathlib.Path(sys.argv[1]).resolve().parent)
    tests = [kit.prepared(test, found) for module in MODULES for test in module.TESTS]
    return servers.run(tests, sys.argv, needs_redis=False)


if __name__ == "__main__":
    sys.exit(main())
