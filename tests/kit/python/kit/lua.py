# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Shared by the tests of the Functions library: a redis-server, a client, the two ways to call the
library, and a clock that the test sets."""

import os
import shutil

from kit import redis, resp
from kit.process import ROOT
from kit.resp import Refused  # noqa: F401

REPO = str(ROOT)
LIBRARY = os.path.join(REPO, "modules", "lua", "weir.lua")
CLOCK_KEY = "{test}:now_us"

CLOCK = """local function now_us(of_caller)
  local t = redis.pcall('TIME')
  if not t.err then
    return t[1] * 1000000 + t[2]
  elseif of_caller then
    return of_caller
  end
  return nil, { err = 'NOTIME the server refuses TIME to functions and scripts: ' .. t.err }
end
"""
EXPIRE = """  redis.call('PEXPIREAT', key, expire_ms(until_us))
"""
SET = """  if redis.REDIS_VERSION_NUM then
    redis.call('SET', key, value, 'PXAT', expire_ms(until_us))
  else
    redis.call('SET', key, value)
    expire(key, until_us)
  end
"""


class Client(resp.Client):
    """Returns simple strings as bytes, like all other strings."""

    def read(self):
        answer = super().read()
        return answer.encode() if isinstance(answer, str) else answer

    __call__ = resp.Client.call


class Server(redis.Server):
    """A redis-server whose client() is this Client."""

    connection = Client


def library():
    with open(LIBRARY, encoding="ascii") as f:
        return f.read()


def with_clock(text):
    """The library with a fake clock, which it reads from CLOCK_KEY. Keys do not expire, because the
    server has another clock."""
    for old, new in (
        (CLOCK, f"local function now_us()\n  return tonumber(redis.call('GET', '{CLOCK_KEY}'))\nend\n"),
        (EXPIRE, ""),
        (SET, "  redis.call('SET', key, value)\n"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class Functions:
    """Calls the library by FUNCTION LOAD and FCALL."""

    name = "functions"

    def __init__(self, client, text):
        client("FUNCTION", "LOAD", "REPLACE", text)

    def call(self, function, keys, *args):
        return ("FCALL", function, len(keys), *keys, *args)


class Script:
    """Calls the library as a script, without its first line, by EVALSHA."""

    name = "script"

    def __init__(self, client, text):
        self.sha = client("SCRIPT", "LOAD", text.split("\n", 1)[1])

    def call(self, function, keys, *args):
        return ("EVALSHA", self.sha, len(keys), *keys, function, *args)


class Tally:
    """Counts the checks, and prints the counts that tools/tally reads."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, good, *what):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print("FAILED:", *what)
        return good

    def equal(self, got, want, *what):
        return self.check(got == want, *what, f"\n    want {want}\n    got  {got}")

    def end(self, good, tests):
        print(f"{self.passed + self.failed} cases, {self.failed} failed")
        print(f"{good} passed, {tests - good} failed, 0 skipped")
        return 1 if self.failed or not self.passed else 0


def run(*tests):
    """Runs the tests with a tally. Returns 77 (skipped) without a redis-server."""
    if not shutil.which("redis-server"):
        print("0 passed, 0 failed, 1 skipped")
        return 77
    tally, good = Tally(), 0
    for test in tests:
        passed, failed = tally.passed, tally.failed
        test(tally)
        tally.check(tally.passed + tally.failed > passed + failed, test.__doc__, "has checked nothing")
        good += tally.failed == failed
        print(f"{'ok' if tally.failed == failed else 'not ok'}  {test.__doc__.splitlines()[0]}", flush=True)
    return tally.end(good, len(tests))
