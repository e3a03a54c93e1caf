/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The commands that decide on one key. */

#include "call.h"

#include "codec/decision.h"

#include <stdio.h>

/* Finds the scope, opens the key, decides, keeps; and answers if that cannot be done. */
static bool decide(const weir_call *c, weir_wish *w, bool by_text, weir_verb verb,
                   const char *event, weir_decision *ret, int64_t *ret_granted)
{
    weir_open_key t;
    weir_cell cell;
    weir_status st = weir_wish_find(w, by_text);
    if (st != WEIR_OK) {
        weir_call_failure(c, w, st, "");
        return false;
    }
    int mode = verb == WEIR_VERB_PEEK ? REDIS_READ : REDIS_READ | REDIS_WRITE;
    if (!weir_key_open(&t, c->ctx, w->key_name, mode)) {
        weir_interned_unref(w->scope);
        weir_call_wrong_type(c);
        return false;
    }
    weir_moment at = weir_moment_now();
    st = weir_cell_open(&cell, &t, w->scope, at.now_ns);
    if (st == WEIR_OK)
        st = weir_cell_decide(&cell, verb, at.now_ns, w->cost, ret, ret_granted);
    if (st == WEIR_OK && event)
        weir_cells_write(c->ctx, &cell, 1, at, event);
    weir_cell_close(&cell);
    weir_key_close(&t);
    weir_interned_unref(w->scope);
    if (st != WEIR_OK)
        weir_call_failure(c, w, st, "");
    return st == WEIR_OK;
}

static void answer(const weir_call *c, const weir_wish *w, const weir_decision *d)
{
    weir_call_figures(c, d, 2, 0);
    weir_call_policy(c, w->scope);
    weir_call_layer(c, d);
}

/* What stands after the key is neither COST n nor WITHNAMES. */
static int wrong_option(const weir_call *c, weir_arg found)
{
    int len = found.len < 100 ? (int)found.len : 100;
    return weir_call_error(c,
                           "ERR syntax error, found '%.*s', expected [COST n] [WITHNAMES] after "
                           "the key",
                           len, found.at);
}

/* "policy key [COST n] [WITHNAMES]" */
static int run(redis_ctx *ctx, redis_string **argv, int argc, bool by_text, weir_verb verb,
               const char *event)
{
    weir_call c = weir_call_decision(ctx, argv, argc, 3);
    weir_decision d;
    int64_t granted;
    if (c.argc < 3 || c.argc > 5)
        return redis.WrongArity(ctx);
    weir_wish w = weir_call_wish(&c, 1);
    const char *error = NULL;
    if (c.argc == 5 && weir_arg_is(weir_call_arg(&c, 3), "COST"))
        error = weir_call_cost(&c, 4, &w.cost);
    else if (c.argc > 3)
        return wrong_option(&c, weir_call_arg(&c, 3));
    if (error)
        return weir_call_error(&c, "ERR %s", error);
    if (decide(&c, &w, by_text, verb, event, &d, &granted))
        answer(&c, &w, &d);
    return REDIS_OK;
}

int weir_take_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    return run(ctx, argv, argc, false, WEIR_VERB_TAKE, "weir.take");
}

int weir_check_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    return run(ctx, argv, argc, true, WEIR_VERB_TAKE, "weir.take");
}

int weir_peek_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    return run(ctx, argv, argc, false, WEIR_VERB_PEEK, NULL);
}

int weir_refund_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = weir_call_decision(ctx, argv, argc, 4);
    weir_decision d;
    int64_t granted;
    if (c.argc != 4)
        return redis.WrongArity(ctx);
    weir_wish w = weir_call_wish(&c, 1);
    const char *error = weir_call_cost(&c, 3, &w.cost);
    if (error)
        return weir_call_error(&c, "ERR %s", error);
    if (decide(&c, &w, false, WEIR_VERB_REFUND, "weir.refund", &d, &granted))
        answer(&c, &w, &d);
    return REDIS_OK;
}

int weir_reset_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    weir_decision d;
    int64_t granted;
    if (argc != 3)
        return redis.WrongArity(ctx);
    weir_wish w = weir_call_wish(&c, 1);
    if (decide(&c, &w, false, WEIR_VERB_RESET, "weir.reset", &d, &granted))
        redis.ReplyWithSimpleString(ctx, "OK");
    return REDIS_OK;
}

/* ---- for programs ---------------------------------------------------------------------------- */

static int64_t us_ceil(int64_t ns)
{
    return ns / 1000 + (ns % 1000 > 0);
}

void weir_call_eight(const weir_call *c, const weir_decision *d, int64_t granted)
{
    weir_call_i64(c, d->allowed);
    weir_call_i64(c, d->limit);
    weir_call_i64(c, d->remaining);
    weir_call_i64(c, d->never ? -1 : us_ceil(d->retry_after_ns));
    weir_call_i64(c, us_ceil(d->reset_after_ns));
    weir_call_i64(c, us_ceil(d->delay_ns));
    weir_call_i64(c, d->layer);
    weir_call_i64(c, granted);
}

static bool read_verb(weir_arg a, weir_verb *ret, const char **ret_event)
{
    static const struct {
        const char *word;
        weir_verb verb;
        const char *event;
    } verbs[] = {
        {"TAKE", WEIR_VERB_TAKE, "weir.take"},    {"PEEK", WEIR_VERB_PEEK, NULL},
        {"GRANT", WEIR_VERB_GRANT, "weir.take"},  {"REFUND", WEIR_VERB_REFUND, "weir.refund"},
        {"RESET", WEIR_VERB_RESET, "weir.reset"},
    };
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (weir_arg_is(a, verbs[i].word)) {
            *ret = verbs[i].verb;
            *ret_event = verbs[i].event;
            return true;
        }
    }
    return false;
}

/* WEIR.ASK verb policy-text key n */
int weir_ask_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    weir_verb verb;
    const char *event, *error;
    weir_decision d;
    int64_t granted;
    if (argc != 5)
        return redis.WrongArity(ctx);
    if (!read_verb(weir_call_arg(&c, 1), &verb, &event))
        return weir_call_error(&c, "ERR the verb is none of TAKE, PEEK, REFUND, GRANT and RESET");
    weir_wish w = weir_call_wish(&c, 2);
    w.by_program = true;
    error = weir_call_cost(&c, 4, &w.cost);
    if (error)
        return weir_call_error(&c, "ERR %s", error);
    if (!decide(&c, &w, true, verb, event, &d, &granted))
        return REDIS_OK;
    redis.ReplyWithArray(ctx, 8);
    weir_call_eight(&c, &d, granted);
    return REDIS_OK;
}
