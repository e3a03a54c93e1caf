/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decisions: every ask finds its policy, those that the store must decide go to it as one batch,
 * and what comes back is counted. It must not know who asks. */

#include "service/place.h"

#include <string.h>

/* ---- from an ask to the store's question ----------------------------------------------------- */

/* The figures of a key that is never counted: those of a fresh one. */
static weir_decision fresh_figures(const weir_policy *p)
{
    weir_decision d = {.limit = INT64_MAX, .allowed = true};
    for (uint32_t i = 0; i < p->layers; i++) {
        if (p->layer[i].limit < d.limit) {
            d.limit = p->layer[i].limit;
            d.layer = i;
        }
    }
    d.remaining = d.limit;
    return d;
}

void weir_decide_by_list(weir_ask *ask, bool allow)
{
    weir_decision d = fresh_figures(ask->policy);
    ask->reason = allow ? WEIR_BY_ALLOW_LIST : WEIR_BY_DENY_LIST;
    if (!allow) {
        d.allowed = false;
        d.never = true;
        d.remaining = 0;
        d.retry_after_ns = INT64_MAX;
    }
    ask->decision = d;
}

static bool bad_request(const weir_ask *ask)
{
    return ask->key.len < 1 || ask->key.len > WEIR_KEY_MAX || ask->cost < 0 ||
           ask->cost > WEIR_COST_MAX;
}

weir_status weir_place_find(weir_service *s, weir_ask *ask, weir_rule_key *seen, weir_place *ret)
{
    *ret = (weir_place){.key = ask->key};
    ask->error.column = 0;
    ask->reason = WEIR_BY_LIMIT;
    if (ask->by_text) {
        weir_status st = weir_texts_find(s->texts, ask->rule.at, ask->rule.len, &ask->policy,
                                         &ret->policy_id, &ask->error);
        return st == WEIR_OK && bad_request(ask) ? WEIR_E_RANGE : st;
    }
    ret->rule = weir_rules_find(s->rules, ask->rule.at, ask->rule.len);
    if (!ret->rule)
        return WEIR_E_ABSENT;
    if (bad_request(ask))
        return WEIR_E_RANGE;
    weir_rule_see(ret->rule, ask->key.at, ask->key.len, seen);
    ret->seen = seen;
    ret->policy_id = seen->held->id;
    ret->key = (weir_slice){seen->at, seen->len};
    ask->policy = &seen->held->policy;
    return WEIR_OK;
}

static uint32_t counts_place(const weir_place *at, const weir_ask *ask)
{
    return at->rule ? at->rule->counts : ask->by_text ? NAME_TEXTS : NAME_OTHERS;
}

/* ---- from the store's answer to the ask's ---------------------------------------------------- */

static void look_on(weir_ask *ask)
{
    weir_decision *d = &ask->decision;
    if (!d->allowed) {
        d->allowed = true;
        d->never = false;
        d->retry_after_ns = 0;
        ask->reason = WEIR_BY_SHADOW;
    }
    d->delay_ns = 0;
}

void weir_place_finish(const weir_place *at, weir_ask *ask)
{
    if (ask->status == WEIR_OK && weir_place_is_shadow(at) && ask->reason == WEIR_BY_LIMIT)
        look_on(ask);
}

/* Of an ask that was answered. */
static int counter_of(const weir_ask *ask)
{
    switch (ask->reason) {
    case WEIR_BY_SHADOW:
        return COUNT_SHADOWED;
    case WEIR_BY_ALLOW_LIST:
        return COUNT_ALLOW_LISTED;
    case WEIR_BY_DENY_LIST:
        return COUNT_DENY_LISTED;
    case WEIR_BY_LIMIT:
        break;
    }
    return ask->decision.allowed ? COUNT_ALLOWED : COUNT_DENIED;
}

void weir_place_count(weir_service *s, const weir_place *at, const weir_ask *ask, int64_t now_ns)
{
    if (ask->status != WEIR_OK)
        weir_service_count(s, counts_place(at, ask), COUNT_FAILED);
    else if (ask->cost > 0)
        weir_service_weigh(s, counts_place(at, ask), counter_of(ask), &at->key, ask->cost, now_ns);
}

/* ---- the calls ------------------------------------------------------------------------------- */

void weir_service_take(weir_service *s, weir_ask *asks, size_t n, int64_t now_ns)
{
    weir_store_request requests[WEIR_BATCH_MAX];
    weir_place at[WEIR_BATCH_MAX];
    size_t len = 0;
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    s->decided += n;
    for (size_t i = 0; i < n; i++) {
        weir_ask *ask = &asks[i];
        ask->status = weir_place_find(s, ask, &s->seen[i], &at[i]);
        if (ask->status == WEIR_OK && weir_place_is_listed(&at[i]))
            weir_decide_by_list(ask, at[i].seen->list == WEIR_ON_ALLOW_LIST);
        else if (ask->status == WEIR_OK)
            weir_place_ask(&requests[len++], &at[i], ask);
    }
    weir_store_check_batch(s->hub->store, requests, len, now_ns);
    len = 0;
    for (size_t i = 0; i < n; i++) {
        weir_ask *ask = &asks[i];
        if (ask->status == WEIR_OK && !weir_place_is_listed(&at[i])) {
            ask->status = requests[len].status;
            ask->decision = requests[len++].decision;
        }
        weir_place_finish(&at[i], ask);
        weir_place_count(s, &at[i], ask, now_ns);
    }
}

typedef weir_status (*store_call)(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                  const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                                  weir_decision *ret);

/* What is not a take: one ask alone, and nothing is counted. */
static void ask_store(weir_service *s, weir_ask *ask, int64_t now_ns, store_call call)
{
    weir_place at;
    weir_service_refresh(s);
    ask->status = weir_place_find(s, ask, &s->seen[0], &at);
    if (ask->status != WEIR_OK)
        return;
    if (weir_place_is_listed(&at))
        weir_decide_by_list(ask, at.seen->list == WEIR_ON_ALLOW_LIST);
    else
        ask->status = call(s->hub->store, ask->policy, at.policy_id, at.key.at, at.key.len, now_ns,
                           ask->cost, &ask->decision);
    weir_place_finish(&at, ask);
}

void weir_service_peek(weir_service *s, weir_ask *ask, int64_t now_ns)
{
    ask_store(s, ask, now_ns, weir_store_peek);
}

void weir_service_refund(weir_service *s, weir_ask *ask, int64_t now_ns)
{
    ask_store(s, ask, now_ns, weir_store_refund);
}

void weir_service_reset(weir_service *s, weir_ask *ask)
{
    weir_place at;
    weir_service_refresh(s);
    ask->cost = 0;
    ask->status = weir_place_find(s, ask, &s->seen[0], &at);
    if (ask->status == WEIR_OK)
        ask->status = weir_store_reset(s->hub->store, at.policy_id, at.key.at, at.key.len);
}

typedef struct throttle_call {
    const weir_throttle *throttle;
    weir_throttle_answer *ret;
    weir_throttle_status status;
} throttle_call;

static weir_status throttle_state(void *ctx, uint64_t *state, int64_t now_ns)
{
    throttle_call *call = ctx;
    call->status = weir_throttle_check(call->throttle, state, now_ns, call->ret);
    return call->status == WEIR_THROTTLE_OK ? WEIR_OK : WEIR_E_RANGE;
}

weir_status weir_service_throttle(weir_service *s, const weir_throttle *t, weir_slice key,
                                  int64_t now_ns, weir_throttle_answer *ret,
                                  weir_throttle_status *ret_throttle)
{
    throttle_call call = {t, ret, WEIR_THROTTLE_OK};
    weir_service_tick(s, now_ns);
    weir_hub *h = s->hub;
    weir_status st = weir_store_apply(h->store, &h->throttle_policy, h->throttle_id, key.at,
                                      key.len, now_ns, throttle_state, &call);
    *ret_throttle = call.status;
    s->decided++;
    if (st != WEIR_OK) {
        weir_service_count(s, NAME_THROTTLE, COUNT_FAILED);
    } else if (t->quantity > 0) {
        int which = ret->limited ? COUNT_DENIED : COUNT_ALLOWED;
        weir_service_weigh(s, NAME_THROTTLE, which, &key, t->quantity, now_ns);
    }
    return st;
}

void weir_service_rules(weir_service *s, bool (*fn)(void *ctx, const weir_rule_view *rule),
                        void *ctx)
{
    weir_service_refresh(s);
    for (size_t i = 0; i < s->rules->len; i++) {
        const weir_rule *r = s->rules->rule[i];
        weir_rule_view view = {
            .name = r->name,
            .limit = r->own.text,
            .policy = &r->own.policy,
            .overrides = r->rest->overrides_len,
            .allow = r->rest->allow_len,
            .deny = r->rest->deny_len,
            .shadow = r->rest->shadow,
        };
        if (!fn(ctx, &view))
            return;
    }
}
