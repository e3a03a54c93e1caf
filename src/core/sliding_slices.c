/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* sliding-slices. A decision first subtracts the slices that have expired since the last write.
 * Only a charge or a refund stores the result. */

#include "core/windows.h"

#include "core/wide.h"
#include "port/assert.h"

enum { LATEST, SUM, COUNTS = WEIR_SLICES_COUNTS }; /* words of the state */

typedef struct view {
    uint64_t slice;   /* the number of the current slice */
    uint64_t expired; /* how many of the S counts belong to expired slices */
    int64_t sum;      /* of the slices that have not expired */
} view;

static int64_t count_get(const uint64_t *state, uint64_t at)
{
    return (uint32_t)(state[COUNTS + at / 2] >> (at % 2 * 32));
}

static void count_set(uint64_t *state, uint64_t at, int64_t count)
{
    WEIR_ASSERT(count >= 0);
    uint64_t *word = &state[COUNTS + at / 2];
    unsigned shift = at % 2 * 32;
    *word = (*word & ~((uint64_t)UINT32_MAX << shift)) | (uint64_t)(uint32_t)count << shift;
}

static uint64_t slice_of(const weir_layer *s, int64_t t_ns)
{
    if (s->num == 1)
        return (uint64_t)t_ns / s->den;
    return weir_wide_div_floor(weir_wide_mul((uint64_t)t_ns, s->num), s->den);
}

/* Returns when slice k begins. It is at most one period after WEIR_NOW_NS_MAX. */
static uint64_t start_of(const weir_layer *s, uint64_t k)
{
    _Static_assert((uint64_t)WEIR_NOW_NS_MAX <= UINT64_MAX - WEIR_SPAN_NS_MAX, "no overflow");
    if (s->num == 1)
        return k * s->den;
    return weir_wide_div_ceil(weir_wide_mul(k, s->den), s->num);
}

/* Returns the ns from now_ns until slice k, a later one, begins. */
static int64_t ns_until(const weir_layer *s, uint64_t k, int64_t now_ns)
{
    uint64_t start_ns = start_of(s, k);
    WEIR_ASSERT(start_ns > (uint64_t)now_ns);
    return weir_ns_clamp(start_ns - (uint64_t)now_ns);
}

static uint64_t index_of(const weir_layer *s, uint64_t slice)
{
    return slice % (uint64_t)s->slices;
}

static uint64_t index_after(const weir_layer *s, uint64_t at)
{
    WEIR_ASSERT(at < (uint64_t)s->slices);
    return at + 1 == (uint64_t)s->slices ? 0 : at + 1;
}

static uint64_t index_before(const weir_layer *s, uint64_t at)
{
    WEIR_ASSERT(at < (uint64_t)s->slices);
    return at == 0 ? (uint64_t)s->slices - 1 : at - 1;
}

static view view_at(const weir_layer *s, const uint64_t *state, int64_t now_ns)
{
    uint64_t latest = state[LATEST], present = slice_of(s, now_ns);
    view v = {present, (uint64_t)s->slices, 0};
    if (latest > present) {
        if (latest > slice_of(s, WEIR_NOW_NS_MAX))
            return v; /* damaged: treat as never charged */
        v.slice = latest;
    }
    if (v.slice - latest >= (uint64_t)s->slices)
        return v;
    v.expired = v.slice - latest;
    v.sum = (int64_t)(uint32_t)state[SUM];
    if (v.expired == 0)
        return v;
    uint64_t at = index_of(s, latest);
    for (uint64_t i = 0; i < v.expired; i++) {
        at = index_after(s, at);
        v.sum -= count_get(state, at);
    }
    if (v.sum < 0)
        v.sum = 0;
    return v;
}

/* Stores v->slice, whose count is at index `at`, as the latest slice, and clears the counts that
 * have expired. */
static void advance(const weir_layer *s, uint64_t *state, const view *v, uint64_t at)
{
    for (uint64_t i = 0; i < v->expired; i++) {
        count_set(state, at, 0);
        at = index_before(s, at);
    }
    state[LATEST] = v->slice;
    state[SUM] = (uint64_t)v->sum;
}

/* Returns the wait for a denied cost <= limit: until enough of the oldest slices have expired. */
static int64_t retry_after(const weir_layer *s, const uint64_t *state, const view *v, uint64_t at,
                           int64_t now_ns, int64_t cost)
{
    WEIR_ASSERT(cost <= s->limit && v->sum + cost > s->limit);
    int64_t sum = v->sum;
    uint64_t ahead = 0, kept = (uint64_t)s->slices - v->expired;
    while (sum + cost > s->limit && ahead < kept) {
        ahead++;
        at = index_after(s, at); /* the oldest slice follows the current one */
        sum -= count_get(state, at);
    }
    return ns_until(s, v->slice + ahead, now_ns);
}

/* Returns the ns from now_ns until the latest slice with a count expires. */
static int64_t reset_after(const weir_layer *s, const uint64_t *state, const view *v, uint64_t at,
                           int64_t now_ns)
{
    if (v->sum == 0)
        return 0;
    uint64_t last = v->slice - v->expired, kept = (uint64_t)s->slices - v->expired;
    at = at >= v->expired ? at - v->expired : at + kept;
    for (uint64_t i = 1; i < kept && count_get(state, at) == 0; i++) {
        at = index_before(s, at);
        last--;
    }
    return ns_until(s, last + (uint64_t)s->slices, now_ns);
}

bool weir_slices_allows(const weir_layer *s, const uint64_t *state, int64_t now_ns, int64_t cost)
{
    return view_at(s, state, now_ns).sum + cost <= s->limit;
}

void weir_slices_check(const weir_layer *s, uint64_t *state, int64_t now_ns, int64_t cost,
                       weir_decision *ret)
{
    view v = view_at(s, state, now_ns);
    uint64_t at = index_of(s, v.slice);
    ret->limit = s->limit;
    ret->allowed = v.sum + cost <= s->limit;
    ret->never = cost > s->limit;
    ret->delay_ns = 0;
    ret->retry_after_ns = 0;
    if (!ret->allowed)
        ret->retry_after_ns = ret->never ? INT64_MAX : retry_after(s, state, &v, at, now_ns, cost);
    if (ret->allowed && cost > 0) {
        v.sum += cost;
        advance(s, state, &v, at);
        v.expired = 0;
        count_set(state, at, count_get(state, at) + cost);
    }
    ret->remaining = v.sum < s->limit ? s->limit - v.sum : 0;
    ret->reset_after_ns = reset_after(s, state, &v, at, now_ns);
}

int64_t weir_slices_time(const weir_layer *s, const uint64_t *state, int64_t now_ns)
{
    uint64_t slice = view_at(s, state, now_ns).slice;
    return slice == slice_of(s, now_ns) ? now_ns : now_ns + ns_until(s, slice, now_ns);
}

void weir_slices_refund(const weir_layer *s, uint64_t *state, int64_t charged_ns, int64_t now_ns,
                        int64_t cost)
{
    view v = view_at(s, state, now_ns);
    uint64_t charged = slice_of(s, charged_ns), kept = (uint64_t)s->slices;
    uint64_t last = v.slice - v.expired; /* the latest slice that can have a count */
    int64_t older = v.sum;               /* the sum of the slices up to the charged one */
    uint64_t at = index_of(s, last);
    for (; last > charged && v.slice - last < kept; last--, at = index_before(s, at))
        older -= count_get(state, at);
    int64_t left = cost < older ? cost : older;
    if (v.slice - last >= kept || left <= 0)
        return;
    v.sum -= left;
    advance(s, state, &v, index_of(s, v.slice));
    for (; left > 0 && v.slice - last < kept; last--, at = index_before(s, at)) {
        int64_t count = count_get(state, at), back = left < count ? left : count;
        count_set(state, at, count - back);
        left -= back;
    }
}

size_t weir_slices_writes(const weir_layer *s, const uint64_t *state, int64_t now_ns,
                          size_t ret[WEIR_SLICES_WRITES])
{
    view v = view_at(s, state, now_ns);
    uint64_t at = index_of(s, v.slice);
    size_t n = 0;
    ret[n++] = LATEST;
    ret[n++] = SUM;
    ret[n++] = COUNTS + (size_t)at / 2;
    for (uint64_t i = 0; i < v.expired; i++) {
        size_t word = COUNTS + (size_t)at / 2;
        if (word != ret[n - 1]) {
            if (n == WEIR_SLICES_WRITES)
                return WEIR_SLICES_WRITES + 1;
            ret[n++] = word;
        }
        at = index_before(s, at);
    }
    return n;
}

size_t weir_slices_loads(const weir_layer *s, uint64_t first, size_t ret[WEIR_SLICES_LOADS])
{
    uint64_t at = index_of(s, first);
    ret[0] = COUNTS + (size_t)at / 2;
    ret[1] = COUNTS + (size_t)index_after(s, at) / 2;
    return WEIR_SLICES_LOADS;
}
