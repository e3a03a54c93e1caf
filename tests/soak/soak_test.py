#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A daemon under load for a long time: RESP, HTTP, HTTPS and gRPC, while it reloads, changes policies, rotates its
certificate, hands over to new processes, and new processes are killed. No client has an error, every decision is
charged exactly once, the memory stays flat, and the log has no line that the soak does not expect.

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
from kit.process import HOST, Box, Certificates, Failed, expect, say, until

GROWTH_MAX = 8 << 20  # bytes of anonymous memory of a process, over that of the first one
EXPECTED = {"started", "state", "stopping", "stopped", "hand-over", "handed-over", "taken-over", "hand-over-failed",
            "reloaded", "kept", "tls-reloaded"}
ERRORS = {"hand-over-failed"}  # events that may be a warning


class Soak:
    def __init__(self, box, seconds):
        self.box, self.round, self.anon, self.descriptors = box, 0, [], []
        self.period_s = min(30, max(seconds / 8, 1))
        tls = box.tls()
        self.program = box.path / "weir"
        shutil.copy(box.weir, self.program)
        self.daemon = with_grpc(box, program=self.program)
        text = self.daemon.config.read_text().replace(
            f"http: {HOST}:0", f"http: [{HOST}:0, {{address: '{HOST}:0', tls: {{cert: {tls.cert}, key: {tls.key}}}}}]")
        self.daemon.config.write_text(text)
        self.daemon.start()
        line = self.daemon.started(0)
        plain, secret = re.search(r" http=[^ ]*:(\d+),[^ ]*:(\d+)", line).groups()
        self.daemon.ports.update(http=int(plain), https=int(secret))

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
    s.check_log()
    replies, connections = (sum(getattr(load, name) for load in loads) for name in ("admitted", "connections"))
    unanswered = sum(load.unanswered for load in loads)
    say(f"{s.round} hand-overs, reloads, certificates and killed processes; {replies} decisions over {connections} "
        f"connections, all charged once; {unanswered} requests without a reply, none charged")
    say(f"anonymous memory: {s.anon[0] >> 10} KiB in the first process, at most {max(s.anon) >> 10} KiB; "
        f"descriptors: {s.descriptors[0]}, at most {max(s.descriptors)}")
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
