/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The daemon's backend of commands: replies go to a buffer as RESP, decisions to the service. */

#include "codec/resp/call.h"
#include "codec/resp/session.h"

#include "port/assert.h"

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

/* ---- rights ---------------------------------------------------------------------------------- */

static void log_denied(const weir_resp_call *c, unsigned rights)
{
    const weir_resp_session *s = c->session;
    weir_access_denied(s->options->access, s->completion.ctx, &s->login, rights);
}

void weir_resp_refuse_right(weir_resp_call *c, const char *command, unsigned rights)
{
    char name[WEIR_COMMAND_NAME_MAX];
    weir_command_lower(&(weir_command){.name = command}, name);
    weir_call_error(&c->call, "NOPERM User %s has no permissions to run the '%s' command",
                    weir_user_name(c->session->login.user), name);
    log_denied(c, rights);
}

weir_slice weir_resp_policy_of(const weir_request *r)
{
    return r->by_text ? (weir_slice){WEIR_COUNTS_TEXTS, sizeof WEIR_COUNTS_TEXTS - 1} : r->rule;
}

bool weir_resp_may_see(weir_resp_call *c, weir_slice policy, const char *where)
{
    const weir_user *user = weir_login_bounds(&c->session->login);
    if (c->session->completion.pending || weir_user_sees(user, policy))
        return true;
    weir_call_error(&c->call, "NOPERM %sUser %s has no permissions to use the policy '%.*s'", where,
                    weir_user_name(user), weir_call_quoted_len(policy), policy.at);
    log_denied(c, 0);
    return false;
}

bool weir_resp_may_use(weir_resp_call *c, weir_slice policy, weir_slice key, const char *where)
{
    if (!weir_resp_may_see(c, policy, where))
        return false;
    if (c->session->completion.pending ||
        weir_user_has_key(weir_login_bounds(&c->session->login), key, NULL))
        return true;
    weir_call_error(&c->call, "NOPERM %sNo permissions to access %s", where,
                    key.at ? "a key" : "all keys");
    log_denied(c, 0);
    return false;
}

static bool may_run(weir_resp_call *c, const weir_request *r)
{
    return weir_resp_may_use(c, weir_resp_policy_of(r), r->key, "");
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* TAKE and CHECK do not come here: the session decides them in batches. */
static bool decide(weir_call *call, weir_verb verb, weir_request *r)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_service *s = c->session->options->service;
    weir_completion *completion = &c->session->completion;
    if (!may_run(c, r))
        return false;
    WEIR_ASSERT(verb != WEIR_VERB_TAKE);
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
    if (!may_run(c, r))
        return false;
    c->waits = !weir_service_reset_policy(c->session->options->service, &c->session->completion, r,
                                          c->now_ns);
    return !c->waits;
}

static bool take_all(weir_call *call, weir_request *r, size_t n, weir_all_result *ret)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_service *s = c->session->options->service;
    for (size_t i = 0; i < n; i++) {
        if (!weir_resp_may_use(c, weir_resp_policy_of(&r[i]), r[i].key, weir_where_request(i).text))
            return false;
    }
    c->waits = !weir_service_take_all(s, &c->session->completion, r, n, c->now_ns, ret);
    if (!c->waits && call->with_names)
        weir_service_next(s, r, n, c->now_ns);
    return !c->waits;
}

static bool explain(weir_call *call, weir_request *r, weir_buffer *out)
{
    weir_resp_call *c = weir_resp_call_of(call);
    if (!may_run(c, r))
        return false;
    c->waits = !weir_service_explain(c->session->options->service, &c->session->completion, r,
                                     c->now_ns, out);
    return !c->waits;
}

static bool throttle(weir_call *call, const weir_throttle *t, weir_slice key,
                     weir_throttle_result *ret)
{
    weir_resp_call *c = weir_resp_call_of(call);
    const weir_slice policy = {WEIR_COUNTS_THROTTLE, sizeof WEIR_COUNTS_THROTTLE - 1};
    if (!weir_resp_may_use(c, policy, key, ""))
        return false;
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
    const weir_slice name = {rule->name, strlen(rule->name)};
    const weir_resp_session *s = weir_resp_call_of(l->call)->session;
    if ((l->only.len > 0 &&
         (name.len != l->only.len || memcmp(name.at, l->only.at, l->only.len) != 0)) ||
        !weir_user_sees(weir_login_bounds(&s->login), name))
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

static bool may_change(weir_call *call, weir_slice name)
{
    weir_resp_call *c = weir_resp_call_of(call);
    if (weir_user_may(weir_login_bounds(&c->session->login), WEIR_MAY_POLICY))
        return weir_resp_may_use(c, name, (weir_slice){NULL, 0}, ""); /* it is for all keys */
    weir_resp_refuse_right(c, "WEIR.POLICY", WEIR_MAY_POLICY);
    return false;
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
    .may_change = may_change,
    .set_policy = set_policy,
    .drop_policy = drop_policy,
    .no_memory = "the store is full and no key could be evicted",
    .full = "the store is full and refuses new keys (memory.when_full)",
};
