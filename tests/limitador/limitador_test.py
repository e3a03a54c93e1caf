#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""weir in the place of limitador: the same answers to the same random requests, on each engine; the Rate Limit
Service; reloads of the limits file; weir check. `answers.txt` has what limitador itself answered (recorder/).

    limitador_test.py WEIR MODULE [NAME...]"""

import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
import random_requests
from kit.process import HOST, Skipped, expect, free_port, is_redis_here, run, until
from kit.redis import Redis
from kit.weir import Daemon


class Limitador(Daemon):
    """A daemon with a limits file, and with a gRPC listener."""

    def __init__(self, box, limits, *, section="", more="", **others):
        self.grpc, self.path = free_port(), box.path
        self.limits = box.path / "limits.yaml"
        self.limits.write_text(limits)
        super().__init__(box, {}, more=f"limitador: {{limits: limits.yaml{section}}}\n{more}", **others)

    def write(self):
        super().write()
        text = self.config.read_text()
        self.config.write_text(text.replace("listen: {", f"listen: {{grpc: '{HOST}:{self.grpc}', ", 1))

    def ask(self, connection, request):
        """The status, X-RateLimit-Remaining and X-RateLimit-Limit of a request of random_requests.py."""
        body = {"namespace": request["namespace"], "values": request["values"][0], "delta": request["delta"]}
        if request["headers"]:
            body["response_headers"] = "DraftVersion03"
        connection.request("POST", "/" + request["verb"], json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        words = [str(response.status), response.headers.get("X-RateLimit-Remaining"),
                 response.headers.get("X-RateLimit-Limit")]
        return " ".join(word for word in words if word is not None)

    def get(self, path):
        with contextlib.closing(http.client.HTTPConnection(HOST, self.http)) as connection:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())


def parts(answer):
    """The status, what is left, and the set of limits: equal ones are in any order, and then any is the first."""
    words = answer.split(" ", 2)
    return words[:2], sorted(words[2].split(", ")[1:]) if len(words) > 2 else []


def compare(daemon, count):
    recorded = (HERE / "answers.txt").read_text().splitlines()
    wrong = []
    with contextlib.closing(http.client.HTTPConnection(HOST, daemon.http)) as connection:
        for request, answer in list(zip(random_requests.all_requests(), recorded))[:count]:
            found = daemon.ask(connection, request)
            if parts(found) != parts(answer):
                wrong.append(f"{request}\n  limitador: {answer}\n  weir:      {found}")
    expect(not wrong, f"{len(wrong)} answers differ:\n" + "\n".join(wrong[:10]))


# ---- the answers of limitador --------------------------------------------------------------------


def the_answers_of_limitador(box):
    compare(Limitador(box, (HERE / "limits.yaml").read_text(), engine=None).start(), random_requests.COUNT)


def the_answers_of_limitador_with_redis(box):
    if not is_redis_here():
        raise Skipped("there is no redis-server")
    redis = Redis(box).start()
    daemon = Limitador(box, (HERE / "limits.yaml").read_text(), engine="redis",
                       redis={"url": redis.url(), "on_error": "closed", "deadline": "20s"})
    compare(daemon.start(), 1000)


ONE_NAME = """
- {namespace: n, name: tok, max_value: 3000, seconds: 3600, variables: ["descriptors[0].user"]}
- {namespace: n, name: tok, max_value: 100, seconds: 3600}
"""


def limits_with_one_name(box):
    """Each limits on its own, and a report above what is left fills it, on each engine."""
    if not is_redis_here():
        raise Skipped("there is no redis-server")
    for engine in ("local", "redis", "hybrid"):
        redis = Redis(box).start()
        daemon = Limitador(box, ONE_NAME, section=f", engine: {engine}", engine=None,
                           redis={"url": redis.url(), "on_error": "closed", "deadline": "5s"}).start()
        names = [policy["name"] for policy in daemon.get("/v1/policies")["policies"]]
        expect(len(set(names)) == 2, f"{engine}: {names}")
        request = {"namespace": "n", "values": [{"user": "alice"}], "headers": False}
        with contextlib.closing(http.client.HTTPConnection(HOST, daemon.http)) as connection:
            found = [daemon.ask(connection, {**request, "verb": verb, "delta": delta})
                     for verb, delta in (("check", 1), ("report", 120), ("check", 1), ("check_and_report", 1))]
        expect(found == ["200", "200", "429", "429"], f"{engine}: {found}")


COUNTERS = """\
- {namespace: n, name: all, max_value: 10, seconds: 3600}
- {namespace: n, name: user, max_value: 5, seconds: 3600, variables: ["descriptors[0].user"]}
- {namespace: n, name: other, max_value: 5, seconds: 3600, variables: ["descriptors[0].other"]}
"""


def counters_of_an_engine(box):
    """/counters has what is left and for how long, whichever engine keeps it; null while the engine fails."""
    if not is_redis_here():
        raise Skipped("there is no redis-server")
    for engine in ("local", "redis", "hybrid"):
        redis = Redis(box).start()
        daemon = Limitador(box, COUNTERS, section=f", engine: {engine}", engine=None,
                           redis={"url": redis.url(), "on_error": "open", "deadline": "5s"}).start()
        with contextlib.closing(http.client.HTTPConnection(HOST, daemon.http)) as connection:
            for user, delta in (("alice", 2), ("bob", 1), ("alice", 1)):
                request = {"namespace": "n", "values": [{"user": user}], "headers": False, "verb": "check_and_report"}
                daemon.ask(connection, {**request, "delta": delta})

        def listed(daemon=daemon):
            return {(counter["limit"]["name"], *counter["set_variables"].values()):
                    (counter["remaining"], counter["expires_in_seconds"]) for counter in daemon.get("/counters/n")}

        found = listed()
        expect({of: left for of, (left, _) in found.items()}
               == {("all",): 6, ("user", "alice"): 2, ("user", "bob"): 4}, f"{engine}: {found}")
        expect(all(0 < seconds <= 3600 for _, seconds in found.values()), f"{engine}: {found}")
        if engine == "redis":
            redis.kill()
            until(lambda: set(listed().values()) == {(None, None)}, "no state is known")


# ---- the Rate Limit Service ----------------------------------------------------------------------


def field(number, content):
    """A field of a protobuf message: a number, or bytes of less than 128 bytes."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    return bytes([number << 3 | 2, len(content)]) + content


def message(domain, user, hits=0):
    entry = field(1, b"user") + field(2, user)
    return field(1, domain) + field(2, field(1, entry)) + (field(3, hits) if hits else b"")


def call(daemon, method, request):
    """The response message of a gRPC call, and its status."""
    service, name = method.split("/")
    full = {"envoy": "envoy.service.ratelimit.v3", "kuadrant": "kuadrant.service.ratelimit.v1"}[service]
    path = daemon.path / "request"
    path.write_bytes(b"\0" + len(request).to_bytes(4, "big") + request)
    done = subprocess.run(
        ["curl", "--silent", "--http2-prior-knowledge", "--dump-header", str(path) + ".head",
         "-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary", f"@{path}",
         f"http://{HOST}:{daemon.grpc}/{full}.RateLimitService/{name}"], stdout=subprocess.PIPE, check=True)
    head = pathlib.Path(str(path) + ".head").read_text()
    return done.stdout[5:], int(re.search(r"^grpc-status: (\d+)", head, re.M)[1])


OK, OVER = field(1, 1), field(1, 2)
TWO = "- {namespace: shop, name: user, max_value: 2, seconds: 600, variables: ['descriptors[0].user']}\n"


def opened(box, limits, **options):
    return Limitador(box, limits, engine=None, **options).start()


def the_rate_limit_service(box):
    daemon = opened(box, TWO)
    for expected in (OK, OK, OVER):
        expect(call(daemon, "envoy/ShouldRateLimit", message(b"shop", b"alice")) == (expected, 0), str(expected))
    expect(call(daemon, "envoy/ShouldRateLimit", message(b"shop", b"bob", 3)) == (OVER, 0), "3 of 2")
    expect(call(daemon, "envoy/ShouldRateLimit", message(b"other", b"bob")) == (OK, 0), "an unknown domain")
    expect(call(daemon, "envoy/ShouldRateLimit", message(b"", b"bob")) == (b"", 0), "an empty domain")
    expect(call(daemon, "kuadrant/CheckRateLimit", message(b"shop", b"bob")) == (OK, 0), "check")
    expect(call(daemon, "kuadrant/Report", message(b"shop", b"bob", 2)) == (OK, 0), "report")
    expect(call(daemon, "kuadrant/CheckRateLimit", message(b"shop", b"bob")) == (OVER, 0), "check after the report")
    label = '{limitador_namespace="shop"}'
    found = {name: daemon.metrics()[name + label] for name in ("authorized_calls", "authorized_hits", "limited_calls")}
    expect(found == {"authorized_calls": 3, "authorized_hits": 4, "limited_calls": 3}, str(found))


def headers_of_the_service(box):
    daemon = opened(box, TWO, section=", headers: draft-03")
    response, status = call(daemon, "envoy/ShouldRateLimit", message(b"shop", b"alice"))
    expect(status == 0, response)
    for name, value in ((b"X-RateLimit-Limit", b'2, 2;w=600;name="user"'), (b"X-RateLimit-Remaining", b"1"),
                        (b"X-RateLimit-Reset", b"600")):
        expect(field(1, name) + field(2, value) in response, f"no {name} in {response}")


def beside_limits_of_envoy(box):
    (box.path / "envoy").mkdir()
    (box.path / "envoy/shop.yaml").write_text(
        "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")
    daemon = opened(box, TWO + TWO.replace("shop", "office"), more="envoy: {config: envoy}\n")
    for domain, expected in ((b"shop", [1, 2, 2]), (b"office", [1, 1, 2])):
        found = [call(daemon, "envoy/ShouldRateLimit", message(domain, b"alice"))[0][1] for _ in expected]
        expect(found == expected, f"{domain}: {found}")


# ---- the limits file -----------------------------------------------------------------------------


def a_changed_file(box):
    daemon = opened(box, TWO)
    expect(daemon.get("/status")["config_version"] == 1, "the first file")
    daemon.limits.write_text(TWO + TWO.replace("user", "second").replace("600", "60"))
    until(lambda: daemon.get("/status")["config_version"] == 2, "the file is read again")
    expect(len(daemon.get("/limits/shop")) == 2, "two limits")
    daemon.limits.write_text("- {namespace: shop}\n")
    until(lambda: "reload-refused" in daemon.log_text(), "the file is refused")
    expect(len(daemon.get("/limits/shop")) == 2, "the old limits stay")
    expect("missing key seconds" in daemon.log_text(), daemon.tail())


def weir_check(box):
    def check(limits):
        (box.path / "limits.yaml").write_text(limits)
        (box.path / "check.yaml").write_text("limitador: {limits: limits.yaml}\n")
        done = subprocess.run([box.weir, "check", box.path / "check.yaml"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout
    status, text = check(TWO)
    expect(status == 0 and "limits.yaml" in text, text)
    status, text = check(TWO + "- {namespace: a, max_value: 1, seconds: 1, variables: [\"a.matches('b')\"]}\n")
    expect(status == 1 and re.search(r"limits\.yaml:2:59: error: \[1\]\.variables\[0\]: unsupported function "
                                     r"'matches'", text), text)


if __name__ == "__main__":
    sys.exit(run([the_answers_of_limitador, the_answers_of_limitador_with_redis,
                  limits_with_one_name, counters_of_an_engine, the_rate_limit_service,
                  headers_of_the_service, beside_limits_of_envoy, a_changed_file, weir_check], sys.argv,
                 needs_redis=False))
