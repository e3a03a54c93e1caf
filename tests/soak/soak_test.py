#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A daemon under load for a long time: RESP, HTTP, HTTPS and gRPC, while it reloads, changes policies, users and their
passwords, rotates its certificate, hands over to new processes, and new processes are killed. No client has an error,
every decision is charged exactly once, the memory stays flat, and the log has no line that the soak does not expect.

    soak_test.py WEIR SECONDS"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import sys
import time

from kit.generations import GrpcLoad, HttpLoad, HttpsLoad, RespLoad, await_more, check_charges, under_load, with_grpc
from kit.process import HOST, Box, Certificates, Failed, equal, expect, say, until
from kit.resp import Client, Refused

GROWTH_MAX = 8 << 20  # bytes of anonymous memory of a process, over that of the first one
EXPECTED = {"started", "state", "stopping", "stopped", "hand-over", "handed-over", "taken-over", "hand-over-failed",
            "reloaded", "kept", "tls-reloaded", "right-denied", "wrong-password", "tls-reload-refused"}
# Events that may be no information. The daemon may see a new key before its certificate, and then tries again.
ERRORS = {"hand-over-failed", "right-denied", "wrong-password", "tls-reload-refused"}


class Soak:
    def __init__(self, box, seconds):
        self.box, self.round, self.anon, self.descriptors = box, 0, [], []
        self.period_s = min(30, max(seconds / 8, 1))
        tls = box.tls()
        self.program = box.path / "weir"
        shutil.copy(box.weir, self.program)
        self.daemon = with_grpc(box, program=self.program)
        text = self.daemon.config.read_text()
        bound, secret = f"address: '{HOST}:0', user: load", f"tls: {{cert: {tls.cert}, key: {tls.key}}}"
        for name, address in (("resp", f"[{HOST}:0, {{{bound}}}]"), ("http", f"[{{{bound}}}, {{{bound}, {secret}}}]"),
                              ("grpc", f"{{{bound}}}")):
            text = text.replace(f"{name}: {HOST}:0", f"{name}: {address}")
        self.passwords = ["p0"]
        self.daemon.config.write_text(f"{text}users: {{load: {{may: [take, peek]}}, ops: {{}}}}\n")
        self.set_user("take, peek")
        self.daemon.start()
        self.daemon.ports.update(zip(("logins", "resp"), self.ports_of("resp")), **dict(
            zip(("http", "https"), self.ports_of("http"))))

    def ports_of(self, protocol):
        addresses = re.search(rf" {protocol}=(\S+)", self.daemon.started(0))[1]
        return [int(port) for port in re.findall(r":(\d+)", addresses)]

    def edit(self, old, new):
        """Changes the configuration, which the daemon notices."""
        text = re.sub(old, new, self.daemon.config.read_text())
        self.daemon.config.write_text(text)

    def reload(self):
        """Changes a limit that the clients do not use, and adds a policy or removes it."""
        before = len(self.daemon.log_text())
        more = f", b: gcra {self.round + 1}/s" + (", c: sliding-log 5/m" if self.round % 2 else "")
        self.edit(r"(policies: \{a: [^,}]*)[^}]*", rf"\g<1>{more}")
        until(lambda: self.daemon.said("reloaded", before), "the daemon reloads")

    def rotate(self):
        """Replaces the certificate by one of a new key of the same authority."""
        before, tls = len(self.daemon.log_text()), self.box.tls()
        fresh = Certificates(self.box.path / f"tls{self.round}")
        for old, new in ((tls.ca, fresh.ca), (tls.key, fresh.key), (tls.cert, fresh.cert)):
            if old == tls.ca:  # clients trust both, until the daemon has the new one
                old.write_text(old.read_text() + new.read_text())
            else:
                os.replace(new, old)
        self.daemon.send(signal.SIGHUP)
        until(lambda: self.daemon.said("tls-reloaded", before), "the daemon loads its certificate")

    def set_user(self, may):
        self.edit(r"ops: \{[^}]*\}", f"ops: {{password: [{', '.join(self.passwords)}], may: [{may}]}}")

    def change_user(self, passwords, may):
        before, self.passwords = len(self.daemon.log_text()), passwords
        self.set_user(may)
        until(lambda: self.daemon.said("reloaded", before), "the daemon reloads")

    def login(self, password):
        return contextlib.closing(Client(self.daemon.ports["logins"], password, "ops"))

    def change_users(self):
        """A user's password is replaced, and a right is taken from the user and given back. Open connections follow."""
        [old], new = self.passwords, f"p{self.round + 1}"
        take, peek = ("WEIR.TAKE", "a", "other"), ("WEIR.PEEK", "a", "other")
        with self.login(old) as first:
            equal(first.call(*take)[0], 1)
            self.change_user([old, new], "peek")
            with self.login(new) as second:
                for client in (first, second):
                    equal(client.call(*peek)[0], 1)
                    client.send(*take)
                    expect(str(client.read()).startswith("NOPERM"), "the right is gone")
                self.change_user([new], "take, peek")
                equal(second.call(*take)[0], 1)
                first.send(*peek)
                expect(isinstance(first.read(), Refused), "the password is gone")
        with contextlib.closing(Client(self.daemon.ports["logins"])) as late:
            late.send("AUTH", "ops", old)
            expect(str(late.read()).startswith("WRONGPASS"), "the old password is refused")

    def kill_new(self):
        """The new process is killed before it serves: at once, or while the old one waits."""
        before = len(self.daemon.log_text())
        waits = self.round % 2
        beside = self.program.with_suffix(".beside")
        os.rename(self.program, beside)
        self.program.write_text("#!/bin/sh\n" + ("exec sleep 1000\n" if waits else "kill -9 $$\n"))
        self.program.chmod(0o755)
        self.daemon.send()
        until(lambda: self.daemon.said("hand-over", before), "a new process starts")
        if waits:
            os.kill(int(re.search(r"process (\d+) takes over", self.daemon.log_text()[before:])[1]), signal.SIGKILL)
        until(lambda: self.daemon.said("hand-over-failed", before), "the hand-over fails")
        os.rename(beside, self.program)

    def measure(self):
        status = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text()
        self.anon.append(int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10)
        self.descriptors.append(len(self.daemon.descriptors()))

    def one_round(self, loads):
        end = time.monotonic() + self.period_s
        self.reload()
        await_more(loads)
        self.rotate()
        await_more(loads)
        self.change_users()
        await_more(loads)
        self.kill_new()
        await_more(loads)
        until(lambda: time.monotonic() > end, "the period ends", self.period_s + 60, 0.05)
        self.measure()
        self.daemon.hand_over()
        await_more(loads)
        self.round += 1

    def check_log(self):
        for line in self.daemon.log_text().splitlines():
            _, level, event, *_ = line.split(" ")
            expect(event in EXPECTED and (level == "info" or event in ERRORS), f"unexpected: {line}")


def soak(box, seconds):
    s, end = Soak(box, seconds), time.monotonic() + seconds
    with under_load(s.daemon, (RespLoad, RespLoad, HttpLoad, HttpsLoad, GrpcLoad)) as loads:
        await_more(loads)
        while time.monotonic() < end:
            s.one_round(loads)
    check_charges(s.daemon, loads)
    s.daemon.end()
    replies, connections = (sum(getattr(load, name) for load in loads) for name in ("admitted", "connections"))
    unanswered = sum(load.unanswered for load in loads)
    say(f"{s.round} hand-overs, reloads, certificates, passwords and killed processes; {replies} decisions over "
        f"{connections} connections, all charged once; {unanswered} requests without a reply, none charged")
    say(f"anonymous memory: {s.anon[0] >> 10} KiB in the first process, at most {max(s.anon) >> 10} KiB; "
        f"descriptors: {s.descriptors[0]}, at most {max(s.descriptors)}")
    s.check_log()
    expect(max(s.anon) <= s.anon[0] + GROWTH_MAX, f"the memory stays flat: {s.anon}")
    expect(max(s.descriptors) <= s.descriptors[0] + 8, f"no descriptor is left open: {s.descriptors}")


def main():
    with contextlib.closing(Box(pathlib.Path(sys.argv[1]).resolve(), None)) as box:
        try:
            soak(box, float(sys.argv[2]))
        except (Failed, OSError) as failed:
            for process in box.processes:
                say(process.tail(20))
            print(f"{failed}\n0 passed, 1 failed, 0 skipped")
            return 1
    print("1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
