/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The limits of gRPC sessions: deadlines, passwords, compressed messages, floods, slow readers,
 * memory, and the end of a connection. */

#include "codec/grpc/kit_test.h"

#include <zlib.h>

#define ECHO "/test.Service/Echo"

static const int64_t s_ns = 1000000000;

/* Submits a call of Echo with one more header field. */
static int32_t submit_with(fixture *f, const char *name, const char *value)
{
    static uint8_t body[64];
    size_t len = frame_message(body, "hello", 5);
    const nghttp2_nv fields[] = {MAKE_FIELD(":method", "POST"),
                                 MAKE_FIELD(":scheme", "http"),
                                 MAKE_FIELD(":authority", "a"),
                                 MAKE_FIELD(":path", ECHO),
                                 MAKE_FIELD("content-type", "application/grpc"),
                                 MAKE_FIELD(name, value)};
    return submit(f, fields, sizeof fields / sizeof fields[0], body, len);
}

/* Submits a request with other values of two fields. */
static int32_t submit_as(fixture *f, const char *method, const char *type)
{
    static uint8_t body[64];
    size_t len = frame_message(body, "hello", 5);
    const nghttp2_nv fields[] = {MAKE_FIELD(":method", method), MAKE_FIELD(":scheme", "http"),
                                 MAKE_FIELD(":authority", "a"), MAKE_FIELD(":path", ECHO),
                                 MAKE_FIELD("content-type", type)};
    return submit(f, fields, sizeof fields / sizeof fields[0], body, len);
}

/* ---- header fields --------------------------------------------------------------------------- */

static void requests_must_be_grpc(void **state)
{
    static const struct {
        const char *method, *type, *http;
    } cases[] = {
        {"POST", "application/grpc", "200"},
        {"POST", "application/grpc+proto", "200"},
        {"POST", "application/grpc;charset=utf-8", "200"},
        {"POST", "application/grpc+proto;charset=utf-8", "200"},
        {"POST", "application/grpc+proto ;charset=utf-8", "200"},
        {"POST", "application/grpc ;a=b", "200"},
        {"POST", "application/grpX", "415"},
        {"POST", "application/grpX;", "415"},
        {"POST", "application/grpc+protX", "415"},
        {"POST", "application/grpc+json", "415"},
        {"POST", "application/grpc-web", "415"},
        {"POST", "application/json", "415"},
        {"POST", "", "415"},
        {"GET", "application/grpc", "405"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t id = submit_as(f, cases[i].method, cases[i].type);
        exchange(f);
        assert_string_equal(response_of(f, id)->http, cases[i].http);
        assert_string_equal(response_of(f, id)->status, strcmp(cases[i].http, "200") ? "13" : "0");
        assert_string_equal(response_of(f, id)->allow, strcmp(cases[i].http, "405") ? "" : "POST");
    }
}

static void deadlines(void **state)
{
    static const char *const good[] = {"1H",       "1M",        "1S",        "99999999m",
                                       "1u",       "1n",        "00000001S", "2562047H",
                                       "5000000H", "99999999H", "99999999M"};
    static const char *const bad[] = {"1", "S", "", "1s", "123456789S", "-1S", "1.5S", "1 S"};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int32_t id = submit_with(f, "grpc-timeout", good[i]);
        exchange(f);
        expect_message(f, id, "hello");
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int32_t id = submit_with(f, "grpc-timeout", bad[i]);
        exchange(f);
        expect_status(f, id, "200", "13", "malformed grpc-timeout");
    }
    int32_t none = submit_with(f, "grpc-timeout", "0S");
    exchange(f);
    expect_status(f, none, "200", "4", "the deadline has passed");
}

/* A call whose engine is slow is answered by the engine; calls that have waited for it meanwhile
 * are not decided after their deadline. */
static void deadlines_pass_while_an_engine_is_pending(void **state)
{
    fixture *f = *state;
    f->app.pending = true;
    int32_t first = submit_with(f, "grpc-timeout", "10m");
    assert_int_equal(exchange(f), WEIR_SESSION_PENDING);
    int32_t other = submit_call(f, "/test.Service/Fail", "\3");
    int32_t second = submit_with(f, "grpc-timeout", "10m");
    f->app.pending = false;
    f->app.wake(f->app.wake_ctx);
    exchange(f);
    exchange(f);
    expect_message(f, first, "hello");
    expect_message(f, second, "hello"); /* its time begins when it is read */
    expect_status(f, other, "200", "3", "100 %25 wrong%7F%0A");
    f->app.pending = true;
    f->app.at_most = 1;
    first = submit_call(f, ECHO, "first");
    second = submit_with(f, "grpc-timeout", "10m");
    assert_int_equal(exchange(f), WEIR_SESSION_PENDING);
    f->app.pending = false;
    f->app.wake(f->app.wake_ctx);
    f->now_ns += s_ns;
    size_t calls = f->app.calls;
    exchange(f);
    expect_message(f, first, "first");
    assert_int_equal(f->app.calls, calls + 2); /* both were passed to the engine */
    assert_true(response_of(f, second)->closed);
}

static size_t guesses;
static bool holds;

static bool on_wrong_password(void *ctx, const void *peer)
{
    assert_ptr_equal(ctx, &guesses);
    assert_non_null(peer);
    guesses++;
    return holds;
}

static void passwords(void **state)
{
    fixture *f = *state;
    users_kit_set_password(&f->users, "secret");
    f->users.wrong_password = on_wrong_password;
    f->users.wrong_password_ctx = &guesses;
    guesses = 0;
    holds = true;
    int32_t right = submit_with(f, "authorization", "Bearer secret");
    int32_t basic = submit_with(f, "authorization", "Basic dXNlcjpzZWNyZXQ=");
    int32_t none = submit_call(f, ECHO, "x");
    exchange(f);
    expect_message(f, right, "hello");
    expect_message(f, basic, "hello");
    expect_status(f, none, "200", "16", "expected the metadata authorization: Bearer PASSWORD");
    assert_int_equal(guesses, 0);
    for (size_t i = 1; i <= 3; i++) {
        assert_false(f->goaway);
        submit_with(f, "authorization", "Bearer Secret");
        assert_int_equal(run_once(f), WEIR_SESSION_WAIT);
        assert_int_equal(f->step.until_ns, f->now_ns + s_ns);
        assert_int_equal(guesses, i);
        f->now_ns += s_ns;
    }
    assert_int_equal(run_once(f), WEIR_SESSION_CLOSE);
    assert_int_equal(f->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* Echo needs the right to take, and Fail that to reset. */
static void rights(void **state)
{
    static const char *const patterns[] = {"a*"};
    weir_user_spec spec = {.name = "u", .password = {"p"}, .may = WEIR_MAY_TAKE};
    fixture *f = *state;
    users_kit_set(&f->users, &spec, 1, false);
    int32_t right = submit_with(f, "authorization", "Bearer u:p");
    int32_t basic = submit_with(f, "authorization", "Basic dTpw");
    int32_t none = submit_call(f, ECHO, "x");
    exchange(f);
    expect_message(f, right, "hello");
    expect_message(f, basic, "hello");
    expect_status(f, none, "200", "16",
                  "expected the metadata authorization: Bearer NAME:PASSWORD");
    assert_int_equal(f->users.denied, 0);
    spec.may = WEIR_MAY_PEEK;
    users_kit_set(&f->users, &spec, 1, false);
    right = submit_with(f, "authorization", "Bearer u:p");
    exchange(f);
    expect_status(f, right, "200", "7", "the user lacks the right \"take\"");
    assert_int_equal(f->users.denied, 1);
    assert_int_equal(f->users.denied_rights, WEIR_MAY_TAKE);
    /* By the listener; a password is not read. */
    spec = (weir_user_spec){.name = "sock", .may = WEIR_MAY_TAKE, .policies = {patterns, 1}};
    f->users.bound_to = "sock";
    users_kit_set(&f->users, &spec, 1, false);
    right = submit_with(f, "authorization", "Bearer wrong");
    int32_t fail = submit_call(f, "/test.Service/Fail", "\3");
    exchange(f);
    expect_message(f, right, "hello");
    expect_status(f, fail, "200", "7",
                  "the user may use only some policies or keys, and these limits are not among "
                  "them");
    assert_int_equal(f->users.denied, 2);
    users_kit_set(&f->users, NULL, 0, false);
    fail = submit_call(f, "/test.Service/Fail", "\3");
    exchange(f);
    expect_status(f, fail, "200", "3", "100 %25 wrong%7F%0A");
}

/* Submits a request of the user u whose body is not complete; end_body() completes it. */
static int32_t begin_body(fixture *f)
{
    static uint8_t body[64];
    nghttp2_data_provider data = {.read_callback = read_body_part};
    const nghttp2_nv fields[] = {MAKE_FIELD(":method", "POST"),
                                 MAKE_FIELD(":scheme", "http"),
                                 MAKE_FIELD(":authority", "a"),
                                 MAKE_FIELD(":path", ECHO),
                                 MAKE_FIELD("content-type", "application/grpc"),
                                 MAKE_FIELD("authorization", "Bearer u:p")};
    f->sending_len = frame_message(body, "hello", 5);
    f->sending = body;
    int32_t id = nghttp2_submit_request(f->client, NULL, fields, 6, &data, NULL);
    assert_int_equal(exchange(f), WEIR_SESSION_READ);
    assert_string_equal(response_of(f, id)->status, "");
    return id;
}

static void end_body(fixture *f, int32_t id)
{
    const uint8_t end[9] = {0, 0, 0, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 0, 0, 0, (uint8_t)id};
    weir_buffer_append(&f->in, end, sizeof end);
    exchange(f);
}

/* The users change between the header fields and the end of the body. */
static void rights_are_checked_when_the_request_is_complete(void **state)
{
    weir_user_spec spec = {.name = "u", .password = {"p"}, .may = WEIR_MAY_TAKE};
    fixture *f = *state;
    users_kit_set(&f->users, &spec, 1, false);
    int32_t id = begin_body(f);
    users_kit_set(&f->users, &spec, 1, false);
    end_body(f, id);
    assert_string_equal(response_of(f, id)->status, "0");
    assert_int_equal(f->app.calls, 1);
    id = begin_body(f);
    spec.may = WEIR_MAY_PEEK;
    users_kit_set(&f->users, &spec, 1, false);
    end_body(f, id);
    assert_string_equal(response_of(f, id)->status, "7");
    assert_string_equal(response_of(f, id)->message, "the user lacks the right \"take\"");
    spec.may = WEIR_MAY_TAKE;
    users_kit_set(&f->users, &spec, 1, false);
    id = begin_body(f);
    spec.password[0] = "other";
    users_kit_set(&f->users, &spec, 1, false);
    end_body(f, id);
    assert_string_equal(response_of(f, id)->status, "16");
    assert_int_equal(f->app.calls, 1);
}

/* A request with several passwords has none, so that it is one guess at most. */
static void a_request_has_one_password(void **state)
{
    static const char *const right = "Bearer secret", *const wrong = "Bearer Secret";
    const char *const pairs[][2] = {{right, wrong}, {wrong, right}, {right, right}};
    fixture *f = *state;
    users_kit_set_password(&f->users, "secret");
    f->users.wrong_password = on_wrong_password;
    f->users.wrong_password_ctx = &guesses;
    guesses = 0;
    holds = true;
    for (size_t i = 0; i < 3; i++) {
        static uint8_t body[64];
        size_t len = frame_message(body, "hello", 5);
        const nghttp2_nv fields[] = {MAKE_FIELD(":method", "POST"),
                                     MAKE_FIELD(":scheme", "http"),
                                     MAKE_FIELD(":authority", "a"),
                                     MAKE_FIELD(":path", ECHO),
                                     MAKE_FIELD("content-type", "application/grpc"),
                                     MAKE_FIELD("authorization", pairs[i][0]),
                                     MAKE_FIELD("authorization", pairs[i][1])};
        int32_t id = submit(f, fields, sizeof fields / sizeof fields[0], body, len);
        assert_int_equal(run_once(f), WEIR_SESSION_WAIT);
        assert_string_equal(response_of(f, id)->status, i < 2 ? "16" : ""); /* closed before */
        assert_int_equal(guesses, i + 1);
        f->now_ns += s_ns;
    }
}

static void head_lists_are_limited(void **state)
{
    fixture *f = *state;
    static char value[20000];
    memset(value, 'x', sizeof value - 1);
    exchange(f);
    value[16000] = 0;
    int32_t fits = submit_with(f, "x", value);
    exchange(f);
    expect_message(f, fits, "hello");
    value[16000] = 'x';
    value[16384] = 0;
    int32_t id = submit_with(f, "x", value);
    exchange(f);
    expect_status(f, id, "431", "8", "the header list is longer than 16384 bytes");
}

/* ---- messages -------------------------------------------------------------------------------- */

static size_t gzip(const void *bytes, size_t len, uint8_t *to, size_t size)
{
    z_stream z = {.next_in = (uint8_t *)bytes, .avail_in = (unsigned)len};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
    z.next_out = to;
    z.avail_out = (unsigned)size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t packed = size - z.avail_out;
    deflateEnd(&z);
    return packed;
}

/* Submits a call of Echo with a compressed message. */
static int32_t submit_packed(fixture *f, const char *encoding, const void *message, size_t len)
{
    static uint8_t body[4096];
    const nghttp2_nv fields[] = {MAKE_FIELD(":method", "POST"),
                                 MAKE_FIELD(":scheme", "http"),
                                 MAKE_FIELD(":authority", "a"),
                                 MAKE_FIELD(":path", ECHO),
                                 MAKE_FIELD("content-type", "application/grpc"),
                                 MAKE_FIELD("grpc-encoding", encoding)};
    len = frame_message(body, message, len);
    body[0] = 1;
    return submit(f, fields, sizeof fields / sizeof fields[0], body, len);
}

static void compressed_messages(void **state)
{
    fixture *f = *state;
    uint8_t packed[2048];
    static uint8_t big[65537];
    size_t len = gzip("hello", 5, packed, sizeof packed);
    int32_t good = submit_packed(f, "gzip", packed, len);
    int32_t none = submit_packed(f, "identity", packed, len);
    int32_t other = submit_packed(f, "snappy", packed, len);
    int32_t cut = submit_packed(f, "gzip", packed, len - 9);
    int32_t wrong = submit_packed(f, "gzip", "hello", 5);
    exchange(f);
    expect_message(f, good, "hello");
    expect_status(f, none, "200", "13", "found a compressed message without grpc-encoding");
    expect_status(f, other, "200", "12", "unsupported grpc-encoding, expected identity or gzip");
    assert_string_equal(response_of(f, other)->accept_encoding, "identity,gzip");
    expect_status(f, cut, "200", "13", "cannot decompress the message");
    expect_status(f, wrong, "200", "13", "cannot decompress the message");
    int32_t fits = submit_packed(f, "gzip", packed, gzip(big, 65536, packed, sizeof packed));
    exchange(f);
    assert_int_equal(response_of(f, fits)->body_len, 65541);
    int32_t bomb = submit_packed(f, "gzip", packed, gzip(big, 65537, packed, sizeof packed));
    exchange(f);
    expect_status(f, bomb, "200", "8", "the message is longer than 65536 bytes");
}

/* Begins a request, which stays open. The bytes of the body must not change until they are sent. */
static void begin(fixture *f, const char *encoding, const void *body, size_t len)
{
    nghttp2_data_provider data = {.read_callback = read_body_part};
    const nghttp2_nv fields[] = {
        MAKE_FIELD(":method", "POST"),         MAKE_FIELD(":scheme", "http"),
        MAKE_FIELD(":authority", "a"),         MAKE_FIELD(":path", ECHO),
        MAKE_FIELD("grpc-encoding", encoding), MAKE_FIELD("content-type", "application/grpc")};
    f->sending = body;
    f->sending_len = len;
    assert_true(nghttp2_submit_request(f->client, NULL, fields, 6, &data, NULL) > 0);
    client_sends(f);
    assert_int_equal(f->sending_len, 0);
}

/* Messages in pieces are kept, up to 1 MiB in a connection. */
static void incomplete_messages_are_limited(void **state)
{
    fixture *f = *state;
    uint8_t body[6] = {0, 0, 1, 0, 0, 'x'}; /* announces 65,536 bytes */
    exchange(f);
    size_t before = weir_grpc_session_usage(&f->session).bytes;
    for (int i = 0; i < 20; i++) {
        begin(f, "identity", body, sizeof body);
        exchange(f);
    }
    size_t bytes = weir_grpc_session_usage(&f->session).bytes - before;
    assert_true(bytes > 1 << 20 && bytes < (1 << 20) + 65536);
    assert_true(weir_grpc_session_usage(&f->session).mid_request);
    for (int i = 0; i < 20; i++)
        assert_string_equal(f->responses[i].status, i < 16 ? "" : "8");
}

/* The same limit is for complete messages of requests that have not ended, also after gzip. */
static void open_requests_are_limited(void **state)
{
    fixture *f = *state;
    static uint8_t packed[2048], plain[65536], body[16384];
    size_t packed_len = gzip(plain, sizeof plain, packed, sizeof packed);
    for (int gzipped = 0; gzipped < 2; gzipped++) {
        size_t len = gzipped ? frame_message(body, packed, packed_len)
                             : frame_message(body, plain, sizeof body - 5);
        body[0] = (uint8_t)gzipped;
        exchange(f);
        size_t most = 0;
        for (int i = 0; i < 200; i++) {
            begin(f, gzipped ? "gzip" : "identity", body, len);
            if (!gzipped || i % 10 == 9) /* flow control allows few long messages in a run */
                exchange(f);
            size_t bytes = weir_grpc_session_usage(&f->session).bytes;
            most = bytes > most ? bytes : most;
        }
        assert_in_range(most, 1 << 20, 3 << 19);
        assert_string_equal(f->responses[199].status, "8");
        assert_string_equal(f->responses[0].status, "");
        close_session(f);
        open_session(f);
    }
}

/* A request that stays incomplete is refused, though the client goes on with others. */
static void requests_must_be_complete_in_time(void **state)
{
    fixture *f = *state;
    exchange(f);
    begin(f, "identity", "\0\0\0", 3);
    exchange(f);
    f->now_ns += 29 * s_ns;
    int32_t other = submit_call(f, ECHO, "hello");
    exchange(f);
    expect_message(f, other, "hello");
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    f->now_ns += s_ns;
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, false));
    run_once(f);
    expect_status(f, 1, "200", "4", "the request was not complete in time");
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    assert_false(weir_grpc_session_usage(&f->session).mid_request);
}

/* ---- floods ---------------------------------------------------------------------------------- */

/* Sends the same frame until the session closes. Returns how often, up to 200,000. */
static size_t flood(fixture *f, const void *frame, size_t len)
{
    size_t sent = 0;
    exchange(f);
    while (sent < 200000) {
        for (int i = 0; i < 500; i++)
            weir_buffer_append(&f->in, frame, len);
        sent += 500;
        f->step = weir_grpc_session_run(&f->session, &f->in, &f->out, 1 << 20, f->now_ns);
        f->now_ns += s_ns / 1000;
        if (f->step.next == WEIR_SESSION_CLOSE)
            break;
        weir_buffer_clear(&f->out);
    }
    return sent;
}

static void floods_end_the_connection(void **state)
{
    static const struct {
        const char *name;
        char frame[16];
        size_t len;
    } cases[] = {
        {"PING",
         "\0\0\x08\6\0\0\0\0\0"
         "1234567",
         17 - 1},
        {"SETTINGS", "\0\0\0\4\0\0\0\0\0", 9},
        {"PRIORITY", "\0\0\5\2\0\0\0\0\x09\0\0\0\3\1", 14},
        {"WINDOW_UPDATE", "\0\0\4\x08\0\0\0\0\0\0\0\0\1", 13},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char frame[32];
        size_t len = cases[i].len;
        memcpy(frame, cases[i].frame, len);
        if (i == 0)
            frame[len++] = '8';
        size_t sent = flood(f, frame, len);
        if (sent > 20000 || f->step.next != WEIR_SESSION_CLOSE)
            print_error("%s: %zu frames\n", cases[i].name, sent);
        assert_in_range(sent, 10000, 20000);
        size_t out = weir_buffer_len(&f->out);
        assert_true(out > 0);
        look_at_output(f);
        assert_true(f->goaway);
        assert_int_equal(f->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
        close_session(f);
        open_session(f);
    }
}

/* A byte of a header block can refer to a field of 3,900 bytes. */
static void long_heads_end_the_connection(void **state)
{
    static const uint8_t begin[] = {0x83, 0x86, 0x84, 0x40, 1, 'x', 0x7F, 0xBD, 0x1D};
    enum { VALUE = 3900, REFERENCES = 1000, LEN = (int)sizeof begin + VALUE + REFERENCES };
    fixture *f = *state;
    uint8_t frame[9 + LEN] = {0, LEN >> 8, LEN & 255, NGHTTP2_HEADERS, 5, 0, 0, 0, 0};
    memcpy(frame + 9, begin, sizeof begin);
    memset(frame + 9 + sizeof begin, 'v', VALUE);
    memset(frame + 9 + sizeof begin + VALUE, 0xBE, REFERENCES);
    exchange(f);
    size_t calls = 0;
    for (; !f->goaway && calls < 100; calls++) {
        frame[8] = (uint8_t)(2 * calls + 1); /* the stream */
        weir_buffer_append(&f->in, frame, sizeof frame);
        weir_grpc_session_run(&f->session, &f->in, &f->out, 1 << 20, f->now_ns);
        look_at_output(f);
        weir_buffer_clear(&f->out);
    }
    assert_in_range(calls, 5, 15);
    assert_int_equal(f->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* The client resets each stream at once: CVE-2023-44487. */
static void rapid_reset_ends_the_connection(void **state)
{
    fixture *f = *state;
    size_t opened = 0;
    exchange(f);
    for (; !f->goaway && opened < STREAMS / 2; opened++) {
        int32_t id = submit_call(f, ECHO, "x");
        nghttp2_submit_rst_stream(f->client, 0, id, NGHTTP2_CANCEL);
        exchange(f);
    }
    assert_true(f->goaway);
    assert_int_equal(f->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_in_range(opened, 3000, 6000);
    assert_true(f->app.calls <= 1); /* calls that are cancelled at once are not decided */
}

/* A client that cancels every call after a while is no flood. */
static void cancelled_calls_are_no_flood(void **state)
{
    fixture *f = *state;
    exchange(f);
    for (int i = 0; i < STREAMS - 1; i++) {
        int32_t id = submit_call(f, ECHO, "x");
        run_once(f);
        nghttp2_submit_rst_stream(f->client, 0, id, NGHTTP2_CANCEL);
        for (int ping = 0; ping < 3; ping++)
            nghttp2_submit_ping(f->client, 0, NULL);
        exchange(f);
    }
    assert_int_equal(f->app.calls, STREAMS - 1);
    assert_false(f->goaway);
}

/* ---- slow readers ---------------------------------------------------------------------------- */

static void forbid_replies(fixture *f)
{
    nghttp2_settings_entry none = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    exchange(f);
    nghttp2_submit_settings(f->client, 0, &none, 1);
    exchange(f);
}

static void unread_replies_are_limited(void **state)
{
    fixture *f = *state;
    static uint8_t message[4000], body[4005];
    size_t len = frame_message(body, message, sizeof message);
    forbid_replies(f);
    size_t calls = 0, most = 0;
    for (; !f->goaway && calls < 1000; calls++) {
        submit_body(f, ECHO, body, len);
        exchange(f);
        size_t bytes = weir_grpc_session_usage(&f->session).bytes;
        most = bytes > most ? bytes : most;
    }
    assert_in_range(calls, 250, 300); /* 1 MiB */
    assert_int_equal(f->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(most < 2 << 20);
}

static void replies_must_be_read_in_time(void **state)
{
    fixture *f = *state;
    forbid_replies(f);
    submit_call(f, ECHO, "hello");
    exchange(f);
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    f->now_ns += 29 * s_ns;
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    nghttp2_submit_window_update(f->client, 0, 1, 1); /* progress */
    client_sends(f);
    run_once(f);
    assert_int_equal(response_of(f, 1)->body_len, 1);
    f->now_ns += 29 * s_ns;
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    f->now_ns += s_ns;
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, false));
    assert_int_equal(run_once(f), WEIR_SESSION_CLOSE);
    assert_int_equal(f->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* ---- many streams, and idle connections ------------------------------------------------------ */

static void a_thousand_streams(void **state)
{
    fixture *f = *state;
    exchange(f);
    f->app.pending = true;
    for (int i = 0; i < 1000; i++)
        submit_call(f, ECHO, "hello");
    assert_int_equal(exchange(f), WEIR_SESSION_PENDING);
    f->app.pending = false;
    f->app.wake(f->app.wake_ctx);
    exchange(f);
    for (int i = 0; i < 1000; i++)
        expect_message(f, 1 + 2 * i, "hello");
    assert_int_equal(f->app.calls, 1000);
    assert_int_equal(f->app.biggest, 64);
}

static void idle_connections_are_small(void **state)
{
    fixture *f = *state;
    exchange(f);
    size_t before = weir_grpc_session_usage(&f->session).bytes;
    for (int i = 0; i < 500; i++)
        submit_call(f, ECHO, "hello");
    exchange(f);
    size_t after = weir_grpc_session_usage(&f->session).bytes;
    print_message("an idle connection has %zu bytes, and %zu after many calls\n", before, after);
    assert_true(before < 32 << 10);
    assert_true(after < 64 << 10);
    assert_false(weir_grpc_session_usage(&f->session).mid_request);
}

/* ---- the end of a connection ----------------------------------------------------------------- */

/* A server that stops answers the calls that are on their way, and then closes. */
static void a_stopping_server_loses_no_call(void **state)
{
    fixture *f = *state;
    exchange(f);
    f->app.pending = true;
    int32_t first = submit_call(f, ECHO, "first");
    assert_int_equal(exchange(f), WEIR_SESSION_PENDING);
    f->app.pending = false;
    f->app.wake(f->app.wake_ctx);
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, true));
    int32_t second = submit_call(f, ECHO, "second"); /* before the client has seen GOAWAY */
    assert_int_equal(run_once(f), WEIR_SESSION_READ);
    expect_message(f, first, "first");
    assert_true(f->goaway);
    assert_int_equal(f->goaway_last_id, INT32_MAX);
    assert_false(
        weir_grpc_session_poll(&f->session, f->now_ns, true)); /* until the PING is answered */
    assert_int_equal(exchange(f), WEIR_SESSION_CLOSE);
    expect_message(f, second, "second");
    assert_int_equal(f->goaway_last_id, second);
    assert_int_equal(f->goaway_code, NGHTTP2_NO_ERROR);
}

static void silent_clients_are_closed(void **state)
{
    fixture *f = *state;
    exchange(f);
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, true));
    assert_int_equal(run_once(f), WEIR_SESSION_READ); /* the client does not answer */
    f->now_ns += s_ns - 1;
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, true));
    f->now_ns++;
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, true));
    assert_int_equal(run_once(f), WEIR_SESSION_CLOSE);
}

/* The age of connections differs by up to 10 %. */
static void old_connections_are_ended(void **state)
{
    fixture *f = *state;
    int64_t least = INT64_MAX, most = 0;
    f->options.max_age_ns = 1000 * s_ns;
    f->options.max_age_grace_ns = 10 * s_ns;
    for (int i = 0; i < 50; i++) {
        close_session(f);
        open_session(f);
        exchange(f);
        int64_t age_s = 0, born_ns = f->now_ns;
        while (!weir_grpc_session_poll(&f->session, f->now_ns, false))
            f->now_ns = born_ns + ++age_s * s_ns;
        least = age_s < least ? age_s : least;
        most = age_s > most ? age_s : most;
        f->app.pending = true; /* the grace is for a call that is being decided */
        submit_call(f, ECHO, "late");
        run_once(f);
        f->app.pending = false;
        assert_true(f->goaway);
        f->app.wake(f->app.wake_ctx);
        assert_int_equal(exchange(f), WEIR_SESSION_CLOSE);
        expect_message(f, 1, "late");
    }
    assert_in_range(least, 900, 950);
    assert_in_range(most, 1050, 1101);
}

static void grace_is_limited(void **state)
{
    fixture *f = *state;
    f->options.max_age_ns = 1000 * s_ns;
    f->options.max_age_grace_ns = 10 * s_ns;
    close_session(f);
    open_session(f);
    forbid_replies(f);
    f->now_ns += 1100 * s_ns;
    submit_call(f, ECHO, "blocked");
    exchange(f);
    exchange(f);
    assert_int_equal(f->goaway_last_id, 1);
    f->now_ns += 10 * s_ns - 1;
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    f->now_ns++;
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, false));
    assert_int_equal(run_once(f), WEIR_SESSION_CLOSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_must_be_grpc),
        TEST(deadlines),
        TEST(deadlines_pass_while_an_engine_is_pending),
        TEST(passwords),
        TEST(rights),
        TEST(rights_are_checked_when_the_request_is_complete),
        TEST(a_request_has_one_password),
        TEST(head_lists_are_limited),
        TEST(compressed_messages),
        TEST(incomplete_messages_are_limited),
        TEST(open_requests_are_limited),
        TEST(requests_must_be_complete_in_time),
        TEST(floods_end_the_connection),
        TEST(long_heads_end_the_connection),
        TEST(rapid_reset_ends_the_connection),
        TEST(cancelled_calls_are_no_flood),
        TEST(unread_replies_are_limited),
        TEST(replies_must_be_read_in_time),
        TEST(a_thousand_streams),
        TEST(idle_connections_are_small),
        TEST(a_stopping_server_loses_no_call),
        TEST(silent_clients_are_closed),
        TEST(old_connections_are_ended),
        TEST(grace_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
