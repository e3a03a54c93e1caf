/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_SPOP_SESSION_KIT_TEST_H
#define WEIR_CODEC_SPOP_SESSION_KIT_TEST_H
/* A session of SPOP with a service and an engine that the test controls, and its output as text. */

#include "codec/spop/kit_test.h"
#include "codec/spop/session.h"
#include "service/fake_engine_test.h"
#include "service/users/kit_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define NOW_NS    INT64_C(1767225600000000000)
#define SECOND_NS INT64_C(1000000000)
#define BYTES(t)  t, sizeof(t) - 1

enum { OUT_PAUSE = 1 << 16, BUFFER_MAX = 1 << 22 };

typedef struct fixture {
    weir_store *store;
    weir_limiter *limiter;
    weir_service *service;
    weir_spop *spop;
    fake_engine *engine;
    users_kit users;
    weir_spop_options options;
    weir_spop_session session;
    weir_answer answer; /* of the listener */
    weir_buffer in, out;
    weir_buffer output; /* all output */
    int64_t now_ns;
    unsigned network_bits; /* of an IPv4 address, for the policy `network` */
    int ready;
    weir_session_next last;
} fixture;

/* ---- fixture --------------------------------------------------------------------------------- */

static const weir_spop_spec specs[] = {
    {.name = "check-client", .policy = "api", .key = "$src", .cost = "$cost"},
    {.name = "check-all", .policy = "wide", .key = "$src/$path"},
    {.name = "plain", .policy = "api"},
    {.name = "costly", .policy = "api", .cost = "$cost"},
    {.name = "named", .policy = "$policy", .key = "$key"},
    {.name = "fixed", .policy = "api", .cost = "2"},
    {.name = "kept", .policy = "api", .keep = WEIR_KEEP_PERCENT(60)},
    {.name = "narrow", .policy = "narrow"},
    {.name = "queue", .policy = "queue"},
    {.name = "shadow", .policy = "shadow"},
    {.name = "network", .policy = "network", .key = "$src/$path"},
    {.name = "long", .policy = "wide", .key = "$key/$key/$key/$key/$key/$key/$key/$key"},
    {.name = "whole", .policy = "api", .key = "$src"},
};

KIT void set_messages(fixture *f, const weir_spop_spec *at, size_t n)
{
    weir_spop_messages *m;
    assert_int_equal(weir_spop_messages_build(&m, at, n, WEIR_SPOP_ALL_VARIABLES), WEIR_OK);
    weir_spop_activate(f->spop, m, NULL, NULL);
    weir_spop_messages_drop(m);
}

KIT void set_rules(fixture *f, weir_engine_kind engine)
{
    static const char *const root = "root", *const evil = "evil", *const network = "10.9.0.0/16";
    static const struct {
        const char *name, *limit;
    } limits[] = {{"api", "gcra 1/s burst 5"},    {"wide", "fixed-window 100/m"},
                  {"narrow", "fixed-window 2/m"}, {"queue", "leaky-queue 10/s depth 2"},
                  {"shadow", "fixed-window 1/m"}, {"network", "fixed-window 1/m"}};
    enum { N = sizeof limits / sizeof limits[0] };
    weir_rule_spec rules[N];
    weir_rules *built;
    for (size_t i = 0; i < N; i++) {
        rules[i] = WEIR_RULE_SPEC_DEFAULT;
        rules[i].name = limits[i].name;
        rules[i].limit = limits[i].limit;
        rules[i].engine = engine;
    }
    rules[0].allow = &root;
    rules[0].deny = &evil;
    rules[0].allow_len = rules[0].deny_len = 1;
    rules[4].shadow = true;
    rules[5].deny = &network;
    rules[5].deny_len = 1;
    rules[5].v4_bits = f->network_bits;
    rules[5].answer = (weir_answer){.headers = WEIR_HEADERS_OPENAI, .unit = WEIR_UNIT_TOKENS};
    assert_int_equal(weir_rules_build(&built, f->store, NULL, rules, N), WEIR_OK);
    weir_limiter_configure(f->limiter, built, engine);
}

KIT void is_ready(void *ctx)
{
    ++*(int *)ctx;
}

KIT void open_session(fixture *f)
{
    weir_spop_session_init(&f->session, &f->options);
    f->session.answer = &f->answer;
    f->answer.headers = WEIR_HEADERS_NONE;
    f->session.completion.ready = is_ready;
    f->session.completion.ctx = &f->ready;
}

KIT fixture *fixture_new(weir_engine_kind engine)
{
    static const uint8_t secret[16] = {7};
    const weir_store_options store = {.memory_bytes = 1 << 20, .secret = secret};
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(weir_store_open(&f->store, &store), WEIR_OK);
    assert_int_equal(weir_limiter_open(&f->limiter, f->store, NULL), WEIR_OK);
    f->network_bits = 24;
    set_rules(f, engine);
    assert_int_equal(weir_service_open(&f->service, f->limiter), WEIR_OK);
    f->engine = fake_open();
    weir_service_set_engine(f->service, WEIR_ENGINE_REDIS, &f->engine->engine);
    f->spop = weir_spop_open();
    f->options = (weir_spop_options){
        .service = f->service, .loop = weir_spop_loop_open(f->spop), .access = &f->users.access};
    set_messages(f, specs, sizeof specs / sizeof specs[0]);
    weir_buffer_init(&f->in, BUFFER_MAX);
    weir_buffer_init(&f->out, BUFFER_MAX);
    weir_buffer_init(&f->output, BUFFER_MAX);
    f->now_ns = NOW_NS;
    open_session(f);
    return f;
}

KIT void fixture_free(fixture *f)
{
    weir_spop_session_close(&f->session);
    users_kit_close(&f->users);
    weir_spop_loop_close(f->options.loop);
    weir_spop_close(f->spop);
    f->engine->engine.calls->close(&f->engine->engine);
    weir_service_close(f->service);
    weir_limiter_close(f->limiter);
    weir_store_close(f->store);
    weir_buffer_free(&f->in);
    weir_buffer_free(&f->out);
    weir_buffer_free(&f->output);
    free(f);
}

KIT int setup(void **state)
{
    *state = fixture_new(WEIR_ENGINE_LOCAL);
    return 0;
}

KIT int teardown(void **state)
{
    fixture_free(*state);
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

KIT weir_session_next step(fixture *f, size_t out_pause)
{
    f->last = weir_spop_session_run(&f->session, &f->in, &f->out, out_pause, f->now_ns).next;
    weir_buffer_append(&f->output, weir_buffer_data(&f->out), weir_buffer_len(&f->out));
    weir_buffer_clear(&f->out);
    return f->last;
}

/* Sends bytes in pieces. The engine answers when all available input was read. */
KIT void send_pieces(fixture *f, const void *bytes, size_t len, size_t piece, size_t out_pause)
{
    weir_session_next next = WEIR_SESSION_READ;
    for (size_t at = 0; (at < len || next != WEIR_SESSION_READ) && next != WEIR_SESSION_CLOSE;) {
        size_t n = len - at < piece ? len - at : piece;
        weir_buffer_append(&f->in, (const char *)bytes + at, n);
        at += n;
        if (next == WEIR_SESSION_PENDING && at % 3 > 0 && at < len) { /* called too early */
            assert_int_equal(step(f, out_pause), WEIR_SESSION_PENDING);
            continue;
        }
        if (next == WEIR_SESSION_PENDING)
            fake_reply(f->engine, 0, f->now_ns);
        next = step(f, out_pause);
    }
}

KIT void put_value(weir_spop_reader *r, char *text, size_t size)
{
    weir_spop_value v;
    weir_slice slice;
    char buf[WEIR_SPOP_TEXT_MAX];
    bool is_address;
    assert_true(weir_spop_read_value(r, &v));
    size_t len = strlen(text);
    if (weir_spop_text(&v, buf, &slice, &is_address))
        snprintf(text + len, size - len, v.type == WEIR_SPOP_STRING ? "'%.*s'" : "%.*s",
                 (int)slice.len, slice.at);
}

KIT void put_name(weir_spop_reader *r, const char *format, char *text, size_t size)
{
    weir_slice name;
    size_t len = strlen(text);
    assert_true(weir_spop_read_string(r, &name));
    snprintf(text + len, size - len, format, (int)name.len, name.at);
}

/* Prints the first frame of the output as text, and drops it. */
KIT const char *take_frame(fixture *f)
{
    static char text[1 << 15];
    const uint8_t *at = weir_buffer_data(&f->output);
    weir_spop_frame frame;
    if (weir_buffer_len(&f->output) == 0)
        return "";
    size_t len = (size_t)at[2] << 8 | at[3];
    weir_spop_reader r = {at + 4, at + 4 + len};
    assert_true(len <= f->session.frame_max && len + 4 <= weir_buffer_len(&f->output));
    assert_true(weir_spop_read_frame(&r, &frame));
    snprintf(text, sizeof text, "%u %u %u.%u", frame.type, frame.flags, (unsigned)frame.stream_id,
             (unsigned)frame.frame_id);
    while (r.at < r.end) {
        if (frame.type != WEIR_SPOP_ACK) {
            put_name(&r, " %.*s=", text, sizeof text);
            put_value(&r, text, sizeof text);
        } else if (r.at[0] == 1) {
            assert_true(r.at[1] == 3 && r.at[2] == 2);
            r.at += 3;
            put_name(&r, " %.*s=", text, sizeof text);
            put_value(&r, text, sizeof text);
        } else {
            assert_true(r.at[0] == 2 && r.at[1] == 2 && r.at[2] == 2);
            r.at += 3;
            put_name(&r, " -%.*s", text, sizeof text);
        }
    }
    weir_buffer_consume(&f->output, len + 4);
    return text;
}

KIT void send_bytes(fixture *f, const void *bytes, size_t len)
{
    weir_buffer_append(&f->in, bytes, len);
    step(f, OUT_PAUSE);
}

/* Exchanges the HELLO frames. */
KIT void greet(fixture *f)
{
    send_bytes(f, BYTES(HELLO));
    assert_int_equal(f->last, WEIR_SESSION_READ);
    weir_buffer_clear(&f->output);
}

KIT void expect(fixture *f, const char *expected)
{
    assert_string_equal(take_frame(f), expected);
}

/* Sends a message with a key and a cost, and expects these variables. */
KIT void ask(fixture *f, const char *message, const char *key, const char *cost,
             const char *expected)
{
    char answer[512];
    add_notify(&f->in, 9, message, key, cost);
    step(f, OUT_PAUSE);
    assert_int_equal(f->last, WEIR_SESSION_READ);
    snprintf(answer, sizeof answer, "103 1 9.1%s", expected);
    expect(f, answer);
}

#define ALLOWED(retry, reset, remaining, limit, policy, reason, delay, next)                       \
    " allowed=1 retry_after=" retry " reset=" reset " remaining=" remaining " limit=" limit        \
    " policy='" policy "' reason='" reason "' delay=" delay " next=" next " -error"
#define DENIED(retry, reset, remaining, limit, policy, next)                                       \
    " allowed=0 retry_after=" retry " reset=" reset " remaining=" remaining " limit=" limit        \
    " policy='" policy "' reason='limit' delay=0 next=" next " -error"
#define NEVER(remaining, limit, policy, reason, next)                                              \
    " allowed=0 -retry_after -reset remaining=" remaining " limit=" limit " policy='" policy       \
    "' reason='" reason "' delay=0" next " -error"
#define FAILED(text) " -allowed error='" text "'"
#define REFUSED(text)                                                                              \
    " allowed=0 error='" text "' -retry_after -reset -remaining -limit -policy -reason -delay "    \
    "-next"

/* Begins a NOTIFY frame. Returns its place, for finish(). */
KIT size_t begin(fixture *f)
{
    return begin_frame(&f->in, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN, 9, 1);
}

/* Adds a message with a key. */
KIT void add_plain(fixture *f, const char *message, const char *key)
{
    add_message(&f->in, message, 1);
    add_text(&f->in, "key", key);
}

/* Ends and sends the frame, and expects these variables. */
KIT void finish(fixture *f, size_t at, const char *expected)
{
    char answer[512];
    end_frame(&f->in, at);
    step(f, OUT_PAUSE);
    snprintf(answer, sizeof answer, "103 1 9.1%s", expected);
    expect(f, answer);
}

#define DISCONNECTED(status, text) "102 1 0.0 status-code=" status " message='" text "'"

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
