# SPDX-License-Identifier: BSD-2-Clause
"""Starts nginx processes with the module, each in a directory of its own on a free port of the loopback,
and sends requests to them. run() runs the tests of a file, like run() of kit.process.

An nginx ends with its test. If it has logged an alert, if a worker has crashed, or if a sanitizer has
reported anything, the test fails. With NGINX_PRELOAD, the runtime of the sanitizers is loaded."""

import collections
import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

from kit import process
from kit.process import HOST, PATIENCE_S, Failed, Process, equal, expect, free_port, mortal, until

NGINX = os.environ.get("NGINX_BINARY") or shutil.which("nginx")
PRELOAD = os.environ.get("NGINX_PRELOAD", "")
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
# Lines of the error log that are no failure of the module: the kill of a worker by a test.
EXPECTED = re.compile(r"exited on signal 9\b")
FAILURE = re.compile(r"\[(?:alert|emerg|crit)\]|exited on signal")


# ---- a client ------------------------------------------------------------------------------------


class Response(collections.namedtuple("Response", "status headers body")):
    """`headers` is a list of pairs; their names are in lower case."""

    def __getitem__(self, name):
        """The value of a header, or None. Fails if there are two."""
        found = [value for key, value in self.headers if key == name.lower()]
        expect(len(found) < 2, f"{len(found)} headers {name}: {found}")
        return found[0] if found else None

    def json(self):
        return json.loads(self.body)


class Client:
    """A blocking HTTP/1.1 connection that is kept alive. send() and read() are apart for pipelines."""

    def __init__(self, port, patience_s=PATIENCE_S):
        self.socket = socket.create_connection((HOST, port), patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        self.methods = collections.deque()

    @staticmethod
    def request(path, method="GET", headers=None, body=b""):
        lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in {"Host": "a.test", **(headers or {})}.items())]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

    def send(self, *paths, method="GET", headers=None, body=b""):
        """Sends a request for each path, at once."""
        self.methods.extend(method for _ in paths)
        self.socket.sendall(b"".join(self.request(path, method, headers, body) for path in paths))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        version, status, _ = line.decode("latin-1").split(" ", 2)
        equal(version, "HTTP/1.1", "version")
        headers = []
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, value = line.decode("latin-1").split(":", 1)
            headers.append((name.lower(), value.strip()))
        if status == "100":
            return self.read()
        return Response(int(status), headers, self.read_body(int(status), dict(headers)))

    def read_body(self, status, headers):
        if self.methods.popleft() == "HEAD" or status in (204, 304):
            return b""
        if headers.get("transfer-encoding") == "chunked":
            return b"".join(iter(self.read_chunk, b""))
        if "content-length" in headers:
            return self.file.read(int(headers["content-length"]))
        return self.file.read()

    def read_chunk(self):
        size = int(self.file.readline().split(b";")[0], 16)
        return self.file.read(size + 2)[:size]

    def get(self, path="/", **more):
        self.send(path, **more)
        return self.read()

    def is_readable(self, patience_s):
        """Whether a response arrives within this time, after all others were read."""
        self.socket.settimeout(patience_s)
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(PATIENCE_S)

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def curl(*words):
    """Runs curl, and returns what it prints."""
    done = subprocess.run(["curl", "-sS", *[str(word) for word in words]], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL)
    expect(done.returncode == 0, f"curl {words}: {done.stderr}")
    return done.stdout


# ---- nginx ---------------------------------------------------------------------------------------


class Nginx(Process):
    """An nginx with the module. `http` and `server` are lines of these blocks, `main` of the whole
    file; `listen` has parameters of the directive of that name. Relative paths are below `directory`.
    With daemon=True, the master detaches itself, as a binary upgrade requires. With quiet=True, denials
    are not logged."""

    def __init__(self, box, http="", server="", *, main="", workers=1, master=True, daemon=False,
                 listen="", quiet=False):
        super().__init__(box, box.name("nginx"))
        box.path.chmod(0o755)  # workers may run as another user
        self.directory = box.path / self.name
        self.html = self.directory / "html"
        self.html.mkdir(parents=True)
        (self.directory / "logs").mkdir()  # of access logs where the tests choose none
        (self.html / "index.html").write_text("index\n")
        self.http, self.server, self.main, self.listen = http, server, main, listen
        self.workers, self.master, self.daemon, self.quiet = workers, master, daemon, quiet
        self.config = self.directory / "nginx.conf"
        self.error_log = self.log = self.directory / "error.log"
        self.access_log = self.directory / "access.log"
        self.log_level = "info"
        self.port = free_port()
        self.expected = [EXPECTED]
        self.groups = set()

    # ---- configuration

    def configuration(self):
        temporary = "\n    ".join(f"{name}_temp_path {self.directory}/{name};" for name in TEMPORARY)
        return f"""load_module {self.box.module};
daemon {'on' if self.daemon else 'off'};
master_process {'on' if self.master else 'off'};
worker_processes {self.workers};
pid {self.directory}/nginx.pid;
error_log {self.error_log} {self.log_level};
env LD_PRELOAD; env ASAN_OPTIONS; env UBSAN_OPTIONS; env LSAN_OPTIONS;
{self.main}
events {{ worker_connections 1024; }}
http {{
    {temporary}
    {'' if 'access_log' in self.http else 'access_log off;'}
    keepalive_requests 1000000000;
    root {self.html};
    default_type text/plain;
    {self.http}
    server {{
        listen {HOST}:{self.port} {self.listen};
        {f'error_log {self.directory}/failures crit;' if self.quiet else ''}
        {self.server}
    }}
}}
"""

    def write(self, http=None, server=None):
        """Writes the configuration, with new blocks if they are given."""
        self.http = self.http if http is None else http
        self.server = self.server if server is None else server
        new = self.directory / "nginx.conf.new"
        new.write_text(self.configuration())
        new.replace(self.config)  # nginx may be reading the old one
        return self

    def command(self, *more):
        return [NGINX, "-p", f"{self.directory}/", "-e", self.error_log, "-c", self.config, *more]

    def environment(self, leaks=1):
        # Leaks do not change the exit status, because nginx has some.
        options = f"log_path={self.directory}/sanitizer:detect_odr_violation=0:exitcode=0"
        found = dict(os.environ, UBSAN_OPTIONS=f"print_stacktrace=1:{options}",
                     ASAN_OPTIONS=f"detect_leaks={leaks}:{options}:{os.environ.get('ASAN_OPTIONS', '')}")
        return {**found, "LD_PRELOAD": PRELOAD} if PRELOAD else found

    def test_configuration(self):
        """Runs `nginx -t`. Returns the status and the output. After an error, nginx frees nothing."""
        self.write()
        done = subprocess.run([str(word) for word in self.command("-t")], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False, env=self.environment(leaks=0))
        return done.returncode, done.stderr

    # ---- processes

    def start(self):
        for _ in range(8):
            self.write()
            self.spawn(self.command(), env=self.environment())
            self.groups.add(self.process.pid)
            if until(self.is_up, f"{self.name} starts", every_s=0.002) == "up":
                return self
            expect("Address already in use" in self.log_text(), f"{self.name} ended:\n{self.tail()}")
            self.error_log.unlink()
            self.port = free_port()
        raise Failed(f"{self.name} did not start:\n{self.tail()}")

    def spawn(self, words, **more):
        # SIGTERM ends the workers, too.
        words = [word if word != "KILL" else "TERM" for word in mortal(words)]
        with open(self.directory / "output", "ab") as output:
            self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output, start_new_session=True, **more)

    def is_up(self):
        if self.has_ended():
            return "down"
        if self.daemon and self.process.poll() != 0:
            # Until the first process has ended, the master ignores SIGUSR2.
            return "down" if self.process.poll() else None
        with contextlib.suppress(OSError, ValueError):
            self.groups.add(self.pid())
            Client(self.port).close()
            return "up"
        return None

    def pid(self):
        """The process id of the master, or of the only process."""
        return int((self.directory / "nginx.pid").read_text())

    def await_upgrade(self, old):
        """Waits for the master that takes over from another, whose pid is in nginx.pid.oldbin then."""
        def has_taken_over():
            with contextlib.suppress(OSError, ValueError):  # the new file is empty at first
                return (self.directory / "nginx.pid.oldbin").exists() and self.pid() != old
        until(has_taken_over, f"a new master:\n{self.tail()}")

    def worker_pids(self, master=None):
        """The workers of the master, without those that are exiting."""
        found = set()
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == (master or self.pid()) and b"worker process\0" in (path / "cmdline").read_bytes() + b"\0":
                    found.add(int(path.name))
        return found

    def send_signal(self, number):
        os.kill(self.pid(), number)

    def reload(self):
        """Reloads the configuration, and waits until all workers are new and the old ones have ended."""
        before = self.worker_pids()
        self.write()
        self.reload_begin()
        until(lambda: len(now := self.worker_pids()) == self.workers and not now & before or self.has_ended(),
              f"{self.name} has new workers")
        expect(not self.has_ended(), f"{self.name} has ended")
        until(lambda: not any(is_alive(pid) for pid in before), "the old workers end")

    def has_ended(self):
        """Whether nginx has ended by itself."""
        return not self.daemon and not self.is_running()

    def reload_begin(self):
        self.send_signal(signal.SIGHUP)

    def stop(self):
        """Stops it with SIGQUIT, and checks what it has logged."""
        if self.is_running() or self.daemon:
            pid = self.pid()
            self.send_signal(signal.SIGQUIT)
            until(lambda: (self.process.poll(), not is_alive(pid))[1], f"{self.name} stops")
        self.check()

    def kill(self):
        """Kills all its processes."""
        for group in self.groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        until(lambda: not self.living(), f"all processes of {self.name} end")

    def living(self):
        """Its processes that have not ended."""
        found = set()
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state, _, group = (path / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(group) in self.groups and state != "Z":
                    found.add(int(path.name))
        return found

    # ---- logs

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else self.output()

    def output(self):
        path = self.directory / "output"
        return path.read_text(errors="replace") if path.exists() else ""

    def logged(self, pattern):
        """The lines of the error log that contain a regular expression."""
        return [line for line in self.log_text().splitlines() if re.search(pattern, line)]

    def accesses(self, count):
        """Waits for `count` lines of the access log, which a worker writes after the response."""
        until(lambda: self.access_log.exists() and self.access_log.read_text().count("\n") >= count,
              f"{self.name} logs {count} requests")
        return self.access_log.read_text().splitlines()

    def check(self):
        """Fails if the error log or a sanitizer has a failure. Errors of `nginx -t` do not count."""
        reports = "".join(path.read_text(errors="replace") for path in sorted(self.directory.glob("sanitizer*")))
        # Of the leaks, those of the module: when nginx ends, the module is no longer loaded.
        blocks = [block for block in reports.split("\n\n") if "Sanitizer" not in block or "leak" not in block.lower()]
        ours = [block for block in blocks if " leak of " not in block or re.search("weir|<unknown module>", block)]
        expect(not "".join(ours).strip(), f"{self.name}:\n{reports[:20000]}")
        if self.process is None:
            return
        status = self.process.poll()
        expect(status in (None, 0), f"{self.name} ended with the status {status}")
        more = self.directory / "failures"
        lines = self.logged(FAILURE) + (more.read_text(errors="replace").splitlines() if more.exists() else [])
        bad = [line for line in lines if not any(one.search(line) for one in self.expected)]
        expect(not bad, f"{self.name} logged:\n" + "\n".join(bad[:20]))

    # ---- requests

    def client(self):
        return Client(self.port)

    def get(self, path="/", **more):
        """A response on a new connection."""
        with self.client() as client:
            return client.get(path, **more)

    def statuses(self, *paths, **more):
        """The statuses of responses on one new connection."""
        with self.client() as client:
            return [client.get(path, **more).status for path in paths]

    def url(self, path="/"):
        return f"http://{HOST}:{self.port}{path}"


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


# ---- tests ---------------------------------------------------------------------------------------


def checked(test):
    """A test that also fails if one of its nginx processes has logged a failure."""

    @functools.wraps(test)
    def run_and_check(box):
        test(box)
        for process in box.processes:
            if isinstance(process, Nginx):
                process.stop()

    return run_and_check


def run(tests, long=()):
    """Runs TEST.py WEIR MODULE [--long | NAME...], and returns the exit status. Without nginx or
    without the module, all tests are skipped."""
    argv = sys.argv
    if not NGINX or not os.path.exists(argv[2]):
        count = len(tests) if "--long" not in argv else len(long)
        what = "nginx" if not NGINX else argv[2]
        print(f"skipped: {count} in {pathlib.Path(argv[0]).stem}: there is no {what}")
        print(f"0 passed, 0 failed, {count} skipped")
        return 0
    return process.run([checked(test) for test in tests], argv, [checked(test) for test in long], needs_redis=False)
