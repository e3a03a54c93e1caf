#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Kills a daemon with a state file at random moments, again and again, while clients charge keys over
RESP. Each daemon continues with the state of the one before. That state must have every charge that was
answered, and no charge that no client requested.

    daemon_test.py WEIR [KILLS [SEED]]

The daemon is killed once a random number of replies was read, with many requests in flight."""

import contextlib
import pathlib
import random
import select
import socket
import sys
import time

from kit.process import Box, Failed
from kit.weir import Daemon

# Each window begins with the first request and is longer than the test. So the charges are the limit
# minus what remains.
POLICIES = {
    "count": ("fixed-window 1000000/w from-first", 1000000),
    "log": ("sliding-log 100000/w", 100000),
    "short": ("sliding-log 5/w", 5),
}
KEYS, CONNECTIONS, BATCH, PATIENCE_S = 12, 4, 25, 30


class Client:
    """A connection with many requests in flight."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.pending = []  # the requests without a reply
        self.rest = b""

    def request(self, command, policy, key):
        self.pending.append((policy, key))
        return b"WEIR.%s %s %s\r\n" % (command.encode(), policy.encode(), key.encode())

    def read(self):
        """The replies that have arrived, as (policy, key, fields). None once the connection is closed."""
        try:
            got = self.socket.recv(1 << 16)
        except ConnectionResetError:
            got = b""
        if not got:
            return None
        lines = (self.rest + got).split(b"\r\n")
        self.rest = lines.pop()
        lines = self.rest_lines + lines
        answers = []
        while len(lines) >= 7:
            if lines[0] != b"*6":
                raise Failed(f"a reply begins with {lines[0]!r}")
            fields = [int(line[1:]) for line in lines[1:7]]
            answers.append((*self.pending.pop(0), fields))
            lines = lines[7:]
        self.rest_lines = lines
        return answers

    rest_lines = []


def charge(port, begun, answered, stop_after, rng, kill):
    """Charges until so many replies were read, kills the daemon, and reads the replies still in flight."""
    clients = [Client(port) for _ in range(CONNECTIONS)]
    count, killed = 0, False
    names = list(POLICIES)
    poll = select.poll()
    for client in clients:
        poll.register(client.socket, select.POLLIN)
    by_fd = {client.socket.fileno(): client for client in clients}
    while by_fd:
        if not killed:
            for client in by_fd.values():
                if not client.pending:
                    bytes_out = b""
                    for _ in range(BATCH):
                        policy, key = rng.choice(names), f"key{rng.randrange(KEYS)}"
                        begun[policy, key] = begun.get((policy, key), 0) + 1
                        bytes_out += client.request("TAKE", policy, key)
                    client.socket.sendall(bytes_out)
            if count >= stop_after:
                kill()
                killed = True
        ready = poll.poll(PATIENCE_S * 1000)
        if not ready:
            raise Failed("no reply arrives")
        for fd, _ in ready:
            answers = by_fd[fd].read()
            if answers is None:
                if not killed:
                    raise Failed("the daemon closed a connection")
                poll.unregister(fd)
                by_fd.pop(fd).socket.close()
                continue
            for policy, key, fields in answers:
                count += 1
                answered[policy, key] = answered.get((policy, key), 0) + fields[0]
    return count


def verify(port, begun, answered):
    client = Client(port)
    keys = [(policy, f"key{i}") for policy in POLICIES for i in range(KEYS)]
    client.socket.sendall(b"".join(client.request("PEEK", *pair) for pair in keys))
    seen = 0
    while seen < len(keys):
        answers = client.read()
        if answers is None:
            raise Failed("the daemon closed a connection")
        for policy, key, fields in answers:
            seen += 1
            charged = POLICIES[policy][1] - fields[2]
            least, most = answered.get((policy, key), 0), begun.get((policy, key), 0)
            if not least <= charged <= max(least, most):
                raise Failed(f"{policy}, {key}: {least} were admitted, {most} requested, {charged} are charged")
            begun[policy, key] = answered[policy, key] = charged
    client.socket.close()


def run(daemon, kills, rng):
    begun, answered, total = {}, {}, 0
    for _ in range(kills):
        daemon.start()
        verify(daemon.port, begun, answered)
        total += charge(daemon.port, begun, answered, rng.randrange(3000), rng, daemon.kill)
    return total


def main():
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 24
    fresh = time.time_ns() if len(sys.argv) > 2 else 20260101
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else fresh
    print(f"{kills} kills, seed {seed}")
    with contextlib.closing(Box(pathlib.Path(sys.argv[1]).resolve(), None)) as box:
        daemon = Daemon(box, {name: text for name, (text, _) in POLICIES.items()}, engine=None, threads=2,
                        memory=f"{{size: 8m, file: {box.path / 'state'}}}")
        try:
            total = run(daemon, kills, random.Random(seed))
        except Failed as failed:
            print(f"{failed}\n{daemon.tail()}\n0 passed, 1 failed, 0 skipped")
            return True
    print(f"{total} replies were read\n1 passed, 0 failed, 0 skipped")
    return False


if __name__ == "__main__":
    sys.exit(main())
