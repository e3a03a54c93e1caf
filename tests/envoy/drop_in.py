# SPDX-License-Identifier: BSD-2-Clause
"""weir in the place of the reference service: the same variables of the environment, the same directory,
and the same changes of it."""

import json
import os
import socket
import threading

import behind_envoy
import bootstrap
import generated
import side_by_side
from kit import envoy as kit
from kit.process import HOST, Process, equal, expect, free_port, until
from kit.redis import Redis


def limits(count):
    return f"domain: d\ndescriptors:\n  - key: k\n    rate_limit: {{unit: year, requests_per_unit: {count}}}\n"


class Variables(kit.Service, Process):
    """A service that is started with the variables of the reference."""

    def __init__(self, box, directory, words, settings):
        super().__init__(box, box.name("service"))
        self.grpc, self.http, self.debug = free_port(), free_port(), free_port()
        self.words = words
        self.variables = {
            "RUNTIME_ROOT": str(directory), "HOST": HOST, "GRPC_HOST": HOST, "DEBUG_HOST": HOST, "PORT": str(self.http),
            "GRPC_PORT": str(self.grpc), "DEBUG_PORT": str(self.debug), **settings}

    def start(self):
        self.spawn(self.words, env={**os.environ, **self.variables})
        until(self.is_up, f"{self.name} is healthy")
        return self

    def is_up(self):
        expect(self.is_running(), f"{self.name} ended:\n{self.tail()}")
        try:
            return kit.fetch(self.http, "/healthcheck").status == 200
        except OSError:
            return False

    def stats(self):
        """As of kit.Weir; empty for the reference."""
        text = kit.fetch(self.debug, "/stats").text()
        return {name: int(count) for name, count in kit.STAT.findall(text) if int(count)}


def pair(box, directory, **settings):
    """weir and the reference with the same variables."""
    redis = Redis(box).start()
    settings = {"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"{HOST}:{redis.port}", "USE_STATSD": "false",
                "BACKEND_TYPE": "redis", "LOG_LEVEL": "info", "LOCAL_CACHE_SIZE_IN_BYTES": "1000000",
                "EXPIRATION_JITTER_MAX_SECONDS": "300", **settings}
    return [Variables(box, directory, words, settings).start()
            for words in ([box.weir, "serve", "--envoy"], [box.parts.reference()])]


def the_same_variables(box):
    """Both services start with the variables of a deployment, and answer the same on all their ports."""
    configuration = generated.Configuration(side_by_side.SEED + 2, side_by_side.lasting_units(120))
    directory = box.path / "current"
    kit.write_config(directory / "ratelimit" / "config", configuration.files())
    weir, reference = pair(box, directory, RUNTIME_SUBDIRECTORY="ratelimit", LIMIT_RESPONSE_HEADERS_ENABLED="true",
                           RESPONSE_DYNAMIC_METADATA="true")
    compared = side_by_side.Pair(box, weir, reference)
    source = generated.Requests(side_by_side.SEED + 2, configuration)
    for number in range(500):
        compared.send(source.next(), compared.by_json if number % 10 == 0 else None)
    for path in ("/healthcheck", "/nothing"):
        equal(kit.fetch(weir.http, path).status, kit.fetch(reference.http, path).status, path)
    lines = [sorted(kit.fetch(one.debug, "/rlconfig").text().splitlines()) for one in (weir, reference)]
    equal(lines[0], lines[1], "/rlconfig")
    expect(weir.stats(), "no statistics")
    expect("localcache" not in kit.fetch(weir.debug, "/stats").text(), "there are statistics of a local cache")
    said = weir.log_text()
    for name in ("REDIS_URL", "LOCAL_CACHE_SIZE_IN_BYTES", "EXPIRATION_JITTER_MAX_SECONDS"):
        expect(name in said, f"the log does not say why {name} is not needed:\n{said}")


def limit_of(service):
    """The limit that the service applies to the descriptor k."""
    descriptor = {"entries": [{"key": "k", "value": "v"}], "hitsAddend": "0"}
    answer = service.post({"domain": "d", "descriptors": [descriptor]})
    expect(answer.status in (200, 429), f"{service.name}: {answer}")
    return json.loads(answer.body)["statuses"][0].get("currentLimit", {}).get("requestsPerUnit")


def expect_limit(services, count):
    for service in services:
        until(lambda one=service: limit_of(one) == count, f"{service.name} applies {count}")


def a_changed_file(box):
    """A file is written again, added and removed. A file with an error changes nothing."""
    directory = box.path / "root"
    config = kit.write_config(directory / "config", {"a.yaml": limits(10)})
    services = pair(box, directory, RUNTIME_WATCH_ROOT="false")
    expect_limit(services, 10)
    (config / "a.yaml").write_text(limits(11))
    expect_limit(services, 11)
    (config / "a.yaml").write_text("domain: d\ndescriptors: [{key: ''}]\n")
    until(lambda: services[0].stats().get("ratelimit.service.config_load_error"), "weir counts the error")
    expect_limit(services, 11)
    (config / "new").write_text(limits(12))
    os.replace(config / "new", config / "a.yaml")
    expect_limit(services, 12)


def a_config_map(box):
    """Kubernetes replaces the files of a ConfigMap by a symbolic link."""
    directory = box.path / "root"
    config = directory / "config"
    versions = [kit.write_config(config / f"..version{n}", {"a.yaml": limits(n)}) for n in (20, 21, 22)]
    (config / "..data").symlink_to(versions[0].name)
    (config / "a.yaml").symlink_to("..data/a.yaml")
    services = pair(box, directory, RUNTIME_WATCH_ROOT="false", RUNTIME_IGNOREDOTFILES="true")
    expect_limit(services, 20)
    for count, version in zip((21, 22), versions[1:]):
        (config / "..data_tmp").symlink_to(version.name)
        os.replace(config / "..data_tmp", config / "..data")
        expect_limit(services, count)


def a_replaced_root(box):
    """RUNTIME_ROOT is a symbolic link, which a deployment replaces."""
    for count in (30, 31):
        kit.write_config(box.path / f"v{count}" / "ratelimit" / "config", {"a.yaml": limits(count)})
    root = box.path / "current"
    root.symlink_to("v30")
    services = pair(box, root, RUNTIME_SUBDIRECTORY="ratelimit", RUNTIME_WATCH_ROOT="true")
    expect_limit(services, 30)
    (box.path / "next").symlink_to("v31")
    os.replace(box.path / "next", root)
    expect_limit(services, 31)


class Agent:
    """An agent for DogStatsD: the lines that it receives for the descriptor k."""

    def __init__(self):
        self.lines = set()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        while True:
            for line in self.socket.recv(65536).decode().splitlines():
                # The reference's client adds fields of its own behind the tags, such as the container.
                self.lines.add("|".join(line.split("|")[:3]))

    def about(self):
        return {line for line in self.lines if ".d.k." in line}


def the_same_tags(box):
    """EXTRA_TAGS are at the end of the names, or for an agent behind the type."""
    directory = box.path / "root"
    kit.write_config(directory / "config", {"a.yaml": limits(10)})
    tags = {"EXTRA_TAGS": "zone:eu-1.a,build:7", "STATS_FLUSH_INTERVAL": "1s", "RUNTIME_WATCH_ROOT": "false"}
    servers = [kit.Statsd(), kit.Statsd()], [Agent(), Agent()]
    for dog, (one, two) in enumerate(servers):
        settings = {**tags, "STATSD_HOST": HOST, "USE_STATSD": str(1 - dog), "USE_DOG_STATSD": str(dog)}
        redis = Redis(box).start()
        settings |= {"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"{HOST}:{redis.port}"}
        for words, server in (([box.weir, "serve", "--envoy"], one), ([box.parts.reference()], two)):
            Variables(box, directory, words, {**settings, "STATSD_PORT": str(server.port)}).start().post(
                {"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]})
    name = "ratelimit.service.rate_limit.d.k."
    for last in ("total_hits", "within_limit"):
        for server in servers[0]:
            until(lambda one=server, what=last: one.counts[f"{name}{what}.__build=7.__zone=eu-1_a"] == 1, last)
        for server in servers[1]:
            until(lambda one=server, what=last: f"{name}{what}:1|c|#build:7,zone:eu-1_a" in one.about(), last)


QUOTAS = """
domain: edge
descriptors:
  - key: service
    value: one
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
    metadata: {service_with_quota: {name: one}}
  - key: service
    value: two
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 2}
    metadata: {service_with_quota: {name: two}}
"""
CHOSEN = "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:metadata:service_with_quota:name)%"


def quotas_of_services(box):
    """Each request peeks at the quotas of two services, goes to the first that has some left, and is charged there
    when it ends, so each service serves one request more than its quota. The acceptance test of the reference does
    the same. Its release that the other tests run does not know this metadata."""
    behind_envoy.wait_for_day(60)
    directory = box.path / "root"
    kit.write_config(directory / "config", {"edge.yaml": QUOTAS})
    weir = Variables(box, directory, [box.weir, "serve", "--envoy"], {"RESPONSE_DYNAMIC_METADATA": "true"}).start()
    peeks = [{"actions": [bootstrap.key(name, "service")], "hits_addend": {"number": 0}} for name in ("one", "two")]
    charge = {"actions": [{"metadata": {"descriptor_key": "service", "source": "DYNAMIC", "metadata_key": {
        "key": bootstrap.HTTP_FILTER, "path": [{"key": "metadata"}, {"key": "service_with_quota"}, {"key": "name"}]}}}],
        "hits_addend": {"number": 1}, "apply_on_stream_done": True}
    route = bootstrap.route("/", per_route={"rate_limits": [*peeks, charge]})
    limit = {"name": bootstrap.HTTP_FILTER, "typed_config": {
        "@type": bootstrap.TYPE + "http.ratelimit.v3.RateLimit", "domain": "edge", "timeout": "30s",
        "rate_limit_service": bootstrap.service("weir")}}
    host = {"name": "all", "domains": ["*"], "routes": [route],
            "response_headers_to_add": [{"header": {"key": "x-service", "value": CHOSEN}}]}
    far = kit.Envoy(box, [bootstrap.backend()], []).start()
    envoy = kit.Envoy(box, [bootstrap.manager("open", host, [limit])],
                      bootstrap.clusters({"weir": weir.grpc}, far.port("backend"))).start()

    def charged():
        return sum(count for name, count in weir.stats().items() if name.endswith(".total_hits"))

    for number, service in enumerate(("one", "one", "two", "two", "two")):
        answer = kit.fetch(envoy.port("open"), "/")
        equal((answer.status, answer.headers.get("x-service")), (200, service), f"request {number + 1}")
        until(lambda count=number: charged() == count + 1, "the request is charged")
    equal(kit.fetch(envoy.port("open"), "/").status, 429, "the last request")


TESTS = (the_same_variables, the_same_tags, quotas_of_services, a_changed_file, a_config_map, a_replaced_root)
