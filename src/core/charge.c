/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Charges without a verdict. A layer counts as if its limit were the largest one with which its
 * state has the same format, so no sum can exceed what the format can store. */

#include "core/algorithm.h"
#include "core/layer.h"
#include "core/windows.h"
#include "port/assert.h"

/* Sets *ret to the layer with the largest limit at which a state has the same format. */
static void set_largest_limit(const weir_layer *l, weir_layer *ret)
{
    bool in_short_window = l->format == WEIR_STATE_WINDOW_WORD && !weir_layer_has_calendar(l) &&
                           l->period_ns <= WEIR_LIMIT_MAX;
    ret->algorithm = l->algorithm;
    ret->calendar = l->calendar;
    ret->count_denied = false;
    ret->relaxed = l->relaxed;
    ret->stepped = l->stepped;
    ret->nodelay = l->nodelay;
    ret->limit = in_short_window ? l->period_ns - 1 : WEIR_LIMIT_MAX;
    ret->rate = l->rate;
    ret->period_ns = l->period_ns;
    ret->slices = l->slices;
    ret->zone = l->zone;
    ret->window = l->window;
    ret->anchor = l->anchor;
    ret->longest_ns = 0;
    int64_t limit_max;
    if (weir_layer_init(ret, &limit_max) != WEIR_OK) {
        ret->limit = limit_max;
        weir_status st = weir_layer_init(ret, NULL);
        WEIR_ASSERT(st == WEIR_OK);
    }
    WEIR_ASSERT(ret->format == l->format && ret->limit >= l->limit);
}

/* Charges one layer that counts. A log and a count-denied layer count a cost as they count a denied
 * one: of more than the limit, they count the limit, which denies as much.
 * Returns the units that could not be counted. */
static int64_t charge_layer(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                            int64_t cost)
{
    weir_decision d;
    if (l->format == WEIR_STATE_LOG) {
        bool room = weir_log_check(l, state, level, now_ns, cost, true, &d);
        WEIR_ASSERT(room);
        return 0;
    }
    if (l->count_denied) {
        (void)weir_layer_check(l, state, level, now_ns, cost, true, &d);
        return 0;
    }
    weir_layer largest;
    set_largest_limit(l, &largest);
    (void)weir_layer_check(&largest, state, level, now_ns, 0, false, &d);
    int64_t units = cost < d.remaining ? cost : d.remaining;
    (void)weir_layer_check(&largest, state, level, now_ns, units, false, &d);
    return cost - units;
}

/* Returns whether a layer that a charge writes must grow first. Of those, only a log grows. */
static bool any_full(const weir_policy *p, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        if (weir_layer_counts(l) && weir_layer_full(l, state, level, now_ns, cost))
            return true;
        state += weir_layer_words(l, level);
    }
    return false;
}

weir_status weir_charge(const weir_policy *p, uint64_t *state, unsigned level, int64_t now_ns,
                        int64_t cost, weir_decision *ret, int64_t *ret_over)
{
    weir_decision unused;
    weir_status st = weir_peek(p, state, level, now_ns, cost, &unused); /* validates */
    if (st == WEIR_OK && !weir_policy_counts(p))
        st = WEIR_E_UNSUPPORTED;
    if (st == WEIR_OK && any_full(p, state, level, now_ns, cost))
        st = WEIR_E_ROOM;
    if (st != WEIR_OK)
        return st;
    int64_t over = 0;
    uint64_t *at = state;
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        int64_t left = weir_layer_counts(l) ? charge_layer(l, at, level, now_ns, cost) : 0;
        over = left > over ? left : over;
        at += weir_layer_words(l, level);
    }
    *ret_over = over;
    return weir_peek(p, state, level, now_ns, 0, ret);
}
