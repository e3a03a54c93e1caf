/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Several keys as one: all are charged, or none is, not even by a denial that a policy counts. A
 * Cluster sees to it that they are of one slot. */

#include "call.h"

#include "core/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRST = 2, TRIPLE = 3 }; /* arguments before the first request, and of each */
_Static_assert(WEIR_DECIDED_MAX == WEIR_TAKE_MANY_MAX, "as many as everywhere else");

typedef struct one {
    weir_wish wish;
    size_t target, cell;    /* which of them are its */
    weir_decision alone;    /* what it would be told by itself */
    weir_decision together; /* what it is told after those before it */
} one;

typedef struct many {
    weir_call call;
    size_t len, targets, cells, finds; /* finds: of how many the scope was found */
    one of[WEIR_DECIDED_MAX];
    weir_open_key target[WEIR_DECIDED_MAX];
    weir_cell cell[WEIR_DECIDED_MAX];
} many;

/* "request 2: ", counted from 0 as in the answer. */
typedef struct where {
    char text[32];
} where;

static where where_of(size_t i)
{
    where w;
    snprintf(w.text, sizeof w.text, "request %zu: ", i);
    return w;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_count(many *m)
{
    const weir_call *c = &m->call;
    int64_t n;
    if (!weir_arg_i64(weir_call_arg(c, 1), &n) || n < 1 || n > WEIR_DECIDED_MAX) {
        weir_call_error(c, "ERR the number of requests is not a whole number from 1 to %d",
                        WEIR_DECIDED_MAX);
        return false;
    }
    if (c->argc != FIRST + (int)n * TRIPLE) {
        weir_call_error(c,
                        "ERR expected %d times policy key cost after the number, found %d "
                        "arguments",
                        (int)n, c->argc - FIRST);
        return false;
    }
    m->len = (size_t)n;
    return true;
}

static bool read_wishes(many *m)
{
    for (size_t i = 0; i < m->len; i++) {
        int at = FIRST + (int)i * TRIPLE;
        weir_wish *w = &m->of[i].wish;
        *w = weir_call_wish(&m->call, at);
        const char *error = weir_call_cost(&m->call, at + 2, &w->cost);
        if (error) {
            weir_call_error(&m->call, "ERR %s%s", where_of(i).text, error);
            return false;
        }
    }
    return true;
}

static bool find_scopes(many *m, bool by_text)
{
    for (; m->finds < m->len; m->finds++) {
        weir_wish *w = &m->of[m->finds].wish;
        w->by_program = by_text;
        weir_status st = weir_wish_find(w, by_text);
        if (st != WEIR_OK) {
            weir_call_failure(&m->call, w, st, where_of(m->finds).text);
            return false;
        }
    }
    return true;
}

static size_t target_of(const many *m, const weir_wish *w)
{
    for (size_t i = 0; i < m->targets; i++) {
        size_t len;
        const char *at = redis.StringPtrLen(m->target[i].name, &len);
        if (len == w->key.len && memcmp(at, w->key.at, len) == 0)
            return i;
    }
    return m->targets;
}

static size_t cell_of(const many *m, const weir_open_key *t, const weir_interned *s)
{
    for (size_t i = 0; i < m->cells; i++) {
        if (m->cell[i].target == t && m->cell[i].scope == s)
            return i;
    }
    return m->cells;
}

/* Each key is opened once, and each state is in one cell. */
static bool open_cells(many *m, int64_t now_ns)
{
    for (size_t i = 0; i < m->len; i++) {
        one *o = &m->of[i];
        o->target = target_of(m, &o->wish);
        if (o->target == m->targets) {
            if (!weir_key_open(&m->target[o->target], m->call.ctx, o->wish.key_name,
                               REDIS_READ | REDIS_WRITE)) {
                weir_call_wrong_type(&m->call);
                return false;
            }
            m->targets++;
        }
        weir_open_key *t = &m->target[o->target];
        o->cell = cell_of(m, t, o->wish.scope);
        if (o->cell < m->cells)
            continue;
        weir_status st = weir_cell_open(&m->cell[m->cells++], t, o->wish.scope, now_ns);
        if (st != WEIR_OK) {
            weir_call_failure(&m->call, &o->wish, st, where_of(i).text);
            return false;
        }
    }
    return true;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* All are looked at by themselves before any is charged. */
static bool decide_all(many *m, int64_t now_ns, bool *ret_allowed)
{
    int64_t unused;
    weir_status st = WEIR_OK;
    size_t i = 0;
    for (; i < m->len && st == WEIR_OK; i++) {
        one *o = &m->of[i];
        st = weir_cell_decide(&m->cell[o->cell], WEIR_VERB_PEEK, now_ns, o->wish.cost, &o->alone,
                              &unused);
    }
    *ret_allowed = true;
    for (i = 0; i < m->len && st == WEIR_OK; i++) {
        one *o = &m->of[i];
        st = weir_cell_decide(&m->cell[o->cell], WEIR_VERB_TAKE, now_ns, o->wish.cost, &o->together,
                              &unused);
        *ret_allowed = *ret_allowed && o->together.allowed;
    }
    if (st != WEIR_OK)
        weir_call_failure(&m->call, &m->of[i - 1].wish, st, where_of(i - 1).text);
    return st == WEIR_OK;
}

/* The request that denies all; len if none does: of those that are denied the one that
 * weir_outranks() puts first. */
static size_t blocking(const many *m)
{
    size_t longest = m->len;
    for (size_t i = 0; i < m->len; i++) {
        const weir_decision *d = &m->of[i].together;
        if (!d->allowed && (longest == m->len || weir_outranks(d, &m->of[longest].together)))
            longest = i;
    }
    return longest;
}

/* What request i is told. */
static const weir_decision *told(const many *m, size_t i, bool allowed)
{
    const one *o = &m->of[i];
    return allowed || !o->together.allowed ? &o->together : &o->alone;
}

/* ---- answering ------------------------------------------------------------------------------- */

static void answer_eights(const many *m, bool allowed)
{
    redis.ReplyWithArray(m->call.ctx, 1 + 8 * (long)m->len);
    weir_call_i64(&m->call, (int64_t)blocking(m));
    for (size_t i = 0; i < m->len; i++)
        weir_call_eight(&m->call, told(m, i, allowed), 0);
}

/* Which request's figures stand for all. */
static size_t spokesman(const many *m, bool allowed)
{
    size_t at = blocking(m);
    if (!allowed)
        return at;
    at = 0;
    for (size_t i = 1; i < m->len; i++) {
        if (weir_outranks(&m->of[i].together, &m->of[at].together))
            at = i;
    }
    return at;
}

static void answer_figures(const many *m, bool allowed)
{
    const weir_call *c = &m->call;
    size_t at = spokesman(m, allowed);
    const weir_wish *w = &m->of[at].wish;
    weir_decision d = *told(m, at, allowed);
    d.delay_ns = 0;
    for (size_t i = 0; i < m->len && allowed; i++) {
        if (m->of[i].together.delay_ns > d.delay_ns)
            d.delay_ns = m->of[i].together.delay_ns;
    }
    weir_call_figures(c, &d, 4, 1);
    if (c->with_names)
        weir_call_text(c, "index");
    weir_call_i64(c, (int64_t)at);
    weir_call_policy(c, w->scope);
    if (c->with_names) {
        weir_call_text(c, "key");
        redis.ReplyWithStringBuffer(c->ctx, w->key.at, w->key.len);
    }
    weir_call_layer(c, &d);
}

static void decide_and_answer(many *m, bool by_text)
{
    bool allowed;
    if (!read_count(m) || !read_wishes(m) || !find_scopes(m, by_text))
        return;
    weir_moment at = weir_moment_now();
    if (!open_cells(m, at.now_ns) || !decide_all(m, at.now_ns, &allowed))
        return;
    if (allowed)
        weir_cells_write(m->call.ctx, m->cell, m->cells, at, "weir.take");
    if (by_text)
        answer_eights(m, allowed);
    else
        answer_figures(m, allowed);
}

static int run(redis_ctx *ctx, redis_string **argv, int argc, bool by_text)
{
    if (argc < FIRST + TRIPLE)
        return redis.WrongArity(ctx);
    many *m = redis.Alloc(sizeof *m); /* too much for a stack that others need, too */
    m->call = by_text ? (weir_call){ctx, argv, argc, false}
                      : weir_call_decision(ctx, argv, argc, FIRST + TRIPLE);
    m->len = m->targets = m->cells = m->finds = 0;
    decide_and_answer(m, by_text);
    for (size_t i = 0; i < m->cells; i++)
        weir_cell_close(&m->cell[i]);
    for (size_t i = 0; i < m->targets; i++)
        weir_key_close(&m->target[i]);
    for (size_t i = 0; i < m->finds; i++)
        weir_interned_unref(m->of[i].wish.scope);
    redis.Free(m);
    return REDIS_OK;
}

/* WEIR.TAKEALL n policy key cost [policy key cost ...] [WITHNAMES] */
int weir_take_all_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    return run(ctx, argv, argc, false);
}

/* WEIR.ASKALL count policy-text key cost [policy-text key cost ...] */
int weir_ask_all_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    return run(ctx, argv, argc, true);
}
