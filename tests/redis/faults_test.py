#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Redis hangs, is down, full, read-only, busy or slow, or sends garbage: every request still gets a
reply, in time and as `on_error` says. After recovery, every limit is kept again.

    faults_test.py WEIR MODULE [--long | NAME...]

A test injects a fault into a server under load, and removes it. Each phase has its own keys, and is
checked by the requests admitted, the replies, and their latency."""

import contextlib
import re
import socket
import sys
import threading
from http.client import HTTPConnection

from kit.load import Load, takes
from kit.process import HOST, PATIENCE_S, expect, run, say, until
from kit.redis import Redis
from kit.resp import Refused
from kit.weir import Daemon

LIMIT = 50
POLICIES = {name: f'{{limit: "fixed-window {LIMIT}/w from-first", on_error: {name}}}'
            for name in ("open", "closed", "local")}
DEADLINE_MS = 200
# The latency of a reply. It is generous, because it includes the scheduling of this process.
LONGEST_MS = 25 * DEADLINE_MS
DAEMONS = 2


class Proxy:
    """A proxy between daemons and a server. It can delay, change or drop replies."""

    def __init__(self, port):
        self.to, self.mode, self.delay_s = port, "pass", 0
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.ended, self.open = threading.Event(), []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                inner, _ = self.listener.accept()
            except OSError:
                return
            try:
                outer = socket.create_connection((HOST, self.to), 5)
            except OSError:
                inner.close()
                continue
            outer.settimeout(None)
            for end in (inner, outer):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.open += [inner, outer]
            for args in ((inner, outer, False), (outer, inner, True)):
                threading.Thread(target=self.carry, args=args, daemon=True).start()

    def carry(self, source, target, is_reply):
        with contextlib.suppress(OSError):
            while got := source.recv(1 << 16):
                self.ended.wait(self.delay_s if is_reply else 0)
                if is_reply and self.mode == "dribble":
                    for byte in got:
                        target.sendall(bytes([byte]))
                else:
                    target.sendall(self.changed(got, target) if is_reply else got)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def changed(self, got, target):
        """What happens to the reply."""
        while self.mode == "mute" and not self.ended.wait(0.005):
            pass  # it is delivered later
        if self.mode == "cut":
            target.sendall(got[:len(got) // 2])
            raise OSError
        made = {"pass": got, "noise": bytes(range(255, 0, -1)) * 3,
                "loading": b"-LOADING Redis is loading the dataset in memory\r\n" * 64,
                "other type": b"+OK\r\n" * 64, "short": b"*2\r\n:1\r\n:2\r\n" * 64,
                "text in it": b"*8\r\n" + b"$3\r\nabc\r\n" * 8,
                "deep": b"*1\r\n" * 20000, "endless": b"$536870912\r\n" + b"x" * 4096,
                "negative": b"*8\r\n" + b":-5\r\n" * 8, "huge": b"*8\r\n" + b":9223372036854775807\r\n" * 8}
        return made[self.mode]

    def close(self):
        self.ended.set()
        for end in [self.listener, *self.open]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def daemons_of(box, url, by="any", engine="redis"):
    redis = {"url": url, "deadline": f"{DEADLINE_MS}ms", "by": by}
    return [Daemon(box, POLICIES, redis, engine=engine).start() for _ in range(DAEMONS)]


def errors_of(daemons):
    """The number of decisions by on_error."""
    return sum(daemon.metric("weir_redis_by_error_total") for daemon in daemons)


def unknown_of(daemons):
    """The number of requests that may have been charged although no reply came in time."""
    return sum(daemon.metrics()[f'weir_redis_failures_total{{reason="{reason}"}}']
               for daemon in daemons for reason in ("timeout", "connection_lost"))


def reaches(daemon, attempt=[0]):
    """Whether the server decides: nothing else may allow this request."""
    attempt[0] += 1
    return daemon.call("WEIR.TAKE", "closed", f"probe{attempt[0]}")[0] == 1


def await_decisions(daemons):
    for daemon in daemons:
        until(lambda d=daemon: reaches(d), f"{daemon.name} gets decisions from its server")


def check_limits(load, daemons, name, over=0):
    """A phase in which every limit is kept, exactly if every reply was in time.
    over: how much a hybrid may admit beyond it."""
    keys = [f"{name}{i}" for i in range(3)]
    load.requests = takes(POLICIES, keys)
    before = errors_of(daemons)
    load.resume()
    load.wait(LIMIT * len(POLICIES) * len(keys) * 3)
    load.pause()
    record, late = load.phase(name), errors_of(daemons) - before
    expect(not record.errors and not record.lost, "every reply is a decision")
    for label, allowed in record.allowed.items():
        most = over + (LIMIT if label[0] == "closed" else LIMIT + late)
        expect(allowed <= most, f"{label}: {allowed} admitted, {late:.0f} replies were late")
        expect(late or allowed >= LIMIT, f"{label}: {allowed} admitted")


def check_fault(load, name, by_server=False):
    """A phase in which on_error decides (with `by_server`, the server may decide some)."""
    keys = [f"while {name}{i}" for i in range(3)]
    keys = [key.replace(" ", "_") for key in keys]
    load.requests = takes(POLICIES, keys)
    load.resume()
    load.wait(1500)
    load.pause()
    record = load.phase(name)
    expect(not record.errors and not record.lost, "every reply is a decision")
    expect(record.longest_ns / 1e6 <= LONGEST_MS, f"the slowest reply took {record.longest_ns / 1e6:.0f} ms")
    for key in keys:
        if not by_server:
            expect(record.denied["open", key] == 0, "open: all are allowed")
            expect(record.allowed["closed", key] == 0, "closed: none is allowed")
        most = (DAEMONS + (1 if by_server else 0)) * LIMIT
        expect(0 < record.allowed["local", key] <= most, "local: each daemon keeps the limit")


def run_faults(box, faults, by="any", engine="redis", **options):
    """faults  a list of (name, inject(redis, proxy), remove(redis, proxy))."""
    over = DAEMONS * (LIMIT // 16) if engine == "hybrid" else 0
    redis = Redis(box, **options).start()
    proxy = Proxy(redis.port)
    daemons = daemons_of(box, f"redis://{HOST}:{proxy.port}", by, engine)
    try:
        with Load(daemons, takes(POLICIES, ["first"]), paused=True) as load:
            await_decisions(daemons)
            check_limits(load, daemons, "before all", over)
            for name, inject, remove in faults:
                load.phase()
                inject(redis, proxy)
                check_fault(load, name, by_server=name in DECIDES_SOME)
                remove(redis, proxy)
                await_decisions(daemons)
                load.phase()
                check_limits(load, daemons, "after_" + name.replace(" ", "_"), over)
        for daemon in daemons:
            expect(daemon.end() == 0, f"{daemon.name} stops with status 0:\n{daemon.tail()}")
            say(f"{daemon.name} logged {len(daemon.log_text().splitlines())} lines")
    finally:
        proxy.close()


# ---- the faults ----------------------------------------------------------------------------------


def mode(name, delay_s=0):
    def inject(_, proxy):
        proxy.mode, proxy.delay_s = name, delay_s
    return inject


def heal_proxy(_, proxy):
    proxy.mode, proxy.delay_s = "pass", 0


def follow_nobody(redis, _):
    redis.call("REPLICAOF", HOST, 1)


def lead(redis, _):
    redis.call("REPLICAOF", "NO", "ONE")


def forbid(redis, _):
    redis.call("ACL", "SETUSER", "default", "-fcall", "-evalsha", "-eval",
               *(["-weir.ask", "-weir.askall"] if redis.module else []))


def fill_disk(redis, _):
    redis.limit_file_size(1)

    def is_full():
        try:
            redis.call("SET", "filler", "x" * 1000)
        except Refused as refused:
            return "MISCONF" in str(refused)
        return False

    until(is_full, "the server says that its file cannot be written")


def empty_disk(redis, _):
    redis.limit_file_size(-1)
    until(lambda: redis.info("persistence")["aof_last_write_status"] == "ok", "the file is written")


def be_busy(redis, _):
    """A script of another client that never ends."""
    redis.call("CONFIG", "SET", "busy-reply-threshold", 10)
    threading.Thread(target=run_for_ever, args=(redis,), daemon=True).start()

    def is_busy():
        try:
            return redis.call("PING") != "PONG"
        except Refused as refused:
            return str(refused).startswith("BUSY")

    until(is_busy, "the server is busy")


def run_for_ever(redis):
    with contextlib.suppress(Refused, OSError):
        redis.call("EVAL", "while true do end", 0)


HUNG = ("hung", lambda r, p: r.pause(), lambda r, p: r.resume())
GONE = ("gone", lambda r, p: r.kill(), lambda r, p: r.start())
FULL = ("out of memory", lambda r, p: r.call("CONFIG", "SET", "maxmemory", 1),
        lambda r, p: r.call("CONFIG", "SET", "maxmemory", 0))
READS = ("read-only", follow_nobody, lead)
FORBIDS = ("forbidden", forbid, lambda r, p: r.call("ACL", "SETUSER", "default", "+@all"))
DISK = ("full disk", fill_disk, empty_disk)
BUSY = ("busy", be_busy, lambda r, p: r.call("SCRIPT", "KILL"))
SLOW = ("slow", mode("pass", 1), heal_proxy)
MUTE = ("mute", mode("mute"), heal_proxy)
NONSENSE = [(name, mode(name), heal_proxy) for name in
            ("noise", "loading", "other type", "short", "text in it", "deep", "endless", "cut",
             "negative", "huge")]
# The bytes before the cut are forwarded.
DECIDES_SOME = ("cut",)
ON_DISK = {"appendonly": "yes", "appendfsync": "everysec", "fixed_file_size": True}


def module(box):
    run_faults(box, [HUNG, GONE, FULL, READS], module=True)


def functions(box):
    run_faults(box, [HUNG, DISK, SLOW], **ON_DISK)


def nonsense(box):
    run_faults(box, [(name, mode(name), heal_proxy) for name in ("noise", "cut", "deep")], module=True)


# The faults of the long tests, some of which are slow.


def long_module(box):
    run_faults(box, [HUNG, GONE, FULL, READS, FORBIDS, DISK, BUSY, SLOW, MUTE], module=True, **ON_DISK)


def long_functions(box):
    run_faults(box, [HUNG, GONE, FULL, READS, FORBIDS, DISK, BUSY, SLOW, MUTE], **ON_DISK)


def long_script(box):
    run_faults(box, [HUNG, GONE, FULL, READS, FORBIDS, DISK, BUSY, SLOW, MUTE], by="script", **ON_DISK)


def long_hybrid(box):
    run_faults(box, [HUNG, GONE, FULL, READS, DISK, SLOW], engine="hybrid", module=True, **ON_DISK)


def long_nonsense(box):
    run_faults(box, NONSENSE, module=True)


def long_nonsense_functions(box):
    run_faults(box, NONSENSE)


# ---- lost libraries, restarts, persistence -------------------------------------------------------


def flush(box, words, by):
    """The library or the script is deleted from the server again and again. No request fails."""
    redis = Redis(box).start()
    patient = {"url": redis.url(), "deadline": "20s", "by": by}
    daemons = [Daemon(box, {"p": f"fixed-window {LIMIT}/w from-first"}, patient).start()
               for _ in range(DAEMONS)]
    keys = [f"k{i}" for i in range(40)]
    with Load(daemons, takes(["p"], keys)) as load:
        flushes = 0
        while load.check() and sum(load.record.allowed.values()) < LIMIT * len(keys):
            redis.call(*words)
            flushes += 1
            load.wait(load.record.replies() + 40)
            expect(load.record.replies() < 400 * LIMIT * len(keys), "every key reaches its limit")
        load.pause()
        record = load.phase(f"{words[0]} {words[1]}, {flushes} times")
    expect(not record.errors and not record.lost, "every reply is a decision")
    expect(all(record.allowed["p", key] == LIMIT for key in keys), f"{record.allowed}")
    expect(errors_of(daemons) == 0, "the server decided every request")


def function_flush(box):
    flush(box, ("FUNCTION", "FLUSH"), "any")


def script_flush(box):
    flush(box, ("SCRIPT", "FLUSH"), "script")


def daemon_restart(box):
    """A daemon is killed and restarted. The limit is kept."""
    redis = Redis(box, module=True).start()
    limit = 20000
    patient = {"url": redis.url(), "deadline": "20s", "on_error": "closed"}
    daemons = [Daemon(box, {"p": f"fixed-window {limit}/w from-first"}, patient).start()
               for _ in range(DAEMONS)]
    restarts = 0
    with Load(daemons, takes(["p"], ["one"])) as load:
        while load.check() and load.record.allowed["p", "one"] + load.record.lost < limit \
                and restarts < 6:
            load.wait(load.record.replies() + 1000)
            daemons[0].kill()
            daemons[0].start()
            restarts += 1
        load.wait(load.record.replies() + limit)
        load.pause()
        record = load.phase(f"{restarts} restarts of a daemon")
    admitted = record.allowed["p", "one"]
    say(f"limit {limit}: {admitted} admitted, {record.lost} replies were lost with the daemon")
    expect(limit - record.lost <= admitted <= limit, "charges are kept")


def redis_restart(box):
    """With its AOF, a killed server keeps every charge that it answered."""
    redis = Redis(box, module=True, appendonly="yes", appendfsync="always").start()
    limit = 3000
    policies = {"p": f'{{limit: "fixed-window {limit}/w from-first", on_error: closed}}',
                "closed": POLICIES["closed"]}
    patient = {"url": redis.url(), "deadline": f"{DEADLINE_MS}ms"}
    daemons = [Daemon(box, policies, patient).start() for _ in range(DAEMONS)]
    restarts = 0
    with Load(daemons, takes(["p"], ["one"])) as load:
        while load.check() and restarts < 3:
            load.wait(load.record.replies() + 300)
            redis.restart()
            await_decisions(daemons)
            restarts += 1
        until(lambda: load.check() and daemons[0].call("WEIR.PEEK", "p", "one")[2] == 0,
              "the limit is reached")
        load.pause()
        record = load.phase(f"{restarts} restarts of Redis")
    admitted = record.allowed["p", "one"]
    unknown = unknown_of(daemons)
    say(f"limit {limit}: {admitted} admitted; {errors_of(daemons):.0f} decisions by on_error, "
        f"of which {unknown:.0f} may have been charged")
    expect(limit - unknown <= admitted <= limit, "charges are kept")


# ---- start, stop, and slow connections -----------------------------------------------------------


def dribble(box):
    """Replies that arrive byte by byte are read."""
    redis = Redis(box, module=True).start()
    proxy = Proxy(redis.port)
    proxy.mode = "dribble"
    daemons = daemons_of(box, f"redis://{HOST}:{proxy.port}")
    with Load(daemons, takes(POLICIES, ["first"]), paused=True) as load:
        await_decisions(daemons)
        check_limits(load, daemons, "a byte at a time")
    proxy.close()


def late_start(box):
    """A daemon starts before its server. A daemon stops while its server hangs."""
    redis = Redis(box, module=True).start()
    redis.kill()
    daemons = daemons_of(box, redis.url())
    with Load(daemons, takes(POLICIES, ["first"]), paused=True) as load:
        check_fault(load, "before the server")
        redis.start()
        await_decisions(daemons)
        load.phase()
        check_limits(load, daemons, "with the server")
        redis.pause()
        load.requests = takes(POLICIES, ["end"])
        load.resume()
        load.wait(100)
        load.is_paused = True
        for daemon in daemons:
            expect(daemon.end() == 0, f"{daemon.name} stops with status 0:\n{daemon.tail()}")
        load.is_stopping = True
    redis.resume()


def wrong(box):
    """A daemon that the server rejects logs the reason, and still replies."""
    redis = Redis(box, module=True, password="secret").start()
    for change, says in (({"password": "other"}, "WRONGPASS"), ({}, "NOAUTH"),
                         ({"password": "secret", "by": "functions"}, None),
                         ({"password": "secret", "url": f"redis://{HOST}:{redis.port}/3"}, None),
                         ({"password": "secret", "url": f"redis://{HOST}:{redis.port}/99"}, "DB")):
        options = {"url": f"redis://{HOST}:{redis.port}", "deadline": f"{DEADLINE_MS}ms", **change}
        daemon = Daemon(box, POLICIES, options).start()
        if says:
            expect(daemon.call("WEIR.TAKE", "closed", "a")[0] == 0, f"{change} does not decide")
            until(lambda d=daemon, s=says: re.search(rf"redis-down.*{s}", d.log_text()),
                  f"the log says {says}")
            expect("secret" not in daemon.log_text() and "other" not in daemon.log_text(), "no passwords")
        else:
            await_decisions([daemon])
        expect(daemon.end() == 0, "the daemon stops with status 0")
    with contextlib.closing(redis.client()) as client:
        client.call("SELECT", 3)
        expect(client.call("DBSIZE") > 0, "a database is chosen")


def undone(box):
    """A refund or reset succeeds, or returns an error."""
    redis = Redis(box, module=True).start()
    daemon = Daemon(box, POLICIES, {"url": redis.url(), "deadline": "2s"}).start()
    await_decisions([daemon])
    expect(daemon.call("WEIR.TAKE", "open", "a")[2] == LIMIT - 1, "charged")
    expect(daemon.call("WEIR.REFUND", "open", "a", 1)[2] == LIMIT, "refunded")
    redis.kill()
    until(lambda: errors_of([daemon]) > 0 or not daemon.call("WEIR.TAKE", "closed", "b"),
          "the server is away")
    for words in (["WEIR.REFUND", "open", "a", 1], ["WEIR.RESET", "open", "a"]):
        try:
            answer = daemon.call(*words)
        except Refused as refused:
            say(f"{words[0]}: {refused}")
            continue
        expect(False, f"{words} was answered {answer}")


def http(box):
    """The same over HTTP: many requests wait at once, and all get a response."""
    redis = Redis(box, module=True).start()
    daemon = Daemon(box, POLICIES, {"url": redis.url(), "deadline": "2s"}).start()
    await_decisions([daemon])

    def answers(key):
        asked = []
        for policy in ("open", "closed") * 20:
            connection = HTTPConnection(HOST, daemon.http, timeout=PATIENCE_S)
            connection.request("GET", f"/v1/take?policy={policy}&key={key}")
            asked.append(connection)
        found = [connection.getresponse() for connection in asked]
        bodies = [answer.read() for answer in found]
        for connection in asked:
            connection.close()
        say(f"{key}: {bodies[0].decode().strip()}")
        return [answer.status for answer in found]

    expect(answers("well") == [200] * 40, "the server decides")
    redis.pause()
    expect(answers("hung") == [200, 429] * 20, "on_error decides")
    redis.resume()


TESTS = [module, functions, nonsense, function_flush, script_flush, daemon_restart, redis_restart,
         dribble, late_start, wrong, undone, http]
LONG = [long_module, long_functions, long_script, long_hybrid, long_nonsense, long_nonsense_functions]

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv, LONG))
