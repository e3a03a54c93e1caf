#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A daemon that hands over to a new process (SIGUSR2, weir serve --take-over): under load, no connection is refused and
every decision counts exactly once; if the new process fails, the old one goes on. The tests are also the manager that
systemd would be.

    hand_over_test.py WEIR MODULE [NAME...]"""

import contextlib
import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import threading
import time

from kit.grpc import Grpc
from kit.process import HOST, PATIENCE_S, Process, equal, expect, run, until
from kit.resp import Client
from kit.weir import Serving

LIMIT = 1_000_000_000  # of each policy: none is reached


class Generations(Serving):
    """A daemon and those that take over from it. They share the log. `pid` is the one that serves."""

    def __init__(self, box, *, listen="", memory=None, more="", policies="a: fixed-window 1000000000/w from-first",
                 program=None):
        super().__init__(box, program)
        self.state, self.door = box.path / "state", box.path / "door"
        self.memory = memory or f"{{size: 16m, file: {self.state}}}"
        self.listen, self.more, self.policies, self.pid, self.threads = listen, more, policies, None, 2
        self.write()

    def write(self, **changes):
        self.__dict__.update(changes)
        self.config.write_text(f"listen: {{resp: {HOST}:0, http: {HOST}:0{self.listen}}}\nthreads: {self.threads}\n"
                               f"memory: {self.memory}\nhand_over: {self.door}\n{self.more}\n"
                               f"policies: {{{self.policies}}}\n")

    def start(self, **more):
        self.spawn([self.program, "serve", self.config], **more)
        line = until(lambda: self.started(0), "it starts")
        self.pid = self.process.pid
        self.ports = {name: self.port_in(line, name) for name in ("resp", "http", "grpc") if f" {name}=" in line}
        return self

    def said(self, event, since=0):
        return re.findall(rf" {event}\b.*", self.log_text()[since:])

    def send(self, number=signal.SIGUSR2):
        os.kill(self.pid, number)

    def hand_over(self):
        """Hands over to a new process, and waits until the old one has ended."""
        before, old = len(self.log_text()), self.pid
        self.send()
        until(lambda: self.said("(?:taken-over|hand-over-failed|hand-over-refused)", before), "the new process serves")
        expect(self.said("taken-over", before), self.log_text()[before:])
        self.pid = int(re.search(r"process (\d+) takes over", self.log_text()[before:])[1])
        self.await_end(old)

    def await_end(self, pid):
        """Waits for the end of a process that may be a child of this one, or not."""
        if self.process.pid == pid:
            equal(self.process.wait(PATIENCE_S), 0, "the exit status")
        until(lambda: not os.path.exists(f"/proc/{pid}") or self.is_zombie(pid), f"{pid} ends")

    @staticmethod
    def is_zombie(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return ") Z" in pathlib.Path(f"/proc/{pid}/stat").read_text()
        return True

    def end(self):
        """Stops the process that serves."""
        self.send(signal.SIGTERM)
        self.await_end(self.pid)

    def kill(self):
        for pid in {self.pid, *map(int, re.findall(r"process (\d+) takes over", self.log_text()))} - {None}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().kill()

    def descriptors(self):
        return sorted(os.readlink(fd).split(":")[0] for fd in pathlib.Path(f"/proc/{self.pid}/fd").iterdir())

    def charged(self, policy="a", key="hot"):
        with contextlib.closing(Client(self.ports["resp"])) as client:
            return LIMIT - client.call("WEIR.PEEK", policy, key)[2]


# ---- load ----------------------------------------------------------------------------------------


class Load(threading.Thread):
    """A client that charges one unit after the other. It connects again when the daemon has closed the connection in an
    orderly way. `errors` has everything else."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.target, self.going, self.admitted, self.unanswered, self.connections = daemon, True, 0, 0, 0
        self.errors = []

    def run(self):
        try:
            while self.going:
                self.connections += 1
                self.connection()
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(repr(error))

    def connection(self):
        raise NotImplementedError


class RespLoad(Load):
    """In batches of ten. RESP has no message that a connection ends: a request that is sent at that moment has no
    reply, and is not charged."""

    def connection(self):
        with contextlib.closing(Client(self.target.ports["resp"])) as client:
            while self.going:
                answers = 0
                try:
                    client.socket.sendall(b"WEIR.TAKE a hot\r\n" * 10)
                    for _ in range(10):
                        self.admitted += client.read()[0]
                        answers += 1
                except (ConnectionResetError, BrokenPipeError):
                    self.unanswered += 10 - answers
                    return


class HttpLoad(Load):
    """A connection that is kept alive ends with "Connection: close" in a response."""

    def connection(self):
        with contextlib.closing(http.client.HTTPConnection(HOST, self.target.ports["http"], PATIENCE_S)) as client:
            while self.going:
                client.request("GET", "/v1/take?policy=a&key=hot")
                response = client.getresponse()
                response.read()
                equal(response.status, 200)
                self.admitted += 1
                if response.getheader("Connection") == "close":
                    return


class GrpcLoad(Load):
    """One call after the other, until GOAWAY."""

    def connection(self):
        with contextlib.closing(Grpc(self.target.ports["grpc"])) as client:
            while self.going and not client.goaway:
                equal(client.rate_limit("edge", {"who": "hot"}), 1, "the code of the reply")
                self.admitted += 1


@contextlib.contextmanager
def under_load(daemon, kinds):
    loads = [kind(daemon) for kind in kinds]
    for load in loads:
        load.start()
    yield loads
    for load in loads:
        load.going = False
    for load in loads:
        load.join(PATIENCE_S)
        equal(load.errors, [], type(load).__name__)


def await_more(loads):
    """Waits until each has had 20 more replies."""
    for load, before in [(load, load.admitted) for load in loads]:
        until(lambda load=load, before=before: load.errors or load.admitted >= before + 20,
              f"{type(load).__name__} goes on")


RATELIMIT = """envoy: {config: %s}
"""
LIMITS = """domain: edge
descriptors:
  - key: who
    rate_limit: {unit: year, requests_per_unit: 1000000000}
"""


def with_grpc(box, **more):
    limits = box.path / "limits"
    limits.mkdir()
    (limits / "edge.yaml").write_text(LIMITS)
    return Generations(box, listen=f", grpc: {HOST}:0", more=RATELIMIT % limits, **more)


def hand_overs_under_load(box, times=6, memory=None):
    d = with_grpc(box, memory=memory).start()
    descriptors = None
    with under_load(d, (RespLoad, RespLoad, HttpLoad, HttpLoad, GrpcLoad)) as loads:
        await_more(loads)
        for _ in range(times):
            d.hand_over()
            await_more(loads)
    for load in loads:
        expect(load.connections >= 2, "each client has connected again")
    equal(d.charged(), sum(load.admitted for load in loads if not isinstance(load, GrpcLoad)), "charges")
    d.hand_over()
    descriptors = d.descriptors()
    d.hand_over()
    d.hand_over()
    equal(d.descriptors(), descriptors, "the descriptors after two more hand-overs")
    d.end()


def other_numbers_of_threads(box):
    """A loop may have several sockets of an address, or share one."""
    d = Generations(box).start()
    with under_load(d, (RespLoad, RespLoad, HttpLoad)) as loads:
        for threads in (4, 1, 3):
            await_more(loads)
            d.write(threads=threads)
            d.hand_over()
            expect(f"threads={threads}" in d.log_text(), "the new number of threads")
        await_more(loads)
        queued = [socket.create_connection((HOST, d.ports["resp"]), PATIENCE_S) for _ in range(40)]
        for connection in queued:
            connection.sendall(b"PING\r\n")
            equal(connection.recv(100), b"+PONG\r\n", "each socket is served")
            connection.close()
    equal(d.charged(), sum(load.admitted for load in loads), "charges")
    d.end()


# ---- the processes -------------------------------------------------------------------------------


def take_over(box):
    """`weir serve --take-over` asks at the socket `hand_over`; the new process may have another configuration."""
    path = box.path / "s.sock"
    d = Generations(box, listen=f", unix: {path}").start()
    queued = socket.create_connection((HOST, d.ports["resp"]))
    new = Process(box, "new")
    d.write(policies="a: fixed-window 1000000000/w from-first, b: gcra 1/h", listen="", more="limits: {idle: 5m}")
    new.spawn([box.weir, "serve", "--take-over", d.config])
    equal(d.process.wait(PATIENCE_S), 0, "the exit status of the old process")
    until(lambda: " taken-over" in new.log_text(), "the new process serves")
    queued.close()
    with contextlib.closing(Client(d.ports["resp"])) as client:
        equal(client.call("WEIR.TAKE", "b", "k")[0], 1, "the new policy")
    until(lambda: not path.exists(), "the socket file of an address that is gone")
    expect(d.door.exists(), "the new process listens at the door")
    equal(new.end(), 0)
    expect(not d.door.exists(), "the door is gone")


def nobody_to_take_over_from(box):
    d = Generations(box)
    d.spawn([box.weir, "serve", "--take-over", d.config])
    equal(d.process.wait(PATIENCE_S), 1)
    expect("not-started" in d.log_text() and "cannot take over from the running daemon" in d.log_text(), d.log_text())
    d.config.write_text(d.config.read_text().replace("hand_over:", "#"))
    d.spawn([box.weir, "serve", "--take-over", d.config])
    equal(d.process.wait(PATIENCE_S), 2)
    expect("--take-over: no socket, expected hand_over in the configuration" in d.log_text(), d.log_text())


def goes_on(d, why):
    """The old process goes on, and says why."""
    until(lambda: d.said("hand-over-failed"), "the hand-over fails")
    expect(re.search(why, d.said("hand-over-failed")[-1]), f"{d.said('hand-over-failed')[-1]} has {why}")
    equal(d.pid, d.process.pid)
    before = d.charged()
    with contextlib.closing(Client(d.ports["resp"])) as client:
        equal(client.call("WEIR.TAKE", "a", "hot")[0], 1)
    equal(d.charged(), before + 1)


def bad_configuration(box):
    d = Generations(box).start()
    good = d.config.read_text()
    d.config.write_text("nonsense: 1\n")
    d.send()
    goes_on(d, "ended with status 1 before it served")
    d.config.write_text(good)
    d.hand_over()
    d.end()


def other_size(box):
    d = Generations(box).start()
    d.write(memory=f"{{size: 32m, file: {d.state}}}")
    d.send()
    goes_on(d, "ended with status 1 before it served")
    expect("to change memory.size" in d.log_text(), d.log_text())
    d.end()


def killed_new_process(box):
    """kill -9 of the new process before it serves: a program that stops itself stands for a slow one."""
    d = Generations(box, program=box.path / "weir")
    shutil.copy(box.weir, d.program)
    d.start()
    d.program.unlink()
    d.program.write_text("#!/bin/sh\nkill -9 $$\n")
    d.program.chmod(0o755)
    d.send()
    goes_on(d, "killed by signal 9 before it served")
    d.program.unlink()
    before = len(d.log_text())
    d.send()
    until(lambda: d.said("hand-over-failed", before), "there is no program")
    expect("cannot start" in d.said("hand-over-failed", before)[0], d.log_text())
    shutil.copy(box.weir, d.program)
    d.hand_over()
    d.end()


def second_signal(box):
    """Only one hand-over at a time; SIGTERM ends it, and both processes."""
    d = Generations(box, program=box.path / "weir")
    shutil.copy(box.weir, d.program)
    d.start()
    d.program.unlink()
    d.program.write_text("#!/bin/sh\nexec sleep 1000\n")
    d.program.chmod(0o755)
    d.send()
    until(lambda: d.said("hand-over"), "a new process starts")
    d.send()
    until(lambda: d.said("hand-over-refused"), "the second is refused")
    expect("a hand-over is in progress" in d.log_text(), d.log_text())
    d.send(signal.SIGTERM)
    equal(d.process.wait(PATIENCE_S), 0)
    new = int(re.search(r"process (\d+) takes over", d.log_text())[1])
    until(lambda: d.is_zombie(new), "the new process is killed")


def lent_state_file(box):
    """A file without `shared` is open to the new process only during the hand-over."""
    d = Generations(box).start()
    d.hand_over()
    other = Serving(box)
    other.config.write_text(f"listen: {{resp: {HOST}:0, http: off}}\nmemory: {{size: 16m, file: {d.state}, shared: true}}\n")

    def refused():
        before = len(other.log_text())
        other.spawn([box.weir, "serve", other.config])
        until(lambda: not other.is_running() or " started " in other.log_text()[before:], "it starts, or not")
        other.kill()
        return "in use by another weir process" in other.log_text()[before:]

    until(refused, "the file is no longer shared", every_s=0.2)
    expect("which does not set 'shared'" in other.log_text(), other.log_text())
    d.hand_over()
    d.end()


def notifications(box):
    """systemd learns the new main process from the old one, and hears from the new one after that."""
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.settimeout(PATIENCE_S)
    notify.bind(f"{box.path}/notify")

    def told():
        while True:
            text = notify.recv(4096).decode()
            if text != "WATCHDOG=1":
                return text

    d = Generations(box)
    d.spawn(["sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh", box.weir, "serve", d.config],
            env={**os.environ, "NOTIFY_SOCKET": f"{box.path}/notify", "WATCHDOG_USEC": "400000"})
    line = until(lambda: d.started(0), "it starts")
    d.pid, d.ports = d.process.pid, {"resp": d.port_in(line, "resp")}
    expect(told().startswith("READY=1\n"), "it is ready")
    d.hand_over()
    equal(told(), f"MAINPID={d.pid}")
    expect(told().startswith("READY=1\nSTATUS=serving 1 policy on resp"), "the new process is ready")
    equal(notify.recv(100), b"WATCHDOG=1", "the new process feeds the watchdog")
    d.send(signal.SIGTERM)
    expect(told().startswith("STOPPING=1\n"), "the new process stops")
    d.await_end(d.pid)


TESTS = (hand_overs_under_load, other_numbers_of_threads, take_over, nobody_to_take_over_from, bad_configuration, other_size, killed_new_process,
         second_signal, lent_state_file, notifications)

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv, needs_redis=False))
