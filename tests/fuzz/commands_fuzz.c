/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Any bytes from a client: the session answers or closes, and neither how the bytes were cut nor
 * that an engine has all states, and answers late, changes anything of what it answers. */

#include "codec/password.h"
#include "codec/resp_session.h"
#include "service/fake_engine_test.h"
#include "service/top/top.h"

#include <strings.h>

enum { OUT_MAX = 1 << 20 };

static void is_ready(void *ctx)
{
    ++*(size_t *)ctx;
}

/* Runs the session until it wants more bytes. The engine answers every `late`-th time it is asked
 * whether it has. */
static void run(weir_resp_session *s, weir_buffer *in, weir_buffer *said, fake_engine *f,
                size_t late)
{
    const int64_t now_ns = 1767225600000000000;
    size_t ready = 0, early = 0;
    s->completion.ready = is_ready;
    s->completion.ctx = &ready;
    weir_buffer out;
    weir_buffer_init(&out, OUT_MAX);
    weir_session_step step;
    do {
        step = weir_resp_session_run(s, in, &out, OUT_MAX, now_ns);
        if (step.next == WEIR_SESSION_AGAIN && weir_buffer_len(&out) == 0)
            abort(); /* it would be called for ever */
        if (step.next == WEIR_SESSION_WAIT && step.until_ns != now_ns + WEIR_PASSWORD_DELAY_NS)
            abort();
        weir_buffer_append(said, weir_buffer_data(&out), weir_buffer_len(&out));
        weir_buffer_clear(&out);
        if (step.next != WEIR_SESSION_PENDING || early++ % late > 0)
            continue;
        for (ready = 0; f->batches > 0;)
            fake_reply(f, f->batches - 1, now_ns);
        if (ready != 1)
            abort();
    } while (step.next != WEIR_SESSION_READ && step.next != WEIR_SESSION_CLOSE);
    weir_buffer_free(&out);
}

/* Feeds the bytes in pieces of `step` to a fresh daemon; gives what it answered.
 *  engine  the states are with one. */
static void serve(const uint8_t *bytes, size_t len, size_t step, bool engine, weir_buffer *out)
{
    static const uint8_t secret[16] = {1};
    const weir_store_options options = {.memory_bytes = 1 << 20, .secret = secret};
    weir_store *store;
    weir_limiter *limiter;
    weir_service *service;
    weir_resp_session session;
    weir_buffer in;
    if (weir_store_open(&store, &options) != WEIR_OK ||
        weir_limiter_open(&limiter, store, NULL) != WEIR_OK ||
        weir_limiter_enable_top(limiter, &(weir_top_options){4, 1 << 20}) != WEIR_OK ||
        weir_service_open(&service, limiter) != WEIR_OK)
        abort();
    weir_buffer_init(&in, 1 << 21);
    weir_buffer_init(out, OUT_MAX);
    fake_engine *fake = fake_open();
    fake->files_as_store = true;
    fake->immediate = engine && len % 5 == 0;
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &fake->engine);
    weir_limiter_set_default_engine(limiter, engine ? WEIR_ENGINE_REDIS : WEIR_ENGINE_LOCAL);
    if (weir_limiter_set_limit(limiter, "p", "gcra 1/s burst 9", NULL) != WEIR_OK)
        abort();
    weir_resp_options resp = {
        .service = service, .version = "1", .password = len % 8 == 7 ? "p" : NULL};
    weir_resp_session_init(&session, &resp);
    for (size_t at = 0; at < len && !session.closing; at += step) {
        weir_buffer_append(&in, bytes + at, len - at < step ? len - at : step);
        run(&session, &in, out, fake, 1 + len % 3);
    }
    weir_resp_session_close(&session);
    weir_buffer_free(&in);
    fake->engine.calls->close(&fake->engine);
    weir_service_close(service);
    weir_limiter_close(limiter);
    weir_store_close(store);
}

/* What an engine is not asked for, or what says that there is one. Words may be spelt in other ways
 * within quotes. */
static bool tells_of_engines(const uint8_t *bytes, size_t len)
{
    static const char *const words[] = {"RESERVE", "COMMIT", "CANCEL", "EXPLAIN", "\""};
    for (size_t i = 0; i < len; i++) {
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            size_t n = strlen(words[w]);
            if (n <= len - i && strncasecmp((const char *)bytes + i, words[w], n) == 0)
                return true;
        }
    }
    return false;
}

static void require_equal(const weir_buffer *a, const weir_buffer *b)
{
    size_t len = weir_buffer_len(a);
    if (weir_buffer_len(b) != len ||
        (len > 0 && memcmp(weir_buffer_data(a), weir_buffer_data(b), len) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    weir_buffer whole, pieces, far, far_pieces;
    serve(bytes, len, len, false, &whole);
    serve(bytes, len, 1 + len % 7, false, &pieces);
    serve(bytes, len, len, true, &far);
    serve(bytes, len, 1 + len % 7, true, &far_pieces);
    require_equal(&whole, &pieces);
    require_equal(&far, &far_pieces);
    if (!tells_of_engines(bytes, len))
        require_equal(&whole, &far);
    weir_buffer_free(&whole);
    weir_buffer_free(&pieces);
    weir_buffer_free(&far);
    weir_buffer_free(&far_pieces);
    return 0;
}
