/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: an HTTP connection. For any input, the session responds or closes. The
 * responses do not depend on how the input was split, on how little output is taken at once, nor
 * on whether an engine has the states and replies late. The first byte selects the options, the
 * second the split. */

#include "access.h"
#include "daemon.h"

#include "codec/http/session.h"
#include "service/top/top.h"

enum { OUT_MAX = 1 << 24 };

static void is_ready(void *ctx)
{
    ++*(size_t *)ctx;
}

static fuzz_daemon *daemon_begin(bool engine, bool top)
{
    static const char *const rules[3][2] = {
        {"a", "gcra 1/s burst 5"},
        {"q", "leaky-queue 10/s depth 3"},
        {"s", "fixed-window 1/m & sliding-log 3/h count-denied"}};
    weir_rule_spec specs[3];
    for (int i = 0; i < 3; i++) {
        specs[i] = WEIR_RULE_SPEC_DEFAULT;
        specs[i].name = rules[i][0];
        specs[i].limit = rules[i][1];
        specs[i].shadow = i == 2;
    }
    specs[0].key = "$client/$header.x-key/$path";
    return fuzz_daemon_begin(engine, top, specs, 3);
}

/* Every connection comes from a proxy. */
static bool peer_address(const void *peer, weir_address *ret)
{
    (void)peer;
    return weir_address_parse(ret, "10.0.0.1", 8);
}

/* Only a decision ends a span. */
static void end_span(void *ctx, const weir_trace_span *span)
{
    (void)ctx;
    CHECK(span->reason && span->name[0] == '/' && span->method && span->status >= 200);
    CHECK(span->policy[WEIR_RULE_NAME_MAX] == '\0');
}

static const weir_tracer tracer = {end_span, NULL};

/* Runs the session until it needs more input. Waits take no time. Returns whether the session
 * closed; a stream, which pauses without a reply, ends with its third pause. */
static bool run(fuzz_daemon *d, weir_http_session *s, weir_buffer *in, weir_buffer *output,
                size_t out_pause, int64_t *now_ns)
{
    weir_buffer out;
    weir_buffer_init(&out, OUT_MAX);
    weir_session_step step;
    int pauses = 0;
    do {
        step = weir_http_session_run(s, in, &out, out_pause, *now_ns);
        CHECK(step.next != WEIR_SESSION_WAIT || step.until_ns >= *now_ns);
        if (step.next == WEIR_SESSION_WAIT) {
            *now_ns = step.until_ns;
            pauses += weir_buffer_len(&out) == 0;
        }
        /* Without progress, the connection would call it forever. */
        CHECK(step.next != WEIR_SESSION_AGAIN || weir_buffer_len(&out) > 0);
        CHECK(step.next != WEIR_SESSION_PENDING ||
              weir_http_session_run(s, in, &out, out_pause, *now_ns).next == WEIR_SESSION_PENDING);
        if (step.next == WEIR_SESSION_PENDING)
            fake_reply(d->fake, 0, *now_ns);
        weir_buffer_append(output, weir_buffer_data(&out), weir_buffer_len(&out));
        weir_buffer_clear(&out);
    } while (step.next != WEIR_SESSION_READ && step.next != WEIR_SESSION_CLOSE && pauses < 3);
    weir_buffer_free(&out);
    return step.next == WEIR_SESSION_CLOSE || pauses == 3;
}

static const uint8_t empty_gzip[] = {0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3,
                                     3,    0,    0, 0, 0, 0, 0, 0, 0, 0};

/*  choice  the options, as bits.
 *  engine  the states are in an engine.
 *  top     the daemon tracks top keys. */
static void serve(const uint8_t *bytes, size_t len, uint8_t choice, size_t step, size_t out_pause,
                  bool engine, bool top, weir_buffer *output)
{
    static const char *const any = "*", *const origin = "http://app";
    static const weir_http_page page = {"p.html", "t", empty_gzip, sizeof empty_gzip, 0};
    fuzz_daemon *d = daemon_begin(engine, top);
    const weir_network network = {{.bytes = {10}}, 8};
    weir_access access;
    fuzz_access_open(&access, choice & 1);
    const weir_http_options options = {.service = d->service,
                                       .hosts = {&any, choice >> 4 & 1 ? 0 : 1},
                                       .origins = {&origin, choice >> 5 & 1},
                                       .version = "1",
                                       .pages = {&page, 1},
                                       .access = &access,
                                       .key_header = choice & 2 ? "X-Forwarded-For" : NULL,
                                       .key_query = choice & 2 ? NULL : "k",
                                       .tracer = &tracer,
                                       .metrics_top = true,
                                       .trusted = {&network, choice >> 6 & 1},
                                       .peer_address = peer_address,
                                       .client_header = "Forwarded",
                                       .client_kind = WEIR_CLIENT_FORWARDED,
                                       .hops = choice >> 2 & 3};
    weir_http_session session;
    weir_buffer in;
    size_t ready = 0;
    int64_t now_ns = 1767225600000000000;
    weir_buffer_init(&in, 1 << 21);
    weir_buffer_init(output, OUT_MAX);
    weir_http_session_init(&session, &options);
    session.completion.ready = is_ready;
    session.completion.ctx = &ready;
    for (size_t at = 0; at < len; at += step) {
        weir_buffer_append(&in, bytes + at, len - at < step ? len - at : step);
        if (run(d, &session, &in, output, out_pause, &now_ns))
            break;
    }
    weir_http_session_close(&session);
    fuzz_access_close(&access);
    weir_buffer_free(&in);
    fuzz_daemon_end(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    /* Endpoints that engines do not support, that have more fields without one, or whose response
     * names the engine. */
    static const char *const words[] = {"reserve", "commit",  "cancel",  "renew", "resetall",
                                        "peek",    "explain", "metrics", "live",  "candidate"};
    if (len < 3)
        return 0;
    static const char *const top_words[] = {"/v1/top", "/metrics"};
    session_runs r;
    uint8_t choice = bytes[0];
    size_t step = 1 + bytes[1] % 64, out_pause = 1 + bytes[1] / 4;
    bytes += 2;
    len -= 2;
    bool top = mentions(bytes, len, top_words, 2);
    serve(bytes, len, choice, len, 1 << 16, false, top, &r.whole);
    serve(bytes, len, choice, step, out_pause, false, top, &r.pieces);
    serve(bytes, len, choice, len, 1 << 16, true, top, &r.engine_whole);
    serve(bytes, len, choice, step, out_pause, true, top, &r.engine_pieces);
    CHECK(weir_buffer_len(&r.whole) == 0 ||
          memcmp(weir_buffer_data(&r.whole), "HTTP/1.1 ", 9) == 0);
    check_runs(&r, mentions(bytes, len, words, sizeof words / sizeof words[0]));
    return 0;
}
