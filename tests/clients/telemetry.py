# SPDX-License-Identifier: BSD-2-Clause
"""weir with the OpenTelemetry Collector, built from its Go sources with the receiver for OTLP and the exporter that
prints what it gets."""

import os

from kit import install
from kit.http import fetch
from kit.process import HOST, Process, Skipped, equal, expect, free_port, until
from kit.weir import Daemon

MODULE, RELEASE, PROVIDERS = "go.opentelemetry.io/collector", "v0.165.0", "v1.71.0"
BUILD = f"""
dist: {{name: collector, output_path: ./sources}}
receivers: [{{gomod: {MODULE}/receiver/otlpreceiver {RELEASE}}}]
exporters: [{{gomod: {MODULE}/exporter/debugexporter {RELEASE}}}]
providers:
  - {{gomod: {MODULE}/confmap/provider/fileprovider {PROVIDERS}}}
  - {{gomod: {MODULE}/confmap/provider/envprovider {PROVIDERS}}}
"""
CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: '{host}:{port}'}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [otlp], exporters: [debug]}}
    traces: {{receivers: [otlp], exporters: [debug]}}
"""
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def collector(build):
    """The program of the collector."""
    install.need("go")
    directory = build / "collector"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "build.yaml").write_text(BUILD)

    def fetch_and_build():
        go = install.recent_go(directory)
        install.run([go, "install", f"{MODULE}/cmd/builder@{RELEASE}"], directory, Skipped,
                    env={**os.environ, "GOBIN": str(directory.resolve())})
        install.run([directory / "builder", "--config", "build.yaml"], directory, Skipped)

    install.once(directory, "build.yaml", fetch_and_build)
    return directory / "sources" / "collector"


def telemetry_with_collector(box, program):
    """The collector accepts metrics and spans. While it is down, decisions are made, and spans wait."""
    port = free_port()
    config = box.path / "collector.yaml"
    config.write_text(CONFIG.format(host=HOST, port=port))
    first, second = Process(box, "collector1"), Process(box, "collector2")
    first.spawn([program, "--config", f"file:{config}"])
    daemon = Daemon(box, {"api": "gcra 1/h burst 5"}, engine=None, more=f"""
telemetry: {{endpoint: 'http://{HOST}:{port}', interval: 1s}}""").start()

    def take(span):
        answer = fetch(daemon.http, "/v1/take?policy=api&key=alice",
                       headers={"traceparent": f"00-{TRACE}-{span}-01"})
        equal(answer.status, 200, "a decision")

    take(PARENT)
    until(lambda: {TRACE, PARENT} <= set(first.log_text().split()), "the span", every_s=0.05)
    until(lambda: "weir_decisions_total" in first.log_text(), "the metrics", every_s=0.05)
    until(lambda: daemon.metric("weir_telemetry_exports_total") >= 2, "the collector accepts both", every_s=0.05)
    first.kill()
    take("b7ad6b7169203332")
    failures = daemon.metric("weir_telemetry_failures_total")
    until(lambda: daemon.metric("weir_telemetry_failures_total") > failures, "an export fails", every_s=0.05)
    second.spawn([program, "--config", f"file:{config}"])
    until(lambda: "b7ad6b7169203332" in second.log_text(), "the span that has waited", every_s=0.05)
    equal(daemon.metric("weir_telemetry_dropped_spans_total"), 0, "dropped spans")
    expect(daemon.end() == 0, "the exit status")
