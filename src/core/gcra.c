/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* GCRA where the interval of one unit is a whole number of nanoseconds: the everyday case, and the
 * hot path. The TAT is one word. The decision is a subtraction and a comparison. No product can
 * overflow, because weir_layer_init() ensures limit * den <= WEIR_SPAN_NS_MAX. */

#include "core/gcra.h"

#include "core/spec.h"
#include "core/wide.h"

_Static_assert(WEIR_NOW_NS_MAX <= INT64_MAX - WEIR_SPAN_NS_MAX,
               "now + capacity must fit in int64_t");

/*@ requires time_ok(now_ns);
  @ assigns \nothing;
  @ ensures \result == backlog(tat_ns, now_ns) >= 0; */
static int64_t backlog_at(int64_t tat_ns, int64_t now_ns)
{
    return tat_ns > now_ns ? tat_ns - now_ns : 0;
}

/*@ requires gcra_layer(g) && nodelay_ok(g);
  @ requires backlog_ns >= 0;
  @ assigns \nothing;
  @ ensures \result == delay(g, backlog_ns) >= 0; */
static int64_t delay_at(const weir_layer *g, int64_t backlog_ns)
{
    //@ assert g->nodelay * g->den <= g->limit * g->den;
    int64_t undelayed_ns = g->nodelay * (int64_t)g->den;
    return backlog_ns > undelayed_ns ? backlog_ns - undelayed_ns : 0;
}

/*@ requires gcra_layer(g);
  @ requires backlog_ns >= 0;
  @ assigns \nothing;
  @ ensures tat_remaining(g, backlog_ns, \result); */
static int64_t remaining_at(const weir_layer *g, int64_t backlog_ns)
{
    int64_t interval_ns = (int64_t)g->den, capacity_ns = (int64_t)g->cap_lo;
    return backlog_ns < capacity_ns ? (capacity_ns - backlog_ns) / interval_ns : 0;
}

/*@ requires gcra_layer(g) && \valid_read(state) && time_ok(now_ns) && cost_ok(cost);
  @ assigns \nothing;
  @ ensures \result <==> tat_allows(g, tat_of(state), now_ns, cost); */
bool weir_gcra_allows(const weir_layer *g, const uint64_t *state, int64_t now_ns, int64_t cost)
{
    //@ assert cost <= g->limit <==> cost * g->den <= g->cap_lo;
    if (cost > g->limit)
        return false;
    int64_t interval_ns = (int64_t)g->den, capacity_ns = (int64_t)g->cap_lo;
    return backlog_at((int64_t)*state, now_ns) <= capacity_ns - cost * interval_ns;
}

/*@ requires gcra_layer(g) && \valid(state) && time_ok(now_ns) && cost_ok(cost) && \valid(ret);
  @ requires nodelay_ok(g);
  @ requires \separated(g, state, ret);
  @ assigns *state, *ret;
  @ ensures verdict: ret->allowed <==> tat_allows(g, \old(tat_of(state)), now_ns, cost);
  @ ensures retry: tat_retry(g, \old(tat_of(state)), now_ns, cost, ret);
  @ ensures kept: !ret->allowed || cost == 0 ==> *state == \old(*state);
  @ ensures charged: ret->allowed && cost > 0 ==> tat_of(state) ==
  @     now_ns + backlog(\old(tat_of(state)), now_ns) + cost * g->den;
  @ ensures monotone: tat_of(state) >= \old(tat_of(state));
  @ ensures bounded: tat_of(state) <= \max(\old(tat_of(state)), now_ns + g->cap_lo);
  @ ensures remaining: tat_remaining(g, backlog(tat_of(state), now_ns), ret->remaining);
  @ ensures reset: ret->reset_after_ns == backlog(tat_of(state), now_ns);
  @ ensures delay: ret->delay_ns == (ret->allowed && g->algorithm == WEIR_LEAKY_QUEUE ?
  @     \old(delay(g, backlog(tat_of(state), now_ns))) : 0);
  @ ensures limit: ret->limit == g->limit; */
void weir_gcra_check(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost,
                     weir_decision *ret)
{
    int64_t interval_ns = (int64_t)g->den, capacity_ns = (int64_t)g->cap_lo;
    int64_t backlog_ns = backlog_at((int64_t)*state, now_ns);
    //@ assert cost <= g->limit <==> cost * interval_ns <= capacity_ns;
    ret->limit = g->limit;
    ret->never = cost > g->limit;
    ret->retry_after_ns = INT64_MAX;
    ret->delay_ns = 0;
    ret->allowed = false;
    if (!ret->never) {
        int64_t over_ns = backlog_ns - (capacity_ns - cost * interval_ns);
        ret->allowed = over_ns <= 0;
        ret->retry_after_ns = ret->allowed ? 0 : over_ns;
    }
    if (ret->allowed) {
        if (g->algorithm == WEIR_LEAKY_QUEUE)
            ret->delay_ns = delay_at(g, backlog_ns);
        backlog_ns += cost * interval_ns;
        if (cost > 0)
            *state = (uint64_t)(now_ns + backlog_ns);
    }
    ret->reset_after_ns = backlog_ns;
    ret->remaining = remaining_at(g, backlog_ns);
}

/*@ requires gcra_layer(g) && \valid(state) && time_ok(now_ns) && cost_ok(cost);
  @ requires \separated(g, state);
  @ assigns *state;
  @ ensures lowered: \old(tat_of(state)) > now_ns ==>
  @     tat_of(state) == \max(now_ns, \old(tat_of(state)) - cost * g->den);
  @ ensures kept: \old(tat_of(state)) <= now_ns ==> *state == \old(*state); */
void weir_gcra_refund(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost)
{
    int64_t backlog_ns = backlog_at((int64_t)*state, now_ns);
    weir_wide back = weir_wide_mul((uint64_t)cost, g->den);
    if (backlog_ns > 0) {
        bool all = back.hi != 0 || back.lo >= (uint64_t)backlog_ns;
        *state = (uint64_t)(all ? now_ns : now_ns + (backlog_ns - (int64_t)back.lo));
    }
}
