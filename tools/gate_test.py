#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests how tools/tally and tools/gate count, on made-up output of test programs."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


gate = load("gate")


def tally(*programs):
    """Runs tools/tally on a log. A program is its output and meson's result. Returns the lines and the status."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        for i, (text, result) in enumerate(programs):
            log.write(json.dumps({"name": f"weir:unit / p{i}", "stdout": text, "result": result}) + "\n")
        log.flush()
        run = subprocess.run([sys.executable, HERE / "tally", log.name], capture_output=True, text=True, check=False)
    return run.stdout.splitlines(), run.returncode


class Tally(unittest.TestCase):
    def same(self, programs, lines, status):
        self.assertEqual(tally(*programs), (lines, status))

    def test_own_counts_are_added(self):
        self.same([("3 passed, 0 failed, 0 skipped\n", "OK"), ("ok\n2 passed, 0 failed\n", "OK")],
                  ["5 tests, 0 compared cases", "5 passed, 0 failed, 0 skipped"], 0)

    def test_cmocka(self):
        text = "[  PASSED  ] 4 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n"
        self.same([(text, "OK")],
                  ["skipped: 1 in p0", "5 tests, 0 compared cases", "4 passed, 0 failed, 1 skipped"], 0)

    def test_program_without_a_count_is_one_test(self):
        self.same([("hello\n", "OK"), ("", "SKIP")],
                  ["skipped: 1 in p1", "2 tests, 0 compared cases", "1 passed, 0 failed, 1 skipped"], 0)

    def test_cases_are_counted_apart(self):
        self.same([("1325 cases, 0 failed\n", "OK"), ("7 cases, 0 failed\n2 passed, 0 failed, 0 skipped\n", "OK")],
                  ["3 tests, 1332 compared cases", "3 passed, 0 failed, 0 skipped"], 0)

    def test_nothing_counted_is_a_failure(self):
        for text in ("0 passed, 0 failed, 0 skipped\n", "0 passed, 0 failed\n", "[  PASSED  ] 0 test(s).\n"):
            self.same([(text, "OK"), ("1 passed, 0 failed\n", "OK")],
                      ["failed: weir:unit / p0 counted nothing", "2 tests, 0 compared cases",
                       "1 passed, 1 failed, 0 skipped"], 1)
        lines, status = tally(("0 cases, 0 failed\n", "OK"))
        self.assertEqual((lines[0], status), ("failed: weir:unit / p0 counted nothing", 1))

    def test_crash_is_a_failure(self):
        for result in ("FAIL", "TIMEOUT", "ERROR"):
            self.same([("5 passed, 0 failed\n", result)],
                      ["6 tests, 0 compared cases", "5 passed, 1 failed, 0 skipped"], 1)
            self.same([("5 cases, 0 failed\n", result)],
                      ["1 tests, 5 compared cases", "0 passed, 1 failed, 0 skipped"], 1)

    def test_failed_cases_are_a_failure(self):
        for text in ("5 cases, 1 failed\n", "5 cases, 1 failed\n2 passed, 0 failed, 0 skipped\n"):
            self.same([(text, "OK")],
                      ["failed: weir:unit / p0 succeeded with 1 failed cases", "1 tests, 5 compared cases",
                       "0 passed, 1 failed, 0 skipped"], 1)

    def test_cmocka_program_that_ends_early(self):
        begin = "[==========] Running 2 test(s).\n[ RUN      ] one\n"
        self.same([(begin, "OK")],
                  ["failed: weir:unit / p0 ended before its last test", "1 tests, 0 compared cases",
                   "0 passed, 1 failed, 0 skipped"], 1)
        self.same([(begin + "[==========] 2 test(s) run.\n[  PASSED  ] 2 test(s).\n", "OK")],
                  ["2 tests, 0 compared cases", "2 passed, 0 failed, 0 skipped"], 0)

    def test_log_that_cannot_be_read(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            log.write('{"name": "weir:unit')
            log.flush()
            for name in (log.name, "/nonexistent.json"):
                done = subprocess.run([sys.executable, HERE / "tally", name], capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stderr), (1, ""))
                self.assertIn(f"failed: {name}: expected a log of meson test: ", done.stdout)
                self.assertTrue(done.stdout.endswith("\n0 passed, 1 failed, 0 skipped\n"))

    def test_no_programs(self):
        self.same([], ["0 tests, 0 compared cases", "0 passed, 0 failed, 0 skipped"], 1)


class Counts(unittest.TestCase):
    """Tests gate.counts(), which counts the tests of one stage."""

    def counts(self, text, status=0):
        return gate.counts(status, text, {"e2e": 2})

    def test_last_line(self):
        self.assertEqual(self.counts("1 passed, 0 failed\n9 tests, 4 compared cases\n9 passed, 0 failed, 0 skipped\n"),
                         ([9, 0, 0], 4, []))

    def test_stage_without_a_count(self):
        found, _, wrong = self.counts("all is well\n")
        self.assertEqual((found, len(wrong)), ([0, 1, 0], 1))
        self.assertEqual(self.counts("all is well\n", -9), ([0, 1, 0], 0, ["killed by signal 9"]))
        self.assertEqual(self.counts("5 passed, 0 failed\n", -9), ([5, 1, 0], 0, ["killed by signal 9"]))

    def test_skips(self):
        self.assertEqual(self.counts("skipped: 2 in e2e\n3 passed, 0 failed, 2 skipped\n"), ([3, 0, 2], 0, []))
        self.assertEqual(self.counts("skipped: 2 in e2e: no server\n3 passed, 0 failed, 2 skipped\n"), ([3, 0, 2], 0, []))
        for text, tests in (("skipped: 3 in e2e\n3 passed, 0 failed, 3 skipped\n", [3, 1, 3]),
                            ("skipped: 2 in e2e\nskipped: 1 in e2e\n3 passed, 0 failed, 3 skipped\n", [3, 1, 3]),
                            ("skipped: 1 in other: no server\n3 passed, 0 failed, 1 skipped\n", [3, 1, 1]),
                            ("3 passed, 0 failed, 1 skipped\n", [3, 1, 1])):
            found, _, wrong = self.counts(text)
            self.assertEqual((found, len(wrong)), (tests, 1), text)

    def test_failures(self):
        self.assertEqual(self.counts("0 passed, 0 failed, 0 skipped\n")[0], [0, 1, 0])
        self.assertEqual(self.counts("9 passed, 0 failed, 0 skipped\n", 2)[0], [9, 1, 0])
        self.assertEqual(self.counts("8 passed, 1 failed, 0 skipped\n", 2)[0], [8, 1, 0])
        self.assertEqual(self.counts("make: no rule\n", 2)[0], [0, 1, 0])

    def test_skips_file(self):
        skips = gate.read_skips((HERE / "skips").read_text(encoding="utf-8"))
        self.assertEqual(skips["without-valkey-server"], 1)


def run(*stages):
    """Runs stages. Returns the output and whether the run failed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        failed = gate.run([gate.Stage(*stage) for stage in stages], {})
    return out.getvalue(), failed


class Gate(unittest.TestCase):
    GOOD = "echo 7 tests, 5 compared cases; echo 7 passed, 0 failed, 0 skipped"

    def test_again_counts_only_failures(self):
        out, failed = run(("check", self.GOOD), ("asan", self.GOOD, True), ("lint", "echo 3 passed, 0 failed"))
        self.assertTrue(out.endswith("\n10 tests, 5 compared cases\n10 passed, 0 failed, 0 skipped\n"), out)
        self.assertFalse(failed)
        out, failed = run(("check", self.GOOD), ("asan", "echo 6 passed, 1 failed, 0 skipped; false", True))
        self.assertTrue(out.endswith("\n8 tests, 5 compared cases\n7 passed, 1 failed, 0 skipped\n"), out)
        self.assertTrue(failed)

    def test_output_is_not_mixed(self):
        noisy = "for i in $(seq 50); do echo %s; done; exit 1"
        out, failed = run(("check", noisy % "left"), ("lint", noisy % "right"))
        self.assertIn("left\n" * 50, out)
        self.assertIn("right\n" * 50, out)
        self.assertTrue(failed)

    def test_one_stage(self):
        self.assertFalse(run(("redis", self.GOOD, False, True))[1])

    def test_stage_that_cannot_be_run(self):
        with contextlib.redirect_stderr(io.StringIO()):
            out, failed = run(("check", None), ("redis", self.GOOD, False, True), ("lint", self.GOOD))
        self.assertTrue(out.endswith("\n14 passed, 1 failed, 0 skipped\n"), out)
        self.assertTrue(failed)

    def test_redis_waits_for_the_first(self):
        with tempfile.TemporaryDirectory() as at:
            _, failed = run(("check", f"seq 1000000 | md5sum >{at}/sum; {self.GOOD}"), ("redis", f"grep . {at}/sum && {self.GOOD}", False, True))
        self.assertFalse(failed)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=0)
    ran, bad = program.result.testsRun, len(program.result.failures) + len(program.result.errors)
    print(f"{ran - bad} passed, {bad} failed, 0 skipped")
    sys.exit(bad > 0)
