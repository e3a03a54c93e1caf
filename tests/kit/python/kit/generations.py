# SPDX-License-Identifier: BSD-2-Clause
"""A daemon that hands over to new processes, and clients that charge it meanwhile and count."""

import contextlib
import http.client
import os
import pathlib
import re
import signal
import ssl
import threading

from kit.grpc import Grpc
from kit.process import HOST, PATIENCE_S, equal, expect, until
from kit.resp import Client
from kit.weir import Serving

LIMIT = 1_000_000_000  # of each policy: none is reached


class Generations(Serving):
    """A daemon and those that take over from it. They share the log. `pid` is the one that serves."""

    def __init__(self, box, *, listen="", memory=None, more="", policies="a: fixed-window 1000000000/w from-first",
                 program=None):
        super().__init__(box, program)
        self.state, self.socket = box.path / "state", box.path / "hand-over"
        self.memory = memory or f"{{size: 16m, file: {self.state}}}"
        self.listen, self.more, self.policies, self.pid, self.threads = listen, more, policies, None, 2
        self.write()

    def write(self, **changes):
        self.__dict__.update(changes)
        self.config.write_text(f"listen: {{resp: {HOST}:0, http: {HOST}:0{self.listen}}}\nthreads: {self.threads}\n"
                               f"memory: {self.memory}\nhand_over: {self.socket}\n{self.more}\n"
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

    def open_files(self):
        """The open descriptors of the process, and what they are; one that it closes meanwhile is left out."""
        found = {}
        for fd in pathlib.Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found[fd] = os.readlink(fd)
        return found

    def descriptors(self):
        return sorted(what.split(":")[0] for what in self.open_files().values())

    def shared_memory(self):
        """The resident bytes of memory that processes share."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"RssShmem:\s+(\d+) kB", status)[1]) << 10

    def charge(self, policy="a", key="hot"):
        with contextlib.closing(Client(self.ports["resp"])) as client:
            equal(client.call("WEIR.TAKE", policy, key)[0], 1)

    def charged(self, policy="a", key="hot"):
        with contextlib.closing(Client(self.ports["resp"])) as client:
            return LIMIT - client.call("WEIR.PEEK", policy, key)[2]


# ---- load ----------------------------------------------------------------------------------------


class Load(threading.Thread):
    """A client that charges one unit after the other. It connects again when the daemon has closed the connection in an
    orderly way. `errors` has everything else."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.target, self.going, self.connections = daemon, True, 0
        self.admitted, self.denied, self.unanswered = 0, 0, 0
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

    def decided(self, allowed):
        self.admitted += allowed
        self.denied += not allowed


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
                        self.decided(client.read()[0])
                        answers += 1
                except (ConnectionResetError, BrokenPipeError):
                    self.unanswered += 10 - answers
                    return


class HttpLoad(Load):
    """A connection that is kept alive ends with "Connection: close" in a response."""

    def connect(self):
        return http.client.HTTPConnection(HOST, self.target.ports["http"], PATIENCE_S)

    def connection(self):
        with contextlib.closing(self.connect()) as client:
            while self.going:
                client.request("GET", "/v1/take?policy=a&key=hot")
                response = client.getresponse()
                response.read()
                equal(response.status, 200)
                self.admitted += 1
                if response.getheader("Connection") == "close":
                    return


class HttpsLoad(HttpLoad):
    """The same with TLS. It trusts the authority of the box."""

    def connect(self):
        context = ssl.create_default_context(cafile=str(self.target.box.tls().ca))
        return http.client.HTTPSConnection(HOST, self.target.ports["https"], timeout=PATIENCE_S, context=context)


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


def check_charges(d, loads):
    """Each reply is charged once, and nothing else."""
    equal(d.charged(), sum(load.admitted for load in loads if not isinstance(load, GrpcLoad)), "charges")
    calls = sum(load.admitted for load in loads if isinstance(load, GrpcLoad))
    if calls:
        with contextlib.closing(Grpc(d.ports["grpc"])) as client:
            equal(LIMIT - client.remaining("edge", {"who": "hot"}), calls + 1, "charges by gRPC")


LIMITS = """domain: edge
descriptors:
  - key: who
    rate_limit: {unit: year, requests_per_unit: 1000000000}
"""


def with_grpc(box, **more):
    limits = box.path / "limits"
    limits.mkdir()
    (limits / "edge.yaml").write_text(LIMITS)
    listen = more.pop("listen", "")
    return Generations(box, listen=f", grpc: {HOST}:0{listen}", more=f"envoy: {{config: {limits}}}", **more)
