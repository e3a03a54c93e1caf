#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Four daemons share a limit, with eight connections each. Together they admit exactly the limit, for
each algorithm, on one key and on many, by the module, by functions and by the script.

    shared_test.py WEIR MODULE [--long | NAME...]"""

import collections
import contextlib
import itertools
import json
import re
import sys
import time
from http.client import HTTPConnection

from kit.load import ALGORITHMS, Load, exhaust, takes, what_is_admitted
from kit.process import HOST, PATIENCE_S, expect, run, say, until
from kit.redis import Cluster, Redis
from kit.resp import Refused
from kit.weir import Daemon

DAEMONS = 4
# The deadline is long, because a reply may take seconds on a busy machine.
PATIENT = {"deadline": "20s", "on_error": "closed"}
LOGGED = {"module": "module", "functions": "functions", "script": "script"}
COMMANDS = ("weir.ask", "weir.askall", "fcall", "evalsha", "eval")


def alone(box):
    return Daemon(box, ALGORITHMS, None, engine=None).start()


def daemons_of(box, redis, policies=ALGORITHMS, count=DAEMONS, **more):
    return [Daemon(box, policies, {**PATIENT, **redis}, **more).start() for _ in range(count)]


def requests_seen(servers):
    return sum(server.calls_of(name) for server in servers for name in COMMANDS)


def share(box, servers, redis, by):
    """All checks: one key of each algorithm, several keys with a cost, the requests that reach Redis for
    denied keys, and a rate."""
    reference = alone(box)
    one, three = (what_is_admitted(reference, ALGORITHMS, cost) for cost in (1, 3))
    reference.end()
    daemons = daemons_of(box, redis, {**ALGORITHMS, "rate": "gcra 500/s burst 20",
                                      "slow": "gcra 20/s burst 5"}, threads=2)

    with Load(daemons, takes(ALGORITHMS, ["one"])) as load:
        exhaust(load, one, ["one"])
        load.phase(f"{by}, one key of each algorithm: {sum(one.values())} admitted")
        # count-denied charges denials, so each denial is a request to Redis.
        load.requests = takes(["gcra"], ["one"])
        # The deny cache of a thread holds the key when each of its connections has read a denial.
        load.resume()
        load.wait_for_all()
        load.pause()
        load.phase()
        before, began = requests_seen(servers), time.monotonic()
        load.resume()
        load.wait(1000)
        load.pause()
        denied, seen = load.phase().replies(), requests_seen(servers) - before
        say(f"{by}, a key that is denied for an hour: {denied} requests, {seen} seen by Redis")
        # A denial is held for a second. Then each connection sends at most one request until the next denial is there.
        most = (1 + int(time.monotonic() - began)) * len(load.connections)
        expect(seen <= most, f"Redis got {seen} requests for a denied key, expected at most {most}")

    for daemon in daemons:
        expect(re.search(rf"redis-up.*{LOGGED[by]}", daemon.log_text()),
               f"expected redis-up with {by} in the log:\n{daemon.tail()}")

    keys = [f"{{{i}}}key" for i in range(6)]
    with Load(daemons, takes(ALGORITHMS, keys, cost=3), cost=3, depth=4) as load:
        exhaust(load, three, keys)
        load.phase(f"{by}, {len(keys)} keys of each, cost 3: {len(keys) * sum(three.values())} admitted")

    if by == "module":
        seen_of_hot(servers, daemons)
    began = time.monotonic_ns()
    with Load(daemons, takes(["rate"], ["hot"])) as load:
        load.wait(1500)
        load.pause()
        record = load.phase(f"{by}, 500/s burst 20")
    took_s = (time.monotonic_ns() - began) / 1e9
    most = 20 + 500 * took_s + 1
    say(f"{by}, 500/s burst 20 in {took_s:.3f} s: {record.passed} admitted, {most:.0f} at most")
    expect(20 <= record.passed <= most, "the rate is kept")
    expect(not record.errors and not record.lost, "every request gets a reply")

    together(daemons)
    for daemon in daemons:
        expect(daemon.end() == 0, f"{daemon.name} stops with status 0:\n{daemon.tail()}")


def seen_of_hot(servers, daemons):
    """Many clients want a denied key: how many requests reach Redis."""
    before, began = requests_seen(servers), time.monotonic_ns()
    with Load(daemons, takes(["slow"], ["hot"])) as load:
        until(lambda: load.check() and load.record.passed >= 15, "15 are admitted")
        load.pause()
        record = load.phase()
    took_s = (time.monotonic_ns() - began) / 1e9
    seen = requests_seen(servers) - before
    # A denial lasts at most 50 ms. When it ends, each connection sends one request at a time until the
    # next denial has come back: about one percent of all. Without the deny cache Redis would see each one.
    most = max(record.replies() // 10, (2 + int(20 * took_s)) * 2 * len(load.connections))
    say(f"20/s burst 5, {record.replies()} requests in {took_s:.2f} s: {record.passed} "
        f"admitted, Redis saw {seen} requests")
    expect(seen <= most, f"Redis got {seen} requests, expected at most {most}")
    expect(record.passed <= 5 + 20 * took_s + 1, "the rate is kept")


def together(daemons):
    """Several keys of one slot are charged together, by every daemon."""
    clients = [daemon.client() for daemon in daemons]
    allowed = 0
    for client, _ in zip(itertools.cycle(clients), range(50)):
        client.send("WEIR.TAKEALL", 2, "first", "{acme}alice", 1, "gcra", "{acme}", 2)
    for client, _ in zip(itertools.cycle(clients), range(50)):
        answer = client.read()
        expect(not isinstance(answer, Refused), f"TAKEALL: {answer}")
        allowed += answer[0]
    expect(allowed == 30, f"60 units by 2: {allowed} were admitted")
    left = clients[0].call("WEIR.PEEK", "first", "{acme}alice")
    expect(left[2] == 30, f"a denial charges nothing: {left}")
    for client in clients:
        client.close()


def module(box):
    redis = Redis(box, module=True).start()
    share(box, [redis], {"url": redis.url()}, "module")


def functions(box):
    redis = Redis(box, password="secret").start()
    share(box, [redis], {"url": f"redis://127.0.0.1:{redis.port}", "password": "secret"}, "functions")


def script(box):
    """Emulates a server without functions, by ACL rules."""
    redis = Redis(box, rename_command='FUNCTION ""').start()
    share(box, [redis], {"url": redis.url()}, "script")


def unix_socket(box):
    redis = Redis(box, module=True, unix=True, password="secret").start()
    daemons = daemons_of(box, {"url": f"unix://{redis.unix}", "password": "secret"}, count=2)
    with Load(daemons, takes(["log"], ["a"])) as load:
        exhaust(load, {"log": 60}, ["a"])
        load.phase("a unix socket")


def tls(box):
    redis = Redis(box, module=True, tls=True, password="secret").start()
    files = box.tls()
    daemons = daemons_of(box, {"url": redis.url(), "tls": f"{{ca: {files.ca}}}"}, count=2)
    with Load(daemons, takes(["log"], ["a"])) as load:
        exhaust(load, {"log": 60}, ["a"])
        load.phase("TLS")
    stranger = Daemon(box, ALGORITHMS, {**PATIENT, "deadline": "1s", "url": redis.url()}).start()
    with contextlib.closing(stranger.client()) as client:
        expect(client.call("WEIR.TAKE", "log", "b")[0] == 0, "without the CA, the server's certificate is refused")
    until(lambda: "redis-down" in stranger.log_text(), "the log says so")
    strict = Redis(box, module=True, tls=True, tls_auth_clients="yes").start()
    own = f"{{ca: {files.ca}, cert: {files.client_cert}, key: {files.client_key}}}"
    known, unknown = (Daemon(box, ALGORITHMS, {**PATIENT, "deadline": deadline, "url": strict.url(),
                                               "tls": tls}).start()
                      for tls, deadline in ((own, "20s"), (f"{{ca: {files.ca}}}", "1s")))
    expect(known.call("WEIR.TAKE", "log", "c")[0] == 1, "a daemon with a client certificate is accepted")
    expect(unknown.call("WEIR.TAKE", "log", "c")[0] == 0, "a daemon without one is rejected")


def cluster_module(box):
    nodes = Cluster(box, replicas=0, module=True)
    share(box, nodes.nodes, nodes.urls(), "module")


def cluster_functions(box):
    nodes = Cluster(box, replicas=0)
    share(box, nodes.nodes, nodes.urls(), "functions")


def cluster_script(box):
    nodes = Cluster(box, replicas=0)
    share(box, nodes.nodes, {**nodes.urls(), "by": "script"}, "script")


def hybrid(box):
    """Hybrid daemons admit at most the bound of docs/hybrid.md."""
    redis = Redis(box, module=True).start()
    limit, count = 20000, 100
    policies = {"window": f"fixed-window {limit}/w from-first", "bucket": f"gcra 1/h burst {limit}",
                "log": "sliding-log 2000/w"}
    daemons = [Daemon(box, policies, {**PATIENT, "url": redis.url()}, engine="hybrid",
                      more=f"hybrid: {{interval: 50ms, count: {count}, idle: 200ms}}").start()
               for _ in range(DAEMONS)]
    with Load(daemons, takes(policies, ["hot"]), depth=16) as load:
        # Quota leases are returned and taken by other daemons, until nothing is admitted for some time.
        seen = collections.Counter()

        def is_exhausted():
            load.check()
            is_same = load.record.allowed == seen
            seen.clear()
            seen.update(load.record.allowed)
            return is_same and all(seen[name, "hot"] >= 1000 for name in policies)

        until(is_exhausted, "the keys are exhausted", every_s=1)
        load.pause()
        record = load.phase("hybrid, three hot keys")
    local = sum(daemon.metric("weir_hybrid_local_decisions_total") for daemon in daemons)
    requests = sum(daemon.metric("weir_hybrid_requests_total") for daemon in daemons)
    say(f"{local:.0f} of {requests:.0f} were decided without waiting")
    for name, most in (("window", limit), ("bucket", limit), ("log", 2000)):
        share = min(count, most // 16)
        admitted = record.allowed[name, "hot"]
        say(f"{name}: {admitted} of {most} admitted, {DAEMONS * share} more at most")
        expect(most <= admitted <= most + DAEMONS * share, f"{name}: the bound is kept")
    expect(not record.errors and not record.lost, "every request gets a reply")


def hybrid_ends(box):
    """A daemon that ends charges the units that it owes, and gives back those that it has prepaid."""
    redis = Redis(box, module=True).start()
    policies = {"window": "fixed-window 1600/w from-first", "bucket": "gcra 1/h burst 1600"}
    daemon, other = [Daemon(box, policies, {**PATIENT, "url": redis.url()}, engine=engine, threads=1,
                            more="hybrid: {interval: 30s, idle: 1h}").start() for engine in ("hybrid", "redis")]
    with contextlib.closing(daemon.client()) as client:
        for name, _ in itertools.product(policies, range(40)):
            expect(client.call("WEIR.TAKE", name, "k")[0] == 1, "40 of 1600 are admitted")
    until(lambda: daemon.metric("weir_redis_answers_total") == daemon.metric("weir_redis_commands_total"),
          "no request is in flight")
    with contextlib.closing(other.client()) as client:
        window, bucket = (client.call("WEIR.PEEK", name, "k")[2] for name in policies)
        expect(window > 1560 > bucket, f"units are owed and prepaid: {window}, {bucket}")
        expect(daemon.end() == 0, "the daemon ends")
        remains = [client.call("WEIR.PEEK", name, "k")[2] for name in policies]
        expect(remains == [1560, 1560], f"40 of each are charged: {remains}")


def first_decisions(box):
    """A daemon serves once it is connected, so `on_error` does not decide its first requests."""
    redis = Redis(box, module=True).start()
    daemon = Daemon(box, {"api": "fixed-window 10/w"}, {**PATIENT, "url": redis.url()}, threads=2)
    redis.pause()
    daemon.spawn([box.weir, "serve", daemon.config])
    paused = time.monotonic()
    until(lambda: daemon.started(0) or time.monotonic() > paused + 0.5, "it does not serve")
    expect(not daemon.started(0), "it waits for the server")
    redis.resume()
    line = until(lambda: daemon.started(0), "it serves")
    daemon.port, daemon.http = daemon.port_in(line, "resp"), daemon.port_in(line, "http")
    expect(daemon.call("WEIR.TAKE", "api", "k")[0] == 1, "the server decides")
    expect(daemon.metric("weir_redis_by_error_total") == 0, "on_error does not")


RESET = {"api": "fixed-window 160/w from-first", "other": "fixed-window 160/w from-first"}


def reset_all(box, servers, redis, engine="redis"):
    """All daemons know within a second and a bit that all keys of a policy were reset: also one that starts
    later, and a key whose denial or quota lease a daemon has."""
    daemons = daemons_of(box, redis, RESET, count=2, threads=2, engine=engine)
    first, second = (daemon.client() for daemon in daemons)
    keys = ["a", "{b}c", "d"]
    for name, key in itertools.product(RESET, keys):
        for _ in range(100):
            first.call("WEIR.TAKE", name, key, "COST", 2)
        until(lambda: second.call("WEIR.TAKE", name, key)[0] == 0, "the key is denied")

    def is_full(client, name, key):
        return client.call("WEIR.PEEK", name, key, "COST", 100)[2] >= 150

    def reset(policy):
        expect(first.call("WEIR.RESETALL", policy) == "OK", f"{policy} is reset")

    for round in range(2):
        reset("api")
        expect(all(is_full(first, "api", key) for key in keys), "the same daemon knows at once")
        began = time.monotonic()
        until(lambda: all(is_full(second, "api", key) for key in keys), "the other daemon knows")
        took_s = time.monotonic() - began
        say(f"{engine}: the other daemon knew after {took_s:.2f} s")
        expect(took_s < 10, "within a second, on a machine that is not busy")
        expect(all(second.call("WEIR.PEEK", "other", key)[0] == 0 for key in keys), "others are not reset")
        for key in keys:
            for _ in range(100):
                second.call("WEIR.TAKE", "api", key, "COST", 2)
            until(lambda: first.call("WEIR.TAKE", "api", key)[0] == 0, "the limit holds again")
    late = daemons_of(box, redis, RESET, count=1, engine=engine)[0]
    expect(all(late.call("WEIR.TAKE", "api", key)[0] == 0 for key in keys), "a new daemon has the same states")
    text = RESET["api"]
    first.call("WEIR.CHECK", text, "k", "COST", 160)
    reset(text)
    expect(is_full(first, "other", "a") is False, "a policy is not a text")
    expect(first.call("WEIR.CHECK", text, "k", "COST", 160)[0] == 1, "a text is reset")
    first.close()
    second.close()
    for daemon in [*daemons, late]:
        expect(daemon.end() == 0, f"{daemon.name} stops with status 0:\n{daemon.tail()}")


def reset_one(box):
    """Another daemon learns of a reset and of a refund, although it has the denial in its cache, for a week."""
    redis = Redis(box, module=True).start()
    for engine, by in (("redis", "module"), ("redis", "functions"), ("hybrid", "module")):
        first, second = daemons_of(box, {"url": redis.url(), "by": by}, RESET, count=2, engine=engine)
        one, other = first.client(), second.client()
        key = f"{engine} {by}"
        one.call("WEIR.TAKE", "api", key, "COST", 160)
        for command in (("WEIR.REFUND", "api", key, 1), ("WEIR.RESET", "api", key)):
            for _ in range(10):  # the first ones of the hybrid go to Redis
                expect(other.call("WEIR.TAKE", "api", key)[0] == 0, "the key is denied")
            one.call(*command)
            began = time.monotonic()
            until(lambda: other.call("WEIR.TAKE", "api", key)[0] == 1, "the other daemon allows it")
            took_s = time.monotonic() - began
            say(f"{engine}, {by}: {command[0]} was known after {took_s:.2f} s")
            expect(took_s < 10, "within a second or two, on a machine that is not busy")
        for client, daemon in ((one, first), (other, second)):
            client.close()
            expect(daemon.end() == 0, f"{daemon.name} stops with status 0:\n{daemon.tail()}")


def reset_all_single(box):
    plain, loaded = Redis(box).start(), Redis(box, module=True).start()
    for by, server in (("functions", plain), ("script", plain), ("module", loaded)):
        reset_all(box, [server], {"url": server.url(), "by": by, "prefix": f"'{by}:'"})
    reset_all(box, [loaded], {"url": loaded.url(), "prefix": "'h:'"}, engine="hybrid")


def reset_all_cluster(box):
    nodes = Cluster(box, replicas=0, module=True)
    reset_all(box, nodes.nodes, nodes.urls())


def reset_all_refused(box):
    """A user that may not read the resets: decisions go on, and a reset says what is missing."""
    redis = Redis(box, module=True).start()
    redis.call("ACL", "SETUSER", "weir", "on", ">SECRET", "~weir:*", "+auth", "+client|setname", "+role",
               "+command|info", "+weir.ask")
    daemon = Daemon(box, RESET, {**PATIENT, "url": f"redis://weir:SECRET@127.0.0.1:{redis.port}"}).start()
    expect(daemon.call("WEIR.TAKE", "api", "k")[0] == 1, "requests are decided")
    with contextlib.closing(daemon.client()) as client:
        def answer():
            client.send("WEIR.RESETALL", "api")
            return str(client.read())

        expect("the server refuses HGETALL" in answer(), f"{answer()}")
        redis.call("ACL", "SETUSER", "weir", "+hgetall", "+hset")
        until(lambda: answer() == "OK", "with the right, all is well")


def changed_limits(box):
    """A key keeps what it used when its limit changes, also while some daemons have the old limit."""
    plain, loaded = Redis(box).start(), Redis(box, module=True).start()
    for engine, by, server in (("redis", "module", loaded), ("redis", "functions", plain), ("redis", "script", plain),
                               ("hybrid", "module", loaded), ("hybrid", "functions", plain)):
        redis = {**PATIENT, "url": server.url(), "by": by, "prefix": f"'{engine}{by}:'"}
        old, new = (Daemon(box, {"w": f"fixed-window {n}/w from-first", "b": f"gcra {n}/w burst {n}"}, redis,
                           engine=engine).start() for n in (1000, 2000))
        for name, least in (("w", 0), ("b", 3)):  # a bucket drains a little, and each conversion rounds up
            for daemon, cost, left in ((old, 900, 100), (new, 100, 1000), (old, 0, 0), (new, 300, 700), (new, 0, 700)):
                found = daemon.call("WEIR.TAKE", name, "k", "COST", cost)
                expect(abs(found[2] - left) <= least, f"{engine} {by} {name}: {left} of {found}")
        expect(old.call("WEIR.CHECK", "gcra 1/w burst 5", "k", "COST", 5)[0] == 1, "a text")
        expect(old.call("WEIR.CHECK", "gcra 2/w burst 5", "k", "COST", 5)[0] == 1, "another text is another limit")
        for daemon in (old, new):
            expect(daemon.end() == 0, f"{daemon.name} stops with status 0:\n{daemon.tail()}")


NEVER = {
    "gcra": "gcra 160/h burst 160", "tokens": "token-bucket 160 refill 160/h",
    "steps": "token-bucket 160 refill 16 every 1h", "leaky": "leaky-bucket 160/h capacity 160",
    "layers": "gcra 320/h burst 320 & token-bucket 160 refill 160/h", "window": "fixed-window 160/h",
    "log": "sliding-log 160/h & gcra 320/h burst 320",
}


def never(box):
    """A cost above the limit can never pass: every engine says so over RESP and HTTP, also of a key that is
    denied already."""
    redis = Redis(box, module=True).start()
    for engine, by in (("local", "any"), ("redis", "module"), ("redis", "functions"), ("hybrid", "module"),
                       ("hybrid", "functions")):
        daemon = Daemon(box, NEVER, {**PATIENT, "url": redis.url(), "by": by, "prefix": f"'{engine}{by}:'"},
                        engine=engine).start()
        with contextlib.closing(daemon.client()) as client, \
                contextlib.closing(HTTPConnection(HOST, daemon.http, timeout=PATIENCE_S)) as http:
            for name in NEVER:
                taken = [client.call("WEIR.TAKE", name, "k", "COST", cost) for cost in (128, 80, 16, 161)]
                expect([one[0] for one in taken] == [1, 0, 1, 0], f"{engine} {by} {name}: {taken}")
                expect(taken[1][3] > 0 and taken[3][3] == -1, f"{engine} {by} {name}: {taken}")
                for verb, cost, wanted in (("take", 80, True), ("take", 161, False), ("peek", 161, False)):
                    http.request("GET", f"/v1/{verb}?policy={name}&key=k&cost={cost}")
                    answer = http.getresponse()
                    body = json.loads(answer.read())
                    expect(not body["allowed"] and (body["retry_after_ms"] > 0) == wanted and
                           ("Retry-After" in answer.headers) == (wanted and verb == "take"),
                           f"{engine} {by} {name}: {verb} {cost}: {body} {answer.headers}")
        expect(daemon.end() == 0, "the daemon stops")


TESTS = [module, functions, script, unix_socket, tls, cluster_module, hybrid, hybrid_ends, first_decisions, never,
         reset_one, reset_all_single, reset_all_cluster, reset_all_refused, changed_limits]
LONG = [cluster_functions, cluster_script]

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv, LONG))
