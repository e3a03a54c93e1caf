#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Replaces a daemon under load with another one that uses the same state file (memory.shared). The
second starts beside the first, clients switch to it, and the first gets SIGTERM while requests to it
are in flight. No reply is lost, and both daemons together admit exactly the limit.

    upgrade_test.py WEIR [OLD_WEIR]

OLD_WEIR is another build; by default both daemons run the same one."""

import contextlib
import pathlib
import socket
import sys
import threading

from kit.process import Box, Failed
from kit.weir import Daemon

# Each window begins with the first request and is longer than the test, so the admitted units are the
# limit minus the remaining ones.
POLICIES = {
    "count": ("fixed-window 30000/w from-first", 30000),
    "log": ("sliding-log 6000/w", 6000),
    "bucket": ("gcra 1/w burst 1900", 1900),
}
CLIENTS, BATCH, PATIENCE_S = 4, 20, 30


def want(what, expected, found):
    if expected != found:
        raise Failed(f"{what}: expected {expected}, found {found}")


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def ask(self, command, policies):
        self.socket.sendall(b"".join(b"%s %s hot\r\n" % (command.encode(), name.encode()) for name in policies))

    def answer(self):
        """Returns allowed and remaining, or None if the daemon has closed the connection."""
        try:
            lines = [self.file.readline() for _ in range(7)]
        except ConnectionResetError:
            return None
        if not lines[6].endswith(b"\r\n"):
            return None
        want("the first line of a reply", b"*6\r\n", lines[0])
        return int(lines[1][1:]), int(lines[3][1:])

    def close(self):
        self.file.close()
        self.socket.close()


class Client(threading.Thread):
    """Charges in batches, through the daemon at port_now(), until go_on() returns false. Reconnects when a
    daemon closes the connection."""

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
            pass  # the daemon may have received some requests
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
    """Waits until each client has at least this many replies from the daemon at this port."""
    while any(client.answers.get(port, 0) < least for client in clients):
        for client in clients:
            client.join(0.001)
            if client.error:
                raise client.error


def start(box, program):
    policies = {name: text for name, (text, _) in POLICIES.items()}
    memory = f"{{size: 16m, file: {box.path / 'state'}, shared: true}}"
    return Daemon(box, policies, engine=None, threads=2, memory=memory, program=program).start()


def replace(box, old_weir, new_weir):
    old = start(box, old_weir)
    going, port = [True], {}
    clients = [Client(lambda client: port.get(client, old.port), lambda: going[0]) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        await_answers(clients, old.port, 500)
        new = start(box, new_weir)
        if "open in other processes" not in new.log_text():
            raise Failed("the second daemon does not share the file:\n" + new.log_text())
        for client in clients[: CLIENTS // 2]:  # half of them switch, and both daemons decide
            port[client] = new.port
        await_answers(clients[: CLIENTS // 2], new.port, 500)
        for client in clients[CLIENTS // 2 :]:  # these switch when the first daemon closes their connection, or soon
            port[client] = new.port
        status = old.end()
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
    """Checks that every admitted request is charged, and that no request beyond the limit was admitted."""
    in_flight = 0
    for name, (_, limit) in POLICIES.items():
        admitted = sum(client.admitted[name] for client in clients)
        unanswered = sum(client.unanswered[name] for client in clients)
        left = ask_one(new.port, "WEIR.PEEK", name)[1]
        charged = limit - left
        if not admitted <= charged <= admitted + unanswered:
            raise Failed(f"{name}: {admitted} were admitted, {unanswered} without a reply, {charged} are charged")
        in_flight += charged - admitted
        if left > 0:
            want(f"{name}: a request for the remaining units", 1, ask_one(new.port, "WEIR.TAKE", name, f"COST {left}")[0])
        want(f"{name}: one more unit", 0, ask_one(new.port, "WEIR.TAKE", name)[0])
    return in_flight


def main():
    new_weir = pathlib.Path(sys.argv[1]).resolve()
    old_weir = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else new_weir
    with contextlib.closing(Box(new_weir, None)) as box:
        try:
            new, clients = replace(box, old_weir, new_weir)
            in_flight = judge(new, clients)
            want("the exit status of the second daemon", 0, new.end())
            files = sorted(path.name for path in box.path.iterdir() if path.name.startswith("state"))
            want("the files of the state", ["state"], files)
            third = start(box, new_weir)
            if "closed cleanly" not in third.log_text():
                raise Failed("the second daemon did not close the file:\n" + third.log_text())
        except Failed as failed:
            print(f"{failed}\n0 passed, 1 failed, 0 skipped")
            return True
    answers = sum(sum(client.answers.values()) for client in clients)
    print(f"{answers} replies; {in_flight} charges whose reply was in flight when the first daemon ended")
    print("1 passed, 0 failed, 0 skipped")
    return False


if __name__ == "__main__":
    sys.exit(main())
