/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Resolves each request to its policy and key, and counts decided requests. It must not know where
 * the state is kept. */

#include "core/algorithm.h"
#include "core/check.h"
#include "service/service_internal.h"

void weir_resolved_decide_by_list(const weir_resolved *at, weir_request *request)
{
    WEIR_ASSERT(weir_resolved_is_listed(at));
    weir_decision d = weir_full_quota(request->policy);
    bool allow = at->list == WEIR_ON_ALLOW_LIST;
    request->reason = allow ? WEIR_BY_ALLOW_LIST : WEIR_BY_DENY_LIST;
    if (!allow) {
        weir_decision_deny_always(&d);
        d.remaining = 0;
    }
    request->decision = d;
}

static bool bad_request(const weir_request *request)
{
    return request->key.len < 1 || request->key.len > WEIR_KEY_MAX || request->cost < 0 ||
           request->cost > WEIR_COST_MAX;
}

weir_status weir_resolve(weir_service *s, weir_request *request, weir_key_match *match,
                         weir_resolved *ret)
{
    *ret = (weir_resolved){.key = request->key};
    request->error.column = 0;
    request->why = NULL;
    request->answer = NULL;
    request->reason = WEIR_BY_LIMIT;
    if (request->by_text) {
        weir_status st = weir_policy_cache_find(s->policies, request->rule.at, request->rule.len,
                                                &request->policy, &ret->policy_id, &request->error);
        if (st != WEIR_OK)
            return st;
        if (bad_request(request))
            return WEIR_E_RANGE;
        ret->policy_id = weir_store_current_id(s->limiter->store, ret->policy_id, ret->policy_id);
        weir_inline_policy_match(request->key.at, request->key.len, match);
        ret->key = (weir_slice){match->at, match->len};
        return WEIR_OK;
    }
    ret->rule = weir_rules_find(s->rules, request->rule.at, request->rule.len);
    if (!ret->rule)
        return WEIR_E_ABSENT;
    if (bad_request(request))
        return WEIR_E_RANGE;
    weir_rule_match(ret->rule, request->key.at, request->key.len, request->client, match);
    WEIR_ASSERT(match->len >= 1 && match->len <= WEIR_KEY_MAX);
    ret->limit = match->limit;
    ret->list = match->list;
    ret->policy_id =
        weir_store_current_id(s->limiter->store, match->limit->id, ret->rule->reset_id);
    ret->key = (weir_slice){match->at, match->len};
    request->policy = &match->limit->policy;
    request->answer = &ret->rule->options->answer;
    return WEIR_OK;
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
    case WEIR_BY_BLOCK:
        return "blocked";
    case WEIR_BY_LIMIT:
        break;
    }
    return "limit";
}

/* ---- decided requests ------------------------------------------------------------------------ */

/* The index of the counters for a request. */
static uint32_t name_of(const weir_resolved *at, const weir_request *request)
{
    return at->rule ? at->rule->counts : request->by_text ? NAME_TEXTS : NAME_OTHERS;
}

static void allow_in_shadow(weir_request *request)
{
    weir_decision *d = &request->decision;
    if (!d->allowed) {
        d->allowed = true;
        d->never = false;
        d->retry_after_ns = 0;
        if (request->reason == WEIR_BY_LIMIT)
            request->reason = WEIR_BY_SHADOW;
    }
    d->delay_ns = 0;
}

/* Whether the policy's block denies a request. The layer is unknown if an old server decided. */
static bool is_blocked(const weir_request *request)
{
    const weir_policy *p = request->policy;
    return !request->decision.allowed && request->decision.layer < p->layers &&
           weir_layer_is_block(&p->layer[request->decision.layer]);
}

void weir_resolved_finish(const weir_resolved *at, weir_request *request)
{
    if (request->status == WEIR_OK && weir_resolved_is_shadow(at) && !weir_resolved_is_listed(at))
        allow_in_shadow(request);
    if (request->status == WEIR_OK && request->reason == WEIR_BY_LIMIT && is_blocked(request))
        request->reason = WEIR_BY_BLOCK;
}

static int counter_of(const weir_request *request)
{
    switch (request->reason) {
    case WEIR_BY_SHADOW:
        return COUNT_SHADOWED;
    case WEIR_BY_ALLOW_LIST:
        return COUNT_ALLOW_LISTED;
    case WEIR_BY_DENY_LIST:
        return COUNT_DENY_LISTED;
    case WEIR_BY_ON_ERROR:
        return COUNT_UNREACHED;
    case WEIR_BY_LIMIT:
    case WEIR_BY_BLOCK:
        break;
    }
    return request->decision.allowed ? COUNT_ALLOWED : COUNT_DENIED;
}

void weir_resolved_count(weir_service *s, const weir_resolved *at, const weir_request *request,
                         int64_t now_ns)
{
    int which = request->status == WEIR_OK ? counter_of(request) : COUNT_FAILED;
    if (which >= COUNT_FAILED && (which == COUNT_FAILED || request->cost > 0))
        weir_service_count(s, name_of(at, request), which);
    else if (request->cost > 0)
        weir_service_count_cost(s, name_of(at, request), which, &at->key, request->cost, now_ns);
}
