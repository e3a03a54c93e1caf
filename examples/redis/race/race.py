#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Several processes spend one user's quota in Redis at the same time.

    race.py [--processes N] [--requests N] racy|lock|incr LIMIT PORT
    race.py [--processes N] [--requests N] weir LIMIT PORT [PORT]...

racy reads a count in one command and writes it in another, as many articles begin. For the first request of
each process, all processes read before one of them writes; after that, each runs at full speed.

lock does the same at full speed, but holds a lock from before it reads until it has written. incr increments
the count and reads it in one command, so it also counts denied requests.

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


def take_racy(redis, limit, has_read=lambda: None):
    count = int(redis.call("GET", "racy") or 0)
    has_read()
    if count >= limit:
        return False
    redis.call("SET", "racy", count + 1)
    return True


def take_locked(redis, limit):
    while redis.call("SET", "lock", 1, "NX", "PX", 30000) is None:
        pass
    allowed = take_racy(redis, limit)
    redis.call("DEL", "lock")
    return allowed


def take_incr(redis, limit):
    return redis.call("INCR", "incr") <= limit


def take_weir(redis, limit):
    return redis.call("WEIR.CHECK", f"fixed-window {limit}/365d", "user")[0] == 1


TAKE = {"racy": take_racy, "lock": take_locked, "incr": take_incr, "weir": take_weir}


def run(options, port, barrier, results):
    redis = Redis(port)
    barrier.wait()
    allowed, requests = 0, options.requests
    if options.how == "racy" and requests > 0:
        allowed, requests = int(take_racy(redis, options.limit, barrier.wait)), requests - 1
    results.put(allowed + sum(TAKE[options.how](redis, options.limit) for _ in range(requests)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("how", choices=TAKE)
    parser.add_argument("limit", type=int)
    parser.add_argument("ports", type=int, nargs="+")
    options = parser.parse_args()
    if options.how != "weir":
        Redis(options.ports[0]).call("DEL", "racy", "incr", "lock")
    barrier = multiprocessing.Barrier(options.processes)
    results = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=run, args=(options, options.ports[i % len(options.ports)], barrier,
                                                         results))
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
