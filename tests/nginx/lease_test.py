#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests limits with a concurrent layer: a request holds a slot until it ends, however it ends.

    lease_test.py WEIR MODULE [--long | TEST ...]
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from kit.nginx import Nginx, run
from kit.process import equal, expect, until

LONG = "1h"  # a lease that does not end during a test


class Upstream:
    """A server whose requests wait until the test answers them."""

    def __init__(self, box):
        self.path = box.path / box.name("upstream")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(self.path))
        self.path.chmod(0o777)
        self.socket.listen(64)
        self.waiting, self.clients = [], []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                read = b""
                while not read.endswith(b"\r\n\r\n"):
                    read += connection.recv(4096)
                self.waiting.append(connection)

    def wait_for(self, count):
        until(lambda: len(self.waiting) >= count, f"{count} requests in flight")

    def answer(self, at=0):
        """Answers a request, and returns its connection."""
        connection = self.waiting.pop(at)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nup\n")
        connection.close()

    def answer_all(self):
        while self.waiting:
            self.answer()

    def upgrade(self):
        connection = self.waiting.pop(0)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        return connection


def proxy(upstream):
    return (f"proxy_pass http://unix:{upstream.path}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;"
            ' proxy_set_header Connection "upgrade"; proxy_read_timeout 1h;')


def nginx(box, server, **more):
    """An nginx with a location / for requests in flight, and /peek, which passes if a slot of the limit named n
    is free. When nginx stops, it waits for no request."""
    upstream = Upstream(box)
    more = {"zone": "weir_zone z 1m;", "main": "worker_shutdown_timeout 10ms;", **more}
    started = Nginx(box, more.pop("zone") + more.pop("http", ""), server.replace("@", proxy(upstream)), **more)
    (started.html / "ok").write_text("ok\n")
    return started.start(), upstream


def limit(n, lease=LONG, more=""):
    return f'weir z "concurrent {n} lease {lease}{more}" key=all name=n;'


def peek(n, lease=LONG, more=""):
    return f"location = /peek {{ alias html/ok; {limit(n, lease, more)} }}"


class InFlight:
    """Requests on connections of their own, which wait for the upstream."""

    def __init__(self, n, upstream, count, path="/", **more):
        self.clients = [n.client() for _ in range(count)]
        upstream.clients += self.clients  # they stay connected
        before = len(upstream.waiting)
        for i, client in enumerate(self.clients):
            client.send(path, **more)
            upstream.wait_for(before + i + 1)

    def close(self, at=0):
        self.clients.pop(at).close()


def is_free(n):
    return n.get("/peek").status == 200


def free_again(n, what):
    until(lambda: is_free(n), what)


# ---- how a request ends --------------------------------------------------------------------------


def test_slots(box):
    """As many requests as there are slots are in flight at once. A slot is free when its request has ended."""
    n, up = nginx(box, f"location / {{ {limit(3)} @ }}" + peek(3), workers=2)
    flight = InFlight(n, up, 3)
    denied = n.get("/")
    equal(denied.status, 429)
    expect(3590 <= int(denied["retry-after"]) <= 3600, denied["retry-after"])
    equal(len(up.waiting), 3)
    up.answer(1)
    equal(flight.clients[1].read().status, 200)
    free_again(n, "the slot of the request that was answered")
    flight.clients[1].send("/")  # on the same connection
    up.wait_for(3)
    equal(n.get("/").status, 429)
    for client in flight.clients[0], flight.clients[2], flight.clients[1]:
        up.answer()
        equal(client.read().status, 200)
    free_again(n, "all")
    InFlight(n, up, 3)
    equal(n.get("/").status, 429)
    equal(n.logged("renew"), [])


def test_clients_that_leave(box):
    """A client that closes its connection frees its slot."""
    n, up = nginx(box, f"location / {{ {limit(2)} @ }}" + peek(2))
    flight = InFlight(n, up, 2)
    equal(is_free(n), False)
    flight.close()
    free_again(n, "the slot of a client that has left")
    InFlight(n, up, 1)
    equal(is_free(n), False)


def test_upstreams_that_fail(box):
    """A request without an answer frees its slot: 502 and 504."""
    up = Upstream(box)
    n, _ = nginx(box, f"""location / {{ {limit(1)} proxy_pass http://unix:{up.path}; }}
        location /quick {{ {limit(1)} proxy_read_timeout 50ms; proxy_pass http://unix:{up.path}; }}
        location /none {{ {limit(1)} proxy_pass http://unix:{box.path}/none; }}""" + peek(1))
    n.expected.append(re.compile(r"\[crit\].*connect\(\)"))
    flight = InFlight(n, up, 1)
    equal(is_free(n), False)
    up.waiting.pop().close()
    equal(flight.clients[0].read().status, 502)
    equal([n.get(path).status for path in ("/none", "/quick", "/peek")], [502, 504, 200])


def test_websockets(box):
    """An upgraded connection holds its slot until either side closes it."""
    n, up = nginx(box, f"location / {{ {limit(1)} @ }}" + peek(1))
    for client_closes in True, False:
        flight = InFlight(n, up, 1, headers={"Upgrade": "websocket", "Connection": "Upgrade"})
        server = up.upgrade()
        client = flight.clients[0].socket
        expect(client.recv(200).startswith(b"HTTP/1.1 101"), "upgraded")
        server.sendall(b"to the client")
        equal(client.recv(100), b"to the client")
        client.sendall(b"to the server")
        expect(server.recv(4000).endswith(b"to the server"), "the server reads")
        equal(n.statuses("/", "/peek"), [429, 429])
        if client_closes:
            flight.close()
        else:
            server.close()
        free_again(n, "the slot of the connection")


def test_http2(box):
    """Each stream is a request. A stream that the client cancels frees its slot."""
    n, up = nginx(box, f"location / {{ {limit(2)} @ }}" + peek(2), listen="http2")
    words = ["curl", "-s", "--http2-prior-knowledge"]
    curls = [subprocess.Popen([*words, n.url("/")], stdout=subprocess.DEVNULL) for _ in range(2)]
    up.wait_for(2)
    status = ["-o", "/dev/null", "-w", "%{http_code}"]

    def found():
        return subprocess.run([*words, *status, n.url("/peek")], capture_output=True, text=True, check=True).stdout
    equal(found(), "429")
    curls[0].kill()
    curls[0].wait()
    until(lambda: found() == "200", "the slot of a stream")
    for connection in up.waiting:
        connection.close()
    curls[1].wait()


# ---- a request is charged once -------------------------------------------------------------------


def test_one_slot(box):
    """Internal redirects and subrequests hold no slot more, and the slot is free afterwards."""
    n, up = nginx(box, f"""
        {limit(1)}
        location /files {{ alias html/; index none ok; }}
        location /try {{ try_files /none /none2 /ok; }}
        location /missing {{ error_page 404 /ok; }}
        location /old {{ rewrite ^ /ok last; }}
        location /ssi {{ ssi on; ssi_types *; alias html/ssi; }}
        location /auth {{ auth_request /ok; alias html/ok; }}
        location /mirrored {{ mirror /copy; alias html/ok; }}
        location = /copy {{ @ }}
        location = /ok {{ alias html/ok; }}
        location = /first {{ weir off; auth_request /ok; @ }}
    """ + peek(1))
    (n.html / "ssi").write_text('<!--#include virtual="/ok" -->' * 3)
    for path, status in [("/files/", 200), ("/try", 200), ("/missing", 404), ("/old", 200), ("/ssi", 200),
                         ("/auth", 200), ("/ok", 200)]:
        equal(n.statuses(path, path), [status] * 2, path)
    equal(n.get("/mirrored").status, 200)
    up.wait_for(1)
    equal(is_free(n), False, "the copy belongs to the request")
    up.answer()
    free_again(n, "the copy has ended")
    InFlight(n, up, 1, "/first")
    equal(is_free(n), False, "the limit of a subrequest holds for the request")
    up.answer()
    free_again(n, "/first")


def test_other_denials(box):
    """A request that something else denies holds nothing."""
    n, _ = nginx(box, f"""
        location /auth {{ {limit(1)} auth_basic a; auth_basic_user_file none; }}
        location /deny {{ {limit(1)} deny all; }}
        location /req {{ {limit(1)} limit_req zone=r; alias html/ok; }}
        location /both {{ {limit(1)} weir z "gcra 1/h burst 2" key=all name=rate; alias html/ok; }}
        location /before {{ weir z "gcra 1/h burst 2" key=all name=rate; {limit(1)} alias html/ok; }}
    """ + peek(1), http="limit_req_zone $host zone=r:1m rate=1r/m;")
    for path, wanted in [("/auth", [401] * 2), ("/deny", [403] * 2), ("/req", [200, 503, 503]),
                         ("/both", [200, 200, 429, 429]), ("/before", [429] * 2)]:
        for status in wanted:
            equal(n.get(path).status, status, path)
            free_again(n, path)


def test_rates(box):
    """The rates of the policy stay charged; a slot and a rate are charged together, or none is."""
    more = " & gcra 1/h burst 4"
    n, up = nginx(box, f"location / {{ {limit(1, more=more)} @ }}" + peek(1, more=more))
    InFlight(n, up, 1)
    equal(n.statuses("/", "/peek", "/"), [429] * 3, "no slot, and no charge")
    up.answer()
    free_again(n, "the slot")
    for wanted in 200, 200, 429:
        if wanted == 200:
            until(lambda: is_free(n), "the rate has a unit left")
        else:
            denied = n.get("/peek")
            equal(denied.status, wanted, "the rate is used up")
            expect(int(denied["retry-after"]) > 60, denied["retry-after"])


def test_shadow(box):
    """A shadow limit counts requests in flight, and denies none."""
    n, up = nginx(box, f'location / {{ weir z "concurrent 1 lease 1h" key=all shadow; @ }}',
                  http="log_format s '$weir_status $weir_remaining'; access_log access.log s;")
    flight = InFlight(n, up, 2)
    for client in flight.clients:
        up.answer()
        equal(client.read().status, 200)
    equal(sorted(n.accesses(2)), ["PASSED 0", "REJECTED_SHADOW 0"])
    InFlight(n, up, 1)
    up.answer()
    equal(n.accesses(3)[2], "PASSED 0")


# ---- leases --------------------------------------------------------------------------------------


def test_a_long_request(box):
    """A request that takes longer than the lease keeps its slot."""
    n, up = nginx(box, f"location / {{ {limit(1, '300ms')} @ }}" + peek(1, "300ms"))
    InFlight(n, up, 1)
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        equal(is_free(n), False)
    up.answer()
    free_again(n, "the slot")
    equal(n.logged("renew"), [])


def test_killed_workers(box):
    """The slots of a worker that is killed are free when their leases end."""
    for lease, ends in ("1s", True), (LONG, False):
        n, up = nginx(box, f"location / {{ {limit(2, lease)} @ }}" + peek(2, lease))
        InFlight(n, up, 2)
        killed = time.monotonic()
        (pid,) = n.worker_pids()
        os.kill(pid, signal.SIGKILL)
        until(lambda: n.worker_pids() - {pid}, "a new worker")
        equal(is_free(n), False, "nothing was given back")
        if ends:
            free_again(n, "the leases have ended")
            expect(time.monotonic() - killed > 0.6, "not before")


def test_reset_of_all(box):
    """A reset of all keys frees what is held."""
    n, up = nginx(box, f"location / {{ {limit(1)} @ }} location /reset {{ weir_reset z n all; }}" + peek(1))
    InFlight(n, up, 1)
    equal(is_free(n), False)
    equal(n.get("/reset", method="POST").json(), {"reset": True})
    equal(is_free(n), True)
    InFlight(n, up, 1)
    up.answer(0)  # of the first request: it frees nothing of the second
    equal(is_free(n), False)
    up.answer(0)
    free_again(n, "the slot")


# ---- reloads -------------------------------------------------------------------------------------


def reload(n):
    """Reloads, and waits until there are new workers. Old ones wait for their requests. Returns the old ones."""
    before = n.worker_pids()
    n.write()
    n.reload_begin()
    until(lambda: len(n.worker_pids() - before) == n.workers, "new workers")
    until(lambda: len(n.worker_pids() & before) == 0, "the old workers shut down")


def test_reload(box):
    """Workers of the old configuration renew and free what they hold."""
    lease = "300ms"
    n, up = nginx(box, f"location / {{ {limit(4, lease)} @ }}" + peek(4, lease), main="")
    flight = InFlight(n, up, 4)
    reload(n)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        equal(is_free(n), False, "what an old worker holds counts")
    up.answer()
    equal(flight.clients[0].read().status, 200)
    free_again(n, "an old worker frees a slot")
    InFlight(n, up, 1)
    equal(is_free(n), False)
    # Another limit of the same shape: what is held counts on.
    n.write(server=n.server.replace("concurrent 4", "concurrent 6"))
    reload(n)
    equal(is_free(n), True)
    InFlight(n, up, 2)
    equal(is_free(n), False)
    for count in range(6):
        up.answer()
        free_again(n, f"slot {count}")
    InFlight(n, up, 6)
    equal(is_free(n), False)
    equal(n.logged("renew"), [])
    up.answer_all()


def test_reload_with_another_size(box):
    """The new zone has a copy of what is held, which ends with the leases: nobody renews or frees it there."""
    lease = "1s"
    n, up = nginx(box, f"location / {{ {limit(1, lease)} @ }}" + peek(1, lease), main="")
    InFlight(n, up, 1)
    n.write(http=n.http.replace("1m", "2m"))
    reload(n)
    equal(is_free(n), False)
    free_again(n, "the lease in the new zone ends")
    up.answer()


def test_restart(box):
    """With a file, what is held is there after a restart, until the leases end."""
    zone = f"weir_zone z 8m file={box.path}/state;"
    n, up = nginx(box, f"location / {{ {limit(1, '2s')} @ }}" + peek(1, "2s"), zone=zone)
    InFlight(n, up, 1)
    n.kill()
    n.start()
    equal(is_free(n), False)
    free_again(n, "the lease has ended")


# ---- configuration -------------------------------------------------------------------------------


def test_errors(box):
    """A lease must be long enough to be renewed, and a daemon cannot hold slots."""
    for server, line in [(limit(1, "99ms"), "the lease in the policy is too short, expected at least 100 ms"),
                         (limit(1) + "weir_daemon 127.0.0.1:1;",
                          'weir_daemon cannot decide on the policy "concurrent 1 lease 1h"')]:
        status, text = Nginx(box, "weir_zone z 1m;", server).test_configuration()
        equal(status, 1, text)
        expect(line in text, text)
    status, text = Nginx(box, "weir_zone z 1m;", f"weir_daemon 127.0.0.1:1; location /d {{ weir z \"gcra 1/s\" key=a; }}"
                         f"location / {{ weir_daemon off; {limit(1)} }}").test_configuration()
    equal(status, 0, text)


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]

if __name__ == "__main__":
    sys.exit(run(TESTS))
