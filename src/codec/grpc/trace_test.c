/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The spans of gRPC requests whose client traces them. */

#include "codec/grpc/kit_test.h"

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static struct spans {
    size_t n;
    weir_trace_span last;
} spans;

static void end_span(void *ctx, const weir_trace_span *span)
{
    assert_ptr_equal(ctx, &spans);
    spans.n++;
    spans.last = *span;
}

/* Answers with nothing. A call with the message "decided" notes a decision. */
static size_t decide(void *ctx, void *memory, weir_grpc_call *calls, size_t n, int64_t now_ns)
{
    (void)memory;
    (void)now_ns;
    if (((app *)ctx)->pending)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (calls[i].message.len == 7)
            weir_trace_answer(calls[i].span, true);
    }
    return n;
}

static int setup_traced(void **state)
{
    static const weir_grpc_method traced[] = {{"/test.Service/Decide", WEIR_MAY_TAKE, decide}};
    static const weir_tracer tracer = {end_span, &spans};
    setup(state);
    fixture *f = *state;
    spans = (struct spans){0};
    f->options.methods = traced;
    f->options.methods_len = 1;
    f->options.tracer = &tracer;
    return 0;
}

/* Calls the method.
 *  parent, second  values of traceparent; NULL: no such field. */
static void call(fixture *f, const char *message, const char *parent, const char *second)
{
    nghttp2_nv fields[8] = {
        MAKE_FIELD(":method", "POST"),
        MAKE_FIELD(":scheme", "http"),
        MAKE_FIELD(":authority", "test"),
        MAKE_FIELD(":path", "/test.Service/Decide"),
        MAKE_FIELD("content-type", "application/grpc"),
        MAKE_FIELD("te", "trailers"),
    };
    size_t n = 6;
    uint8_t body[64];
    if (parent)
        fields[n++] = (nghttp2_nv)MAKE_FIELD("traceparent", parent);
    if (second)
        fields[n++] = (nghttp2_nv)MAKE_FIELD("traceparent", second);
    submit(f, fields, n, body, frame_message(body, message, strlen(message)));
    exchange(f);
}

static void test_span(void **state)
{
    fixture *f = *state;
    int64_t begun_ns = f->now_ns;
    call(f, "decided", PARENT, NULL);
    assert_int_equal(spans.n, 1);
    assert_null(spans.last.method);
    assert_string_equal(spans.last.name, "test.Service/Decide");
    assert_int_equal(spans.last.status, WEIR_GRPC_OK);
    assert_int_equal(spans.last.begun_ns, begun_ns);
    assert_int_equal(spans.last.parent.trace_id[15], 0x9C);
    assert_int_equal(spans.last.parent.span_id[7], 0x31);
    call(f, "undecided", PARENT, NULL);
    assert_int_equal(spans.n, 1);
}

static void test_no_span(void **state)
{
    fixture *f = *state;
    call(f, "decided", NULL, NULL);
    call(f, "decided", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", NULL);
    call(f, "decided", PARENT, PARENT);
    call(f, "decided", PARENT, "x");
    call(f, "decided", "x", PARENT);
    assert_int_equal(spans.n, 0);
    f->options.tracer = NULL;
    call(f, "decided", PARENT, NULL);
    assert_int_equal(spans.n, 0);
}

/* The time is that of the first byte, also if an engine decides later. */
static void test_pending(void **state)
{
    fixture *f = *state;
    int64_t begun_ns = f->now_ns;
    f->app.pending = true;
    call(f, "decided", PARENT, NULL);
    assert_int_equal(f->step.next, WEIR_SESSION_PENDING);
    f->app.pending = false;
    f->now_ns += 5;
    f->app.wake(f->app.wake_ctx);
    exchange(f);
    assert_int_equal(spans.n, 1);
    assert_int_equal(spans.last.begun_ns, begun_ns);
}

int main(void)
{
#define TRACED(function) cmocka_unit_test_setup_teardown(function, setup_traced, teardown)
    const struct CMUnitTest tests[] = {
        TRACED(test_span),
        TRACED(test_no_span),
        TRACED(test_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
