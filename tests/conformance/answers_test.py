#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Tests that every interface sends the same header fields for the same requests, in every flavour: the HTTP
API, /v1/forward-auth, SPOE, Envoy's Rate Limit Service over gRPC and over HTTP, and the module for nginx.

Each test is one flavour. The policies are so slow that no quota returns during the test, and times in the
fields may differ by NEAR_S.

    answers_test.py WEIR NGINX_MODULE [NAME...]"""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import sys
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]

from doors import Spop, should_rate_limit
from kit import nginx as nginx_kit
from kit.process import HOST, PATIENCE_S, Process, expect, run, say, until

NEAR_S = 60
FLAVOURS = ("ietf", "ietf-07", "ietf-03", "x-ratelimit", "github", "openai", "none", "ietf x-ratelimit", "ietf github",
            "ietf ietf-03 x-ratelimit openai")
DOMAIN = "shop"

# A policy. `more` has members of weir.yaml that the other interfaces do not have.
Policy = collections.namedtuple("Policy", "limit unit more", defaults=("requests", ""))
POLICIES = {
    "gcra": Policy("gcra 1/h burst 3"),
    "bucket": Policy("token-bucket 4 refill 2 every 5h"),
    "leaky": Policy("leaky-bucket 1/h capacity 2"),
    "queue": Policy("leaky-queue 1/h depth 2 nodelay 2"),
    "window": Policy("fixed-window 3/5000d"),
    "calendar": Policy("fixed-window 3/year"),
    "counted": Policy("fixed-window 2/5000d count-denied"),
    "log": Policy("sliding-log 2/5000d"),
    "counter": Policy("sliding-counter 3/5000d"),
    "slices": Policy("sliding-slices 2/5000d slices 5"),
    "layers": Policy("gcra 1/h burst 4 & fixed-window 3/5000d"),
    "large": Policy("gcra 1/h burst 1000"),
    "tokens": Policy("token-bucket 4 refill 1/h", "tokens"),
    "bytes": Policy("token-bucket 6 refill 1/h", "bytes"),
    "denied": Policy("gcra 1/h burst 3", more="deny: ['*']"),
    "shadow": Policy("gcra 1/h burst 1", more="shadow: true"),
    "own": Policy("gcra 1/h burst 1", more="headers: [ietf-03, openai]"),
}
YAML = ("http", "forward-auth", "spoe")  # the interfaces that use the policies of weir.yaml
ONE_BY_ONE = ("http", "forward-auth", "nginx")  # those that charge all policies of a request, or none

# A row of the table: the policies of its requests, their costs, and the interfaces, if not all have these policies.
Row = collections.namedtuple("Row", "policies costs doors", defaults=(None,))
EACH = (1, 1, 1, 1, 9)
ROWS = {name: Row([name], EACH) for name, one in POLICIES.items() if not one.more and one.unit == "requests"} | {
    "queue": Row(["queue"], EACH, (*YAML, "nginx")),
    "at-once": Row(["gcra"], (3, 1)),
    "never": Row(["gcra"], (4, 1)),
    "tokens": Row(["tokens"], EACH, (*YAML, "nginx")),
    "bytes": Row(["bytes"], (2, 2, 2, 2), (*YAML, "nginx")),
    "denied": Row(["denied"], (1,), YAML),
    "shadow": Row(["shadow"], (1, 1), YAML),
    "own": Row(["own"], (1, 1), YAML),
    "two": Row(["large", "window"], (1, 1, 1)),
    "three": Row(["large", "layers", "bucket"], (1, 1, 1)),
    "all-units": Row(["gcra", "tokens", "bytes"], (1, 1, 1), (*YAML, "nginx")),
    "two-denied": Row(["large", "window"], (3, 1, 1), ONE_BY_ONE),
    "units-denied": Row(["tokens", "gcra", "bytes"], (3, 1, 1), ONE_BY_ONE),
}


# ---- fields --------------------------------------------------------------------------------------


def is_shown(name):
    return name == "retry_after" or name.startswith(("ratelimit", "x_ratelimit"))


def shown(pairs):
    """The fields of a response that describe its limits, by their names as SPOE has them."""
    found = {}
    for name, value in pairs:
        name = name.lower().replace("-", "_")
        if is_shown(name):
            expect(name not in found, f"{name} occurs twice")
            found[name] = value
    return found


def seconds(name, text):
    """The seconds from now that a time in a field means."""
    if name.startswith("x_ratelimit_reset_"):
        units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
        parts = re.findall(r"([0-9.]+)(ms|h|m|s)", text)
        expect("".join(map("".join, parts)) == text, f"{name}: {text} is no duration")
        return sum(float(number) * units[unit] for number, unit in parts)
    n = int(text)
    return n - time.time() if name == "x_ratelimit_reset" and n > 1_500_000_000 else n


def split(found):
    """The fields with a T in place of each time, and the times."""
    texts, times = {}, []
    for name, value in sorted(found.items()):
        pattern = r"(?<=;t=)\d+|(?<= reset=)\d+" if name == "ratelimit" else \
            r".+" if "reset" in name or name == "retry_after" else "$^"

        def replace(match, name=name):
            times.append(seconds(name, match[0]))
            return "T"

        texts[name] = re.sub(pattern, replace, value)
    return texts, times


def same(what, door, found, other, wanted):
    """Fails unless two interfaces have sent the same fields."""
    (texts, times), (wanted_texts, wanted_times) = split(found), split(wanted)
    near = all(abs(one - two) <= NEAR_S for one, two in zip(times, wanted_times))
    expect(texts == wanted_texts and near, f"{what}:\n  {door}: {found}\n  {other}: {wanted}")


# ---- the daemon ----------------------------------------------------------------------------------


def full(name):
    """The name of a policy, which is that of its descriptor in the Rate Limit Service."""
    return f"{DOMAIN}.{name}"


def listed(flavour):
    """A flavour, or several, as a list of YAML."""
    return f"[{', '.join(flavour.split())}]"


class Daemon(Process):
    """`weir serve` with an address for each of these interfaces, and lines of weir.yaml."""

    def __init__(self, box, interfaces, lines):
        super().__init__(box, box.name("weir"))
        self.interfaces, self.ports = interfaces, {}
        self.config = box.path / f"{self.name}.yaml"
        listen = ", ".join(f"{one}: {HOST}:0" for one in interfaces)
        self.config.write_text("\n".join([f"listen: {{{listen}}}", "threads: 1", "memory: {size: 16m}", *lines]) + "\n")

    def start(self):
        self.spawn([self.box.weir, "serve", self.config])
        started = until(self.started, f"{self.name} starts")
        self.ports = {one: int(re.search(rf"\b{one}=[^ ]*:(\d+)", started)[1]) for one in self.interfaces}
        return self

    def started(self):
        said = self.log_text()
        expect(self.is_running(), f"{self.name} did not start:\n{said}\n{self.config.read_text()}")
        found = re.search(r" info started .*", said)
        return found and found[0]



def daemon_of_policies(box, flavour):
    """A daemon with the policies in weir.yaml, messages of SPOE, and a route for each row and cost."""
    lines = [f"headers: {listed(flavour)}", f"trusted_proxies: [{HOST}]", "policies:"]
    lines += [f"  {full(name)}: {{limit: {json.dumps(one.limit)}, unit: {one.unit}, key: $header.x-key, {one.more}}}"
              for name, one in POLICIES.items()]
    lines.append("spoe:\n  messages:")
    lines += [f"    {name}: {{policy: {full(name)}, key: $key, cost: $cost}}" for name in POLICIES]
    lines.append("routes:")
    lines += [f"  - {{name: {name}-{cost}, path: /{name}-{cost}, cost: {cost}, "
              f"policies: [{', '.join(map(full, row.policies))}]}}"
              for name, row in ROWS.items() for cost in sorted(set(row.costs))]
    return Daemon(box, ("http", "spoe"), lines).start()


def daemon_of_descriptors(box, flavour):
    """A daemon with the same policies as limits of the Rate Limit Service, which has no leaky-queue."""
    limits = box.path / "limits"
    limits.mkdir()
    rules = "".join(f"  - {{key: {name}, weir: {json.dumps(one.limit)}}}\n" for name, one in POLICIES.items()
                    if "leaky-queue" not in one.limit)
    (limits / "shop.yaml").write_text(f"domain: {DOMAIN}\ndescriptors:\n{rules}")
    return Daemon(box, ("http", "grpc"),
                  [f"envoy: {{config: {limits}, headers: {{flavour: {listed(flavour)}}}}}"]).start()


# ---- interfaces ----------------------------------------------------------------------------------

# Each is a function of a row's name, the row, the key and the cost. It returns whether the request is allowed,
# and its fields.


def fetch(port, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        text = response.read().decode()
        expect(response.status in (200, 429), f"{path}: {response.status} {text}")
        return response.status == 200, response.getheaders(), text


def by_http(daemon):
    def ask(_, row, key, cost):
        requests = [{"policy": full(name), "key": key, "cost": cost} for name in row.policies]
        path, members = ("/v1/take", requests[0]) if len(requests) == 1 else ("/v1/takeall", {"requests": requests})
        allowed, headers, _ = fetch(daemon.ports["http"], "POST", path, json.dumps(members),
                                    Content_Type="application/json")
        return allowed, shown(headers)

    return ask


def by_forward_auth(daemon):
    def ask(name, _, key, cost):
        allowed, headers, _ = fetch(daemon.ports["http"], "GET", "/v1/forward-auth", X_Forwarded_Method="GET",
                                    X_Forwarded_Uri=f"/{name}-{cost}", X_Forwarded_Host="localhost", X_Key=key)
        return allowed, shown(headers)

    return ask


def by_spoe(daemon):
    def ask(_, row, key, cost):
        with contextlib.closing(Spop(daemon.ports["spoe"])) as connection:
            found = connection.notify(row.policies, key=key, cost=cost)
        expect("error" not in found, f"SPOE: {found}")
        if found["allowed"]:
            expect(found.pop("retry_after") == 0, "retry_after of an allowed request")
        return found["allowed"], {name: str(value) for name, value in found.items() if is_shown(name)}

    return ask


def by_grpc(daemon):
    def ask(_, row, key, cost):
        code, added = should_rate_limit(daemon.ports["grpc"], DOMAIN, [(name, key) for name in row.policies], cost)
        return code == 1, shown(added)

    return ask


def by_json(daemon):
    def ask(_, row, key, cost):
        body = {"domain": DOMAIN, "hitsAddend": cost,
                "descriptors": [{"entries": [{"key": name, "value": key}]} for name in row.policies]}
        allowed, _, text = fetch(daemon.ports["http"], "POST", "/json", json.dumps(body))
        added = json.loads(text).get("responseHeadersToAdd", [])
        return allowed, shown((one["key"], one["value"]) for one in added)

    return ask


def by_nginx(box, flavour):
    """None if there is no nginx."""
    if not nginx_kit.NGINX or not os.path.exists(box.module):
        return None
    locations = ""
    for name, row in ROWS.items():
        limits = "".join(f'weir z "{POLICIES[one].limit}" key=$arg_k cost=$arg_c name={full(one)} '
                         f"unit={POLICIES[one].unit}; " for one in row.policies)
        locations += f"location = /{name} {{ {limits} alias html/index.html; }}\n"
    nginx = nginx_kit.Nginx(box, f"weir_zone z 4m; weir_headers {flavour};", locations).start()

    def ask(name, _, key, cost):
        allowed, headers, _ = fetch(nginx.port, "GET", f"/{name}?" + urllib.parse.urlencode({"k": key, "c": cost}))
        return allowed, shown(headers)

    return ask


# ---- tests ---------------------------------------------------------------------------------------


def compare(doors, name, row):
    """Sends the requests of a row through the interfaces, each with a key of its own."""
    names = [door for door in row.doors or doors if door in doors]
    counted = 0
    for number, cost in enumerate(row.costs):
        answers = {door: doors[door](name, row, f"{name}-{door}", cost) for door in names}
        first = answers[names[0]]
        for door, (allowed, found) in answers.items():
            what = f"{name}, request {number} of cost {cost}"
            expect(allowed == first[0], f"{what}: {door} {allowed}, {names[0]} {first[0]}")
            same(what, door, found, names[0], first[1])
            counted += 1
    return counted


def flavour_test(flavour):
    def test(box):
        daemon, service = daemon_of_policies(box, flavour), daemon_of_descriptors(box, flavour)
        doors = {"http": by_http(daemon), "forward-auth": by_forward_auth(daemon), "spoe": by_spoe(daemon),
                 "grpc": by_grpc(service), "json": by_json(service), "nginx": by_nginx(box, flavour)}
        if doors["nginx"] is None:
            say("without the module for nginx: there is none")
            del doors["nginx"]
        say(f"{sum(compare(doors, name, row) for name, row in ROWS.items())} answers")

    test.__name__ = flavour.replace(" ", "_").replace("-", "_")
    return test


TESTS = [flavour_test(flavour) for flavour in FLAVOURS]

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv, needs_redis=False))
