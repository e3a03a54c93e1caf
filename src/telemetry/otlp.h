/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TELEMETRY_OTLP_H
#define WEIR_TELEMETRY_OTLP_H
/* Metrics and spans as OTLP in JSON, and the address that they are sent to. It must not know how
 * they are sent. Source: the OpenTelemetry Protocol 1.10, "JSON Protobuf Encoding". */

#include "codec/answer/trace.h"
#include "port/buffer.h"

/* ---- the address ----------------------------------------------------------------------------- */

typedef struct otlp_endpoint {
    bool tls;
    char host[256]; /* a name or an IP address, without brackets */
    uint16_t port;
    char authority[272]; /* for the header Host */
    char base[256];      /* of the paths, without a '/' at its end */
} otlp_endpoint;

#define OTLP_ENDPOINT_EXPECTED "http://HOST:4318 or https://HOST:4318, with or without a path"

/* Reads such a URL. Without a port, it is 80 or 443. Returns false for any other text; *ret may be
 * anything then. */
bool otlp_endpoint_read(const char *text, otlp_endpoint *ret);

/* ---- requests -------------------------------------------------------------------------------- */

/* Who sends: what all requests have in common. */
typedef struct otlp_sender {
    const char *attributes; /* of the resource: of otlp_put_attribute(), with commas */
    const char *version;    /* of weir */
    int64_t started_ns;     /* since when counters count, since 1970 */
} otlp_sender;

/* Appends an attribute with a text. */
void otlp_put_attribute(weir_buffer *out, const char *name, weir_slice value);

/* Appends an ExportMetricsServiceRequest: metrics under the names that they have for Prometheus.
 * Counters and histograms are cumulative.
 *  text  metrics as weir prints them for Prometheus. Histograms have no label but `le`.
 *  now_ns  since 1970. */
void otlp_put_metrics(weir_buffer *out, const otlp_sender *sender, weir_slice text, int64_t now_ns);

/* A span that has ended; times since 1970. */
typedef struct otlp_span {
    weir_trace_span of;
    int64_t begun_ns, ended_ns;
} otlp_span;

/* Appends an ExportTraceServiceRequest in parts: the begin, the spans, the end.
 *  id  of the span, not 0. */
void otlp_begin_spans(weir_buffer *out, const otlp_sender *sender);
void otlp_put_span(weir_buffer *out, const otlp_span *span, uint64_t id, bool first);
void otlp_end_spans(weir_buffer *out);

#endif
