# SPDX-License-Identifier: BSD-2-Clause
"""A load generator: many connections send requests to several daemons at once, on a thread of its own.
It records the replies and their latency. A test reads the record in phases: before, during and after
a change of the servers."""

import collections
import random
import selectors
import socket
import threading
import time

from kit.process import HOST, PATIENCE_S, Failed, expect, say, until
from kit.resp import command

HELD_TIMES = 200_000


class Record:
    """The replies of a phase, by (policy, key)."""

    def __init__(self):
        self.sent = collections.Counter()
        self.allowed = collections.Counter()  # units
        self.denied = collections.Counter()   # requests
        self.errors = collections.Counter()   # by text
        self.heard = set()                    # connections with a reply
        self.lost = 0                         # the connection closed before the reply
        self.times_ns = []
        self.longest_ns = 0
        self.began_ns = time.monotonic_ns()
        self.ended_ns = None

    def replies(self):
        return sum(self.denied.values()) + sum(self.errors.values()) + self.passed

    passed = 0  # requests that were allowed

    def time_ms(self, share):
        """The latency at this quantile."""
        times = sorted(self.times_ns)
        return times[min(len(times) - 1, int(len(times) * share))] / 1e6 if times else 0.0

    def __str__(self):
        took = max(self.ended_ns - self.began_ns, 1) / 1e9
        text = (f"{self.replies()} replies in {took:.2f} s ({self.replies() / took:.0f}/s): "
                f"{self.passed} allowed, {sum(self.denied.values())} denied, "
                f"{sum(self.errors.values())} errors, {self.lost} lost; "
                f"p50 {self.time_ms(.5):.1f} ms, p99 {self.time_ms(.99):.1f} ms, "
                f"longest {self.longest_ns / 1e6:.1f} ms")
        if self.errors:
            text += "".join(f"\n  {count} x {what}" for what, count in self.errors.most_common(5))
        return text


class Connection:
    def __init__(self, load, target):
        self.load, self.target = load, target
        self.socket, self.rest, self.sent = None, b"", collections.deque()
        self.next_try_ns = 0

    def open(self):
        try:
            self.socket = socket.create_connection((HOST, self.target()), 5)
        except OSError:
            self.next_try_ns = time.monotonic_ns() + 10_000_000
            return False
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        return True

    def send(self, depth):
        """Sends a batch with one call, after all earlier replies. A batch fits into the socket's buffer."""
        out = []
        now = time.monotonic_ns()
        for _ in range(depth):
            label, words = self.load.next_ask()
            self.sent.append((label, now))
            out.append(words)
        self.socket.sendall(b"".join(out))

    def read(self):
        """Yields (label, time of the request, line or fields). Raises when the connection closes."""
        got = self.socket.recv(1 << 16)
        if not got:
            raise ConnectionResetError
        lines = (self.rest + got).split(b"\r\n")
        at, tail = 0, len(lines) - 1
        while at < tail:
            head = lines[at]
            size = int(head[1:]) if head[:1] == b"*" else 0
            if at + size >= tail:
                break
            label, sent_ns = self.sent.popleft()
            yield label, sent_ns, head if not size else [int(n[1:]) for n in lines[at + 1:at + 7]]
            at += 1 + size
        self.rest = b"\r\n".join(lines[at:])


def takes(policies, keys, seed=1, cost=1):
    """Sends requests for each policy in turn, with random `keys`."""
    rng = random.Random(seed)
    made = [((policy, key), command("WEIR.TAKE", policy, key, *(["COST", cost] if cost != 1 else [])))
            for policy in policies for key in keys]
    rng.shuffle(made)
    while True:
        yield made[rng.randrange(len(made))]


class Load(threading.Thread):
    """Sends requests until it is stopped. The port of a daemon may change meanwhile."""

    def __init__(self, daemons, requests, *, connections=8, depth=1, cost=1, paused=False):
        super().__init__(daemon=True)
        self.requests, self.depth, self.cost = requests, depth, cost
        self.connections = [Connection(self, lambda d=daemon: d.port) for daemon in daemons
                            for _ in range(connections)]
        self.record, self.lock = Record(), threading.Lock()
        self.is_stopping, self.is_paused = False, paused
        self.outstanding, self.failure = 0, None
        self.selector = selectors.DefaultSelector()

    def next_ask(self):
        label, words = next(self.requests)
        self.record.sent[label] += 1
        self.outstanding += 1
        return label, words

    # ---- called by the test ----------------------------------------------------------------------

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_stopping = True
        self.join(PATIENCE_S)

    def check(self):
        if self.failure:
            raise Failed(f"the load: {self.failure!r}") from self.failure
        return True

    def phase(self, name=None):
        """Returns the record since the last call, and starts a new one."""
        self.check()
        with self.lock:
            record, self.record = self.record, Record()
        record.ended_ns = time.monotonic_ns()
        if name:
            say(f"{name}: {record}")
        return record

    def wait(self, answers, what="answers come"):
        """Waits until the phase has so many replies."""
        until(lambda: self.check() and self.record.replies() >= answers, what)

    def wait_for_all(self):
        """Waits until each connection has a reply in this phase."""
        until(lambda: self.check() and len(self.record.heard) == len(self.connections), "all get a reply")

    def pause(self):
        """Sends no more requests, and waits for all replies."""
        self.is_paused = True
        until(lambda: self.check() and self.outstanding == 0, "every request gets a reply")

    def resume(self):
        self.is_paused = False

    # ---- on the thread ---------------------------------------------------------------------------

    def run(self):
        try:
            for one in self.connections:
                self.connect(one)
            while not self.is_stopping:
                self.turn()
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure
        finally:
            for one in self.connections:
                if one.socket:
                    one.socket.close()
            self.selector.close()

    def connect(self, one):
        if one.open():
            self.selector.register(one.socket, selectors.EVENT_READ, one)

    def turn(self):
        for one in self.connections:
            if not one.socket and time.monotonic_ns() >= one.next_try_ns:
                self.connect(one)
            if one.socket and not one.sent and not self.is_paused:
                with self.lock:
                    try:
                        one.send(self.depth)
                    except OSError:
                        self.drop(one)
        for ready, _ in self.selector.select(0.005):
            with self.lock:
                self.take(ready.data)

    def take(self, one):
        now = time.monotonic_ns()
        try:
            for label, sent_ns, answer in one.read():
                self.outstanding -= 1
                self.record.heard.add(one)
                self.note(label, now - sent_ns, answer)
        except OSError:
            self.drop(one)

    def note(self, label, took_ns, answer):
        record = self.record
        if isinstance(answer, bytes):
            expect(answer[:1] == b"-", f"expected an error or a decision, found {answer!r}")
            record.errors[answer[1:].decode()] += 1
        elif answer[0]:
            record.passed += 1
            record.allowed[label] += self.cost
        else:
            record.denied[label] += 1
        record.longest_ns = max(record.longest_ns, took_ns)
        if len(record.times_ns) < HELD_TIMES:
            record.times_ns.append(took_ns)

    def drop(self, one):
        self.selector.unregister(one.socket)
        one.socket.close()
        one.socket, one.rest = None, b""
        self.record.lost += len(one.sent)
        self.outstanding -= len(one.sent)
        one.sent.clear()


# ---- the expected results ------------------------------------------------------------------------

# Each admits a fixed number of units at once, and no more during a test (see what_is_admitted()).
ALGORITHMS = {
    "gcra": "gcra 1/h burst 60",
    "bucket": "token-bucket 60 refill 1/h",
    "steps": "token-bucket 60 refill 5 every 52w",
    "leaky": "leaky-bucket 1/h capacity 60",
    "queue": "leaky-queue 1/h depth 60",
    "window": "fixed-window 60/52w",
    "calendar": "fixed-window 60/year",
    "zone": "fixed-window 60/year tz Europe/Berlin",
    "first": "fixed-window 60/w from-first",
    "counted": "fixed-window 60/52w count-denied",
    "log": "sliding-log 60/w",
    "counter": "sliding-counter 60/52w",
    "slices": "sliding-slices 60/52w slices 52",
    "layers": "gcra 1/h burst 90 & fixed-window 60/52w",
}


def what_is_admitted(daemon, policies, cost=1):
    """The units that a local daemon admits for a new key of each policy."""
    admitted = {}
    for name in policies:
        client, units = daemon.client(), 0
        for _ in range(200):
            client.send("WEIR.TAKE", name, f"fresh{cost}", "COST", cost)
        for _ in range(200):
            units += cost * client.read()[0]
        client.close()
        expect(0 < units < 200 * cost, f"{name} admits {units}")
        admitted[name] = units
    return admitted


def exhaust(load, admitted, keys, after=500):
    """Sends requests until every key of every policy is exhausted, and some more. Returns the record,
    which includes the requests beyond the limit."""
    goal = {(name, key): units for name, units in admitted.items() for key in keys}

    def is_done():
        load.check()
        with load.lock:
            allowed = load.record.allowed
            return all(allowed[label] >= units for label, units in goal.items())

    until(is_done, "every key gives what it may", patience_s=2 * PATIENCE_S)
    load.wait(load.record.replies() + after)
    load.pause()
    with load.lock:
        wrong = {label: (units, load.record.allowed[label]) for label, units in goal.items()
                 if load.record.allowed[label] != units}
    expect(not wrong, f"keys with a wrong number of admitted units (found, expected): {wrong}")
