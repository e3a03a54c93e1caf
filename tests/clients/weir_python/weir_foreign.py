# SPDX-License-Identifier: BSD-2-Clause
"""A pytest plugin that runs the tests of `limits` and Flask-Limiter with the storages of weir. WEIR_URI is the storage,
also for tests that name none or memory://. With weir+file://, each storage has a file of its own, whose clock is
Python's, so that tests which move the time with hiro move that of weir too. A daemon reads this time from the file
WEIR_CLOCK; each test begins a number of days later, so that its time never goes back."""

import os
import struct
import sys
import time
import unittest.mock

import pytest
import redis

# Clients of other storages, whose tests are not selected.
for name in ("pymemcache", "pymemcache.client", "pymongo", "valkey"):
    sys.modules[name] = unittest.mock.MagicMock()

from limits._storage_scheme import SCHEMES
import weir.limits
from weir._options import FILE, place_of

URI, CLOCK = os.environ["WEIR_URI"], os.environ.get("WEIR_CLOCK")
DAYS_NS = 10 * 86400 * 1_000_000_000
used = {"files": 0, "tests": 0}


def place_of_test(uri, options):
    """The place of a storage, in a file of the running test."""
    place = place_of(uri, options)
    if place.scheme != FILE:
        return place._replace(options={**place.options, "timeout": 10})
    used["files"] += 1
    return place._replace(path=str(used["directory"] / f"limits-{used['files']}"),
                          options={**place.options, "size": 8 << 20, "clock": lambda: int(time.time() * 1e9)})


weir.limits.place_of = place_of_test
for scheme in ("memory", "redis"):
    SCHEMES[scheme] = lambda _uri, **options: weir.limits.WeirStorage(URI, **options)
redis.from_url = unittest.mock.MagicMock()  # empties the server of tests with Redis


if not URI.startswith(FILE):  # the keys of each test are its own
    weir.limits._Core._key = lambda _core, key: f"{used['directory']}:{key}"


if CLOCK:
    from weir._daemon import Connection

    ask = Connection.ask

    def ask_now(connection, request):
        with open(CLOCK, "r+b") as clock:
            clock.write(struct.pack("=q", int(time.time() * 1e9) + used["tests"] * DAYS_NS))
        return ask(connection, request)

    Connection.ask = ask_now


@pytest.fixture(autouse=True)
def own_state(tmp_path):
    used["directory"] = tmp_path
    used["tests"] += 1


@pytest.fixture(scope="session")
def docker_services():
    return unittest.mock.MagicMock()


def pytest_configure(config):
    config.addinivalue_line("markers", "weir: a test with a storage of weir")
