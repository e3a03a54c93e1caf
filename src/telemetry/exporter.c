/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Metrics and spans are two signals, which are sent independently: each has a timer, and at most
 * one connection. */

#include "telemetry/exporter.h"

#include "codec/answer/metrics.h"
#include "port/assert.h"
#include "port/port.h"

#include <inttypes.h>
#include <jansson.h>
#include <llhttp.h>
#include <stdio.h>

#define MS_NS    INT64_C(1000000)
#define SPANS_NS (EXPORTER_SPANS_MS * MS_NS)
#define LOG_NS   (EXPORTER_LOG_S * 1000 * MS_NS)

typedef enum signal_kind { METRICS, TRACES, SIGNALS } signal_kind;

typedef struct signal {
    exporter *exporter;
    signal_kind kind;
    port_timer *timer;           /* the next export, or the timeout of this one */
    port_connection *connection; /* NULL: no export is in progress */
    int64_t begun_ns;            /* of the last export */
    weir_buffer body;            /* of the request */
    size_t spans;                /* in `body`, kept until they are sent or dropped */
    unsigned failed;             /* exports in a row */
    bool flushing;               /* the last export has begun */
    bool flushed;
    bool failing;    /* and that was logged */
    int64_t log_ns;  /* the next log of a failure */
    llhttp_t parser; /* of the reply */
    weir_buffer reply;
    bool complete; /* the reply */
} signal;

struct exporter {
    exporter_options options;
    exporter_counts *counts;
    port_dialer *dialer;
    uint64_t random; /* of the ids of spans */
    signal signals[SIGNALS];
    bool flushing;
};

/* ---- queues ---------------------------------------------------------------------------------- */

/* Acquire and release: a span is copied before `added` says so, and out of its place before `taken`
 * says so. */
void exporter_queue_add(exporter_queue *q, const otlp_span *span)
{
    uint64_t added = port_word_load_relaxed(&q->added);
    if (added - port_word_load_acquire(&q->taken) == EXPORTER_QUEUE_MAX) {
        port_bump_relaxed(&q->dropped, 1);
        return;
    }
    q->span[added % EXPORTER_QUEUE_MAX] = *span;
    port_word_store_release(&q->added, added + 1);
}

/* The next span of a queue; NULL: none. It is valid until drop_first(). */
static const otlp_span *first_of(const exporter_queue *q)
{
    uint64_t taken = port_word_load_relaxed(&q->taken);
    return taken == port_word_load_acquire(&q->added) ? NULL : &q->span[taken % EXPORTER_QUEUE_MAX];
}

static void drop_first(exporter_queue *q)
{
    port_word_store_release(&q->taken, port_word_load_relaxed(&q->taken) + 1);
}

/* ---- the log --------------------------------------------------------------------------------- */

static const char *const names[] = {"metrics", "traces"};

static void log_failure(signal *s, const char *reason, int64_t now_ns)
{
    const exporter_options *o = &s->exporter->options;
    if (now_ns < s->log_ns)
        return;
    s->failing = true;
    s->log_ns = now_ns + LOG_NS;
    log_event(o->log, WEIR_LOG_WARNING, "telemetry",
              LOG(log_text("endpoint", o->endpoint.authority), log_text("signal", names[s->kind]),
                  log_text("text", "an export has failed"), log_text("reason", reason)));
}

static void log_success(signal *s)
{
    const exporter_options *o = &s->exporter->options;
    if (s->failing)
        log_event(o->log, WEIR_LOG_INFO, "telemetry",
                  LOG(log_text("endpoint", o->endpoint.authority),
                      log_text("signal", names[s->kind]),
                      log_text("text", "exports succeed again")));
    s->failing = false;
}

/* ---- the body -------------------------------------------------------------------------------- */

/* A number that is never 0. Ids need to differ, not to be secret (splitmix64). */
static uint64_t next_id(exporter *e)
{
    uint64_t x = e->random += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    return x == 0 ? 1 : x;
}

static void make_metrics(exporter *e, weir_buffer *body)
{
    weir_buffer text;
    weir_buffer_init(&text, EXPORTER_BODY_MAX);
    e->options.put_metrics(e->options.ctx, &text);
    const weir_slice all = {(const char *)weir_buffer_data(&text), weir_buffer_len(&text)};
    otlp_put_metrics(body, &e->options.sender, all, port_now_ns());
    body->failed |= text.failed;
    weir_buffer_free(&text);
}

static void make_spans(exporter *e, signal *s)
{
    const otlp_span *span;
    for (size_t i = 0; i < e->options.queues; i++) {
        exporter_queue *q = e->options.queue[i];
        for (; s->spans < EXPORTER_BATCH_MAX && (span = first_of(q)) != NULL; s->spans++) {
            if (s->spans == 0)
                otlp_begin_spans(&s->body, &e->options.sender);
            otlp_put_span(&s->body, span, next_id(e), s->spans == 0);
            drop_first(q);
        }
    }
    if (s->spans > 0)
        otlp_end_spans(&s->body);
}

/* Whether there is something to send. The body of an export that is repeated stays as it is. */
static bool make_body(signal *s)
{
    exporter *e = s->exporter;
    if (s->kind == METRICS) {
        weir_buffer_clear(&s->body);
        make_metrics(e, &s->body);
        return true;
    }
    if (s->spans == 0) {
        weir_buffer_clear(&s->body);
        make_spans(e, s);
    }
    return s->spans > 0;
}

/* ---- the end of an export -------------------------------------------------------------------- */

typedef enum result { SENT, REFUSED, UNREACHED } result;

static void begin_export(signal *s, int64_t now_ns);

static void set_timer(const signal *s, int64_t at_ns)
{
    s->exporter->dialer->calls->set_timer(s->timer, at_ns);
}

/* There is nothing more to send. */
static void end_flush(signal *s)
{
    exporter *e = s->exporter;
    bool all = true;
    s->flushed = true;
    set_timer(s, INT64_MAX);
    for (int i = 0; i < SIGNALS; i++)
        all &= e->signals[i].flushed;
    if (all)
        e->options.flushed(e->options.ctx);
}

/* Counts spans as sent or as dropped, or keeps them for the next try. */
static void settle_spans(signal *s, result got, uint64_t rejected)
{
    exporter_counts *counts = s->exporter->counts;
    if (got == UNREACHED && s->failed < EXPORTER_TRIES)
        return;
    uint64_t lost = got != SENT || rejected > s->spans ? s->spans : rejected;
    port_bump_relaxed(&counts->dropped, lost);
    port_bump_relaxed(&counts->spans, s->spans - lost);
    s->spans = 0;
}

/* When the next export is due: metrics at their interval; spans at once after a full batch, and
 * later from failure to failure. */
static int64_t next_ns(const signal *s, bool full, int64_t now_ns)
{
    if (s->kind == METRICS)
        return s->begun_ns + s->exporter->options.interval_ns;
    return full ? now_ns : now_ns + (SPANS_NS << s->failed); /* failed < EXPORTER_TRIES */
}

/*  reason    NULL: all was accepted. */
static void end_export(signal *s, result got, const char *reason, uint64_t rejected, int64_t now_ns)
{
    exporter *e = s->exporter;
    bool full = got == SENT && s->spans == EXPORTER_BATCH_MAX;
    if (s->connection)
        e->dialer->calls->close(s->connection);
    s->connection = NULL;
    port_bump_relaxed(reason ? &e->counts->failures : &e->counts->exports, 1);
    if (reason)
        log_failure(s, reason, now_ns);
    else
        log_success(s);
    s->failed = got == UNREACHED ? s->failed + 1 : 0;
    settle_spans(s, got, rejected);
    if (s->failed == EXPORTER_TRIES)
        s->failed = 0;
    if (!e->flushing)
        set_timer(s, next_ns(s, full, now_ns));
    else if (s->flushing && (s->kind == METRICS || got != SENT))
        end_flush(s);
    else
        begin_export(s, now_ns);
}

/* ---- the reply ------------------------------------------------------------------------------- */

/* A number of the reply, which JSON of protobuf writes as a string or as a number. */
static uint64_t number_of(const json_t *value)
{
    uint64_t n = 0;
    const char *text = json_string_value(value);
    if (text)
        return weir_decimal_read(text, strlen(text), UINT64_MAX, &n) ? n : 0;
    return json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
}

/* Reads the message of a reply with a status such as 200. */
static void accept_reply(signal *s, int64_t now_ns)
{
    const char *name = s->kind == METRICS ? "rejectedDataPoints" : "rejectedSpans";
    char reason[256];
    json_t *reply =
        json_loadb((const char *)weir_buffer_data(&s->reply), weir_buffer_len(&s->reply), 0, NULL);
    const json_t *partial = json_object_get(reply, "partialSuccess");
    const char *message = json_string_value(json_object_get(partial, "errorMessage"));
    uint64_t rejected = number_of(json_object_get(partial, name));
    snprintf(reason, sizeof reason, "the collector has rejected %" PRIu64 " items: %s", rejected,
             message ? message : "no reason given");
    json_decref(reply);
    end_export(s, SENT, rejected > 0 ? reason : NULL, rejected, now_ns);
}

static void end_reply(signal *s, int64_t now_ns)
{
    int status = s->parser.status_code;
    char reason[64];
    if (status / 100 == 2) {
        accept_reply(s, now_ns);
        return;
    }
    bool again = status == 429 || status == 502 || status == 503 || status == 504;
    snprintf(reason, sizeof reason, "the collector has answered with the status %d", status);
    end_export(s, again ? UNREACHED : REFUSED, reason, 0, now_ns);
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    signal *s = parser->data;
    weir_buffer_append(&s->reply, at, len);
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    signal *s = parser->data;
    s->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {.on_body = on_body, .on_message_complete = on_complete};

/* ---- the connection -------------------------------------------------------------------------- */

static void connected(void *ctx, int64_t now_ns)
{
    (void)ctx; /* the request is in the output already */
    (void)now_ns;
}

static void received(void *ctx, weir_buffer *in, int64_t now_ns)
{
    signal *s = ctx;
    llhttp_errno_t error =
        llhttp_execute(&s->parser, (const char *)weir_buffer_data(in), weir_buffer_len(in));
    weir_buffer_consume(in, weir_buffer_len(in));
    if (s->complete)
        end_reply(s, now_ns);
    else if (error != HPE_OK)
        end_export(s, UNREACHED, "the reply is no HTTP", 0, now_ns);
}

static void closed(void *ctx, const char *why, int64_t now_ns)
{
    signal *s = ctx;
    s->connection = NULL;
    (void)llhttp_finish(&s->parser); /* a reply may end with the connection */
    if (s->complete)
        end_reply(s, now_ns);
    else
        end_export(s, UNREACHED, why, 0, now_ns);
}

static void put_request(const signal *s, weir_buffer *out)
{
    const exporter_options *o = &s->exporter->options;
    weir_buffer_printf(out, "POST %s/v1/%s HTTP/1.1\r\nHost: %s\r\n", o->endpoint.base,
                       names[s->kind], o->endpoint.authority);
    weir_buffer_printf(out, "User-Agent: weir/%s\r\nConnection: close\r\n", o->sender.version);
    if (o->headers)
        weir_buffer_text(out, o->headers);
    weir_buffer_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                       weir_buffer_len(&s->body));
    weir_buffer_append(out, weir_buffer_data(&s->body), weir_buffer_len(&s->body));
}

static void begin_export(signal *s, int64_t now_ns)
{
    static const port_connection_events events = {connected, received, closed};
    exporter *e = s->exporter;
    const port_dialer_calls *calls = e->dialer->calls;
    const port_endpoint to = {
        .host = e->options.endpoint.host, .port = e->options.endpoint.port, .tls = e->options.tls};
    WEIR_ASSERT(!s->connection);
    s->begun_ns = now_ns;
    s->flushing = e->flushing;
    if (!make_body(s)) {
        if (e->flushing)
            end_flush(s);
        else
            set_timer(s, now_ns + SPANS_NS);
        return;
    }
    llhttp_init(&s->parser, HTTP_RESPONSE, &settings);
    s->parser.data = s;
    s->complete = false;
    weir_buffer_clear(&s->reply);
    s->connection = s->body.failed ? NULL : calls->connect(e->dialer, &to, &events, s);
    if (s->connection)
        put_request(s, calls->out(s->connection));
    if (!s->connection || calls->out(s->connection)->failed) {
        end_export(s, REFUSED, "out of memory for the request", 0, now_ns);
        return;
    }
    calls->send(s->connection);
    set_timer(s, now_ns + e->options.timeout_ns);
}

static void on_timer(void *ctx, int64_t now_ns)
{
    signal *s = ctx;
    if (s->connection)
        end_export(s, UNREACHED, "the collector has not answered in time", 0, now_ns);
    else
        begin_export(s, now_ns);
}

/* ---- open, flush, close ---------------------------------------------------------------------- */

static bool open_signal(exporter *e, signal_kind kind, bool wanted, int64_t first_ns)
{
    signal *s = &e->signals[kind];
    s->exporter = e;
    s->kind = kind;
    s->flushed = !wanted;
    weir_buffer_init(&s->body, EXPORTER_BODY_MAX);
    weir_buffer_init(&s->reply, EXPORTER_REPLY_MAX);
    s->timer = e->dialer->calls->new_timer(e->dialer, on_timer, s);
    if (s->timer && wanted)
        set_timer(s, first_ns);
    return s->timer;
}

exporter *exporter_open(const exporter_options *options, exporter_counts *counts,
                        port_dialer *dialer)
{
    exporter *e = port_zalloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->options = *options;
    e->counts = counts;
    e->dialer = dialer;
    int64_t now_ns = dialer->calls->now(dialer);
    if (port_random(&e->random, sizeof e->random) == WEIR_OK &&
        open_signal(e, METRICS, options->metrics, now_ns + options->interval_ns) &&
        open_signal(e, TRACES, options->traces, now_ns + SPANS_NS))
        return e;
    exporter_close(e);
    return NULL;
}

void exporter_flush(exporter *e)
{
    int64_t now_ns = e->dialer->calls->now(e->dialer);
    e->flushing = true;
    for (int i = 0; i < SIGNALS; i++) {
        signal *s = &e->signals[i];
        if (!s->flushed && !s->connection)
            begin_export(s, now_ns);
    }
}

void exporter_close(exporter *e)
{
    if (!e)
        return;
    for (int i = 0; i < SIGNALS; i++) {
        signal *s = &e->signals[i];
        if (s->connection)
            e->dialer->calls->close(s->connection);
        e->dialer->calls->free_timer(s->timer);
        weir_buffer_free(&s->body);
        weir_buffer_free(&s->reply);
    }
    port_free(e);
}

void exporter_put_metrics(const exporter_counts *counts, exporter_queue *const *queue,
                          size_t queues, weir_buffer *out)
{
    uint64_t dropped = port_load_relaxed(&counts->dropped);
    for (size_t i = 0; i < queues; i++)
        dropped += port_load_relaxed(&queue[i]->dropped);
    weir_metrics_put_one(out, "weir_telemetry_exports_total", "counter",
                         "Exports that the OpenTelemetry collector has accepted.",
                         port_load_relaxed(&counts->exports));
    weir_metrics_put_one(out, "weir_telemetry_failures_total", "counter",
                         "Exports that have failed or were accepted in part.",
                         port_load_relaxed(&counts->failures));
    weir_metrics_put_one(out, "weir_telemetry_spans_total", "counter",
                         "Spans that the OpenTelemetry collector has accepted.",
                         port_load_relaxed(&counts->spans));
    weir_metrics_put_one(out, "weir_telemetry_dropped_spans_total", "counter",
                         "Spans that were dropped: a queue was full, or exports have failed.",
                         dropped);
}
