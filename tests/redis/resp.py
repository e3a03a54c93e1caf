# SPDX-License-Identifier: BSD-2-Clause
"""What all tests with real servers stand on: a small client that speaks RESP, ports that are free,
waiting for what must happen, children that do not outlive the test, and a redis-server."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

HOST = "127.0.0.1"
PATIENCE_S = 60  # for what must happen: a machine may be busy


class Failed(Exception):
    pass


class Refused(Exception):
    """An error that a server answered."""


def pause(seconds):
    """Between two looks at what has to happen."""
    threading.Event().wait(seconds)


def until(condition, what, patience_s=PATIENCE_S, every_s=0.005):
    """Asks again and again until the answer is true, and returns it."""
    end = time.monotonic() + patience_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"for {patience_s} s it did not come: {what}")
        pause(every_s)


def free_port():
    """With the port of a Cluster's bus, which is 10000 more, free as well."""
    while True:
        with socket.socket() as s, socket.socket() as bus:
            s.bind((HOST, 0))
            port = s.getsockname()[1]
            if port > 50000:
                continue
            try:
                bus.bind((HOST, port + 10000))
            except OSError:
                continue
            return port


def mortal(words):
    """A command line whose process ends when the test does, however that ends."""
    return (["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []) + list(words)


def command(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Client:
    """Blocking; RESP2, and RESP3 after HELLO 3. Replies as they come: integers, bytes, lists, maps,
    None; simple strings as text, errors as `error`, which read() returns and does not raise."""

    error = Refused

    def __init__(self, port, patience_s=PATIENCE_S):
        self.use(socket.create_connection((HOST, port), patience_s))

    def use(self, connected):
        self.socket = connected
        self.file = connected.makefile("rb")

    def send(self, *words):
        self.socket.sendall(command(*words))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return self.error(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"#":
            return rest == b"t"
        if kind == b"_" or kind in b"$*" and rest == b"-1":
            return None
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2]
        if kind in b"*~>":
            return [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {self.name(): self.read() for _ in range(int(rest))}
        raise Failed(f"no reply begins with {line!r}")

    def name(self):
        name = self.read()
        return name.decode() if isinstance(name, bytes) else name

    def many(self, commands):
        """All at once; errors are returned among the answers."""
        self.socket.sendall(b"".join(command(*words) for words in commands))
        return [self.read() for _ in commands]

    def call(self, *words):
        self.send(*words)
        answer = self.read()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.file.close()
        self.socket.close()


# ---- a redis-server ------------------------------------------------------------------------------


def is_up(client, process):
    """True once that very process answers, and has loaded what it saved: INFO is answered before. A
    Sentinel loads nothing."""
    lines = client.call("INFO").splitlines()
    return f"process_id:{process.pid}".encode() in lines and b"loading:1" not in lines


def is_port_taken(said):
    """Told from the last words of a server that did not start."""
    return "Could not create server TCP" in said or "Failed listening" in said


class Server:
    """A redis-server of the options of its command line, with a directory of its own; `with` ends it.
    restart() is the same files and the same port again."""

    prefix = "weir-redis-"

    def __init__(self, *options):
        self.options, self.port, self.process = options, None, None
        self.dir = tempfile.mkdtemp(prefix=self.prefix)
        self.path = os.path.join(self.dir, "log")
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        is_first = self.port is None  # else others know where it is
        for _ in range(8):
            self.port = free_port() if is_first else self.port
            # Its own file, since a Cluster and a rewrite write beside it.
            with open(self.path, "ab") as log:
                self.process = subprocess.Popen(
                    mortal(["redis-server", "--port", str(self.port), "--bind", HOST, "--dir",
                            self.dir, "--save", "", *self.options]), stdout=log, stderr=log)
            until(lambda: self.answers() or not self.is_running(), "the server answers or ends")
            if self.is_running():
                return
            if not is_port_taken(self.said()):
                break
        raise Failed(f"the server ended with {self.process.returncode}:\n{self.said()}")

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def answers(self):
        with contextlib.suppress(OSError, Refused):
            with contextlib.closing(Client(self.port)) as client:
                return is_up(client, self.process)
        return False

    def said(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()[-4000:]

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def restart(self):
        self.stop()
        self.start()

    def close(self):
        if self.is_running():
            self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
