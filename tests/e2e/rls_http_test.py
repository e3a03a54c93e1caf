#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The HTTP endpoints of Envoy's rate limit service, and its statistics: /stats, /metrics and statsd have the same
numbers.

    rls_http_test.py WEIR MODULE [NAME...]"""

import collections
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
from kit.process import HOST, Skipped, expect, free_port, run, until
from kit.redis import Redis
from kit.weir import Daemon

LIMITS = """
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: "we\\"ird:name|"
    rate_limit: {unit: day, requests_per_unit: 1000000, name: daily}
"""
RATE_LIMIT = "ratelimit.service.rate_limit."


def daemon_of(box, envoy="", more="", **options):
    directory = box.path / "limits"
    directory.mkdir(exist_ok=True)
    (directory / "shop.yaml").write_text(LIMITS)
    return Daemon(box, {}, engine=None, more=f"envoy: {{config: '{directory}'{envoy}}}\n{more}", **options).start()


def fetch(daemon, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(HOST, daemon.http, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.getheader("Content-Type")


def request(key, value, **more):
    return json.dumps({"domain": "shop", "descriptors": [{"entries": [{"key": key, "value": value}]}], **more})


def post(daemon, body, **headers):
    return fetch(daemon, "POST", "/json", body, **headers)


def stats(daemon):
    status, text, _ = fetch(daemon, "GET", "/stats")
    expect(status == 200, text)
    return {name: int(value) for name, _, value in (line.rpartition(": ") for line in text.splitlines())}


def decisions(box):
    """200 within the limit, 429 above it; the Content-Type does not matter."""
    daemon = daemon_of(box)
    for i in range(3):
        status, body, kind = post(daemon, request("user", "alice"), Content_Type="application/x-www-form-urlencoded")
        answer = json.loads(body)
        expect((status, kind, answer["overallCode"]) == (200, "application/json", "OK"), body)
        one = answer["statuses"][0]
        expect(one["currentLimit"] == {"requestsPerUnit": 3, "unit": "HOUR"}, body)
        expect(one.get("limitRemaining", 0) == 2 - i and re.fullmatch(r"\d+s", one["durationUntilReset"]), body)
    status, body, _ = post(daemon, request("user", "alice"))
    expect((status, json.loads(body)["overallCode"]) == (429, "OVER_LIMIT"), body)
    expect(post(daemon, request("user", "bob", hitsAddend=2))[0] == 200, "another user")
    expect(post(daemon, request("user", "bob", hits_addend="2"))[0] == 429, "a number as a string")
    for wrong in ("", "{", "[]", '{"domain": 1}', '{"domain": "shop"}', '{"foo": 1}', request("user", "x", domain="")):
        expect(post(daemon, wrong)[:2] == (400, "Bad Request\n"), wrong)
    expect(fetch(daemon, "GET", "/json")[0] == 405, "GET")


def the_other_endpoints(box):
    daemon = daemon_of(box)
    expect(fetch(daemon, "GET", "/healthcheck", Host="ratelimit.default.svc")[:2] == (200, "OK"), "healthcheck")
    status, text, _ = fetch(daemon, "GET", "/rlconfig")
    expect(status == 200 and "shop.user: unit=HOUR requests_per_unit=3" in text, text)
    expect("\n  /json " in fetch(daemon, "GET", "/")[1], "the front page")
    plain = Daemon(box, {"api": "gcra 1/s"}, engine=None).start()
    expect("\n  /json " not in fetch(plain, "GET", "/")[1], "the front page of a daemon without limits")
    expect("ratelimit_" not in fetch(plain, "GET", "/metrics")[1], "metrics without limits")


def with_a_password(box):
    daemon = daemon_of(box, more="password: secret")
    expect(fetch(daemon, "GET", "/healthcheck")[0] == 200, "healthcheck needs no password")
    for method, path in (("POST", "/json"), ("GET", "/stats"), ("GET", "/rlconfig")):
        expect(fetch(daemon, method, path, "{}")[0] == 401, path)
    expect(post(daemon, request("user", "alice"), Authorization="Bearer secret")[0] == 200, "with the password")


def pages_of_other_sites(box):
    """They can spend nothing, although /json takes any Content-Type."""
    daemon = daemon_of(box)
    expect(post(daemon, request("user", "alice"), Sec_Fetch_Site="cross-site")[0] == 403, "another site")
    expect(post(daemon, request("user", "alice"), Host="evil.example")[0] == 421, "another host")
    expect(stats(daemon).get(f"{RATE_LIMIT}shop.user.total_hits", 0) == 0, "nothing is counted")


def metrics_are_valid(box):
    """Prometheus accepts them, and they have the numbers of /stats."""
    daemon = daemon_of(box)
    for i in range(5):
        post(daemon, request("user", "alice"))
        post(daemon, request('we"ird:name|', str(i)))
    found = stats(daemon)
    _, text, _ = fetch(daemon, "GET", "/metrics")
    expect(found[f"{RATE_LIMIT}shop.user.total_hits"] == 5 and found[f"{RATE_LIMIT}shop.user.over_limit"] == 2, found)
    for what in ("total_hits", "over_limit", "near_limit", "within_limit"):
        value = found[f"{RATE_LIMIT}shop.user.{what}"]
        own = "hits" if what == "total_hits" else what
        expect(f'\nweir_rls_{own}_total{{domain="shop",key="user"}} {value}\n' in text, what)
        expect(f'\nratelimit_service_rate_limit_{what}{{domain="shop",key1="user"}} {value}\n' in text, what)
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    expect(len(series) == len(set(series)), "each sample once")
    if shutil.which("promtool") is None:
        raise Skipped("promtool is missing; the package is prometheus")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    problems = [line for line in done.stdout.splitlines() if "should have \"_total\" suffix" not in line]
    expect(done.returncode in (0, 3) and not problems, done.stdout)


class Sink:
    """A statsd server, which adds up the counters that it receives."""

    def __init__(self, tcp, port=0):
        self.counts = collections.Counter()
        self.tcp = tcp
        kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
        self.socket = socket.socket(socket.AF_INET, kind)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((HOST, port))
        if tcp:
            self.socket.listen()
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        if self.tcp:
            connection, _ = self.socket.accept()
            with connection.makefile("r") as lines:
                for line in lines:
                    self.add(line)
        while not self.tcp:
            packet = self.socket.recv(65536)
            expect(len(packet) <= 1432, "a datagram fits in an Ethernet frame")
            for line in packet.decode().splitlines():
                self.add(line)

    def add(self, line):
        name, value = re.fullmatch(r"([^:|]+):(\d+)\|c\n?", line).groups()
        self.counts[name] += int(value)

    def equals(self, wanted):
        return {name: value for name, value in wanted.items() if value > 0} == dict(self.counts)


def check_statsd(box, tcp):
    """What arrives adds up to /stats, also what is counted just before the end. A TCP server may start later."""
    sink = None if tcp else Sink(tcp)
    port = sink.port if sink else free_port()
    daemon = daemon_of(box, envoy=f", statsd: '{'tcp' if tcp else 'udp'}://{HOST}:{port}', statsd_flush: 1s")
    post(daemon, request("user", "alice"))
    sink = sink or Sink(tcp, port)
    for i in range(7):
        post(daemon, request("user", "alice"))
        post(daemon, request('we"ird:name|', str(i)))
    wanted = stats(daemon)
    until(lambda: sink.equals(wanted), "the counters arrive")
    post(daemon, request("user", "carol"))
    wanted = stats(daemon)
    daemon.end()
    until(lambda: sink.equals(wanted), "the last counters arrive")


def statsd_by_tcp(box):
    check_statsd(box, tcp=True)


def statsd_by_udp(box):
    check_statsd(box, tcp=False)


def dynamic_metadata(box):
    """The request, and the metadata of its limit: each kind of value that YAML has."""
    limits = box.path / "limits"
    limits.mkdir()
    (limits / "m.yaml").write_text("""
domain: m
descriptors:
  - key: k
    rate_limit: {unit: day, requests_per_unit: 1}
    metadata:
      numbers: [7, -7, 0x1f, -0x1f, 1_000, 2.5, -1e3, 18446744073709551616]
      words: [yes, Off, true, null, ~, '7', "yes", text, 2001-01-01]
      maps: {a: {b: []}, 3: {}}
""")
    daemon = daemon_of(box, envoy=", dynamic_metadata: true")
    body = {"domain": "m", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}
    found = [json.loads(post(daemon, json.dumps(body))[1])["dynamicMetadata"] for _ in range(2)]
    wanted = {"domain": "m", "descriptors": [{"entries": ["k=v"]}]}
    expect(found[1] == wanted, found[1])
    metadata = {"numbers": [7, -7, 31, -31, 1000, 2.5, -1000, 2**64],
                "words": [True, False, True, None, None, "7", "yes", "text", "2001-01-01"],
                "maps": {"a": {"b": []}, "3": {}}}
    expect(found[0] == {**wanted, "metadata": metadata}, found[0])


def an_engine(box):
    """A request waits for the answer of a Redis server. Without the server, on_error decides."""
    redis = Redis(box).start()
    daemon = daemon_of(box, envoy=", engine: redis, on_error: closed",
                       redis={"url": redis.url(), "deadline": "20s"})
    codes = [post(daemon, request("user", "alice"))[0] for _ in range(4)]
    expect(codes == [200, 200, 200, 429], codes)
    redis.end()
    status, body, _ = post(daemon, request("user", "alice"))
    expect(status in (429, 500), f"{status} {body}")


if __name__ == "__main__":
    sys.exit(run([decisions, the_other_endpoints, with_a_password, pages_of_other_sites, metrics_are_valid,
                  statsd_by_tcp, statsd_by_udp, dynamic_metadata, an_engine], sys.argv, needs_redis=False))
