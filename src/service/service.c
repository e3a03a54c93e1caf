/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decisions: every ask finds its policy, those that the store must decide go to it as one batch,
 * and what comes back is counted. It must not know who asks. */

#include "service/dispatch.h"
#include "service/full_quota.h"

#include <string.h>

/* ---- from an ask to the store's question ----------------------------------------------------- */

void weir_resolved_decide_by_list(const weir_resolved *at, weir_request *ask)
{
    weir_decision d = weir_full_quota(ask->policy);
    bool allow = at->list == WEIR_ON_ALLOW_LIST;
    ask->reason = allow ? WEIR_BY_ALLOW_LIST : WEIR_BY_DENY_LIST;
    if (!allow) {
        d.allowed = false;
        d.never = true;
        d.remaining = 0;
        d.retry_after_ns = INT64_MAX;
    }
    ask->decision = d;
}

static bool bad_request(const weir_request *ask)
{
    return ask->key.len < 1 || ask->key.len > WEIR_KEY_MAX || ask->cost < 0 ||
           ask->cost > WEIR_COST_MAX;
}

weir_status weir_resolve(weir_service *s, weir_request *ask, weir_key_match *seen,
                         weir_resolved *ret)
{
    *ret = (weir_resolved){.key = ask->key};
    ask->error.column = 0;
    ask->why = NULL;
    ask->reason = WEIR_BY_LIMIT;
    if (ask->by_text) {
        weir_status st = weir_policy_cache_find(s->texts, ask->rule.at, ask->rule.len, &ask->policy,
                                                &ret->policy_id, &ask->error);
        if (st != WEIR_OK)
            return st;
        if (bad_request(ask))
            return WEIR_E_RANGE;
        weir_inline_policy_match(ask->key.at, ask->key.len, seen);
        ret->key = (weir_slice){seen->at, seen->len};
        return WEIR_OK;
    }
    ret->rule = weir_rules_find(s->rules, ask->rule.at, ask->rule.len);
    if (!ret->rule)
        return WEIR_E_ABSENT;
    if (bad_request(ask))
        return WEIR_E_RANGE;
    weir_rule_match(ret->rule, ask->key.at, ask->key.len, seen);
    ret->limit = seen->limit;
    ret->list = seen->list;
    ret->policy_id = seen->limit->id;
    ret->key = (weir_slice){seen->at, seen->len};
    ask->policy = &seen->limit->policy;
    return WEIR_OK;
}

static uint32_t counts_place(const weir_resolved *at, const weir_request *ask)
{
    return at->rule ? at->rule->counts : ask->by_text ? NAME_TEXTS : NAME_OTHERS;
}

const char *weir_reason_word(weir_reason reason)
{
    switch (reason) {
    case WEIR_BY_SHADOW:
        return "shadow";
    case WEIR_BY_ALLOW_LIST:
        return "allow-list";
    case WEIR_BY_DENY_LIST:
        return "deny-list";
    case WEIR_BY_ON_ERROR:
        return "on-error";
    case WEIR_BY_LIMIT:
        break;
    }
    return "limit";
}

/* ---- from the store's answer to the ask's ---------------------------------------------------- */

static void look_on(weir_request *ask)
{
    weir_decision *d = &ask->decision;
    if (!d->allowed) {
        d->allowed = true;
        d->never = false;
        d->retry_after_ns = 0;
        if (ask->reason == WEIR_BY_LIMIT)
            ask->reason = WEIR_BY_SHADOW;
    }
    d->delay_ns = 0;
}

void weir_resolved_finish(const weir_resolved *at, weir_request *ask)
{
    if (ask->status == WEIR_OK && weir_resolved_is_shadow(at) && !weir_resolved_is_listed(at))
        look_on(ask);
}

/* Of an ask that was answered. */
static int counter_of(const weir_request *ask)
{
    switch (ask->reason) {
    case WEIR_BY_SHADOW:
        return COUNT_SHADOWED;
    case WEIR_BY_ALLOW_LIST:
        return COUNT_ALLOW_LISTED;
    case WEIR_BY_DENY_LIST:
        return COUNT_DENY_LISTED;
    case WEIR_BY_ON_ERROR:
        return COUNT_UNREACHED;
    case WEIR_BY_LIMIT:
        break;
    }
    return ask->decision.allowed ? COUNT_ALLOWED : COUNT_DENIED;
}

void weir_resolved_count(weir_service *s, const weir_resolved *at, const weir_request *ask,
                         int64_t now_ns)
{
    int which = ask->status == WEIR_OK ? counter_of(ask) : COUNT_FAILED;
    if (which >= COUNT_FAILED && (which == COUNT_FAILED || ask->cost > 0))
        weir_service_count(s, counts_place(at, ask), which);
    else if (ask->cost > 0)
        weir_service_count_cost(s, counts_place(at, ask), which, &at->key, ask->cost, now_ns);
}

/* ---- the calls ------------------------------------------------------------------------------- */

bool weir_service_take(weir_service *s, weir_completion *completion, weir_request *asks, size_t n,
                       int64_t now_ns)
{
    weir_store_request requests[WEIR_BATCH_MAX];
    weir_resolved at[WEIR_BATCH_MAX];
    size_t len = 0;
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    if (__builtin_expect(s->remote, 0))
        return weir_dispatch_take(s, completion, asks, n, now_ns);
    s->decided += n;
    for (size_t i = 0; i < n; i++) {
        weir_request *ask = &asks[i];
        ask->status = weir_resolve(s, ask, &s->seen[i], &at[i]);
        if (ask->status == WEIR_OK && weir_resolved_is_listed(&at[i]))
            weir_resolved_decide_by_list(&at[i], ask);
        else if (ask->status == WEIR_OK)
            weir_resolved_fill(&requests[len++], &at[i], ask);
    }
    weir_store_check_batch(s->limiter->store, requests, len, now_ns);
    len = 0;
    for (size_t i = 0; i < n; i++) {
        weir_request *ask = &asks[i];
        if (ask->status == WEIR_OK && !weir_resolved_is_listed(&at[i])) {
            ask->status = requests[len].status;
            ask->decision = requests[len++].decision;
        }
        weir_resolved_finish(&at[i], ask);
        weir_resolved_count(s, &at[i], ask, now_ns);
    }
    return true;
}

static weir_status peek_here(weir_store *store, const weir_resolved *at, weir_request *ask,
                             int64_t now_ns)
{
    return weir_store_peek(store, ask->policy, at->policy_id, at->key.at, at->key.len, now_ns,
                           ask->cost, &ask->decision);
}

static weir_status refund_here(weir_store *store, const weir_resolved *at, weir_request *ask,
                               int64_t now_ns)
{
    return weir_store_refund(store, ask->policy, at->policy_id, at->key.at, at->key.len, now_ns,
                             ask->cost, &ask->decision);
}

static weir_status reset_here(weir_store *store, const weir_resolved *at, weir_request *ask,
                              int64_t now_ns)
{
    (void)ask;
    (void)now_ns;
    return weir_store_reset(store, at->policy_id, at->key.at, at->key.len);
}

/* What is not a take: one ask alone, and nothing is counted. */
static bool ask_about(weir_service *s, weir_completion *completion, weir_verb verb,
                      weir_request *ask, int64_t now_ns, weir_resolved *ret_at)
{
    weir_service_refresh(s);
    if (completion && completion->pending)
        return weir_dispatch_answer(s, completion, ask, ret_at);
    ask->status = weir_resolve(s, ask, &s->seen[0], ret_at);
    if (ask->status != WEIR_OK)
        return true;
    if (weir_resolved_is_listed(ret_at) && verb != WEIR_VERB_RESET)
        weir_resolved_decide_by_list(ret_at, ask);
    else if (weir_resolved_engine(s, ret_at) != WEIR_ENGINE_LOCAL)
        return weir_dispatch_one(s, completion, verb, ask, now_ns, ret_at);
    else if (verb == WEIR_VERB_PEEK)
        ask->status = peek_here(s->limiter->store, ret_at, ask, now_ns);
    else if (verb == WEIR_VERB_REFUND)
        ask->status = refund_here(s->limiter->store, ret_at, ask, now_ns);
    else
        ask->status = reset_here(s->limiter->store, ret_at, ask, now_ns);
    if (verb != WEIR_VERB_RESET)
        weir_resolved_finish(ret_at, ask);
    return true;
}

bool weir_service_peek_resolved(weir_service *s, weir_completion *completion, weir_request *ask,
                                int64_t now_ns, weir_resolved *ret_at)
{
    return ask_about(s, completion, WEIR_VERB_PEEK, ask, now_ns, ret_at);
}

bool weir_service_peek(weir_service *s, weir_completion *completion, weir_request *ask,
                       int64_t now_ns)
{
    weir_resolved at;
    return ask_about(s, completion, WEIR_VERB_PEEK, ask, now_ns, &at);
}

bool weir_service_refund(weir_service *s, weir_completion *completion, weir_request *ask,
                         int64_t now_ns)
{
    weir_resolved at;
    return ask_about(s, completion, WEIR_VERB_REFUND, ask, now_ns, &at);
}

bool weir_service_reset(weir_service *s, weir_completion *completion, weir_request *ask,
                        int64_t now_ns)
{
    weir_resolved at;
    ask->cost = 0;
    return ask_about(s, completion, WEIR_VERB_RESET, ask, now_ns, &at);
}

weir_status weir_service_key(weir_service *s, const weir_request *ask, weir_slice *ret)
{
    weir_resolved at;
    weir_request copy; /* not zeroed: it is large, and called for each request */
    copy.rule = ask->rule;
    copy.by_text = ask->by_text;
    copy.key = ask->key;
    copy.cost = ask->cost;
    weir_service_refresh(s);
    weir_status st = weir_resolve(s, &copy, &s->seen[0], &at);
    if (st == WEIR_OK)
        *ret = at.key;
    return st;
}

typedef struct throttle_call {
    const weir_throttle *throttle;
    weir_throttle_result *ret;
} throttle_call;

static weir_status throttle_state(void *ctx, uint64_t *state, int64_t now_ns)
{
    throttle_call *call = ctx;
    weir_throttle_result *ret = call->ret;
    ret->numbers = weir_throttle_check(call->throttle, state, now_ns, &ret->answer);
    return ret->numbers == WEIR_THROTTLE_OK ? WEIR_OK : WEIR_E_RANGE;
}

static void count_throttle(weir_service *s, const weir_throttle *t, weir_slice key, int64_t now_ns,
                           const weir_throttle_result *said, bool by_error)
{
    if (said->status != WEIR_OK) {
        weir_service_count(s, NAME_THROTTLE, COUNT_FAILED);
    } else if (t->quantity > 0 && by_error) {
        weir_service_count(s, NAME_THROTTLE, COUNT_UNREACHED);
    } else if (t->quantity > 0) {
        int which = said->answer.limited ? COUNT_DENIED : COUNT_ALLOWED;
        weir_service_count_cost(s, NAME_THROTTLE, which, &key, t->quantity, now_ns);
    }
}

bool weir_service_throttle(weir_service *s, weir_completion *completion, const weir_throttle *t,
                           weir_slice key, int64_t now_ns, weir_throttle_result *ret)
{
    bool by_error = false;
    weir_limiter *h = s->limiter;
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    *ret = (weir_throttle_result){.numbers = WEIR_THROTTLE_OK};
    if ((completion && completion->pending) || s->engine_of_texts != WEIR_ENGINE_LOCAL) {
        if (!weir_dispatch_throttle(s, completion, t, key, now_ns, ret, &by_error))
            return false;
    } else {
        throttle_call call = {t, ret};
        ret->status = weir_store_apply(h->store, &h->throttle_policy, h->throttle_id, key.at,
                                       key.len, now_ns, throttle_state, &call);
        s->decided++;
    }
    count_throttle(s, t, key, now_ns, ret, by_error);
    return true;
}

void weir_service_rules(weir_service *s, bool (*fn)(void *ctx, const weir_rule_view *rule),
                        void *ctx)
{
    weir_service_refresh(s);
    for (size_t i = 0; i < s->rules->len; i++) {
        const weir_rule *r = s->rules->rule[i];
        weir_rule_view view = {
            .name = r->name,
            .limit = r->limit.text,
            .policy = &r->limit.policy,
            .overrides = r->options->overrides_len,
            .allow = r->options->allow_len,
            .deny = r->options->deny_len,
            .shadow = r->options->shadow,
            .engine = r->options->engine,
            .on_error = r->options->on_error,
        };
        if (!fn(ctx, &view))
            return;
    }
}
