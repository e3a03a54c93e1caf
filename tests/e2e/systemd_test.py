#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The daemon under a service manager: notifications by path and by abstract name, the watchdog, passed sockets, and
the limit on open files. The test is the manager.

    systemd_test.py WEIR MODULE [NAME...]"""

import contextlib
import fcntl
import os
import re
import signal
import socket
import sys
import time

from kit.process import HOST, PATIENCE_S, equal, expect, free_port, run, until
from kit.resp import Client
from kit.weir import Serving

# Moves the sockets in the arguments before "--" to the descriptors 3, 4 and so on, as systemd passes them.
PASS = """n=3
while [ "$1" != -- ]; do eval "exec $n<&$1 $1<&-"; n=$((n + 1)); shift; done
shift
LISTEN_PID=$$ exec "$@"
"""


class Managed(Serving):
    """A daemon of the test's own manager. `address` is that of the notify socket, as in NOTIFY_SOCKET."""

    def __init__(self, box, config, address=None, sockets=(), **env):
        super().__init__(box)
        self.config.write_text(config)
        self.address = address or f"{box.path}/notify"
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.settimeout(PATIENCE_S)
        self.notify.bind(self.address.replace("@", "\0"))
        self.sockets, self.env = sockets, {**os.environ, "NOTIFY_SOCKET": self.address, **env}

    def start(self):
        fds = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 100) for s in self.sockets]
        words = ["bash", "-c", PASS, "pass", *fds, "--"] if fds else []
        env = {**self.env, "LISTEN_FDS": str(len(fds))} if fds else self.env
        self.spawn([*words, self.program, "serve", self.config], env=env, pass_fds=fds)
        for fd in fds:
            os.close(fd)
        return self

    def told(self):
        """The next notification, as a map; WATCHDOG=1 is left out."""
        while True:
            lines = self.notify.recv(4096).decode().split("\n")
            if lines != ["WATCHDOG=1"]:
                return dict(line.split("=", 1) for line in lines)


def listening(family=socket.AF_INET, address=(HOST, 0)):
    s = socket.socket(family)
    s.bind(address)
    s.listen()
    return s


def config(resp=f"{HOST}:0", more=""):
    return f"listen: {{resp: {resp}, http: off}}\nmemory: {{size: 16m}}\nthreads: 2\npolicies: {{a: gcra 1/h}}\n{more}"


def by_address(box, address):
    d = Managed(box, config(), address).start()
    ready = d.told()
    port = d.port_in(until(lambda: d.started(0), "the log has the start"), "resp")
    equal(ready, {"READY": "1", "STATUS": f"serving 1 policy on resp {HOST}:{port}"})
    with contextlib.closing(Client(port)) as client:
        equal(client.call("WEIR.TAKE", "a", "k")[0], 1)
    before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    d.config.write_text(config(more="  # b\n").replace("gcra 1/h}", "gcra 1/h, b: gcra 2/h}"))
    d.signal(signal.SIGHUP)
    reloading = d.told()
    expect(before_us <= int(reloading.pop("MONOTONIC_USEC")) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000,
           "MONOTONIC_USEC is now")
    equal(reloading, {"RELOADING": "1", "STATUS": "reloading the configuration"})
    equal(d.told(), {"READY": "1", "STATUS": f"serving 2 policies on resp {HOST}:{port}"})
    d.process.terminate()
    equal(d.told(), {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "35000000", "STATUS": "closing the connections"})
    equal(d.process.wait(PATIENCE_S), 0)


def notify_a_path(box):
    by_address(box, f"{box.path}/notify")


def notify_an_abstract_name(box):
    by_address(box, f"@weir-test-{os.getpid()}-notify")


def refused_reload(box):
    d = Managed(box, config()).start()
    status = d.told()["STATUS"]
    d.config.write_text("nonsense: 1\n")
    d.signal(signal.SIGHUP)
    equal(d.told()["RELOADING"], "1")
    equal(d.told(), {"READY": "1", "STATUS": f"configuration refused, see the log; {status}"})


def watchdog(box):
    d = Managed(box, config(), WATCHDOG_USEC="400000").start()
    d.told()
    for _ in range(5):
        equal(d.notify.recv(100), b"WATCHDOG=1")
    d.pause()
    with contextlib.suppress(TimeoutError):  # what was sent before the pause
        d.notify.settimeout(0.001)
        while True:
            d.notify.recv(100)
    d.notify.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        expect(not d.notify.recv(100), "no beat of a daemon that is stopped")
    d.notify.settimeout(PATIENCE_S)
    d.resume()
    equal(d.notify.recv(100), b"WATCHDOG=1")


def failed_start(box):
    taken = listening()
    d = Managed(box, config(f"{HOST}:{taken.getsockname()[1]}")).start()
    expect(d.told()["STATUS"].startswith("not started: cannot listen on 127.0.0.1:"), "why it has not started")
    equal(d.process.wait(PATIENCE_S), 1)


def passed_sockets(box):
    """One socket for each listener; the state of the sockets outlives the daemon."""
    path = f"{box.path}/resp.sock"
    tcp, tcp6 = listening(), listening(socket.AF_INET6, ("::1", 0))
    unix = listening(socket.AF_UNIX, path)
    addresses = [f"{HOST}:{tcp.getsockname()[1]}", f"[::1]:{tcp6.getsockname()[1]}"]
    text = config(f"'{addresses[0]}', unix: {path}").replace("http: off", f"http: '{addresses[1]}'")
    early = socket.create_connection(tcp.getsockname())
    for _ in range(2):
        d = Managed(box, text, f"@weir-test-{os.getpid()}-{box.name('n')}", (unix, tcp6, tcp),
                    LISTEN_FDNAMES="resp:http:resp").start()
        equal(d.told()["STATUS"], f"serving 1 policy on resp {addresses[0]}, http {addresses[1]}, resp {path}")
        early.settimeout(PATIENCE_S)
        early.sendall(b"PING\r\n")
        equal(early.recv(100), b"+PONG\r\n")
        for family, address, request, reply in ((socket.AF_INET6, tcp6.getsockname(), b"GET /healthz HTTP/1.0\r\n\r\n", b"HTTP/1.1 200"),
                                                (socket.AF_UNIX, path, b"PING\r\n", b"+PONG\r\n")):
            with socket.socket(family) as s:
                s.settimeout(PATIENCE_S)
                s.connect(address)
                s.sendall(request)
                expect(s.recv(1000).startswith(reply), f"{address} is served")
        early.close()
        equal(d.end(), 0)
        expect(os.path.exists(path), "the socket file is the manager's")
        early = socket.create_connection(tcp.getsockname())  # between two daemons: it waits for the next


def passed_socket_without_listener(box):
    known, stranger = listening(), listening()
    d = Managed(box, config(f"{HOST}:{known.getsockname()[1]}"), None, (known, stranger),
                LISTEN_FDNAMES="resp:admin").start()
    equal(d.told(), {"STATUS": f"not started: socket 'admin' on {HOST}:{stranger.getsockname()[1]} was passed "
                               "(LISTEN_FDS), but no listener has this address; add it to listen in weir.yaml, or "
                               "remove it from the socket unit"})
    equal(d.process.wait(PATIENCE_S), 1)
    expect("'admin'" in d.log_text(), "the log names the socket")


def open_files(box):
    """The soft limit is raised; a hard limit that is too low is logged."""
    d = Managed(box, config()).start()
    d.told()
    limits = re.search(r"Max open files +(\S+) +(\S+)", open(f"/proc/{d.process.pid}/limits").read())
    equal(limits[1], limits[2], "the soft limit")
    equal(d.end(), 0)
    low = Serving(box)
    low.config.write_text(config(more="limits: {connections: 5000}\n"))
    low.spawn(["bash", "-c", 'ulimit -n 1000; exec "$@"', "low", low.program, "serve", low.config])
    until(lambda: low.started(0), "it starts")
    expect(" warning few-descriptors connections=5000 wanted=5098 available=1000 " in low.log_text(), low.log_text())


if __name__ == "__main__":
    sys.exit(run([notify_a_path, notify_an_abstract_name, refused_reload, watchdog, failed_start, passed_sockets,
                  passed_socket_without_listener, open_files], sys.argv, needs_redis=False))
