/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The exporter with a dialer whose time the test sets, and a collector that answers what the test
 * says. */

#define _GNU_SOURCE /* memfd_create */

#include "telemetry/exporter.h"

#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

#define S_NS  INT64_C(1000000000)
#define NEVER INT64_MAX

/* ---- the dialer ------------------------------------------------------------------------------ */

struct port_connection {
    port_connection_events events;
    void *ctx;
    char host[64];
    uint16_t port;
    const port_tls *tls;
    weir_buffer out;
    bool open;
};

struct port_timer {
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    int64_t at_ns;
    bool used;
};

enum { SIGNALS = 2, METRICS = 0, TRACES = 1 };

static struct kit {
    port_dialer dialer;
    int64_t now_ns;
    port_connection connection[SIGNALS];
    port_timer timer[SIGNALS]; /* in the order of the signals */
    size_t connects;
    bool refuses; /* connect() fails */
    exporter_options options;
    exporter_counts counts;
    exporter *exporter;
    exporter_queue *queue[2];
    size_t flushed, texts;
    const char *text; /* the metrics */
    int log_fd;
    log_target log;
} kit;

static port_connection *kit_connect(port_dialer *d, const port_endpoint *to,
                                    const port_connection_events *events, void *ctx)
{
    (void)d;
    if (kit.refuses || !may_allocate())
        return NULL;
    port_connection *c = kit.connection[0].open ? &kit.connection[1] : &kit.connection[0];
    assert_false(c->open);
    *c = (port_connection){*events, ctx, "", to->port, to->tls, .open = true};
    snprintf(c->host, sizeof c->host, "%s", to->host);
    weir_buffer_init(&c->out, 1 << 20);
    kit.connects++;
    return c;
}

static weir_buffer *kit_out(port_connection *c)
{
    return &c->out;
}

static void kit_send(port_connection *c)
{
    assert_true(c->open);
}

static void kit_close(port_connection *c)
{
    assert_true(c->open);
    weir_buffer_free(&c->out);
    c->open = false;
}

static port_timer *kit_new_timer(port_dialer *d, void (*fn)(void *ctx, int64_t now_ns), void *ctx)
{
    (void)d;
    port_timer *t = kit.timer[0].used ? &kit.timer[1] : &kit.timer[0];
    if (!may_allocate())
        return NULL;
    *t = (port_timer){fn, ctx, NEVER, true};
    return t;
}

static void kit_set_timer(port_timer *t, int64_t at_ns)
{
    assert_true(t->used);
    t->at_ns = at_ns;
}

static void kit_free_timer(port_timer *t)
{
    if (t)
        t->used = false;
}

static int64_t kit_now(port_dialer *d)
{
    (void)d;
    return kit.now_ns;
}

int64_t __wrap_port_now_ns(void);
int64_t __wrap_port_now_ns(void)
{
    return 9;
}

weir_status __wrap_port_random(void *buf, size_t len);
weir_status __wrap_port_random(void *buf, size_t len)
{
    memset(buf, 0, len);
    return may_allocate() ? WEIR_OK : WEIR_E_IO;
}

/* ---- the fixture ----------------------------------------------------------------------------- */

static void put_metrics(void *ctx, weir_buffer *out)
{
    assert_ptr_equal(ctx, &kit);
    kit.texts++;
    weir_buffer_text(out, kit.text);
}

static void on_flushed(void *ctx)
{
    assert_ptr_equal(ctx, &kit);
    kit.flushed++;
}

static int setup(void **state)
{
    static const port_dialer_calls calls = {kit_connect,   kit_out,       kit_send,       kit_close,
                                            kit_new_timer, kit_set_timer, kit_free_timer, kit_now};
    (void)state;
    kit = (struct kit){.dialer = {&calls}, .now_ns = 100 * S_NS, .text = ""};
    kit.log_fd = memfd_create("log", 0);
    kit.log = (log_target){.fd = kit.log_fd};
    for (int i = 0; i < 2; i++)
        kit.queue[i] = port_zalloc(1, sizeof *kit.queue[i]);
    kit.options = (exporter_options){.sender = {"", "1.2.3", 5},
                                     .metrics = true,
                                     .traces = true,
                                     .interval_ns = 60 * S_NS,
                                     .timeout_ns = 10 * S_NS,
                                     .queue = kit.queue,
                                     .queues = 2,
                                     .put_metrics = put_metrics,
                                     .flushed = on_flushed,
                                     .ctx = &kit,
                                     .log = &kit.log};
    assert_true(otlp_endpoint_read("http://c:4318/b", &kit.options.endpoint));
    return 0;
}

static void open_exporter(void)
{
    kit.exporter = exporter_open(&kit.options, &kit.counts, &kit.dialer);
    assert_non_null(kit.exporter);
}

static int teardown(void **state)
{
    (void)state;
    exporter_close(kit.exporter);
    for (int i = 0; i < 2; i++) {
        assert_false(kit.connection[i].open);
        assert_false(kit.timer[i].used);
        port_free(kit.queue[i]);
    }
    close(kit.log_fd);
    return 0;
}

/* Lets the timer of a signal fire at its time. */
static void fire(int signal)
{
    port_timer *t = &kit.timer[signal];
    assert_true(t->at_ns < NEVER && t->at_ns >= kit.now_ns);
    kit.now_ns = t->at_ns;
    t->at_ns = NEVER;
    t->fn(t->ctx, kit.now_ns);
}

static void expect_timer(int signal, int64_t after_s)
{
    assert_int_equal(kit.timer[signal].at_ns, kit.now_ns + after_s * S_NS);
}

/* The connection that is open; there is only one. */
static port_connection *connection(void)
{
    assert_int_not_equal(kit.connection[0].open, kit.connection[1].open);
    return &kit.connection[kit.connection[1].open];
}

/* The collector answers. */
static void answer(const char *text)
{
    port_connection *c = connection();
    weir_buffer in;
    weir_buffer_init(&in, 1 << 20);
    weir_buffer_text(&in, text);
    c->events.connected(c->ctx, kit.now_ns);
    c->events.received(c->ctx, &in, kit.now_ns);
    assert_int_equal(weir_buffer_len(&in), 0);
    weir_buffer_free(&in);
}

static void drop_connection(const char *why)
{
    port_connection *c = connection();
    kit_close(c);
    c->events.closed(c->ctx, why, kit.now_ns);
}

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

static void answer_status(int status)
{
    char text[64];
    snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", status);
    answer(text);
}

static void expect_counts(uint64_t exports, uint64_t failures, uint64_t spans, uint64_t dropped)
{
    assert_int_equal(port_load_relaxed(&kit.counts.exports), exports);
    assert_int_equal(port_load_relaxed(&kit.counts.failures), failures);
    assert_int_equal(port_load_relaxed(&kit.counts.spans), spans);
    assert_int_equal(port_load_relaxed(&kit.counts.dropped), dropped);
}

static void add_spans(int queue, size_t n)
{
    const otlp_span span = {.of = {.parent = {{1}, {2}}, .name = "S/M", .reason = "limit"},
                            .begun_ns = 3,
                            .ended_ns = 4};
    for (size_t i = 0; i < n; i++)
        exporter_queue_add(kit.queue[queue], &span);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        n++;
    return n;
}

/* The output of the open connection, with a NUL. */
static const char *output(void)
{
    port_connection *c = connection();
    weir_buffer_append(&c->out, "", 1);
    return (const char *)weir_buffer_data(&c->out);
}

static size_t spans_sent(void)
{
    return count(output(), "\"traceId\"");
}

static void expect_log(const char *want)
{
    char text[4096];
    ssize_t len = pread(kit.log_fd, text, sizeof text - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    assert_string_equal(text, want);
    assert_int_equal(ftruncate(kit.log_fd, 0), 0);
    assert_int_equal(lseek(kit.log_fd, 0, SEEK_SET), 0);
}

#define LOGGED(signal, reason)                                                                     \
    "1970-01-01T00:00:00.000Z warning telemetry endpoint=c:4318 signal=" signal                    \
    " text=\"an export has failed\" reason=" reason "\n"
#define AGAIN(signal)                                                                              \
    "1970-01-01T00:00:00.000Z info telemetry endpoint=c:4318 signal=" signal                       \
    " text=\"exports succeed again\"\n"

/* ---- requests -------------------------------------------------------------------------------- */

static void test_metrics(void **state)
{
    static const char body[] = "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[]},"
                               "\"scopeMetrics\":[{\"scope\":{\"name\":\"weir\",\"version\":"
                               "\"1.2.3\"},\"metrics\":[{\"name\":\"a\",\"description\":\"b\","
                               "\"gauge\":{\"dataPoints\":[{\"attributes\":[],\"timeUnixNano\":"
                               "\"9\",\"asInt\":\"1\"}]}}]}]}]}";
    char want[1024];
    (void)state;
    kit.text = "# HELP a b\n# TYPE a gauge\na 1\n";
    kit.options.headers = "X-A: b\r\n";
    open_exporter();
    expect_timer(METRICS, 60);
    fire(METRICS);
    expect_timer(METRICS, 10);
    snprintf(want, sizeof want,
             "POST /b/v1/metrics HTTP/1.1\r\nHost: c:4318\r\nUser-Agent: weir/1.2.3\r\n"
             "Connection: close\r\nX-A: b\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    assert_string_equal(connection()->host, "c");
    assert_int_equal(connection()->port, 4318);
    assert_null(connection()->tls);
    assert_string_equal(output(), want);
    kit.now_ns += 3 * S_NS;
    answer(OK);
    expect_timer(METRICS, 57); /* the interval is that of the begins */
    expect_counts(1, 0, 0, 0);
    fire(METRICS);
    assert_int_equal(kit.texts, 2);
    answer_status(202);
    expect_counts(2, 0, 0, 0);
    expect_log("");
}

static void test_tls(void **state)
{
    (void)state;
    kit.options.tls = (const port_tls *)&kit;
    open_exporter();
    fire(METRICS);
    assert_ptr_equal(connection()->tls, &kit);
    assert_null(strstr(output(), "X-A"));
}

static void test_spans(void **state)
{
    (void)state;
    open_exporter();
    expect_timer(TRACES, 1);
    fire(TRACES);
    expect_timer(TRACES, 1);
    assert_int_equal(kit.connects, 0);
    add_spans(0, 2);
    add_spans(1, 1);
    fire(TRACES);
    assert_int_equal(spans_sent(), 3);
    assert_memory_equal(output(), "POST /b/v1/traces ", 18);
    assert_int_equal(count(output(), "\"spanId\":\"0000000000000000\""), 0);
    assert_int_equal(count(output(), "\"spanId\":\"e220a8397b1dcdaf\""), 1); /* of splitmix64 */
    assert_int_equal(count(output(), "\"spanId\":\"6e789e6aa1b965f4\""), 1);
    answer(OK);
    expect_timer(TRACES, 1);
    expect_counts(1, 0, 3, 0);
    fire(TRACES);
    assert_int_equal(kit.connects, 1);
}

static void test_full_batch(void **state)
{
    (void)state;
    open_exporter();
    add_spans(0, EXPORTER_BATCH_MAX - 1);
    add_spans(1, EXPORTER_BATCH_MAX);
    fire(TRACES);
    assert_int_equal(spans_sent(), EXPORTER_BATCH_MAX);
    answer(OK);
    expect_timer(TRACES, 0);
    fire(TRACES);
    assert_int_equal(spans_sent(), EXPORTER_BATCH_MAX - 1);
    answer(OK);
    expect_timer(TRACES, 1);
    expect_counts(2, 0, 2 * EXPORTER_BATCH_MAX - 1, 0);
}

static void test_full_queue(void **state)
{
    (void)state;
    weir_buffer b;
    open_exporter();
    add_spans(0, EXPORTER_QUEUE_MAX);
    assert_int_equal(port_load_relaxed(&kit.queue[0]->dropped), 0);
    add_spans(0, 3);
    add_spans(1, 1);
    assert_int_equal(port_load_relaxed(&kit.queue[0]->dropped), 3);
    fire(TRACES);
    answer(OK);
    add_spans(0, EXPORTER_BATCH_MAX + 1);
    assert_int_equal(port_load_relaxed(&kit.queue[0]->dropped), 4);
    weir_buffer_init(&b, 1 << 16);
    port_store_relaxed(&kit.counts.dropped, 10);
    port_store_relaxed(&kit.counts.failures, 7);
    exporter_put_metrics(&kit.counts, kit.queue, 2, &b);
    weir_buffer_append(&b, "", 1);
    const char *text = (const char *)weir_buffer_data(&b);
    assert_non_null(strstr(text, "\nweir_telemetry_exports_total 1\n"));
    assert_non_null(strstr(text, "\nweir_telemetry_failures_total 7\n"));
    assert_non_null(strstr(text, "\nweir_telemetry_spans_total 512\n"));
    assert_non_null(strstr(text, "\nweir_telemetry_dropped_spans_total 14\n"));
    weir_buffer_free(&b);
}

static void test_only_one_signal(void **state)
{
    (void)state;
    kit.options.metrics = false;
    open_exporter();
    assert_int_equal(kit.timer[METRICS].at_ns, NEVER);
    expect_timer(TRACES, 1);
    exporter_close(kit.exporter);
    kit.options.metrics = true;
    kit.options.traces = false;
    open_exporter();
    assert_int_equal(kit.timer[TRACES].at_ns, NEVER);
    expect_timer(METRICS, 60);
}

/* ---- replies --------------------------------------------------------------------------------- */

static void test_reply_in_parts(void **state)
{
    (void)state;
    open_exporter();
    fire(METRICS);
    for (const char *c = OK; *c; c++) {
        const char one[2] = {*c, '\0'};
        answer(one);
    }
    expect_counts(1, 0, 0, 0);
    fire(METRICS);
    answer("HTTP/1.1 200 OK\r\n\r\n{}"); /* ends with the connection */
    expect_counts(1, 0, 0, 0);
    drop_connection("closed by the server");
    expect_counts(2, 0, 0, 0);
}

static void test_rejected_spans(void **state)
{
    (void)state;
    open_exporter();
    add_spans(0, 5);
    fire(TRACES);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 66\r\n\r\n"
           "{\"partialSuccess\":{\"rejectedSpans\":\"2\",\"errorMessage\":\"too old\"}} ");
    expect_counts(0, 1, 3, 2);
    expect_log(LOGGED("traces", "\"the collector has rejected 2 items: too old\""));
    add_spans(0, 5);
    fire(TRACES);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n"
           "{\"partialSuccess\":{\"rejectedSpans\":9}}  ");
    expect_counts(0, 2, 3, 7); /* at most what was sent */
}

static void test_rejected_metrics(void **state)
{
    (void)state;
    open_exporter();
    fire(METRICS);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\n"
           "{\"partialSuccess\":{\"rejectedDataPoints\":1}} ");
    expect_counts(0, 1, 0, 0);
    expect_log(LOGGED("metrics", "\"the collector has rejected 1 items: no reason given\""));
    expect_timer(METRICS, 60);
    fire(METRICS);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n"
           "{\"partialSuccess\":{\"rejectedDataPoints\":\"-1\",\"errorMessage\":\"fine\"}}   ");
    expect_counts(1, 1, 0, 0);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void test_spans_again(void **state)
{
    static const int statuses[] = {429, 502, 503, 504};
    char first[1 << 14];
    (void)state;
    open_exporter();
    add_spans(0, 2);
    fire(TRACES);
    snprintf(first, sizeof first, "%s", output());
    for (int i = 0; i < 4; i++) {
        if (i > 0) {
            fire(TRACES);
            assert_string_equal(output(), first);
        }
        answer_status(statuses[i]);
        expect_timer(TRACES, 2 << i);
        expect_counts(0, (uint64_t)i + 1, 0, 0);
        add_spans(0, 1);
    }
    fire(TRACES);
    answer(OK);
    expect_counts(1, 4, 2, 0);
    expect_timer(TRACES, 1);
    fire(TRACES);
    assert_int_equal(spans_sent(), 4);
    expect_log(LOGGED("traces", "\"the collector has answered with the status 429\"")
                   AGAIN("traces"));
}

static void test_spans_given_up(void **state)
{
    (void)state;
    open_exporter();
    add_spans(0, 2);
    for (int i = 0; i < EXPORTER_TRIES; i++) {
        expect_counts(0, (uint64_t)i, 0, 0);
        fire(TRACES);
        drop_connection("refused");
    }
    expect_counts(0, EXPORTER_TRIES, 0, 2);
    expect_timer(TRACES, 1);
    fire(TRACES);
    expect_timer(TRACES, 1);
    assert_int_equal(kit.connects, EXPORTER_TRIES);
}

static void test_refused(void **state)
{
    (void)state;
    open_exporter();
    add_spans(0, EXPORTER_BATCH_MAX);
    fire(TRACES);
    answer_status(401);
    expect_counts(0, 1, 0, EXPORTER_BATCH_MAX);
    expect_timer(TRACES, 1);
    add_spans(0, 1);
    fire(TRACES);
    answer_status(500);
    expect_counts(0, 2, 0, EXPORTER_BATCH_MAX + 1);
    add_spans(0, 1);
    fire(TRACES);
    answer_status(300);
    expect_counts(0, 3, 0, EXPORTER_BATCH_MAX + 2);
}

static void test_timeout(void **state)
{
    (void)state;
    open_exporter();
    fire(METRICS);
    fire(METRICS);
    assert_false(kit.connection[0].open);
    expect_counts(0, 1, 0, 0);
    expect_timer(METRICS, 50);
    expect_log(LOGGED("metrics", "\"the collector has not answered in time\""));
}

static void test_no_http(void **state)
{
    (void)state;
    open_exporter();
    fire(METRICS);
    answer("SSH-2.0\r\n");
    expect_counts(0, 1, 0, 0);
    expect_log(LOGGED("metrics", "\"the reply is no HTTP\""));
    fire(METRICS);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}");
    drop_connection("closed by the server");
    expect_counts(0, 2, 0, 0);
}

static void test_log_once_a_minute(void **state)
{
    (void)state;
    kit.options.interval_ns = 20 * S_NS;
    open_exporter();
    for (int i = 0; i < 3; i++) {
        fire(METRICS);
        drop_connection("refused");
        if (i == 0)
            expect_log(LOGGED("metrics", "refused"));
        expect_log("");
    }
    fire(METRICS);
    drop_connection("refused");
    expect_log(LOGGED("metrics", "refused"));
    fire(METRICS);
    answer(OK);
    expect_log(AGAIN("metrics"));
    fire(METRICS);
    drop_connection("refused");
    fire(METRICS);
    answer(OK);
    expect_log("");
    add_spans(0, 1);
    kit.timer[TRACES].at_ns = kit.now_ns;
    fire(TRACES);
    answer_status(400);
    expect_log(LOGGED("traces", "\"the collector has answered with the status 400\""));
}

static void test_no_connection(void **state)
{
    (void)state;
    open_exporter();
    kit.refuses = true;
    add_spans(0, 1);
    fire(TRACES);
    expect_counts(0, 1, 0, 1);
    expect_timer(TRACES, 1);
    expect_log(LOGGED("traces", "\"out of memory for the request\""));
}

static void test_large_metrics(void **state)
{
    (void)state;
    enum { SIZE = 2 << 20 };
    static const char head[] = "# HELP a b\n# TYPE a gauge\na{x=\"", tail[] = "\"} 1\n";
    char *text = calloc(1, sizeof head + SIZE + sizeof tail);
    strcpy(text, head);
    memset(text + strlen(head), 'x', SIZE);
    strcpy(text + strlen(head) + SIZE, tail);
    kit.text = text;
    open_exporter();
    fire(METRICS); /* the output of the connection has room for 1 MiB */
    assert_false(kit.connection[0].open);
    expect_counts(0, 1, 0, 0);
    expect_timer(METRICS, 60);
    free(text);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void test_flush(void **state)
{
    (void)state;
    kit.options.traces = false;
    open_exporter();
    exporter_flush(kit.exporter);
    assert_int_equal(kit.flushed, 0);
    answer(OK);
    assert_int_equal(kit.flushed, 1);
    assert_int_equal(kit.timer[METRICS].at_ns, NEVER);
    expect_counts(1, 0, 0, 0);
}

static void test_flush_spans(void **state)
{
    (void)state;
    kit.options.metrics = false;
    open_exporter();
    add_spans(0, EXPORTER_BATCH_MAX + 1);
    exporter_flush(kit.exporter);
    answer(OK);
    assert_int_equal(kit.flushed, 0);
    assert_int_equal(spans_sent(), 1);
    answer(OK);
    assert_int_equal(kit.flushed, 1);
    expect_counts(2, 0, EXPORTER_BATCH_MAX + 1, 0);
}

static void test_flush_nothing(void **state)
{
    (void)state;
    kit.options.metrics = false;
    open_exporter();
    exporter_flush(kit.exporter);
    assert_int_equal(kit.flushed, 1);
    assert_int_equal(kit.connects, 0);
}

static void test_flush_in_progress(void **state)
{
    (void)state;
    kit.options.traces = false;
    open_exporter();
    fire(METRICS);
    exporter_flush(kit.exporter);
    answer(OK);
    assert_int_equal(kit.flushed, 0);
    assert_int_equal(kit.texts, 2); /* the last totals */
    answer_status(503);
    assert_int_equal(kit.flushed, 1);
}

static void test_flush_fails(void **state)
{
    (void)state;
    kit.options.metrics = false;
    open_exporter();
    add_spans(0, 1);
    exporter_flush(kit.exporter);
    drop_connection("refused");
    assert_int_equal(kit.flushed, 1);
    assert_int_equal(kit.connects, 1);
}

static void test_flush_both(void **state)
{
    (void)state;
    open_exporter();
    add_spans(0, 1);
    exporter_flush(kit.exporter);
    port_connection *second = &kit.connection[1];
    assert_true(second->open);
    kit_close(second);
    second->events.closed(second->ctx, "refused", kit.now_ns);
    assert_int_equal(kit.flushed, 0);
    answer(OK);
    assert_int_equal(kit.flushed, 1);
    expect_log(LOGGED("traces", "refused"));
}

static void test_close(void **state)
{
    (void)state;
    open_exporter();
    add_spans(0, 1);
    fire(TRACES);
    assert_true(connection()->open); /* the teardown closes it */
}

static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t n = 0;; n++) {
        uint64_t before = port_load_relaxed(&memory.blocks);
        memory_fail(n, false);
        exporter *e = exporter_open(&kit.options, &kit.counts, &kit.dialer);
        if (!memory_stop()) {
            kit.exporter = e;
            break;
        }
        assert_null(e);
        assert_int_equal(port_load_relaxed(&memory.blocks), before);
        assert_false(kit.timer[0].used || kit.timer[1].used);
    }
    assert_non_null(kit.exporter);
    add_spans(0, 1);
    memory_fail(0, true);
    fire(TRACES);
    memory_stop();
    expect_counts(0, 1, 0, 1);
    exporter_close(NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_metrics),
        TEST(test_tls),
        TEST(test_spans),
        TEST(test_full_batch),
        TEST(test_full_queue),
        TEST(test_only_one_signal),
        TEST(test_reply_in_parts),
        TEST(test_rejected_spans),
        TEST(test_rejected_metrics),
        TEST(test_spans_again),
        TEST(test_spans_given_up),
        TEST(test_refused),
        TEST(test_timeout),
        TEST(test_no_http),
        TEST(test_log_once_a_minute),
        TEST(test_no_connection),
        TEST(test_large_metrics),
        TEST(test_flush),
        TEST(test_flush_spans),
        TEST(test_flush_nothing),
        TEST(test_flush_in_progress),
        TEST(test_flush_fails),
        TEST(test_flush_both),
        TEST(test_close),
        TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
