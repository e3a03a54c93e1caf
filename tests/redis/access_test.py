#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The users that docs/redis.md gives to daemons can do what daemons need, for every algorithm, and
nothing else.

    access_test.py WEIR MODULE [--long | NAME...]"""

import pathlib
import re
import sys

from load import ALGORITHMS, Load, exhaust, takes, what_is_admitted
from resp import Refused
from servers import Cluster, Daemon, Redis, Watched, expect, run

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/redis.md"
PATIENT = {"deadline": "20s", "on_error": "closed"}


def rules(what):
    """Of the line `user weir ...` after the comment `# WHAT`."""
    found = re.search(rf"^    # {re.escape(what)}[^\n]*\n    user weir-?\w* (.*)$", PAGE.read_text(), re.M)
    expect(found, f"the page has no user for {what}")
    return found[1].replace(">SECRET", ">secret").split()


def can_do(box, servers, redis, by):
    """A daemon as that user decides by every algorithm, as one decides that has its own memory."""
    reference = Daemon(box, ALGORITHMS, None, engine=None).start()
    admitted = what_is_admitted(reference, ALGORITHMS)
    daemon = Daemon(box, ALGORITHMS, {**PATIENT, "user": "weir", "password": "secret", **redis}).start()
    with Load([daemon], takes(ALGORITHMS, ["one", "two"]), depth=4) as load:
        exhaust(load, admitted, ["one", "two"])
        load.phase(f"as the user for {by}")
    expect(re.search(rf"redis-up.*{by}", daemon.said()), f"it decides by {by}:\n{daemon.tail()}")
    with_all = daemon.client()
    with_all.call("WEIR.TAKEALL", 2, "log", "{three}a", 2, "gcra", "{three}", 1)
    with_all.call("WEIR.REFUND", "log", "{three}a", 1)
    expect(with_all.call("WEIR.PEEK", "log", "{three}a")[2] == 59, "a refund")
    expect(with_all.call("WEIR.RESET", "log", "{three}a") == "OK", "a reset")
    expect(with_all.call("WEIR.EXPLAIN", "log", "{three}a"), "an explanation")
    expect(daemon.metric("weir_redis_by_error_total") == 0, "the server decided all")
    for server in servers:
        cannot_do(server)


def cannot_do(server):
    client = server.client(user="weir", password="secret")
    for words in (["CONFIG", "GET", "*"], ["KEYS", "*"], ["FLUSHALL"], ["GET", "other"],
                  ["SET", "other", 1], ["SHUTDOWN"], ["ACL", "LIST"], ["DEBUG", "SLEEP", 0],
                  ["WEIR.ASK", "TAKE", "gcra 1/s burst 1", "other", 1], ["SCRIPT", "FLUSH"],
                  ["FUNCTION", "FLUSH"], ["EVAL", "return redis.call('FLUSHALL')", 0],
                  ["EVAL", "return redis.call('SET', 'other', 1)", 0]):
        try:
            answer = client.call(*words)
        except Refused as refused:
            expect(str(refused).startswith(("NOPERM", "ERR unknown command", "ERR The user executing",
                                            "ERR ACL")), f"{words}: {refused}")
            continue
        expect(False, f"{words} was allowed: {answer}")


def with_user(server, what):
    server.call("ACL", "SETUSER", "weir", *rules(what))


def module(box):
    redis = Redis(box, module=True).start()
    with_user(redis, "the module")
    can_do(box, [redis], {"url": redis.url()}, "module")


def functions(box):
    redis = Redis(box).start()
    with_user(redis, "functions")
    can_do(box, [redis], {"url": redis.url()}, "functions")


def script(box):
    redis = Redis(box).start()
    with_user(redis, "a script")
    can_do(box, [redis], {"url": redis.url(), "by": "script"}, "script")


def cluster(box):
    nodes = Cluster(box, replicas=0, module=True)
    for node in nodes.nodes:
        with_user(node, "the module, in a Cluster")
    can_do(box, nodes.nodes, nodes.urls(), "module")


def sentinel(box):
    watched = Watched(box, module=True)
    with_user(watched.master, "the module")
    for one in watched.sentinels:
        one.call("ACL", "SETUSER", "weir", *rules("the Sentinels"))
    sentinels = {"sentinel": "{name: mymaster, user: weir, password: secret}"}
    can_do(box, [watched.master], {**watched.urls(), **sentinels}, "module")


if __name__ == "__main__":
    sys.exit(run([module, functions], sys.argv, [script, cluster, sentinel]))
