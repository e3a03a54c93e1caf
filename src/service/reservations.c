/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reservations by name: what a rule makes of them, beyond what the store does. */

#include "service/service_internal.h"

/* A shadow lets pass what it denies: there is a reservation then as well, of nothing, so that what
 * it comes to is counted. If there can be none, it is let pass without. */
static uint64_t reserve_nothing(weir_service *s, const weir_store_request *r, int64_t ttl_ns,
                                int64_t now_ns)
{
    weir_decision d;
    uint64_t id;
    weir_status st = weir_store_reserve(s->limiter->store, r->policy, r->policy_id, r->key,
                                        r->key_len, now_ns, 0, ttl_ns, &d, &id);
    return st == WEIR_OK && d.allowed ? id : WEIR_ID_NONE;
}

static void reserve(weir_service *s, const weir_resolved *at, weir_request *ask, int64_t ttl_ns,
                    int64_t now_ns, uint64_t *ret_id)
{
    weir_store_request r;
    weir_resolved_fill(&r, at, ask);
    ask->status = weir_store_reserve(s->limiter->store, r.policy, r.policy_id, r.key, r.key_len,
                                     now_ns, r.cost, ttl_ns, &ask->decision, ret_id);
    if (ask->status == WEIR_OK && !ask->decision.allowed && weir_resolved_is_shadow(at))
        *ret_id = reserve_nothing(s, &r, ttl_ns, now_ns);
}

void weir_service_reserve(weir_service *s, weir_request *ask, int64_t ttl_ns, int64_t now_ns,
                          uint64_t *ret_id)
{
    weir_resolved at;
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    s->decided++;
    ask->status = weir_resolve(s, ask, &s->seen[0], &at);
    if (ask->status == WEIR_OK && weir_resolved_is_listed(&at)) {
        weir_resolved_decide_by_list(&at, ask);
        if (ask->decision.allowed)
            *ret_id = WEIR_ID_NONE;
    } else if (ask->status == WEIR_OK && weir_resolved_engine(s, &at) != WEIR_ENGINE_LOCAL) {
        ask->status = WEIR_E_UNSUPPORTED;
        ask->why = "only a policy whose engine is local can reserve: take, and refund what is left";
    } else if (ask->status == WEIR_OK) {
        reserve(s, &at, ask, ttl_ns, now_ns, ret_id);
    }
    weir_resolved_finish(&at, ask);
    weir_resolved_count(s, &at, ask, now_ns);
}

weir_status weir_service_commit(weir_service *s, uint64_t id, int64_t actual, int64_t now_ns,
                                weir_decision *ret, int64_t *ret_over)
{
    if (id != WEIR_ID_NONE)
        return weir_store_commit(s->limiter->store, id, now_ns, actual, ret, ret_over);
    *ret = (weir_decision){.limit = WEIR_LIMIT_MAX, .remaining = WEIR_LIMIT_MAX, .allowed = true};
    *ret_over = 0;
    return WEIR_OK;
}
