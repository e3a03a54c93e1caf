/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs WEIR.TAKE, CHECK, PEEK, REFUND, CHARGE, RESET, RESETALL, EXPLAIN and TAKEALL. The daemon
 * decides TAKE and CHECK in batches instead (session.c), with the same parser and the same reply.
 */

#include "codec/resp/command.h"

#include "port/assert.h"

#include <string.h>

static void run_take(weir_call *c, weir_verb verb, bool by_text)
{
    weir_request r; /* not cleared: it is large */
    r.status = WEIR_OK;
    r.policy = NULL;
    r.why = NULL;
    r.error.column = 0;
    const char *error = weir_call_read_take(c, by_text, &r);
    if (error)
        weir_call_syntax_error(c, error);
    else if (c->backend->decide(c, verb, &r))
        (verb == WEIR_VERB_PEEK ? weir_call_put_peek : weir_call_put_decision)(c, &r);
}

void weir_run_take(weir_call *c)
{
    run_take(c, WEIR_VERB_TAKE, false);
}

void weir_run_check(weir_call *c)
{
    run_take(c, WEIR_VERB_TAKE, true);
}

void weir_run_peek(weir_call *c)
{
    run_take(c, WEIR_VERB_PEEK, false);
}

static void put_charge(weir_call *c, const weir_request *r)
{
    if (r->status != WEIR_OK) {
        weir_call_request_error(c, r, "");
        return;
    }
    weir_call_put_fields(c, &r->decision, c->with_names ? r->next_ns : 0, 3, 1);
    weir_call_put_name(c, "over");
    c->backend->integer(c, r->over);
    weir_call_put_policy(c, r);
    weir_call_put_layer(c, &r->decision);
}

void weir_run_charge(weir_call *c)
{
    weir_request r = weir_call_request(c, 1);
    const char *error = NULL;
    r.cost = 1;
    if (c->args == 5 && weir_resp_word_is(c->arg[3], "COST"))
        error = weir_call_read_cost(c, 4, &r.cost);
    else if (c->args != 3)
        error = "syntax error, expected [COST n] [WITHNAMES] after the key";
    if (error)
        weir_call_error(c, "ERR %s", error);
    else if (c->backend->decide(c, WEIR_VERB_CHARGE, &r))
        put_charge(c, &r);
}

void weir_run_refund(weir_call *c)
{
    weir_request r = weir_call_request(c, 1);
    const char *error = weir_call_read_cost(c, 3, &r.cost);
    if (error)
        weir_call_error(c, "ERR %s", error);
    else if (c->backend->decide(c, WEIR_VERB_REFUND, &r))
        weir_call_put_decision(c, &r);
}

static void put_ok(weir_call *c, const weir_request *r)
{
    if (r->status == WEIR_OK)
        c->backend->simple(c, "OK");
    else
        weir_call_request_error(c, r, "");
}

void weir_run_reset(weir_call *c)
{
    weir_request r = weir_call_request(c, 1);
    if (c->backend->decide(c, WEIR_VERB_RESET, &r))
        put_ok(c, &r);
}

void weir_run_reset_all(weir_call *c)
{
    weir_request r = weir_call_policy(c, 1);
    if (c->backend->reset_policy(c, &r))
        put_ok(c, &r);
}

/* ---- WEIR.EXPLAIN ---------------------------------------------------------------------------- */

/* An array with a string for each line. */
static void put_lines(weir_call *c, const weir_buffer *text)
{
    const char *at = (const char *)weir_buffer_data(text), *end = at + weir_buffer_len(text);
    size_t lines = 0;
    for (const char *p = at; p < end; p++)
        lines += *p == '\n';
    c->backend->array(c, lines);
    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        c->backend->bulk(c, at, (size_t)(lf - at));
        at = lf + 1;
    }
}

void weir_run_explain(weir_call *c)
{
    weir_request r = weir_call_request(c, 1);
    weir_buffer text;
    weir_buffer_init(&text, 64 << 10);
    if (c->backend->explain(c, &r, &text)) {
        if (text.failed)
            r.status = WEIR_E_NOMEM;
        if (r.status == WEIR_OK)
            put_lines(c, &text);
        else
            weir_call_request_error(c, &r, "");
    }
    weir_buffer_free(&text);
}

/* ---- WEIR.TAKEALL ---------------------------------------------------------------------------- */

static void put_first_error(weir_call *c, const weir_request *r, size_t n)
{
    size_t i = 0;
    while (i + 1 < n && r[i].status == WEIR_OK)
        i++;
    weir_call_request_error(c, &r[i], weir_where_request(i).text);
}

void weir_run_take_all(weir_call *c)
{
    weir_request requests[WEIR_ALL_MAX];
    weir_all_result all;
    size_t n = weir_call_read_all(c, requests);
    if (n == 0 || !c->backend->take_all(c, requests, n, &all))
        return;
    if (all.status != WEIR_OK) {
        put_first_error(c, requests, n);
        return;
    }
    weir_request *r = &requests[all.index];
    WEIR_ASSERT(r->decision.allowed == all.allowed);
    r->decision.delay_ns = all.delay_ns;
    weir_call_put_fields(c, &r->decision, c->with_names ? r->next_ns : 0, 4, 1);
    weir_call_put_name(c, "index");
    c->backend->integer(c, (int64_t)all.index);
    weir_call_put_policy(c, r);
    if (c->with_names) {
        weir_call_put_name(c, "key");
        c->backend->bulk(c, r->key.at, r->key.len);
    }
    weir_call_put_layer(c, &r->decision);
}
