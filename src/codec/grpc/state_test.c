/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The state of a gRPC connection after single steps: credits, deadlines, lengths, cancelled calls
 * and the end of a connection. The kit checks lists and counts after every run. */

#include "codec/grpc/kit_test.h"

#define ECHO "/test.Service/Echo"

static const int64_t s_ns = 1000000000, ms_ns = 1000000;

static weir_grpc_connection *connection_of(fixture *f)
{
    return f->session.connection;
}

/* Submits a call of Echo with these header fields as well. */
static int32_t submit_more(fixture *f, const nghttp2_nv *more, size_t n)
{
    static uint8_t body[64];
    nghttp2_nv fields[8] = {MAKE_FIELD(":method", "POST"), MAKE_FIELD(":scheme", "http"),
                            MAKE_FIELD(":authority", "a"), MAKE_FIELD(":path", ECHO),
                            MAKE_FIELD("content-type", "application/grpc")};
    memcpy(&fields[5], more, n * sizeof *more);
    return submit(f, fields, 5 + n, body, frame_message(body, "hello", 5));
}

static int32_t submit_with(fixture *f, const char *name, const char *value)
{
    const nghttp2_nv more = MAKE_FIELD(name, value);
    return submit_more(f, &more, 1);
}

/* ---- header fields --------------------------------------------------------------------------- */

static void a_timeout_is_exact(void **state)
{
    static const int64_t year_ns = INT64_C(365) * 86400 * 1000000000;
    const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        {"1H", 3600 * s_ns},
        {"2M", 120 * s_ns},
        {"3S", 3 * s_ns},
        {"4m", 4 * ms_ns},
        {"5u", 5000},
        {"6n", 6},
        {"99999999n", 99999999},
        {"8759H", 8759 * 3600 * s_ns},
        {"8760H", year_ns},
        {"8761H", year_ns},
        {"99999999H", year_ns},
    };
    fixture *f = *state;
    f->app.pending = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        submit_with(f, "grpc-timeout", rows[i].text);
        connection_of(f)->pending = false;
        assert_int_equal(run_once(f), WEIR_SESSION_PENDING);
        assert_int_equal(connection_of(f)->streams->deadline_ns - f->now_ns, rows[i].ns);
    }
}

static void a_password_that_nobody_asked_for_is_ignored(void **state)
{
    fixture *f = *state;
    int32_t id = submit_with(f, "authorization", "Bearer secret");
    exchange(f);
    expect_message(f, id, "hello");
}

/* A header list may have exactly 16384 bytes, with 32 for each field. */
static void the_longest_header_list(void **state)
{
    static char value[WEIR_GRPC_HEAD_MAX];
    enum { OTHERS = 7 + 4 + 7 + 4 + 10 + 1 + 5 + 18 + 12 + 16 + 1 + 6 * 32 };
    fixture *f = *state;
    for (int more = 0; more <= 1; more++) {
        memset(value, 'x', sizeof value);
        value[WEIR_GRPC_HEAD_MAX - OTHERS + more] = '\0';
        int32_t id = submit_with(f, "x", value);
        exchange(f);
        assert_string_equal(response_of(f, id)->http, more ? "431" : "200");
    }
}

static ssize_t read_body_and_trailer(nghttp2_session *h2, int32_t id, uint8_t *to, size_t room,
                                     uint32_t *ret_flags, nghttp2_data_source *source,
                                     void *user_data)
{
    const nghttp2_nv trailer = MAKE_FIELD("grpc-timeout", "0S");
    ssize_t n = read_body(h2, id, to, room, ret_flags, source, user_data);
    *ret_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    assert_int_equal(nghttp2_submit_trailer(h2, id, &trailer, 1), 0);
    return n;
}

static void fields_after_the_message_are_ignored(void **state)
{
    static uint8_t body[64];
    const nghttp2_nv fields[] = {MAKE_FIELD(":method", "POST"), MAKE_FIELD(":scheme", "http"),
                                 MAKE_FIELD(":authority", "a"), MAKE_FIELD(":path", ECHO),
                                 MAKE_FIELD("content-type", "application/grpc")};
    const nghttp2_data_provider data = {.read_callback = read_body_and_trailer};
    fixture *f = *state;
    f->sending = body;
    f->sending_len = frame_message(body, "hello", 5);
    int32_t id = nghttp2_submit_request(f->client, NULL, fields, 5, &data, NULL);
    exchange(f);
    expect_message(f, id, "hello");
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The longest message is repeated, with its length in the prefix. */
static void the_longest_message(void **state)
{
    static uint8_t body[WEIR_GRPC_PREFIX_LEN + WEIR_GRPC_MESSAGE_MAX],
        message[WEIR_GRPC_MESSAGE_MAX];
    static const size_t lens[] = {255, 256, 32768, 65535, 65536};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        memset(message, 'a' + (int)i, sizeof message);
        size_t len = frame_message(body, message, lens[i]);
        int32_t id = submit_body(f, ECHO, body, len);
        exchange(f);
        const response *r = response_of(f, id);
        assert_true(r->closed);
        assert_int_equal(r->body_len, len);
        assert_memory_equal(r->body, body, len);
        /* A buffer that has become big is freed. */
        size_t kept = weir_buffer_memory(&connection_of(f)->replies);
        assert_true(lens[i] <= 256 ? kept > 0 && kept <= 4096 : kept == 0);
    }
}

/* A client that does not tell the server when it has read a message. */
static void open_silent_client(fixture *f)
{
    nghttp2_option *option = NULL;
    close_session(f);
    open_session(f);
    nghttp2_session_del(f->client);
    assert_int_equal(nghttp2_option_new(&option), 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    open_client(f, option);
    nghttp2_option_del(option);
}

/* Lets the client receive so many bytes of each stream. */
static void set_window(fixture *f, uint32_t window)
{
    const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
    assert_int_equal(nghttp2_submit_settings(f->client, 0, &entry, 1), 0);
    exchange(f);
}

/* Replies that the client does not receive yet are kept while others are made, and then sent, byte
 * by byte. */
static void blocked_replies_are_kept(void **state)
{
    static const char *const texts[] = {"first", "the second", "3", ""};
    enum { CALLS = 4 };
    int32_t ids[CALLS];
    fixture *f = *state;
    open_silent_client(f);
    for (uint32_t window = 0; window < 5; window++) {
        set_window(f, window);
        ids[0] = submit_call(f, ECHO, texts[0]);
        ids[1] = submit_call(f, ECHO, texts[1]);
        exchange(f);
        for (int i = 2; i < CALLS; i++) {
            ids[i] = submit_call(f, ECHO, texts[i]);
            exchange(f);
        }
        for (int i = 0; i < CALLS; i++)
            assert_int_equal(response_of(f, ids[i])->body_len, window);
        assert_int_equal(weir_buffer_len(&connection_of(f)->replies), 0);
        assert_int_equal(connection_of(f)->replies_len, 0);
        for (uint32_t more = window + 1; more <= 20; more++)
            set_window(f, more);
        for (int i = 0; i < CALLS; i++)
            expect_message(f, ids[i], texts[i]);
        assert_int_equal(connection_of(f)->blocked_bytes, 0);
    }
}

static bool is_ready;

static bool on_ready(void *ctx)
{
    (void)ctx;
    return is_ready;
}

/* Messages of a stream follow each other, however much of the earlier ones was sent. A newer stream
 * does not keep an older reply from being copied. */
static void blocked_streams_are_kept(void **state)
{
    static const uint8_t messages[] = {0, 0, 0, 0, 2, 8, 1, 0, 0, 0, 0,
                                       2, 8, 2, 0, 0, 0, 0, 2, 8, 1};
    fixture *f = *state;
    f->options.ready = on_ready;
    open_silent_client(f);
    for (uint32_t window = 0; window <= 7; window++) {
        is_ready = true;
        set_window(f, window);
        f->app.pending = true;
        int32_t older = submit_call(f, ECHO, "older");
        int32_t watch = submit_call(f, "/grpc.health.v1.Health/Watch", "");
        assert_int_equal(exchange(f), WEIR_SESSION_PENDING);
        f->app.pending = false;
        f->app.wake(f->app.wake_ctx);
        for (int i = 0; i < 2; i++) {
            exchange(f);
            is_ready = !is_ready;
            assert_true(weir_grpc_session_poll(&f->session, f->now_ns, false));
        }
        exchange(f);
        assert_int_equal(response_of(f, watch)->body_len, window);
        set_window(f, 100);
        assert_int_equal(response_of(f, watch)->body_len, sizeof messages);
        assert_memory_equal(response_of(f, watch)->body, messages, sizeof messages);
        expect_message(f, older, "older");
        nghttp2_submit_rst_stream(f->client, 0, watch, NGHTTP2_CANCEL);
        exchange(f);
        assert_int_equal(connection_of(f)->watches_len, 0);
    }
}

/* Nothing is sent after the end of a stream, and it ends once. */
static void an_ended_stream_sends_nothing(void **state)
{
    fixture *f = *state;
    int32_t id = submit_call(f, "/grpc.health.v1.Health/Watch", "");
    exchange(f);
    weir_grpc_connection *c = connection_of(f);
    weir_grpc_stream *s = c->streams;
    weir_grpc_end(c, s, WEIR_GRPC_UNAVAILABLE, "the first reason");
    weir_grpc_end(c, s, WEIR_GRPC_INTERNAL, "another");
    weir_grpc_send(c, s, "x", 1);
    exchange(f);
    const response *r = response_of(f, id);
    assert_int_equal(r->body_len, 7);
    assert_string_equal(r->status, "14");
    assert_string_equal(r->message, "the first reason");
}

/* Messages that the client does not read may have 256 KiB; one more byte ends the stream. */
static void unread_messages_are_limited(void **state)
{
    static uint8_t message[WEIR_GRPC_STREAM_OUT_MAX];
    fixture *f = *state;
    for (size_t more = 0; more <= 1; more++) {
        set_window(f, 0);
        int32_t id = submit_call(f, "/grpc.health.v1.Health/Watch", "");
        exchange(f);
        weir_grpc_connection *c = connection_of(f);
        weir_grpc_stream *s = c->streams;
        weir_grpc_send(c, s, message, sizeof message - 7 + more);
        assert_int_equal(s->out_last, more);
        exchange(f);
        set_window(f, 1 << 20);
        assert_int_equal(response_of(f, id)->body_len, more ? 7 : 7 + 5 + sizeof message - 7);
        if (!more) /* the length of the second message */
            assert_memory_equal(response_of(f, id)->body + 7, "\0\0\3\377\371", 5);
        assert_string_equal(response_of(f, id)->status, more ? "8" : "");
        if (!more) {
            nghttp2_submit_rst_stream(f->client, 0, id, NGHTTP2_CANCEL);
            exchange(f);
        }
    }
}

/* ---- credits --------------------------------------------------------------------------------- */

/* A frame costs a credit, but for DATA of 256 bytes or more. */
static void what_frames_cost(void **state)
{
    static const struct {
        unsigned type, len;
        int64_t cost;
    } rows[] = {{NGHTTP2_DATA, 255, 1},
                {NGHTTP2_DATA, 256, 0},
                {NGHTTP2_DATA, 16384, 0},
                {NGHTTP2_HEADERS, 256, 1},
                {NGHTTP2_PING, 8, 1}};
    fixture *f = *state;
    exchange(f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const nghttp2_frame_hd head = {.type = (uint8_t)rows[i].type, .length = rows[i].len};
        connection_of(f)->credits = 100;
        assert_int_equal(weir_grpc_on_begin_frame(connection_of(f)->h2, &head, connection_of(f)),
                         0);
        assert_int_equal(connection_of(f)->credits, 100 - rows[i].cost);
    }
}

/* Without a credit, the next frame ends the connection. */
static void the_last_credit(void **state)
{
    fixture *f = *state;
    exchange(f);
    connection_of(f)->credits = 1;
    weir_grpc_charge(connection_of(f), 1);
    assert_false(connection_of(f)->flooded);
    weir_grpc_charge(connection_of(f), 1);
    assert_true(connection_of(f)->flooded);
    weir_grpc_charge(connection_of(f), 1);
    run_once(f);
    assert_true(f->goaway);
    assert_int_equal(f->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* 1000 credits a second, up to 10000; nothing for a clock that steps back. */
static void credits_come_with_time(void **state)
{
    fixture *f = *state;
    exchange(f);
    weir_grpc_connection *c = connection_of(f);
    const int64_t begin_ns = f->now_ns;
    const struct {
        int64_t at_ns, credits;
    } rows[] = {
        {1500000, 1},
        {1999999, 1},
        {2000000, 2},
        {1000000, 2},
        /* back */ {2000000, 3},
        {1002 * ms_ns, 1003},
        {9000 * ms_ns, 9001},
        {10000 * ms_ns, 10000},
        {10500 * ms_ns, 10000},
    };
    assert_true(c->credits > 0);
    c->credits = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        f->now_ns = begin_ns + rows[i].at_ns;
        assert_int_equal(run_once(f), WEIR_SESSION_READ);
        assert_int_equal(c->credits, rows[i].credits);
    }
    c->credits = 0;
    f->now_ns += 11 * s_ns; /* a long time */
    run_once(f);
    assert_int_equal(c->credits, 10000);
}

/* ---- calls that an engine decides ------------------------------------------------------------ */

/* Calls that the client has cancelled meanwhile are neither answered nor kept. */
static void cancelled_calls_are_freed(void **state)
{
    fixture *f = *state;
    for (int expired = 0; expired <= 1; expired++) {
        f->app.pending = true;
        int32_t first = submit_with(f, "grpc-timeout", "1S");
        int32_t second = submit_call(f, ECHO, "second");
        assert_int_equal(exchange(f), WEIR_SESSION_PENDING);
        nghttp2_submit_rst_stream(f->client, 0, first, NGHTTP2_CANCEL);
        connection_of(f)->pending = expired; /* else the reset is read at once */
        client_sends(f);
        size_t unread = weir_buffer_len(&f->in);
        assert_true(unread > 0);
        if (expired) { /* nothing is read while the engine is pending */
            assert_int_equal(run_once(f), WEIR_SESSION_PENDING);
            assert_int_equal(weir_buffer_len(&f->in), unread);
            f->now_ns += 2 * s_ns;
        }
        f->app.pending = false;
        f->app.wake(f->app.wake_ctx);
        assert_int_equal(exchange(f), WEIR_SESSION_READ);
        expect_message(f, second, "second");
        assert_null(connection_of(f)->streams);
    }
}

/* A stream that closes while its call is pending stays until the call is repeated. */
static void a_closed_call_waits_for_its_engine(void **state)
{
    fixture *f = *state;
    weir_grpc_connection *c = connection_of(f);
    for (int answered = 0; answered <= 1; answered++) {
        f->app.pending = true;
        submit_call(f, ECHO, "first");
        int32_t second = submit_call(f, ECHO, "second");
        assert_int_equal(exchange(f), WEIR_SESSION_PENDING);
        size_t calls = f->app.calls;
        weir_grpc_stream *first = c->ready;
        assert_int_equal(weir_grpc_on_stream_close(c->h2, first->id, 0, c), 0);
        nghttp2_session_set_stream_user_data(c->h2, first->id, NULL);
        assert_true(first->closed && c->ready == first);
        f->app.pending = false;
        c->pending = answered; /* without, it is freed before the calls are passed on */
        f->app.wake(f->app.wake_ctx);
        assert_int_equal(exchange(f), WEIR_SESSION_READ);
        assert_int_equal(f->app.calls, calls + (answered ? 2 : 1));
        expect_message(f, second, "second");
        assert_null(c->streams);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Of several incomplete requests, the late ones are refused. */
static void only_late_requests_are_refused(void **state)
{
    static const uint8_t part[] = {0, 0, 0, 0, 5, 'h'};
    const nghttp2_nv fields[] = {MAKE_FIELD(":method", "POST"), MAKE_FIELD(":scheme", "http"),
                                 MAKE_FIELD(":authority", "a"), MAKE_FIELD(":path", ECHO),
                                 MAKE_FIELD("content-type", "application/grpc")};
    const nghttp2_data_provider data = {.read_callback = read_body_part};
    int32_t ids[2];
    fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        f->sending = part;
        f->sending_len = sizeof part;
        ids[i] = nghttp2_submit_request(f->client, NULL, fields, 5, &data, NULL);
        exchange(f);
        f->now_ns += 20 * s_ns;
    }
    f->now_ns -= 10 * s_ns + 1;
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    f->now_ns += 1;
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, false));
    exchange(f);
    assert_string_equal(response_of(f, ids[0])->status, "4");
    assert_string_equal(response_of(f, ids[1])->status, "");
}

/* ---- the connection -------------------------------------------------------------------------- */

/* The first frame has the server's settings. */
static void settings_are_sent_first(void **state)
{
    static const uint8_t settings[] = {0,    0, 18, NGHTTP2_SETTINGS,
                                       0,    0, 0,  0,
                                       0, /* head */
                                       0,    3, 0,  0,
                                       4,    0, /* streams */
                                       0,    6, 0,  0,
                                       0x40, 0, /* head list */
                                       0,    9, 0,  0,
                                       0,    1};
    fixture *f = *state;
    client_sends(f);
    f->step = weir_grpc_session_run(&f->session, &f->in, &f->out, f->out_pause, f->now_ns);
    assert_true(weir_buffer_len(&f->out) >= sizeof settings);
    assert_memory_equal(weir_buffer_data(&f->out), settings, sizeof settings);
}

/* A client of another protocol gets an answer in plain text, if it begins as HTTP/1.1 does. */
static void clients_of_other_protocols(void **state)
{
    static const struct {
        const char *text;
        bool answered;
    } rows[] = {{"AA", true}, {"ZZ", true}, {"PRX", true}, {"@A", false}, {"[A", false}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        close_session(f);
        open_session(f);
        weir_buffer_append(&f->in, rows[i].text, strlen(rows[i].text));
        f->step = weir_grpc_session_run(&f->session, &f->in, &f->out, f->out_pause, f->now_ns);
        assert_int_equal(f->step.next, WEIR_SESSION_CLOSE);
        assert_int_equal(weir_buffer_len(&f->out) > 0, rows[i].answered);
    }
}

/* A stopping server stays one. Only the answer to its PING, or a second, ends the notice. */
static void the_notice_of_a_stopping_server(void **state)
{
    fixture *f = *state;
    exchange(f);
    weir_grpc_connection *c = connection_of(f);
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, true));
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, false));
    for (int i = 0; i < 3; i++) { /* the client does not see the PING */
        submit_call(f, ECHO, "hello");
        f->step = weir_grpc_session_run(&f->session, &f->in, &f->out, f->out_pause, f->now_ns);
        assert_int_equal(c->ending, WEIR_GRPC_NOTICED);
    }
    weir_buffer_clear(&f->out);
    f->now_ns += s_ns - 1;
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    f->now_ns += 1;
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, false));
    f->step = weir_grpc_session_run(&f->session, &f->in, &f->out, f->out_pause, f->now_ns);
    assert_int_equal(c->ending, WEIR_GRPC_FINAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_timeout_is_exact),
        TEST(a_password_that_nobody_asked_for_is_ignored),
        TEST(the_longest_header_list),
        TEST(fields_after_the_message_are_ignored),
        TEST(the_longest_message),
        TEST(blocked_replies_are_kept),
        TEST(blocked_streams_are_kept),
        TEST(an_ended_stream_sends_nothing),
        TEST(unread_messages_are_limited),
        TEST(what_frames_cost),
        TEST(the_last_credit),
        TEST(credits_come_with_time),
        TEST(cancelled_calls_are_freed),
        TEST(a_closed_call_waits_for_its_engine),
        TEST(only_late_requests_are_refused),
        TEST(settings_are_sent_first),
        TEST(clients_of_other_protocols),
        TEST(the_notice_of_a_stopping_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
