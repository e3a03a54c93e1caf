/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Arguments and replies. */

#include "call.h"

#include "port/text.h"

#include "codec/decision.h"

#include <stdio.h>

#define STRING(x)  #x
#define DECIMAL(x) STRING(x)
#define COST_MAX   2147483647
_Static_assert(COST_MAX == WEIR_COST_MAX, "the text below says the bound");

bool weir_arg_is(weir_arg a, const char *word)
{
    for (size_t i = 0; i < a.len; i++) {
        char c = a.at[i];
        if (word[i] == '\0' || (c != word[i] && (c < 'a' || c > 'z' || c - 32 != word[i])))
            return false;
    }
    return word[a.len] == '\0';
}

bool weir_arg_i64(weir_arg a, int64_t *ret)
{
    return weir_i64_read(a.at, a.len, ret);
}

weir_call weir_call_decision(redis_ctx *ctx, redis_string **argv, int argc, int argc_min)
{
    weir_call c = {ctx, argv, argc, false};
    c.with_names = argc > argc_min && weir_arg_is(weir_call_arg(&c, argc - 1), "WITHNAMES");
    c.argc -= c.with_names;
    return c;
}

int weir_call_error(const weir_call *c, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    }
    redis.ReplyWithError(c->ctx, text);
    return REDIS_OK;
}

/* ---- a request ------------------------------------------------------------------------------- */

weir_wish weir_call_wish(const weir_call *c, int i)
{
    return (weir_wish){.policy = weir_call_arg(c, i),
                       .key = weir_call_arg(c, i + 1),
                       .key_name = c->argv[i + 1],
                       .cost = 1};
}

const char *weir_call_cost(const weir_call *c, int i, int64_t *ret)
{
    if (weir_arg_i64(weir_call_arg(c, i), ret) && *ret >= 0 && *ret <= COST_MAX)
        return NULL;
    return "the cost is not a whole number from 0 to " DECIMAL(COST_MAX);
}

weir_status weir_wish_find(weir_wish *w, bool by_text)
{
    weir_interned *s;
    weir_status st;
    w->error.column = 0;
    if (by_text || memchr(w->policy.at, ' ', w->policy.len)) /* no name has one, every text has */
        st = weir_intern_text(w->policy.at, w->policy.len, &s, &w->error);
    else
        st = weir_intern_name(w->policy.at, w->policy.len, &s);
    if (st != WEIR_OK)
        return st;
    if (w->key.len < 1 || w->key.len > WEIR_KEY_MAX)
        return WEIR_E_RANGE;
    weir_interned_ref(s);
    w->scope = s;
    return WEIR_OK;
}

int weir_call_wrong_type(const weir_call *c)
{
    return weir_call_error(c, "WRONGTYPE Operation against a key holding the wrong kind of value");
}

int weir_call_failure(const weir_call *c, const weir_wish *w, weir_status st, const char *where)
{
    int len = w->policy.len < 100 ? (int)w->policy.len : 100;
    if (w->error.column > 0)
        return weir_call_error(c, "ERR %spolicy: column %u: %s", w->by_program ? "" : where,
                               w->error.column, w->error.text);
    if (st == WEIR_E_ABSENT)
        return weir_call_error(c, "ERR %sno policy '%.*s'; WEIR.POLICY LIST shows those there are",
                               where, len, w->policy.at);
    if (st == WEIR_E_UNSUPPORTED)
        return weir_call_error(c,
                               "ERR %sleaky-queue and count-denied policies do not support refunds",
                               w->by_program ? "weir: " : "");
    if (w->key.len < 1 || w->key.len > WEIR_KEY_MAX)
        return weir_call_error(c, "ERR %sthe key has %zu bytes, expected 1 to %d", where,
                               w->key.len, WEIR_KEY_MAX);
    if (st == WEIR_E_NOMEM)
        return weir_call_error(c, "OOM %sthe key's state would take more than %zu bytes", where,
                               WEIR_STATE_WORDS_MAX * sizeof(uint64_t));
    if (st == WEIR_E_FULL)
        return weir_call_error(c, "OOM %sthe key has states of too many policies", where);
    return weir_call_error(c, "ERR %s%s", where, weir_status_str(st));
}

/* ---- replies --------------------------------------------------------------------------------- */

static bool has_maps(const weir_call *c)
{
    return redis.ReplyWithMap && redis.ReplyWithBool &&
           (redis.GetContextFlags(c->ctx) & REDIS_CONTEXT_RESP3);
}

void weir_call_map(const weir_call *c, int pairs)
{
    if (has_maps(c))
        redis.ReplyWithMap(c->ctx, pairs);
    else
        redis.ReplyWithArray(c->ctx, 2 * (long)pairs);
}

void weir_call_bool(const weir_call *c, bool v)
{
    if (has_maps(c))
        redis.ReplyWithBool(c->ctx, v);
    else
        weir_call_i64(c, v);
}

void weir_call_figures(const weir_call *c, const weir_decision *d, int more_in_map,
                       int more_in_array)
{
    int64_t figures[WEIR_DECISION_FIELDS];
    weir_decision_fields_ms(d, figures);
    if (c->with_names)
        weir_call_map(c, WEIR_DECISION_FIELDS + more_in_map);
    else
        redis.ReplyWithArray(c->ctx, WEIR_DECISION_FIELDS + more_in_array);
    for (int i = 0; i < WEIR_DECISION_FIELDS; i++) {
        if (c->with_names)
            weir_call_text(c, weir_decision_field_names[i]);
        weir_call_i64(c, figures[i]);
    }
}

void weir_call_policy(const weir_call *c, const weir_interned *s)
{
    if (!c->with_names)
        return;
    weir_call_text(c, "policy");
    if (s->name_len > 0)
        redis.ReplyWithStringBuffer(c->ctx, weir_interned_name(s), s->name_len);
    else
        redis.ReplyWithStringBuffer(c->ctx, weir_interned_text(s), s->text_len);
}

void weir_call_layer(const weir_call *c, const weir_decision *d)
{
    if (!c->with_names)
        return;
    weir_call_text(c, "layer");
    weir_call_i64(c, d->layer);
}
