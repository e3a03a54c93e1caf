/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* gRPC sessions, driven by a client in memory: unary calls, batches, pending engines, refusals. */

#include "codec/grpc/kit_test.h"

static void calls_are_answered(void **state)
{
    fixture *f = *state;
    int32_t first = submit_call(f, "/test.Service/Echo", "hello");
    assert_int_equal(exchange(f), WEIR_SESSION_READ);
    expect_message(f, first, "hello");
    int32_t second = submit_call(f, "/test.Service/Echo", "");
    int32_t third = submit_call(f, "/test.Service/Fail", "\x0e");
    exchange(f);
    expect_message(f, second, "");
    expect_status(f, third, "200", "14", "100 %25 wrong%7F%0A");
}

static void calls_of_one_run_are_one_batch(void **state)
{
    fixture *f = *state;
    int32_t ids[10];
    char text[16];
    for (int i = 0; i < 10; i++) {
        snprintf(text, sizeof text, "call %d", i);
        ids[i] = submit_call(f, i == 4 ? "/test.Service/Fail" : "/test.Service/Echo", text);
    }
    exchange(f);
    assert_int_equal(f->app.batches, 1);
    assert_int_equal(f->app.biggest, 9);
    for (int i = 0; i < 10; i++) {
        snprintf(text, sizeof text, "call %d", i);
        if (i == 4)
            expect_status(f, ids[i], "200", "99", "100 %25 wrong%7F%0A");
        else
            expect_message(f, ids[i], text);
    }
}

static void methods_answer_a_part_of_a_batch(void **state)
{
    fixture *f = *state;
    int32_t ids[100];
    char text[16];
    f->app.at_most = 7;
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "call %d", i);
        ids[i] = submit_call(f, "/test.Service/Echo", text);
    }
    exchange(f);
    assert_int_equal(f->app.calls, 100);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "call %d", i);
        expect_message(f, ids[i], text);
    }
}

static void pending_calls_are_repeated_after_the_wake(void **state)
{
    fixture *f = *state;
    f->app.pending = true;
    int32_t first = submit_call(f, "/test.Service/Echo", "first");
    assert_int_equal(exchange(f), WEIR_SESSION_PENDING);
    assert_int_equal(f->app.batches, 1);
    weir_buffer_free(&f->in); /* the message was copied */
    int32_t second = submit_call(f, "/test.Service/Echo", "second");
    assert_int_equal(run_once(f), WEIR_SESSION_PENDING); /* not woken */
    assert_int_equal(f->app.batches, 1);
    f->app.wake(f->app.wake_ctx);
    assert_int_equal(f->woken, 1);
    f->app.pending = false;
    assert_int_equal(exchange(f), WEIR_SESSION_READ);
    exchange(f);
    expect_message(f, first, "first");
    expect_message(f, second, "second");
}

static void other_requests_are_refused(void **state)
{
    fixture *f = *state;
    int32_t unknown = submit_call(f, "/test.Service/None", "x");
    int32_t empty = submit_body(f, "/test.Service/Echo", "", 0);
    int32_t half = submit_body(f, "/test.Service/Echo",
                               "\0\0\0\0\x05"
                               "abc",
                               8);
    int32_t two = submit_body(f, "/test.Service/Echo",
                              "\0\0\0\0\x01"
                              "a\0\0\0\0\x01"
                              "b",
                              12);
    int32_t flagged = submit_body(f, "/test.Service/Echo",
                                  "\2\0\0\0\x01"
                                  "a",
                                  6);
    int32_t big = submit_body(f, "/test.Service/Echo",
                              "\0\0\1\0\x01"
                              "a",
                              6);
    exchange(f);
    expect_status(f, unknown, "200", "12", "unknown service or method");
    assert_string_equal(response_of(f, unknown)->accept_encoding, "identity,gzip");
    expect_status(f, empty, "200", "12", "expected a message, found none");
    expect_status(f, half, "200", "13", "the request ends within a message");
    expect_status(f, two, "200", "12", "expected one message for a unary method, found several");
    expect_status(f, flagged, "200", "13", "the compressed flag of a message must be 0 or 1");
    expect_status(f, big, "200", "8", "the message is longer than 65536 bytes");
    assert_int_equal(f->app.batches, 0);
}

/* The answer does not wait for the rest of the request, and ends the stream. */
static void refusals_do_not_wait_for_the_request(void **state)
{
    fixture *f = *state;
    const nghttp2_nv fields[] = {
        MAKE_FIELD(":method", "POST"), MAKE_FIELD(":scheme", "http"), MAKE_FIELD(":authority", "a"),
        MAKE_FIELD(":path", "/test.Service/None"), MAKE_FIELD("content-type", "application/grpc")};
    nghttp2_data_provider more = {.read_callback = read_body_part};
    int32_t id = nghttp2_submit_request(f->client, NULL, fields, 5, &more, NULL);
    exchange(f);
    expect_status(f, id, "200", "12", "unknown service or method");
    assert_false(weir_grpc_session_usage(&f->session).mid_request);
}

/* A stream error while an engine decides its call: the other calls of the batch are answered. */
static void streams_may_close_while_an_engine_is_pending(void **state)
{
    static const uint8_t overflow[] = {0,    0,    4,   NGHTTP2_WINDOW_UPDATE, 0, 0, 0, 0, 1, 0x7f,
                                       0xff, 0xff, 0xff};
    fixture *f = *state;
    exchange(f);
    f->app.pending = true;
    int32_t first = submit_call(f, "/test.Service/Echo", "first");
    int32_t second = submit_call(f, "/test.Service/Echo", "second");
    weir_buffer_append(&f->in, overflow, sizeof overflow);
    assert_int_equal(run_once(f), WEIR_SESSION_PENDING);
    assert_true(response_of(f, first)->closed);
    f->app.pending = false;
    f->app.wake(f->app.wake_ctx);
    assert_int_equal(exchange(f), WEIR_SESSION_READ);
    assert_int_equal(f->app.calls, 2); /* the engine was asked for both */
    assert_int_equal(response_of(f, first)->code, NGHTTP2_FLOW_CONTROL_ERROR);
    expect_message(f, second, "second");
}

/* Every split of the bytes of two requests gives the same answers. */
static void requests_may_arrive_in_pieces(void **state)
{
    fixture *f = *state;
    submit_call(f, "/test.Service/Echo", "a message");
    submit_call(f, "/test.Service/Echo", "another one");
    size_t len = weir_buffer_len(&f->in);
    uint8_t *bytes = malloc(len);
    memcpy(bytes, weir_buffer_data(&f->in), len);
    for (size_t split = 0; split <= len; split++) {
        close_session(f);
        open_session(f);
        submit_call(f, "/test.Service/Echo", "a message");
        submit_call(f, "/test.Service/Echo", "another one");
        weir_buffer_free(&f->in);
        weir_buffer_append(&f->in, bytes, split);
        run_once(f);
        size_t left = weir_buffer_len(&f->in);
        uint8_t kept[64]; /* the session has kept no pointer */
        if (left > 0)
            memcpy(kept, weir_buffer_data(&f->in), left);
        weir_buffer_free(&f->in);
        weir_buffer_append(&f->in, kept, left);
        weir_buffer_append(&f->in, bytes + split, len - split);
        exchange(f);
        expect_message(f, 1, "a message");
        expect_message(f, 3, "another one");
    }
    free(bytes);
}

static void output_stops_at_the_pause(void **state)
{
    fixture *f = *state;
    int32_t ids[200];
    char text[300];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    exchange(f); /* the client learns how many streams it may open */
    f->out_pause = 1000;
    for (int i = 0; i < 200; i++)
        ids[i] = submit_call(f, "/test.Service/Echo", text);
    size_t runs = 1;
    while (run_once(f) == WEIR_SESSION_AGAIN)
        runs++;
    assert_true(runs > 40);
    exchange(f);
    for (int i = 0; i < 200; i++)
        expect_message(f, ids[i], text);
    assert_int_equal(f->app.calls, 200);
}

static void replies_wait_for_flow_control(void **state)
{
    fixture *f = *state;
    nghttp2_settings_entry none = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    exchange(f);
    nghttp2_submit_settings(f->client, 0, &none, 1);
    exchange(f);
    int32_t first = submit_call(f, "/test.Service/Echo", "blocked");
    exchange(f);
    int32_t second = submit_call(f, "/test.Service/Echo", "also blocked");
    exchange(f);
    assert_int_equal(response_of(f, first)->body_len, 0);
    assert_false(response_of(f, first)->closed);
    assert_int_equal(f->app.calls, 2);
    for (int i = 0; i < 20; i++) { /* a byte at a time */
        nghttp2_submit_window_update(f->client, 0, first, 1);
        nghttp2_submit_window_update(f->client, 0, second, 1);
        exchange(f);
    }
    expect_message(f, first, "blocked");
    expect_message(f, second, "also blocked");
}

/* Runs a new session with these bytes, in two pieces. Returns whether it is closed. */
static bool is_closed_after(fixture *f, const char *bytes, size_t len, size_t split)
{
    close_session(f);
    open_session(f);
    weir_buffer_append(&f->in, bytes, split);
    f->step = weir_grpc_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, f->now_ns);
    if (f->step.next == WEIR_SESSION_CLOSE)
        return true;
    weir_buffer_clear(&f->out);
    weir_buffer_append(&f->in, bytes + split, len - split);
    f->step = weir_grpc_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, f->now_ns);
    return f->step.next == WEIR_SESSION_CLOSE;
}

/* Clients of other protocols are closed; those of HTTP/1.1 get an answer. */
static void the_preface_is_checked(void **state)
{
    static const char get[] = "GET / HTTP/1.1\r\n\r\n", post[] = "POST /json HTTP/1.1\r\n\r\n";
    static const char tls[] = "\x16\x03\x01\x02\x00\x01", resp[] = "*1\r\n$4\r\nPING\r\n";
    static const char h2[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const struct {
        const char *bytes;
        size_t len;
        bool http, closed;
    } cases[] = {{get, sizeof get - 1, true, true},
                 {post, sizeof post - 1, true, true},
                 {tls, sizeof tls - 1, false, true},
                 {resp, sizeof resp - 1, false, true},
                 {h2, sizeof h2 - 1, false, false}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t split = 0; split < cases[i].len; split++) {
            bool closed = is_closed_after(f, cases[i].bytes, cases[i].len, split);
            assert_int_equal(closed, cases[i].closed);
            size_t len = weir_buffer_len(&f->out);
            const char *out = (const char *)weir_buffer_data(&f->out);
            if (cases[i].http) {
                const char *body = strstr(out, "\r\n\r\n");
                assert_memory_equal(out, "HTTP/1.1 400 ", 13);
                assert_non_null(body);
                assert_int_equal(atoi(strstr(out, "Content-Length: ") + 16),
                                 len - (size_t)(body + 4 - out));
            } else {
                assert_int_equal(len > 0, !cases[i].closed);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(calls_are_answered),
        TEST(calls_of_one_run_are_one_batch),
        TEST(methods_answer_a_part_of_a_batch),
        TEST(pending_calls_are_repeated_after_the_wake),
        TEST(other_requests_are_refused),
        TEST(refusals_do_not_wait_for_the_request),
        TEST(streams_may_close_while_an_engine_is_pending),
        TEST(requests_may_arrive_in_pieces),
        TEST(output_stops_at_the_pause),
        TEST(replies_wait_for_flow_control),
        TEST(the_preface_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
