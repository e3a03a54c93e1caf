# SPDX-License-Identifier: BSD-2-Clause
"""The gRPC libraries for Go, Node and Python, and grpcurl, as clients of weir.

A program in this directory runs one scene with one library, and prints what the service answers."""

import contextlib
import json
import subprocess
import sys

from kit import envoy as kit
from kit import envoy_parts
from kit.process import HOST, PATIENCE_S, Failed, equal, expect, free_port, until

FILES = {"clients.yaml": """
domain: clients
descriptors:
  - key: few
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: many
    rate_limit: {unit: year, requests_per_unit: 600}
"""}
LIMITS = ["OK 2", "OK 1", "OK 0", "OVER_LIMIT 0"]
# Scene -> the lines that its program prints.
SCENES = {
    "limits": LIMITS,
    "gzip": LIMITS,
    "errors": ["UNKNOWN rate limit domain must not be empty", "UNKNOWN rate limit descriptor list must not be empty",
               "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"],
    "deadline": ["DEADLINE_EXCEEDED"],
    "many": ["600 400"],
    "health": ["SERVING", "SERVING", "NOT_FOUND", "SERVING"]}


class Library:
    """The program of a library. Its arguments after the address are `more`."""

    def __init__(self, name, command, more=lambda parts: []):
        self.name, self.command, self.more = name, command, more

    def words(self, box, scene, user, ports, files=()):
        address = ",".join(f"{HOST}:{port}" for port in ports)
        return [str(word) for word in (*self.command(box.parts), scene, user, address, *self.more(box.parts), *files)]

    def run(self, box, scene, user, ports, files=()):
        """Runs a scene, and returns the lines that the program prints."""
        done = subprocess.run(self.words(box, scene, user, ports, files), capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL)
        expect(done.returncode == 0, f"{self.name} {scene}: {done.stdout}{done.stderr}")
        return done.stdout.splitlines()


LIBRARIES = (
    Library("python", lambda _: [sys.executable, envoy_parts.HERE / "python" / "client.py"], lambda one: [one.protos()]),
    Library("node", lambda one: one.node(), lambda _: [envoy_parts.PROTOS]),
    Library("go", lambda one: [one.go()]))


def all_scenes(box, library):
    weir = kit.Weir(box, FILES).start()
    for scene, lines in SCENES.items():
        with contextlib.ExitStack() as stack:
            if scene == "deadline":  # else an answer may arrive before the library looks at the clock
                weir.pause()
                stack.callback(weir.resume)
            equal(library.run(box, scene, f"user-{scene}", [weir.grpc]), lines, f"{library.name}, {scene}")


def with_tls(box, library):
    """The client verifies weir's certificate, and weir the client's."""
    tls = box.tls()
    weir = kit.Weir(box, FILES, more=[f"tls: {{cert: {tls.cert}, key: {tls.key}, client_ca: {tls.ca}}}"]).start()
    files = [tls.ca, tls.client_cert, tls.client_key]
    equal(library.run(box, "limits", "a", [weir.grpc], files), LIMITS, f"{library.name}, with TLS")
    equal(library.run(box, "many", "a", [weir.grpc], files), SCENES["many"], f"{library.name}, many with TLS")


def calling(box, library, ports, meanwhile):
    """The client calls all the time while meanwhile() runs. No call may fail."""
    with subprocess.Popen(library.words(box, "drain", "a", ports), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as client:
        with contextlib.ExitStack() as stack:
            stack.callback(client.kill)
            equal(client.stdout.readline(), "called\n", f"{library.name}: the first calls")
            meanwhile()
            out = client.communicate("\n", timeout=PATIENCE_S)[0]
            stack.pop_all()
    equal(out, "0 failures\n", library.name)


def connections_of_a_second(box, library):
    """With max_connection_age, weir ends each connection after about a second. No call fails."""
    relay = kit.Relay(kit.Weir(box, FILES, more=["grpc: {max_connection_age: 1s}"]).start().grpc)
    calling(box, library, [relay.port],
            lambda: until(lambda: relay.connections >= 4, f"{library.name} connects for the fourth time"))


def while_daemons_restart(box, library):
    """Two daemons are stopped and started in turn. No call fails: the client uses the other one."""
    services = [kit.Weir(box, FILES) for _ in range(2)]
    for service in services:
        service.grpc, service.http = free_port(), free_port()
        service.start()

    def restart():
        for number in range(6):
            service = services[number % 2]
            equal(service.end(), 0, "exit status")
            service.start()
            hits = stat(service)
            until(lambda one=service, n=hits: stat(one) > n + 20, f"{library.name} calls {service.name} again")

    calling(box, library, [service.grpc for service in services], restart)


def stat(service):
    return service.stats().get("ratelimit.service.rate_limit.clients.many.total_hits", 0)


def library_tests():
    for library in LIBRARIES:
        for judge in (all_scenes, with_tls, connections_of_a_second, while_daemons_restart):
            def test(box, library=library, judge=judge):
                judge(box, library)

            test.__name__ = f"{library.name}_{judge.__name__}"
            yield test


def keepalive(box):
    """A client that watches the health and sends PING frames all the time keeps its connection."""
    relay = kit.Relay(kit.Weir(box, FILES).start().grpc)
    options = [("grpc.keepalive_time_ms", 10), ("grpc.http2.max_pings_without_data", 0),
               ("grpc.http2.min_time_between_pings_ms", 10)]
    request = {"domain": "clients", "descriptors": [{"entries": [("many", "p")]}]}
    with kit.Channel(box.messages, relay.port, options=options) as channel:
        request_type, response_type = box.messages.health_request, box.messages.health_response
        watch = channel.channel.unary_stream("/grpc.health.v1.Health/Watch", request_type.SerializeToString,
                                             response_type.FromString)
        stream = watch(request_type())
        equal(next(stream).status, 1, "health")
        until(lambda: relay.pings >= 5, "5 PING frames")
        equal(channel.ask(request).overall_code, kit.OK, "overall_code")
        stream.cancel()
    equal(relay.connections, 1, "connections")


def grpcurl(box):
    """grpcurl knows the services by reflection: it lists and describes them, and calls a method."""
    weir = kit.Weir(box, FILES).start()

    def run(*words):
        done = subprocess.run([str(word) for word in (box.parts.grpcurl(), "-plaintext", *words)], capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise Failed(f"grpcurl {words}: {done.stdout}{done.stderr}")
        return done.stdout

    address = f"{HOST}:{weir.grpc}"
    services = run(address, "list").split()
    for name in (kit.SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"):
        expect(name in services, f"grpcurl lists {services}, without {name}")
    equal(run(address, "list", kit.SERVICE), f"{kit.SERVICE}.ShouldRateLimit\n", "list")
    described = run(address, "describe", kit.SERVICE)
    expect("rpc ShouldRateLimit" in described, described)
    for name in ("RateLimitRequest", "RateLimitResponse"):
        expect(f"message {name}" in run(address, "describe", f"envoy.service.ratelimit.v3.{name}"), name)
    body = {"domain": "clients", "descriptors": [{"entries": [{"key": "few", "value": "x"}]}]}
    answers = [json.loads(run("-d", json.dumps(body), address, f"{kit.SERVICE}/ShouldRateLimit")) for _ in range(4)]
    equal([answer["overallCode"] for answer in answers], ["OK"] * 3 + ["OVER_LIMIT"], "codes")
    equal(answers[0]["statuses"][0]["currentLimit"], {"requestsPerUnit": 3, "unit": "YEAR"}, "currentLimit")
    equal(json.loads(run(address, "grpc.health.v1.Health/Check")), {"status": "SERVING"}, "health")


TESTS = (*library_tests(), keepalive, grpcurl)
