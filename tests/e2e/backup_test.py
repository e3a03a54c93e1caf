#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`weir state FILE --backup COPY` while a daemon uses the file under load: known keys are charged, new keys
fill the table until keys are displaced, and reservations are made and cancelled. In each copy, the count of a
known key is between its answered charges before the backup and its charges sent until the end of it. Then
the backup is killed, and the daemon during a backup.

    backup_test.py WEIR"""

import contextlib
import pathlib
import subprocess
import sys
import threading

from kit.process import Box, Failed, equal, expect, until
from kit.resp import command
from kit.weir import Daemon

KNOWN, NEW, FULL, BEGIN = 200, 2000, 320000, 9000
POLICIES = {"count": "fixed-window 20000/w from-first", "log": "sliding-log 20000/w",
            "held": "fixed-window 900/w", "new": "fixed-window 1000000/w from-first"}  # these use the smallest share, and are evicted first
SIZE = "8m"


def pipeline(client, words):
    client.socket.sendall(b"".join(command(*one) for one in words))
    return [client.read() for _ in words]


class Load(threading.Thread):
    """Charges the known keys in order, and new keys, until it ends. Makes and cancels reservations."""

    flooding, fresh = False, 0

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.client, self.going, self.error = daemon.client(), True, None
        self.sent, self.answered = [BEGIN] * KNOWN, [BEGIN] * KNOWN

    def run(self):
        try:
            while self.going:
                self.round()
        except (OSError, Failed) as error:
            self.error = error

    def round(self):
        for key in range(KNOWN):
            self.sent[key] += 1
        replies = pipeline(self.client, known("WEIR.TAKE") + [("WEIR.RESERVE", "held", "room", 5, "TTL", "10m")])
        for key in range(KNOWN):
            equal(replies[key][0], 1, "a charge is allowed")
            self.answered[key] += 1
        equal(replies[-1][0], 1, "a reservation is made")
        self.client.call("WEIR.CANCEL", replies[-1][-1])
        if self.flooding:
            self.flood()

    def flood(self):
        """Each reply has seven lines."""
        lines = [b"WEIR.TAKE new flood-%d COST 9\r\n" % n for n in range(self.fresh, self.fresh + NEW)]
        self.fresh += NEW
        self.client.socket.sendall(b"".join(lines))
        found = 0
        while found < 7 * NEW:
            data = self.client.socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError("the daemon closed the connection")
            found += data.count(b"\n")

    def end(self):
        self.going = False
        self.join()


def known(*words):
    """A request for each known key."""
    return [(words[0], "log" if key % 10 == 9 else "count", f"known-{key}", *words[1:]) for key in range(KNOWN)]


def backup(box, copy="copy"):
    words = [box.weir, "state", box.path / "state", "--backup", box.path / copy]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def begun(box, copy):
    """A backup that writes its file."""
    job = backup(box, copy)
    until(lambda: (box.path / f"{copy}.new").exists() or job.poll() is not None, "a backup begins", every_s=0.0005)
    return job


def complete(job):
    out, errors = job.communicate(timeout=60)
    equal((job.returncode, errors), (0, ""), "a backup")
    return int(out.split()[1])


def daemon_on(box, name):
    return Daemon(box, POLICIES, engine=None, threads=2, memory=f"{{size: {SIZE}, file: {box.path / name}}}").start()


def counts(daemon):
    with contextlib.closing(daemon.client()) as client:
        return [reply[1] - reply[2] for reply in pipeline(client, known("WEIR.PEEK"))]


def judge(box, copy, least, most, ended=0):
    """The copy, as a daemon restores it. Each of the `ended` loads has left one open reservation at most."""
    restored = daemon_on(box, copy)
    found = counts(restored)
    wrong = [(key, least[key], found[key], most[key]) for key in range(KNOWN) if not least[key] <= found[key] <= most[key]]
    expect(not wrong, f"{len(wrong)} keys are wrong in {copy}: (key, least, found, most) {wrong[:5]}")
    charged = 900 - restored.call("WEIR.PEEK", "held", "room")[2]
    expect(charged in range(0, 5 * ended + 6, 5), f"{charged} units are charged, {ended} loads have ended")
    equal(restored.end(), 0, "the exit status")


def under_load(box, daemon, load):
    until(lambda: load.fresh >= FULL or load.error, "the table fills", 60)
    expect(daemon.metric("weir_store_evicted_total") > 0, "the table is full")
    for n in range(2):
        least = list(load.answered)
        keys = complete(backup(box, f"copy-{n}"))
        most = list(load.sent)
        expect(keys > 200000, f"{keys} keys in the copy")
        judge(box, f"copy-{n}", least, most)


def rest_is_refused(box, name):
    """What a killed backup has left is no good file; nothing may be left of one that was complete."""
    if (box.path / name).exists():
        found = subprocess.run([box.weir, "state", box.path / name], capture_output=True, text=True, check=False)
        equal(found.returncode, 1, f"weir state {name}: {found.stdout}")
        expect(any(why in found.stderr for why in ("unfinished copy", "not a state file of weir", "it is empty")),
               found.stderr)


def killed(box, load):
    """A backup that is killed leaves its target as it was, and the daemon goes on."""
    least = list(load.answered)
    complete(backup(box, "killed"))
    most = list(load.sent)
    before = (box.path / "killed").read_bytes()
    for _ in range(4):
        job = begun(box, "killed")
        job.kill()
        job.communicate()
        rest_is_refused(box, "killed.new")
    changed = (box.path / "killed").read_bytes() != before
    judge(box, "killed", least, list(load.sent) if changed else most)
    complete(backup(box, "after"))
    expect(not (box.path / "after.new").exists(), "a complete backup leaves no other file")


def daemon_killed(box, daemon, load):
    for ended in range(2):
        least, job = list(load.answered), begun(box, "last")
        daemon.kill()
        load.join()
        complete(job)
        most = list(load.sent)
        daemon = daemon_on(box, "state")
        found = counts(daemon)
        expect(all(load.answered[key] <= found[key] <= load.sent[key] for key in range(KNOWN)), "the file itself")
        judge(box, "last", least, most, ended)
        load = Load(daemon)
        load.sent, load.answered = found[:], found[:]
        load.start()
    load.end()
    expect(not load.error, f"the load: {load.error}")
    return daemon


def refused(box):
    (box.path / "notes").write_text("mine")
    out = backup(box, "notes").communicate()
    expect("it is not a state file of weir" in out[1], out)
    equal((box.path / "notes").read_text(), "mine", "another file")
    out = backup(box, "state").communicate()
    expect("in use by another weir process" in out[1], out)
    out = backup(box, "absent/copy").communicate()
    expect("directory" in out[1], out)


def main():
    with contextlib.closing(Box(pathlib.Path(sys.argv[1]).resolve(), None)) as box:
        try:
            daemon = daemon_on(box, "state")
            with contextlib.closing(daemon.client()) as client:
                pipeline(client, known("WEIR.TAKE", "COST", BEGIN))
            load = Load(daemon)
            load.flooding = True
            load.start()
            under_load(box, daemon, load)
            load.flooding = False
            killed(box, load)
            daemon = daemon_killed(box, daemon, load)
            refused(box)
            equal(daemon.end(), 0, "the exit status of the daemon")
        except Failed as failed:
            print(f"{failed}\n0 passed, 1 failed, 0 skipped")
            return True
    print("1 passed, 0 failed, 0 skipped")
    return False


if __name__ == "__main__":
    sys.exit(main())
