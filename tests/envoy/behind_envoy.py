# SPDX-License-Identifier: BSD-2-Clause
"""A real Envoy asks weir, and beside it the reference service. Both must give Envoy's clients the same
statuses and headers."""

import re
import shutil
import socket
import subprocess
import time

import bootstrap
import side_by_side
from kit import envoy as kit
from kit.process import HOST, PATIENCE_S, Failed, Skipped, equal, expect, free_port, until
from kit.redis import Redis

DAY, WEEK = 4, 7
# These differ between two runs of the same request.
VARIABLE = ("date", "x-envoy-upstream-service-time")
RESETS = ("ratelimit-reset", "x-ratelimit-reset")
GRPC = {"content-type": "application/grpc", "te": "trailers"}


class Proxy:
    """An Envoy whose listeners ask the services: name -> kit.Service. The backend is another Envoy."""

    def __init__(self, box, services):
        far = kit.Envoy(box, [bootstrap.backend()], []).start()
        ports = {name: service.grpc for name, service in services.items()}
        self.envoy = kit.Envoy(box, bootstrap.listeners(ports),
                               bootstrap.clusters(ports, far.port("backend"))).start()

    def port(self, kind, name):
        return self.envoy.port(f"{kind}-{name}")


def get(port, path, clock=None, **headers):
    """One request: its status and its headers, where a valid time until a reset is replaced by a word."""
    began = int(time.time())
    answer = kit.fetch(port, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    clock = clock or range(began, int(time.time()) + 1)
    names = {name.lower(): value for name, value in answer.headers.items() if name.lower() not in VARIABLE}
    for name in RESETS:
        if name in names:
            expect(any(side_by_side.is_reset(int(names[name]), unit, clock) for unit in (DAY, WEEK)),
                   f"{path}: {name} is {names[name]} at {clock}")
            names[name] = "in time"
    return answer.status, names


def both(box):
    """weir, the reference and an Envoy in front of them."""
    wait_for_day(60)
    services = {"weir": kit.Weir(box, bootstrap.FILES).start(),
                "reference": kit.Reference(box, bootstrap.FILES).start()}
    return services, Proxy(box, services)


def wait_for_day(seconds):
    """Waits for midnight UTC if a day ends within these seconds."""
    until(lambda: 86400 - time.time() % 86400 > seconds, "a new day", patience_s=seconds + 10, every_s=1)


# Requests: path, headers, and how many.
SCENES = (
    ("/key", {}, 6), ("/user", {"x_user": "a"}, 4), ("/user", {"x_user": "vip7"}, 7), ("/user", {}, 3),
    ("/address", {}, 5), ("/nested", {"x_user": "a"}, 4), ("/nested", {"x_user": "b"}, 3),
    ("/two", {"x_user": "a"}, 4), ("/two", {"x_user": "b"}, 4), ("/shadow", {}, 3), ("/unlimited", {}, 3),
    ("/override", {}, 4), ("/hits", {}, 4), ("/done", {}, 5), ("/elsewhere", {}, 3), ("/nowhere", {}, 3),
    ("/free", {}, 2))


def the_same_answers(box):
    """Statuses and headers of every kind of route, with weir and with the reference."""
    _, proxy = both(box)
    ports = {name: proxy.port("open", name) for name in ("weir", "reference")}
    seen = set()
    for path, headers, count in SCENES:
        for number in range(count):
            found, wanted = (get(ports[name], path, **headers) for name in ("weir", "reference"))
            equal(found, wanted, f"{path} {headers}, request {number + 1}")
            seen.add(found[0])
    equal(seen, {200, 429}, "statuses")


def what_the_headers_are(box):
    """The headers of weir itself, not only that they are those of the reference."""
    wait_for_day(60)
    weir = kit.Weir(box, bootstrap.FILES).start()
    port = Proxy(box, {"weir": weir}).port("open", "weir")
    answers = [get(port, "/two", x_user="c") for _ in range(3)]
    equal([status for status, _ in answers], [200, 200, 429], "statuses")
    names = [{name: value for name, value in headers.items() if "ratelimit" in name} for _, headers in answers]
    limit = '2, 5;w=86400;name="wide", 2;w=86400;name="narrow"'
    for i, remaining in enumerate(("1", "0", "0")):
        equal(names[i], {"ratelimit-limit": "2", "ratelimit-remaining": remaining, "ratelimit-reset": "in time",
                         "x-ratelimit-limit": limit, "x-ratelimit-remaining": remaining, "x-ratelimit-reset": "in time",
                         **({"x-envoy-ratelimited": "true"} if i == 2 else {})}, f"headers of answer {i + 1}")


def grpc_requests(box):
    """rate_limited_as_resource_exhausted: a gRPC request over the limit has the status RESOURCE_EXHAUSTED."""
    _, proxy = both(box)
    for name in ("weir", "reference"):
        port = proxy.port("open", name)
        headers = [kit.fetch(port, "/grpc/user", method="POST", headers={**GRPC, "x-user": "g"}).headers
                   for _ in range(3)]
        equal([one.get("grpc-status") for one in headers], ["0", "0", "8"], f"grpc-status with {name}")


def need_h2load():
    if not shutil.which("h2load"):
        raise Skipped("h2load is not installed; tools/deps envoy installs it")


def h2load(port, path, requests):
    """Sends requests over 8 connections at once. Returns how many had a status of 200 to 299, and of 400 to 499."""
    need_h2load()
    done = subprocess.run(["h2load", "-n", str(requests), "-c", "8", "-m", "8", f"http://{HOST}:{port}{path}"],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL)
    found = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", done.stdout)
    expect(found and " 0 errored, 0 timeout" in done.stdout, f"h2load: {done.stdout}{done.stderr}")
    equal((found[2], found[4]), ("0", "0"), "3xx and 5xx")
    return int(found[1]), int(found[3])


def exact_under_load(box):
    """Of 4,000 requests at once exactly 500 pass, with weir and with the reference."""
    _, proxy = both(box)
    for name in ("weir", "reference"):
        equal(h2load(proxy.port("open", name), "/load", 4000), (500, 3500), f"passed and denied with {name}")


def connect(port):
    """Opens a connection and sends a request. Returns what comes back; b"" if the connection is closed."""
    with socket.create_connection((HOST, port), PATIENCE_S) as s:
        try:
            s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return s.makefile("rb").read()
        except (ConnectionResetError, BrokenPipeError):
            return b""


def network_filter(box):
    """Connections above the limit are closed."""
    _, proxy = both(box)
    for name in ("weir", "reference"):
        port = proxy.port("network", name)
        equal([connect(port)[9:12] for _ in range(5)], [b"200"] * 3 + [b""] * 2, f"connections with {name}")
        stats = proxy.envoy.stats(f"ratelimit.{name}")
        equal((stats[f"ratelimit.{name}.ok"], stats[f"ratelimit.{name}.over_limit"]), (3, 2), f"statistics with {name}")


def killed_and_restarted(box):
    """Without weir, requests pass or fail as failure_mode_deny says. With weir again, they are counted."""
    wait_for_day(60)
    weir = kit.Weir(box, bootstrap.FILES)
    weir.grpc, weir.http = free_port(), free_port()
    weir.start()
    proxy = Proxy(box, {"weir": weir})
    ports = {kind: proxy.port(kind, "weir") for kind in ("open", "deny")}
    for number in range(3):
        user = f"u{number}"
        equal([get(ports[kind], "/user", x_user=user)[0] for kind in ("open", "deny", "open")], [200, 200, 429],
              "statuses")
        weir.kill()
        equal([get(ports["open"], "/user", x_user=user)[0] for _ in range(4)], [200] * 4, "fail-open")
        equal([get(ports["deny"], "/user", x_user=user)[0] for _ in range(4)], [500] * 4, "fail-closed")
        weir.start()
        until(lambda n=number: "x-ratelimit-limit" in get(ports["open"], "/user", x_user=f"again{n}")[1],
              "Envoy is connected again")
    errors = proxy.envoy.stats("ratelimit.*error")
    expect(sum(errors.values()) >= 24, f"errors of the filter: {errors}")


def stopped_in_order(box):
    """weir ends with SIGTERM while requests arrive: each is answered, by weir or as fail-open."""
    need_h2load()
    wait_for_day(60)
    weir = kit.Weir(box, bootstrap.FILES)
    weir.grpc, weir.http = free_port(), free_port()
    weir.start()
    port = Proxy(box, {"weir": weir}).port("open", "weir")
    load = subprocess.Popen(["h2load", "-n", "3000", "-c", "2", "-m", "2", f"http://{HOST}:{port}/unlimited"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
    try:
        equal(weir.end(), 0, "exit status")
        weir.start()
        out = load.communicate(timeout=PATIENCE_S)[0]
    finally:
        load.kill()
        load.wait()
    if "3000 succeeded, 0 failed" not in out:
        raise Failed(out)


def with_certificates_and_a_password(box):
    """Envoy and weir verify each other's certificates, and weir requires the password."""
    wait_for_day(60)
    files = box.tls()
    weir = kit.Weir(box, bootstrap.FILES, more=[
        "password: secret", f"tls: {{cert: {files.cert}, key: {files.key}, client_ca: {files.ca}}}"]).start()
    far = kit.Envoy(box, [bootstrap.backend()], []).start()
    secure = {**kit.cluster("secure", weir.grpc, True), "transport_socket": bootstrap.tls(files)}
    listeners = [bootstrap.http_listener(kind, "secure", failure_mode_deny=True,
                                         rate_limit_service=bootstrap.service("secure", password))
                 for kind, password in (("right", "secret"), ("wrong", "guess"), ("no", None))]
    plain = bootstrap.http_listener("plain", "plain", failure_mode_deny=True,
                                    rate_limit_service=bootstrap.service("plain", "secret"))
    clusters = [kit.cluster("backend", far.port("backend")), secure, kit.cluster("plain", weir.grpc, True)]
    envoy = kit.Envoy(box, [*listeners, plain], clusters).start()
    for kind, wanted in (("wrong-secure", [500] * 3), ("no-secure", [500] * 3), ("plain-plain", [500] * 3),
                         ("right-secure", [200, 200, 429])):
        equal([get(envoy.port(kind), "/user", x_user="s")[0] for _ in range(3)], wanted, kind)


def shared_through_redis(box):
    """Two daemons with engine: redis admit together what one would."""
    redis = Redis(box).start()
    services = {name: kit.Weir(box, bootstrap.FILES, more=["engine: redis", f"redis: {{url: {redis.url()}, deadline: 20s}}"]).start()
                for name in ("one", "two")}
    proxy = Proxy(box, services)
    counts = [h2load(proxy.port("open", name), "/load", 400) for name in services]
    equal(counts, [(400, 0), (100, 300)], "passed and denied, for both daemons")


TESTS = (the_same_answers, what_the_headers_are, grpc_requests, exact_under_load, network_filter,
         killed_and_restarted, stopped_in_order, with_certificates_and_a_password, shared_through_redis)
