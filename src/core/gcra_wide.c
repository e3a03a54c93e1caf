/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* GCRA where the interval of one unit is not a whole number of nanoseconds, such as 3/s, and
 * buckets that refill in steps. The clock and the TAT are 128-bit numbers in a unit in which the
 * interval is whole: ticks of 1/num ns, or tokens. The decision is exact and needs no division.
 * Only the reported waits in ns are rounded, up. */

#include "core/gcra.h"

#include "core/spec.h"
#include "core/wide.h"

/*@ requires count <= WEIR_NOW_NS_MAX && each <= WEIR_RATE_MAX;
  @ assigns \nothing;
  @ ensures 0 <= wide(\result) == count * each <= WEIR_NOW_NS_MAX * WEIR_RATE_MAX; */
static weir_wide units(uint64_t count, uint64_t each)
{
    return weir_wide_mul(count, each);
}

/* Converts now_ns to the layer's unit: at most 2^63 * 2^40. */
/*@ requires gcra_wide_layer(g) && time_ok(now_ns);
  @ assigns \nothing;
  @ ensures 0 <= wide(\result) == clock(g, now_ns) <= WEIR_NOW_NS_MAX * WEIR_RATE_MAX; */
static weir_wide clock_at(const weir_layer *g, int64_t now_ns)
{
    if (g->format == WEIR_STATE_TAT_STEPS)
        return units((uint64_t)(now_ns / g->period_ns), (uint64_t)g->rate);
    return units((uint64_t)now_ns, g->num);
}

/*@ requires gcra_wide_layer(g);
  @ assigns \nothing;
  @ ensures 1 <= \result == unit(g); */
static uint64_t unit(const weir_layer *g)
{
    return g->format == WEIR_STATE_TAT_STEPS ? 1 : g->den;
}

/*@ requires gcra_wide_layer(g);
  @ assigns \nothing;
  @ ensures wide(\result) == capacity(g) <= WEIR_LIMIT_MAX * WEIR_SPAN_NS_MAX; */
static weir_wide capacity(const weir_layer *g)
{
    return (weir_wide){g->cap_hi, g->cap_lo};
}

/*@ requires \valid_read(state + (0 .. 1));
  @ assigns \nothing;
  @ ensures wide(\result) == backlog(wide_tat(state), wide(clock)) >= 0; */
static weir_wide backlog_at(const uint64_t *state, weir_wide clock)
{
    weir_wide tat = {state[0], state[1]};
    return weir_wide_less(clock, tat) ? weir_wide_sub(tat, clock) : (weir_wide){0, 0};
}

/*@ requires d >= 1;
  @ assigns \nothing;
  @ ensures 0 <= \result && (wide(n) > 0 ==> (\result - 1) * d < wide(n));
  @ ensures \result == INT64_MAX || wide(n) <= \result * d; */
static int64_t ns_ceil(weir_wide n, uint64_t d)
{
    return weir_ns_clamp(weir_wide_div_ceil(n, d));
}

/* For a clock that advances by `each` at every multiple of period_ns: returns the ns from now_ns
 * until it has advanced by `distance`, which is more than 0. */
/*@ requires wide(distance) > 0 && each >= 1 && period_ns >= 1 && now_ns >= 0;
  @ assigns \nothing;
  @ ensures 0 < \result && (now_ns + \result - 1) / period_ns * each <
  @     now_ns / period_ns * each + wide(distance);
  @ ensures \result == INT64_MAX || (now_ns + \result) / period_ns * each >=
  @     now_ns / period_ns * each + wide(distance); */
static int64_t ns_until_steps(weir_wide distance, uint64_t each, int64_t period_ns, int64_t now_ns)
{
    uint64_t steps = weir_wide_div_ceil(distance, each);
    weir_wide ns = weir_wide_mul(steps, (uint64_t)period_ns);
    ns = weir_wide_sub(ns, (weir_wide){0, (uint64_t)(now_ns % period_ns)});
    return ns.hi != 0 ? INT64_MAX : weir_ns_clamp(ns.lo);
}

/* Returns the ns from now_ns until the layer's clock has advanced by `distance`, which is more than
 * 0. */
/*@ requires gcra_wide_layer(g) && time_ok(now_ns);
  @ requires wide(distance) > 0;
  @ assigns \nothing;
  @ ensures moves_on(g, now_ns, wide(distance), \result); */
static int64_t ns_until(const weir_layer *g, weir_wide distance, int64_t now_ns)
{
    if (g->format == WEIR_STATE_TAT_STEPS)
        return ns_until_steps(distance, (uint64_t)g->rate, g->period_ns, now_ns);
    return ns_ceil(distance, g->num);
}

/* Returns what a cost adds to the backlog. */
/*@ requires gcra_wide_layer(g);
  @ requires cost_ok(cost);
  @ assigns \nothing;
  @ ensures 0 <= wide(\result) == cost * unit(g);
  @ ensures cost <= g->limit <==> wide(\result) <= capacity(g);
  @ ensures capacity(g) <= WEIR_LIMIT_MAX * WEIR_SPAN_NS_MAX; */
static weir_wide charge_for(const weir_layer *g, int64_t cost)
{
    uint64_t each = unit(g);
    //@ assert cost <= g->limit <==> cost * each <= g->limit * each;
    //@ assert 1 <= each <= WEIR_SPAN_NS_MAX;
    //@ assert capacity(g) == g->limit * each <= WEIR_LIMIT_MAX * each;
    return weir_wide_mul((uint64_t)cost, each);
}

/*@ requires gcra_wide_layer(g) && \valid_read(state + (0 .. 1));
  @ requires time_ok(now_ns) && cost_ok(cost);
  @ assigns \nothing;
  @ ensures \result <==> wide_allows(g, wide_tat(state), now_ns, cost); */
bool weir_gcra_wide_allows(const weir_layer *g, const uint64_t *state, int64_t now_ns, int64_t cost)
{
    weir_wide charge = charge_for(g, cost);
    if (cost > g->limit)
        return false;
    weir_wide room = weir_wide_sub(capacity(g), charge);
    return !weir_wide_less(room, backlog_at(state, clock_at(g, now_ns)));
}

typedef struct outcome { /* in the layer's unit */
    weir_wide backlog;   /* after the decision */
    weir_wide excess;    /* denied, and a wait helps: how far the backlog must drain first */
    bool allowed, never;
} outcome;

/* The decision, exact, without clock and state. */
/*@ requires gcra_wide_layer(g) && cost_ok(cost);
  @ assigns \nothing;
  @ ensures \result.allowed <==> wide_fits(g, wide(backlog), cost);
  @ ensures \result.never <==> cost > g->limit;
  @ ensures \result.allowed ==> wide(\result.backlog) <= WEIR_LIMIT_MAX * WEIR_SPAN_NS_MAX;
  @ ensures wide(\result.backlog) == wide(backlog) + (\result.allowed ? cost * unit(g) : 0);
  @ ensures !\result.allowed && !\result.never ==>
  @     wide(\result.excess) == wide(backlog) + cost * unit(g) - capacity(g) > 0; */
static outcome decide(const weir_layer *g, weir_wide backlog, int64_t cost)
{
    outcome o = {backlog, {0, 0}, false, cost > g->limit};
    weir_wide charge = charge_for(g, cost);
    if (o.never)
        return o;
    weir_wide room = weir_wide_sub(capacity(g), charge);
    o.allowed = !weir_wide_less(room, backlog);
    if (o.allowed)
        o.backlog = weir_wide_add(backlog, charge);
    else
        o.excess = weir_wide_sub(backlog, room);
    return o;
}

/*@ requires each >= 1 && 0 <= limit <= WEIR_LIMIT_MAX && wide(room) <= limit * each;
  @ assigns \nothing;
  @ ensures 0 <= \result <= limit && \result * each <= wide(room) < (\result + 1) * each; */
static int64_t units_in(weir_wide room, uint64_t each) /*@ ghost (int64_t limit) */
{
    return (int64_t)weir_wide_div_floor(room, each);
}

/*@ requires gcra_wide_layer(g);
  @ assigns \nothing;
  @ ensures 0 <= \result <= g->limit; */
static int64_t remaining_at(const weir_layer *g, weir_wide backlog)
{
    if (!weir_wide_less(backlog, capacity(g)))
        return 0;
    uint64_t each = unit(g);
    weir_wide room = weir_wide_sub(capacity(g), backlog);
    return units_in(room, each) /*@ ghost (g->limit) */;
}

/*@ requires gcra_wide_layer(g) && time_ok(now_ns);
  @ assigns \nothing;
  @ ensures wide(backlog) == 0 ==> \result == 0;
  @ ensures wide(backlog) > 0 ==> moves_on(g, now_ns, wide(backlog), \result); */
static int64_t reset_after(const weir_layer *g, weir_wide backlog, int64_t now_ns)
{
    bool full = backlog.hi == 0 && backlog.lo == 0;
    return full ? 0 : ns_until(g, backlog, now_ns);
}

/*@ requires gcra_wide_layer(g) && time_ok(now_ns);
  @ requires o.allowed || o.never || wide(o.excess) > 0;
  @ assigns \nothing;
  @ ensures o.allowed ==> \result == 0;
  @ ensures !o.allowed && o.never ==> \result == INT64_MAX;
  @ ensures !o.allowed && !o.never ==> moves_on(g, now_ns, wide(o.excess), \result); */
static int64_t retry_after(const weir_layer *g, outcome o, int64_t now_ns)
{
    if (o.allowed)
        return 0;
    return o.never ? INT64_MAX : ns_until(g, o.excess, now_ns);
}

/* Returns the delay of an allowed leaky-queue request. `before` is the backlog without its
 * charge. */
/*@ requires gcra_wide_layer(g) && nodelay_ok(g);
  @ assigns \nothing;
  @ ensures wide(before) <= g->nodelay * unit(g) ==> \result == 0;
  @ ensures wide(before) > g->nodelay * unit(g) ==>
  @     \result >= 0 && (\result - 1) * g->num < wide(before) - g->nodelay * unit(g);
  @ ensures wide(before) > g->nodelay * unit(g) && \result != INT64_MAX ==>
  @     wide(before) - g->nodelay * unit(g) <= \result * g->num; */
static int64_t delay_after(const weir_layer *g, weir_wide before)
{
    weir_wide undelayed = charge_for(g, g->nodelay);
    if (!weir_wide_less(undelayed, before))
        return 0;
    return ns_ceil(weir_wide_sub(before, undelayed), g->num);
}

/*@ requires gcra_wide_layer(g) && \valid(state + (0 .. 1)) && \valid(ret);
  @ requires time_ok(now_ns) && cost_ok(cost) && \separated(g, state + (0 .. 1), ret);
  @ requires nodelay_ok(g);
  @ assigns state[0 .. 1], *ret;
  @ ensures kept: !ret->allowed || cost == 0 ==>
  @     state[0] == \old(state[0]) && state[1] == \old(state[1]);
  @ ensures monotone: wide_tat(state) >= \old(wide_tat(state));
  @ ensures limit: ret->limit == g->limit; */
void weir_gcra_wide_check(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost,
                          weir_decision *ret)
{
    weir_wide clock = clock_at(g, now_ns);
    weir_wide before = backlog_at(state, clock);
    outcome o = decide(g, before, cost);
    bool queued = o.allowed && g->algorithm == WEIR_LEAKY_QUEUE;
    int64_t delay_ns = queued ? delay_after(g, before) : 0;
    int64_t retry_after_ns = retry_after(g, o, now_ns);
    int64_t reset_after_ns = reset_after(g, o.backlog, now_ns);
    int64_t remaining = remaining_at(g, o.backlog), limit = g->limit;
    //@ assert verdict: o.allowed <==> wide_allows(g, wide_tat(state), now_ns, cost);
    //@ assert never: o.never <==> cost > g->limit;
    /*@ assert retry: !o.allowed && !o.never ==>
      @     moves_on(g, now_ns, wide(o.excess), retry_after_ns); */
    //@ assert reset: wide(o.backlog) > 0 ==> moves_on(g, now_ns, wide(o.backlog), reset_after_ns);
    ret->limit = limit;
    ret->remaining = remaining;
    ret->retry_after_ns = retry_after_ns;
    ret->reset_after_ns = reset_after_ns;
    ret->delay_ns = delay_ns;
    ret->allowed = o.allowed;
    ret->never = o.never;
    if (o.allowed && cost > 0) {
        weir_wide tat = weir_wide_add(clock, o.backlog);
        //@ assert charged: wide(tat) == wide(clock) + wide(before) + cost * unit(g);
        state[0] = tat.hi;
        state[1] = tat.lo;
    }
}

/*@ requires gcra_wide_layer(g) && \valid(state + (0 .. 1)) && \separated(g, state + (0 .. 1));
  @ requires time_ok(now_ns) && cost_ok(cost);
  @ assigns state[0 .. 1]; */
void weir_gcra_wide_refund(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost)
{
    weir_wide clock = clock_at(g, now_ns);
    weir_wide backlog = backlog_at(state, clock);
    if (backlog.hi == 0 && backlog.lo == 0)
        return;
    weir_wide back = charge_for(g, cost);
    weir_wide tat = clock;
    if (weir_wide_less(back, backlog))
        tat = weir_wide_add(clock, weir_wide_sub(backlog, back));
    //@ assert lowered: wide(tat) == wide(clock) + \max(0, wide(backlog) - cost * unit(g));
    state[0] = tat.hi;
    state[1] = tat.lo;
}
