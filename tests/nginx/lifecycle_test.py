#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests what the nginx module keeps when nginx reloads, upgrades or restarts, when a worker is killed,
and when a zone is full.

    lifecycle_test.py WEIR MODULE [--long | TEST ...]
"""

import contextlib
import os
import pathlib
import random
import re
import signal
import sys
import threading

from kit.nginx import PRELOAD, Client, Nginx, is_alive, run
from kit.process import equal, expect, until

# /a and /b are limits of states of a few bytes, /log of large states.
LIMITS = """
    location /a { alias html/ok; weir z "gcra 1/h burst 5" key=$arg_k name=a; }
    location /b { alias html/ok; weir z "fixed-window 5/52w" key=$arg_k; }
    location /log { alias html/ok; weir z "sliding-log 5/w" key=$arg_k name=log; }
    location = /status { weir_status; }
"""
PATHS = ["/a", "/b", "/log"]


def nginx(box, zone="weir_zone z 1m;", server=LIMITS, **more):
    started = Nginx(box, zone, server, **more)
    (started.html / "ok").write_text("ok\n")
    return started.start()


def charge(n, keys, count):
    """Charges keys of every limit; all requests are admitted."""
    with n.client() as client:
        for path in PATHS:
            for key in keys:
                client.send(*[f"{path}?k={key}"] * count)
                equal([client.read().status for _ in range(count)], [200] * count, f"{path} {key}")


def left(n, key):
    """How many more requests each limit admits. Exhausts them."""
    found = []
    with n.client() as client:
        for path in PATHS:
            client.send(*[f"{path}?k={key}"] * 6)
            found.append([client.read().status for _ in range(6)].count(200))
    return found


def zone_of(n, name="z"):
    return next(zone for zone in n.get("/status").json()["zones"] if zone["zone"] == name)


def counts_of(n, label):
    return next(limit for limit in zone_of(n)["limits"] if limit["policy"] == label)


# ---- reloads -------------------------------------------------------------------------------------


def test_reload(box):
    """A reload keeps all states and counters."""
    n = nginx(box, workers=2)
    charge(n, "xy", 2)
    for _ in range(3):
        n.reload()
    charge(n, "x", 1)
    n.reload()
    equal([left(n, key) for key in "xyz"], [[2] * 3, [3] * 3, [5] * 3])
    counts = counts_of(n, "a")
    equal((counts["passed"], counts["rejected"]), (2 + 2 + 1 + 2 + 3 + 5, 4 + 3 + 1))
    equal(n.logged("copied"), [], "nothing is copied")


def test_reload_with_other_limits(box):
    """A limit keeps what was used if its name, or else its key, remains, and its policy has the same shape."""
    n = nginx(box)
    charge(n, "x", 4)
    n.write(server="""
        location /a { alias html/ok; weir z "gcra 1/h burst 6" key=$arg_k name=a; }
        location /b { alias html/ok; weir z "fixed-window 5/52w" key=$arg_k status=503; }
        location /log { alias html/ok; weir z "sliding-log 5/1w" key=$arg_none$arg_k name=log; }
        location = /status { weir_status; }
    """)
    n.reload()
    equal(left(n, "x"), [2, 1, 1], "a allows one more")
    n.write(server=LIMITS)
    n.reload()
    equal(left(n, "x"), [0, 0, 0])


def test_reload_with_other_size(box):
    """A zone of another size gets all states of the old one, and the counters of its limits stay."""
    n = nginx(box, workers=2)
    keys = [f"key{i}" for i in range(50)]
    charge(n, keys, 2)
    sizes = ["2m", "2m large=512k", "1m large=256k", "8m"]
    for i, size in enumerate(sizes):
        n.write(http=f"weir_zone z {size};")
        n.reload()
        equal(len(n.logged(r'\[notice\].*zone "z": copied 150 keys')), i + 1, size)
        equal(zone_of(n)["keys"], 150, size)
    charge(n, keys[:10], 1)
    equal([left(n, key) for key in keys], [[2] * 3] * 10 + [[3] * 3] * 40)
    n.reload()
    equal(left(n, keys[0]), [0] * 3)
    equal(len(n.logged("copied")), len(sizes))


def test_reload_with_other_size_and_quiet_log(box):
    """The states are copied whatever the level of the log."""
    n = nginx(box)
    charge(n, "x", 2)
    n.log_level = "error"
    n.write(http="weir_zone z 2m;")
    n.reload()
    equal(n.logged("copied"), [])
    equal(left(n, "x"), [3] * 3)


def test_reset_of_all_keys(box):
    """All keys of a limit have their full quota after a reset, also in a zone of another size."""
    n = nginx(box, server=LIMITS + "location /reset { weir_reset z a all; }", workers=2)
    charge(n, "xy", 4)
    equal(n.get("/reset", method="POST").json(), {"reset": True})
    equal(left(n, "x"), [5, 1, 1])
    n.write(http="weir_zone z 2m;")
    n.reload()
    equal([left(n, key) for key in "xy"], [[0, 0, 0], [5, 1, 1]])


def test_reload_that_fails(box):
    """After an error in the new configuration, the old one goes on with its states."""
    n = nginx(box)
    n.expected.append(re.compile(r"\[emerg\]"))
    charge(n, "x", 3)
    for zone, server in [("weir_zone z 2m;", "nonsense;"), ("weir_zone z 1k;", LIMITS),
                         (f"weir_zone z 8m; weir_zone y 8m file={n.directory}/none/state;", LIMITS)]:
        before = len(n.logged(r"\[emerg\]"))
        n.write(http=zone, server=server)
        n.reload_begin()
        until(lambda: len(n.logged(r"\[emerg\]")) > before, f"the error of {zone}")
        equal(n.get("/a?k=x").status, 200 if before == 0 else 429, zone)
        if before == 0:
            charge(n, "y", 1)
            equal(n.get("/a?k=x").status, 200)
    n.write(http="weir_zone z 2m;", server=LIMITS)
    n.reload()
    equal([left(n, key) for key in "xyz"], [[0, 2, 2], [4] * 3, [5] * 3])


def test_reload_of_zones(box):
    """Zones come and go with the configuration. A zone that comes back begins empty."""
    n = nginx(box)
    charge(n, "x", 2)
    n.write(http="weir_zone y 1m; weir_zone z 1m;", server=LIMITS + 'location /y { alias html/ok; weir y "gcra 1/h" key=y; }')
    n.reload()
    equal(n.statuses("/y", "/y"), [200, 429])
    equal(left(n, "x"), [3] * 3)
    n.write(http="", server="location / { }")
    n.reload()
    equal(n.get("/a?k=x").status, 404)
    n.write(http="weir_zone z 1m;", server=LIMITS)
    n.reload()
    equal(left(n, "x"), [5] * 3)


def test_held_request_over_reload(box):
    """A held request is served after a reload, and before nginx ends."""
    n = nginx(box, server='location / { weir z "leaky-queue 3/s depth 5" key=a; }')
    for end in (n.reload_begin, lambda: n.send_signal(signal.SIGQUIT)):
        with n.client() as client, n.client() as other:
            before = len(n.logged("delaying request"))
            equal(other.get("/ok").status, 200)
            client.send("/ok")
            until(lambda: len(n.logged("delaying request")) > before, "the request is held")
            worker = n.worker_pids()
            end()
            equal(client.read().status, 200)
            until(lambda: not any(is_alive(pid) for pid in worker), "the old worker ends")
    until(lambda: not n.is_running(), "nginx ends")


# ---- state files, restarts and upgrades ----------------------------------------------------------


def file_zone(box, size="8m"):
    # Workers open the file as another user than the master's, if that is root.
    (box.path / "states").mkdir(exist_ok=True)
    (box.path / "states").chmod(0o777)
    return f"weir_zone z {size} file={box.path}/states/z;"


def test_state_file(box):
    """With a state file, states survive reloads and restarts. A reload cannot change the size."""
    n = nginx(box, file_zone(box), workers=2)
    size = os.stat(box.path / "states/z").st_size
    charge(n, "xyz", 2)
    n.reload()
    charge(n, "x", 1)
    n.write(http=file_zone(box, "16m"))
    n.reload()
    expect(n.logged(r'\[warn\].*zone "z": the state file keeps its size'), "a warning")
    equal(os.stat(box.path / "states/z").st_size, size)
    charge(n, "y", 1)
    n.stop()
    n.start()
    expect(os.stat(box.path / "states/z").st_size > size * 1.5, "the restart changes the size")
    equal([left(n, key) for key in "xyz"], [[2] * 3, [2] * 3, [3] * 3])
    n.kill()
    n.start()
    equal([left(n, key) for key in "xyz"], [[0] * 3] * 3, "nothing is lost if all processes are killed")


def test_upgrade_with_state_file(box):
    """During a binary upgrade, the workers of both masters share the states of a file."""
    n = nginx(box, file_zone(box), workers=2, daemon=True)
    old = n.pid()
    charge(n, "xy", 2)
    os.kill(old, signal.SIGUSR2)
    n.await_upgrade(old)
    new = n.pid()
    until(lambda: len(n.worker_pids()) == 2 and len(n.worker_pids(old)) == 2, "workers of both")
    charge(n, "x", 1)
    os.kill(old, signal.SIGWINCH)
    until(lambda: not n.worker_pids(old), "the old workers end")
    charge(n, "x", 1)
    os.kill(old, signal.SIGQUIT)
    until(lambda: not is_alive(old), "the old master ends")
    equal(n.pid(), new)
    equal([left(n, key) for key in "xy"], [[1] * 3, [3] * 3])
    n.reload()
    equal(left(n, "y"), [0] * 3)


def test_upgrade_without_state_file(box):
    """A new master has shared memory of its own, which begins empty."""
    n = nginx(box, daemon=True)
    old = n.pid()
    charge(n, "x", 2)
    os.kill(old, signal.SIGUSR2)
    n.await_upgrade(old)
    until(n.worker_pids, "its worker")
    os.kill(old, signal.SIGQUIT)
    until(lambda: not is_alive(old), "the old master ends")
    equal(left(n, "x"), [5] * 3)


def test_single_process(box):
    """Without a master, the process serves requests. A reload is not tested: after it, nginx 1.22 accepts
    no connections, with any configuration."""
    for zone in ("weir_zone z 1m;", file_zone(box)):
        n = nginx(box, zone, master=False)
        charge(n, "x", 2)
        equal([left(n, key) for key in "xy"], [[3] * 3, [5] * 3], zone)
        expect(zone_of(n)["open"], "the zone is open")
        n.stop()


# ---- killed workers ------------------------------------------------------------------------------


class Load:
    """Threads that send requests for random keys on connections of their own, and count responses. A
    request whose connection breaks may have been charged."""

    def __init__(self, n, keys, threads):
        self.n, self.keys, self.lost, self.requests, self.failed = n, keys, 0, 0, []
        self.admitted = {key: 0 for key in keys}
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        rng, client = random.Random(number), None
        while not self.stopped.is_set():
            key, status = rng.choice(self.keys), None
            try:
                client = client or Client(self.n.port)
                status = client.get(f"/all?k={key}").status
            except (OSError, ValueError):
                client = None
            with self.lock:
                self.requests += 1
                self.lost += status is None
                self.admitted[key] += status == 200
                if status not in (None, 200, 429):
                    self.failed.append(status)

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        equal(self.failed, [], "other statuses")


BURST = 300
ALL = f"""
    location /all {{ alias html/ok; weir z "gcra 1/h burst {BURST}" key=$arg_k name=a;
                     weir z "sliding-log {BURST + 50}/w" key=$arg_k name=b; }}
"""


def kill_workers(box, zone, kills):
    n = nginx(box, zone, ALL + LIMITS, workers=2, quiet=True)
    rng = random.Random(1)
    keys = [f"key{i}" for i in range(6)]
    load = Load(n, keys, threads=4)
    try:
        for _ in range(kills):
            goal = load.requests + rng.randrange(5, 60)
            until(lambda: load.requests >= goal, "requests go on", every_s=0.0003)
            pids = until(n.worker_pids, "a worker")
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(sorted(pids)), signal.SIGKILL)
    finally:
        load.stop()
    # Whichever worker was killed, no lock is held, and nothing is lost or admitted twice.
    until(lambda: len(n.worker_pids()) == 2, "the master replaces the workers")
    more = 0
    with n.client() as client:
        for key in keys:
            while client.get(f"/all?k={key}").status == 200:
                load.admitted[key] += 1
                more += 1
    total = sum(load.admitted.values())
    for key, count in load.admitted.items():
        expect(count <= BURST, f"{key}: {count} requests were admitted, at most {BURST} may be")
    expect(total + load.lost >= BURST * len(keys), f"{total} admitted and {load.lost} lost of {BURST * len(keys)}")
    with n.client() as client:
        for i in range(20):
            equal([client.get(f"/a?k=fresh{i}").status for _ in range(6)], [200] * 5 + [429])
    n.reload()
    equal(n.statuses(*[f"/all?k={key}" for key in keys]), [429] * len(keys))


def test_killed_workers(box):
    """Workers that are killed at any moment leave no lock held, and lose no state."""
    kill_workers(box, "weir_zone z 1m;", 25)


def test_killed_workers_file(box):
    kill_workers(box, file_zone(box), 25)


def long_killed_workers(box):
    kill_workers(box, "weir_zone z 1m;", 250)


def long_killed_workers_file(box):
    kill_workers(box, file_zone(box), 250)


# ---- memory --------------------------------------------------------------------------------------


def test_full_zone(box):
    """A full zone evicts, and weir_status counts it."""
    n = nginx(box, "weir_zone z 1m large=64k;",
              LIMITS + 'location /big { alias html/ok; weir z "sliding-log 1000/w" key=$arg_k cost=40; }')
    count = 1000
    with n.client() as client:
        for i in range(0, count, 100):
            client.send(*[f"/big?k={j}" for j in range(i, i + 100)])
            equal([client.read().status for _ in range(100)], [200] * 100)
    zone = zone_of(n)
    equal(zone["keys"] + zone["evicted"], count)
    expect(zone["evicted"] > 0 and zone["keys"] > 20, zone)
    equal(left(n, "x"), [5] * 3)


def long_full_table(box):
    """The same for states of a few bytes."""
    n = nginx(box, workers=2, quiet=True)
    count, batch = 150_000, 500
    with n.client() as client:
        for i in range(0, count, batch):
            client.send(*[f"/a?k={j}" for j in range(i, i + batch)])
            equal([client.read().status for _ in range(batch)], [200] * batch)
    zone = zone_of(n)
    equal(zone["keys"] + zone["evicted"], count)
    expect(zone["evicted"] > 0 and zone["keys"] > 30_000, zone)
    equal(left(n, "x"), [5] * 3)


def resident(pid):
    """The resident kilobytes of a process that are not shared, its open files, and its mappings."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    rss = int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")))
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text().count("\n")
    return rss, len(os.listdir(f"/proc/{pid}/fd")), maps


def reload_often(box, reloads, warm):
    """Reloads with changes of size and of limits, under load. The master does not grow."""
    n = nginx(box, file_zone(box) + "weir_zone y 1m;",
              ALL + LIMITS + 'location /y { alias html/ok; weir y "gcra 1/h" key=$arg_k; }', workers=2, quiet=True)
    zones = [file_zone(box) + f"weir_zone y {size};" for size in ("1m", "2m", "1m large=128k")]
    load = Load(n, [f"key{i}" for i in range(1000)], threads=1)
    try:
        for i in range(reloads):
            if i == warm:
                before = resident(n.pid())
            n.write(http=zones[i % 3])
            n.reload()
    finally:
        load.stop()
    # The master closes its socket to a worker once it has seen it end.
    until(lambda: all(a <= b for a, b in zip(resident(n.pid())[1:], before[1:])),
          f"{before[1:]} files and mappings after {warm} reloads, {resident(n.pid())[1:]} at the end", patience_s=10)
    after = resident(n.pid())
    # The quarantine of ASan keeps freed memory.
    expect(PRELOAD or after[0] <= before[0] + 1024, f"{before[0]} kB after {warm} reloads, {after[0]} kB at the end")


def test_reloads(box):
    reload_often(box, 12, 6)


def long_reloads(box):
    reload_often(box, 100, 10)


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]
LONG = [value for name, value in list(globals().items()) if name.startswith("long_")]

if __name__ == "__main__":
    sys.exit(run(TESTS, LONG))
