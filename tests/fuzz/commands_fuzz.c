/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: a RESP connection. For any input, the session replies or closes. The replies
 * do not depend on how the input was split, nor on whether an engine has the states and replies
 * late. */

#include "access.h"
#include "daemon.h"

#include "codec/answer/password.h"
#include "codec/resp/session.h"
#include "service/top/top.h"

enum { OUT_MAX = 1 << 20 };

static void is_ready(void *ctx)
{
    ++*(size_t *)ctx;
}

/* Runs the session until it needs more input. The engine replies to every `late`-th run of a
 * pending session. */
static void run(weir_resp_session *s, weir_buffer *in, weir_buffer *output, fake_engine *f,
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
        /* Without progress, the connection would call it forever. */
        CHECK(step.next != WEIR_SESSION_AGAIN || weir_buffer_len(&out) > 0);
        CHECK(step.next != WEIR_SESSION_WAIT || step.until_ns == now_ns + WEIR_PASSWORD_DELAY_NS);
        weir_buffer_append(output, weir_buffer_data(&out), weir_buffer_len(&out));
        weir_buffer_clear(&out);
        if (step.next != WEIR_SESSION_PENDING || early++ % late > 0)
            continue;
        for (ready = 0; f->batches > 0;)
            fake_reply(f, f->batches - 1, now_ns);
        CHECK(ready == 1);
    } while (step.next != WEIR_SESSION_READ && step.next != WEIR_SESSION_CLOSE);
    weir_buffer_free(&out);
}

/* Feeds the bytes in pieces of `step` to a new session, and collects its replies in `out`.
 *  engine  the states are in an engine.  top  the daemon tracks top keys. */
static void serve(const uint8_t *bytes, size_t len, size_t step, bool engine, bool top,
                  weir_buffer *out)
{
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = "p";
    spec.limit = "gcra 1/s burst 9";
    fuzz_daemon *d = fuzz_daemon_begin(engine, top, &spec, 1);
    weir_resp_session session;
    weir_buffer in;
    weir_buffer_init(&in, 1 << 21);
    weir_buffer_init(out, OUT_MAX);
    d->fake->immediate = engine && len % 5 == 0;
    weir_access access;
    fuzz_access_open(&access, len % 8 == 7);
    weir_resp_options resp = {.service = d->service, .version = "1", .access = &access};
    weir_resp_session_init(&session, &resp);
    for (size_t at = 0; at < len && !session.closing; at += step) {
        weir_buffer_append(&in, bytes + at, len - at < step ? len - at : step);
        run(&session, &in, out, d->fake, 1 + len % 3);
    }
    weir_resp_session_close(&session);
    fuzz_access_close(&access);
    weir_buffer_free(&in);
    fuzz_daemon_end(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    /* Commands that engines do not support, or whose reply depends on where the states are; and the
     * quotes in which a command can be spelt with escapes. */
    static const char *const words[] = {"RESERVE", "COMMIT",   "CANCEL", "RENEW", "PEEK",
                                        "EXPLAIN", "RESETALL", "INFO",   "\""};
    static const char *const top_word[] = {"TOP"};
    bool top = mentions(bytes, len, top_word, 1);
    session_runs r;
    serve(bytes, len, len, false, top, &r.whole);
    serve(bytes, len, 1 + len % 7, false, top, &r.pieces);
    serve(bytes, len, len, true, top, &r.engine_whole);
    serve(bytes, len, 1 + len % 7, true, top, &r.engine_pieces);
    check_runs(&r, mentions(bytes, len, words, sizeof words / sizeof words[0]));
    return 0;
}
