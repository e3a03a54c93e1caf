# SPDX-License-Identifier: BSD-2-Clause
"""A collector of OpenTelemetry: it keeps what is sent to it over OTLP/HTTP in JSON."""

import http.server
import json
import threading

from kit.process import HOST


class Collector:
    """`requests` has the path, the headers and the body of each request; `status` is what it answers. `tls` is a
    Certificates: it then speaks TLS, with the server's certificate."""

    def __init__(self, port=0, *, tls=None):
        self.requests, self.status = [], 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((self.path, dict(self.headers), body))
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(b'{"partialSuccess":{}}')

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer((HOST, port), Handler)
        if tls:
            context = tls.server_context()
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def bodies(self, end):
        return [body for path, _, body in self.requests if path.endswith(end)]

    def spans(self):
        """The spans so far, as maps, with their attributes as a map."""
        found = [span for body in self.bodies("/v1/traces") for resource in body["resourceSpans"]
                 for scope in resource["scopeSpans"] for span in scope["spans"]]
        return [{**span, "attributes": attributes(span)} for span in found]

    def metrics(self):
        """The metrics of the last export: a name and labels, as /metrics writes them -> the value."""
        (resource,) = self.bodies("/v1/metrics")[-1]["resourceMetrics"]
        (scope,) = resource["scopeMetrics"]
        return dict(sample for metric in scope["metrics"] for sample in samples(metric))


def attributes(owner):
    """The attributes of a resource, a span or a data point. A value is a map of its type to it."""
    found = {}
    for one in owner["attributes"]:
        (kind, value), = one["value"].items()
        found[one["key"]] = int(value) if kind == "intValue" else value
    return found


def samples(metric):
    """The samples of a metric as Prometheus names them."""
    (data,) = [metric[kind] for kind in ("sum", "gauge", "histogram") if kind in metric]
    for point in data["dataPoints"]:
        if "histogram" in metric:
            yield f"{metric['name']}_count", float(point["count"])
            yield f"{metric['name']}_sum", float(point["sum"])
            total = 0
            for bound, count in zip([*point["explicitBounds"], "+Inf"], point["bucketCounts"], strict=True):
                total += int(count)
                text = bound if bound == "+Inf" else f"{bound:.9f}"
                yield f'{metric["name"]}_bucket{{le="{text}"}}', float(total)
            continue
        labels = ",".join(f'{name}="{value}"' for name, value in attributes(point).items())
        yield metric["name"] + (f"{{{labels}}}" if labels else ""), float(point.get("asInt", point.get("asDouble")))
