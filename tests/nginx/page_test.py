#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs each configuration of docs/nginx.md as it stands on the page, and checks what the page says
about it. Only ports, directories and timeouts are replaced. A block without a test here is a failure.

    page_test.py WEIR MODULE [TEST ...]
"""

import json
import pathlib
import re
import sys
import time

from kit import nginx as kit
from kit.process import equal, expect, until
from kit.weir import Daemon

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "nginx.md"
APP = "127.0.0.1:8000"  # the upstream server on the page
CLIENT = "X-Test-Client"  # the header with the address of a client, where the page has none
blocks = {}  # by the heading above
tests = {}


def read_blocks():
    heading = None
    for match in re.finditer(r"^#+ ([^\n]*)$|^```nginx\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        if match[1]:
            heading = match[1]
        else:
            expect(heading not in blocks, f"two configurations under {heading!r}")
            blocks[heading] = match[2]


def section_of(heading):
    return re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S)[1]


def without_memory(status):
    """What weir_status reports, without the sizes of this build of the store."""
    for zone in status["zones"]:
        expect(0 < zone.pop("memory_bytes") <= zone.pop("memory_max_bytes"), str(status))
    return status


class Page(kit.Nginx):
    """An nginx with a configuration of the page, and an upstream server that allows everything."""

    def __init__(self, box, heading, resp=None):
        super().__init__(box)
        self.heading, self.block = heading, blocks[heading]
        self.app, self.internal, self.resp = kit.free_port(), kit.free_port(), resp or kit.free_port()

    def configuration(self):
        text = self.block
        for old, new in (("listen 80", f"listen {kit.HOST}:{self.port}"), (APP, f"{kit.HOST}:{self.app}"),
                         ("127.0.0.1:8081", f"{kit.HOST}:{self.internal}"),
                         ("127.0.0.1:6380", f"{kit.HOST}:{self.resp}"), ("/var/lib/nginx", str(self.directory)),
                         ("timeout=20ms", "timeout=10s")):
            text = text.replace(old, new)
        if "real_ip_recursive" not in text:
            text = f"set_real_ip_from {kit.HOST}; real_ip_header {CLIENT};\n{text}"
        http2 = "http2" if "grpc_pass" in text else ""
        temporary = " ".join(f"{name}_temp_path {self.directory}/{name};" for name in kit.TEMPORARY)
        return f"""load_module {self.box.module};
daemon off;
pid {self.directory}/nginx.pid;
error_log {self.error_log} info;
events {{ worker_connections 1024; }}
http {{
{temporary}
access_log off;
client_header_buffer_size 4k;
{text}
server {{ listen {kit.HOST}:{self.app} {http2}; client_max_body_size 0; location / {{ return 200 "app\\n"; }} }}
}}
"""

    def ask(self, path="/", address="192.0.2.7", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        method = headers.pop("method", "GET")
        return self.get(path, method=method, headers={CLIENT: address, **headers})

    def admits(self, n, what, path="/", per_s=0.0, **more):
        """Checks that n requests are allowed at once, and then as many as the rate allows meanwhile.
        Returns the first denial."""
        begin, allowed = time.monotonic(), 0
        while (answer := self.ask(path, **more)).status == 200:
            allowed += 1
            expect(allowed <= n + per_s * (time.monotonic() - begin), f"{what}: {allowed} requests are allowed")
        equal(answer.status, 429, f"{what}: request {allowed + 1}")
        expect(allowed >= n, f"{what}: {allowed} requests are allowed, expected {n}")
        return answer


def of(heading):
    """A test of the configuration under a heading of the page."""

    def decorate(test):
        def run(box):
            test(Page(box, heading).start())

        run.__name__ = test.__name__
        tests[heading] = run
        return test

    return decorate


# ---- the page ------------------------------------------------------------------------------------


def all_blocks(_box):
    equal(sorted(blocks), sorted(tests), "the headings with a configuration, and those with a test")


def log_lines(box):
    """The module has the texts of the log lines that the page explains."""
    module = pathlib.Path(box.module).read_bytes()
    lines = re.findall(r"^\| `([^`]*)` \|", section_of("Troubleshoot"), re.M)
    expect(len(lines) > 10, str(lines))
    for line in lines:
        for part in re.split(r'"[^"]*"|[\d.]+|(?<=: )', line):
            expect(part.encode() in module, f"{line}: the module never logs {part!r}")


@of("Limit requests")
def limit_requests(page):
    denial = page.admits(20, "burst 20", per_s=10)
    equal(denial["Retry-After"], "1")
    equal(denial["RateLimit-Policy"], '"limit";q=20;w=2')
    expect(re.fullmatch(r'"limit";r=0;t=[12]', denial["RateLimit"]), denial["RateLimit"])
    equal(page.ask(address="192.0.2.8").status, 200, "another client")


@of("Replace `limit_req`")
def replace_limit_req(page):
    page.admits(21, "burst=20 nodelay", "/api/", per_s=10 / 60)
    with page.client() as client:
        client.send(*["/export/"] * 21, headers={CLIENT: "192.0.2.7"})
        equal([client.read().status for _ in range(21)], [200] * 21, "a queue holds requests, and serves them")
    with page.client() as client:
        client.send(*["/feed/"] * 9, headers={CLIENT: "192.0.2.7"})
        equal([client.read().status for _ in range(9)], [200] * 9, "delay=8")
    equal(page.logged(r"delaying request.*/feed/"), [], "nine requests that do not wait")
    for i in range(5):
        equal(page.ask("/search/").status, 200, f"shadow: request {i + 1}")
    equal(len(page.logged(r"\[warn\].*limiting requests.*\(shadow\)")), 5, "shadow denials by the count of /api/")


@of("Limit logins by address and by account")
def logins(page):
    alice, bob = "Basic YWxpY2U6eA==", "Basic Ym9iOng="
    for i in range(5):
        equal(page.ask("/login", address=f"192.0.2.{i}", Authorization=alice).status, 200, f"alice {i + 1}")
    equal(page.ask("/login", address="192.0.2.9", Authorization=alice).status, 429, "alice from a sixth address")
    page.admits(5, "bob", "/login", address="192.0.2.9", Authorization=bob)
    page.admits(25, "what remains to the address", "/login", address="192.0.2.9")


@of("Limit one method")
def one_method(page):
    page.admits(5, "POST", "/login", per_s=5 / 60, method="POST")
    equal([page.ask("/login", method=method).status for method in ("GET", "HEAD", "PUT")], [200] * 3, "other methods")
    equal(page.ask("/login", address="192.0.2.8", method="POST").status, 200, "another client")


@of("Give plans their own limits")
def plans(page):
    equal(page.admits(10, "free", per_s=1, X_API_Key="5b1c7d3c0e")["RateLimit-Policy"], '"free";q=10;w=10')
    page.admits(10, "the other free key", per_s=1, X_API_Key="91e6a0b2f4")
    answer = page.ask(X_API_Key="c73d55a8e9")
    equal((answer["X-RateLimit-Limit"], answer["X-RateLimit-Remaining"]), ("100", "99"), "gold")
    for i in range(5):
        equal(page.ask(X_API_Key=f"invented-{i}").status, 200, f"an unknown key, request {i + 1}")
    equal(page.ask(X_API_Key="invented-5").status, 429, "one more")
    equal(page.ask().status, 429, "no key, the same address")
    equal(page.ask(address="192.0.2.8").status, 200, "no key, another address")


@of("Charge by cost")
def costs(page):
    page.admits(4, "POST", per_s=4 / 60, method="POST")
    page.admits(20, "GET", per_s=20 / 60, address="192.0.2.8")


@of("Limit the bytes of uploads")
def uploads(page):
    def upload(size, address, body=b""):
        with page.client() as client:
            length = {} if body else {"Content-Length": size}
            client.send("/upload", method="POST", headers={CLIENT: address, **length}, body=body)
            return client.read().status

    # Without a body, the answer must come before nginx reads it.
    equal(upload(30 << 20, "192.0.2.1"), 413, "larger than client_max_body_size")
    page.admits(2, "requests without a length", "/upload")
    body = bytes(10 << 20)
    equal([upload(len(body), "192.0.2.8", body) for _ in range(2)], [200, 200], "10 MiB twice")
    equal(upload(1 << 20, "192.0.2.8"), 429, "1 MiB more")


@of("Limit requests in flight")
def in_flight(page):
    def begin(address):
        """A request in flight: nginx waits for its body."""
        client = page.client()
        client.send("/reports/", method="POST", headers={CLIENT: address, "Content-Length": 1, "Expect": "100-continue"})
        line = client.socket.makefile("rb").readline()
        return client, line.split()[1]

    first, second, third = (begin("192.0.2.7") for _ in range(3))
    equal([first[1], second[1], third[1]], [b"100", b"100", b"429"])
    denial = page.ask("/reports/")
    equal(denial.status, 429)
    expect(20 <= int(denial["Retry-After"]) <= 30, denial["Retry-After"])
    equal(denial["RateLimit-Policy"].split(", "),
          ['"reports-1";q=2;qu="concurrent-requests"', '"reports-2";q=100;w=86400',
           '"all-reports";q=50;qu="concurrent-requests"'])
    equal(page.ask("/reports/", address="192.0.2.8").status, 200, "another client")
    first[0].close()
    until(lambda: page.ask("/reports/").status == 200, "the first client has left")
    second[0].close()


@of("Find the client behind a proxy")
def realip(page):
    page.admits(5, "a client", per_s=10 / 60, X_Forwarded_For="203.0.113.1, 192.0.2.5")
    equal(page.ask(X_Forwarded_For="203.0.113.2, 192.0.2.5").status, 429, "the same client lies about its address")
    equal(page.ask(X_Forwarded_For="192.0.2.5, 10.1.2.3").status, 429, "through two proxies")
    equal(page.ask(X_Forwarded_For="192.0.2.6").status, 200, "another client")


@of("Limit an IPv6 client by its /64")
def ipv6(page):
    for i in range(5):
        equal(page.ask(address=f"2001:db8:0:1:{i}::a").status, 200, f"address {i + 1} of a /64")
    equal(page.ask(address="2001:db8:0:1:ffff::1").status, 429, "the sixth")
    equal(page.ask(address="2001:db8:0:2::1").status, 200, "another /64")
    answer = kit.curl("-X", "POST", "-H", "X-Reset: 2001:db8:0:1::ffff", f"http://{kit.HOST}:{page.internal}/reset")
    equal(json.loads(answer), {"reset": True})
    page.admits(5, "after the reset", per_s=10 / 60, address="2001:db8:0:1::1")
    page.admits(5, "mapped", per_s=10 / 60, address="::ffff:192.0.2.10")  # 10 is a line feed, which . must match
    equal(page.ask(address="192.0.2.10").status, 429, "the same address, not mapped")
    equal(page.ask(address="::ffff:192.0.2.11").status, 200, "another mapped address")


@of("Exempt some clients")
def exempt(page):
    page.admits(5, "any client", per_s=10 / 60, address="198.51.100.1")
    equal(page.ask("/health", address="198.51.100.1").status, 200, "weir off")
    for address in ("192.0.2.7", "2001:db8::1", "127.0.0.1"):
        equal([page.ask(address=address).status for _ in range(7)], [200] * 7, address)


@of("Answer a denial in JSON")
def json_body(page):
    denial = page.admits(5, "five at once", per_s=10 / 60)
    equal(denial["Content-Type"], "application/problem+json")
    equal(denial.json(), {"title": "Too Many Requests", "status": 429, "retry_after": int(denial["Retry-After"])})
    equal(denial["RateLimit-Policy"], '"limit";q=5;w=30')


@of("Deny a gRPC call")
def grpc(page):
    def call():
        return kit.curl("--http2-prior-knowledge", "-D", "-", "-X", "POST", "-H", "Content-Type: application/grpc",
                        "-H", "TE: trailers", page.url("/package.Service/Method"))

    begin, allowed = time.monotonic(), 0
    while "app" in (denial := call()).splitlines():
        allowed += 1
        expect(allowed <= 5 + 10 / 60 * (time.monotonic() - begin), f"{allowed} calls are allowed")
    expect(allowed >= 5, f"{allowed} calls are allowed")
    lines = [line.strip() for line in denial.splitlines()]
    for line in ("HTTP/2 200", "content-type: application/grpc", "grpc-status: 8", "grpc-message: rate limit exceeded"):
        expect(line in lines, denial)
    expect(re.search(r"^retry-after: [1-6]$", denial, re.M), denial)
    equal(lines[-1], "", f"headers without a body: {denial}")


@of("Try a limit before you enforce it")
def shadow(page):
    for i in range(7):
        equal(page.ask().status, 200, f"request {i + 1}")
    equal(len(page.logged(r'\[notice\].*limiting requests by "planned".*\(shadow\)')), 2, "lines of the error log")
    page.stop()
    lines = (page.directory / "limits.log").read_text().splitlines()
    equal(lines[0], '192.0.2.7 "GET / HTTP/1.1" 200 PASSED "planned" 4')
    equal(lines[6], '192.0.2.7 "GET / HTTP/1.1" 200 REJECTED_SHADOW "planned" 0')


@of("What is kept")
def restart(page):
    def ask(n):
        with page.client() as client:
            client.send(*["/"] * n, headers={"X-API-Key": "a"})
            return [client.read().status for _ in range(n)]

    equal(ask(999), [200] * 999)
    page.stop()
    page.start()
    equal(ask(3), [200, 429, 429], "after a restart")


@of("Watch the limits")
def watch(page):
    def curl(path, *options):
        return kit.curl(*options, f"http://{kit.HOST}:{page.internal}{path}")

    page.admits(5, "five at once", per_s=10 / 60)
    equal(page.ask(address="192.0.2.8").status, 200)
    shown = json.loads(re.search(r"^```json\n(.*?)^```$", section_of("Watch the limits"), re.M | re.S)[1])
    equal(without_memory(json.loads(curl("/weir_status"))), without_memory(shown), "weir_status")
    metrics = set(re.findall(r"^(weir_\w+\{[^}]*\})", re.sub(r'="[^"]*"', "", curl("/metrics")), re.M))
    equal(metrics, set(re.findall(r"`(weir_nginx_\w+\{[^}]*\})`", section_of("Watch the limits"))), "metrics")
    for path in "/reset?address=192.0.2.7", "/reset_all":
        equal(json.loads(curl(path, "-X", "POST")), {"reset": True})
        page.admits(5, f"after {path}", per_s=10 / 60)


@of("Share limits between machines")
def with_daemon(page):
    page.admits(5, "without the daemon, by the zone", per_s=10 / 60)
    equal(len(page.logged(r'\[error\].*weir daemon ".*" is unavailable')), 1, "the error log")
    daemon = Daemon(page.box, {"api": "gcra 1/s"}, engine=None).start()
    first, second = (Page(page.box, page.heading, resp=daemon.port).start() for _ in range(2))
    for i in range(5):
        equal((second if i % 2 else first).ask().status, 200, f"request {i + 1} to two servers")
    equal([first.ask().status, second.ask().status], [429, 429], "both servers")


def main():
    read_blocks()
    sys.exit(kit.run([all_blocks, log_lines, *tests.values()]))


main()
