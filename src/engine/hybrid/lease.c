/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The hybrid engine admits units of a lease without a round trip. These functions bound how many
 * units, and for how long. */

#include "engine/hybrid/lease.h"

#include "core/algorithm.h"
#include "port/assert.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a + b, at most INT64_MAX. */
static int64_t later(int64_t a, int64_t b)
{
    WEIR_ASSERT(a >= 0 && b >= 0);
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* 0 for a window shorter than 8 intervals: it could end while a reply is in flight, and the reply
 * would not show which window it is about. */
static int64_t window_of(const weir_policy *p, int64_t interval_ns)
{
    const weir_layer *l = &p->layer[0];
    if (p->layers != 1 || !weir_layer_can(l, WEIR_CAN_EMPTY_AT_ONCE))
        return 0;
    if (l->period_ns == 0)
        return 20 * (int64_t)3600 *
               1000000000; /* of the calendar: 20 h, less than the shortest day */
    return l->period_ns / 8 >= interval_ns ? l->period_ns : 0;
}

/* The time in which `units` drain at num units per den ns, rounded up. */
static int64_t drain_ns(uint64_t num, uint64_t den, int64_t units)
{
    WEIR_ASSERT(num > 0 && units >= 0);
    unsigned __int128 ns = ((unsigned __int128)units * den + num - 1) / num;
    return ns < (unsigned __int128)WEIR_SPAN_NS_MAX ? (int64_t)ns : WEIR_SPAN_NS_MAX;
}

/* 0 if units do not drain evenly. */
static int64_t fill_ns(const weir_layer *l, int64_t units)
{
    return weir_layer_can(l, WEIR_CAN_DRAIN_EVENLY) ? drain_ns(l->num, l->den, units) : 0;
}

weir_lease_plan weir_lease_plan_of(const weir_policy *p, int64_t count, int64_t interval_ns,
                                   int64_t idle_ns)
{
    WEIR_ASSERT(p->layers > 0 && count > 0 && interval_ns > 0 && idle_ns > 0);
    const weir_layer *first = &p->layer[0];
    weir_lease_plan plan = {.kind = WEIR_LEASE_PREPAID,
                            .window_ns = window_of(p, interval_ns),
                            .drains =
                                p->layers == 1 && weir_layer_can(first, WEIR_CAN_DRAIN_EVENLY),
                            .num = first->num,
                            .den = first->den,
                            .cost_max = first->limit,
                            .interval_ns = interval_ns,
                            .idle_ns = idle_ns};
    bool may = true;
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        plan.cost_max = least(plan.cost_max, l->limit);
        may = may && weir_layer_can(l, WEIR_CAN_SHARE);
        if (!weir_layer_can(l, WEIR_CAN_LEASE))
            plan.kind = WEIR_LEASE_POSTPAID;
    }
    int64_t parts =
        plan.kind == WEIR_LEASE_PREPAID ? WEIR_LEASE_PREPAID_PARTS : WEIR_LEASE_POSTPAID_PARTS;
    plan.cap = least(count, plan.cost_max / parts);
    plan.hold_ns = interval_ns;
    for (uint32_t i = 0; i < p->layers; i++)
        plan.hold_ns = least(plan.hold_ns, fill_ns(&p->layer[i], plan.cap));
    if (!may || plan.cap == 0) {
        plan.kind = WEIR_LEASE_NONE;
        plan.cap = 0;
    }
    return plan;
}

void weir_lease_decision(const weir_lease *s, const weir_lease_plan *p, int64_t now_ns,
                         int64_t cost, bool allowed, weir_decision *ret)
{
    int64_t retry_ns = 0;
    WEIR_ASSERT(allowed || weir_lease_denies(s, p, now_ns, cost));
    if (!allowed) {
        retry_ns = s->retry_at_ns - now_ns;
        if (p->drains)
            retry_ns = later(retry_ns, drain_ns(p->num, p->den, cost - s->deny_cost));
    }
    *ret = (weir_decision){.limit = s->limit,
                           .remaining = most(s->remaining + s->balance, 0),
                           .retry_after_ns = retry_ns,
                           .reset_after_ns = most(s->reset_at_ns - now_ns, retry_ns),
                           .layer = s->layer,
                           .allowed = allowed};
}

/* Nothing can be taken from the lease before the next reply: it is no longer valid. */
static void end_window(weir_lease *s)
{
    s->balance = 0;
    s->debt = 0;
    s->end_ns_min = 0;
    s->end_ns_max = 0;
    s->epoch++;
}

void weir_lease_roll_window(weir_lease *s, int64_t now_ns)
{
    if (s->end_ns_max > 0 && now_ns >= s->end_ns_max) {
        WEIR_ASSERT(now_ns >= s->valid_to_ns);
        end_window(s);
    }
}

/* Narrows down when the window ends. The server measured reset_after at a time between sent_ns and
 * now_ns, and rounded it up to whole us. Returns until when the reply may be used. */
static int64_t narrow_window(weir_lease *s, const weir_lease_plan *p, int64_t reset_after_ns,
                             int64_t sent_ns, int64_t now_ns)
{
    WEIR_ASSERT(p->window_ns > 0 && s->end_ns_min <= s->end_ns_max);
    if (reset_after_ns == 0 || now_ns - sent_ns > p->window_ns / 4)
        return 0;
    int64_t min_ns = later(sent_ns, reset_after_ns) - 1000, max_ns = later(now_ns, reset_after_ns);
    if (s->end_ns_max > 0 && min_ns > s->end_ns_max) /* a reply about the next window */
        end_window(s);
    if (s->end_ns_max == 0) {
        s->end_ns_min = min_ns;
        s->end_ns_max = max_ns;
        return min_ns;
    }
    if (max_ns < s->end_ns_min) /* about the previous window: another reply overtook it */
        return 0;
    s->end_ns_min = most(s->end_ns_min, min_ns);
    s->end_ns_max = most(least(s->end_ns_max, max_ns), s->end_ns_min);
    return s->end_ns_min;
}

/* The size of a prepaid lease: four times the units of an interval. */
static int64_t prepaid_size(const weir_lease *s, const weir_lease_plan *p)
{
    return least(p->cap, 4 * least(most(s->rate, s->used), p->cap) + 1);
}

/* While a key is exhausted, units are not requested in advance, but only for a request that needs
 * them. */
static void set_low(weir_lease *s, const weir_lease_plan *p)
{
    if (p->kind == WEIR_LEASE_POSTPAID)
        s->low = s->floor / 2;
    else
        s->low = s->exhausted ? INT64_MIN : prepaid_size(s, p) / 8;
}

void weir_lease_update(weir_lease *s, const weir_lease_plan *p, const weir_decision *d,
                       int64_t cost, int64_t sent_ns, int64_t now_ns)
{
    if (d->never)
        return;
    s->limit = d->limit;
    s->layer = d->layer;
    s->remaining = d->remaining;
    s->reset_at_ns = later(now_ns, d->reset_after_ns);
    s->exhausted = !d->allowed && d->remaining == 0;
    s->deny_until_ns = 0;
    if (!d->allowed) { /* for at most idle_ns: another engine may reset the key */
        s->deny_cost = cost;
        int64_t hold_ns = s->exhausted && p->kind == WEIR_LEASE_PREPAID ? p->hold_ns : 0;
        s->retry_at_ns = later(now_ns, most(d->retry_after_ns, hold_ns));
        s->deny_until_ns = least(s->retry_at_ns, later(now_ns, p->idle_ns));
    }
    if (p->kind == WEIR_LEASE_PREPAID) {
        s->valid_to_ns = INT64_MAX;
    } else {
        int64_t until_ns = later(sent_ns, 2 * p->interval_ns);
        if (p->window_ns > 0)
            until_ns = least(until_ns, narrow_window(s, p, d->reset_after_ns, sent_ns, now_ns));
        s->floor = -least(p->cap, s->remaining / WEIR_LEASE_POSTPAID_PARTS);
        s->valid_to_ns = until_ns;
    }
    WEIR_ASSERT(s->floor <= 0 && s->floor >= -p->cap);
    set_low(s, p);
}

int64_t weir_lease_wanted(const weir_lease *s, const weir_lease_plan *p)
{
    WEIR_ASSERT(!s->syncing);
    if (p->kind == WEIR_LEASE_PREPAID)
        return most(prepaid_size(s, p) - s->balance, 0);
    return most(-s->balance, 0);
}

int64_t weir_lease_granted(weir_lease *s, const weir_lease_plan *p, uint32_t epoch, int64_t n,
                           int64_t granted)
{
    if (epoch != s->epoch)
        return 0;
    s->balance += granted;
    if (p->kind == WEIR_LEASE_PREPAID)
        return 0;
    int64_t uncharged = most(n - granted, 0);
    int64_t over = most(uncharged - s->debt, 0);
    s->debt = uncharged;
    return over;
}

int64_t weir_lease_end_interval(weir_lease *s, const weir_lease_plan *p, int64_t now_ns)
{
    if (s->used > 0)
        s->used_at_ns = now_ns;
    s->rate = most(s->used, s->rate / 2);
    s->used = 0;
    set_low(s, p);
    if (p->kind != WEIR_LEASE_PREPAID || s->balance <= 0 || s->syncing ||
        now_ns - s->used_at_ns < p->idle_ns)
        return 0;
    int64_t back = s->balance;
    s->balance = 0;
    return back;
}

bool weir_lease_is_idle(const weir_lease *s, const weir_lease_plan *p, int64_t now_ns)
{
    return s->balance == 0 && !s->syncing && now_ns - s->used_at_ns >= p->idle_ns;
}

void weir_lease_invalidate(weir_lease *s, bool reset)
{
    s->valid_to_ns = 0;
    s->deny_until_ns = 0;
    s->exhausted = false;
    s->version++;
    if (reset)
        end_window(s);
}
