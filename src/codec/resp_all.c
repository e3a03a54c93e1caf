/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The commands that take from several keys at once, and those that take for the time being. What
 * they answer begins as the answer of WEIR.TAKE does. */

#include "codec/id.h"
#include "codec/resp_call.h"
#include "codec/span.h"

#include <stdio.h>

/* ---- WEIR.TAKEALL ---------------------------------------------------------------------------- */

enum { FIRST = 2, TRIPLE = 3 }; /* arguments before the first request, and of each */

/* How many requests there are; 0, and the answer, if that is wrong. */
static size_t read_count(weir_resp_call *c)
{
    int64_t n;
    if (!weir_resp_i64(c->arg[1].at, c->arg[1].len, &n) || n < 1 || n > WEIR_ALL_MAX) {
        weir_resp_put_errorf(c, "ERR the number of requests is not a whole number from 1 to %d",
                             WEIR_ALL_MAX);
        return 0;
    }
    if (c->args != FIRST + (size_t)n * TRIPLE) {
        weir_resp_put_errorf(c,
                             "ERR expected %d times policy key cost after the number, found %zu "
                             "arguments",
                             (int)n, c->args - FIRST);
        return 0;
    }
    return (size_t)n;
}

/* "request 2: ", counted from 0 as in the answer. */
typedef struct where {
    char text[24];
} where;

static where where_of(size_t i)
{
    where w;
    snprintf(w.text, sizeof w.text, "request %zu: ", i);
    return w;
}

static bool read_asks(weir_resp_call *c, weir_request *asks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = FIRST + i * TRIPLE;
        asks[i] = weir_resp_ask_about(c, at);
        const char *error = weir_resp_read_cost(c, at + 2, &asks[i].cost);
        if (error) {
            weir_resp_put_errorf(c, "ERR %s%s", where_of(i).text, error);
            return false;
        }
    }
    return true;
}

static void put_first_failure(weir_resp_call *c, const weir_request *asks, size_t n)
{
    size_t i = 0;
    while (i + 1 < n && asks[i].status == WEIR_OK)
        i++;
    weir_resp_put_failure(c, &asks[i], where_of(i).text);
}

/* WEIR.TAKEALL n policy key cost [policy key cost ...] [WITHNAMES] */
void weir_resp_take_all(weir_resp_call *c)
{
    weir_request asks[WEIR_ALL_MAX];
    weir_all_result all;
    size_t n = read_count(c);
    if (n == 0 || !read_asks(c, asks, n))
        return;
    c->waits = !weir_service_take_all(c->session->options->service, &c->session->completion, asks,
                                      n, c->now_ns, &all);
    if (c->waits)
        return;
    if (all.status != WEIR_OK) {
        put_first_failure(c, asks, n);
        return;
    }
    weir_request *ask = &asks[all.index];
    ask->decision.allowed = all.allowed;
    ask->decision.delay_ns = all.delay_ns;
    weir_resp_put_figures(c, &ask->decision, 4, 1);
    weir_resp_put_name(c, "index");
    weir_resp_put_i64(c->out, (int64_t)all.index);
    weir_resp_put_policy(c, ask);
    if (c->with_names) {
        weir_resp_put_name(c, "key");
        weir_resp_put_bulk(c->out, ask->key.at, ask->key.len);
    }
    weir_resp_put_layer(c, &ask->decision);
}

/* ---- WEIR.RESERVE, COMMIT, CANCEL ------------------------------------------------------------ */

static void put_id(weir_resp_call *c, uint64_t id)
{
    char text[WEIR_HEX64_LEN];
    weir_hex64_print(id, text);
    weir_resp_put_bulk(c->out, text, sizeof text);
}

/* WEIR.RESERVE policy key n TTL time [WITHNAMES] */
void weir_resp_reserve(weir_resp_call *c)
{
    weir_request ask = weir_resp_ask_about(c, 1);
    int64_t ttl_ns;
    uint64_t id = WEIR_ID_NONE;
    const char *error = weir_resp_read_cost(c, 3, &ask.cost);
    if (!error && !weir_resp_call_is(c, 4, "TTL"))
        error = "syntax error, expected policy key n TTL time [WITHNAMES] after the command";
    else if (!error && !weir_span_read((const char *)c->arg[5].at, c->arg[5].len, &ttl_ns))
        error = "the TTL is not " WEIR_SPAN_EXPECTED;
    if (error) {
        weir_resp_put_errorf(c, "ERR %s", error);
        return;
    }
    weir_service_reserve(c->session->options->service, &ask, ttl_ns, c->now_ns, &id);
    if (ask.status == WEIR_E_FULL) {
        weir_resp_put_errorf(c, "OOM " WEIR_RESERVE_FULL);
        return;
    }
    if (ask.status != WEIR_OK) {
        weir_resp_put_failure(c, &ask, "");
        return;
    }
    weir_resp_put_figures(c, &ask.decision, 3, 1);
    weir_resp_put_name(c, "id");
    if (ask.decision.allowed)
        put_id(c, id);
    else
        weir_resp_put_null(c->out, c->session->proto);
    weir_resp_put_policy(c, &ask);
    weir_resp_put_layer(c, &ask.decision);
}

static void settle(weir_resp_call *c, int64_t actual)
{
    const weir_slice text = weir_resp_call_text(c, 1);
    uint64_t id;
    weir_decision d;
    int64_t over;
    if (!weir_hex64_read(text.at, text.len, &id)) {
        weir_resp_put_errorf(c, "ERR the id is not " WEIR_ID_EXPECTED);
        return;
    }
    weir_status st =
        weir_service_commit(c->session->options->service, id, actual, c->now_ns, &d, &over);
    if (st == WEIR_E_ABSENT) {
        weir_resp_put_errorf(c, "ERR no reservation %.*s: it was settled, or has run out",
                             WEIR_HEX64_LEN, text.at);
        return;
    }
    if (st != WEIR_OK) {
        weir_resp_put_status(c, st, 1, "");
        return;
    }
    weir_resp_put_figures(c, &d, 2, 1);
    weir_resp_put_name(c, "over");
    weir_resp_put_i64(c->out, over);
    weir_resp_put_layer(c, &d);
}

/* WEIR.COMMIT id actual [WITHNAMES] */
void weir_resp_commit(weir_resp_call *c)
{
    int64_t actual;
    const char *error = weir_resp_read_cost(c, 2, &actual);
    if (error)
        weir_resp_put_errorf(c, "ERR %s", error);
    else
        settle(c, actual);
}

/* WEIR.CANCEL id [WITHNAMES] */
void weir_resp_cancel(weir_resp_call *c)
{
    settle(c, 0);
}
