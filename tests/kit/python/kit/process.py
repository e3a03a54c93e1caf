# SPDX-License-Identifier: BSD-2-Clause
"""The base of all tests with real programs: waiting for a condition, free ports, child processes that end with
the test, even if the test is killed, and run(), which runs the tests of a file and counts them.

A test is a function that takes a Box: a temporary directory, and processes on free ports of the loopback."""

import atexit
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HOST = "127.0.0.1"
ROOT = pathlib.Path(__file__).resolve().parents[4]
PATIENCE_S = 60  # the longest wait for a condition, on a busy machine


_claims = []  # an abstract socket for each chosen port


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def expect(true, what):
    if not true:
        raise Failed(what)


def equal(found, wanted, what=""):
    expect(found == wanted, f"{what}: found {found!r}, expected {wanted!r}")


def say(text):
    print("# " + text.replace("\n", "\n# "), flush=True)


def until(condition, what, patience_s=PATIENCE_S, every_s=0.005):
    """Calls `condition` until it returns something true, and returns that."""
    end = time.monotonic() + patience_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"not within {patience_s} s: {what}")
        threading.Event().wait(every_s)


def free_port():
    """A port p that is free on all addresses, as is p + 10000, the port of a Cluster's bus. No outgoing connection is
    given it, and no other test chooses it while this process lives."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10000, max(first - 10000, 20000))
        claim = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as s, socket.socket() as bus:
            claim.bind(f"\0weir-test-port-{port}")
            s.bind(("", port))
            bus.bind(("", port + 10000))
            _claims.append(claim)
            return port
        claim.close()


def mortal(words):
    """Changes a command line so that the process ends with the test, even if the test is killed."""
    if not shutil.which(words[0]):
        raise Failed(subprocess.run([ROOT / "tools/deps", "--missing", words[0]], check=True, capture_output=True, text=True).stdout)
    return (["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []) + list(words)


# ---- processes -----------------------------------------------------------------------------------


class Process:
    """A child that ends when its Box does, or when the test dies."""

    def __init__(self, box, name):
        self.box, self.name, self.process = box, name, None
        self.log = box.path / f"{name}.log"
        box.processes.append(self)

    def spawn(self, words, **more):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(word) for word in mortal(words)], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True, **more)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def pause(self):
        """Stops the process, and waits until all its threads have stopped: until then one may still reply."""
        self.signal(signal.SIGSTOP)
        until(lambda: set(self.thread_states()) == {"T"}, f"{self.name} stops")

    def thread_states(self):
        for thread in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            yield (thread / "stat").read_text().rsplit(")", 1)[1].split()[0]

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """Kills it and the processes that it has started, such as an nginx's workers, with SIGKILL."""
        if self.is_running():
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def end(self):
        """Stops it with SIGTERM, and returns the exit status."""
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name} did not stop within the timeout:\n{self.tail()}") from None

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines=20):
        return "\n".join(self.log_text().splitlines()[-lines:])


# ---- certificates --------------------------------------------------------------------------------


MAKE_CERTIFICATES = ROOT / "tests/e2e/certificates.sh"


class Certificates:
    """A certificate authority, a server certificate for the loopback, and a client certificate."""

    def __init__(self, path):
        path.mkdir()
        self.ca, self.cert, self.key = path / "ca.pem", path / "server.pem", path / "server.key"
        self.client_cert, self.client_key = path / "client.pem", path / "client.key"
        script = '. "$1"; authority ca && pair server ca 2 "$2" && pair client ca 2 "$2"'
        done = subprocess.run(["bash", "-c", script, "bash", str(MAKE_CERTIFICATES), f"IP:{HOST},DNS:localhost"],
                              cwd=path, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
        expect(done.returncode == 0, f"{MAKE_CERTIFICATES}: {done.stderr}")
        self.context = ssl.create_default_context(cafile=str(self.ca))
        self.context.load_cert_chain(self.client_cert, self.client_key)

    def server_context(self):
        """For a server that wants the client's certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.ca))
        context.load_cert_chain(self.cert, self.key)
        context.verify_mode = ssl.CERT_REQUIRED
        return context


# ---- tests ---------------------------------------------------------------------------------------


class Box:
    """A directory and the processes of a test."""

    def __init__(self, weir, module):
        self.weir, self.module, self.processes = weir, module, []
        self.directory = tempfile.TemporaryDirectory(prefix="weir-redis-")
        self.path = pathlib.Path(self.directory.name)
        self.count, self.certificates = 0, None
        atexit.register(self.close)

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def tls(self):
        if not self.certificates:
            self.certificates = Certificates(self.path / "tls")
        return self.certificates

    def close(self):
        atexit.unregister(self.close)
        for process in self.processes:
            process.kill()
        self.processes.clear()
        self.directory.cleanup()


def _stop(number, _frame):
    sys.exit(128 + number)


def is_redis_here():
    return shutil.which("redis-server") and shutil.which("redis-cli")


def run(tests, argv, long=(), needs_redis=True):
    """Runs the tests of TEST.py WEIR MODULE [--long | NAME...]: all quick ones, the long ones, or those
    named. Returns the exit status. Without a redis-server, skips all unless needs_redis is false."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    weir, module = (pathlib.Path(word).resolve() for word in argv[1:3])
    every = [*tests, *long]
    wanted = argv[3:] or [test.__name__ for test in tests]
    if wanted == ["--long"]:
        wanted = [test.__name__ for test in long]
    unknown = set(wanted) - {test.__name__ for test in every}
    if unknown:
        print(f"there are no tests {unknown}, but {[test.__name__ for test in every]}")
        return 2
    if needs_redis and not is_redis_here():
        print(f"skipped: {len(wanted)} in {pathlib.Path(argv[0]).stem}: there is no redis-server")
        print(f"0 passed, 0 failed, {len(wanted)} skipped")
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for test in every:
        if test.__name__ not in wanted:
            continue
        box, began, result = Box(weir, module), time.monotonic(), "passed"
        try:
            test(box)
        except Skipped as skipped:
            result = "skipped"
            say(f"skipped: 1 in {test.__name__}: {skipped}")
        except Exception as failed:  # pylint: disable=broad-except
            result = "failed"
            for process in box.processes:
                say(f"---- {process.name}\n{process.tail(15)}")
            say("".join(traceback.format_exception(failed)))
        finally:
            box.close()
        counts[result] += 1
        took = time.monotonic() - began
        number = sum(counts.values())
        print(f"{'not ' if result == 'failed' else ''}ok {number} - {test.__name__}"
              f"{' # skip' if result == 'skipped' else ''} ({took:.1f} s)", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] + counts["skipped"] else 0
