#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Several processes spend one user's quota in Redis at the same time.

    race.py [--in-step] [--processes N] [--requests N] racy LIMIT PORT
    race.py [--processes N] [--requests N] lock|incr LIMIT PORT
    race.py [--processes N] [--requests N] weir LIMIT PORT [PORT]...

racy reads a count in one command and writes it in another, as many articles begin. With --in-step, the
processes make one request each, and all read before one of them writes.

lock does the same, but holds a lock from before it reads until it has written. incr increments the count and
reads it in one command, so it also counts denied requests.

weir sends WEIR.CHECK with the policy "fixed-window LIMIT/365d" to each port in turn: to a Redis with the
module, or to daemons that share a Redis.
"""
import argparse
import multiprocessing
import socket


class Redis:
    """A connection that sends commands in RESP, and reads integers, strings and arrays of integers."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.replies = self.socket.makefile("rb")

    def call(self, *words):
        command = f"*{len(words)}\r\n" + "".join(f"${len(str(w))}\r\n{w}\r\n" for w in words)
        self.socket.sendall(command.encode())
        return self.read()

    def read(self):
        line = self.replies.readline().decode().rstrip()
        kind, rest = line[:1], line[1:]
        if kind == "-":
            raise RuntimeError(rest)
        if kind == "*":
            return [self.read() for _ in range(int(rest))]
        if kind == "$":
            return None if rest == "-1" else self.replies.read(int(rest) + 2)[:-2].decode()
        return int(rest) if kind == ":" else rest


def take_racy(redis, limit, all_have_read):
    count = int(redis.call("GET", "racy") or 0)
    if all_have_read:
        all_have_read.wait()
    if count >= limit:
        return False
    redis.call("SET", "racy", count + 1)
    return True


def take_locked(redis, limit):
    while redis.call("SET", "lock", 1, "NX", "PX", 30000) is None:
        pass
    allowed = take_racy(redis, limit, None)
    redis.call("DEL", "lock")
    return allowed


def take_incr(redis, limit):
    return redis.call("INCR", "incr") <= limit


def take_weir(redis, limit):
    return redis.call("WEIR.CHECK", f"fixed-window {limit}/365d", "user")[0] == 1


def run(options, port, start, all_have_read, results):
    redis = Redis(port)
    start.wait()
    allowed = 0
    for _ in range(options.requests):
        if options.how == "racy":
            allowed += take_racy(redis, options.limit, all_have_read)
        else:
            take = {"lock": take_locked, "incr": take_incr, "weir": take_weir}[options.how]
            allowed += take(redis, options.limit)
    results.put(allowed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--in-step", action="store_true")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("how", choices=["racy", "lock", "incr", "weir"])
    parser.add_argument("limit", type=int)
    parser.add_argument("ports", type=int, nargs="+")
    options = parser.parse_args()
    if options.in_step:
        options.requests = 1
    if options.how != "weir":
        Redis(options.ports[0]).call("DEL", "racy", "incr", "lock")
    start = multiprocessing.Barrier(options.processes)
    all_have_read = multiprocessing.Barrier(options.processes) if options.in_step else None
    results = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=run, args=(options, options.ports[i % len(options.ports)], start,
                                                         all_have_read, results))
               for i in range(options.processes)]
    for worker in workers:
        worker.start()
    allowed = sum(results.get() for _ in workers)
    for worker in workers:
        worker.join()
    asked = options.processes * options.requests
    print(f"{options.how}: {asked} requests of {options.processes} processes, limit {options.limit}: "
          f"{allowed} allowed, the limit {'holds' if allowed <= options.limit else 'does not hold'}")


main()
