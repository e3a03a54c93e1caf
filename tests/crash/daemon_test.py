#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Kills a daemon with a state file at any moment, again and again, while clients charge keys over
RESP. What the clients were answered is never forgotten, nothing is charged that nobody asked for,
and each start goes on from the one before.

    daemon_test.py WEIR [KILLS [SEED]]

The daemon is killed once some number of answers has been read, with many requests on their way."""

import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

# From-first windows begin with the first request and are longer than the test: charges are what
# the limit is more than what is left.
POLICIES = {
    "count": ("fixed-window 1000000/w from-first", 1000000),
    "log": ("sliding-log 100000/w", 100000),
    "short": ("sliding-log 5/w", 5),
}
KEYS, CONNECTIONS, BATCH, PATIENCE_S = 12, 4, 25, 30
CONFIG = """listen: {{resp: 127.0.0.1:0, http: off}}
threads: 2
memory: {{size: 8m, file: {file}}}
policies:
{policies}"""


class Failed(Exception):
    pass


class Daemon:
    def __init__(self, weir, config):
        self.process = subprocess.Popen([weir, "serve", config], stderr=subprocess.PIPE, text=True)
        self.port = None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            started = re.search(r" info started .*\bresp=[^ ]*:(\d+)", line)
            if started:
                self.port = int(started[1])
                return
        raise Failed("the daemon did not start:\n" + "".join(seen))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()


class Client:
    """A connection with many requests on their way."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.asked = []  # what was asked for and not answered yet
        self.rest = b""

    def ask(self, command, policy, key):
        self.asked.append((policy, key))
        return b"WEIR.%s %s %s\r\n" % (command.encode(), policy.encode(), key.encode())

    def read(self):
        """The answers that have come, as (policy, key, figures). None at the end."""
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
                raise Failed(f"an answer begins with {lines[0]!r}")
            figures = [int(line[1:]) for line in lines[1:7]]
            answers.append((*self.asked.pop(0), figures))
            lines = lines[7:]
        self.rest_lines = lines
        return answers

    rest_lines = []


def charge(port, begun, answered, stop_after, rng, kill):
    """Charges until so many answers came, kills, and reads what was still sent."""
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
                if not client.asked:
                    bytes_out = b""
                    for _ in range(BATCH):
                        policy, key = rng.choice(names), f"key{rng.randrange(KEYS)}"
                        begun[policy, key] = begun.get((policy, key), 0) + 1
                        bytes_out += client.ask("TAKE", policy, key)
                    client.socket.sendall(bytes_out)
            if count >= stop_after:
                kill()
                killed = True
        ready = poll.poll(PATIENCE_S * 1000)
        if not ready:
            raise Failed("no answer comes")
        for fd, _ in ready:
            answers = by_fd[fd].read()
            if answers is None:
                if not killed:
                    raise Failed("the daemon closed a connection")
                poll.unregister(fd)
                by_fd.pop(fd).socket.close()
                continue
            for policy, key, figures in answers:
                count += 1
                answered[policy, key] = answered.get((policy, key), 0) + figures[0]
    return count


def verify(port, begun, answered):
    client = Client(port)
    keys = [(policy, f"key{i}") for policy in POLICIES for i in range(KEYS)]
    client.socket.sendall(b"".join(client.ask("PEEK", *pair) for pair in keys))
    seen = 0
    while seen < len(keys):
        answers = client.read()
        if answers is None:
            raise Failed("the daemon closed a connection")
        for policy, key, figures in answers:
            seen += 1
            charged = POLICIES[policy][1] - figures[2]
            least, most = answered.get((policy, key), 0), begun.get((policy, key), 0)
            if not least <= charged <= max(least, most):
                raise Failed(f"{policy}, {key}: {least} were admitted, {most} asked for, {charged} are charged")
            begun[policy, key] = answered[policy, key] = charged
    client.socket.close()


def run(weir, kills, rng, directory):
    config = directory / "weir.yaml"
    policies = "".join(f"  {name}: {text}\n" for name, (text, _) in POLICIES.items())
    config.write_text(CONFIG.format(file=directory / "state", policies=policies))
    begun, answered, total = {}, {}, 0
    for _ in range(kills):
        daemon = Daemon(weir, config)
        try:
            verify(daemon.port, begun, answered)
            total += charge(daemon.port, begun, answered, rng.randrange(3000), rng, daemon.kill)
        finally:
            if daemon.process.returncode is None:
                daemon.kill()
    return total


def has_file(weir):
    found = subprocess.run([weir, "check", "--quiet", "-"], input="memory: {file: /tmp/state}\n",
                           capture_output=True, text=True, check=False)
    return "unknown key" not in found.stderr


def main():
    weir = sys.argv[1]
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 24
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns()
    if not has_file(weir):
        print("this daemon has no state file\n0 passed, 0 failed, 1 skipped")
        return False
    print(f"{kills} kills, seed {seed}")
    with tempfile.TemporaryDirectory() as directory:
        try:
            total = run(weir, kills, random.Random(seed), pathlib.Path(directory))
        except Failed as failed:
            print(f"{failed}\n0 passed, 1 failed, 0 skipped")
            return True
    print(f"{total} answers were read\n1 passed, 0 failed, 0 skipped")
    return False


if __name__ == "__main__":
    sys.exit(main())
