# SPDX-License-Identifier: BSD-2-Clause
"""The servers of these tests: weir, the reference service (envoyproxy/ratelimit with its redis-server)
and Envoy, each on free ports of the loopback; and a gRPC client of the Rate Limit Service."""

import collections
import contextlib
import functools
import http.client
import importlib.util
import json
import os
import pathlib
import re
import socket
import threading

from kit import envoy_parts
from kit.http import fetch
from kit.process import HOST, PATIENCE_S, Failed, Process, Skipped, expect, free_port, run, until
from kit.redis import Redis
from kit.weir import Serving

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
SHOULD_RATE_LIMIT = f"/{SERVICE}/ShouldRateLimit"
UNKNOWN, OK, OVER_LIMIT = 0, 1, 2
WINDOWS_S = {1: 1, 2: 60, 3: 3600, 4: 86400, 5: 30 * 86400, 6: 365 * 86400, 7: 7 * 86400}
UNITS = {"second": 1, "minute": 2, "hour": 3, "day": 4, "month": 5, "year": 6, "week": 7}


# A line of /stats.
STAT = re.compile(r"^(ratelimit\..+): (\d+)$", re.M)
HEADERS_ON = ("headers: {enabled: true}",)


# ---- messages and calls --------------------------------------------------------------------------


class Messages:
    """The classes of the messages, by the last part of their names."""

    def __init__(self, path):
        # pylint: disable=import-outside-toplevel
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        pool = descriptor_pool.DescriptorPool()
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
        for file in files.file:
            pool.Add(file)
        if hasattr(message_factory, "GetMessageClass"):
            make = message_factory.GetMessageClass
        else:
            make = message_factory.MessageFactory(pool).GetPrototype
        self.request = make(pool.FindMessageTypeByName("envoy.service.ratelimit.v3.RateLimitRequest"))
        self.response = make(pool.FindMessageTypeByName("envoy.service.ratelimit.v3.RateLimitResponse"))
        self.health_request = make(pool.FindMessageTypeByName("grpc.health.v1.HealthCheckRequest"))
        self.health_response = make(pool.FindMessageTypeByName("grpc.health.v1.HealthCheckResponse"))

    def message(self, wanted):
        """A RateLimitRequest. `wanted` is a map with the field names of the protocol, where entries are
        pairs and a descriptor's hits_addend is a number."""
        ret = self.request(domain=wanted.get("domain", ""), hits_addend=wanted.get("hits_addend", 0))
        for descriptor in wanted.get("descriptors", ()):
            one = ret.descriptors.add()
            for key, value in descriptor["entries"]:
                one.entries.add(key=key, value=value)
            if "hits_addend" in descriptor:
                one.hits_addend.value = descriptor["hits_addend"]
                one.hits_addend.SetInParent()
            if "limit" in descriptor:
                one.limit.requests_per_unit, one.limit.unit = descriptor["limit"]
        return ret


class Channel:
    """A gRPC connection to a service."""

    def __init__(self, messages, port, *, credentials=None, options=()):
        import grpc  # pylint: disable=import-outside-toplevel

        # Each channel has a connection of its own, also to a port that another has.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), *options]
        address = f"{HOST}:{port}"
        self.channel = (grpc.secure_channel(address, credentials, options) if credentials
                        else grpc.insecure_channel(address, options))
        self.messages = messages
        self.method = self.unary(SHOULD_RATE_LIMIT, messages.request, messages.response)

    def unary(self, path, request, response):
        return self.channel.unary_unary(path, request.SerializeToString, response.FromString)

    def send(self, wanted):
        """Sends a request, and returns the future of the response."""
        return self.method.future(self.messages.message(wanted), timeout=PATIENCE_S)

    def ask(self, wanted):
        return self.send(wanted).result()

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ---- an HTTP client ------------------------------------------------------------------------------




# ---- statistics --------------------------------------------------------------------------------


class Statsd:
    """A statsd server on TCP, which adds up the counters that it receives."""

    def __init__(self):
        self.counts = collections.Counter()
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connected, _ = self.listener.accept()
            threading.Thread(target=self.read, args=(connected,), daemon=True).start()

    def read(self, connected):
        with connected, connected.makefile("r", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, rest = line.strip().rpartition(":")
                value, _, kind = rest.partition("|")
                if kind == "c":
                    self.counts[name] += int(value)


# ---- a relay -----------------------------------------------------------------------------------


class Relay:
    """Connects clients to a port, and counts their connections and their PING frames."""

    PREFACE, HEAD, PING = 24, 9, 6

    def __init__(self, port):
        self.target, self.connections, self.pings = port, 0, 0
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            self.connections += 1
            server = socket.create_connection((HOST, self.target))
            for source, sink, count in ((client, server, True), (server, client, False)):
                threading.Thread(target=self.copy, args=(source, sink, count), daemon=True).start()

    def copy(self, source, sink, count):
        """Copies bytes until the source closes."""
        seen, preface = bytearray(), self.PREFACE
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                sink.sendall(chunk)
                if count:
                    seen += chunk
                    preface = self.count_frames(seen, preface)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def count_frames(self, seen, skip):
        """Removes the complete frames from `seen`, after `skip` bytes. Returns what is left to skip."""
        while len(seen) >= skip + self.HEAD:
            end = skip + self.HEAD + int.from_bytes(seen[skip:skip + 3], "big")
            if len(seen) < end:
                break
            self.pings += seen[skip + 3] == self.PING and not seen[skip + 4] & 1
            del seen[:end]
            skip = 0
        return skip


# ---- services ------------------------------------------------------------------------------------


def write_config(directory, files):
    """Writes the files of a configuration directory: name -> text."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


class Service:
    """A rate limit service. `grpc` is its port, `http` and `debug` are those of its HTTP servers."""

    grpc = http = debug = None

    def channel(self, **more):
        return Channel(self.box.messages, self.grpc, **more)

    def post(self, body):
        return fetch(self.http, "/json", method="POST", body=body if isinstance(body, str) else json.dumps(body))


class Reference(Service, Process):
    """envoyproxy/ratelimit with a redis-server. `settings` are variables of its environment."""

    def __init__(self, box, files, **settings):
        super().__init__(box, box.name("reference"))
        self.directory = box.path / self.name
        write_config(self.directory / "ratelimit" / "config", files)
        self.redis = Redis(box).start()
        self.statsd = Statsd()
        self.settings, self.binary = settings, box.parts.reference()

    def start(self):
        self.grpc, self.http, self.debug = free_port(), free_port(), free_port()
        environment = {
            **os.environ, "USE_STATSD": "true", "STATSD_HOST": HOST, "STATSD_PORT": str(self.statsd.port),
            "STATS_FLUSH_INTERVAL": "1s", "REDIS_SOCKET_TYPE": "tcp",
            "REDIS_URL": f"{HOST}:{self.redis.port}", "RUNTIME_ROOT": str(self.directory),
            "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_WATCH_ROOT": "false", "LOG_LEVEL": "warn",
            "LIMIT_RESPONSE_HEADERS_ENABLED": "true", "HOST": HOST, "GRPC_HOST": HOST, "DEBUG_HOST": HOST,
            "PORT": str(self.http), "GRPC_PORT": str(self.grpc), "DEBUG_PORT": str(self.debug), **self.settings}
        self.spawn([self.binary], env=environment)
        until(self.is_up, f"{self.name} is healthy")
        return self

    def is_up(self):
        expect(self.is_running(), f"{self.name} ended:\n{self.tail()}")
        try:
            return fetch(self.http, "/healthcheck").status == 200
        except OSError:
            return False

    def stats(self):
        """The statistics that are not 0, without those of the last second: name -> count."""
        return dict(self.statsd.counts)


class Weir(Service, Serving):
    """`weir serve` with the same configuration. `envoy` and `more` are lines of weir.yaml."""

    def __init__(self, box, files, *, envoy=HEADERS_ON, more=()):
        super().__init__(box)
        self.directory = write_config(box.path / self.name, files)
        self.envoy, self.more = envoy, more

    def write(self):
        self.config.write_text("\n".join([
            f"listen: {{grpc: {HOST}:{self.grpc or 0}, http: {HOST}:{self.http or 0}}}", "memory: {size: 64m}",
            "threads: 1", *self.more, "envoy:", f"  config: {self.directory}",
            *(f"  {line}" for line in self.envoy)]) + "\n")

    def start(self):
        self.write()
        line = self.serve()
        self.grpc, self.http = self.port_in(line, "grpc"), self.port_in(line, "http")
        self.debug = self.http
        return self

    def stats(self):
        """The statistics that are not 0: name -> count."""
        text = fetch(self.http, "/stats").text()
        return {name: int(count) for name, count in STAT.findall(text) if int(count)}

    def restart(self):
        """Kills it with SIGKILL and starts it again on the same ports."""
        self.kill()
        return self.start()

    def reload(self, files):
        """Writes files of the directory, and waits until they are active."""
        write_config(self.directory, files)
        self.read_again()


# ---- Envoy ---------------------------------------------------------------------------------------


class Envoy(Process):
    """An Envoy with a bootstrap configuration as a map. Its listeners have port 0; port() is what a
    listener got."""

    def __init__(self, box, listeners, clusters):
        super().__init__(box, box.name("envoy"))
        self.config, self.admin_path = box.path / f"{self.name}.json", box.path / f"{self.name}.admin"
        self.config.write_text(json.dumps({
            "admin": {"address": address(0)},
            "static_resources": {"listeners": listeners, "clusters": clusters}}))

    def start(self):
        self.spawn([self.box.parts.envoy(), "-c", self.config, "--use-dynamic-base-id", "--concurrency", "1",
                    "--admin-address-path", self.admin_path, "--log-level", "warn", "--disable-hot-restart"])
        until(self.is_up, f"{self.name} is ready")
        return self

    @functools.cached_property
    def admin(self):
        return int(self.admin_path.read_text().rsplit(":", 1)[1])

    def is_up(self):
        expect(self.is_running(), f"{self.name} ended:\n{self.tail()}")
        try:
            return self.admin_path.exists() and fetch(self.admin, "/ready").status == 200
        except (OSError, ValueError, IndexError):
            self.__dict__.pop("admin", None)
            return False

    def port(self, name):
        listeners = json.loads(fetch(self.admin, "/listeners?format=json").body)["listener_statuses"]
        found = {one["name"]: one["local_address"]["socket_address"]["port_value"] for one in listeners}
        return found[name]

    def stats(self, pattern):
        """The counters and gauges whose names match: name -> value."""
        text = fetch(self.admin, f"/stats?filter={pattern}").text()
        return {name: int(value) for name, value in re.findall(r"^(\S+): (\d+)$", text, re.M)}


def address(port):
    return {"socket_address": {"address": HOST, "port_value": port}}


def cluster(name, port, http2=False):
    """A cluster with one endpoint on the loopback."""
    ret = {"name": name, "type": "STATIC", "connect_timeout": "5s", "load_assignment": {
        "cluster_name": name,
        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(port)}}]}]}}
    if http2:
        ret["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}}}}
    return ret


# ---- tests ---------------------------------------------------------------------------------------


def prepared(test, parts):
    """The test as a function that run() accepts: its box has the parts and the messages."""
    @functools.wraps(test)
    def run(box):
        if not importlib.util.find_spec("grpc") or not importlib.util.find_spec("google.protobuf"):
            raise Skipped("grpcio or protobuf is not installed for this Python; tools/deps envoy installs them")
        box.parts, box.messages = parts, Messages(parts.protos())
        test(box)
    return run


def same(found, wanted, what):
    """Fails with the first difference of two maps."""
    for name in sorted({*found, *wanted}):
        if found.get(name) != wanted.get(name):
            raise Failed(f"{what}: {name}: found {found.get(name)!r}, expected {wanted.get(name)!r}")


def parts_of(argv):
    return envoy_parts.Parts(pathlib.Path(argv[1]).resolve().parent)
