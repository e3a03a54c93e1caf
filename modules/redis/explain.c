/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* WEIR.EXPLAIN: what holds for a key, in the daemon's words. */

#include "call.h"

#include "service/explain_text.h"

/* A list of lines. */
static void put_lines(const weir_call *c, const weir_buffer *text)
{
    const char *at = (const char *)weir_buffer_data(text), *end = at + weir_buffer_len(text);
    long lines = 0;
    for (const char *p = at; p < end; p++)
        lines += *p == '\n';
    redis.ReplyWithArray(c->ctx, lines);
    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        redis.ReplyWithStringBuffer(c->ctx, at, (size_t)(lf - at));
        at = lf + 1;
    }
}

static weir_status explain(const weir_call *c, const weir_wish *w, weir_open_key *t,
                           weir_buffer *out)
{
    weir_cell cell;
    weir_decision d;
    int64_t unused;
    const weir_interned *s = w->scope;
    weir_moment at = weir_moment_now();
    (void)c;
    weir_status st = weir_cell_open(&cell, t, w->scope, at.now_ns);
    if (st == WEIR_OK)
        st = weir_cell_decide(&cell, WEIR_VERB_PEEK, at.now_ns, 1, &d, &unused);
    weir_cell_close(&cell);
    if (st != WEIR_OK)
        return st;
    if (s->name_len > 0)
        weir_buffer_printf(out, "policy   %s\n", weir_interned_name(s));
    weir_explain_key(out, w->key.at, w->key.len);
    weir_buffer_printf(out, "limit    %s\n", weir_interned_text(s));
    weir_explain_state(out, &s->policy, &d, false, at.now_ns);
    return out->failed ? WEIR_E_NOMEM : WEIR_OK;
}

/* WEIR.EXPLAIN policy key */
int weir_explain_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    weir_open_key t;
    weir_buffer text;
    if (argc != 3)
        return redis.WrongArity(ctx);
    weir_wish w = weir_call_wish(&c, 1);
    weir_status st = weir_wish_find(&w, false);
    if (st != WEIR_OK)
        return weir_call_failure(&c, &w, st, "");
    if (!weir_key_open(&t, ctx, argv[2], REDIS_READ)) {
        weir_interned_unref(w.scope);
        return weir_call_wrong_type(&c);
    }
    weir_buffer_init(&text, 64 << 10);
    st = explain(&c, &w, &t, &text);
    if (st == WEIR_OK)
        put_lines(&c, &text);
    weir_buffer_free(&text);
    weir_key_close(&t);
    weir_interned_unref(w.scope);
    return st == WEIR_OK ? REDIS_OK : weir_call_failure(&c, &w, st, "");
}
