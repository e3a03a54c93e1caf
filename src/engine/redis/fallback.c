/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `open` and `closed` are answered from the policy alone, with times in whole microseconds, rounded
 * up, as servers send them. `local` is answered by the service's own store, in nanoseconds. */

#include "engine/redis/fallback.h"

#include "core/check.h"
#include "port/assert.h"
#include "service/throttle.h"

enum { GRANT_TRIES = 4 };

static const int64_t ns_per_us = 1000, ns_per_s = 1000000000;

void weir_fallback_init(weir_fallback *ret, weir_store *store, weir_on_error on_error)
{
    WEIR_ASSERT(on_error != WEIR_ON_ERROR_DEFAULT);
    *ret = (weir_fallback){.store = store, .on_error = on_error};
    if (store)
        (void)!weir_throttle_states(store, &ret->throttle_policy, &ret->throttle_id);
}

/* The decision for a key with its full quota. If the cost and what it keeps are above the limit of
 * a layer, that layer denies it for ever; otherwise the layer with the least remaining is shown. */
static weir_decision full_quota(const weir_policy *p, int64_t cost, int64_t keep)
{
    weir_decision d = weir_full_quota(p);
    for (uint32_t i = 0; i < p->layers && d.allowed; i++) {
        int64_t limit = p->layer[i].limit, left = limit - weir_kept_of(&p->layer[i], keep);
        if (cost <= left && left >= d.remaining)
            continue;
        d.limit = limit;
        d.remaining = left > 0 ? left : 0;
        d.layer = i;
        if (cost <= left)
            continue;
        d.allowed = false;
        d.never = true;
        d.retry_after_ns = INT64_MAX;
    }
    return d;
}

static weir_decision closed(const weir_policy *p, int64_t cost, int64_t keep, int64_t wait_ns)
{
    weir_decision d = full_quota(p, cost, keep);
    d.allowed = false;
    d.remaining = 0;
    d.reset_after_ns = (wait_ns + ns_per_us - 1) / ns_per_us * ns_per_us;
    if (!d.never)
        d.retry_after_ns = d.reset_after_ns;
    return d;
}

/* ---- the service's own store ----------------------------------------------------------------- */

/* Charges as many of q->cost units as remain. Other threads may take units between peek and check:
 * then fewer are charged. */
static weir_status grant(weir_store *s, weir_engine_request *q, int64_t now_ns)
{
    weir_decision d;
    weir_status st =
        weir_store_peek(s, q->policy, q->policy_id, q->key.at, q->key.len, now_ns, q->cost, &d);
    q->granted = 0;
    for (int i = 0; st == WEIR_OK && i < GRANT_TRIES; i++) {
        int64_t n = d.remaining < q->cost ? d.remaining : q->cost;
        st = weir_store_check(s, q->policy, q->policy_id, q->key.at, q->key.len, now_ns, n, &d);
        if (st == WEIR_OK && d.allowed) {
            q->granted = n;
            break;
        }
    }
    return st != WEIR_OK ? st
                         : weir_store_peek(s, q->policy, q->policy_id, q->key.at, q->key.len,
                                           now_ns, 1, &q->decision);
}

static weir_status throttle_state(void *ctx, uint64_t *state, int64_t now_ns)
{
    weir_engine_request *q = ctx;
    q->throttle_status = weir_throttle_check(&q->throttle, state, now_ns, &q->answer);
    return q->throttle_status == WEIR_THROTTLE_OK ? WEIR_OK : WEIR_E_RANGE;
}

static weir_status reset(weir_store *s, weir_engine_request *q)
{
    weir_status st = weir_store_reset(s, q->policy_id, q->key.at, q->key.len);
    if (st == WEIR_OK)
        q->decision = full_quota(q->policy, 0, 0);
    return st;
}

static weir_status charge(weir_store *s, weir_engine_request *q, int64_t now_ns)
{
    int64_t over = 0;
    weir_status st = weir_store_charge(s, q->policy, q->policy_id, q->key.at, q->key.len, now_ns,
                                       q->cost, &q->decision, &over);
    q->granted = q->cost - over;
    return st;
}

static weir_status local(const weir_fallback *f, weir_engine_request *q, int64_t now_ns)
{
    switch (q->verb) {
    case WEIR_VERB_TAKE:
        return weir_store_check_keep(f->store, q->policy, q->policy_id, q->key.at, q->key.len,
                                     now_ns, q->cost, q->keep, &q->decision);
    case WEIR_VERB_PEEK:
        return weir_store_peek_keep(f->store, q->policy, q->policy_id, q->key.at, q->key.len,
                                    now_ns, q->cost, q->keep, &q->decision);
    case WEIR_VERB_REFUND:
        return weir_store_refund(f->store, q->policy, q->policy_id, q->key.at, q->key.len, now_ns,
                                 q->cost, &q->decision);
    case WEIR_VERB_CHARGE:
        return charge(f->store, q, now_ns);
    case WEIR_VERB_RESET:
        return reset(f->store, q);
    case WEIR_VERB_GRANT:
        return grant(f->store, q, now_ns);
    case WEIR_VERB_THROTTLE:
    case WEIR_VERB_RESET_ALL:
        break;
    }
    q->throttle_status = WEIR_THROTTLE_OK;
    return weir_store_apply(f->store, &f->throttle_policy, f->throttle_id, q->key.at, q->key.len,
                            now_ns, throttle_state, q);
}

/* Writes next_ns of a request that the store has decided. */
static void find_next(const weir_fallback *f, weir_engine_request *q, int64_t now_ns)
{
    weir_decision d;
    bool decided = q->status == WEIR_OK && q->verb != WEIR_VERB_THROTTLE;
    if (decided && weir_store_peek_keep(f->store, q->policy, q->policy_id, q->key.at, q->key.len,
                                        now_ns, 1, q->keep, &d) == WEIR_OK)
        q->next_ns = d.retry_after_ns;
}

/* ---- one request ----------------------------------------------------------------------------- */

/* CL.THROTTLE on a key with its full quota. Bad arguments, and a quantity above the limit, are
 * answered as by a server. */
static weir_status throttle(weir_engine_request *q, int64_t now_ns, bool open, int64_t wait_ns)
{
    uint64_t state = 0;
    weir_throttle look = q->throttle;
    weir_status st = throttle_state(q, &state, now_ns);
    if (st != WEIR_OK || q->answer.limited)
        return st;
    look.quantity = 0;
    state = 0;
    q->throttle_status = weir_throttle_check(&look, &state, now_ns, &q->answer);
    if (!open) {
        int64_t wait_s = (wait_ns + ns_per_s - 1) / ns_per_s;
        q->answer.limited = true;
        q->answer.remaining = 0;
        q->answer.retry_after_s = wait_s;
        q->answer.reset_after_s = wait_s;
    }
    return WEIR_OK;
}

static weir_on_error of(const weir_fallback *f, const weir_engine_request *q)
{
    return q->on_error == WEIR_ON_ERROR_DEFAULT ? f->on_error : q->on_error;
}

static weir_on_error report(weir_engine_request *q, const char *why)
{
    q->status = WEIR_E_IO;
    q->reason = why;
    q->by_error = false;
    return WEIR_ON_ERROR_REPORT;
}

weir_on_error weir_fallback_answer(const weir_fallback *f, weir_engine_request *q, int64_t now_ns,
                                   int64_t wait_ns, const char *why)
{
    WEIR_ASSERT(wait_ns > 0);
    weir_on_error by = of(f, q);
    bool changes =
        q->verb == WEIR_VERB_REFUND || q->verb == WEIR_VERB_CHARGE || q->verb == WEIR_VERB_RESET;
    if (by == WEIR_ON_ERROR_REPORT || q->verb == WEIR_VERB_RESET_ALL ||
        (by == WEIR_ON_ERROR_LOCAL && !f->store) || (by != WEIR_ON_ERROR_LOCAL && changes))
        return report(q, why);
    bool open = by == WEIR_ON_ERROR_OPEN;
    q->by_error = true;
    q->reason = NULL;
    q->status = WEIR_OK;
    q->granted = 0;
    if (by == WEIR_ON_ERROR_LOCAL) {
        q->status = local(f, q, now_ns);
        find_next(f, q, now_ns);
    } else if (q->verb == WEIR_VERB_THROTTLE) {
        q->status = throttle(q, now_ns, open, wait_ns);
    } else {
        int64_t cost = q->verb == WEIR_VERB_GRANT ? 1 : q->cost;
        q->decision =
            open ? full_quota(q->policy, cost, q->keep) : closed(q->policy, cost, q->keep, wait_ns);
        q->next_ns = !open ? wait_ns : q->decision.remaining > 0 ? 0 : INT64_MAX;
        if (open && q->verb == WEIR_VERB_GRANT)
            q->granted = q->cost < q->decision.limit ? q->cost : q->decision.limit;
    }
    return by;
}

/* ---- several requests as one ----------------------------------------------------------------- */

static weir_on_error strictest(const weir_fallback *f, const weir_engine_batch *r)
{
    static const int rank[] = {[WEIR_ON_ERROR_OPEN] = 0,
                               [WEIR_ON_ERROR_LOCAL] = 1,
                               [WEIR_ON_ERROR_CLOSED] = 2,
                               [WEIR_ON_ERROR_REPORT] = 3};
    weir_on_error by = WEIR_ON_ERROR_OPEN;
    for (size_t i = 0; i < r->len; i++) {
        weir_on_error one = of(f, &r->request[i]);
        if (rank[one] > rank[by])
            by = one;
    }
    return by == WEIR_ON_ERROR_LOCAL && !f->store ? WEIR_ON_ERROR_REPORT : by;
}

static void local_all(const weir_fallback *f, weir_engine_batch *r, int64_t now_ns)
{
    weir_store_request request[WEIR_TAKE_MANY_MAX];
    WEIR_ASSERT(r->len <= WEIR_TAKE_MANY_MAX);
    for (size_t i = 0; i < r->len; i++) {
        const weir_engine_request *q = &r->request[i];
        request[i] = (weir_store_request){.policy = q->policy,
                                          .policy_id = q->policy_id,
                                          .key = q->key.at,
                                          .key_len = q->key.len,
                                          .cost = q->cost,
                                          .keep = q->keep};
    }
    weir_status st = weir_store_take_many(f->store, request, r->len, now_ns, &r->blocking);
    for (size_t i = 0; i < r->len; i++) {
        r->request[i].status = st == WEIR_OK ? WEIR_OK : request[i].status;
        r->request[i].decision = request[i].decision;
        find_next(f, &r->request[i], now_ns);
    }
}

weir_on_error weir_fallback_answer_all(const weir_fallback *f, weir_engine_batch *r, int64_t now_ns,
                                       int64_t wait_ns, const char *why)
{
    weir_on_error by = strictest(f, r);
    r->blocking = r->len;
    for (size_t i = 0; i < r->len; i++) {
        weir_engine_request *q = &r->request[i];
        weir_on_error was = q->on_error;
        q->on_error = by;
        q->by_error = true;
        q->reason = NULL;
        if (by != WEIR_ON_ERROR_LOCAL)
            (void)weir_fallback_answer(f, q, now_ns, wait_ns, why);
        q->on_error = was;
        if (q->status == WEIR_OK && !q->decision.allowed &&
            (r->blocking == r->len || (q->decision.never && by == WEIR_ON_ERROR_CLOSED &&
                                       !r->request[r->blocking].decision.never)))
            r->blocking = i;
    }
    if (by == WEIR_ON_ERROR_LOCAL)
        local_all(f, r, now_ns);
    return by;
}
