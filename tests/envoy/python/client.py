# SPDX-License-Identifier: BSD-2-Clause
"""Runs a scene with grpcio, and prints what the service answers:
client.py SCENE USER ADDRESS,... PROTOS.BIN [CA CERT KEY]."""

import pathlib
import select
import sys

import grpc

from kit import envoy as kit

scene, user, addresses, protos, *files = sys.argv[1:]
messages = kit.Messages(pathlib.Path(protos))
target = f"ipv4:{addresses}"
OPTIONS = [("grpc.lb_policy_name", "round_robin"), ("grpc.enable_http_proxy", 0)]


def connect():
    compression = grpc.Compression.Gzip if scene == "gzip" else None
    if not files:
        return grpc.insecure_channel(target, OPTIONS, compression)
    ca, cert, key = (pathlib.Path(file).read_bytes() for file in files)
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(ca, key, cert), OPTIONS, compression)


channel = connect()


def unary(path, request, response):
    return channel.unary_unary(path, request.SerializeToString, response.FromString)


ask = unary(kit.SHOULD_RATE_LIMIT, messages.request, messages.response)


def request(key, value, domain="clients"):
    return messages.message({"domain": domain, "descriptors": [{"entries": [(key, value)]}]})


def outcome(call, message, timeout=kit.PATIENCE_S):
    try:
        response = call(message, timeout=timeout)
    except grpc.RpcError as error:
        name = error.code().name
        return f"{name} {error.details()}" if name == "UNKNOWN" else name
    return f"{('UNKNOWN', 'OK', 'OVER_LIMIT')[response.overall_code]} {response.statuses[0].limit_remaining}"


def limits():
    for _ in range(4):
        print(outcome(ask, request("few", user)))


def errors():
    print(outcome(ask, request("few", user, "")))
    print(outcome(ask, messages.message({"domain": "clients"})))
    print(outcome(unary(f"/{kit.SERVICE}/Nothing", messages.request, messages.response), messages.request()))
    print(outcome(ask, request("few", "x" * (1 << 20))))


def many():
    futures = [ask.future(request("many", user), timeout=kit.PATIENCE_S) for _ in range(1000)]
    codes = [future.result().overall_code for future in futures]
    print(codes.count(kit.OK), codes.count(kit.OVER_LIMIT))


def health():
    names = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
    check = unary("/grpc.health.v1.Health/Check", messages.health_request, messages.health_response)
    for service in ("", "ratelimit", "other"):
        try:
            print(names[check(messages.health_request(service=service), timeout=kit.PATIENCE_S).status])
        except grpc.RpcError as error:
            print(error.code().name)
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch", messages.health_request.SerializeToString,
                                 messages.health_response.FromString)
    stream = watch(messages.health_request(), timeout=kit.PATIENCE_S)
    print(names[next(stream).status])
    stream.cancel()


def drain():
    """Calls until standard input ends. Prints a line once the first calls are answered, and then the failures."""
    calls = failures = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        said = outcome(ask, request("many", user))
        if not said.startswith("O"):
            failures += 1
            print(said)
        calls += 1
        if calls == 100:
            print("called", flush=True)
    print(failures, "failures")


SCENES = {"limits": limits, "gzip": limits, "errors": errors, "many": many, "health": health, "drain": drain,
          "deadline": lambda: print(outcome(ask, request("few", user), 0))}
SCENES[scene]()
channel.close()
