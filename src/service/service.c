/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decisions: resolves each request to its policy, lets the store decide them as one batch, and
 * counts the decisions. dispatch.c is the path for rules with another engine. */

#include "service/service.h"

#include "service/service_internal.h"

#include "core/decision.h"
#include "store/figures.h"
#include "store/iterate.h"

#include <string.h>

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

/* ---- operations ------------------------------------------------------------------------------ */

bool weir_service_take(weir_service *s, weir_completion *completion, weir_request *requests,
                       size_t n, int64_t now_ns)
{
    weir_store_request takes[WEIR_BATCH_MAX];
    weir_resolved at[WEIR_BATCH_MAX];
    size_t len = 0;
    WEIR_ASSERT(n <= WEIR_BATCH_MAX);
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    if (__builtin_expect(s->dispatches, 0))
        return weir_dispatch_take(s, completion, WEIR_VERB_TAKE, requests, n, now_ns);
    s->decided += n;
    for (size_t i = 0; i < n; i++) {
        weir_request *request = &requests[i];
        request->status = weir_resolve(s, request, &s->match[i], &at[i]);
        if (request->status == WEIR_OK && weir_resolved_is_listed(&at[i]))
            weir_resolved_decide_by_list(&at[i], request);
        else if (request->status == WEIR_OK)
            weir_resolved_fill(&takes[len++], &at[i], request);
    }
    weir_store_check_batch(s->limiter->store, takes, len, now_ns);
    len = 0;
    for (size_t i = 0; i < n; i++) {
        weir_request *request = &requests[i];
        if (request->status == WEIR_OK && !weir_resolved_is_listed(&at[i])) {
            request->status = takes[len].status;
            request->decision = takes[len++].decision;
        }
        weir_resolved_finish(&at[i], request);
        weir_resolved_count(s, &at[i], request, now_ns);
    }
    return true;
}

bool weir_service_charge_all(weir_service *s, weir_completion *completion, weir_request *requests,
                             size_t n, int64_t now_ns)
{
    WEIR_ASSERT(n <= WEIR_BATCH_MAX);
    weir_service_refresh(s);
    for (size_t i = 0; i < n; i++)
        requests[i].over = 0;
    return weir_dispatch_take(s, completion, WEIR_VERB_CHARGE, requests, n, now_ns);
}

static weir_status run_locally(weir_service *s, weir_verb verb, const weir_resolved *at,
                               weir_request *request, int64_t now_ns)
{
    weir_status st;
    weir_store *store = s->limiter->store;
    WEIR_ASSERT(verb == WEIR_VERB_RESET || verb == WEIR_VERB_REFUND || verb == WEIR_VERB_PEEK);
    if (verb == WEIR_VERB_RESET)
        st = weir_store_reset(store, at->policy_id, at->key.at, at->key.len);
    else if (verb == WEIR_VERB_REFUND)
        st = weir_store_refund(store, request->policy, at->policy_id, at->key.at, at->key.len,
                               now_ns, request->cost, &request->decision);
    else
        st = weir_store_peek_keep(store, request->policy, at->policy_id, at->key.at, at->key.len,
                                  now_ns, request->cost, request->keep, &request->decision);
    if (verb != WEIR_VERB_PEEK && st == WEIR_OK)
        weir_candidate_repeat(s, verb, at, request, now_ns);
    return st;
}

/* Runs an operation other than a take on one request. Nothing is counted. */
static bool run_one(weir_service *s, weir_completion *completion, weir_verb verb,
                    weir_request *request, int64_t now_ns, weir_resolved *ret_at)
{
    weir_service_refresh(s);
    if (completion && completion->pending)
        return weir_dispatch_answer(s, completion, request, ret_at);
    request->status = weir_resolve(s, request, s->match, ret_at);
    if (request->status != WEIR_OK)
        return true;
    if (weir_resolved_is_listed(ret_at) && verb != WEIR_VERB_RESET)
        weir_resolved_decide_by_list(ret_at, request);
    else if (weir_resolved_engine(s, ret_at) != WEIR_ENGINE_LOCAL)
        return weir_dispatch_one(s, completion, verb, request, now_ns, ret_at);
    else
        request->status = run_locally(s, verb, ret_at, request, now_ns);
    if (verb != WEIR_VERB_RESET)
        weir_resolved_finish(ret_at, request);
    return true;
}

bool weir_service_peek_resolved(weir_service *s, weir_completion *completion, weir_request *request,
                                int64_t now_ns, weir_resolved *ret_at)
{
    return run_one(s, completion, WEIR_VERB_PEEK, request, now_ns, ret_at);
}

bool weir_service_peek(weir_service *s, weir_completion *completion, weir_request *request,
                       int64_t now_ns)
{
    weir_resolved at;
    return run_one(s, completion, WEIR_VERB_PEEK, request, now_ns, &at);
}

bool weir_service_refund(weir_service *s, weir_completion *completion, weir_request *request,
                         int64_t now_ns)
{
    weir_resolved at;
    return run_one(s, completion, WEIR_VERB_REFUND, request, now_ns, &at);
}

bool weir_service_charge(weir_service *s, weir_completion *completion, weir_request *request,
                         int64_t now_ns)
{
    return weir_service_charge_all(s, completion, request, 1, now_ns);
}

bool weir_service_reset(weir_service *s, weir_completion *completion, weir_request *request,
                        int64_t now_ns)
{
    weir_resolved at;
    request->cost = 0;
    return run_one(s, completion, WEIR_VERB_RESET, request, now_ns, &at);
}

/* A request of the same key for one unit. */
static weir_request for_one(const weir_request *request)
{
    return (weir_request){.rule = request->rule,
                          .by_text = request->by_text,
                          .key = request->key,
                          .cost = 1,
                          .keep = request->keep,
                          .client = request->client};
}

/* The wait of a request for which weir_next_is_now() is false. */
static int64_t find_next(weir_service *s, const weir_request *request, int64_t now_ns)
{
    weir_key_match match;
    weir_resolved at;
    if (request->reason == WEIR_BY_DENY_LIST)
        return INT64_MAX;
    weir_request one = for_one(request);
    /* A repeated call has no client: the key may then match another limit. */
    if (weir_resolve(s, &one, &match, &at) != WEIR_OK || one.policy != request->policy)
        return WEIR_NEXT_UNKNOWN;
    if (weir_resolved_engine(s, &at) != WEIR_ENGINE_LOCAL)
        return request->next_ns;
    weir_status st = run_locally(s, WEIR_VERB_PEEK, &at, &one, now_ns);
    return st == WEIR_OK ? one.decision.retry_after_ns : WEIR_NEXT_UNKNOWN;
}

void weir_service_next(weir_service *s, weir_request *requests, size_t n, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++) {
        weir_request *r = &requests[i];
        if (r->status == WEIR_OK)
            r->next_ns = r->reason != WEIR_BY_SHADOW && weir_next_is_now(r->policy, &r->decision)
                             ? 0
                             : find_next(s, r, now_ns);
    }
}

void weir_service_figures(weir_service *s, weir_request *request, int64_t now_ns)
{
    weir_key_match match;
    weir_resolved at;
    weir_store_request r;
    weir_request one = for_one(request);
    bool found = request->status == WEIR_OK && weir_resolve(s, &one, &match, &at) == WEIR_OK &&
                 one.policy == request->policy && !weir_resolved_is_listed(&at);
    if (found && weir_resolved_engine(s, &at) != WEIR_ENGINE_LOCAL)
        return; /* the engine's answer has them */
    request->figures = WEIR_NO_FIGURES;
    if (!found)
        return;
    weir_resolved_fill(&r, &at, &one);
    weir_status st = weir_store_figures(s->limiter->store, r.policy, r.policy_id, r.key, r.key_len,
                                        now_ns, request->decision.layer, &request->figures);
    WEIR_ASSERT(st == WEIR_OK || request->figures.count == WEIR_NO_FIGURE);
}

/* Finds a policy without a key. Sets *ret_id to what weir_store_reset_policy() gets for it. */
static weir_status find_policy(weir_service *s, weir_request *request, weir_resolved *ret,
                               uint64_t *ret_id)
{
    *ret = (weir_resolved){.key = {"", 0}};
    request->cost = request->keep = 0;
    request->error.column = 0;
    request->why = NULL;
    request->reason = WEIR_BY_LIMIT;
    if (request->by_text)
        return weir_policy_cache_find(s->policies, request->rule.at, request->rule.len,
                                      &request->policy, ret_id, &request->error);
    ret->rule = weir_rules_find(s->rules, request->rule.at, request->rule.len);
    if (!ret->rule)
        return WEIR_E_ABSENT;
    ret->limit = &ret->rule->limit;
    request->policy = &ret->limit->policy;
    *ret_id = ret->rule->reset_id;
    return WEIR_OK;
}

bool weir_service_reset_policy(weir_service *s, weir_completion *completion, weir_request *request,
                               int64_t now_ns)
{
    uint64_t id;
    weir_resolved at;
    weir_service_refresh(s);
    if (completion && completion->pending)
        return weir_dispatch_answer(s, completion, request, &at);
    request->status = find_policy(s, request, &at, &id);
    if (request->status != WEIR_OK)
        return true;
    if (weir_resolved_engine(s, &at) != WEIR_ENGINE_LOCAL)
        return weir_dispatch_one(s, completion, WEIR_VERB_RESET_ALL, request, now_ns, &at);
    request->status = weir_store_reset_policy_of(
        s->limiter->store, id, request->by_text ? WEIR_RESETS_OF_TEXTS_MAX : WEIR_RESETS_MAX);
    if (request->status == WEIR_E_FULL && request->by_text)
        request->why = "the store remembers the resets of " STRING(
            WEIR_RESETS_OF_TEXTS_MAX) " policies, and can reset only named ones beyond that; give "
                                      "the policy a name, or reset keys one by one";
    else if (request->status == WEIR_E_FULL)
        request->why = "the store remembers the resets of " STRING(
            WEIR_RESETS_MAX) " policies, and cannot reset another one; reset keys one by one";
    return true;
}

weir_status weir_service_key(weir_service *s, const weir_request *request, weir_slice *ret)
{
    weir_resolved at;
    weir_request copy; /* not zeroed: it is large, and this runs for each request */
    copy.rule = request->rule;
    copy.by_text = request->by_text;
    copy.key = request->key;
    copy.cost = request->cost;
    copy.client = request->client;
    weir_service_refresh(s);
    weir_status st = weir_resolve(s, &copy, s->match, &at);
    if (st != WEIR_OK)
        return st;
    weir_key key;
    const weir_store *store = s->limiter->store;
    if (weir_store_key(store, at.policy_id, at.key.at, at.key.len, &key) == WEIR_OK)
        weir_store_prefetch(store, key);
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
                           const weir_throttle_result *result, bool by_error)
{
    if (result->status != WEIR_OK) {
        weir_service_count(s, NAME_THROTTLE, COUNT_FAILED);
    } else if (t->quantity > 0 && by_error) {
        weir_service_count(s, NAME_THROTTLE, COUNT_UNREACHED);
    } else if (t->quantity > 0) {
        int which = result->answer.limited ? COUNT_DENIED : COUNT_ALLOWED;
        weir_service_count_cost(s, NAME_THROTTLE, which, &key, t->quantity, now_ns);
    }
}

bool weir_service_throttle(weir_service *s, weir_completion *completion, const weir_throttle *t,
                           weir_slice key, int64_t now_ns, weir_throttle_result *ret)
{
    bool by_error = false;
    weir_limiter *l = s->limiter;
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    *ret = (weir_throttle_result){.numbers = WEIR_THROTTLE_OK};
    if ((completion && completion->pending) || s->default_engine != WEIR_ENGINE_LOCAL) {
        if (!weir_dispatch_throttle(s, completion, t, key, now_ns, ret, &by_error))
            return false;
    } else {
        throttle_call call = {t, ret};
        ret->status = weir_store_apply(l->store, &l->throttle_policy, l->throttle_id, key.at,
                                       key.len, now_ns, throttle_state, &call);
        s->decided++;
    }
    count_throttle(s, t, key, now_ns, ret, by_error);
    return true;
}

weir_key_template_bits weir_service_key_bits(weir_service *s, weir_slice rule)
{
    weir_service_refresh(s);
    const weir_rule *r = weir_rules_find(s->rules, rule.at, rule.len);
    if (!r)
        return (weir_key_template_bits){WEIR_V4_BITS_DEFAULT, WEIR_V6_BITS_DEFAULT};
    return (weir_key_template_bits){r->options->v4_bits, r->options->v6_bits};
}

weir_no_key weir_service_no_key(weir_service *s, weir_slice rule)
{
    const weir_rule *r = weir_rules_find(s->rules, rule.at, rule.len);
    return r ? r->options->no_key : WEIR_NO_KEY_FAIL;
}

weir_status weir_service_make_key(weir_service *s, weir_slice rule, const char *preset,
                                  weir_key_value *value, void *ctx, char *buf, size_t size,
                                  size_t *ret_len)
{
    weir_service_refresh(s);
    const weir_rule *r = weir_rules_find(s->rules, rule.at, rule.len);
    if (!r)
        return WEIR_E_ABSENT;
    if (r->options->key) {
        const weir_key_template_bits bits = {r->options->v4_bits, r->options->v6_bits};
        *ret_len = weir_key_template_write(r->options->key, bits, value, ctx, buf, size);
        return WEIR_OK;
    }
    bool is_address = false;
    weir_slice v = {NULL, 0};
    if (!preset)
        return WEIR_E_UNSUPPORTED;
    bool fits = value(ctx, (weir_slice){preset, strlen(preset)}, &v, &is_address) &&
                v.len <= size && v.len <= WEIR_KEY_MAX;
    *ret_len = fits ? v.len : 0;
    if (*ret_len > 0)
        memcpy(buf, v.at, v.len);
    return WEIR_OK;
}

const weir_route *weir_service_route(weir_service *s, const weir_route_request *request,
                                     weir_slice name)
{
    weir_service_refresh(s);
    return name.at ? weir_routes_named(s->rules->routes, name.at, name.len)
                   : weir_routes_find(s->rules->routes, request);
}

weir_encoded_slash weir_service_slash(weir_service *s)
{
    weir_service_refresh(s);
    return weir_routes_slash(s->rules->routes);
}

bool weir_service_wants_header(weir_service *s, weir_slice name)
{
    weir_service_refresh(s);
    return weir_rules_want_header(s->rules, name);
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
            .shadow = r->shadow,
            .candidate = r->candidate.text,
            .engine = r->options->engine,
            .on_error = r->options->on_error,
        };
        if (!fn(ctx, &view))
            return;
    }
}
