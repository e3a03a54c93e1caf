/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TELEMETRY_EXPORTER_H
#define WEIR_TELEMETRY_EXPORTER_H
/* Sends metrics and spans to a collector, with OTLP over HTTP: each export is one POST on a
 * connection of its own. An export of metrics that fails is not repeated, because the next one has
 * the same totals. Spans are kept and sent again, as long as the collector cannot be reached or
 * asks for that; meanwhile the queues fill, and drop what does not fit. */

#include "cmd/kit/log.h"
#include "port/atomic.h"
#include "port/dial.h"
#include "port/text.h"
#include "telemetry/otlp.h"

/* ---- queues ---------------------------------------------------------------------------------- */

/* The spans of an event loop on their way to the exporter: one thread adds, one takes. */
enum { EXPORTER_QUEUE_MAX = 2048 };
typedef struct exporter_queue {
    port_word added, taken; /* spans since the start */
    port_counter dropped;
    otlp_span span[EXPORTER_QUEUE_MAX];
} exporter_queue;

/* Adds a copy of a span, or counts it as dropped if the queue is full. Never waits. */
void exporter_queue_add(exporter_queue *q, const otlp_span *span);

/* ---- the exporter ---------------------------------------------------------------------------- */

enum {
    EXPORTER_BATCH_MAX = 512,      /* spans of an export */
    EXPORTER_SPANS_MS = 1000,      /* between two exports of spans, unless many wait */
    EXPORTER_TRIES = 5,            /* of an export of spans: then they are dropped */
    EXPORTER_BODY_MAX = 64 << 20,  /* bytes of a request */
    EXPORTER_REPLY_MAX = 64 << 10, /* bytes of a reply's body that are read */
    EXPORTER_LOG_S = 60            /* between two logs of failures */
};

typedef struct exporter_options {
    otlp_endpoint endpoint;
    const port_tls *tls; /* for https */
    const char *headers; /* more header lines of requests, each with CR LF; NULL: none */
    otlp_sender sender;
    bool metrics, traces;            /* what is sent */
    int64_t interval_ns, timeout_ns; /* of metrics; of a request */
    exporter_queue *const *queue;    /* of spans */
    size_t queues;
    void (*put_metrics)(void *ctx, weir_buffer *out); /* for Prometheus; on the exporter's thread */
    void (*flushed)(void *ctx);                       /* see exporter_flush() */
    void *ctx;
    const log_target *log;
} exporter_options;

/* Since the start. */
typedef struct exporter_counts {
    port_counter exports, failures, spans, dropped;
} exporter_counts;

typedef struct exporter exporter;

/* Opens an exporter on the thread of a dialer; its clock is monotonic.
 *  options  copied; what they point to is kept by reference.
 *  counts   written by the exporter; any thread may read them.
 * Returns NULL if memory is exhausted. */
exporter *exporter_open(const exporter_options *options, exporter_counts *counts,
                        port_dialer *dialer);

/* Sends what there is once more, without waiting for the next time and without repeating what
 * fails. Then calls flushed(). Call it at most once, on the exporter's thread. */
void exporter_flush(exporter *e);

/* Closes the connections, and drops what is not sent. Accepts NULL. */
void exporter_close(exporter *e);

/* Appends the metrics of the exporter itself. Threads: any. */
void exporter_put_metrics(const exporter_counts *counts, exporter_queue *const *queue,
                          size_t queues, weir_buffer *out);

#endif
