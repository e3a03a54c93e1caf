/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Leases without a record. A lease is sought where the state of its key is now: under the id of its
 * request or, if its limit has changed, under that of another limit of the family. The state is not
 * moved, because a limit that is lower would join leases, and these cannot be given back one by
 * one. */

#include "store/lease.h"

#include "core/algorithm.h"
#include "core/check.h"
#include "store/kept.h"

/* The context of the callbacks. */
typedef struct lease {
    weir_state_call charge;
    weir_charged of;
    int64_t ends_ns; /* output */
} lease;

static weir_status take_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                              int64_t now_ns, weir_usage *ret_usage)
{
    lease *l = ctx;
    weir_status st = weir_check_state(&l->charge, p, state, level, now_ns, ret_usage);
    l->ends_ns = st == WEIR_OK ? weir_lease_of(&l->charge, p, state, level, now_ns) : 0;
    return st;
}

static weir_status renew_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns, weir_usage *ret_usage)
{
    lease *l = ctx;
    const weir_layer *hold = weir_policy_hold(p);
    int64_t time_ns = weir_state_time(p, state, level, now_ns);
    (void)ret_usage;
    if (!hold || weir_lease_held(p, state, level, &l->of, time_ns) == 0)
        return WEIR_E_ABSENT;
    return weir_renew(p, state, level, &l->of, hold->period_ns, time_ns, &l->charge.decision,
                      &l->ends_ns);
}

static weir_status return_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns, weir_usage *ret_usage)
{
    lease *l = ctx;
    int64_t time_ns = weir_state_time(p, state, level, now_ns);
    (void)ret_usage;
    if (weir_lease_held(p, state, level, &l->of, time_ns) == 0)
        return WEIR_E_ABSENT;
    return weir_refund_charge(p, state, level, &l->of, time_ns, 0, &l->charge.decision);
}

static weir_large_call call_of(const weir_store *s, const weir_store_request *r, int64_t now_ns,
                               weir_state_fn fn, lease *l)
{
    return (weir_large_call){.policy = r->policy,
                             .hash = weir_store_hash(s, r->policy_id, r->key, r->key_len),
                             .now_ns = now_ns,
                             .fn = fn,
                             .ctx = l};
}

weir_status weir_store_take_lease(weir_store *s, weir_store_request *request, int64_t now_ns,
                                  int64_t *ret_ends_ns)
{
    lease l = {.charge = {.cost = request->cost, .keep = request->keep}};
    request->status = WEIR_E_RANGE;
    if (!weir_good_request(request, now_ns))
        return WEIR_E_RANGE;
    weir_large_call call = call_of(s, request, now_ns, take_state, &l);
    request->status = weir_store_call(s, weir_area_of(s, request->policy_id), &call, request);
    if (request->status == WEIR_OK) {
        request->decision = l.charge.decision;
        *ret_ends_ns = l.ends_ns;
    }
    return request->status;
}

/* Runs a callback on the state that has the lease. */
static weir_status run(weir_store *s, const weir_store_request *of, int64_t now_ns,
                       weir_state_fn fn, lease *l)
{
    weir_large_call call = call_of(s, of, now_ns, fn, l);
    call.any_words = true;
    weir_status st = weir_store_call(s, weir_area_of(s, of->policy_id), &call, NULL);
    return st == WEIR_E_ELSEWHERE ? weir_kept_run_there(s, &call, of) : st;
}

weir_status weir_store_renew_lease(weir_store *s, const weir_store_request *of, int64_t now_ns,
                                   int64_t *ends_ns)
{
    lease l = {.of = {.ends_ns = *ends_ns, .units = of->cost}};
    weir_status st = run(s, of, now_ns, renew_state, &l);
    if (st == WEIR_OK)
        *ends_ns = l.ends_ns;
    return st;
}

weir_status weir_store_return_lease(weir_store *s, const weir_store_request *of, int64_t now_ns,
                                    int64_t ends_ns)
{
    lease l = {.of = {.ends_ns = ends_ns, .units = of->cost}};
    return run(s, of, now_ns, return_state, &l);
}
