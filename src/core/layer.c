/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One layer: validates it, derives its numbers, and dispatches each call to the file that
 * implements its state format. */

#include "core/layer.h"

#include "core/algorithm.h"
#include "core/block.h"
#include "core/gcra.h"
#include "core/leases.h"
#include "core/wide.h"
#include "core/windows.h"

_Static_assert((int)WEIR_LAYER_WRITES_MAX >= (int)WEIR_LOG_WRITES &&
                   (int)WEIR_LAYER_WRITES_MAX >= (int)WEIR_SLICES_WRITES,
               "one bound for every layer");

static bool within(int64_t x, int64_t low, int64_t high)
{
    return low <= x && x <= high;
}

/* Sets num/den = units / period_ns in lowest terms. */
static void set_ratio(weir_layer *l, int64_t units)
{
    uint64_t a = (uint64_t)units, b = (uint64_t)l->period_ns;
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    l->num = (uint64_t)units / a;
    l->den = (uint64_t)l->period_ns / a;
}

/* Chooses the format of a bucket, and checks that an empty one refills within WEIR_SPAN_NS_MAX. */
static weir_status init_bucket(weir_layer *l, int64_t *ret_limit_max)
{
    set_ratio(l, l->rate);
    uint64_t limit_max;
    if (l->stepped) {
        weir_wide units =
            weir_wide_mul((uint64_t)(WEIR_SPAN_NS_MAX / l->period_ns), (uint64_t)l->rate);
        limit_max = weir_wide_div_floor(units, 1);
    } else {
        limit_max = weir_wide_div_floor(weir_wide_mul(WEIR_SPAN_NS_MAX, l->num), l->den);
    }
    if ((uint64_t)l->limit > limit_max) {
        *ret_limit_max = (int64_t)limit_max;
        return WEIR_E_RANGE;
    }
    weir_wide cap = weir_wide_mul((uint64_t)l->limit, l->stepped ? 1 : l->den);
    l->cap_hi = cap.hi;
    l->cap_lo = cap.lo;
    l->format = l->stepped    ? WEIR_STATE_TAT_STEPS
                : l->num == 1 ? WEIR_STATE_TAT_NS
                              : WEIR_STATE_TAT_TICKS;
    return WEIR_OK;
}

static weir_status init_window(weir_layer *l)
{
    bool calendar = weir_layer_has_calendar(l);
    if (calendar != (l->window != NULL) || calendar != (l->period_ns == 0))
        return WEIR_E_RANGE;
    bool word = l->calendar != WEIR_FROM_FIRST && (calendar || l->limit < l->period_ns);
    l->format = word ? WEIR_STATE_WINDOW_WORD : WEIR_STATE_WINDOW_PAIR;
    return WEIR_OK;
}

static weir_status init_slices(weir_layer *l)
{
    if (!within(l->slices, 1, WEIR_SLICES_MAX) || l->slices > l->period_ns)
        return WEIR_E_RANGE;
    set_ratio(l, l->slices);
    l->format = WEIR_STATE_SLICES;
    return WEIR_OK;
}

static weir_status init_block(weir_layer *l)
{
    bool doubles = l->longest_ns != 0;
    if (doubles && !within(l->longest_ns, l->period_ns + 1, WEIR_SPAN_NS_MAX))
        return WEIR_E_RANGE;
    l->format = doubles ? WEIR_STATE_BLOCK_PAIR : WEIR_STATE_BLOCK;
    return WEIR_OK;
}

static weir_status init_algorithm(weir_layer *l, int64_t *ret_limit_max)
{
    switch (l->algorithm) {
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_LEAKY_QUEUE:
        return init_bucket(l, ret_limit_max);
    case WEIR_FIXED_WINDOW:
        return init_window(l);
    case WEIR_SLIDING_LOG:
        l->format = WEIR_STATE_LOG;
        return WEIR_OK;
    case WEIR_SLIDING_COUNTER:
        l->format = WEIR_STATE_COUNTER;
        return WEIR_OK;
    case WEIR_SLIDING_SLICES:
        return init_slices(l);
    case WEIR_BLOCK:
        return init_block(l);
    case WEIR_CONCURRENT:
        l->den = (uint64_t)l->period_ns;
        l->format = WEIR_STATE_LEASES;
        return WEIR_OK;
    }
    return WEIR_E_RANGE;
}

/* Behind the request that is served, limit - 1 can wait. */
static int64_t nodelay_max(const weir_layer *l)
{
    return weir_layer_can(l, WEIR_CAN_DELAY) ? l->limit - 1 : 0;
}

weir_status weir_layer_init(weir_layer *layer, int64_t *ret_limit_max)
{
    int64_t unused = 0;
    int64_t *limit_max = ret_limit_max ? ret_limit_max : &unused;
    *limit_max = 0;
    int64_t period_min = layer->algorithm == WEIR_FIXED_WINDOW ? 0 : 1;
    if (!within(layer->limit, 1, WEIR_LIMIT_MAX) || !within(layer->rate, 1, WEIR_RATE_MAX) ||
        !within(layer->period_ns, period_min, WEIR_SPAN_NS_MAX))
        return WEIR_E_RANGE;
    weir_status st = init_algorithm(layer, limit_max);
    if (st == WEIR_OK && (!within(layer->nodelay, 0, nodelay_max(layer)) ||
                          !within(layer->anchor, 0, weir_anchor_max(layer->calendar))))
        return WEIR_E_RANGE;
    return st;
}

_Static_assert(WEIR_FORMATS == 11,
               "a new format: review the comparisons with WEIR_STATE_LOG, _LEASES and _SLICES");

void weir_layer_grow(const weir_layer *l, const uint64_t *from, unsigned level, uint64_t *to)
{
    if (l->format == WEIR_STATE_LOG || l->format == WEIR_STATE_LEASES) {
        weir_log_grow(l, from, level, to);
        return;
    }
    size_t words = weir_layer_words(l, level);
    for (size_t i = 0; i < words; i++)
        to[i] = from[i];
}

bool weir_layer_sound(const weir_layer *l, const uint64_t *state, unsigned level)
{
    if (l->format == WEIR_STATE_LEASES)
        return weir_leases_sound(l, state, level);
    return l->format != WEIR_STATE_LOG || weir_log_sound(l, state, level);
}

bool weir_layer_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost)
{
    if (l->format == WEIR_STATE_LEASES)
        return weir_leases_full(l, state, level, now_ns, cost);
    return l->format == WEIR_STATE_LOG && weir_log_full(l, state, level, now_ns, cost);
}

bool weir_layer_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t cost)
{
    switch (l->format) {
    case WEIR_STATE_TAT_NS:
        return weir_gcra_allows(l, state, now_ns, cost);
    case WEIR_STATE_TAT_TICKS:
    case WEIR_STATE_TAT_STEPS:
        return weir_gcra_wide_allows(l, state, now_ns, cost);
    case WEIR_STATE_WINDOW_WORD:
    case WEIR_STATE_WINDOW_PAIR:
        return weir_window_allows(l, state, now_ns, cost);
    case WEIR_STATE_LOG:
        return weir_log_allows(l, state, level, now_ns, cost);
    case WEIR_STATE_COUNTER:
        return weir_counter_allows(l, state, now_ns, cost);
    case WEIR_STATE_SLICES:
        return weir_slices_allows(l, state, now_ns, cost);
    case WEIR_STATE_BLOCK:
    case WEIR_STATE_BLOCK_PAIR:
        return weir_block_allows(state, now_ns);
    case WEIR_STATE_LEASES:
        return weir_leases_allows(l, state, level, now_ns, cost);
    }
    return false;
}

bool weir_layer_check(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                      int64_t cost, bool count, weir_decision *ret)
{
    bool count_denied = count && l->count_denied;
    switch (l->format) {
    case WEIR_STATE_TAT_NS:
        weir_gcra_check(l, state, now_ns, cost, ret);
        return true;
    case WEIR_STATE_TAT_TICKS:
    case WEIR_STATE_TAT_STEPS:
        weir_gcra_wide_check(l, state, now_ns, cost, ret);
        return true;
    case WEIR_STATE_WINDOW_WORD:
    case WEIR_STATE_WINDOW_PAIR:
        weir_window_check(l, state, now_ns, cost, count_denied, ret);
        return true;
    case WEIR_STATE_LOG:
        return weir_log_check(l, state, level, now_ns, cost, count_denied, ret);
    case WEIR_STATE_COUNTER:
        weir_counter_check(l, state, now_ns, cost, ret);
        return true;
    case WEIR_STATE_SLICES:
        weir_slices_check(l, state, now_ns, cost, ret);
        return true;
    case WEIR_STATE_BLOCK:
    case WEIR_STATE_BLOCK_PAIR:
        weir_block_check(l, state, now_ns, cost, ret);
        return true;
    case WEIR_STATE_LEASES:
        return weir_leases_check(l, state, level, now_ns, cost, ret);
    }
    return true;
}

int64_t weir_layer_time(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns)
{
    int64_t start_ns = now_ns;
    switch (l->format) {
    case WEIR_STATE_TAT_NS:
    case WEIR_STATE_TAT_TICKS:
    case WEIR_STATE_TAT_STEPS:
    case WEIR_STATE_BLOCK:
    case WEIR_STATE_BLOCK_PAIR:
        break;
    case WEIR_STATE_WINDOW_WORD:
    case WEIR_STATE_WINDOW_PAIR:
        start_ns = weir_window_start(l, state, now_ns);
        break;
    case WEIR_STATE_LOG:
        return weir_log_time(l, state, level, now_ns);
    case WEIR_STATE_COUNTER:
        start_ns = weir_counter_start(l, state, now_ns);
        break;
    case WEIR_STATE_SLICES:
        return weir_slices_time(l, state, now_ns);
    case WEIR_STATE_LEASES:
        return weir_leases_time(l, state, level, now_ns);
    }
    return start_ns > now_ns ? start_ns : now_ns;
}

void weir_layer_refund(const weir_layer *l, uint64_t *state, unsigned level, const weir_charged *of,
                       int64_t now_ns, int64_t cost)
{
    int64_t charged_ns = of ? of->charged_ns : WEIR_NOW_NS_MAX; /* the latest charges first */
    switch (l->format) {
    case WEIR_STATE_TAT_NS:
        weir_gcra_refund(l, state, now_ns, cost);
        return;
    case WEIR_STATE_TAT_TICKS:
    case WEIR_STATE_TAT_STEPS:
        weir_gcra_wide_refund(l, state, now_ns, cost);
        return;
    case WEIR_STATE_WINDOW_WORD:
    case WEIR_STATE_WINDOW_PAIR:
        if (charged_ns >= weir_window_start(l, state, now_ns))
            weir_window_refund(l, state, now_ns, cost);
        return;
    case WEIR_STATE_LOG:
        weir_log_refund(l, state, level, charged_ns, now_ns, cost);
        return;
    case WEIR_STATE_COUNTER:
        weir_counter_refund(l, state, charged_ns, now_ns, cost);
        return;
    case WEIR_STATE_SLICES:
        weir_slices_refund(l, state, charged_ns, now_ns, cost);
        return;
    case WEIR_STATE_BLOCK: /* a refund does not end a block */
    case WEIR_STATE_BLOCK_PAIR:
        return;
    case WEIR_STATE_LEASES:
        if (of)
            weir_leases_release(l, state, level, of->ends_ns, now_ns, of->units);
        else
            weir_leases_refund(l, state, level, now_ns, cost);
        return;
    }
}

bool weir_layer_renew(const weir_layer *l, uint64_t *state, unsigned level, const weir_charged *of,
                      int64_t until_ns, int64_t now_ns)
{
    return l->format != WEIR_STATE_LEASES ||
           weir_leases_renew(l, state, level, of->ends_ns, until_ns, now_ns, of->units);
}

size_t weir_layer_writes(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                         int64_t refund, size_t ret[WEIR_LAYER_WRITES_MAX])
{
    if (l->format == WEIR_STATE_LOG)
        return weir_log_writes(l, state, level, now_ns, refund, ret);
    if (l->format == WEIR_STATE_LEASES && l->den == (uint64_t)l->period_ns)
        return weir_log_writes(l, state, level, now_ns, 0, ret); /* at the head and the tail */
    if (l->format == WEIR_STATE_SLICES && refund == 0)
        return weir_slices_writes(l, state, now_ns, ret);
    return WEIR_LAYER_WRITES_MAX + 1;
}

size_t weir_layer_loads(const weir_layer *l, uint64_t first, unsigned level,
                        size_t ret[WEIR_LAYER_LOADS_MAX])
{
    if (l->format == WEIR_STATE_LOG || l->format == WEIR_STATE_LEASES)
        return weir_log_loads(l, first, level, ret);
    return l->format == WEIR_STATE_SLICES ? weir_slices_loads(l, first, ret) : 0;
}
