#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests the kit that starts the servers of all other tests.

    servers_test.py WEIR MODULE [--long | NAME...]"""

import contextlib
import ssl
import sys

from kit.load import Load, takes
from kit.process import Failed, expect, run, until
from kit.redis import Cluster, Redis, Watched
from kit.resp import Client, Refused
from kit.weir import Daemon


def single(box):
    redis = Redis(box, password="secret", unix=True, appendonly="yes").start()
    with contextlib.closing(Client(redis.unix, password="secret")) as client:
        client.call("SET", "a", 1)
    redis.restart()
    expect(redis.call("GET", "a") == b"1", "the file has it")
    replica = Redis(box, password="secret").start()
    replica.follow(redis)
    expect(replica.call("GET", "a") == b"1", "the replica has it")


def tls(box):
    redis = Redis(box, tls=True).start()
    expect(redis.call("PING") == "PONG", "TLS")


def refused_certificate(box):
    """A certificate that the client refuses fails the test at once, without waiting for PATIENCE_S."""
    box.tls().context = ssl.create_default_context()
    try:
        Redis(box, tls=True).start()
    except Failed as failed:
        expect("refused the certificate" in str(failed), f"{failed}")
    else:
        raise Failed("a server of an unknown authority was accepted")


def full_disk(box):
    redis = Redis(box, appendonly="yes", appendfsync="everysec", fixed_file_size=True).start()
    redis.limit_file_size(1)

    def refuses():
        try:
            redis.call("SET", "a", 1)
        except Refused as refused:
            return "MISCONF" in str(refused)
        return False

    until(refuses, "the server says that its file cannot be written")
    redis.limit_file_size(-1)
    until(lambda: not refuses(), "the server writes again")


def failover(box):
    watched = Watched(box)
    watched.master.kill()
    until(lambda: watched.sentinels[0].master_port() == watched.replica.port, "a failover")


def cluster(box):
    nodes = Cluster(box)
    source, target = list(nodes.masters())[:2]
    nodes.reshard(source, target, 10)
    master = nodes.master_of("key")
    replica = nodes.replica_of(master)
    master.kill()
    until(replica.is_master, "the replica takes over")


def daemon(box):
    one = Daemon(box, {"p": "fixed-window 100/w from-first"}, None, engine=None).start()
    with Load([one], takes(["p"], ["a", "b"])) as load:
        load.wait(1000)
        load.pause()
        record = load.phase("local")
        expect(record.allowed == {("p", "a"): 100, ("p", "b"): 100}, f"{record.allowed}")
        one.kill()
        one.start()
        load.resume()
        load.wait(1000)
        load.pause()
        expect(load.phase("again").passed == 200, "a new daemon starts with its full quota")
    expect(one.metric("weir_decisions_total") > 0, "metrics")


if __name__ == "__main__":
    sys.exit(run([single, tls, refused_certificate, full_disk, daemon], sys.argv, [failover, cluster]))
