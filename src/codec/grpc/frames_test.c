/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Frames that violate HTTP/2 (RFC 9113), and unusual ones that do not: what a session answers to
 * the bytes. Each case begins with the connection preface and SETTINGS. */

#include "codec/grpc/kit_test.h"

/* ---- frames ---------------------------------------------------------------------------------- */

enum {
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, PADDED = 8, PRIORITISED = 32 };

/* Appends a frame. */
static void put(weir_buffer *b, unsigned type, unsigned flags, uint32_t id, const void *payload,
                size_t len)
{
    const uint8_t head[9] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,
                             (uint8_t)type,        (uint8_t)flags,      (uint8_t)(id >> 24),
                             (uint8_t)(id >> 16),  (uint8_t)(id >> 8),  (uint8_t)id};
    weir_buffer_append(b, head, sizeof head);
    weir_buffer_append(b, payload, len);
}

/* Fields of HPACK: literals that are not indexed. */
#define POST "\x83"
#define HTTP "\x86\x01\1a"
#define PATH "\x04\x12/test.Service/Echo"
#define TYPE                                                                                       \
    "\x0f\x10\x10"                                                                                 \
    "application/grpc"
#define REQUEST POST HTTP PATH TYPE
#define MESSAGE "\0\0\0\0\5hello"
#define TEXT(s) (s), sizeof(s) - 1

static void put_head(weir_buffer *b, uint32_t id)
{
    put(b, HEADERS, END_HEADERS, id, TEXT(REQUEST));
}

static void put_message(weir_buffer *b, uint32_t id)
{
    put(b, DATA, END_STREAM, id, TEXT(MESSAGE));
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void plain(weir_buffer *b)
{
    put_head(b, 1);
    put_message(b, 1);
}

static void padded(weir_buffer *b)
{
    put(b, HEADERS, END_HEADERS | PADDED, 1, TEXT("\3" REQUEST "\0\0\0"));
    put(b, DATA, END_STREAM | PADDED, 1, TEXT("\3" MESSAGE "\0\0\0"));
}

static void prioritised(weir_buffer *b)
{
    put(b, HEADERS, END_HEADERS | PRIORITISED, 1, TEXT("\0\0\0\0\x0f" REQUEST));
    put(b, PRIORITY, 0, 1, TEXT("\0\0\0\0\x0f"));
    put_message(b, 1);
}

static void continued(weir_buffer *b)
{
    put(b, HEADERS, 0, 1, TEXT(POST HTTP));
    put(b, CONTINUATION, 0, 1, TEXT(""));
    put(b, CONTINUATION, END_HEADERS, 1, TEXT(PATH TYPE));
    put_message(b, 1);
}

static void in_pieces(weir_buffer *b)
{
    put_head(b, 1);
    for (size_t i = 0; i < sizeof MESSAGE - 1; i++)
        put(b, DATA, 0, 1, &MESSAGE[i], 1);
    put(b, DATA, END_STREAM, 1, TEXT(""));
}

static void with_trailers(weir_buffer *b)
{
    put_head(b, 1);
    put(b, DATA, 0, 1, TEXT(MESSAGE));
    put(b, HEADERS, END_HEADERS | END_STREAM, 1, TEXT("\0\1x\1y"));
}

static void unknown_frames(weir_buffer *b)
{
    put(b, 0x77, 0xff, 0, TEXT("anything"));
    put_head(b, 1);
    put(b, 0x77, 0xff, 1, TEXT(""));
    put_message(b, 1);
}

static void unknown_settings(weir_buffer *b)
{
    put(b, SETTINGS, 0, 0, TEXT("\x77\x77\1\2\3\4"));
    plain(b);
}

static void with_reserved_bit(weir_buffer *b)
{
    put_head(b, 0x80000001U);
    put_message(b, 1);
}

static void interleaved(weir_buffer *b)
{
    put_head(b, 1);
    put_head(b, 3);
    put_message(b, 3);
    put_message(b, 1);
}

static void reset(weir_buffer *b)
{
    put_head(b, 1);
    put(b, RST_STREAM, 0, 1, TEXT("\0\0\0\x08"));
    put_head(b, 3);
    put_message(b, 3);
}

static void wrong_settings_preface(weir_buffer *b)
{
    weir_buffer_clear(b);
    weir_buffer_append(b, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put(b, PING, 0, 0, TEXT("12345678"));
}

static void too_long_frame(weir_buffer *b)
{
    static const char bytes[16385];
    put_head(b, 1);
    put(b, DATA, 0, 1, bytes, sizeof bytes);
}

static void data_on_0(weir_buffer *b)
{
    put(b, DATA, 0, 0, TEXT("x"));
}
static void headers_on_0(weir_buffer *b)
{
    put(b, HEADERS, END_HEADERS, 0, TEXT(REQUEST));
}
static void reset_on_0(weir_buffer *b)
{
    put(b, RST_STREAM, 0, 0, TEXT("\0\0\0\0"));
}
static void ping_on_1(weir_buffer *b)
{
    put(b, PING, 0, 1, TEXT("12345678"));
}
static void short_ping(weir_buffer *b)
{
    put(b, PING, 0, 0, TEXT("1234567"));
}
static void settings_on_1(weir_buffer *b)
{
    put(b, SETTINGS, 0, 1, TEXT(""));
}
static void settings_of_5(weir_buffer *b)
{
    put(b, SETTINGS, 0, 0, TEXT("\0\1\0\0\0"));
}
static void ack_with_bytes(weir_buffer *b)
{
    put(b, SETTINGS, ACK, 0, TEXT("\0\1\0\0\0\0"));
}
static void push(weir_buffer *b)
{
    put(b, PUSH_PROMISE, END_HEADERS, 1, TEXT("\0\0\0\2" REQUEST));
}
static void goaway_on_1(weir_buffer *b)
{
    put(b, GOAWAY, 0, 1, TEXT("\0\0\0\0\0\0\0\0"));
}
static void window_0(weir_buffer *b)
{
    put(b, WINDOW_UPDATE, 0, 0, TEXT("\0\0\0\0"));
}
static void short_window(weir_buffer *b)
{
    put(b, WINDOW_UPDATE, 0, 0, TEXT("\0\0\1"));
}
static void lone_continuation(weir_buffer *b)
{
    put(b, CONTINUATION, 4, 1, TEXT(REQUEST));
}
static void even_stream(weir_buffer *b)
{
    put_head(b, 2);
}
static void data_on_idle(weir_buffer *b)
{
    put_message(b, 1);
}
static void reset_on_idle(weir_buffer *b)
{
    put(b, RST_STREAM, 0, 1, TEXT("\0\0\0\0"));
}
static void window_on_idle(weir_buffer *b)
{
    put(b, WINDOW_UPDATE, 0, 1, TEXT("\0\0\0\1"));
}

static void window_overflow(weir_buffer *b)
{
    put(b, WINDOW_UPDATE, 0, 0, TEXT("\x7f\xff\xff\xff"));
}

static void initial_window_overflow(weir_buffer *b)
{
    put(b, SETTINGS, 0, 0, TEXT("\0\4\x80\0\0\0"));
}

static void frame_size_too_small(weir_buffer *b)
{
    put(b, SETTINGS, 0, 0, TEXT("\0\5\0\0\x3f\xff"));
}

static void push_enabled_twice(weir_buffer *b)
{
    put(b, SETTINGS, 0, 0, TEXT("\0\2\0\0\0\2"));
}

static void interrupted_head(weir_buffer *b)
{
    put(b, HEADERS, 0, 1, TEXT(POST));
    put(b, PING, 0, 0, TEXT("12345678"));
}

static void continuation_of_another(weir_buffer *b)
{
    put(b, HEADERS, 0, 1, TEXT(POST));
    put(b, CONTINUATION, END_HEADERS, 3, TEXT(HTTP PATH TYPE));
}

static void many_continuations(weir_buffer *b)
{
    put(b, HEADERS, 0, 1, TEXT(REQUEST));
    for (int i = 0; i < 2000; i++)
        put(b, CONTINUATION, 0, 1, TEXT("\0\1x\1y"));
}

static void too_much_padding(weir_buffer *b)
{
    put_head(b, 1);
    put(b, DATA, PADDED, 1,
        TEXT("\x09"
             "12345678"));
}

static void bad_compression(weir_buffer *b)
{
    put(b, HEADERS, END_HEADERS, 1, TEXT("\xff\xff\xff\xff\xff"));
}

static void decreasing_stream(weir_buffer *b)
{
    put_head(b, 5);
    put_message(b, 5);
    put_head(b, 3);
}

/* The response is blocked by flow control, so that the stream is not closed yet. */
static void data_after_end(weir_buffer *b)
{
    put(b, SETTINGS, 0, 0, TEXT("\0\4\0\0\0\0"));
    plain(b);
    put_message(b, 1);
}

static void table_too_large(weir_buffer *b)
{
    put(b, HEADERS, END_HEADERS, 1, TEXT("\x3f\xe2\x1f" REQUEST)); /* 4,097 bytes */
}

/* Requests that are no HTTP: the stream is reset. */
static void put_and_more(weir_buffer *b, const char *head, size_t len)
{
    put(b, HEADERS, END_HEADERS, 1, head, len);
    put_message(b, 1);
    put_head(b, 3);
    put_message(b, 3);
}

static void upper_case(weir_buffer *b)
{
    put_and_more(b, TEXT(REQUEST "\0\1X\1y"));
}
static void no_path(weir_buffer *b)
{
    put_and_more(b, TEXT(POST HTTP TYPE));
}
static void two_paths(weir_buffer *b)
{
    put_and_more(b, TEXT(POST HTTP PATH PATH TYPE));
}
static void late_path(weir_buffer *b)
{
    put_and_more(b, TEXT(POST HTTP TYPE PATH));
}
static void own_pseudo(weir_buffer *b)
{
    put_and_more(b, TEXT(REQUEST "\0\2:x\1y"));
}
static void connection_field(weir_buffer *b)
{
    put_and_more(b, TEXT(REQUEST "\0\x0a"
                                 "connection\5close"));
}
static void wrong_te(weir_buffer *b)
{
    put_and_more(b, TEXT(REQUEST "\0\2te\4gzip"));
}

static void wrong_content_length(weir_buffer *b)
{
    put_and_more(b, TEXT(REQUEST "\x0f\x0d\1"
                                 "9"));
}

static void zero_window_of_stream(weir_buffer *b)
{
    put_head(b, 1);
    put(b, WINDOW_UPDATE, 0, 1, TEXT("\0\0\0\0"));
    put_head(b, 3);
    put_message(b, 3);
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { LIVES = -1, ANY = -2 };

static const struct {
    const char *name;
    void (*put)(weir_buffer *b);
    size_t answered; /* calls */
    int code;        /* of GOAWAY; ANY: some error; LIVES: the connection stays open */
} cases[] = {
    {"plain", plain, 1, LIVES},
    {"padded", padded, 1, LIVES},
    {"prioritised", prioritised, 1, LIVES},
    {"continued", continued, 1, LIVES},
    {"in pieces", in_pieces, 1, LIVES},
    {"with trailers", with_trailers, 1, LIVES},
    {"unknown frames", unknown_frames, 1, LIVES},
    {"unknown settings", unknown_settings, 1, LIVES},
    {"with the reserved bit", with_reserved_bit, 1, LIVES},
    {"interleaved", interleaved, 2, LIVES},
    {"reset", reset, 1, LIVES},
    {"the preface lacks SETTINGS", wrong_settings_preface, 0, ANY},
    {"a too long frame", too_long_frame, 0, NGHTTP2_FRAME_SIZE_ERROR},
    {"DATA on stream 0", data_on_0, 0, NGHTTP2_PROTOCOL_ERROR},
    {"HEADERS on stream 0", headers_on_0, 0, NGHTTP2_PROTOCOL_ERROR},
    {"RST_STREAM on stream 0", reset_on_0, 0, NGHTTP2_PROTOCOL_ERROR},
    {"PING on stream 1", ping_on_1, 0, NGHTTP2_PROTOCOL_ERROR},
    {"a short PING", short_ping, 0, NGHTTP2_FRAME_SIZE_ERROR},
    {"SETTINGS on stream 1", settings_on_1, 0, NGHTTP2_PROTOCOL_ERROR},
    {"SETTINGS of 5 bytes", settings_of_5, 0, NGHTTP2_FRAME_SIZE_ERROR},
    {"SETTINGS ACK with bytes", ack_with_bytes, 0, NGHTTP2_FRAME_SIZE_ERROR},
    {"PUSH_PROMISE", push, 0, NGHTTP2_PROTOCOL_ERROR},
    {"GOAWAY on stream 1", goaway_on_1, 0, NGHTTP2_PROTOCOL_ERROR},
    {"WINDOW_UPDATE of 0", window_0, 0, NGHTTP2_PROTOCOL_ERROR},
    {"a short WINDOW_UPDATE", short_window, 0, NGHTTP2_FRAME_SIZE_ERROR},
    {"CONTINUATION without HEADERS", lone_continuation, 0, NGHTTP2_PROTOCOL_ERROR},
    {"an even stream", even_stream, 0, NGHTTP2_PROTOCOL_ERROR},
    {"DATA on an idle stream", data_on_idle, 0, NGHTTP2_PROTOCOL_ERROR},
    {"RST_STREAM on an idle stream", reset_on_idle, 0, NGHTTP2_PROTOCOL_ERROR},
    {"WINDOW_UPDATE on an idle stream", window_on_idle, 0, NGHTTP2_PROTOCOL_ERROR},
    {"window overflow", window_overflow, 0, NGHTTP2_FLOW_CONTROL_ERROR},
    {"initial window overflow", initial_window_overflow, 0, NGHTTP2_FLOW_CONTROL_ERROR},
    {"frame size too small", frame_size_too_small, 0, NGHTTP2_PROTOCOL_ERROR},
    {"ENABLE_PUSH 2", push_enabled_twice, 0, NGHTTP2_PROTOCOL_ERROR},
    {"interrupted HEADERS", interrupted_head, 0, NGHTTP2_PROTOCOL_ERROR},
    {"CONTINUATION of another stream", continuation_of_another, 0, NGHTTP2_PROTOCOL_ERROR},
    {"many CONTINUATION", many_continuations, 0, NGHTTP2_ENHANCE_YOUR_CALM},
    {"too much padding", too_much_padding, 0, NGHTTP2_PROTOCOL_ERROR},
    {"bad compression", bad_compression, 0, NGHTTP2_COMPRESSION_ERROR},
    {"a decreasing stream", decreasing_stream, 1, LIVES}, /* is ignored */
    {"DATA after END_STREAM", data_after_end, 1, NGHTTP2_STREAM_CLOSED},
    {"a table above the maximum", table_too_large, 0, NGHTTP2_COMPRESSION_ERROR},
    {"an upper-case name", upper_case, 1, LIVES},
    {"no :path", no_path, 1, LIVES},
    {"two :path", two_paths, 1, LIVES},
    {":path after other fields", late_path, 1, LIVES},
    {"an unknown pseudo-header", own_pseudo, 1, LIVES},
    {"the field connection", connection_field, 1, LIVES},
    {"te: gzip", wrong_te, 1, LIVES},
    {"a wrong content-length", wrong_content_length, 1, LIVES},
    {"WINDOW_UPDATE of 0 for a stream", zero_window_of_stream, 0, NGHTTP2_PROTOCOL_ERROR},
};

static void begin(fixture *f)
{
    close_session(f);
    open_session(f);
    f->app = (app){.opened = 1, .at_most = 0};
    weir_buffer_append(&f->in, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put(&f->in, SETTINGS, 0, 0, NULL, 0);
}

/* Runs the input, `step_len` bytes at a time, and looks at the output. Returns the last step. */
static weir_session_next run_all(fixture *f, size_t step_len)
{
    static uint8_t bytes[1 << 20];
    size_t len = weir_buffer_len(&f->in);
    weir_session_next next = WEIR_SESSION_READ;
    assert_true(len <= sizeof bytes);
    memcpy(bytes, weir_buffer_data(&f->in), len);
    weir_buffer_clear(&f->in);
    for (size_t at = 0; at < len && next == WEIR_SESSION_READ; at += step_len) {
        weir_buffer_append(&f->in, bytes + at, len - at < step_len ? len - at : step_len);
        next = weir_grpc_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, f->now_ns).next;
        look_at_output(f);
        weir_buffer_clear(&f->out);
    }
    weir_buffer_clear(&f->in);
    return next;
}

static void frames_are_checked(void **state)
{
    fixture *f = *state;
    size_t bad = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t step_len = 1; step_len <= 1 << 20; step_len <<= 10) {
            begin(f);
            cases[i].put(&f->in);
            weir_session_next next = run_all(f, step_len);
            bool lives = cases[i].code == LIVES;
            bool good = f->goaway == !lives && f->app.calls == cases[i].answered &&
                        next == (lives ? WEIR_SESSION_READ : WEIR_SESSION_CLOSE) &&
                        (cases[i].code < 0 || f->goaway_code == (uint32_t)cases[i].code);
            if (!good)
                print_error("%s, %zu at a time: answered %zu, next %d, goaway %d, code %u\n",
                            cases[i].name, step_len, f->app.calls, next, f->goaway, f->goaway_code);
            bad += !good;
        }
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(frames_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
