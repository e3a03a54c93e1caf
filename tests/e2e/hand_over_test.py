#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A daemon that hands over to a new process (SIGUSR2, weir serve --take-over): under load, no connection is refused and
every decision counts exactly once; if the new process fails, the old one goes on. The tests are also the manager that
systemd would be.

    hand_over_test.py WEIR MODULE [NAME...]"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from kit.generations import Generations, GrpcLoad, HttpLoad, RespLoad, await_more, check_charges, under_load, with_grpc
from kit.http import fetch
from kit.process import HOST, PATIENCE_S, Process, Skipped, equal, expect, is_redis_here, run, until
from kit.redis import Redis
from kit.resp import Client
from kit.weir import Serving

def hand_overs_under_load(box, times=20):
    d = with_grpc(box).start()
    with under_load(d, (RespLoad, RespLoad, HttpLoad, HttpLoad, GrpcLoad)) as loads:
        await_more(loads)
        for _ in range(times):
            d.hand_over()
            await_more(loads)
    for load in loads:
        expect(load.connections >= 2, "each client has connected again")
    check_charges(d, loads)
    d.hand_over()
    descriptors = d.descriptors()
    d.hand_over()
    d.hand_over()
    equal(d.descriptors(), descriptors, "the descriptors after two more hand-overs")
    d.end()


def other_numbers_of_threads(box):
    """A loop may have several sockets of an address, or share one."""
    d = Generations(box).start()
    with under_load(d, (RespLoad, RespLoad, HttpLoad)) as loads:
        for threads in (4, 1, 3):
            await_more(loads)
            d.write(threads=threads)
            d.hand_over()
            expect(f"threads={threads}" in d.log_text(), "the new number of threads")
        await_more(loads)
        queued = [socket.create_connection((HOST, d.ports["resp"]), PATIENCE_S) for _ in range(40)]
        for connection in queued:
            connection.sendall(b"PING\r\n")
            equal(connection.recv(100), b"+PONG\r\n", "each socket is served")
            connection.close()
    check_charges(d, loads)
    d.end()


# ---- the processes -------------------------------------------------------------------------------


def take_over(box):
    """`weir serve --take-over` asks at the socket `hand_over`; the new process may have another configuration."""
    path = box.path / "s.sock"
    d = Generations(box, listen=f", unix: {path}").start()
    queued = socket.create_connection((HOST, d.ports["resp"]))
    new = Process(box, "new")
    d.write(policies="a: fixed-window 1000000000/w from-first, b: gcra 1/h", listen="", more="limits: {idle: 5m}")
    new.spawn([box.weir, "serve", "--take-over", d.config])
    equal(d.process.wait(PATIENCE_S), 0, "the exit status of the old process")
    until(lambda: " taken-over" in new.log_text(), "the new process serves")
    queued.close()
    with contextlib.closing(Client(d.ports["resp"])) as client:
        equal(client.call("WEIR.TAKE", "b", "k")[0], 1, "the new policy")
    until(lambda: not path.exists(), "the socket file of an address that is gone")
    expect(d.socket.exists(), "the new process listens at the socket of hand-overs")
    equal(new.end(), 0)
    expect(not d.socket.exists(), "the socket of hand-overs is gone")


def nobody_to_take_over_from(box):
    d = Generations(box)
    d.spawn([box.weir, "serve", "--take-over", d.config])
    equal(d.process.wait(PATIENCE_S), 1)
    expect("not-started" in d.log_text() and "cannot take over from the running daemon" in d.log_text(), d.log_text())
    d.config.write_text(d.config.read_text().replace("hand_over:", "#"))
    d.spawn([box.weir, "serve", "--take-over", d.config])
    equal(d.process.wait(PATIENCE_S), 2)
    expect("--take-over: no socket, expected hand_over in the configuration" in d.log_text(), d.log_text())


def goes_on(d, why):
    """The old process goes on, and says why."""
    until(lambda: d.said("hand-over-failed"), "the hand-over fails")
    expect(re.search(why, d.said("hand-over-failed")[-1]), f"{d.said('hand-over-failed')[-1]} has {why}")
    equal(d.pid, d.process.pid)
    before = d.charged()
    d.charge()
    equal(d.charged(), before + 1)


def bad_configuration(box):
    d = Generations(box).start()
    good = d.config.read_text()
    d.config.write_text("nonsense: 1\n")
    d.send()
    goes_on(d, "ended with status 1 before it served")
    d.config.write_text(good)
    d.hand_over()
    d.end()


def other_size(box):
    d = Generations(box).start()
    d.write(memory=f"{{size: 32m, file: {d.state}}}")
    d.send()
    goes_on(d, "ended with status 1 before it served")
    expect("to change memory.size" in d.log_text(), d.log_text())
    d.end()


def killed_new_process(box):
    """kill -9 of the new process before it serves: a program that stops itself stands for a slow one."""
    d = Generations(box, program=box.path / "weir")
    shutil.copy(box.weir, d.program)
    d.start()
    d.program.unlink()
    d.program.write_text("#!/bin/sh\nkill -9 $$\n")
    d.program.chmod(0o755)
    d.send()
    goes_on(d, "killed by signal 9 before it served")
    d.program.unlink()
    before = len(d.log_text())
    d.send()
    until(lambda: d.said("hand-over-failed", before), "there is no program")
    expect("cannot start" in d.said("hand-over-failed", before)[0], d.log_text())
    shutil.copy(box.weir, d.program)
    d.hand_over()
    d.end()


def second_signal(box):
    """Only one hand-over at a time; SIGTERM ends it, and both processes."""
    d = Generations(box, program=box.path / "weir")
    shutil.copy(box.weir, d.program)
    d.start()
    d.program.unlink()
    d.program.write_text("#!/bin/sh\nexec sleep 1000\n")
    d.program.chmod(0o755)
    d.send()
    until(lambda: d.said("hand-over"), "a new process starts")
    d.send()
    until(lambda: d.said("hand-over-refused"), "the second is refused")
    expect("a hand-over is in progress" in d.log_text(), d.log_text())
    d.send(signal.SIGTERM)
    equal(d.process.wait(PATIENCE_S), 0)
    new = int(re.search(r"process (\d+) takes over", d.log_text())[1])
    until(lambda: d.is_zombie(new), "the new process is killed")


def lent_state_file(box):
    """A file without `shared` is open to the new process only during the hand-over."""
    d = Generations(box).start()
    d.hand_over()
    other = Serving(box)
    other.config.write_text(f"listen: {{resp: {HOST}:0, http: off}}\nmemory: {{size: 16m, file: {d.state}, shared: true}}\n")

    def refused():
        before = len(other.log_text())
        other.spawn([box.weir, "serve", other.config])
        until(lambda: not other.is_running() or " started " in other.log_text()[before:], "it starts, or not")
        other.kill()
        return "in use by another weir process" in other.log_text()[before:]

    until(refused, "the file is no longer shared", every_s=0.2)
    expect("which does not set 'shared'" in other.log_text(), other.log_text())
    d.hand_over()
    d.end()


# ---- the state in memory -------------------------------------------------------------------------

MEMORY = "{size: 16m}"
COUNTED = "a: fixed-window 1000000000/w from-first"
POLICIES = f"{COUNTED}, log: sliding-log 9/w, few: fixed-window 5/w, b: concurrent 9 lease 1h"


def not_taken_over(d, since=0):
    return re.findall(r' state-not-taken-over why="([^"]*)" text="keys begin with their full quota"',
                      d.log_text()[since:])


def memory_under_load(box):
    """Without a state file, the new process decides on the memory of the old one."""
    d = with_grpc(box, memory=MEMORY).start()
    with under_load(d, (RespLoad, RespLoad, HttpLoad, GrpcLoad)) as loads:
        for _ in range(5):
            await_more(loads)
            d.hand_over()
        await_more(loads)
    check_charges(d, loads)
    equal(not_taken_over(d), [])
    equal(d.descriptors().count("/memfd"), 1)
    d.end()


def states_stay(box, **more):
    """Small and large states, slots, reservations and resets."""
    d = Generations(box, policies=POLICIES, **more).start()
    with contextlib.closing(Client(d.ports["resp"])) as client:
        for _ in range(3):
            client.call("WEIR.TAKE", "log", "k")
        client.call("WEIR.TAKE", "few", "reset", "COST", 5)
        client.call("WEIR.RESETALL", "few")
        client.call("WEIR.TAKE", "few", "k", "COST", 4)
        client.call("WEIR.TAKE", "b", "k")
        held = client.call("WEIR.RESERVE", "few", "room", 3, "TTL", "10m")[-1]
    d.hand_over()
    with contextlib.closing(Client(d.ports["resp"])) as client:
        equal(client.call("WEIR.PEEK", "log", "k")[2], 6)
        equal(client.call("WEIR.PEEK", "b", "k")[2], 8)
        equal(client.call("WEIR.PEEK", "few", "k")[2], 1)
        equal(client.call("WEIR.PEEK", "few", "reset")[2], 5)
        equal(client.call("WEIR.PEEK", "few", "room")[2], 2)
        equal(client.call("WEIR.CANCEL", held)[:3], [1, 5, 5])
        equal(client.call("WEIR.PEEK", "few", "room")[2], 5)
    equal(not_taken_over(d), [])
    d.end()


def memory_has_all(box):
    states_stay(box, memory=MEMORY)


def memory_of_another_size(box):
    """Or of another version: the new process begins with full quota, and says why. It passes its own memory on."""
    d = Generations(box, memory=MEMORY).start()
    seen = []

    def then(why, charged, **changes):
        d.charge()
        d.write(**changes)
        since = len(d.log_text())
        d.hand_over()
        equal(not_taken_over(d, since), why)
        equal(d.charged(), charged)

    then([], 1)
    then(["memory.size was 16777216 bytes, and is 33554432"], 0, memory="{size: 32m}")
    then([], 1)
    then(["memory: its store has 33554432 bytes, 8388608 of them for large states, requested are 33554432 bytes, "
          "1048576 of them for large states"], 0, memory="{size: 32m, large: 1m}")
    then(["memory: partition 0 of its store is none, but 'b' of 3145728+0 bytes was requested"], 0,
         policies=f"{COUNTED}, b: {{limit: gcra 1/h, memory: 3m}}")
    then(["memory.file is new"], 0, memory=f"{{size: 16m, file: {d.state}}}", policies=COUNTED)
    then([], 1)
    then(["no memory.file, and no hand_over before"], 0, memory=MEMORY)
    [memory] = [fd for fd, what in d.open_files().items() if "memfd:weir" in what]
    with open(memory, "r+b", buffering=0) as header:  # as another version would lay it out
        header.seek(12)
        header.write(struct.pack("=I", 65538))
    then(["memory: it has format 65538, expected 65537"], 0)
    d.end()


def memory_without_a_socket(box):
    """Without `hand_over`, SIGUSR2 loses the state. A new process that has it passes the memory from then on."""
    d = Generations(box, memory=MEMORY)
    text = d.config.read_text()
    d.config.write_text(text.replace("hand_over:", "#"))
    d.start()
    equal(d.descriptors().count("/memfd"), 0)
    d.charge()
    d.config.write_text(text)
    d.hand_over()
    equal(not_taken_over(d), ["no memory.file, and no hand_over before"])
    d.charge()
    d.config.write_text(text.replace("hand_over:", "#"))
    for _ in range(2):
        d.hand_over()
        equal(d.charged(), 1)
    d.end()


def memory_prefault(box):
    """Memory that is passed becomes resident, also in the new process."""
    d = Generations(box, memory="{size: 16m, prefault: true}").start()
    d.charge()
    for _ in range(2):
        until(lambda: d.shared_memory() >= 12 << 20, "it is resident")
        d.hand_over()
        equal(d.charged(), 1)
    d.end()


def memory_exhausted(box):
    if b"Sanitizer" in pathlib.Path(box.weir).read_bytes():
        raise Skipped("a sanitizer needs more memory than the limit")
    d = Generations(box, memory="{size: 1g}")
    d.spawn(["prlimit", f"--as={1 << 30}", box.weir, "serve", d.config])
    equal(d.process.wait(PATIENCE_S), 1)
    expect(' not-started error="memory: out of memory"' in d.log_text(), d.log_text())


def slow_program(box, d):
    """A program that waits for a file before it is weir."""
    d.program.unlink()
    d.program.write_text(f'#!/bin/sh\nwhile [ ! -e {box.path}/go ]; do sleep 0.02; done\nexec {box.weir} "$@"\n')
    d.program.chmod(0o755)


def stop_with_memory(d, since):
    """Stops a new process that has opened the store. Returns its id; None: it has started already."""
    pid = int(re.search(r"process (\d+) takes over", d.said("hand-over", since)[0])[1])
    stat, maps = pathlib.Path(f"/proc/{pid}/stat"), pathlib.Path(f"/proc/{pid}/maps")
    until(lambda: "/memfd:weir" in maps.read_text() or d.said("taken-over", since), "it maps the memory", every_s=0)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: ") T" in stat.read_text(), "it is stopped")
    if d.said("started", since):
        os.kill(pid, signal.SIGCONT)
        until(lambda: d.said("taken-over", since), "it serves")
        d.pid = pid
        return None
    return pid


def memory_killed_new(box):
    """kill -9 of a new process that has opened the store: the old one goes on, exactly. Many policies make it slow."""
    many = ", ".join(f"p{n}: gcra {n + 1}/s" for n in range(500))
    d = Generations(box, memory=MEMORY, policies=f"{COUNTED}, {many}").start()
    killed = 0
    with under_load(d, (RespLoad, HttpLoad)) as loads:
        while killed < 3:
            await_more(loads)
            since = len(d.log_text())
            d.send()
            until(lambda since=since: d.said("hand-over", since), "a new process starts")
            pid = stop_with_memory(d, since)
            if pid:
                await_more(loads)
                os.kill(pid, signal.SIGKILL)
                until(lambda since=since: d.said("hand-over-failed", since), "it is killed")
                killed += 1
        await_more(loads)
    check_charges(d, loads)
    d.hand_over()
    check_charges(d, loads)
    d.end()


def memory_killed_old(box):
    """kill -9 of the old process after it has passed the memory: the new one has all of it."""
    d = Generations(box, memory=MEMORY, program=box.path / "weir")
    shutil.copy(box.weir, d.program)
    d.start()
    slow_program(box, d)
    d.send()
    until(lambda: d.said("hand-over"), "a new process starts")
    for _ in range(7):
        d.charge()
    d.process.kill()
    d.process.wait()
    (box.path / "go").touch()
    until(lambda: d.said("taken-over"), "the new process serves")
    d.pid = int(re.search(r"process (\d+) takes over", d.log_text())[1])
    equal((d.charged(), not_taken_over(d)), (7, []))
    d.hand_over()
    equal(d.charged(), 7)
    d.end()


# ---- what docs/operations.md says of a hand-over --------------------------------------------------


def file_has_all(box):
    states_stay(box)


def forgotten(box):
    """Top keys, the last hour, metrics, and what clients have set."""
    d = Generations(box, policies="few: fixed-window 2/w").start()

    def seen():
        with contextlib.closing(Client(d.ports["resp"])) as client:
            policy = client.call("WEIR.POLICY", "GET", "new")
            few, top = (dict(zip(reply[::2], reply[1::2])) for reply in
                        (client.call("WEIR.POLICY", "GET", "few"), client.call("WEIR.TOP", "few", "denied")))
        live = fetch(d.ports["http"], "/metrics").text()
        decided = sum(int(n) for n in re.findall(r'^weir_decisions_total\{.*\} (\d+)$', live, re.M))
        compared = sum(int(n) for n in re.findall(r'^weir_candidate_decisions_total\{.*\} (\d+)$', live, re.M))
        hour = fetch(d.ports["http"], "/v1/history").json()["all"]
        return (policy is not None, few[b"shadow"], len(top[b"keys"]), decided, compared > 0,
                sum(map(sum, hour.values())))

    with contextlib.closing(Client(d.ports["resp"])) as client:
        client.call("WEIR.POLICY", "SET", "new", "gcra 1/h")
        for path in ("/v1/candidate?policy=few&limit=gcra+1/h", "/v1/shadow?policy=few&shadow=true"):
            equal(fetch(d.ports["http"], path, method="POST").status, 200)
        for _ in range(3):
            client.call("WEIR.TAKE", "few", "k")
    equal(seen(), (True, 1, 1, 3, True, 3), "before")
    d.hand_over()
    equal(seen(), (False, 0, 0, 0, False, 0), "after")
    d.end()


HELLO = (b"\0\0\0\x51\x01\0\0\0\x01\0\0\x12supported-versions\x08\x032.0\x0emax-frame-size\x03\xfc\xf0\x06"
         b"\x0ccapabilities\x08\x10pipelining,async")  # of HAProxy 2.6.12


def ends_of_connections(box):
    """HAProxy gets a DISCONNECT frame, a RESP client the end of the connection; new connections are ready at once."""
    d = Generations(box, listen=f", spoe: {HOST}:0").start()
    spop = d.port_in(d.started(0), "spoe")
    haproxy, client = socket.create_connection((HOST, spop), PATIENCE_S), Client(d.ports["resp"])
    going, statuses = threading.Event(), []

    def ask():
        while not going.is_set():
            statuses.append(fetch(d.ports["http"], "/readyz").status)

    with contextlib.closing(haproxy), contextlib.closing(client), haproxy.makefile("rb") as frames:
        haproxy.sendall(HELLO)
        frame = frames.read(int.from_bytes(frames.read(4), "big"))
        equal(frame[0], 101, "the type of the reply to HELLO")
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        until(lambda: statuses, "a reply before the hand-over")
        d.hand_over()
        served = len(statuses)
        until(lambda: len(statuses) > served, "a reply after it")
        going.set()
        asking.join()
        frame = frames.read(int.from_bytes(frames.read(4), "big"))
        equal((frame[0], frame[-6:]), (102, b"normal"), "the type and the message of the last frame")
        equal(frames.read(), b"", "the end of the connection")
        equal(client.socket.recv(1), b"")
    equal(set(statuses), {200})
    d.end()


def engine_redis(box):
    """The old process decides until the new one is connected, so `on_error` never decides."""
    if not is_redis_here():
        raise Skipped("there is no redis-server")
    server = Redis(box).start()
    d = Generations(box, more="engine: redis\n"
                              f"redis: {{url: 'redis://{HOST}:{server.port}', on_error: closed, deadline: 10s}}").start()
    until(lambda: fetch(d.ports["http"], "/readyz").status == 200, "the first process is connected")
    with under_load(d, (RespLoad, RespLoad, HttpLoad)) as loads:
        for _ in range(2):
            await_more(loads)
            d.hand_over()
        await_more(loads)
    check_charges(d, loads)
    equal([load.denied for load in loads], [0, 0, 0])
    before, old = len(d.log_text()), d.pid
    server.pause()
    d.send()
    paused = time.monotonic()
    until(lambda: d.said("started", before) or time.monotonic() > paused + 0.5, "it does not serve")
    equal(d.said("(?:started|taken-over)", before), [])
    server.resume()
    until(lambda: d.said("taken-over", before), "it serves")
    d.pid = int(re.search(r"process (\d+) takes over", d.log_text()[before:])[1])
    d.await_end(old)
    d.charge()
    before = len(d.log_text())
    server.kill()
    until(lambda: d.said("redis-down", before), "the server is gone")
    d.hand_over()
    d.end()


def first_of_a_container(box):
    """The first process of a container has the id 1."""
    words = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*words, "true"], check=False, capture_output=True).returncode != 0:
        raise Skipped("no user namespaces")
    d = Generations(box)
    d.spawn([*words, box.weir, "serve", d.config])
    until(lambda: d.started(0), "it starts")
    d.pid = int(pathlib.Path(f"/proc/{d.process.pid}/task/{d.process.pid}/children").read_text())
    d.send()
    until(lambda: d.said("hand-over-refused"), "it refuses")
    expect("weir is the first process of its container, which ends with it" in d.log_text(), d.log_text())
    d.send(signal.SIGTERM)
    equal(d.process.wait(PATIENCE_S), 0)


def notifications(box):
    """systemd learns the new main process from the old one, and hears from the new one after that."""
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.settimeout(PATIENCE_S)
    notify.bind(f"{box.path}/notify")

    def told():
        while True:
            text = notify.recv(4096).decode()
            if text != "WATCHDOG=1":
                return text

    d = Generations(box)
    d.spawn(["sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh", box.weir, "serve", d.config],
            env={**os.environ, "NOTIFY_SOCKET": f"{box.path}/notify", "WATCHDOG_USEC": "400000"})
    line = until(lambda: d.started(0), "it starts")
    d.pid, d.ports = d.process.pid, {"resp": d.port_in(line, "resp")}
    expect(told().startswith("READY=1\n"), "it is ready")
    d.hand_over()
    equal(told(), f"MAINPID={d.pid}")
    expect(told().startswith("READY=1\nSTATUS=serving 1 policy on resp"), "the new process is ready")
    equal(notify.recv(100), b"WATCHDOG=1", "the new process feeds the watchdog")
    d.send(signal.SIGTERM)
    expect(told().startswith("STOPPING=1\n"), "the new process stops")
    d.await_end(d.pid)


TESTS = (hand_overs_under_load, other_numbers_of_threads, take_over, nobody_to_take_over_from, bad_configuration,
         other_size, killed_new_process, second_signal, lent_state_file, notifications, memory_under_load,
         memory_has_all, memory_of_another_size, memory_without_a_socket, memory_prefault, memory_exhausted,
         memory_killed_new, memory_killed_old, file_has_all, forgotten, ends_of_connections, engine_redis,
         first_of_a_container)

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv, needs_redis=False))
