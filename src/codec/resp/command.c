/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of commands, their arguments, and the replies that several of them share. */

#include "codec/resp/command.h"

#include "core/algorithm.h"
#include "core/decision.h"
#include "port/assert.h"
#include "service/rules/keep.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const weir_command weir_commands[WEIR_COMMANDS] = {
    [WEIR_COMMAND_TAKE] = {"WEIR.TAKE", WEIR_MAY_TAKE, weir_run_take, 3, 7, 2, 1, true,
                           "WEIR.TAKE policy key [COST n] [KEEP m] [WITHNAMES]"},
    [WEIR_COMMAND_CHECK] = {"WEIR.CHECK", WEIR_MAY_TAKE, weir_run_check, 3, 7, 2, 1, true,
                            "WEIR.CHECK policy-text key [COST n] [KEEP m] [WITHNAMES]"},
    [WEIR_COMMAND_TAKEALL] = {"WEIR.TAKEALL", WEIR_MAY_TAKE, weir_run_take_all, 5, 0, 3, 3, true,
                              "WEIR.TAKEALL n policy key cost[+keep] [policy key cost[+keep] ...] "
                              "[WITHNAMES]"},
    [WEIR_COMMAND_PEEK] = {"WEIR.PEEK", WEIR_MAY_PEEK, weir_run_peek, 3, 7, 2, 1, true,
                           "WEIR.PEEK policy key [COST n] [KEEP m] [WITHNAMES]"},
    [WEIR_COMMAND_REFUND] = {"WEIR.REFUND", WEIR_MAY_REFUND, weir_run_refund, 4, 4, 2, 1, true,
                             "WEIR.REFUND policy key n [WITHNAMES]"},
    [WEIR_COMMAND_CHARGE] = {"WEIR.CHARGE", WEIR_MAY_TAKE, weir_run_charge, 3, 5, 2, 1, true,
                             "WEIR.CHARGE policy key [COST n] [WITHNAMES]"},
    [WEIR_COMMAND_RESET] = {"WEIR.RESET", WEIR_MAY_RESET, weir_run_reset, 3, 3, 2, 1, false,
                            "WEIR.RESET policy key"},
    [WEIR_COMMAND_RESETALL] = {"WEIR.RESETALL", WEIR_MAY_RESET, weir_run_reset_all, 2, 2, 0, 0,
                               false, "WEIR.RESETALL policy"},
    [WEIR_COMMAND_EXPLAIN] = {"WEIR.EXPLAIN", WEIR_MAY_PEEK, weir_run_explain, 3, 3, 2, 1, false,
                              "WEIR.EXPLAIN policy key"},
    [WEIR_COMMAND_POLICY] = {"WEIR.POLICY", WEIR_MAY_PEEK | WEIR_MAY_POLICY, weir_run_policy, 2, 0,
                             0, 0, false,
                             "WEIR.POLICY LIST | GET name | SET name policy-text | DEL name"},
    [WEIR_COMMAND_THROTTLE] = {"CL.THROTTLE", WEIR_MAY_TAKE, weir_run_throttle, 1, 0, 1, 1, false,
                               "CL.THROTTLE key max_burst count period [quantity]"},
};

size_t weir_command_lower(const weir_command *cmd, char buf[WEIR_COMMAND_NAME_MAX])
{
    const char *name = cmd->name;
    size_t len = 0;
    for (; name[len]; len++)
        buf[len] = weir_lower(name[len]);
    buf[len] = '\0';
    return len;
}

/* ---- arguments ------------------------------------------------------------------------------- */

#define STRING(x)  #x
#define DECIMAL(x) STRING(x)
#define COST_MAX   2147483647
_Static_assert(COST_MAX == WEIR_COST_MAX, "the message below quotes the maximum");

static const char bad_cost[] = "the cost: expected a whole number from 0 to " DECIMAL(COST_MAX);
static const char bad_keep[] = "what to keep: " WEIR_KEEP_EXPECTED;

const char *weir_call_read_cost(const weir_call *c, size_t i, int64_t *ret)
{
    if (weir_i64_read(c->arg[i].at, c->arg[i].len, ret) && *ret >= 0 && *ret <= COST_MAX)
        return NULL;
    return bad_cost;
}

const char *weir_call_read_units(weir_slice text, weir_request *ret)
{
    const char *plus = memchr(text.at, '+', text.len);
    size_t len = plus ? (size_t)(plus - text.at) : text.len;
    ret->keep = 0;
    if (!weir_i64_read(text.at, len, &ret->cost) || ret->cost < 0 || ret->cost > COST_MAX)
        return bad_cost;
    if (plus && !weir_keep_read((weir_slice){plus + 1, text.len - len - 1}, &ret->keep))
        return bad_keep;
    return NULL;
}

/* A policy text contains a space; a policy name does not. */
static bool is_text(weir_slice rule)
{
    return memchr(rule.at, ' ', rule.len) != NULL;
}

weir_request weir_call_policy(const weir_call *c, size_t i)
{
    return (weir_request){.rule = c->arg[i], .by_text = is_text(c->arg[i])};
}

weir_request weir_call_request(const weir_call *c, size_t i)
{
    return (weir_request){.rule = c->arg[i],
                          .by_text = is_text(c->arg[i]),
                          .key = c->arg[i + 1],
                          .with_figures = c->with_names};
}

static const char after_key[] = "expected [COST n] [KEEP m] [WITHNAMES] after the key";

/* Reads [COST n] [KEEP m] from arg[i] on. */
static const char *read_options(const weir_call *c, size_t i, weir_request *ret)
{
    if (i + 1 < c->args && weir_resp_word_is(c->arg[i], "COST")) {
        const char *error = weir_call_read_cost(c, i + 1, &ret->cost);
        if (error)
            return error;
        i += 2;
    }
    if (i + 1 < c->args && weir_resp_word_is(c->arg[i], "KEEP")) {
        if (!weir_keep_read(c->arg[i + 1], &ret->keep))
            return bad_keep;
        i += 2;
    }
    return i == c->args ? NULL : after_key;
}

/* Writes only these six fields. The daemon parses whole batches, and clearing all fields of a
 * request would be slow. */
const char *weir_call_read_take(const weir_call *c, bool by_text, weir_request *ret)
{
    ret->rule = c->arg[1];
    ret->by_text = by_text || is_text(ret->rule);
    ret->key = c->arg[2];
    ret->cost = 1;
    ret->keep = 0;
    ret->with_figures = c->with_names;
    ret->client = NULL;
    return c->args == 3 ? NULL : read_options(c, 3, ret);
}

void weir_call_syntax_error(weir_call *c, const char *error)
{
    size_t i = 3;
    if (error != after_key) {
        weir_call_error(c, "ERR %s", error);
        return;
    }
    while (i + 2 < c->args &&
           (weir_resp_word_is(c->arg[i], "COST") || weir_resp_word_is(c->arg[i], "KEEP")))
        i += 2;
    weir_call_error(c, "ERR syntax error, found '%.*s', %s", weir_call_quoted_len(c->arg[i]),
                    c->arg[i].at, error);
}

weir_where weir_where_request(size_t i)
{
    weir_where w;
    snprintf(w.text, sizeof w.text, "request %zu: ", i);
    return w;
}

size_t weir_call_read_all(weir_call *c, weir_request *ret)
{
    enum { FIRST = 2, TRIPLE = 3 }; /* arguments before the first request; of each request */
    int64_t n;
    if (!weir_i64_read(c->arg[1].at, c->arg[1].len, &n) || n < 1 || n > WEIR_ALL_MAX) {
        weir_call_error(c, "ERR expected 1 to %d requests, found '%.*s'", WEIR_ALL_MAX,
                        weir_call_quoted_len(c->arg[1]), c->arg[1].at);
        return 0;
    }
    if (c->args != FIRST + (size_t)n * TRIPLE) {
        weir_call_error(c,
                        "ERR expected 'policy key cost' %d times after the number, found %zu "
                        "arguments",
                        (int)n, c->args - FIRST);
        return 0;
    }
    for (size_t i = 0; i < (size_t)n; i++) {
        size_t at = FIRST + i * TRIPLE;
        ret[i] = weir_call_request(c, at);
        const char *error = weir_call_read_units(c->arg[at + 2], &ret[i]);
        if (error) {
            weir_call_error(c, "ERR %s%s", weir_where_request(i).text, error);
            return 0;
        }
    }
    return (size_t)n;
}

/* ---- errors ---------------------------------------------------------------------------------- */

void weir_call_error(weir_call *c, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t most = sizeof text - 1;
    c->backend->error(c, text, len < 0 ? 0 : (size_t)len < most ? (size_t)len : most);
}

void weir_call_status_error(weir_call *c, weir_status st, size_t key_len, const char *where)
{
    if (st == WEIR_E_RANGE && (key_len == 0 || key_len > WEIR_KEY_MAX))
        weir_call_error(c, "ERR %sthe key has %zu bytes, expected 1 to %d", where, key_len,
                        WEIR_KEY_MAX);
    else if (st == WEIR_E_NOMEM)
        weir_call_error(c, "OOM %s%s", where, c->backend->no_memory);
    else if (st == WEIR_E_FULL)
        weir_call_error(c, "OOM %s%s", where, c->backend->full);
    else
        weir_call_error(c, "ERR %s%s", where, weir_status_str(st));
}

void weir_call_request_error(weir_call *c, const weir_request *r, const char *where)
{
    if (r->error.column > 0)
        weir_call_error(c, "ERR %spolicy: column %u: %s", where, r->error.column, r->error.text);
    else if (r->status == WEIR_E_ABSENT)
        weir_call_error(c, "ERR %sno policy '%.*s'; WEIR.POLICY LIST shows all policies", where,
                        weir_call_quoted_len(r->rule), r->rule.at);
    else if (r->why)
        weir_call_error(c, "ERR %s%s", where, r->why);
    else if (r->status == WEIR_E_UNSUPPORTED)
        weir_call_error(c, "ERR %s" WEIR_NO_REFUNDS, where);
    else
        weir_call_status_error(c, r->status, r->key.len, where);
}

/* ---- decisions ------------------------------------------------------------------------------- */

void weir_call_put_name(weir_call *c, const char *name)
{
    if (c->with_names)
        weir_call_put_text(c, name);
}

void weir_call_put_policy(weir_call *c, const weir_request *r)
{
    if (!c->with_names)
        return;
    weir_call_put_text(c, "policy");
    if (!r->by_text) {
        c->backend->bulk(c, r->rule.at, r->rule.len);
        return;
    }
    char text[WEIR_POLICY_TEXT_MAX];
    c->backend->bulk(c, text, weir_policy_print(r->policy, text, sizeof text));
}

void weir_call_put_layer(weir_call *c, const weir_decision *d)
{
    if (!c->with_names)
        return;
    weir_call_put_text(c, "layer");
    c->backend->integer(c, d->layer);
}

void weir_call_put_fields(weir_call *c, const weir_decision *d, int64_t next_ns, size_t more_in_map,
                          size_t more_in_array)
{
    int64_t fields[WEIR_DECISION_FIELDS];
    WEIR_ASSERT(more_in_array <= 1 && more_in_map >= 1);
    weir_decision_get_fields(d, 1000000, fields);
    if (!c->with_names) {
        c->backend->integers(c, fields, WEIR_DECISION_FIELDS, more_in_array);
        return;
    }
    bool has_next = next_ns != WEIR_NEXT_UNKNOWN;
    c->backend->map(c, WEIR_DECISION_FIELDS + has_next + more_in_map);
    for (int i = 0; i < WEIR_DECISION_FIELDS; i++) {
        weir_call_put_text(c, weir_decision_field_names[i]);
        c->backend->integer(c, fields[i]);
    }
    if (!has_next)
        return;
    weir_call_put_text(c, "next_ms");
    c->backend->integer(c, weir_next_units(next_ns, 1000000));
}

/* Replies with the decision of a request, and n figures if the reply has names. */
static void put_decision(weir_call *c, const weir_request *r, const weir_figure *figures, size_t n)
{
    if (r->status != WEIR_OK) {
        weir_call_request_error(c, r, "");
        return;
    }
    weir_call_put_fields(c, &r->decision, c->with_names ? r->next_ns : 0, 2 + n, 0);
    if (!c->with_names)
        return;
    weir_call_put_policy(c, r);
    weir_call_put_layer(c, &r->decision);
    for (size_t i = 0; i < n; i++) {
        weir_call_put_text(c, figures[i].name);
        c->backend->integer(c, figures[i].value);
    }
}

void weir_call_put_decision(weir_call *c, const weir_request *r)
{
    put_decision(c, r, NULL, 0);
}

void weir_call_put_peek(weir_call *c, const weir_request *r)
{
    weir_figure figures[WEIR_FIGURES_MAX];
    bool has_figures = c->with_names && r->status == WEIR_OK;
    put_decision(c, r, figures, has_figures ? weir_figures_list(&r->figures, figures) : 0);
}
