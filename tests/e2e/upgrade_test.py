#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Replaces a daemon under load by another one that uses the same state file (memory.shared): the second starts beside
the first, clients go over to it, and the first is ended by SIGTERM while requests are on their way to it. No answer is
lost, and both together admit exactly what the limit says.

    upgrade_test.py WEIR [OLD_WEIR]

OLD_WEIR is another build; without it both daemons are of the same."""

import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

# Longer than any test, from the first request on: what was admitted is the limit less what is left.
POLICIES = {
    "count": ("fixed-window 30000/w from-first", 30000),
    "log": ("sliding-log 6000/w", 6000),
    "bucket": ("gcra 1/w burst 1900", 1900),
}
CLIENTS, BATCH, PATIENCE_S = 4, 20, 30
CONFIG = """listen: {{resp: 127.0.0.1:0, http: off}}
threads: 2
memory: {{size: 16m, file: {file}, shared: true}}
policies:
{policies}"""


class Failed(Exception):
    pass


def want(what, expected, found):
    if expected != found:
        raise Failed(f"{what}: expected {expected}, found {found}")


class Daemon:
    def __init__(self, weir, config, log):
        with open(log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen([weir, "serve", config], stderr=subprocess.PIPE, text=True)
            for line in self.process.stderr:
                out.write(line)
                started = re.search(r" info started .*\bresp=[^ ]*:(\d+)", line)
                if started:
                    break
        self.lines = pathlib.Path(log).read_text(encoding="utf-8")
        if not started:
            raise Failed("the daemon did not start:\n" + self.lines)
        self.port = int(started[1])

    def stop(self):
        """The exit status. The rest of the log is read, so that the daemon cannot block on it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def kill(self):
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def ask(self, command, policies):
        self.socket.sendall(b"".join(b"%s %s hot\r\n" % (command.encode(), name.encode()) for name in policies))

    def answer(self):
        """allowed and remaining; None if the daemon has closed the connection."""
        try:
            lines = [self.file.readline() for _ in range(7)]
        except ConnectionResetError:
            return None
        if not lines[6].endswith(b"\r\n"):
            return None
        want("the form of an answer", b"*6\r\n", lines[0])
        return int(lines[1][1:]), int(lines[3][1:])

    def close(self):
        self.file.close()
        self.socket.close()


class Client(threading.Thread):
    """Takes in batches, at the port of the moment, until told to stop; goes on when a daemon hangs up."""

    def __init__(self, port_now, go_on):
        super().__init__()
        self.port_now, self.go_on = port_now, go_on
        self.admitted = dict.fromkeys(POLICIES, 0)
        self.unanswered = dict.fromkeys(POLICIES, 0)
        self.answers, self.error = {}, None

    def batch(self, connection, port):
        names = [name for name in POLICIES for _ in range(BATCH)]
        try:
            connection.ask("WEIR.TAKE", names)
        except (BrokenPipeError, ConnectionResetError):
            pass  # some may have arrived
        for i, name in enumerate(names):
            answer = connection.answer()
            if answer is None:
                for rest in names[i:]:
                    self.unanswered[rest] += 1
                return False
            self.admitted[name] += answer[0]
            self.answers[port] = self.answers.get(port, 0) + 1
        return True

    def run(self):
        try:
            while self.go_on():
                port = self.port_now(self)
                connection = Connection(port)
                while self.go_on() and self.port_now(self) == port and self.batch(connection, port):
                    pass
                connection.close()
        except (Failed, OSError) as error:
            self.error = error


def ask_one(port, command, name, cost=""):
    connection = Connection(port)
    connection.socket.sendall(f"{command} {name} hot {cost}\r\n".encode())
    answer = connection.answer()
    connection.close()
    return answer


def await_answers(clients, port, least):
    """Until each of the clients has so many answers from there."""
    while any(client.answers.get(port, 0) < least for client in clients):
        for client in clients:
            client.join(0.001)
            if client.error:
                raise client.error


def replace(old_weir, new_weir, directory, daemons):
    config = directory / "weir.yaml"
    policies = "".join(f"  {name}: {text}\n" for name, (text, _) in POLICIES.items())
    config.write_text(CONFIG.format(file=directory / "state", policies=policies))
    old = Daemon(old_weir, config, directory / "old.log")
    daemons.append(old)
    going, port = [True], {}
    clients = [Client(lambda client: port.get(client, old.port), lambda: going[0]) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        await_answers(clients, old.port, 500)
        new = Daemon(new_weir, config, directory / "new.log")
        daemons.append(new)
        if "open in other processes" not in new.lines:
            raise Failed("the second daemon does not share the file:\n" + new.lines)
        for client in clients[: CLIENTS // 2]:  # half of them go over, and both daemons decide
            port[client] = new.port
        await_answers(clients[: CLIENTS // 2], new.port, 500)
        for client in clients[CLIENTS // 2 :]:  # these learn it when they are hung up on, or soon
            port[client] = new.port
        status = old.stop()
        await_answers(clients, new.port, 500)
    finally:
        going[0] = False
        for client in clients:
            client.join()
    for client in clients:
        if client.error:
            raise client.error
    want("the exit status of the first daemon", 0, status)
    return new, clients


def judge(new, clients):
    """Of all that were answered as admitted, none is missing, and none is beyond the limit."""
    under_way = 0
    for name, (_, limit) in POLICIES.items():
        admitted = sum(client.admitted[name] for client in clients)
        unanswered = sum(client.unanswered[name] for client in clients)
        left = ask_one(new.port, "WEIR.PEEK", name)[1]
        charged = limit - left
        if not admitted <= charged <= admitted + unanswered:
            raise Failed(f"{name}: {admitted} were admitted, {unanswered} unanswered, {charged} are charged")
        under_way += charged - admitted
        if left > 0:
            want(f"{name}: all that is left", 1, ask_one(new.port, "WEIR.TAKE", name, f"COST {left}")[0])
        want(f"{name}: one more", 0, ask_one(new.port, "WEIR.TAKE", name)[0])
    return under_way


def main():
    new_weir = sys.argv[1]
    old_weir = sys.argv[2] if len(sys.argv) > 2 else new_weir
    daemons = []
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        try:
            new, clients = replace(old_weir, new_weir, directory, daemons)
            under_way = judge(new, clients)
            want("the exit status of the second daemon", 0, new.stop())
            want("what is left", ["new.log", "old.log", "state", "weir.yaml"], sorted(p.name for p in directory.iterdir()))
            third = Daemon(new_weir, directory / "weir.yaml", directory / "third.log")
            daemons.append(third)
            if "closed cleanly" not in third.lines:
                raise Failed("the file was not closed by the last of them:\n" + third.lines)
        except Failed as failed:
            print(f"{failed}\n0 passed, 1 failed, 0 skipped")
            return True
        finally:
            for daemon in daemons:
                daemon.kill()
    answers = sum(sum(client.answers.values()) for client in clients)
    print(f"{answers} answers, {under_way} charges whose answer was under way when the first daemon hung up")
    print("1 passed, 0 failed, 0 skipped")
    return False


if __name__ == "__main__":
    sys.exit(main())
