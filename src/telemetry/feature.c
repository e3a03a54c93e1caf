/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The exporter as a part of the daemon. It runs on a thread of its own, so that it delays no
 * decision. Each event loop has a queue for its spans. */

#include "cmd/serve/feature.h"
#include "net/server.h"
#include "net/tls/client.h"
#include "net/worker.h"
#include "port/port.h"
#include "telemetry/exporter.h"
#include "telemetry/guest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FLUSH_NS                                                                                   \
    INT64_C(2000000000) /* how long the daemon waits for the last export when it ends */

/* The spans of an event loop. */
typedef struct loop_part {
    exporter_queue queue;
    weir_tracer tracer;
    weir_limiter *limiter; /* its clock is that of decisions */
} loop_part;

typedef struct part {
    exporter_options options;
    exporter_counts counts;
    port_tls *tls;
    char *attributes;          /* of the resource */
    const protocol_loop *loop; /* the first one, which has the metrics of all */
    exporter_queue *queue[WEIR_LOOPS_MAX];
    weir_worker *worker;
    exporter *exporter; /* on the thread of the worker; NULL: memory was exhausted */
    port_mutex *lock;   /* guards `flushed` */
    port_cond *flushed_changed;
    bool flushed;
} part;

static const telemetry_settings *settings_of(const weir_config *c)
{
    return config_options(c, &telemetry_guest);
}

static bool is_wanted(const weir_config *c)
{
    return telemetry_guest.is_active(settings_of(c));
}

/* ---- spans ----------------------------------------------------------------------------------- */

/* The clock of decisions may differ from the wall clock. */
static void end_span(void *ctx, const weir_trace_span *span)
{
    loop_part *l = ctx;
    int64_t took_ns = weir_limiter_now(l->limiter) - span->begun_ns;
    otlp_span s = {.of = *span, .ended_ns = port_now_ns()};
    s.begun_ns = s.ended_ns - (took_ns > 0 ? took_ns : 0);
    exporter_queue_add(&l->queue, &s);
}

static weir_status open_loop(void *self, protocol_loop *l)
{
    part *p = self;
    if (l->i == 0)
        p->loop = l;
    if (!p->options.traces)
        return WEIR_OK;
    loop_part *own = port_zalloc(1, sizeof *own);
    if (!own)
        return WEIR_E_NOMEM;
    own->tracer = (weir_tracer){end_span, own};
    own->limiter = weir_service_limiter(l->service);
    l->part[feature_index(&telemetry_feature)] = own;
    l->tracer = &own->tracer;
    p->queue[p->options.queues++] = &own->queue;
    return WEIR_OK;
}

static void close_loop(void *self, protocol_loop *l)
{
    (void)self;
    port_free(l->part[feature_index(&telemetry_feature)]);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void put_metrics_of_daemon(void *ctx, weir_buffer *out)
{
    const part *p = ctx;
    weir_http_put_metrics(&p->loop->http, NULL, out);
}

static void begin(void *ctx, port_dialer *dialer)
{
    part *p = ctx;
    p->exporter = exporter_open(&p->options, &p->counts, dialer);
}

static void end(void *ctx)
{
    part *p = ctx;
    exporter_close(p->exporter);
}

static int64_t now(void *ctx)
{
    (void)ctx;
    return port_steady_ns();
}

/* Starts the thread when the metrics of the daemon are there. */
static weir_status start(void *self)
{
    part *p = self;
    const weir_worker_options options = {.ctx = p, .begin = begin, .end = end, .now = now};
    weir_status st = weir_worker_open(&p->worker, &options);
    return st == WEIR_OK && !p->exporter ? WEIR_E_NOMEM : st;
}

static void flushed(void *ctx)
{
    part *p = ctx;
    port_mutex_lock(p->lock);
    p->flushed = true;
    port_cond_wake(p->flushed_changed);
    port_mutex_unlock(p->lock);
}

static void flush(void *arg)
{
    const part *p = arg;
    exporter_flush(p->exporter);
}

static void stop(void *self)
{
    part *p = self;
    weir_worker_close(p->worker);
    p->worker = NULL;
}

/* Waits until the last export has ended, for at most FLUSH_NS. */
static void ended(void *self)
{
    part *p = self;
    int64_t until_ns = port_steady_ns() + FLUSH_NS, left_ns = FLUSH_NS;
    if (!p->worker || weir_worker_post(p->worker, flush, p) != WEIR_OK)
        return;
    port_mutex_lock(p->lock);
    while (!p->flushed && left_ns > 0) {
        port_cond_wait_for(p->flushed_changed, p->lock, left_ns);
        left_ns = until_ns - port_steady_ns();
    }
    port_mutex_unlock(p->lock);
    stop(p); /* before the metrics of the daemon are gone */
}

/* ---- open and close -------------------------------------------------------------------------- */

static void put_attribute(weir_buffer *b, const char *name, const char *value)
{
    otlp_put_attribute(b, name, (weir_slice){value, strlen(value)});
    weir_buffer_text(b, ",");
}

/* The attributes of the resource: those of the file, the version, and an id that no other process
 * has, unless the file has one. */
static weir_status make_attributes(part *p, const telemetry_settings *s)
{
    uint64_t id[2];
    char text[64];
    weir_buffer b;
    if (port_random(id, sizeof id) != WEIR_OK)
        return WEIR_E_IO;
    /* A random UUID (RFC 9562, 5.4). */
    snprintf(text, sizeof text, "%08x-%04x-4%03x-%04x-%012" PRIx64, (unsigned)(id[0] >> 32),
             (unsigned)(id[0] >> 16 & 0xFFFF), (unsigned)(id[0] & 0xFFF),
             (unsigned)(id[1] >> 50 | 0x8000), id[1] & UINT64_C(0xFFFFFFFFFFFF));
    weir_buffer_init(&b, 1 << 17);
    weir_buffer_text(&b, s->attributes ? s->attributes : "");
    if (!s->has_name)
        put_attribute(&b, "service.name", "weir");
    if (!s->has_instance)
        put_attribute(&b, "service.instance.id", text);
    otlp_put_attribute(&b, "service.version", (weir_slice){WEIR_VERSION, strlen(WEIR_VERSION)});
    weir_buffer_append(&b, "", 1);
    p->attributes = b.failed ? NULL : port_zalloc(1, weir_buffer_len(&b));
    if (p->attributes)
        memcpy(p->attributes, weir_buffer_data(&b), weir_buffer_len(&b));
    weir_buffer_free(&b);
    return p->attributes ? WEIR_OK : WEIR_E_NOMEM;
}

static weir_status open_part(void **ret_self, const feature_setup *setup)
{
    const telemetry_settings *s = settings_of(setup->config);
    part *p = port_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_E_NOMEM;
    *ret_self = p;
    p->lock = port_mutex_new();
    p->flushed_changed = port_cond_new();
    p->options = (exporter_options){.headers = s->headers,
                                    .metrics = s->metrics,
                                    .traces = s->traces,
                                    .interval_ns = s->interval_ns,
                                    .timeout_ns = s->timeout_ns,
                                    .queue = p->queue,
                                    .put_metrics = put_metrics_of_daemon,
                                    .flushed = flushed,
                                    .ctx = p,
                                    .log = setup->log};
    (void)otlp_endpoint_read(s->endpoint, &p->options.endpoint); /* the section has checked it */
    weir_status st = p->lock && p->flushed_changed ? make_attributes(p, s) : WEIR_E_NOMEM;
    p->options.sender = (otlp_sender){p->attributes, WEIR_VERSION, port_now_ns()};
    if (st == WEIR_OK && p->options.endpoint.tls)
        st = net_tls_open(&p->tls, s->ca, s->cert, s->key, false, setup->ret_error,
                          setup->error_size);
    p->options.tls = p->tls;
    return st;
}

static void close_part(void *self)
{
    part *p = self;
    net_tls_close(p->tls);
    port_cond_free(p->flushed_changed);
    port_mutex_free(p->lock);
    port_free(p->attributes);
    port_free(p);
}

static void put_metrics(void *self, weir_buffer *out)
{
    const part *p = self;
    exporter_put_metrics(&p->counts, p->queue, p->options.queues, out);
}

const feature telemetry_feature = {.is_wanted = is_wanted,
                                   .open = open_part,
                                   .close = close_part,
                                   .open_loop = open_loop,
                                   .close_loop = close_loop,
                                   .start = start,
                                   .ended = ended,
                                   .stop = stop,
                                   .put_metrics = put_metrics};
