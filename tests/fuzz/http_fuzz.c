/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Any bytes from an HTTP client: the session answers or closes, and neither how the bytes were cut
 * nor how little is taken from it at once changes anything of what it answers. The first byte
 * chooses the options, the second how to cut. */

#include "codec/http.h"
#include "service/top.h"

#include <stdlib.h>
#include <string.h>

enum { OUT_MAX = 1 << 24 };

static const weir_zone *no_zone(void *ctx, const char *name, size_t len)
{
    (void)ctx;
    (void)name;
    (void)len;
    return NULL;
}

typedef struct daemon {
    weir_store *store;
    weir_hub *hub;
    weir_service *service;
    weir_http_options options;
} daemon;

static void daemon_open(daemon *d, uint8_t choice)
{
    static const uint8_t secret[16] = {1};
    const weir_store_options options = {.memory_bytes = 1 << 20, .secret = secret};
    const weir_zones zones = {no_zone, NULL};
    if (weir_store_open(&d->store, &options) != WEIR_OK ||
        weir_hub_open(&d->hub, d->store, &zones) != WEIR_OK ||
        weir_hub_weigh(d->hub, &(weir_top_options){4, 1 << 20}) != WEIR_OK)
        abort();
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
    }
    if (weir_rules_build(&rules, d->store, NULL, specs, 3, NULL, NULL) != WEIR_OK)
        abort();
    weir_hub_set_rules(d->hub, rules);
    if (weir_service_open(&d->service, d->hub) != WEIR_OK)
        abort();
    d->options = (weir_http_options){.service = d->service,
                                     .version = "1",
                                     .password = choice & 1 ? "p" : NULL,
                                     .key_header = choice & 2 ? "X-Forwarded-For" : NULL,
                                     .key_query = choice & 2 ? NULL : "k",
                                     .metrics_top = true,
                                     .hops = choice >> 2 & 3};
}

static void daemon_close(daemon *d)
{
    weir_service_close(d->service);
    weir_hub_close(d->hub);
    weir_store_close(d->store);
}

/* Runs the session until it wants more bytes; one that waits does so in no time. Returns whether it
 * closed. */
static bool run(weir_http_session *s, weir_buffer *in, weir_buffer *said, size_t out_pause,
                int64_t *now_ns)
{
    weir_buffer out;
    weir_buffer_init(&out, OUT_MAX);
    weir_session_step step;
    do {
        step = weir_http_session_run(s, in, &out, out_pause, *now_ns);
        if (step.next == WEIR_SESSION_WAIT && step.until_ns < *now_ns)
            abort();
        if (step.next == WEIR_SESSION_WAIT)
            *now_ns = step.until_ns;
        if (step.next == WEIR_SESSION_AGAIN && weir_buffer_len(&out) == 0)
            abort(); /* it would be called for ever */
        weir_buffer_append(said, weir_buffer_data(&out), weir_buffer_len(&out));
        weir_buffer_clear(&out);
    } while (step.next == WEIR_SESSION_AGAIN || step.next == WEIR_SESSION_WAIT);
    weir_buffer_free(&out);
    return step.next == WEIR_SESSION_CLOSE;
}

static void serve(const uint8_t *bytes, size_t len, uint8_t choice, size_t step, size_t out_pause,
                  weir_buffer *said)
{
    daemon d;
    weir_http_session session;
    weir_buffer in;
    int64_t now_ns = 1767225600000000000;
    daemon_open(&d, choice);
    weir_buffer_init(&in, 1 << 21);
    weir_buffer_init(said, OUT_MAX);
    weir_http_session_init(&session, &d.options);
    for (size_t at = 0; at < len; at += step) {
        weir_buffer_append(&in, bytes + at, len - at < step ? len - at : step);
        if (run(&session, &in, said, out_pause, &now_ns))
            break;
    }
    weir_http_session_close(&session);
    weir_buffer_free(&in);
    daemon_close(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len < 3)
        return 0;
    weir_buffer whole, pieces;
    uint8_t choice = bytes[0];
    size_t step = 1 + bytes[1] % 64, out_pause = 1 + bytes[1] / 4;
    bytes += 2;
    len -= 2;
    serve(bytes, len, choice, len, 1 << 16, &whole);
    serve(bytes, len, choice, step, out_pause, &pieces);
    size_t n = weir_buffer_len(&whole);
    if (n != weir_buffer_len(&pieces) ||
        (n > 0 && (memcmp(weir_buffer_data(&whole), weir_buffer_data(&pieces), n) != 0 ||
                   memcmp(weir_buffer_data(&whole), "HTTP/1.1 ", 9) != 0)))
        abort();
    weir_buffer_free(&whole);
    weir_buffer_free(&pieces);
    return 0;
}
