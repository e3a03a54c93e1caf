#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""nginx with weir_daemon: the limits are decided by a real daemon, or by a fake one that fails in every
way. The keys of each test have limits for a week, so that time does not matter.

    daemon_test.py WEIR MODULE [--long | NAME...]"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import sys
import threading
import time

from kit import nginx as kit
from kit.nginx import Nginx
from kit.process import HOST, equal, expect, free_port, until
from kit.resp import Client
from kit.weir import Daemon

POLICY = "fixed-window {}/w from-first"
ZONE = "weir_zone z 1m;"
LOST, BACK = r"\[error\].*weir daemon \S+ is unavailable", r"\[notice\].*weir daemon \S+ is available again"
ALLOWED = b"*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:0\r\n:0\r\n"
LONG = "timeout=20s"  # no deadline passes within a test, even on a busy machine


def policy(limit):
    return POLICY.format(limit)


class Weir(Daemon):
    """A daemon that keeps its port when it is started again. Its first start takes a free one."""

    def __init__(self, box, *, unix=None, password=None, port=0):
        self.unix, self.password, self.fixed_port = unix, password, port
        super().__init__(box, {"unused": policy(1)}, engine=None)

    def write(self):
        super().write()
        text = self.config.read_text()
        listen = f"resp: {HOST}:{self.fixed_port}, http: {HOST}:0" + (f", unix: {self.unix}" if self.unix else "")
        text = re.sub(r"^listen: .*$", f"listen: {{{listen}}}", text, flags=re.M)
        self.config.write_text(text + (f"password: {self.password}\n" if self.password else ""))

    def start(self):
        super().start()
        self.fixed_port = self.port
        self.write()
        return self

    def remaining(self, limit, key):
        with contextlib.closing(Client(self.port, password=self.password)) as client:
            return client.call("WEIR.PEEK", policy(limit), key)[2]


class Fake(threading.Thread):
    """A server that replies to the first command of each connection with +PONG, and to each further
    command with what `reply` returns: bytes, or None to close the connection."""

    def __init__(self, reply, greeting=b"+PONG\r\n"):
        super().__init__(daemon=True)
        self.reply, self.greeting = reply, greeting
        self.accepted, self.asked, self.closed = 0, 0, 0
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.accepted += 1
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as file:
            self.read_command(file)
            connection.sendall(self.greeting)
            while words := self.read_command(file):
                self.asked += 1
                reply = self.reply(words)
                if reply is None:
                    return
                connection.sendall(reply)

    @staticmethod
    def read_command(file):
        count = int(file.readline()[1:])
        return [file.read(int(file.readline()[1:]) + 2)[:-2] for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def location(path, address, limit, options, key="$arg_k"):
    return (f'location {path} {{ weir z "{policy(limit)}" key={key} name=l{limit}{path.replace("/a", "_")}; '
            f"weir_daemon {address} {options}; }}\n")


def serve(box, address, *locations, **more):
    """An nginx with a location for each (path, limit, options)."""
    server = "".join(location(path, address, limit, options) for path, limit, options in locations)
    return start(box, server, **more)


def start(box, server, http=ZONE, **more):
    """An nginx with these locations, each with a file to serve."""
    one = Nginx(box, http, server, **more)
    for path in re.findall(r"location /(\w+)", server):
        (one.html / path).write_text("here\n")
    return one.start()


def tcp(daemon):
    return f"{HOST}:{daemon.port}"


def statuses(one, path, count):
    with one.client() as client:
        return [client.get(path).status for _ in range(count)]


def logged(one, pattern):
    return len(one.logged(pattern))


# ---- a daemon that replies -----------------------------------------------------------------------


def counts_are_exact(box):
    """Requests on 64 connections to 2 workers, pipelined, are admitted exactly up to the limit, and so
    they are with several connections to the daemon."""
    weir = Weir(box).start()
    one = serve(box, tcp(weir), ("/one", 700, LONG), ("/four", 700, f"{LONG} connections=4"), workers=2)
    for path in ("/one", "/four"):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(one.client()) for _ in range(64)]
            for client in clients:
                client.send(*[f"{path}?k={path}" for _ in range(20)])
            found = [client.read().status for client in clients for _ in range(20)]
        equal((found.count(200), found.count(429)), (700, 580), path)
    equal(logged(one, "weir daemon"), 0, "no line is logged")


def connections_are_kept(box):
    """A worker opens as many connections as it may, at the first questions, and keeps them."""
    for wanted in (1, 3):
        with Fake(lambda words: ALLOWED) as fake:
            one = serve(box, tcp(fake), ("/a", 9, f"{LONG} connections={wanted}"))
            equal(fake.accepted, 0, "connections before the first question")
            equal(statuses(one, "/a?k=a", 12), [200] * 12, "statuses")
            equal((fake.accepted, fake.asked), (wanted, 12), "connections and questions")
            one.stop()


def several_limits_are_one_question(box):
    """All limits of a location are charged, or none is."""
    weir = Weir(box).start()
    one = start(box, f'location /both {{ weir z "{policy(5)}" key=$arg_a name=a; '
                     f'weir z "{policy(2)}" key=$arg_b name=b; '
                     f"weir_daemon {tcp(weir)} {LONG}; }}")
    equal(statuses(one, "/both?a=x&b=y", 4), [200, 200, 429, 429], "the second limit denies")
    equal(statuses(one, "/both?a=x", 4), [200, 200, 200, 429], "the first limit has what was not charged")
    equal(statuses(one, "/both?b=z", 3), [200, 200, 429], "the second limit alone")
    equal(statuses(one, "/both", 3), [200] * 3, "no limit")


def shadow_limits_are_asked_alone(box):
    """A shadow limit is charged for each request, and denies none."""
    weir = Weir(box).start()
    one = start(box, f'location /a {{ weir z "{policy(4)}" key=$arg_k; weir z "{policy(2)}" key=$arg_k shadow; '
                     f'weir z "{policy(3)}" key=$arg_k shadow; weir_daemon {tcp(weir)} {LONG}; }}')
    equal(statuses(one, "/a?k=a", 5), [200] * 4 + [429], "statuses")
    equal(logged(one, f'limiting requests by "{policy(2)}".*\\(shadow\\)'), 3, "the first shadow limit")
    equal(logged(one, f'limiting requests by "{policy(3)}".*\\(shadow\\)'), 2, "the second shadow limit")
    equal([weir.remaining(limit, "a") for limit in (4, 2, 3)], [0, 0, 0], "the daemon's counts")


def a_delay_of_the_daemon(box):
    """A request is held as long as the daemon says."""
    with Fake(lambda words: ALLOWED[:-4] + b":30\r\n") as fake:
        one = start(box, 'location /a { weir z "leaky-queue 1/s depth 9" key=$arg_k; '
                         f"weir_daemon {tcp(fake)} {LONG}; }}")
        equal(statuses(one, "/a?k=a", 2), [200, 200], "statuses")
        equal(logged(one, "delaying request by 0.030 s"), 2, "lines")


def a_password_and_a_socket(box):
    """AUTH is sent, and a Unix socket may be the address."""
    weir = Weir(box, password="a word", unix=box.path / "weir.sock").start()
    weir.unix.chmod(0o666)  # the workers may run as another user
    password, unix = '"password=a word"', f"unix:{weir.unix}"
    cases = (("/tcp", tcp(weir), password), ("/unix", unix, password), ("/none", tcp(weir), ""),
             ("/wrong", unix, "password=word connect_timeout=20s"))
    one = start(box, "".join(location(path, address, 1, f"{LONG} on_error=closed {more}", key="$arg_k$uri")
                             for path, address, more in cases))
    for path in ("/tcp", "/unix"):
        equal(statuses(one, f"{path}?k=a", 2), [200, 429], path)
    for path, error in (("/none", "NOAUTH"), ("/wrong", "WRONGPASS")):
        expect(one.get(f"{path}?k=a").status != 200, f"{path} is denied")
        equal(logged(one, f"is unavailable: it refused the connection: {error}"), 1, "log lines")


# ---- a daemon that fails -------------------------------------------------------------------------


def a_daemon_ends_and_comes_back(box):
    """Without a daemon, on_error decides at once; each failure and each recovery is logged once."""
    weir = Weir(box).start()
    one = serve(box, tcp(weir), ("/open", 2, f"{LONG} on_error=open"), ("/closed", 2, f"{LONG} on_error=closed"),
                ("/local", 2, f"{LONG} on_error=local"))
    paths = ("/open", "/closed", "/local")
    for path in paths:
        equal(statuses(one, f"{path}?k={path}", 3), [200, 200, 429], f"{path} with a daemon")
    for turn in (1, 2):
        weir.kill()
        found = {path: statuses(one, f"{path}?k={path}{turn}", 4) for path in paths}
        equal(found["/open"], [200] * 4, "open")
        expect(200 not in found["/closed"], f"closed: {found['/closed']}")
        equal(found["/local"], [200, 200, 429, 429], "local")
        equal(logged(one, LOST), 3 * turn, "lines about the failure")
        weir.start()
        until(lambda now=turn: logged(one, BACK) == 3 * now, "the daemon is back")
        for path in paths:
            equal(statuses(one, f"{path}?k={path}", 3), [200, 200, 429], f"{path} with the daemon again")


def no_daemon_at_all(box):
    """A port where nobody listens, and a socket that does not exist."""
    port = free_port()
    for address, why in ((f"{HOST}:{port}", "Connection refused"), (f"unix:{box.path}/none", "No such file")):
        one = serve(box, address, ("/a", 2, LONG))
        equal(statuses(one, "/a?k=a", 4), [200] * 4, address)
        equal(logged(one, f"{LOST}: connect\\(\\) failed .*{why}"), 1, "lines")
        one.stop()


def a_lost_daemon_is_not_asked(box):
    """Questions do not make a worker connect again: only its timer does, less and less often."""
    with Fake(lambda words: None, greeting=b"-ERR no\r\n") as fake:
        one = serve(box, tcp(fake), ("/a", 2, f"{LONG} connections=2"))
        found, end = [], time.monotonic() + 0.4  # long enough for the first attempts of the timer
        until(lambda: found.extend(statuses(one, "/a?k=a", 20)) or time.monotonic() > end, "requests", every_s=0)
        equal(set(found), {200}, "statuses")
        expect(2 <= fake.accepted < 30, f"{fake.accepted} attempts")
        equal(logged(one, LOST), 1, "lines")


def a_daemon_that_greets_nobody(box):
    """A request waits for a connection no longer than timeout=, even if connect_timeout= is longer."""
    with Fake(lambda words: b"", greeting=b"") as fake:
        one = serve(box, tcp(fake), ("/a", 2, "timeout=20ms connect_timeout=60s"))
        equal(statuses(one, "/a?k=a", 3), [200] * 3, "statuses")
        equal(logged(one, f"{LOST}: connecting took longer"), 1, "lines")


def a_connection_is_closed_while_idle(box):
    """A daemon may close a connection on which it owes no reply. The next question opens another one."""

    class Closing(Fake):
        def serve(self, connection):
            with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as file:
                self.read_command(file)
                connection.sendall(self.greeting)
                self.read_command(file)
                connection.sendall(ALLOWED)
                connection.shutdown(socket.SHUT_WR)
                file.read()
                self.closed += 1

    with Closing(None) as fake:
        one = serve(box, tcp(fake), ("/a", 9, f"{LONG} on_error=closed"))
        for turn in range(1, 5):
            equal(one.get("/a?k=a").status, 200, f"request {turn}")
            until(lambda now=turn: fake.closed == now, "nginx closes the connection")
        equal((fake.accepted, logged(one, "weir daemon")), (4, 0), "connections and lines")


def a_connection_lives_on(box):
    """connect_timeout is over once the connection is there."""
    with Fake(lambda words: ALLOWED) as fake:
        one = serve(box, tcp(fake), ("/a", 9, "connect_timeout=50ms on_error=closed"))
        until(lambda: one.get("/a?k=a").status == 200, "the connection")
        accepted, asked, end = fake.accepted, fake.asked, time.monotonic() + 0.2
        until(lambda: one.get("/a?k=a") and time.monotonic() > end, "requests")
        equal(fake.accepted, accepted, "connections")
        expect(fake.asked > asked, "it was asked")


def a_daemon_is_killed_under_load(box):
    """All requests are answered, and the daemon is asked again each time."""
    weir = Weir(box).start()
    one = serve(box, tcp(weir), ("/a", 1000000, "timeout=5s on_error=closed connections=2"))
    ended, found = threading.Event(), set()

    def load():
        with one.client() as client:
            while not ended.is_set():
                client.send(*["/a?k=a"] * 4)
                found.update(client.read().status for _ in range(4))

    threads = [threading.Thread(target=load, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for turn in range(1, 6):
        until(lambda: one.get("/a?k=a").status == 200, "it is asked")
        weir.kill()
        until(lambda now=turn: logged(one, LOST) == now, "the failure is logged")
        weir.start()
        until(lambda now=turn: logged(one, BACK) == now, "the daemon is back")
    ended.set()
    for thread in threads:
        thread.join()
    equal(found, {200, 429}, "statuses")


def a_daemon_ends_after_a_question(box):
    """The worker sees a request and the end of the daemon at once, and asks again when the daemon is back."""
    weir = Weir(box).start()
    one = serve(box, tcp(weir), ("/a", 9, LONG))
    worker = until(one.worker_pids, "a worker").pop()
    with one.client() as client:
        equal(client.get("/a?k=a").status, 200, "with the daemon")
        os.kill(worker, signal.SIGSTOP)
        until(lambda: pathlib.Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] == "T", "it stops")
        client.send("/a?k=a")
        weir.kill()
        os.kill(worker, signal.SIGCONT)
        equal(client.read().status, 200, "by on_error")
    equal(logged(one, LOST), 1, "lines")
    weir.start()
    until(lambda: logged(one, BACK) == 1, "the daemon is back")


def a_stopped_daemon(box):
    """A daemon that does not reply in time: on_error decides, no request hangs, its late reply is dropped,
    and it is asked again once it replies."""
    weir = Weir(box).start()
    one = serve(box, tcp(weir), ("/a", 2, "timeout=20ms connect_timeout=100ms on_error=closed"))
    until(lambda: one.get("/a?k=first").status == 200, "the daemon replies in time")
    weir.pause()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(one.client()) for _ in range(16)]
        for client in clients:
            client.send("/a?k=a", "/a?k=a")
        found = [client.read().status for client in clients for _ in range(2)]
    expect(200 not in found, f"all fail: {found}")
    until(lambda: one.get("/a?k=a").status and logged(one, f"{LOST}: no reply") == 1, "the connection is given up")
    weir.resume()
    until(lambda: logged(one, BACK), "the daemon is back")
    until(lambda: one.get("/a?k=new").status == 200, "it is asked again")


def long_questions(weir, limits, more):
    """A location with so many limits, whose keys have 8 times the bytes of the argument k."""
    each = "".join(f'weir z "fixed-window 1000000/w from-first" key={"$arg_k" * 8} name=l{i}; ' for i in range(limits))
    return f"location /a{limits} {{ {each} weir_daemon {tcp(weir)} {more}; }}\n", f"/a{limits}?k={'k' * 8190}"


BIG = f"{ZONE} large_client_header_buffers 2 16k;"


def a_full_queue(box):
    """Questions beyond the queue of a connection fail at once, and the others wait for their replies."""
    weir = Weir(box).start()
    server, path = long_questions(weir, 15, f"{LONG} on_error=closed")
    one = start(box, server, http=BIG)
    equal(one.get(path).status, 200, "a long question")
    weir.pause()
    clients = [one.client() for _ in range(40)]
    for client in clients:
        client.send(path)
    until(lambda: any(client.is_readable(0.001) for client in clients), "some fail at once")
    expect(logged(one, "too many commands wait") > 0, "it is logged")
    weir.resume()
    found = [client.read().status for client in clients]
    expect(0 < found.count(200) < 40, f"the others are answered: {found}")
    for client in clients:
        client.close()


def a_question_that_is_too_long(box):
    """It is not sent: the daemon would close the connection."""
    weir = Weir(box).start()
    server, path = long_questions(weir, 16, f"{LONG} on_error=closed")
    one = start(box, server, http=BIG)
    equal(one.get("/a16?k=k").status, 200, "a short question")
    expect(one.get(path).status != 200, "a long question")
    equal((logged(one, "a command is too long"), logged(one, "replied with an error")), (1, 0), "lines")


def a_reply_too_many(box):
    """A reply without a question closes the connection."""
    replies = iter([ALLOWED] * 69 + [ALLOWED * 2])
    with Fake(lambda words: next(replies, ALLOWED)) as fake:
        one = serve(box, tcp(fake), ("/a", 9, f"{LONG} on_error=closed"))
        equal(statuses(one, "/a?k=a", 70), [200] * 70, "statuses")
        until(lambda: logged(one, f"{LOST}: it sent a reply that no command waits for") == 1, "it is lost")
        until(lambda: logged(one, BACK) == 1, "it is back")
        equal(one.get("/a?k=a").status, 200, "the next question")


def late_replies_are_dropped(box):
    """A reply after the deadline does not answer the next question."""
    go_on = threading.Event()

    def reply(words):
        if words[2] != b"late":
            return ALLOWED
        go_on.wait()
        return b"*6\r\n:0\r\n:9\r\n:0\r\n:5\r\n:5\r\n:0\r\n"

    with Fake(reply) as fake:
        one = serve(box, tcp(fake), ("/a", 9, "on_error=closed"))
        until(lambda: one.get("/a?k=first").status == 200, "the connection")
        expect(one.get("/a?k=late").status != 200, "a timeout")
        go_on.set()
        until(lambda: one.get("/a?k=good").status == 200, "the next question is answered")
        equal(logged(one, "limiting requests"), 0, "requests that the late reply has denied")


GARBAGE = {
    "integer": b":1\r\n",
    "simple": b"+OK\r\n",
    "map": b"%1\r\n:1\r\n:2\r\n",
    "short": b"*5\r\n" + b":1\r\n" * 5,
    "long": b"*7\r\n" + b":1\r\n" * 7,
    "texts": b"*6\r\n" + b"$1\r\n1\r\n" * 6,
    "allowed": b"*6\r\n:2\r\n:9\r\n:8\r\n:0\r\n:0\r\n:0\r\n",
    "remaining": b"*6\r\n:1\r\n:9\r\n:10\r\n:0\r\n:0\r\n:0\r\n",
    "negative": b"*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:-1\r\n:0\r\n",
    "bytes": bytes(range(256)) * 200,
    "closed": None,
    "half": b"*6\r\n:1\r\n:9",
}
TIMEOUTS = {"half": "timeout=20ms"}


def replying_once(bad):
    """A fake daemon whose first reply is bad."""
    replies = iter([bad])
    return Fake(lambda words: next(replies, ALLOWED))


def garbage(box):
    """A reply that no daemon sends closes the connection. The next connection is used."""
    with contextlib.ExitStack() as stack:
        fakes = {name: stack.enter_context(replying_once(bad)) for name, bad in GARBAGE.items()}
        one = start(box, "".join(location(f"/{name}", tcp(fake), 9, "on_error=closed " + TIMEOUTS.get(name, LONG))
                                 for name, fake in fakes.items()))
        for name in fakes:
            expect(one.get(f"/{name}?k=a").status != 200, name)
        for name, fake in fakes.items():
            until(lambda at=tcp(fake): logged(one, f'daemon "{at}" is available again'), f"{name}: it is used again")
            equal(logged(one, f'daemon "{tcp(fake)}" is unavailable'), 1, f"{name}: lines")
            if name not in TIMEOUTS:
                equal(one.get(f"/{name}?k=a").status, 200, name)


def error_replies(box):
    """An error reply fails its question alone, and is logged once a second at most."""
    replies = iter([b"-ERR a\r\n", b"-OOM b\r\n"])
    with Fake(lambda words: next(replies, ALLOWED)) as fake:
        one = serve(box, tcp(fake), ("/a", 9, f"{LONG} on_error=closed"))
        found = statuses(one, "/a?k=a", 3)
        expect(200 not in found[:2] and found[2] == 200, f"{found}")
        equal((fake.accepted, logged(one, LOST)), (1, 0), "the connection stays")
        expect(logged(one, "replied with an error: ERR a$|replied with an error: ERR a,") == 1, "the first is logged")


def a_reply_in_pieces(box):
    """Replies may arrive byte by byte."""

    class Slow(Fake):
        def serve(self, connection):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as file:
                self.read_command(file)
                pieces = self.greeting
                while True:
                    for i in range(len(pieces)):
                        connection.sendall(pieces[i:i + 1])
                    self.read_command(file)
                    pieces = b"*6\r\n:1\r\n:1000000000000000000\r\n:8\r\n:0\r\n:0\r\n:0\r\n"

    with Slow(None) as fake:
        one = serve(box, tcp(fake), ("/a", 9, f"{LONG} on_error=closed"))
        equal(statuses(one, "/a?k=a", 5), [200] * 5, "statuses")


# ---- requests and workers that end ---------------------------------------------------------------


class Holding(Fake):
    """Replies to no question until release() is called."""

    def __init__(self):
        super().__init__(None)
        self.lock, self.held, self.released = threading.Lock(), [], False

    def serve(self, connection):
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as file:
            self.read_command(file)
            connection.sendall(self.greeting)
            while self.read_command(file):
                with self.lock:
                    self.asked += 1
                    if self.released:
                        connection.sendall(ALLOWED)
                    else:
                        self.held.append(connection)

    def release(self):
        with self.lock:
            self.released = True
            for connection in self.held:
                connection.sendall(ALLOWED)

    def hold(self, one, count):
        """Sends requests, and returns their clients once their questions are here."""
        clients = [one.client() for _ in range(count)]
        for client in clients:
            client.send("/a?k=a")
        until(lambda: self.asked == count, f"{count} questions, not {self.asked}")
        return clients

    @staticmethod
    def finish(clients):
        equal([client.read().status for client in clients], [200] * len(clients), "statuses")
        for client in clients:
            client.close()


def clients_that_leave(box):
    """The replies to clients that have closed their connection are dropped, and the others get theirs."""
    with Holding() as fake:
        one = serve(box, tcp(fake), ("/a", 100, LONG))
        clients = fake.hold(one, 150)
        for client in clients[::2]:
            client.close()
        until(lambda: logged(one, "prematurely closed connection") == 75, "nginx sees it")
        fake.release()
        fake.finish(clients[1::2])


def questions_survive_a_reload(box):
    """Workers that shut down wait for the replies, answer their requests, and then end."""
    with Holding() as fake:
        one = serve(box, tcp(fake), ("/a", 100, LONG))
        clients, before = fake.hold(one, 10), until(one.worker_pids, "a worker")
        one.reload_begin()
        until(lambda: logged(one, "gracefully shutting down"), "the worker shuts down")
        expect(all(kit.is_alive(pid) for pid in before), "it waits for the daemon")
        fake.release()
        fake.finish(clients)
        until(lambda: not any(kit.is_alive(pid) for pid in before), "the old worker ends")
        equal(one.get("/a?k=a").status, 200, "the new worker asks, too")


def a_quit_with_questions(box):
    """SIGQUIT: the requests are answered before nginx ends."""
    with Holding() as fake:
        one = serve(box, tcp(fake), ("/a", 100, LONG))
        clients = fake.hold(one, 5)
        os.kill(one.pid(), signal.SIGQUIT)
        until(lambda: logged(one, "gracefully shutting down"), "the worker shuts down")
        fake.release()
        fake.finish(clients)
        until(lambda: one.process.poll() is not None, "nginx ends")


def a_quit_that_nobody_waits_for(box):
    """SIGQUIT: a worker does not wait for replies once all clients have gone."""
    with Holding() as fake:
        one = serve(box, tcp(fake), ("/a", 100, "timeout=60s"))
        clients = fake.hold(one, 5)
        os.kill(one.pid(), signal.SIGQUIT)
        until(lambda: logged(one, "gracefully shutting down"), "the worker shuts down")
        for client in clients:
            client.close()
        until(lambda: one.process.poll() is not None, "nginx ends", patience_s=30)


def a_shutdown_timeout(box):
    """worker_shutdown_timeout closes all connections, also those to daemons that owe replies."""
    with Holding() as fake:
        one = serve(box, tcp(fake), ("/a", 100, "timeout=60s connections=2"), main="worker_shutdown_timeout 50ms;")
        clients = fake.hold(one, 5)
        os.kill(one.pid(), signal.SIGQUIT)
        until(lambda: one.process.poll() is not None, "nginx ends", patience_s=30)
        for client in clients:
            client.close()


def idle_workers_end(box):
    """An idle connection, one that is broken, and an overdue reply do not keep a worker from ending."""
    weir = Weir(box).start()
    one = serve(box, tcp(weir), ("/a", 100, LONG), ("/short", 100, "timeout=20ms"))
    equal(one.get("/a?k=a").status, 200, "a question")
    one.reload()
    equal(one.get("/a?k=a").status, 200, "a question")
    weir.pause()
    one.get("/short?k=a")
    one.reload()
    weir.kill()
    one.get("/a?k=a")
    one.reload()


# ---- configuration -------------------------------------------------------------------------------

MISTAKES = {
    "a..b": "host not found",  # without a query: the name has an empty label
    "unix:": "no path",
    "127.0.0.1:99999": "invalid port",
    "127.0.0.1:6380/x": "invalid|expected host:port",
    "127.0.0.1 timeout=0": 'parameter "timeout": expected a time from 1ms to 60s',
    "127.0.0.1 timeout=2m": 'parameter "timeout": expected a time from 1ms to 60s',
    "127.0.0.1 connect_timeout=x": 'parameter "connect_timeout": expected a time',
    "127.0.0.1 connections=0": 'parameter "connections": expected a number from 1 to 64',
    "127.0.0.1 connections=65": 'parameter "connections": expected a number from 1 to 64',
    "127.0.0.1 on_error=no": 'parameter "on_error": expected open, closed or local',
    "127.0.0.1 password=": 'parameter "password": expected 1 to 512 bytes',
    "127.0.0.1 pasword=secret": 'parameter "pasword": expected timeout=',
}


def configuration_errors(box):
    for arguments, error in MISTAKES.items():
        one = Nginx(box, ZONE, f"weir_daemon {arguments};")
        status, output = one.test_configuration()
        expect(status == 1 and re.search(f"weir_daemon: .*({error}).* in .*nginx.conf:\\d+", output),
               f"{arguments}: {output}")
        expect("secret" not in output, f"{arguments}: {output}")


if __name__ == "__main__":
    sys.exit(kit.run([
        counts_are_exact, connections_are_kept, several_limits_are_one_question, shadow_limits_are_asked_alone,
        a_delay_of_the_daemon, a_password_and_a_socket, a_daemon_ends_and_comes_back, no_daemon_at_all,
        a_lost_daemon_is_not_asked, a_daemon_that_greets_nobody, a_connection_is_closed_while_idle,
        a_connection_lives_on, a_daemon_is_killed_under_load, a_daemon_ends_after_a_question, a_stopped_daemon,
        a_full_queue, a_question_that_is_too_long, a_reply_too_many, late_replies_are_dropped, garbage, error_replies,
        a_reply_in_pieces, clients_that_leave, questions_survive_a_reload, a_quit_with_questions,
        a_quit_that_nobody_waits_for, a_shutdown_timeout, idle_workers_end, configuration_errors]))
