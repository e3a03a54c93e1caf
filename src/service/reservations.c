/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reservations: applies a rule's lists and shadow to the reservations of the store. */

#include "store/reservations.h"
#include "core/algorithm.h"
#include "service/service.h"
#include "service/service_internal.h"

/* A rule in shadow allows requests that its limit denies. Such a request gets a reservation of 0
 * units, so that its commit is counted. If the store cannot make one, it gets WEIR_ID_NONE. */
static uint64_t reserve_nothing(weir_service *s, const weir_store_request *r, int64_t ttl_ns,
                                int64_t now_ns)
{
    weir_decision d;
    uint64_t id;
    weir_status st = weir_store_reserve(s->limiter->store, r->policy, r->policy_id, r->key,
                                        r->key_len, now_ns, 0, ttl_ns, &d, &id);
    return st == WEIR_OK && d.allowed ? id : WEIR_ID_NONE;
}

static void reserve(weir_service *s, const weir_resolved *at, weir_request *request, int64_t ttl_ns,
                    int64_t now_ns, uint64_t *ret_id)
{
    weir_store_request r;
    weir_resolved_fill(&r, at, request);
    request->status = weir_store_reserve(s->limiter->store, r.policy, r.policy_id, r.key, r.key_len,
                                         now_ns, r.cost, ttl_ns, &request->decision, ret_id);
    const weir_layer *hold = weir_policy_hold(r.policy);
    if (request->status == WEIR_E_RANGE && (hold ? ttl_ns > hold->period_ns : ttl_ns == 0))
        request->why = "the policy does not accept the TTL";
    if (request->status == WEIR_OK && !request->decision.allowed && weir_resolved_is_shadow(at))
        *ret_id = reserve_nothing(s, &r, ttl_ns, now_ns);
}

void weir_service_reserve(weir_service *s, weir_request *request, int64_t ttl_ns, int64_t now_ns,
                          uint64_t *ret_id)
{
    weir_resolved at;
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    s->decided++;
    request->status = weir_resolve(s, request, s->match, &at);
    if (request->status == WEIR_OK && weir_resolved_is_listed(&at)) {
        weir_resolved_decide_by_list(&at, request);
        if (request->decision.allowed)
            *ret_id = WEIR_ID_NONE;
    } else if (request->status == WEIR_OK && weir_resolved_engine(s, &at) != WEIR_ENGINE_LOCAL) {
        request->status = WEIR_E_UNSUPPORTED;
        request->why =
            "reservations need a policy with engine: local; with this engine, take the maximum and "
            "refund the unused part";
    } else if (request->status == WEIR_OK) {
        reserve(s, &at, request, ttl_ns, now_ns, ret_id);
    }
    weir_resolved_finish(&at, request);
    weir_resolved_count(s, &at, request, now_ns);
}

static const weir_decision no_limit = {
    .limit = WEIR_LIMIT_MAX, .remaining = WEIR_LIMIT_MAX, .allowed = true};

weir_status weir_service_commit(weir_service *s, uint64_t id, int64_t actual, int64_t now_ns,
                                weir_decision *ret, int64_t *ret_over, int64_t *ret_next_ns)
{
    if (id != WEIR_ID_NONE)
        return weir_store_commit_next(s->limiter->store, id, now_ns, actual, ret, ret_over,
                                      ret_next_ns);
    *ret = no_limit;
    *ret_over = 0;
    if (ret_next_ns)
        *ret_next_ns = 0;
    return WEIR_OK;
}

weir_status weir_service_renew(weir_service *s, uint64_t id, int64_t ttl_ns, int64_t now_ns,
                               weir_decision *ret, int64_t *ret_next_ns)
{
    if (id != WEIR_ID_NONE)
        return weir_store_renew_next(s->limiter->store, id, now_ns, ttl_ns, ret, ret_next_ns);
    *ret = no_limit;
    if (ret_next_ns)
        *ret_next_ns = 0;
    return WEIR_OK;
}
