/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The daemon's backend of commands: replies go to a buffer as RESP, decisions to the service. */

#include "codec/resp/call.h"
#include "codec/resp/session.h"

#include <string.h>

/* ---- replies --------------------------------------------------------------------------------- */

static void put_array(weir_call *c, size_t n)
{
    weir_resp_put_array(weir_resp_call_of(c)->out, n);
}

static void put_map(weir_call *call, size_t pairs)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_resp_put_map(c->out, pairs, c->session->proto);
}

static void put_integers(weir_call *c, const int64_t *v, size_t n, size_t more)
{
    weir_resp_put_integers(weir_resp_call_of(c)->out, v, n, more);
}

static void put_integer(weir_call *c, int64_t v)
{
    weir_resp_put_i64(weir_resp_call_of(c)->out, v);
}

static void put_bulk(weir_call *c, const void *bytes, size_t len)
{
    weir_resp_put_bulk(weir_resp_call_of(c)->out, bytes, len);
}

static void put_simple(weir_call *c, const char *text)
{
    weir_resp_put_simple(weir_resp_call_of(c)->out, text);
}

static void put_error(weir_call *c, const char *text, size_t len)
{
    weir_resp_put_error(weir_resp_call_of(c)->out, text, len);
}

static void put_bool(weir_call *call, bool v)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_resp_put_bool(c->out, v, c->session->proto);
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* TAKE and CHECK do not come here: the session decides them in batches. */
static bool decide(weir_call *call, weir_verb verb, weir_request *r)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_service *s = c->session->options->service;
    weir_completion *completion = &c->session->completion;
    bool done = verb == WEIR_VERB_PEEK     ? weir_service_peek(s, completion, r, c->now_ns)
                : verb == WEIR_VERB_REFUND ? weir_service_refund(s, completion, r, c->now_ns)
                : verb == WEIR_VERB_CHARGE ? weir_service_charge(s, completion, r, c->now_ns)
                                           : weir_service_reset(s, completion, r, c->now_ns);
    c->waits = !done;
    if (done && call->with_names)
        weir_service_next(s, r, 1, c->now_ns);
    if (done && call->with_names && verb == WEIR_VERB_PEEK)
        weir_service_figures(s, r, c->now_ns);
    return done;
}

static bool reset_policy(weir_call *call, weir_request *r)
{
    weir_resp_call *c = weir_resp_call_of(call);
    c->waits = !weir_service_reset_policy(c->session->options->service, &c->session->completion, r,
                                          c->now_ns);
    return !c->waits;
}

static bool take_all(weir_call *call, weir_request *r, size_t n, weir_all_result *ret)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_service *s = c->session->options->service;
    c->waits = !weir_service_take_all(s, &c->session->completion, r, n, c->now_ns, ret);
    if (!c->waits && call->with_names)
        weir_service_next(s, r, n, c->now_ns);
    return !c->waits;
}

static bool explain(weir_call *call, weir_request *r, weir_buffer *out)
{
    weir_resp_call *c = weir_resp_call_of(call);
    c->waits = !weir_service_explain(c->session->options->service, &c->session->completion, r,
                                     c->now_ns, out);
    return !c->waits;
}

static bool throttle(weir_call *call, const weir_throttle *t, weir_slice key,
                     weir_throttle_result *ret)
{
    weir_resp_call *c = weir_resp_call_of(call);
    c->waits = !weir_service_throttle(c->session->options->service, &c->session->completion, t, key,
                                      c->now_ns, ret);
    return !c->waits;
}

/* ---- named policies -------------------------------------------------------------------------- */

enum { LIST_MAX = 4 << 20 }; /* bytes: more than the longest list, with the longest texts */

typedef struct listing {
    weir_call *call;
    size_t count;
    weir_slice only; /* the name to find; len 0: all */
} listing;

static bool list_rule(void *ctx, const weir_rule_view *rule)
{
    listing *l = ctx;
    if (l->only.len > 0 &&
        (strlen(rule->name) != l->only.len || memcmp(rule->name, l->only.at, l->only.len) != 0))
        return true;
    l->count++;
    weir_call_put_rule(l->call, rule);
    return l->only.len == 0;
}

/* The reply begins with the number of policies, and another thread may change the policies at any
 * time. Therefore one pass counts them and writes them to a separate buffer. */
static void list_policies(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_buffer list, *out = c->out;
    listing l = {.call = call};
    weir_buffer_init(&list, LIST_MAX);
    c->out = &list;
    weir_service_rules(c->session->options->service, list_rule, &l);
    c->out = out;
    if (list.failed) {
        weir_call_error(call, "ERR out of memory");
    } else {
        weir_resp_put_array(out, l.count);
        weir_buffer_append(out, weir_buffer_data(&list), weir_buffer_len(&list));
    }
    weir_buffer_free(&list);
}

static void get_policy(weir_call *call, weir_slice name)
{
    weir_resp_call *c = weir_resp_call_of(call);
    listing l = {.call = call, .only = name};
    if (name.len > 0)
        weir_service_rules(c->session->options->service, list_rule, &l);
    if (l.count == 0)
        weir_resp_put_null(c->out, c->session->proto);
}

static weir_limiter *limiter_of(weir_call *c)
{
    return weir_service_limiter(weir_resp_call_of(c)->session->options->service);
}

static weir_status set_policy(weir_call *c, const char *name, const char *limit,
                              weir_policy_error *ret)
{
    weir_rule_error e = {0};
    weir_status st = weir_limiter_set_limit(limiter_of(c), name, limit, &e);
    ret->column = e.column;
    memcpy(ret->text, e.text, sizeof ret->text - 1);
    return st;
}

static weir_status drop_policy(weir_call *c, weir_slice name)
{
    return weir_limiter_drop_rule(limiter_of(c), name.at, name.len);
}

const weir_backend weir_resp_backend = {
    .array = put_array,
    .map = put_map,
    .integers = put_integers,
    .integer = put_integer,
    .bulk = put_bulk,
    .simple = put_simple,
    .error = put_error,
    .boolean = put_bool,
    .decide = decide,
    .reset_policy = reset_policy,
    .take_all = take_all,
    .explain = explain,
    .throttle = throttle,
    .list_policies = list_policies,
    .get_policy = get_policy,
    .set_policy = set_policy,
    .drop_policy = drop_policy,
    .no_memory = "the store is full and no key could be evicted",
    .full = "the store is full and refuses new keys (memory.when_full)",
};
