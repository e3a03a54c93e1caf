/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The store's public functions on reservations, whose records are in reserve.c. */

#include "store/reservations.h"

#include "core/figures.h"
#include "store/kept.h"
#include "store/store.h"

weir_status weir_store_reserve(weir_store *s, const weir_policy *p, uint64_t policy_id,
                               const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                               int64_t ttl_ns, weir_decision *ret, uint64_t *ret_id)
{
    if (!weir_good_key(key, key_len) || !weir_good_time(now_ns) || !weir_good_cost(cost) ||
        ttl_ns < 0 || ttl_ns > WEIR_SPAN_NS_MAX)
        return WEIR_E_RANGE;
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    weir_store_request request = {
        .policy = p, .policy_id = policy_id, .key = key, .key_len = key_len, .cost = cost};
    weir_kept_move(s, &request, now_ns);
    request.policy_id = weir_recorded_id(s, p, policy_id);
    weir_status st = weir_reserve_make(s->reserved, &request, hash, now_ns, ttl_ns, ret_id);
    if (st == WEIR_OK)
        *ret = request.decision;
    weir_store_sync_if_always(s);
    return st;
}

weir_status weir_store_commit(weir_store *s, uint64_t id, int64_t now_ns, int64_t actual,
                              weir_decision *ret, int64_t *ret_over)
{
    if (!weir_good_time(now_ns) || !weir_good_cost(actual))
        return WEIR_E_RANGE;
    weir_status st = weir_reserve_commit(s->reserved, id, now_ns, actual, ret, ret_over);
    weir_store_sync_if_always(s);
    return st;
}

weir_status weir_store_renew(weir_store *s, uint64_t id, int64_t now_ns, int64_t ttl_ns,
                             weir_decision *ret)
{
    if (!weir_good_time(now_ns) || ttl_ns < 0 || ttl_ns > WEIR_SPAN_NS_MAX)
        return WEIR_E_RANGE;
    weir_status st = weir_reserve_renew(s->reserved, id, now_ns, ttl_ns, ret);
    weir_store_sync_if_always(s);
    return st;
}

weir_status weir_store_cancel(weir_store *s, uint64_t id, int64_t now_ns, weir_decision *ret)
{
    int64_t over;
    return weir_store_commit(s, id, now_ns, 0, ret, &over);
}

/* The time until a cost of 1 is allowed, after decision `d` on the state of a reservation. */
static int64_t next_of(weir_store *s, const weir_reserved *of, int64_t now_ns,
                       const weir_decision *d)
{
    weir_state_call one = {.cost = 1};
    if (weir_next_is_now(&of->policy, d))
        return 0;
    weir_status st =
        weir_store_run(s, &of->policy, of->policy_id, of->hash, now_ns, weir_peek_state, &one);
    return st == WEIR_OK ? one.decision.retry_after_ns : WEIR_NEXT_UNKNOWN;
}

weir_status weir_store_commit_next(weir_store *s, uint64_t id, int64_t now_ns, int64_t actual,
                                   weir_decision *ret, int64_t *ret_over, int64_t *ret_next_ns)
{
    weir_reserved of;
    bool found = ret_next_ns && weir_reserve_find(s->reserved, id, &of);
    weir_status st = weir_store_commit(s, id, now_ns, actual, ret, ret_over);
    if (st == WEIR_OK && ret_next_ns)
        *ret_next_ns = found ? next_of(s, &of, now_ns, ret) : WEIR_NEXT_UNKNOWN;
    return st;
}

weir_status weir_store_renew_next(weir_store *s, uint64_t id, int64_t now_ns, int64_t ttl_ns,
                                  weir_decision *ret, int64_t *ret_next_ns)
{
    weir_reserved of;
    bool found = ret_next_ns && weir_reserve_find(s->reserved, id, &of);
    weir_status st = weir_store_renew(s, id, now_ns, ttl_ns, ret);
    if (st == WEIR_OK && ret_next_ns)
        *ret_next_ns = found ? next_of(s, &of, now_ns, ret) : WEIR_NEXT_UNKNOWN;
    return st;
}
