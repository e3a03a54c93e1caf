# SPDX-License-Identifier: BSD-2-Clause
"""HAProxy and weir with the files of docs/haproxy.md, each on free ports of the loopback. Only ports,
paths and timeouts are replaced, and what a test names."""

import contextlib
import http.client
import http.server
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse

from kit.http import fetch
from kit.process import HOST, PATIENCE_S, ROOT, Failed, Process, Skipped, expect, free_port, until
from kit.weir import Serving

PAGE = ROOT / "docs" / "haproxy.md"
LUA = ROOT / "modules" / "haproxy" / "weir.lua"
HAPROXY = shutil.which("haproxy")
# A client chooses its key with the parameter k, and sees what HAProxy knows of the decision.
KEY = "url_param(k),url_dec"
SHOWN = "".join(f'    http-after-response set-header x-{name.replace("_", "-")} %[var(txn.weir.{name})] '
                f"if {{ var(txn.weir.{name}) -m found }}\n" for name in
                ("allowed", "limit", "delay", "reason", "error", "engine_error", "ratelimit", "ratelimit_policy"))


def files_of_page():
    """The files on the page, by their names."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```\w+\n# /etc/\w+/([^\n]+)\n(.*?)^```$", text, re.M | re.S)
    return dict(found)


FILES = files_of_page()


class App:
    """The application behind HAProxy, which counts its requests."""

    def __init__(self):
        app = self
        self.requests = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                app.requests += 1
                self.send_response(200)
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b"app\n")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Weir(Serving):
    """`weir serve` with weir.yaml of the page, and these policies. It keeps its ports when it is started
    again. It sets all variables, unless only those of the page are wanted."""

    def __init__(self, box, policies, message="{policy: api, key: $key}", more="", *, all_variables=True):
        super().__init__(box)
        self.policies, self.message, self.more, self.all_variables = policies, message, more, all_variables
        self.spoe, self.http = free_port(), free_port()

    def write(self):
        text = FILES["weir.yaml"].replace("127.0.0.1:9001", f"{HOST}:{self.spoe}\n  http: {HOST}:{self.http}")
        lines = "".join(f"  {name}: {limit}\n" for name, limit in self.policies.items())
        text = re.sub(r"(?<=^policies:\n)(?:  .*\n)+", lines, text, flags=re.M)
        text = re.sub(r"check-client: .*", f"check-client: {self.message}", text)
        if self.all_variables:
            text = re.sub(r"^  variables: .*\n", "", text, flags=re.M)
        self.config.write_text(f"{text}{self.more}\nmemory: {{size: 16m}}\nthreads: 1\n")

    def start(self):
        self.write()
        self.serve()
        return self

    def reload(self, policies):
        self.policies = policies
        self.write()
        self.read_again()

    def metric(self, name):
        text = fetch(self.http, "/metrics").text()
        return int(re.search(rf"^{re.escape(name)} (\d+)$", text, re.M)[1])

    def allowed(self, policy="api"):
        """How many requests were allowed, as weir counts them."""
        return self.metric(f'weir_decisions_total{{policy="{policy}",verdict="allowed"}}')

    def connections(self):
        return self.metric("weir_connections")


class Haproxy(Process):
    """A HAProxy with the configuration of the page for a door: `spoe`, `lua` or `stick-table`. Its app
    is App, or a frontend of its own.

    weir       the Weir to ask, or None
    patient    with timeouts that no request reaches, even on a busy machine
    replaced   pairs of a text of the files, and what replaces it"""

    NAMES = {"spoe": "haproxy.cfg", "lua": "lua.cfg", "stick-table": "stick-table.cfg"}

    def __init__(self, box, door, weir=None, *, app=None, patient=True, more="", replaced=(), password=None):
        if HAPROXY is None:
            raise Skipped("there is no haproxy")
        super().__init__(box, box.name("haproxy"))
        self.door, self.weir, self.app, self.patient = door, weir, app, patient
        self.more, self.replaced, self.password = more, replaced, password
        self.port, self.upstream = free_port(), app.port if app else free_port()
        self.config, self.engine = box.path / f"{self.name}.cfg", box.path / f"{self.name}-weir.cfg"

    def write(self):
        pairs = [("maxconn 10000", "maxconn 2000"), ("bind :80", f"bind {HOST}:{self.port}"),
                 ("127.0.0.1:8000", f"{HOST}:{self.upstream}"),
                 ("/etc/haproxy/weir.cfg", str(self.engine)), ("/usr/local/share/weir/haproxy/weir.lua", str(LUA)),
                 ("key=src", f"key={KEY}"), ("weir_key) src", f"weir_key) {KEY}")]
        if self.weir:
            pairs += [("127.0.0.1:9001", f"{HOST}:{self.weir.spoe}"), ("127.0.0.1:8080", f"{HOST}:{self.weir.http}")]
        if self.patient:
            pairs += [("processing 50ms", "processing 60s"), ("hello 100ms", "hello 60s"),
                      ("connect 100ms", "connect 60s"),
                      ("WEIR_TIMEOUT_MS 50", "WEIR_TIMEOUT_MS 60000"), ("timeout check 200ms", "timeout check 60s")]
        engine, text = FILES["weir.cfg"], FILES[self.NAMES[self.door]]
        for old, new in (*pairs, *self.replaced):
            engine, text = engine.replace(old, new), text.replace(old, new)
        if self.door != "stick-table":
            text = text.replace("    default_backend app\n", f"{SHOWN}{self.more}    default_backend app\n")
        if not self.app:
            text += (f"\nfrontend upstream\n    bind {HOST}:{self.upstream}\n    timeout client 60s\n"
                     '    http-request return status 200 content-type text/plain string "app"\n')
        self.config.write_text(text)
        self.engine.write_text(engine)

    def start(self):
        self.write()
        more = {"WEIR_PASSWORD": self.password} if self.password else {}
        self.spawn([HAPROXY, "-W", "-db", "-f", self.config], env={**os.environ, **more})
        until(self.is_up, f"{self.name} is up")
        return self

    def is_up(self):
        expect(self.is_running(), f"{self.name} ended:\n{self.tail()}\n{self.config.read_text()}")
        try:
            return fetch(self.port).status > 0
        except OSError:
            return False

    def loads(self):
        return self.log_text().count("Loading success")

    def reload(self):
        """A new worker takes the connections over, and the old one ends when it has none. The master loses
        a signal that arrives before it is ready; then it gets another one."""
        self.write()
        before, end = self.loads(), time.monotonic() + PATIENCE_S
        while self.loads() == before:
            expect(time.monotonic() < end, f"{self.name} reloads:\n{self.tail()}")
            self.signal(signal.SIGUSR2)
            with contextlib.suppress(Failed):
                until(lambda: self.loads() > before, "a new worker", patience_s=2)

    def kill(self):
        """Stops all workers, in order that none is left when the master has ended."""
        if self.is_running():
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_S)
        super().kill()

    def get(self, key, path="/"):
        return fetch(self.port, f"{path}?k={urllib.parse.quote(key, safe='')}")

    def statuses(self, key, count):
        return [self.get(key).status for _ in range(count)]

    def url(self, key):
        return f"http://{HOST}:{self.port}/?k={key}"


def wrk(url, seconds=1, connections=32):
    """Sends requests for some seconds. Returns how many had the status 200, and how many another one."""
    if not shutil.which("wrk"):
        raise Skipped("there is no wrk")
    done = subprocess.run(["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", url], capture_output=True,
                          text=True, timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL)
    expect(done.returncode == 0 and "Socket errors" not in done.stdout, done.stdout + done.stderr)
    total = int(re.search(r"(\d+) requests in", done.stdout)[1])
    other = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    other = int(other[1]) if other else 0
    return total - other, other
