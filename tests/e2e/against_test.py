#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""`weir replay --against` with real daemons: no difference if they have the same policies, and an error for
all else.

    against_test.py WEIR MODULE [NAME...]"""

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(REPO, "tests", "redis")]

from resp import HOST, until  # noqa: E402
from servers import Daemon, expect, run  # noqa: E402

START_NS = 1780000000 * 10**9
POLICIES = {"api": "{limit: gcra 20/s burst 5, overrides: {'big*': sliding-log 30/s}, allow: [bob], deny: [evil]}",
            "trial": "{limit: fixed-window 3/s, shadow: true, overrides: {'198.51.100.0/24': gcra 1/s}}",
            "jobs": "leaky-queue 20/s depth 3",
            "daily": "fixed-window 40/day & sliding-counter 20/s"}
TEXTS = ("gcra 7/s burst 3", "token-bucket 9 refill 3/1s", "sliding-slices 10/s slices 10",
         "sliding-log 6/s count-denied", "fixed-window 9/s from-first")
KEYS = ("alice", "bob", "big-1", "big-2", "evil", "192.0.2.1", "198.51.100.7", "2001:db8::1", "2001:db8::2")


class UnixDaemon(Daemon):
    """A daemon that also listens on a Unix socket."""

    def write(self):
        super().write()
        self.path = self.config.with_suffix(".sock")
        text = self.config.read_text()
        self.config.write_text(text.replace("}", f", unix: {self.path}}}", 1))


def log_of(count, step_ns=10**7, keys=KEYS):
    rng = random.Random(20260101)
    return [{"t_ns": START_NS + i * step_ns, "key": rng.choice(keys), "cost": rng.choice((0, 1, 1, 1, 2))}
            for i in range(count)]


def replay(box, url, log, *options, password=None):
    lines = log if isinstance(log, bytes) else "".join(json.dumps(r) + "\n" for r in log).encode()
    env = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}
    if password:
        env["WEIR_PASSWORD"] = password
    return subprocess.run([box.weir, "replay", "--against", url, *options, "-"], input=lines, env=env,
                          capture_output=True, check=False)


def counts(done):
    """How many decisions are the same, undecided, different."""
    found = re.search(rb"(\d+) decisions? the same, (\d+) undecided, (\d+) different", done.stderr)
    expect(found, f"exit status {done.returncode}: {done.stderr.decode()}")
    return [int(n) for n in found.groups()]


def policy_options(*names):
    return [word for name in names for word in ("--policy", name)]


def urls_of(daemon):
    return (f"resp://{HOST}:{daemon.port}", f"redis://{HOST}:{daemon.port}/", f"http://{HOST}:{daemon.http}",
            f"unix://{daemon.path}")


def expect_same(box, log, options, policies, speed):
    """Every daemon is new, since the states of the one before would differ."""
    for i in range(4):
        daemon = UnixDaemon(box, POLICIES, None, engine=None).start()
        done = replay(box, urls_of(daemon)[i], log, "--config", daemon.config, "--speed", speed, *options)
        same, undecided, different = counts(done)
        expect(done.returncode == 0 and different == 0, f"{urls_of(daemon)[i]}: {done.stderr.decode()}")
        expect(same + undecided == len(log) * policies, f"{same} + {undecided} of {len(log)} * {policies}")
        expect(same > 0, f"{same} the same, {undecided} undecided")
        daemon.end()


def same_at_once(box):
    names = [*POLICIES, *TEXTS]
    expect_same(box, log_of(500), policy_options(*names), len(names), "max")


def same_at_a_pace(box):
    """The quota returns during the run: 200 requests in 2 s of the log, at four times its pace."""
    names = [*POLICIES, TEXTS[0], TEXTS[2]]
    expect_same(box, log_of(200), policy_options(*names), len(names), "4")


def odd_keys(box):
    """Keys of any bytes, and long ones, arrive as they are: each allows the same number of units."""
    keys = [b"a b", b"%41", b"\xff\xfe", b"\xc3\xa9", b"x&cost=9", b'"\\', b"k" * 5000, b"*3", b"+"]
    log = b"".join(b"%d\t%s\t1\n" % (START_NS, key) for _ in range(4) for key in keys)
    for i in (0, 2):
        daemon = UnixDaemon(box, POLICIES, None, engine=None).start()
        done = replay(box, urls_of(daemon)[i], log, "--policy", "gcra 1/h burst 3", "--speed", "max")
        expect(counts(done) == [36, 0, 0], done.stderr.decode())
        daemon.end()


def different(box):
    """The daemon has a larger burst, and its own state."""
    daemon = UnixDaemon(box, {"api": "gcra 1/h burst 4"}, None, engine=None).start()
    other = box.path / "other.yaml"
    other.write_text("policies: {api: gcra 1/h burst 3}\n")
    log = [{"t_ns": START_NS, "key": "alice"}] * 5
    for url in urls_of(daemon)[:1]:
        done = replay(box, url, log, "--config", other, "--policy", "api", "--speed", "max")
        expect(done.returncode == 1 and counts(done)[2] == 5, done.stderr.decode())
        expect(b"<stdin>:4: different: key alice, policy api: offline denied with 0 of 3 left, the daemon allowed "
               b"with 0 of 4 left" in done.stderr, done.stderr.decode())
        expect(b"hint: 1 of the differences is the first decision on a key" in done.stderr, done.stderr.decode())
        expect(b"Allowed" in done.stdout or b"allowed" in done.stdout, "the report of the offline decisions")


def earlier_state(box):
    daemon = UnixDaemon(box, POLICIES, None, engine=None).start()
    log = [{"t_ns": START_NS, "key": "alice"}] * 3
    options = ("--policy", "gcra 1/h burst 4", "--speed", "max")
    expect(counts(replay(box, urls_of(daemon)[0], log, *options)) == [3, 0, 0], "the first run")
    done = replay(box, urls_of(daemon)[2], log, *options)
    expect(done.returncode == 1 and counts(done) == [0, 0, 3], done.stderr.decode())
    expect(b"<stdin>:2: different" in done.stderr, done.stderr.decode())


def killed(box):
    """The first request is answered. The daemon is killed before the last ones are sent."""
    daemon = UnixDaemon(box, POLICIES, None, engine=None).start()
    lines = [json.dumps({"t_ns": START_NS + i * 20 * 10**9, "key": "alice"}) + "\n" for i in range(6)]
    words = [box.weir, "replay", "--policy", "gcra 1/h burst 3", "--against", urls_of(daemon)[0], "--speed", "200"]
    with subprocess.Popen([*words, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as running:
        running.stdin.write("".join(lines[:4]))
        running.stdin.flush()
        until(lambda: daemon.metric("weir_decisions_total") >= 1, "the first request arrives")
        daemon.kill()
        _, error = running.communicate("".join(lines[4:]))
    expect(running.returncode == 1, f"exit status {running.returncode}: {error}")
    expect(re.search(r"--against: .*(connection lost|closed the connection)", error), error)
    expect("stopped after" in error, error)


def refused(box):
    """Errors of the daemon name the place."""
    daemon = UnixDaemon(box, POLICIES, None, engine=None, more="password: s3cret").start()
    other = box.path / "other.yaml"
    other.write_text("policies: {absent: gcra 1/h}\n")
    log = [{"t_ns": START_NS, "key": "alice"}]
    by_resp, _, by_http, _ = urls_of(daemon)
    cases = [(by_resp, None, "requires a password: set WEIR_PASSWORD"), (by_resp, "wrong", "password"),
             (by_http, None, "password"), (by_http, "wrong", "password"),
             (by_resp, "s3cret", "<stdin>:1: "), (by_http, "s3cret", "<stdin>:1: ")]
    for url, password, text in cases:
        done = replay(box, url, log, "--config", other, "--policy", "absent", password=password)
        expect(done.returncode == 1 and text.encode() in done.stderr, f"{url} {password}: {done.stderr}")
        expect(password != "s3cret" or b"absent" in done.stderr, f"{url}: {done.stderr}")


def wrong_protocol(box):
    daemon = UnixDaemon(box, POLICIES, None, engine=None).start()
    log = [{"t_ns": START_NS, "key": "alice"}]
    for url in (f"resp://{HOST}:{daemon.http}", f"http://{HOST}:{daemon.port}"):
        done = replay(box, url, log, "--policy", "gcra 1/h")
        expect(done.returncode == 1 and b"weir replay: --against: " in done.stderr, f"{url}: {done.stderr}")
    with socket.socket() as free:
        free.bind((HOST, 0))
        done = replay(box, f"resp://{HOST}:{free.getsockname()[1]}", log, "--policy", "gcra 1/h")
        expect(done.returncode == 1 and b"cannot connect" in done.stderr, str(done.stderr))


class Stub:
    """A server that sends canned bytes, one by one, to a single connection, once it has received something."""

    def __init__(self, *replies):
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, args=(replies,), daemon=True).start()

    def serve(self, replies):
        connection, _ = self.listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # the client may close first
            for reply in replies:
                connection.recv(1 << 16)
                for i in range(len(reply)):
                    connection.sendall(reply[i:i + 1])
        connection.close()
        self.listener.close()


def http_reply(body, head=b""):
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


def strange_replies(box):
    """Replies that arrive byte by byte are read; what no daemon sends is an error, and no crash."""
    log = [{"t_ns": START_NS, "key": "alice"}]
    hello = b"%1\r\n+server\r\n+weir\r\n"
    good = b'{"allowed":true,"limit":3,"remaining":2,"reason":"limit"}'
    for scheme, replies in (("resp", (hello, b"*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:0\r\n:0\r\n")),
                            ("http", (http_reply(good),)),
                            ("http", (http_reply(good, b"X: " + b"x" * 4000 + b"\r\n"),))):
        done = replay(box, f"{scheme}://{HOST}:{Stub(*replies).port}", log, "--policy", "gcra 1/h burst 3")
        expect(done.returncode == 0 and counts(done) == [1, 0, 0], f"{replies}: {done.stderr}")
    closed, unexpected = b"closed the connection", b"unexpected reply"
    for replies, text in (((http_reply(b"no JSON"),), unexpected), ((http_reply(b'{"allowed":1}'),), unexpected),
                          ((http_reply(b'{"detail":"a reason"}'),), b"<stdin>:1: 127.0.0.1:"),
                          ((b"HTTP/1.1 200 OK\r\n\r\n",), unexpected), ((b"SSH-2.0-x\r\n",), unexpected),
                          ((b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",), unexpected),
                          ((b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20000,), unexpected),
                          ((http_reply(good)[:-1],), closed), ((b"",), closed)):
        done = replay(box, f"http://{HOST}:{Stub(*replies).port}", log, "--policy", "gcra 1/h burst 3")
        expect(done.returncode == 1 and text in done.stderr, f"{replies}: {done.stderr}")
    for replies, text in (((hello, b"+OK\r\n"), unexpected), ((hello, b"*1\r\n:1\r\n"), unexpected),
                          ((hello, b"-ERR no\r\n"), b"<stdin>:1: 127.0.0.1:"), ((hello, b"*6\r\n:1"), closed),
                          ((hello, b"?\r\n"), b"expected a reply in RESP3"), ((b"-ERR no\r\n",), b"ERR no")):
        done = replay(box, f"resp://{HOST}:{Stub(*replies).port}", log, "--policy", "gcra 1/h burst 3")
        expect(done.returncode == 1 and text in done.stderr, f"{replies}: {done.stderr}")


def wrong_usage(box):
    log = [{"t_ns": START_NS, "key": "alice"}]
    for url in ("localhost:1", "resp://", "resp://localhost", "http://localhost", "https://localhost:1",
                "rediss://localhost:1", "http://localhost:1/v1", "unix://relative", "redis://:p@localhost:1",
                "resp://localhost:0"):
        done = replay(box, url, log, "--policy", "gcra 1/h")
        expect(done.returncode == 2 and b"--against: " in done.stderr, f"{url}: {done.stderr}")
    for speed in ("", "0", "-1", "fast", "1e9", "1x", "inf", "nan"):
        done = replay(box, "resp://localhost:1", log, "--policy", "gcra 1/h", f"--speed={speed}")
        expect(done.returncode == 2 and b"--speed: expected a factor" in done.stderr, f"{speed}: {done.stderr}")
    done = subprocess.run([box.weir, "replay", "--policy", "gcra 1/h", "--speed", "2", "-"], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False)
    expect(done.returncode == 2 and b"--speed: expected --against" in done.stderr, str(done.stderr))


TESTS = [same_at_once, same_at_a_pace, odd_keys, different, earlier_state, killed, refused, wrong_protocol,
         strange_replies, wrong_usage]

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv, needs_redis=False))
