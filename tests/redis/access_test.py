#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The ACL users in docs/redis.md have the permissions that daemons need for every algorithm, and no
others.

    access_test.py WEIR MODULE [--long | NAME...]"""

import pathlib
import re
import subprocess
import sys

from kit.load import ALGORITHMS, Load, exhaust, takes, what_is_admitted
from kit.process import expect, run, until
from kit.redis import Cluster, Redis, Watched
from kit.resp import Refused
from kit.weir import Daemon

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "redis.md"
PROBES = {b"cluster|slots", b"fcall"}  # a daemon probes a server with these commands, which may be denied
PATIENT = {"deadline": "20s", "on_error": "closed"}


def rules(what):
    """The rules in the line `user weir ...` after the comment `# WHAT` of the page."""
    found = re.search(rf"^    # {re.escape(what)}[^\n]*\n    user weir-?\w* (.*)$", PAGE.read_text(), re.M)
    expect(found, f"the page has no user for {what}")
    return found[1].replace(">SECRET", ">secret").split()


def can_do(box, servers, redis, by):
    """A daemon with that user decides with every algorithm, and gives the same answers as a local daemon."""
    reference = Daemon(box, ALGORITHMS, None, engine=None).start()
    admitted = what_is_admitted(reference, ALGORITHMS)
    daemon = Daemon(box, ALGORITHMS, {**PATIENT, "user": "weir", "password": "secret", **redis}).start()
    with Load([daemon], takes(ALGORITHMS, ["one", "two"]), depth=4) as load:
        exhaust(load, admitted, ["one", "two"])
        load.phase(f"as the user for {by}")
    expect(re.search(rf"redis-up.*{by}", daemon.log_text()), f"the daemon decides by {by}:\n{daemon.tail()}")
    with_all = daemon.client()
    with_all.call("WEIR.TAKEALL", 2, "log", "{three}a", 2, "gcra", "{three}", 1)
    with_all.call("WEIR.REFUND", "log", "{three}a", 1)
    expect(with_all.call("WEIR.PEEK", "log", "{three}a")[2] == 59, "a refund")
    expect(with_all.call("WEIR.RESET", "log", "{three}a") == "OK", "a reset")
    expect(with_all.call("WEIR.EXPLAIN", "log", "{three}a"), "an explanation")
    if by == "module":
        throttled = [with_all.call("CL.THROTTLE", "t", 1, 1, 3600)[0] for _ in range(3)]
        expect(throttled == [0, 0, 1], f"CL.THROTTLE is decided by the server: {throttled}")
    expect(daemon.metric("weir_redis_by_error_total") == 0, "the server decided all")
    for server in servers:
        denied = {dict(zip(entry[::2], entry[1::2]))[b"object"] for entry in server.call("ACL", "LOG")}
        expect(denied <= PROBES, f"the user of the page lacks permissions that a daemon needs: {denied - PROBES}")
        server.call("ACL", "LOG", "RESET")
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


def revoked(box):
    """After a password is revoked, `on_error` decides, and the log has the server's reason."""
    redis = Redis(box).start()
    with_user(redis, "functions")
    daemon = Daemon(box, ALGORITHMS, {**PATIENT, "url": redis.url(), "user": "weir", "password": "secret"}).start()
    client = daemon.client()
    expect(client.call("WEIR.TAKE", "log", "a")[0] == 1, "decided by the server")
    redis.call("ACL", "SETUSER", "weir", "resetpass", ">another")
    redis.call("CLIENT", "KILL", "USER", "weir")
    until(lambda: re.search(r"redis-down.*authentication failed: WRONGPASS", daemon.log_text()), "the log gives the reason")
    expect(client.call("WEIR.TAKE", "log", "a")[0] == 0, "on_error: closed")


def state_before_categories(box):
    """The user in docs/redis-module.md for servers that put the commands of modules into no category."""
    redis = Redis(box, module=True).start()
    rule = re.search(r"Write `(\+@all -@dangerous [^`]*)`", (DOCS / "redis-module.md").read_text())
    expect(rule, "the page has the rule")
    redis.call("ACL", "SETUSER", "app", "on", ">secret", "~*", *rule[1].split())
    client = redis.client(user="app", password="secret")
    expect(client.call("WEIR.TAKE", "gcra 1/s burst 5", "k")[0] == 1, "the user may decide")
    try:
        expect(False, f"WEIR.STATE was allowed: {client.call('WEIR.STATE', 'k', 0, 'x')}")
    except Refused as refused:
        expect(str(refused).startswith("NOPERM"), str(refused))


def asks_the_module(box):
    """The user in docs/redis-module.md for clients of the module."""
    redis = Redis(box, module=True).start()
    rule = re.search(r"ACL SETUSER app (on >SECRET .*)", (DOCS / "redis-module.md").read_text())
    expect(rule, "the page has the user")
    redis.call("ACL", "SETUSER", "app", *rule[1].replace(">SECRET", ">secret").split())
    client = redis.client(user="app", password="secret")
    policy = "gcra 1/s burst 5"
    expect(client.call("WEIR.TAKE", policy, "limits:k", "COST", 5)[0] == 1, "the user may take")
    expect(client.call("WEIR.PEEK", policy, "limits:k")[0] == 0, "the user may peek")
    expect(client.call("WEIR.REFUND", policy, "limits:k", 5)[2] == 5, "the user may refund")
    for words in (["WEIR.TAKE", policy, "other"], ["WEIR.RESET", policy, "limits:k"]):
        try:
            expect(False, f"{words} was allowed: {client.call(*words)}")
        except Refused as refused:
            expect(str(refused).startswith("NOPERM"), str(refused))


def old_keys(box):
    """The command in docs/redis.md deletes the keys of redis-cell, and no others."""
    redis = Redis(box).start()
    line = re.search(r"delete the old keys: `(redis-cli [^`]*)`", PAGE.read_text())
    expect(line, "the page has the line")
    for i in range(250):
        redis.call("SET", f"throttle:user {i}'s", 1)
    redis.call("SET", "other", 1)
    command = line[1].replace("\\|", "|").replace("redis-cli", f"redis-cli -p {redis.port}")
    subprocess.run(["bash", "-c", command], check=True, stdout=subprocess.DEVNULL)
    expect(redis.call("KEYS", "*") == [b"other"], "the keys of redis-cell are deleted")


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
    sys.exit(run([module, functions, revoked, asks_the_module, state_before_categories, old_keys], sys.argv, [script, cluster, sentinel]))
