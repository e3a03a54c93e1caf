#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Metrics and traces over OTLP, with a collector that this test plays.

    telemetry_test.py WEIR MODULE [NAME...]"""

import re
import sys

from kit.collector import Collector, attributes
from kit.grpc import Grpc
from kit.http import fetch
from kit.process import HOST, ROOT, equal, expect, free_port, run, until
from kit.weir import Daemon

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
VERSION = re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text())[1]
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")  # a random one
# They change from the export to the scrape.
MOVING = ("weir_connections", "weir_network", "weir_buffered", "weir_telemetry", "weir_clock_offset", "weir_decision_duration")


def start(box, port, more="interval: 1s", scheme="http", policies=None):
    daemon = Daemon(box, policies or {"api": "gcra 1/h burst 2"}, engine=None, threads=2,
                    more=f"telemetry: {{endpoint: '{scheme}://{HOST}:{port}', {more}}}")
    return daemon.start()


def take(daemon, headers=(), key="alice"):
    return fetch(daemon.http, f"/v1/take?policy=api&key={key}", headers=headers).status


def metrics(box):
    """The last export has the metrics of /metrics, with the totals of the end."""
    with Collector() as collector:
        daemon = start(box, collector.port, "interval: 1s, traces: false, resource: {service.name: w, a: '\"b\"'}")
        equal([take(daemon) for _ in range(3)], [200, 200, 429], "decisions")
        until(lambda: collector.requests, "the first export", every_s=0.05)
        scraped = daemon.metrics()
        equal(daemon.end(), 0, "the exit status")
        path, headers, body = collector.requests[0]
        equal((path, headers["Content-Type"]), ("/v1/metrics", "application/json"), "the request")
        resource = attributes(body["resourceMetrics"][0]["resource"])
        equal((resource.pop("service.name"), resource.pop("a")), ("w", '"b"'), "the resource")
        equal(resource.pop("service.version"), VERSION, "the version")
        expect(UUID.fullmatch(resource.pop("service.instance.id")) and not resource, f"the id, and no more: {resource}")
        sent = collector.metrics()
        equal(set(sent), set(scraped), "the names and labels")
        for name, value in scraped.items():
            expect(name.startswith(MOVING) or sent[name] == value, f"{name}: {sent[name]}, /metrics has {value}")
        equal(sent['weir_decisions_total{policy="api",verdict="denied"}'], 1, "the denials")
        equal(sent["weir_decision_duration_seconds_count"], 3, "the histogram")
        expect(sent["weir_telemetry_exports_total"] >= 1, "its own metrics")


def spans(box):
    """A span for each sampled decision, over HTTP and gRPC; those of the end are not lost."""
    limits = box.path / "limits"
    limits.mkdir()
    (limits / "d.yaml").write_text("{domain: d, descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]}")
    with Collector() as collector:
        daemon = Daemon(box, {"api": "gcra 1/h burst 2"}, engine=None, threads=2, more=f"""
envoy: {{config: '{limits}'}}
telemetry: {{endpoint: 'http://{HOST}:{collector.port}/base/', metrics: false}}""")
        daemon.config.write_text(daemon.config.read_text().replace("listen: {", f"listen: {{grpc: '{HOST}:0', "))
        line = daemon.serve()
        daemon.http, grpc = daemon.port_in(line, "http"), daemon.port_in(line, "grpc")
        equal([take(daemon, SAMPLED) for _ in range(3)], [200, 200, 429], "decisions")
        take(daemon)
        take(daemon, {"traceparent": f"00-{TRACE}-{PARENT}-00"})
        until(lambda: len(collector.spans()) == 3, "the spans", every_s=0.05)
        client = Grpc(grpc)
        equal([client.rate_limit("d", {"k": "v"}, SAMPLED) for _ in range(2)], [1, 2], "gRPC")
        equal(daemon.end(), 0, "the exit status")
        equal({path for path, _, _ in collector.requests}, {"/base/v1/traces"}, "the path")
        found = sorted(collector.spans(), key=lambda span: int(span["startTimeUnixNano"]))
        equal(len(found), 5, "spans")
        resource = attributes(collector.bodies("/v1/traces")[0]["resourceSpans"][0]["resource"])
        equal(resource["service.name"], "weir", "the default name")
        equal({(span["traceId"], span["parentSpanId"]) for span in found}, {(TRACE, PARENT)}, "the parents")
        equal(len({span["spanId"] for span in found}), 5, "ids")
        for span in found:
            expect(0 <= int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) < 60 * 10**9, f"times of {span}")
        equal(found[2]["name"], "GET /v1/take", "the name")
        equal(found[2]["attributes"], {
            "http.request.method": "GET", "http.route": "/v1/take", "http.response.status_code": 429,
            "weir.allowed": False, "weir.reason": "limit", "weir.policy": "api"}, "the attributes")
        equal(found[4]["attributes"], {
            "rpc.system": "grpc", "rpc.service": "envoy.service.ratelimit.v3.RateLimitService",
            "rpc.method": "ShouldRateLimit", "rpc.grpc.status_code": 0,
            "weir.allowed": False, "weir.reason": "limit", "weir.domain": "d"}, "the attributes over gRPC")


def secure(box):
    """Over TLS, with a certificate and headers."""
    tls = box.tls()
    (box.path / "headers").write_text("Authorization: Bearer s3cret\n\nX-Scope: a: b\r\n")
    with Collector(tls=tls) as collector:
        daemon = start(box, collector.port, f"interval: 1s, headers_file: headers, "
                                            f"tls: {{ca: '{tls.ca}', cert: '{tls.client_cert}', key: '{tls.client_key}'}}",
                       "https")
        until(lambda: collector.requests, "an export", every_s=0.05)
        _, headers, _ = collector.requests[0]
        equal((headers["Authorization"], headers["X-Scope"]), ("Bearer s3cret", "a: b"), "the headers")
        expect("s3cret" not in daemon.log_text(), "the log has no secret")


def absent(box):
    """Without a collector, decisions are made; when there is one, the spans arrive."""
    port = free_port()
    daemon = start(box, port, "metrics: false")
    equal([take(daemon, SAMPLED) for _ in range(3)], [200, 200, 429], "decisions")
    until(lambda: " warning telemetry " in daemon.log_text(), "the log", every_s=0.05)
    expect("signal=traces" in daemon.log_text() and "refused" in daemon.log_text(), daemon.log_text())
    expect(daemon.metric("weir_telemetry_failures_total") >= 1, "failures are counted")
    with Collector(port) as collector:
        until(lambda: len(collector.spans()) == 3, "the spans", every_s=0.05)
        until(lambda: " info telemetry " in daemon.log_text(), "the log", every_s=0.05)
        equal(daemon.metric("weir_telemetry_spans_total"), 3, "spans")
    equal(daemon.metric("weir_telemetry_dropped_spans_total"), 0, "dropped spans")


def off(box):
    """Without the section there is nothing of it."""
    daemon = Daemon(box, {"api": "gcra 1/h burst 2"}, engine=None).start()
    equal(take(daemon, SAMPLED), 200, "a decision")
    expect(not [name for name in daemon.metrics() if "telemetry" in name], "metrics")


if __name__ == "__main__":
    sys.exit(run([metrics, spans, secure, absent, off], sys.argv, needs_redis=False))
