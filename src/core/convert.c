/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What a key used, when its limit changes. Counts and logs stay as they are. A bucket keeps the
 * units it used: its backlog is converted to the new interval, rounded up to a tick of the new
 * policy. */

#include "core/check.h"

#include "core/layer.h"
#include "core/leases.h"
#include "core/wide.h"
#include "port/assert.h"

/* The clock of a bucket, in its unit: ns, ticks of 1/num ns, or tokens. */
static weir_wide clock_at(const weir_layer *l, int64_t now_ns)
{
    if (l->format == WEIR_STATE_TAT_STEPS)
        return weir_wide_mul((uint64_t)(now_ns / l->period_ns), (uint64_t)l->rate);
    return weir_wide_mul((uint64_t)now_ns, l->format == WEIR_STATE_TAT_NS ? 1 : l->num);
}

/* What one unit of cost adds to the backlog. */
static uint64_t unit_of(const weir_layer *l)
{
    return l->format == WEIR_STATE_TAT_STEPS ? 1 : l->den;
}

/* The largest backlog that a conversion creates: 36.5 years, or 2^60 tokens. */
static weir_wide backlog_max(const weir_layer *l)
{
    return weir_wide_mul(WEIR_SPAN_NS_MAX, l->format == WEIR_STATE_TAT_TICKS ? l->num : 1);
}

/* Returns ceil(n * to / from), at most `max`. It cannot overflow: the whole units times `to` are
 * below 2^128 - 2^64, and the rest, below `from`, adds at most `to`. */
static weir_wide scale(weir_wide n, uint64_t from, uint64_t to, weir_wide max)
{
    uint64_t whole = weir_wide_div_floor(n, from);
    if (whole == UINT64_MAX) /* a damaged state */
        return max;
    uint64_t rest = weir_wide_sub(n, weir_wide_mul(whole, from)).lo;
    weir_wide scaled = weir_wide_mul(whole, to);
    uint64_t up = weir_wide_div_ceil(weir_wide_mul(rest, to), from);
    scaled = weir_wide_add(scaled, (weir_wide){0, up});
    return weir_wide_less(max, scaled) ? max : scaled;
}

static void convert_bucket(const weir_layer *from, const uint64_t *state, const weir_layer *to,
                           int64_t now_ns, uint64_t *ret)
{
    bool one_word = from->format == WEIR_STATE_TAT_NS;
    weir_wide tat = {one_word ? 0 : state[0], one_word ? state[0] : state[1]};
    weir_wide clock = clock_at(from, now_ns), new = {0, 0};
    bool negative = one_word && state[0] > INT64_MAX; /* damaged: treat as never charged */
    if (!negative && weir_wide_less(clock, tat)) {
        new = scale(weir_wide_sub(tat, clock), unit_of(from), unit_of(to), backlog_max(to));
        new = weir_wide_add(clock_at(to, now_ns), new);
    }
    if (to->format != WEIR_STATE_TAT_NS)
        *ret++ = new.hi;
    *ret = new.lo;
}

weir_status weir_state_convert(const weir_policy *from, const uint64_t *state, unsigned level,
                               const weir_policy *to, int64_t now_ns, uint64_t *ret,
                               unsigned ret_level)
{
    WEIR_ASSERT(from->layers == to->layers);
    if (!weir_state_sound(from, state, level))
        return WEIR_E_RANGE;
    for (uint32_t i = 0; i < from->layers; i++) {
        const weir_layer *old = &from->layer[i], *new = &to->layer[i];
        size_t words = weir_layer_words(old, level);
        WEIR_ASSERT(old->algorithm == new->algorithm && old->period_ns == new->period_ns);
        if (weir_layer_is_bucket(old)) {
            convert_bucket(old, state, new, now_ns, ret);
        } else if (old->format == WEIR_STATE_LOG) {
            if (!weir_log_convert(old, state, level, new, now_ns, ret, ret_level))
                return WEIR_E_ROOM;
        } else if (old->format == WEIR_STATE_LEASES) {
            if (!weir_leases_convert(old, state, level, new, now_ns, ret, ret_level))
                return WEIR_E_ROOM;
        } else {
            WEIR_ASSERT(old->format == new->format);
            for (size_t w = 0; w < words; w++)
                ret[w] = state[w];
        }
        state += words;
        ret += weir_layer_words(new, ret_level);
    }
    return WEIR_OK;
}
