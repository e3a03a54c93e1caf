#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/openapi.yaml says what a daemon has: its endpoints below /v1/, their methods and parameters, and of each
response the status, the headers and the members.

    openapi_test.py WEIR [NAME...]"""

import functools
import http.client
import json
import pathlib
import re
import sys
import urllib.parse

import jsonschema
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
from kit.process import HOST, equal, expect, run
from kit.weir import Daemon

PAGE = ROOT / "docs/openapi.yaml"
DOCUMENT = yaml.safe_load(PAGE.read_text())
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# Of every response, whatever the endpoint.
COMMON = {"date", "content-type", "content-length", "connection", "transfer-encoding"}
STATUSES = {"400", "401", "403", "405", "413", "414", "417", "421", "431", "500", "503", "505"}
FORWARD = "/v1/forward-auth"
POLICIES = {"api": "gcra 10/h burst 5", "jobs": "leaky-queue 2/s depth 10",
            "login": "fixed-window 5/day & fixed-window 20/30d"}
MORE = f"""
top: {{keys: 10}}
trusted_proxies: [{HOST}]
routes:
  - {{name: login, method: POST, path: /login, policy: login}}
"""


def resolved(part):
    """A part of the document, or what it refers to."""
    while set(part) == {"$ref"}:
        part = functools.reduce(lambda at, name: at[name], part["$ref"][2:].split("/"), DOCUMENT)
    return part


def query_of(operation):
    return {one["name"]: one for one in map(resolved, operation.get("parameters", [])) if one["in"] == "query"}


def operations():
    """The operations but those of a proxy: (path, method, the operation)."""
    for path, item in DOCUMENT["paths"].items():
        for method in METHODS:
            if method in item and path != FORWARD:
                yield path, method, item[method]


def body_of(operation):
    return operation.get("requestBody", {}).get("content", {}).get("application/json", {})


def ask(daemon, method, target, body=None, **headers):
    """Returns the status, the headers and the body of a response; of a stream, its beginning."""
    connection = http.client.HTTPConnection(HOST, daemon.http, timeout=60)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        sent["Content-Type"] = "application/json"
    connection.request(method.upper(), target, None if body is None else json.dumps(body), sent)
    answer = connection.getresponse()
    text = answer.read1() if answer.headers["Content-Type"] == "text/event-stream" else answer.read()
    connection.close()
    return answer.status, answer.headers, text


def check_response(path, method, answer):
    """Fails unless the document has the status, each header, the type, and the members of the body."""
    status, headers, text = answer
    where = f"{method} {path}: {status} {text[:300]!r}"
    responses = DOCUMENT["paths"][path][method]["responses"]
    expect(str(status) in responses, f"{where}: the status is not in {PAGE.name}")
    response = resolved(responses[str(status)])
    found = {name.lower() for name in headers} - COMMON
    known = {name.lower() for name in response["headers"]}
    expect(found <= known, f"{where}: {PAGE.name} has no headers {sorted(found - known)}")
    for name, header in response["headers"].items():
        value = headers[name]
        if value is not None:
            check_schema(int(value) if value.isdigit() else value, resolved(header)["schema"], f"{where}: {name}")
    kind = headers["Content-Type"].split(";")[0]
    expect(kind in response["content"], f"{where}: {PAGE.name} has no type {kind}")
    schema = response["content"][kind].get("schema")
    if schema:
        check_schema(json.loads(text), schema, where)
    return status


def check_schema(value, schema, where):
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": DOCUMENT["components"],
             "allOf": [schema]}
    for error in jsonschema.Draft202012Validator(whole).iter_errors(value):
        expect(False, f"{where}: {error.message}")


def start(box, more=MORE, **options):
    return Daemon(box, POLICIES, engine=None, more=more, **options).start()


# ---- tests ---------------------------------------------------------------------------------------


def document(box):
    """The daemon serves the file; its version is that of weir; each response has the errors that all have."""
    daemon = start(box)
    status, headers, text = ask(daemon, "GET", "/v1/openapi.yaml")
    equal((status, headers["Content-Type"], text.decode()), (200, "application/yaml", PAGE.read_text()), "the file")
    _, headers, text = ask(daemon, "GET", "/v1/openapi.yaml", Accept_Encoding="gzip")
    equal((headers["Content-Encoding"], len(text) < 10000), ("gzip", True), "compressed")
    version = re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text())[1]
    equal(DOCUMENT["info"]["version"], version, "the version")
    names = [operation["operationId"] for _, _, operation in operations()]
    equal(len(names), len(set(names)), "unique operations")
    for path, method, operation in operations():
        missing = STATUSES - set(operation["responses"])
        expect(not missing, f"{method} {path} has no {sorted(missing)}")


def endpoints(box):
    """Endpoints, methods and parameters are those of the tables of the daemon."""
    daemon = start(box)
    listed = set(re.findall(r"^  (/v1/\S+)", ask(daemon, "GET", "/")[2].decode(), re.M))
    equal(set(DOCUMENT["paths"]), listed, "the endpoints that GET / lists")
    for path, item in DOCUMENT["paths"].items():
        if path == FORWARD:
            equal({method for method in METHODS if method in item}, set(METHODS), path)
            continue
        allow = ask(daemon, "OPTIONS", path)[1]["Allow"].lower().split(", ")
        equal({method for method in METHODS if method in item}, set(allow) - {"head", "options"}, path)
        method = "post" if "post" in item else "get"
        status, _, text = ask(daemon, method, path + "?no=1") if path != "/v1/live" else (200, None, "")
        known = re.search(r"expected (.*)", json.loads(text)["detail"])[1].split(", ") if status == 400 else []
        for one in ({"get", "post"} & {*item}):
            told = {*query_of(item[one]), *body_of(item[one]).get("schema", {}).get("properties", {})}
            equal(told, set(known), f"the parameters of {one} {path}")


def examples(box):
    """Each operation succeeds with its examples; POST also with its parameters in the query."""
    daemon = start(box)

    def succeeds(path, method, query, body=None):
        target = f"{path}?{urllib.parse.urlencode(query).replace('True', 'true')}"
        ask(daemon, "POST", "/v1/resetall?policy=api")
        equal(check_response(path, method, ask(daemon, method, target, body)), 200, f"{method} {target} {body}")

    for path, method, operation in operations():
        queries = query_of(operation)
        for name, one in queries.items():
            check_schema(one.get("example", "x"), one["schema"], f"{path} {name}")
        if method == "get":
            succeeds(path, method, {name: one["example"] for name, one in queries.items() if "example" in one})
            continue
        (example,) = body_of(operation)["examples"].values()
        check_schema(example["value"], body_of(operation)["schema"], path)
        succeeds(path, method, {}, example["value"])
        if path != "/v1/takeall":
            succeeds(path, method, example["value"])


def responses(box):
    """Denials and errors have the statuses, the headers and the members of the document."""
    daemon = start(box)

    def answers(path, wanted, method="get", body=None, **headers):
        target, _, query = path.partition("?")
        found = check_response(target, method, ask(daemon, method, f"{target}?{query}", body, **headers))
        equal(found, wanted, path)

    for status in (429, 403, 503):
        answers(f"/v1/take?policy=api&key=d&cost=9&denied={status}", status)
    answers("/v1/take?policy=login&key=d&cost=4", 200)
    answers("/v1/peek?policy=login&key=d", 200)
    answers("/v1/reserve?policy=api&key=r&ttl=30s", 200, "post")
    answers("/v1/reserve?policy=api&key=r&cost=9&ttl=30s", 429, "post")
    reserved = json.loads(ask(daemon, "POST", "/v1/reserve?policy=api&key=s&ttl=30s")[2])
    answers(f"/v1/renew?id={reserved['id']}&ttl=1m", 200, "post")
    answers(f"/v1/commit?id={reserved['id']}&actual=2", 200, "post")
    answers(f"/v1/commit?id={reserved['id']}&actual=2", 404, "post")
    answers("/v1/charge?policy=api&key=c&cost=9", 200, "post")
    answers("/v1/takeall", 429, "post", {"requests": [{"policy": "api", "key": "t", "cost": 9}]})
    answers("/v1/candidate?policy=api&limit=", 200, "post")
    answers("/v1/refund?policy=jobs&key=a", 400, "post")
    answers("/v1/top?policy=api", 200)
    answers("/v1/top?policy=none", 404)
    answers("/v1/take?policy=api&key=a", 403, Origin="http://other.example")
    answers("/v1/take?policy=api&key=a", 421, Host="other.example")
    answers("/v1/take?policy=api&key=a", 417, Expect="more")
    answers("/v1/take?policy=api&key=" + "a" * 9000, 414)
    answers("/v1/take?policy=api&key=a", 431, X_Weir_Password="a" * 70000)
    answers("/v1/peek", 413, "post", "a" * (129 << 10))
    answers(FORWARD, 200, X_Forwarded_Uri="/login", X_Forwarded_Method="POST", X_Forwarded_For="192.0.2.1")
    answers(FORWARD, 200, X_Forwarded_Uri="/none", X_Forwarded_Method="GET")
    for method in ("put", "post", "delete", "options", "patch", "trace"):
        answers(f"{FORWARD}?route=login&denied=403", 403 if method == "trace" else 200, method)
    answers(FORWARD, 400)
    for path, _, operation in operations():
        unknown = ask(daemon, "DELETE", path)
        expect("405" in operation["responses"] and unknown[0] == 405, f"{path}: {unknown[0]}")
    daemon.end()
    daemon = start(box, more="password: s3cret\ntop: off\n")
    answers("/v1/policies", 401)
    for header in ({"Authorization": "Bearer s3cret"}, {"X_Weir_Password": "s3cret"}):
        answers("/v1/policies", 200, **header)
        answers("/v1/top?policy=api", 501, **header)


if __name__ == "__main__":
    sys.exit(run([document, endpoints, examples, responses], sys.argv, needs_redis=False))
