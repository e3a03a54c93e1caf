/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: an HTTP connection. For any input, the session responds or closes. The
 * responses do not depend on how the input was split, on how little output is taken at once, nor
 * on whether an engine has the states and replies late. The first byte selects the options, the
 * second the split. */

#include "fuzz.h"

#include "codec/http_session.h"
#include "service/fake_engine_test.h"
#include "service/top/top.h"

enum { OUT_MAX = 1 << 24 };

typedef struct daemon {
    weir_store *store;
    weir_limiter *limiter;
    weir_service *service;
    fake_engine *fake;
    weir_http_options options;
    size_t ready;
} daemon;

static void is_ready(void *ctx)
{
    ++*(size_t *)ctx;
}

/*  choice  the options, as bits.  engine  an engine has the states. */
static void daemon_open(daemon *d, uint8_t choice, bool engine)
{
    static const uint8_t secret[16] = {1};
    const weir_store_options options = {.memory_bytes = 1 << 20, .secret = secret};
    CHECK(weir_store_open(&d->store, &options) == WEIR_OK);
    CHECK(weir_limiter_open(&d->limiter, d->store, NULL) == WEIR_OK);
    CHECK(weir_limiter_enable_top(d->limiter, &(weir_top_options){4, 1 << 20}) == WEIR_OK);
    weir_rule_spec specs[3] = {WEIR_RULE_SPEC_DEFAULT, WEIR_RULE_SPEC_DEFAULT,
                               WEIR_RULE_SPEC_DEFAULT};
    static const char *const rules_text[3][2] = {
        {"a", "gcra 1/s burst 5"},
        {"q", "leaky-queue 10/s depth 3"},
        {"s", "fixed-window 1/m & sliding-log 3/h count-denied"}};
    weir_rules *rules;
    for (int i = 0; i < 3; i++) {
        specs[i].name = rules_text[i][0];
        specs[i].limit = rules_text[i][1];
        specs[i].shadow = i == 2;
        specs[i].engine = engine ? WEIR_ENGINE_REDIS : WEIR_ENGINE_LOCAL;
    }
    CHECK(weir_rules_build(&rules, d->store, NULL, specs, 3) == WEIR_OK);
    weir_limiter_set_rules(d->limiter, rules);
    CHECK(weir_service_open(&d->service, d->limiter) == WEIR_OK);
    d->fake = fake_open();
    d->fake->uses_store_ids = true;
    weir_service_set_engine(d->service, WEIR_ENGINE_REDIS, &d->fake->engine);
    weir_limiter_set_default_engine(d->limiter, engine ? WEIR_ENGINE_REDIS : WEIR_ENGINE_LOCAL);
    static const char *const any = "*", *const origin = "http://app";
    d->options = (weir_http_options){.service = d->service,
                                     .hosts = {&any, choice >> 4 & 1 ? 0 : 1},
                                     .origins = {&origin, choice >> 5 & 1},
                                     .version = "1",
                                     .password = choice & 1 ? "p" : NULL,
                                     .key_header = choice & 2 ? "X-Forwarded-For" : NULL,
                                     .key_query = choice & 2 ? NULL : "k",
                                     .metrics_top = true,
                                     .hops = choice >> 2 & 3};
}

static void daemon_close(daemon *d)
{
    d->fake->engine.calls->close(&d->fake->engine);
    weir_service_close(d->service);
    weir_limiter_close(d->limiter);
    weir_store_close(d->store);
}

/* Runs the session until it needs more input. Waits take no time. Returns whether the session
 * closed. */
static bool run(daemon *d, weir_http_session *s, weir_buffer *in, weir_buffer *output,
                size_t out_pause, int64_t *now_ns)
{
    weir_buffer out;
    weir_buffer_init(&out, OUT_MAX);
    weir_session_step step;
    do {
        step = weir_http_session_run(s, in, &out, out_pause, *now_ns);
        CHECK(step.next != WEIR_SESSION_WAIT || step.until_ns >= *now_ns);
        if (step.next == WEIR_SESSION_WAIT)
            *now_ns = step.until_ns;
        /* Without progress, the connection would call it forever. */
        CHECK(step.next != WEIR_SESSION_AGAIN || weir_buffer_len(&out) > 0);
        CHECK(step.next != WEIR_SESSION_PENDING ||
              weir_http_session_run(s, in, &out, out_pause, *now_ns).next == WEIR_SESSION_PENDING);
        if (step.next == WEIR_SESSION_PENDING)
            fake_reply(d->fake, 0, *now_ns);
        weir_buffer_append(output, weir_buffer_data(&out), weir_buffer_len(&out));
        weir_buffer_clear(&out);
    } while (step.next != WEIR_SESSION_READ && step.next != WEIR_SESSION_CLOSE);
    weir_buffer_free(&out);
    return step.next == WEIR_SESSION_CLOSE;
}

static void serve(const uint8_t *bytes, size_t len, uint8_t choice, size_t step, size_t out_pause,
                  bool engine, weir_buffer *output)
{
    daemon d;
    weir_http_session session;
    weir_buffer in;
    int64_t now_ns = 1767225600000000000;
    daemon_open(&d, choice, engine);
    weir_buffer_init(&in, 1 << 21);
    weir_buffer_init(output, OUT_MAX);
    weir_http_session_init(&session, &d.options);
    session.completion.ready = is_ready;
    session.completion.ctx = &d.ready;
    for (size_t at = 0; at < len; at += step) {
        weir_buffer_append(&in, bytes + at, len - at < step ? len - at : step);
        if (run(&d, &session, &in, output, out_pause, &now_ns))
            break;
    }
    weir_http_session_close(&session);
    weir_buffer_free(&in);
    daemon_close(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    /* Endpoints that engines do not support, or whose response names the engine. */
    static const char *const words[] = {"reserve", "commit", "cancel", "explain", "metrics"};
    if (len < 3)
        return 0;
    session_runs r;
    uint8_t choice = bytes[0];
    size_t step = 1 + bytes[1] % 64, out_pause = 1 + bytes[1] / 4;
    bytes += 2;
    len -= 2;
    serve(bytes, len, choice, len, 1 << 16, false, &r.whole);
    serve(bytes, len, choice, step, out_pause, false, &r.pieces);
    serve(bytes, len, choice, len, 1 << 16, true, &r.engine_whole);
    serve(bytes, len, choice, step, out_pause, true, &r.engine_pieces);
    CHECK(weir_buffer_len(&r.whole) == 0 ||
          memcmp(weir_buffer_data(&r.whole), "HTTP/1.1 ", 9) == 0);
    check_runs(&r, mentions(bytes, len, words, sizeof words / sizeof words[0]));
    return 0;
}
