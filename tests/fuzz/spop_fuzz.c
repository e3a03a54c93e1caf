/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: a connection of HAProxy. For any input, the session answers or disconnects, and
 * its output consists of whole frames. The answers do not depend on how the input was split, on how
 * little output is taken at once, nor on whether an engine has the states and replies late. The
 * first byte selects how the rest is sent, the second the split. */

#include "daemon.h"

#include "codec/spop/kit_test.h"
#include "codec/spop/session.h"

enum {
    OUT_MAX = 1 << 24,
    ALL_HEADERS = 31,
    GREETED = 1,  /* a HELLO frame comes before the input */
    PAYLOADS = 2, /* the input is payloads of NOTIFY frames, each after its length, a byte */
    STOPPING = 4, /* the server stops after the input */
};

static void is_ready(void *ctx)
{
    ++*(size_t *)ctx;
}

static fuzz_daemon *daemon_begin(bool engine)
{
    static const char *const rules[3][2] = {
        {"a", "gcra 1/s burst 5"},
        {"q", "leaky-queue 10/s depth 3"},
        {"s",
         "fixed-window 1/m & sliding-log 3/h"}}; /* a counted denial may change an earlier next */
    weir_rule_spec specs[3];
    for (int i = 0; i < 3; i++) {
        specs[i] = WEIR_RULE_SPEC_DEFAULT;
        specs[i].name = rules[i][0];
        specs[i].limit = rules[i][1];
        specs[i].shadow = i == 2;
    }
    return fuzz_daemon_begin(engine, false, specs, 3);
}

/* The messages, whose sets are the same at each call. */
static weir_spop *messages_open(void)
{
    static const weir_spop_spec specs[] = {
        {.name = "check-client", .policy = "a", .key = "$src", .cost = "$cost"},
        {.name = "check-all", .policy = "s", .key = "$src/$path"},
        {.name = "m", .policy = "q"},
        {.name = "n", .policy = "$p", .key = "$k", .cost = "2"},
    };
    weir_spop_messages *m;
    weir_spop *s = weir_spop_open();
    CHECK(s && weir_spop_messages_build(&m, specs, sizeof specs / sizeof specs[0],
                                        WEIR_SPOP_ALL_VARIABLES) == WEIR_OK);
    weir_spop_activate(s, m, NULL, NULL);
    weir_spop_messages_drop(m);
    return s;
}

/* Makes the bytes that HAProxy sends. */
static void make_input(const uint8_t *bytes, size_t len, unsigned choice, weir_buffer *ret)
{
    static const char hello[] = HELLO;
    weir_buffer_init(ret, 1 << 21);
    if (choice & (GREETED | PAYLOADS))
        weir_buffer_append(ret, hello, sizeof hello - 1);
    if (!(choice & PAYLOADS)) {
        weir_buffer_append(ret, bytes, len);
        return;
    }
    for (size_t at = 0; at < len;) {
        size_t left = len - at - 1, n = bytes[at] < left ? bytes[at] : left;
        size_t frame = begin_frame(ret, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN, (unsigned)at % 240, 1);
        weir_buffer_append(ret, bytes + at + 1, n);
        end_frame(ret, frame);
        at += 1 + n;
    }
}

/* Runs the session until it needs more input. Returns whether it closed. */
static bool run(fuzz_daemon *d, weir_spop_session *s, weir_buffer *in, weir_buffer *output,
                size_t out_pause)
{
    const int64_t now_ns = 1767225600000000000;
    weir_buffer out;
    weir_session_step step;
    weir_buffer_init(&out, OUT_MAX);
    do {
        step = weir_spop_session_run(s, in, &out, out_pause, now_ns);
        /* Without progress, the connection would call it forever. */
        CHECK(step.next != WEIR_SESSION_AGAIN || weir_buffer_len(&out) > 0);
        CHECK(step.next != WEIR_SESSION_PENDING ||
              weir_spop_session_run(s, in, &out, out_pause, now_ns).next == WEIR_SESSION_PENDING);
        if (step.next == WEIR_SESSION_PENDING)
            fake_reply(d->fake, 0, now_ns);
        weir_buffer_append(output, weir_buffer_data(&out), weir_buffer_len(&out));
        weir_buffer_clear(&out);
    } while (step.next != WEIR_SESSION_READ && step.next != WEIR_SESSION_CLOSE);
    weir_buffer_free(&out);
    return step.next == WEIR_SESSION_CLOSE;
}

static void serve(const weir_buffer *input, unsigned choice, size_t step, size_t out_pause,
                  bool engine, weir_buffer *output)
{
    fuzz_daemon *d = daemon_begin(engine);
    weir_spop *spop = messages_open();
    const weir_spop_options options = {.service = d->service, .loop = weir_spop_loop_open(spop)};
    const uint8_t *bytes = weir_buffer_data(input);
    size_t len = weir_buffer_len(input), ready = 0;
    weir_spop_session session;
    weir_buffer in;
    weir_buffer_init(&in, 1 << 21);
    weir_buffer_init(output, OUT_MAX);
    weir_spop_session_init(&session, &options);
    const weir_answer answer = {.headers = choice >> 3 & ALL_HEADERS};
    session.answer = &answer;
    session.completion.ready = is_ready;
    session.completion.ctx = &ready;
    for (size_t at = 0; at < len; at += step) {
        size_t n = len - at < step ? len - at : step;
        uint8_t *piece = exact_copy(bytes + at, n);
        weir_buffer_append(&in, piece, n);
        free(piece);
        if (run(d, &session, &in, output, out_pause))
            break;
        CHECK(weir_buffer_len(&in) <= WEIR_SPOP_FRAME_MAX + WEIR_SPOP_PREFIX);
    }
    if (choice & STOPPING && !session.closing) {
        /* At the latest, it ends at the second poll. */
        CHECK(weir_spop_session_poll(&session, INT64_MAX, true) == session.greeted);
        CHECK(weir_spop_session_poll(&session, INT64_MAX, true));
        CHECK(run(d, &session, &in, output, out_pause));
    }
    weir_spop_session_close(&session);
    weir_spop_loop_close(options.loop);
    weir_spop_close(spop);
    weir_buffer_free(&in);
    fuzz_daemon_end(d);
}

static void check_frames(const weir_buffer *output)
{
    const uint8_t *at = weir_buffer_data(output);
    for (size_t left = weir_buffer_len(output); left > 0;) {
        CHECK(left > WEIR_SPOP_PREFIX && at[0] == 0 && at[1] == 0);
        size_t len = (size_t)at[2] << 8 | at[3];
        weir_spop_reader r = {at + WEIR_SPOP_PREFIX, at + WEIR_SPOP_PREFIX + len};
        weir_spop_frame frame;
        CHECK(len <= left - WEIR_SPOP_PREFIX && len <= WEIR_SPOP_FRAME_MAX);
        CHECK(weir_spop_read_frame(&r, &frame));
        CHECK(frame.type >= WEIR_SPOP_AGENT_HELLO && frame.type <= WEIR_SPOP_ACK);
        CHECK((frame.flags & WEIR_SPOP_FIN) && frame.flags <= (WEIR_SPOP_FIN | WEIR_SPOP_ABORT));
        at += WEIR_SPOP_PREFIX + len;
        left -= WEIR_SPOP_PREFIX + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len < 3)
        return 0;
    session_runs r;
    weir_buffer input;
    unsigned choice = bytes[0];
    size_t step = 1 + bytes[1] % 64, out_pause = 1 + bytes[1] / 4;
    make_input(bytes + 2, len - 2, choice, &input);
    size_t all = weir_buffer_len(&input);
    serve(&input, choice, all, 1 << 16, false, &r.whole);
    serve(&input, choice, step, out_pause, false, &r.pieces);
    serve(&input, choice, all, 1 << 16, true, &r.engine_whole);
    serve(&input, choice, step, out_pause, true, &r.engine_pieces);
    check_frames(&r.whole);
    check_runs(&r, false);
    weir_buffer_free(&input);
    return 0;
}
