/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* sliding-log. A decision skips the expired entries at the head without removing them; only a
 * charge or a refund writes. The caller owns the ring buffer and decides when to enlarge it. */

#include "core/ring.h"
#include "core/wide.h"
#include "port/assert.h"

static void view_at(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                    weir_ring *ret)
{
    weir_ring_at(l, state, level, ret);
    ret->at_ns = now_ns;
    ret->expired = 0;
    ret->before = ret->base;
    ret->sum = 0;
    if (ret->len == 0)
        return;
    int64_t latest_ns = weir_ring_stamp(ret, state, ret->len - 1);
    if (latest_ns > now_ns)
        ret->at_ns = latest_ns;
    weir_ring_count(ret, state, ret->at_ns - l->period_ns);
}

/* Returns how many of the oldest units must be dropped so that `cost` fits the limit: none for an
 * allowed cost, some for a denied one that is counted. */
static int64_t excess(const weir_layer *l, const weir_ring *v, int64_t cost)
{
    int64_t over = v->sum + cost - l->limit;
    return over < 0 ? 0 : over < v->sum ? over : v->sum;
}

static int64_t stamp_leaves_after(const weir_layer *l, const weir_ring *v, const uint64_t *state,
                                  uint64_t i, int64_t now_ns)
{
    uint64_t leaves_ns = (uint64_t)weir_ring_stamp(v, state, i) + (uint64_t)l->period_ns;
    return weir_ns_clamp(leaves_ns - (uint64_t)now_ns);
}

/* Returns the wait for a denied cost <= limit: until enough of the oldest entries have expired. */
static int64_t retry_after(const weir_layer *l, const weir_ring *v, const uint64_t *state,
                           int64_t now_ns, int64_t cost)
{
    int64_t expired = (int64_t)(uint32_t)(v->before - v->base);
    uint64_t i = weir_ring_reaching(v, state, expired + v->sum + cost - l->limit);
    return stamp_leaves_after(l, v, state, i, now_ns);
}

bool weir_log_sound(const weir_layer *l, const uint64_t *state, unsigned level)
{
    return weir_ring_sound(l, state, level, 0);
}

bool weir_log_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                   int64_t cost)
{
    weir_ring v;
    view_at(l, state, level, now_ns, &v);
    return cost > 0 && weir_ring_is_full(l, &v, state, v.at_ns);
}

bool weir_log_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost)
{
    weir_ring v;
    view_at(l, state, level, now_ns, &v);
    return v.sum + cost <= l->limit;
}

bool weir_log_check(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                    int64_t cost, bool count_denied, weir_decision *ret)
{
    weir_ring v;
    view_at(l, state, level, now_ns, &v);
    bool allowed = v.sum + cost <= l->limit, logged = cost > 0 && (allowed || count_denied);
    if (logged && weir_ring_is_full(l, &v, state, v.at_ns))
        return false;
    ret->limit = l->limit;
    ret->allowed = allowed;
    ret->never = cost > l->limit;
    ret->delay_ns = 0;
    if (logged) {
        int64_t units = cost < l->limit ? cost : l->limit;
        weir_ring_drop(&v, state, excess(l, &v, units));
        weir_ring_push(&v, state, v.at_ns, units);
        weir_ring_write(&v, state);
    }
    ret->retry_after_ns = 0;
    if (!ret->allowed)
        ret->retry_after_ns = ret->never ? INT64_MAX : retry_after(l, &v, state, now_ns, cost);
    ret->remaining = v.sum < l->limit ? l->limit - v.sum : 0;
    ret->reset_after_ns = v.sum > 0 ? stamp_leaves_after(l, &v, state, v.len - 1, now_ns) : 0;
    return true;
}

int64_t weir_log_time(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns)
{
    weir_ring v;
    view_at(l, state, level, now_ns, &v);
    return v.at_ns;
}

/* Returns the units in the first `entries` of the ring, one or more, none of which has expired. */
static int64_t weir_ring_units(const weir_ring *v, const uint64_t *state, uint64_t entries)
{
    WEIR_ASSERT(entries > 0);
    return (int64_t)(uint32_t)(weir_ring_total(v, state, entries - 1) - v->base);
}

void weir_log_refund(const weir_layer *l, uint64_t *state, unsigned level, int64_t charged_ns,
                     int64_t now_ns, int64_t cost)
{
    weir_ring v;
    view_at(l, state, level, now_ns, &v);
    if (cost == 0 || v.sum == 0 || charged_ns < weir_ring_stamp(&v, state, v.expired))
        return;
    weir_ring_drop(&v, state, 0);
    uint64_t until = weir_ring_after(&v, state, charged_ns), kept = 0;
    int64_t units = weir_ring_units(&v, state, until), back = cost < units ? cost : units;
    if (units > back) {
        kept = weir_ring_reaching(&v, state, units - back) + 1;
        weir_ring_set_total(&v, state, kept - 1, v.base + (uint32_t)(units - back));
    }
    weir_ring_move_down(&v, state, until, kept, back);
    weir_ring_write(&v, state);
}

void weir_log_grow(const weir_layer *l, const uint64_t *from, unsigned level, uint64_t *to)
{
    weir_ring old;
    weir_ring_at(l, from, level, &old);
    weir_ring_copy_to(&old, from, weir_log_cap(l, level + 1), weir_log_words(l, level + 1), to);
}

bool weir_log_convert(const weir_layer *l, const uint64_t *from, unsigned level,
                      const weir_layer *to, int64_t now_ns, uint64_t *ret, unsigned ret_level)
{
    weir_ring old;
    view_at(l, from, level, now_ns, &old);
    return weir_ring_convert(&old, from, to, ret, ret_level);
}

size_t weir_log_writes(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t refund, size_t ret[WEIR_LOG_WRITES])
{
    ret[0] = WEIR_RING;
    ret[1] = WEIR_RING_BASE;
    if (refund > 0) { /* a refund shortens the log, and rewrites the total of its last entry */
        weir_ring v;
        view_at(l, state, level, now_ns, &v);
        int64_t left = refund < v.sum ? v.sum - refund : 0;
        weir_ring_drop(&v, state, 0);
        ret[2] = weir_ring_total_word(&v, weir_ring_reaching(&v, state, left));
        return 3;
    }
    /* A charge rewrites the latest entry if its timestamp is now, else it appends one. Dropping
     * entries at the head moves neither. */
    weir_ring v;
    weir_ring_at(l, state, level, &v);
    ret[2] = (size_t)(WEIR_LOG_STAMPS + weir_ring_index(&v, v.len));
    ret[3] = weir_ring_total_word(&v, v.len);
    ret[4] = weir_ring_total_word(&v, v.len > 0 ? v.len - 1 : 0);
    return WEIR_LOG_WRITES;
}

size_t weir_log_loads(const weir_layer *l, uint64_t first, unsigned level,
                      size_t ret[WEIR_LOG_LOADS])
{
    if (level > WEIR_LEVEL_MAX)
        return 0;
    weir_ring v = {.cap = weir_log_cap(l, level), .head = (uint32_t)first, .len = first >> 32};
    if (v.head >= v.cap || v.len > v.cap)
        return 0;
    uint64_t last = v.len > 0 ? v.len - 1 : 0;
    ret[0] = (size_t)(WEIR_LOG_STAMPS + v.head);
    ret[1] = (size_t)(WEIR_LOG_STAMPS + weir_ring_index(&v, last));
    ret[2] = (size_t)(WEIR_LOG_STAMPS + weir_ring_index(&v, v.len));
    ret[3] = weir_ring_total_word(&v, last);
    return WEIR_LOG_LOADS;
}
