#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Opens and converts state files of all versions, in tests/e2e/old_states: version-N.xz is from the last
build of that version (of versions 3 and 4, from a later one), version-N-first.xz from its first build, and
version-N.jsonl.xz is what that build exported. All of them decide what old_states/decisions.txt says.

    old_states_test.py WEIR OLD_STATES"""

import contextlib
import lzma
import pathlib
import subprocess
import sys
import tempfile
import urllib.parse

from kit.http import fetch
from kit.process import HOST, Box
from kit.weir import Serving

FILES = pathlib.Path(__file__).resolve().parent / "old_states"
DAILY = "fixed-window 90/day"
KEYS = ("192.0.2.77", "a key of more than 64 bytes, which is reduced to 16 bytes before it is hashed")
REFUSED = "its states have version {}, expected 3{}"


class Failed(Exception):
    pass


def want(what, expected, found):
    if expected != found:
        raise Failed(f"{what}: expected {expected!r}, found {found!r}")


class Test:
    def __init__(self, weir, old_states, directory):
        self.weir, self.old_states, self.dir = weir, old_states, pathlib.Path(directory)

    def unpacked(self, name):
        path = self.dir / name
        path.write_bytes(lzma.decompress((FILES / (name + ".xz")).read_bytes()))
        path.chmod(0o600)
        return path

    def run(self, *words):
        return subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60)

    def decides_the_same(self, what, path):
        found = self.run(self.old_states, path)
        want(f"{what}: errors", "", found.stderr)
        want(f"{what}: decisions", (FILES / "decisions.txt").read_text(), found.stdout)

    def converts(self, what, lines):
        new = self.dir / "new"
        new.unlink(missing_ok=True)
        found = self.run(self.weir, "state", new, "--import", lines)
        want(f"{what}: the import", (0, ""), (found.returncode, found.stderr))
        self.decides_the_same(f"{what}, imported", new)

    def exports(self, name):
        lines = self.dir / "lines"
        found = self.run(self.weir, "state", self.unpacked(name), "--export", "--with-secret")
        want(f"{name}: the export", (0, ""), (found.returncode, found.stderr))
        lines.write_text(found.stdout)
        return lines

    def refuses(self, what, text, *words):
        found = self.run(self.weir, *words)
        want(f"{what}: the status", 1, found.returncode)
        if text not in found.stderr:
            raise Failed(f"{what}: expected {text!r} in {found.stderr!r}")

    def backed_up(self, name):
        path = self.dir / "copy"
        path.unlink(missing_ok=True)
        found = self.run(self.weir, "state", self.unpacked(name), "--backup", path)
        want(f"{name}: the backup", (0, ""), (found.returncode, found.stderr))
        return path

    def daemon_serves(self, what, path, memory):
        """The daemon continues with what decisions.txt says of 90 requests a day."""
        with contextlib.closing(Box(self.weir, None)) as box:
            daemon = Serving(box)
            daemon.config.write_text(f"listen: {{http: {HOST}:0, resp: off}}\nthreads: 1\n"
                                     f"memory: {{size: 16m, large: 1m, file: {path}}}\n"
                                     f"policies: {{api: {{limit: {DAILY}{memory}}}}}\n")
            port = daemon.port_in(daemon.serve(), "http")
            asked = [f"{limit}&key={urllib.parse.quote_plus(key)}"
                     for limit in (f"limit={urllib.parse.quote_plus(DAILY)}", "policy=api") for key in KEYS]
            found = [fetch(port, f"/v1/peek?{query}").json()["remaining"] for query in asked]
            want(f"{what}: the status", 0, daemon.end())
        lines = (FILES / "decisions.txt").read_text().splitlines()
        lines = lines[lines.index(DAILY) + 1:][:len(asked)]
        want(f"{what}: what is left", [int(line.split()[1]) for line in lines], found)

    def daemon_refuses(self, name, text):
        config = self.dir / "weir.yaml"
        config.write_text(f"listen: {{resp: '127.0.0.1:0'}}\nmemory: {{size: 8m, file: {self.dir / name}}}\n")
        self.refuses(f"{name}: the daemon", text, "serve", config)
        self.refuses(f"{name}: weir check", text, "check", config)

    def damaged(self, change):
        """A copy of a good file, as `change` returns its bytes."""
        path = self.dir / "damaged"
        path.write_bytes(change(lzma.decompress((FILES / "version-3.xz").read_bytes())))
        path.chmod(0o600)


def test_versions_3_and_4(test):
    for name in ("version-3-first", "version-3", "version-4-first", "version-4"):
        test.decides_the_same(name, test.unpacked(name))
        test.converts(name, test.exports(name))
        memory = ", memory: 5m" if "4" in name else ""
        if not name.endswith("first"):
            test.daemon_serves(f"{name}, in a backup", test.backed_up(name), memory)
        test.daemon_serves(name, test.unpacked(name), memory)


def test_version_2(test):
    test.decides_the_same("version-2, opened for reading", test.unpacked("version-2"))
    test.converts("version-2", test.exports("version-2"))
    test.converts("version-2.jsonl", test.unpacked("version-2.jsonl"))
    text = REFUSED.format(2, "; weir state can export them for a new file")
    test.daemon_refuses("version-2", text)
    test.refuses("version-2: --backup", text, "state", test.dir / "version-2", "--backup", test.dir / "copy")
    test.refuses("version-2: --set-clock", text, "state", test.dir / "version-2", "--set-clock")
    test.refuses("version-2: --import", text, "state", test.dir / "version-2", "--import", test.dir / "version-2.jsonl")


def test_version_1(test):
    text = REFUSED.format(1, ", and cannot be converted")
    path = test.unpacked("version-1")
    test.daemon_refuses("version-1", text)
    test.refuses("version-1: --export", text, "state", path, "--export")
    lines = test.unpacked("version-1.jsonl")
    text = "weir_state: expected version 2 to 4, found 1: its keys do not say which policy they belong to, "
    test.refuses("version-1.jsonl: --import", text, "state", test.dir / "new", "--import", lines)


def test_damaged(test):
    size = len(lzma.decompress((FILES / "version-3.xz").read_bytes()))
    for change, text in ((lambda data: data[:size // 2], f"it has {size // 2} bytes, expected {size} as in its header"),
                         (lambda data: data[:-1], f"it has {size - 1} bytes, expected {size} as in its header"),
                         (lambda data: data[:4095], "it is not a state file of weir"),
                         (lambda data: b"", "it is empty"),
                         (lambda data: data[:100] + b"damage" + data[106:], "its header is damaged")):
        test.damaged(change)
        before = (test.dir / "damaged").read_bytes()
        test.daemon_refuses("damaged", text)
        want(f"{text}: the file", before, (test.dir / "damaged").read_bytes())


def main():
    tests, failed = (test_versions_3_and_4, test_version_2, test_version_1, test_damaged), 0
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="weir-old-states-") as directory:
            try:
                test(Test(sys.argv[1], sys.argv[2], directory))
            except Failed as error:
                print(f"{test.__name__}: {error}")
                failed += 1
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
