# SPDX-License-Identifier: BSD-2-Clause
"""Many connections that ask several daemons at once, in a thread of its own, and keep account of
what they were answered and how long it took. A test reads the account in phases: before, while and
after something happens to the servers."""

import collections
import random
import selectors
import socket
import threading
import time

from resp import HOST, PATIENCE_S, Failed, command, until
from servers import expect, say

HELD_TIMES = 200_000


class Account:
    """Of a phase. Keys are (policy, key)."""

    def __init__(self):
        self.asked = collections.Counter()
        self.allowed = collections.Counter()  # units
        self.denied = collections.Counter()   # requests
        self.errors = collections.Counter()   # by text
        self.lost = 0                         # the connection ended before the answer
        self.times_ns = []
        self.longest_ns = 0
        self.began_ns = time.monotonic_ns()
        self.ended_ns = None

    def answers(self):
        return sum(self.denied.values()) + sum(self.errors.values()) + self.passed

    passed = 0  # requests that were allowed

    def time_ms(self, share):
        """What that share of the answers took at most."""
        times = sorted(self.times_ns)
        return times[min(len(times) - 1, int(len(times) * share))] / 1e6 if times else 0.0

    def __str__(self):
        took = max(self.ended_ns - self.began_ns, 1) / 1e9
        text = (f"{self.answers()} answers in {took:.2f} s ({self.answers() / took:.0f}/s): "
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
        self.socket, self.rest, self.asked = None, b"", collections.deque()
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
        """All at once, once all before are answered: no request is larger than what fits."""
        out = []
        now = time.monotonic_ns()
        for _ in range(depth):
            label, words = self.load.next_ask()
            self.asked.append((label, now))
            out.append(words)
        self.socket.sendall(b"".join(out))

    def read(self):
        """Yields (label, asked at, line or figures). Raises at the end of the connection."""
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
            label, asked_ns = self.asked.popleft()
            yield label, asked_ns, head if not size else [int(n[1:]) for n in lines[at + 1:at + 7]]
            at += 1 + size
        self.rest = b"\r\n".join(lines[at:])


def takes(policies, keys, seed=1, cost=1):
    """Asks for policies by turns, for random ones of `keys`."""
    rng = random.Random(seed)
    made = [((policy, key), command("WEIR.TAKE", policy, key, *(["COST", cost] if cost != 1 else [])))
            for policy in policies for key in keys]
    rng.shuffle(made)
    while True:
        yield made[rng.randrange(len(made))]


class Load(threading.Thread):
    """Asks until it is stopped. `daemons` have a port, which may change while it runs."""

    def __init__(self, daemons, asks, *, connections=8, depth=1, cost=1, paused=False):
        super().__init__(daemon=True)
        self.asks, self.depth, self.cost = asks, depth, cost
        self.connections = [Connection(self, lambda d=daemon: d.port) for daemon in daemons
                            for _ in range(connections)]
        self.account, self.lock = Account(), threading.Lock()
        self.is_stopping, self.is_paused = False, paused
        self.outstanding, self.failure = 0, None
        self.selector = selectors.DefaultSelector()

    def next_ask(self):
        label, words = next(self.asks)
        self.account.asked[label] += 1
        self.outstanding += 1
        return label, words

    # ---- by the test --------------------------------------------------------------------------

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
        """The account since the last call; a new one begins."""
        self.check()
        with self.lock:
            account, self.account = self.account, Account()
        account.ended_ns = time.monotonic_ns()
        if name:
            say(f"{name}: {account}")
        return account

    def wait(self, answers, what="answers come"):
        """Until the phase has so many."""
        until(lambda: self.check() and self.account.answers() >= answers, what)

    def pause(self):
        """Nothing more is asked; all that was has been answered when this returns."""
        self.is_paused = True
        until(lambda: self.check() and self.outstanding == 0, "all is answered")

    def resume(self):
        self.is_paused = False

    # ---- by the thread ------------------------------------------------------------------------

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
            if one.socket and not one.asked and not self.is_paused:
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
            for label, asked_ns, answer in one.read():
                self.outstanding -= 1
                self.note(label, now - asked_ns, answer)
        except OSError:
            self.drop(one)

    def note(self, label, took_ns, answer):
        account = self.account
        if isinstance(answer, bytes):
            expect(answer[:1] == b"-", f"an answer is {answer!r}")
            account.errors[answer[1:].decode()] += 1
        elif answer[0]:
            account.passed += 1
            account.allowed[label] += self.cost
        else:
            account.denied[label] += 1
        account.longest_ns = max(account.longest_ns, took_ns)
        if len(account.times_ns) < HELD_TIMES:
            account.times_ns.append(took_ns)

    def drop(self, one):
        self.selector.unregister(one.socket)
        one.socket.close()
        one.socket, one.rest = None, b""
        self.account.lost += len(one.asked)
        self.outstanding -= len(one.asked)
        one.asked.clear()


# ---- what must come out --------------------------------------------------------------------------

# Each admits so many units at once, and no more for the time of a test (see what_is_admitted()).
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
    """Of a fresh key of each policy, by a daemon that decides alone: units."""
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
    """Asks until every key of every policy has given all it may, and some more. Returns the
    account, with what came beyond."""
    goal = {(name, key): units for name, units in admitted.items() for key in keys}

    def is_done():
        load.check()
        with load.lock:
            allowed = load.account.allowed
            return all(allowed[label] >= units for label, units in goal.items())

    until(is_done, "every key gives what it may", patience_s=2 * PATIENCE_S)
    load.wait(load.account.answers() + after)
    load.pause()
    with load.lock:
        wrong = {label: (units, load.account.allowed[label]) for label, units in goal.items()
                 if load.account.allowed[label] != units}
    expect(not wrong, f"admitted, and what the policy admits: {wrong}")
