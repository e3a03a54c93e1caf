/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_RING_H
#define WEIR_CORE_RING_H
/* The ring buffer of WEIR_STATE_LOG and WEIR_STATE_LEASES: entries of a time and a running total,
 * in the order of their times. windows.h describes the words. The head has entries that no longer
 * count; only a charge or a refund removes them. For sliding_log.c and leases.c alone. */

#include "core/windows.h"

#include "port/assert.h"

enum { WEIR_RING, WEIR_RING_BASE }; /* the words before the stamps */

typedef struct weir_ring {
    uint64_t cap, head, len;
    uint32_t base;    /* the running total before the head */
    int64_t at_ns;    /* the time of a new entry */
    uint64_t expired; /* entries at the head that no longer count */
    uint32_t before;  /* the running total before the first entry that counts */
    int64_t sum;      /* of the entries that count */
} weir_ring;

/* Returns the index in the ring of entry i, counted from the head. */
static inline uint64_t weir_ring_index(const weir_ring *v, uint64_t i)
{
    WEIR_ASSERT(v->head < v->cap && i <= v->cap);
    return v->head + i < v->cap ? v->head + i : v->head + i - v->cap;
}

static inline int64_t weir_ring_stamp(const weir_ring *v, const uint64_t *state, uint64_t i)
{
    return (int64_t)state[WEIR_LOG_STAMPS + weir_ring_index(v, i)];
}

static inline uint32_t weir_ring_total(const weir_ring *v, const uint64_t *state, uint64_t i)
{
    uint64_t at = weir_ring_index(v, i);
    return (uint32_t)(state[WEIR_LOG_STAMPS + v->cap + at / 2] >> (at % 2 * 32));
}

static inline void weir_ring_set_total(const weir_ring *v, uint64_t *state, uint64_t i,
                                       uint32_t total)
{
    uint64_t at = weir_ring_index(v, i);
    uint64_t *word = &state[WEIR_LOG_STAMPS + v->cap + at / 2];
    unsigned shift = at % 2 * 32;
    *word = (*word & ~((uint64_t)UINT32_MAX << shift)) | (uint64_t)total << shift;
}

/* Returns the first entry whose timestamp is after t_ns, or len. It is usually near the head, so
 * this is an exponential search. */
static inline uint64_t weir_ring_after(const weir_ring *v, const uint64_t *state, int64_t t_ns)
{
    uint64_t low = 0, high = 0;
    while (high < v->len && weir_ring_stamp(v, state, high) <= t_ns) {
        low = high + 1;
        high = low * 2;
    }
    high = high < v->len ? high : v->len;
    while (low < high) {
        uint64_t mid = (low + high) / 2;
        if (weir_ring_stamp(v, state, mid) > t_ns)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Returns the first entry at which the sum of the units from the head on is `units` or more, or len
 * if there is none. */
static inline uint64_t weir_ring_reaching(const weir_ring *v, const uint64_t *state, int64_t units)
{
    uint64_t low = 0, high = v->len;
    while (low < high) {
        uint64_t mid = (low + high) / 2;
        if ((int64_t)(uint32_t)(weir_ring_total(v, state, mid) - v->base) >= units)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Fills in the ring of *ret, in place: a copy of a struct that was just written
 * stalls the loads. */
static inline void weir_ring_at(const weir_layer *l, const uint64_t *state, unsigned level,
                                weir_ring *ret)
{
    ret->cap = weir_log_cap(l, level);
    ret->head = (uint32_t)state[WEIR_RING];
    ret->len = state[WEIR_RING] >> 32;
    ret->base = (uint32_t)state[WEIR_RING_BASE];
}

/* Finds the entries that count: those after t_ns. The ring is not empty. */
static inline void weir_ring_count(weir_ring *v, const uint64_t *state, int64_t t_ns)
{
    v->expired = weir_ring_after(v, state, t_ns);
    if (v->expired > 0)
        v->before = weir_ring_total(v, state, v->expired - 1);
    v->sum = (int64_t)(uint32_t)(weir_ring_total(v, state, v->len - 1) - v->before);
}

static inline void weir_ring_write(const weir_ring *v, uint64_t *state)
{
    state[WEIR_RING] = v->len << 32 | v->head;
    state[WEIR_RING_BASE] = v->base;
}

/* Removes the expired entries, and then the oldest `units` that still count. */
static inline void weir_ring_drop(weir_ring *v, const uint64_t *state, int64_t units)
{
    WEIR_ASSERT(units >= 0 && units <= v->sum && v->expired <= v->len);
    v->base = v->before + (uint32_t)units;
    v->head = weir_ring_index(v, v->expired);
    v->len -= v->expired;
    v->sum -= units;
    v->expired = 0;
    v->before = v->base;
    if (units == 0)
        return; /* without a look at the totals: every entry has units */
    while (v->len > 0 && (int32_t)(weir_ring_total(v, state, 0) - v->base) <= 0) {
        v->head = weir_ring_index(v, 1);
        v->len--;
    }
}

/* Returns whether weir_ring_push() at t_ns needs a larger ring buffer once the expired entries are
 * gone. */
static inline bool weir_ring_is_full(const weir_layer *l, const weir_ring *v, const uint64_t *state,
                                     int64_t t_ns)
{
    return v->len - v->expired == v->cap && v->cap < (uint64_t)l->limit &&
           weir_ring_stamp(v, state, v->len - 1) != t_ns;
}

/* Adds units to the latest entry if that is at t_ns, else appends an entry: none is later. The head
 * has no expired entries. */
static inline void weir_ring_push(weir_ring *v, uint64_t *state, int64_t t_ns, int64_t units)
{
    if (v->len == 0 || weir_ring_stamp(v, state, v->len - 1) != t_ns)
        state[WEIR_LOG_STAMPS + weir_ring_index(v, v->len++)] = (uint64_t)t_ns;
    v->sum += units;
    weir_ring_set_total(v, state, v->len - 1, v->base + (uint32_t)v->sum);
}

/* Copies an entry, with its total. */
static inline void weir_ring_copy(const weir_ring *v, uint64_t *state, uint64_t from, uint64_t to)
{
    state[WEIR_LOG_STAMPS + weir_ring_index(v, to)] = (uint64_t)weir_ring_stamp(v, state, from);
    weir_ring_set_total(v, state, to, weir_ring_total(v, state, from));
}

/* Moves the entries at `from` and after to `to` and after, and subtracts `units` from their totals.
 */
static inline void weir_ring_move_down(weir_ring *v, uint64_t *state, uint64_t from, uint64_t to,
                                       int64_t units)
{
    uint64_t gap = from - to;
    for (uint64_t i = from; i < v->len; i++) {
        weir_ring_copy(v, state, i, i - gap);
        weir_ring_set_total(v, state, i - gap,
                            weir_ring_total(v, state, i - gap) - (uint32_t)units);
    }
    v->len -= gap;
}

/* Copies the entries to an empty ring `to` of `words` words and `cap` entries. */
static inline void weir_ring_copy_to(const weir_ring *old, const uint64_t *from, uint64_t cap,
                                     size_t words, uint64_t *to)
{
    weir_ring new = {.cap = cap, .len = old->len, .base = old->base};
    for (size_t i = 0; i < words; i++)
        to[i] = 0;
    for (uint64_t i = 0; i < old->len; i++) {
        to[WEIR_LOG_STAMPS + i] = (uint64_t)weir_ring_stamp(old, from, i);
        weir_ring_set_total(&new, to, i, weir_ring_total(old, from, i));
    }
    weir_ring_write(&new, to);
}

/* Copies the entries that count to a layer with another limit. Of units above its limit, all must
 * end before a unit is free. So the oldest, and one more, become one entry, which ends with the
 * last of them: the others are at most limit - 1 entries. Returns false if they do not fit at
 * ret_level. */
static inline bool weir_ring_convert(weir_ring *v, const uint64_t *from, const weir_layer *to,
                                     uint64_t *ret, unsigned ret_level)
{
    uint64_t cap = weir_log_cap(to, ret_level);
    weir_ring_drop(v, from, 0);
    if (v->sum > to->limit) {
        uint64_t merged = weir_ring_reaching(v, from, v->sum - to->limit + 1);
        v->head = weir_ring_index(v, merged);
        v->len -= merged;
    }
    if (v->len > cap)
        return false;
    weir_ring_copy_to(v, from, cap, weir_log_words(to, ret_level), ret);
    return true;
}

/* Returns whether the words can be a ring whose latest time is at most WEIR_NOW_NS_MAX + ahead_ns.
 * The functions above require it. */
static inline bool weir_ring_sound(const weir_layer *l, const uint64_t *state, unsigned level,
                                   int64_t ahead_ns)
{
    weir_ring v;
    weir_ring_at(l, state, level, &v);
    if (v.head >= v.cap || v.len > v.cap)
        return false;
    if (v.len == 0)
        return true;
    int64_t first_ns = weir_ring_stamp(&v, state, 0);
    int64_t last_ns = weir_ring_stamp(&v, state, v.len - 1);
    uint32_t sum = weir_ring_total(&v, state, v.len - 1) - v.base;
    return first_ns >= 0 && first_ns <= last_ns && last_ns - ahead_ns <= WEIR_NOW_NS_MAX &&
           sum <= WEIR_LIMIT_MAX;
}

static inline size_t weir_ring_total_word(const weir_ring *v, uint64_t i)
{
    return (size_t)(WEIR_LOG_STAMPS + v->cap + weir_ring_index(v, i) / 2);
}

#endif
