/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The commands that decide: WEIR.* and CL.THROTTLE, from arguments to the service and back. */

#include "codec/figures.h"
#include "codec/resp_call.h"

#include <string.h>

/* ---- arguments ------------------------------------------------------------------------------- */

#define STRING(x)  #x
#define DECIMAL(x) STRING(x)
#define COST_MAX   2147483647
_Static_assert(COST_MAX == WEIR_COST_MAX, "the text below says the bound");

const char *weir_resp_read_cost(const weir_resp_call *c, size_t i, int64_t *ret)
{
    if (weir_resp_i64(c->arg[i].at, c->arg[i].len, ret) && *ret >= 0 && *ret <= COST_MAX)
        return NULL;
    return "the cost is not a whole number from 0 to " DECIMAL(COST_MAX);
}

/* No name has a space in it, and every policy text has. */
static bool is_text(weir_slice rule)
{
    return memchr(rule.at, ' ', rule.len) != NULL;
}

static const char after_key[] = "expected [COST n] [WITHNAMES] after the key";

const char *weir_resp_read_ask(const weir_resp_call *c, bool by_text, weir_request *ret)
{
    ret->rule = weir_resp_call_text(c, 1);
    ret->by_text = by_text || is_text(ret->rule);
    ret->key = weir_resp_call_text(c, 2);
    ret->cost = 1;
    if (c->args == 3)
        return NULL;
    if (c->args != 5 || !weir_resp_call_is(c, 3, "COST"))
        return after_key;
    return weir_resp_read_cost(c, 4, &ret->cost);
}

void weir_resp_put_ask_error(weir_resp_call *c, const char *error)
{
    if (error != after_key) {
        weir_resp_put_errorf(c, "ERR %s", error);
        return;
    }
    weir_slice found = weir_resp_call_text(c, 3);
    int len = found.len < 100 ? (int)found.len : 100;
    weir_resp_put_errorf(c, "ERR syntax error, found '%.*s', %s", len, found.at, error);
}

/* ---- answers --------------------------------------------------------------------------------- */

void weir_resp_put_status(weir_resp_call *c, weir_status st, size_t key_len, const char *where)
{
    if (st == WEIR_E_RANGE && (key_len == 0 || key_len > WEIR_KEY_MAX))
        weir_resp_put_errorf(c, "ERR %sthe key has %zu bytes, expected 1 to %d", where, key_len,
                             WEIR_KEY_MAX);
    else if (st == WEIR_E_NOMEM)
        weir_resp_put_errorf(c, "OOM %sthe store is full and nothing could make room", where);
    else if (st == WEIR_E_FULL)
        weir_resp_put_errorf(c, "OOM %sthe store is full and refuses new keys", where);
    else
        weir_resp_put_errorf(c, "ERR %s%s", where, weir_status_str(st));
}

void weir_resp_put_failure(weir_resp_call *c, const weir_request *ask, const char *where)
{
    int len = ask->rule.len < 100 ? (int)ask->rule.len : 100;
    if (ask->error.column > 0)
        weir_resp_put_errorf(c, "ERR %spolicy: column %u: %s", where, ask->error.column,
                             ask->error.text);
    else if (ask->status == WEIR_E_ABSENT)
        weir_resp_put_errorf(c, "ERR %sno policy '%.*s'; WEIR.POLICY LIST shows those there are",
                             where, len, ask->rule.at);
    else if (ask->why)
        weir_resp_put_errorf(c, "ERR %s%s", where, ask->why);
    else if (ask->status == WEIR_E_UNSUPPORTED)
        weir_resp_put_errorf(c, "ERR leaky-queue and count-denied policies do not support refunds");
    else
        weir_resp_put_status(c, ask->status, ask->key.len, where);
}

void weir_resp_put_policy(weir_resp_call *c, const weir_request *ask)
{
    if (!c->with_names)
        return;
    weir_resp_put_text(c->out, "policy");
    if (!ask->by_text) {
        weir_resp_put_bulk(c->out, ask->rule.at, ask->rule.len);
        return;
    }
    char text[WEIR_POLICY_TEXT_MAX];
    weir_resp_put_bulk(c->out, text, weir_policy_print(ask->policy, text, sizeof text));
}

void weir_resp_put_name(weir_resp_call *c, const char *name)
{
    if (c->with_names)
        weir_resp_put_text(c->out, name);
}

void weir_resp_put_layer(weir_resp_call *c, const weir_decision *d)
{
    if (!c->with_names)
        return;
    weir_resp_put_text(c->out, "layer");
    weir_resp_put_i64(c->out, d->layer);
}

void weir_resp_put_figures(weir_resp_call *c, const weir_decision *d, size_t more_in_map,
                           size_t more_in_array)
{
    int64_t figures[WEIR_FIGURES];
    weir_figures_ms(d, figures);
    if (!c->with_names) {
        weir_resp_put_array(c->out, WEIR_FIGURES + more_in_array);
        weir_resp_put_integers(c->out, figures, WEIR_FIGURES);
        return;
    }
    weir_resp_put_map(c->out, WEIR_FIGURES + more_in_map, c->session->proto);
    for (int i = 0; i < WEIR_FIGURES; i++) {
        weir_resp_put_text(c->out, weir_figure_names[i]);
        weir_resp_put_i64(c->out, figures[i]);
    }
}

void weir_resp_put_answer(weir_resp_call *c, const weir_request *ask)
{
    if (ask->status != WEIR_OK) {
        weir_resp_put_failure(c, ask, "");
        return;
    }
    weir_resp_put_figures(c, &ask->decision, 2, 0);
    if (!c->with_names)
        return;
    weir_resp_put_policy(c, ask);
    weir_resp_put_layer(c, &ask->decision);
}

/* ---- WEIR.PEEK, REFUND, RESET, EXPLAIN ------------------------------------------------------- */

weir_request weir_resp_ask_about(const weir_resp_call *c, size_t i)
{
    weir_slice rule = weir_resp_call_text(c, i);
    return (weir_request){
        .rule = rule, .by_text = is_text(rule), .key = weir_resp_call_text(c, i + 1)};
}

void weir_resp_peek(weir_resp_call *c)
{
    weir_request ask = {0};
    const char *error = weir_resp_read_ask(c, false, &ask);
    if (error) {
        weir_resp_put_ask_error(c, error);
        return;
    }
    c->waits =
        !weir_service_peek(c->session->options->service, &c->session->completion, &ask, c->now_ns);
    if (!c->waits)
        weir_resp_put_answer(c, &ask);
}

void weir_resp_refund(weir_resp_call *c)
{
    weir_request ask = weir_resp_ask_about(c, 1);
    const char *error = weir_resp_read_cost(c, 3, &ask.cost);
    if (error) {
        weir_resp_put_errorf(c, "ERR %s", error);
        return;
    }
    c->waits = !weir_service_refund(c->session->options->service, &c->session->completion, &ask,
                                    c->now_ns);
    if (!c->waits)
        weir_resp_put_answer(c, &ask);
}

void weir_resp_reset(weir_resp_call *c)
{
    weir_request ask = weir_resp_ask_about(c, 1);
    c->waits =
        !weir_service_reset(c->session->options->service, &c->session->completion, &ask, c->now_ns);
    if (c->waits)
        return;
    if (ask.status == WEIR_OK)
        weir_resp_put_simple(c->out, "OK");
    else
        weir_resp_put_failure(c, &ask, "");
}

/* A list of lines. */
void weir_resp_explain(weir_resp_call *c)
{
    weir_request ask = weir_resp_ask_about(c, 1);
    weir_buffer text;
    weir_buffer_init(&text, 64 << 10);
    c->waits = !weir_service_explain(c->session->options->service, &c->session->completion, &ask,
                                     c->now_ns, &text);
    if (c->waits)
        return; /* nothing was written */
    if (ask.status != WEIR_OK || text.failed) {
        ask.status = text.failed ? WEIR_E_NOMEM : ask.status;
        weir_resp_put_failure(c, &ask, "");
        weir_buffer_free(&text);
        return;
    }
    size_t lines = 0, len = weir_buffer_len(&text);
    const char *at = (const char *)weir_buffer_data(&text), *end = at + len;
    for (size_t i = 0; i < len; i++)
        lines += at[i] == '\n';
    weir_resp_put_array(c->out, lines);
    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        weir_resp_put_bulk(c->out, at, (size_t)(lf - at));
        at = lf + 1;
    }
    weir_buffer_free(&text);
}

/* ---- WEIR.POLICY ----------------------------------------------------------------------------- */

enum { LIST_MAX = 4 << 20 }; /* bytes: all there may be, with the longest texts */

typedef struct listing {
    weir_resp_call *call;
    weir_buffer *out;
    size_t count;
    weir_slice only; /* the one that is looked for; len 0: all */
} listing;

static bool list_rule(void *ctx, const weir_rule_view *rule)
{
    listing *l = ctx;
    if (l->only.len > 0 &&
        (strlen(rule->name) != l->only.len || memcmp(rule->name, l->only.at, l->only.len) != 0))
        return true;
    l->count++;
    weir_buffer *out = l->out;
    weir_resp_put_map(out, 6, l->call->session->proto);
    weir_resp_put_text(out, "name");
    weir_resp_put_text(out, rule->name);
    weir_resp_put_text(out, "limit");
    weir_resp_put_text(out, rule->limit);
    weir_resp_put_text(out, "overrides");
    weir_resp_put_i64(out, (int64_t)rule->overrides);
    weir_resp_put_text(out, "allow");
    weir_resp_put_i64(out, (int64_t)rule->allow);
    weir_resp_put_text(out, "deny");
    weir_resp_put_i64(out, (int64_t)rule->deny);
    weir_resp_put_text(out, "shadow");
    weir_resp_put_bool(out, rule->shadow, l->call->session->proto);
    return l->only.len == 0;
}

/* In one go, since the rules may be others the next time: how many there were comes first. */
static void list_policies(weir_resp_call *c)
{
    weir_buffer list;
    weir_buffer_init(&list, LIST_MAX);
    listing l = {.call = c, .out = &list};
    weir_service_rules(c->session->options->service, list_rule, &l);
    if (list.failed) {
        weir_resp_put_status(c, WEIR_E_NOMEM, 1, "");
    } else {
        weir_resp_put_array(c->out, l.count);
        weir_buffer_append(c->out, weir_buffer_data(&list), weir_buffer_len(&list));
    }
    weir_buffer_free(&list);
}

static void get_policy(weir_resp_call *c)
{
    listing l = {.call = c, .out = c->out, .only = weir_resp_call_text(c, 2)};
    if (l.only.len > 0)
        weir_service_rules(c->session->options->service, list_rule, &l);
    if (l.count == 0)
        weir_resp_put_null(c->out, c->session->proto);
}

static bool copy_arg(const weir_resp_arg *arg, char *buf, size_t size)
{
    if (arg->len >= size || memchr(arg->at, '\0', arg->len))
        return false;
    memcpy(buf, arg->at, arg->len);
    buf[arg->len] = '\0';
    return true;
}

static void set_policy(weir_resp_call *c)
{
    char name[WEIR_RULE_NAME_MAX + 2], limit[WEIR_POLICY_TEXT_MAX * 2];
    weir_rule_error e = {0};
    if (!copy_arg(&c->arg[2], name, sizeof name)) {
        weir_resp_put_errorf(c, "ERR a policy's name has 1 to %d bytes, and no NUL",
                             WEIR_RULE_NAME_MAX);
        return;
    }
    if (!copy_arg(&c->arg[3], limit, sizeof limit)) {
        weir_resp_put_errorf(c, "ERR a policy text has at most %zu bytes, and no NUL",
                             sizeof limit - 1);
        return;
    }
    weir_status st =
        weir_limiter_set_limit(weir_service_limiter(c->session->options->service), name, limit, &e);
    if (st == WEIR_OK)
        weir_resp_put_simple(c->out, "OK");
    else if (e.column > 0)
        weir_resp_put_errorf(c, "ERR policy: column %u: %s", e.column, e.text);
    else if (e.text[0])
        weir_resp_put_errorf(c, "ERR %s", e.text);
    else if (st == WEIR_E_FULL)
        weir_resp_put_errorf(c, "ERR there are %d policies, and there may be no more",
                             WEIR_RULES_MAX);
    else
        weir_resp_put_status(c, st, 1, "");
}

static void drop_policy(weir_resp_call *c)
{
    weir_status st = weir_limiter_drop_rule(weir_service_limiter(c->session->options->service),
                                            (const char *)c->arg[2].at, c->arg[2].len);
    if (st == WEIR_OK || st == WEIR_E_ABSENT)
        weir_resp_put_i64(c->out, st == WEIR_OK);
    else
        weir_resp_put_status(c, st, 1, "");
}

/* WEIR.POLICY LIST | GET name | SET name text | DEL name */
void weir_resp_policy(weir_resp_call *c)
{
    if (c->args == 2 && weir_resp_call_is(c, 1, "LIST"))
        list_policies(c);
    else if (c->args == 3 && weir_resp_call_is(c, 1, "GET"))
        get_policy(c);
    else if (c->args == 4 && weir_resp_call_is(c, 1, "SET"))
        set_policy(c);
    else if (c->args == 3 && weir_resp_call_is(c, 1, "DEL"))
        drop_policy(c);
    else
        weir_resp_put_errorf(c, "ERR syntax error, expected WEIR.POLICY LIST, GET name, "
                                "SET name policy-text or DEL name");
}

/* ---- CL.THROTTLE ----------------------------------------------------------------------------- */

#define CELL_ERROR "Cell error: Store error: " /* with no ERR before it, as redis-cell has it */

static bool read_cell_number(weir_resp_call *c, size_t i, int64_t *ret)
{
    const weir_slice a = weir_resp_call_text(c, i);
    bool good = weir_throttle_number(a.at, a.len, ret);
    if (!good)
        weir_resp_put_errorf(c, CELL_ERROR "Couldn't parse as integer: %.*s",
                             a.len < 200 ? (int)a.len : 200, a.at);
    return good;
}

static void put_throttled(weir_resp_call *c, const weir_throttle_result *said, size_t key_len)
{
    const weir_throttle_answer *a = &said->answer;
    if (said->status == WEIR_OK) {
        weir_resp_put_array(c->out, 5);
        weir_resp_put_i64(c->out, a->limited);
        weir_resp_put_i64(c->out, a->limit);
        weir_resp_put_i64(c->out, a->remaining);
        weir_resp_put_i64(c->out, a->retry_after_s);
        weir_resp_put_i64(c->out, a->reset_after_s);
    } else if (said->numbers != WEIR_THROTTLE_OK) {
        weir_resp_put_errorf(c, CELL_ERROR "%s", weir_throttle_status_text(said->numbers));
    } else if (said->why) {
        weir_resp_put_errorf(c, "ERR %s", said->why);
    } else {
        weir_resp_put_status(c, said->status, key_len, "");
    }
}

/* CL.THROTTLE key max_burst count period [quantity] */
void weir_resp_throttle(weir_resp_call *c)
{
    if (c->args != 5 && c->args != 6) {
        weir_resp_put_errorf(c, CELL_ERROR
                             "Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                             "[<quantity>]");
        return;
    }
    weir_throttle t = {.quantity = 1};
    if (!read_cell_number(c, 2, &t.max_burst) || !read_cell_number(c, 3, &t.count) ||
        !read_cell_number(c, 4, &t.period_s) ||
        (c->args == 6 && !read_cell_number(c, 5, &t.quantity)))
        return;
    weir_throttle_result said;
    weir_slice key = weir_resp_call_text(c, 1);
    c->waits = !weir_service_throttle(c->session->options->service, &c->session->completion, &t,
                                      key, c->now_ns, &said);
    if (!c->waits)
        put_throttled(c, &said, key.len);
}
