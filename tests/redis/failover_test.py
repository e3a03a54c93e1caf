#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A Redis that is up and does not decide: a daemon leaves it, looks its name up again, and is not ready
until a server decides.

    failover_test.py WEIR MODULE [--long | NAME...]"""

import contextlib
import json
import re
import socket
import sys
from http.client import HTTPConnection

from faults_test import Proxy
from kit.process import HOST, PATIENCE_S, expect, run, until
from kit.redis import Cluster, Redis
from kit.weir import Daemon

CLOSED = {"p": "{limit: fixed-window 5/w from-first, on_error: closed}"}


def ready(daemon):
    """The status of /readyz, and its reasons."""
    with contextlib.closing(HTTPConnection(HOST, daemon.http, timeout=PATIENCE_S)) as http:
        http.request("GET", "/readyz")
        answer = http.getresponse()
        return answer.status, " ".join(json.loads(answer.read())["reasons"])


def decides(daemon, attempt=[0]):
    attempt[0] += 1
    return daemon.call("WEIR.TAKE", "p", f"probe{attempt[0]}")[0] == 1


def start(box, url, by="any", engine="redis", **more):
    daemon = Daemon(box, CLOSED, {"url": url, "by": by, "deadline": "5s", **more}, engine=engine).start()
    until(lambda: decides(daemon), "the server decides")
    until(lambda: ready(daemon) == (200, ""), "the daemon is ready")
    return daemon


# ---- one name, two servers -----------------------------------------------------------------------


def fail_over(box, by, engine="redis", refuses=False):
    """The name of a master leads to its replica, which takes over. Open connections stay open, and the
    old master becomes a replica."""
    servers = [Redis(box, module=by == "module").start() for _ in range(2)]
    servers[1].follow(servers[0])
    proxy = Proxy(servers[0].port)
    daemon = start(box, f"redis://{HOST}:{proxy.port}", by, engine)
    expect(daemon.call("WEIR.TAKE", "p", "k", "COST", 2)[2] == 3, "charged to the first master")
    offset = int(servers[0].info("replication")["master_repl_offset"])
    until(lambda: int(servers[1].info("replication")["slave_repl_offset"]) >= offset, "the replica has it")
    attempts = daemon.metric("weir_redis_connection_attempts_total")
    servers[1].call("REPLICAOF", "NO", "ONE")
    if refuses:
        with socket.create_server((HOST, 0)) as unused:
            proxy.to = unused.getsockname()[1]  # refuses connections from now on
    else:
        proxy.to = servers[1].port
    servers[0].follow(servers[1])
    if refuses:
        until(lambda: not decides(daemon), "no server decides")
        until(lambda: ready(daemon)[0] == 503, "the daemon is not ready")
        proxy.to = servers[1].port
    until(lambda: decides(daemon), "the new master decides")
    until(lambda: ready(daemon) == (200, ""), "the daemon is ready")
    expect(daemon.call("WEIR.TAKE", "p", "k", "COST", 2)[2] == 1, "the new master has the state")
    expect(daemon.metric("weir_redis_connection_attempts_total") > attempts, "a new connection")
    proxy.close()


def name_module(box):
    fail_over(box, "module")


def name_functions(box):
    fail_over(box, "functions")


def name_script(box):
    fail_over(box, "script")


def name_hybrid(box):
    fail_over(box, "module", "hybrid")


def name_refuses(box):
    """The new target refuses connections at first."""
    fail_over(box, "functions", refuses=True)


def cluster_down(box):
    """The nodes of a Cluster are replaced by those of another, behind one name."""
    clusters = [Cluster(box, replicas=0) for _ in range(2)]
    proxy = Proxy(clusters[0].nodes[0].port)
    daemon = start(box, f"redis://{HOST}:{proxy.port}")
    proxy.to = clusters[1].nodes[0].port
    for node in clusters[0].nodes[1:]:
        node.kill()
    until(lambda: clusters[0].nodes[0].call("CLUSTER", "INFO").find(b"cluster_state:fail") >= 0, "the Cluster is down")
    until(lambda: all(decides(daemon) for _ in range(20)), "the other Cluster decides")
    proxy.close()


# ---- refusals ------------------------------------------------------------------------------------


def refuse(box, by, change, restore, words, module=False, **options):
    """A server that refuses each decision, at first and later."""
    redis = Redis(box, module=module, **options).start()
    redis.call("ACL", "SETUSER", "weir", "on", ">secret", "~*", "+@all")
    login = {"user": "weir", "password": "secret"}
    change(redis)
    daemon = Daemon(box, CLOSED, {"url": redis.url(), "by": by, **login}).start()
    for _ in range(2):
        until(lambda: not decides(daemon) and ready(daemon)[0] == 503, "the daemon is not ready")
        until(lambda: re.search(words, ready(daemon)[1]), f"/readyz says {words}: {ready(daemon)}")
        expect(re.search(f"redis-down.*{words}", daemon.log_text()), f"the log says it:\n{daemon.tail()}")
        restore(redis)
        until(lambda: decides(daemon), "the server decides")
        until(lambda: ready(daemon) == (200, ""), "the daemon is ready")
        change(redis)
        until(lambda: not decides(daemon), "the server refuses")
    loads = daemon.log_text().count("redis-library")
    expect(loads <= 1, f"the library was loaded {loads} times")


def acl(*rules):
    return lambda redis: redis.call("ACL", "SETUSER", "weir", *rules)


def config(key, value):
    return lambda redis: redis.call("CONFIG", "SET", key, value)


def forbidden_module(box):
    refuse(box, "any", acl("-weir.ask"), acl("+weir.ask"), "NOPERM.*weir.ask", module=True)


FORBIDDEN = "(can't run this command|no permissions to run)"  # Redis 7.0, and later ones


def forbidden_in_functions(box):
    refuse(box, "functions", acl("-set"), acl("+set"), FORBIDDEN)


def forbidden_in_script(box):
    refuse(box, "script", acl("-set"), acl("+set"), FORBIDDEN)


def full(box):
    refuse(box, "script", config("maxmemory", 1), config("maxmemory", 0), "OOM command not allowed")


def too_few_replicas(box):
    refuse(box, "functions", config("min-replicas-to-write", 1), config("min-replicas-to-write", 0),
           "NOREPLICAS")


def no_time(box):
    """A user without TIME: the daemon's clock decides, and the log says so once."""
    redis = Redis(box).start()
    redis.call("ACL", "SETUSER", "weir", "on", ">secret", "~weir:*", "+@all", "-time")
    for by in ("functions", "script"):
        daemon = start(box, redis.url(), by, user="weir", password="secret")
        taken = [daemon.call("WEIR.TAKE", "p", by)[0] for _ in range(7)]
        expect(taken == [1] * 5 + [0] * 2, f"the limit is kept: {taken}")
        expect(daemon.call("WEIR.TAKEALL", 2, "p", "{a}b", 1, "p", "{a}c", 1)[0] == 1, "several keys")
        redis.call("CLIENT", "KILL", "USER", "weir")
        until(lambda d=daemon: decides(d), "the server decides again")
        lines = [line for line in daemon.log_text().splitlines() if "redis-clock" in line]
        expect(len(lines) == 1 and "TIME" in lines[0] and "warning" in lines[0], daemon.tail())
        expect(daemon.log_text().count("redis-library") <= 1, "the library was loaded once")
        redis.call("ACL", "SETUSER", "weir", "+time")
        redis.call("CLIENT", "KILL", "USER", "weir")
        until(lambda d=daemon: decides(d), "the server decides with its own clock")
        redis.call("ACL", "SETUSER", "weir", "-time")


if __name__ == "__main__":
    sys.exit(run([name_module, name_functions, name_script, name_hybrid, name_refuses, cluster_down,
                  forbidden_module, forbidden_in_functions, forbidden_in_script, full, too_few_replicas,
                  no_time], sys.argv))
