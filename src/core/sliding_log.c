/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* sliding-log. A decision skips the expired entries at the head without removing them; only a
 * charge or a refund writes. The caller owns the ring buffer and decides when to enlarge it. */

#include "core/windows.h"

#include "core/wide.h"
#include "port/assert.h"

enum { RING, BASE, STAMPS = WEIR_LOG_STAMPS }; /* words of the state */

typedef struct view {
    uint64_t cap, head, len;
    uint32_t base;    /* the running total before the head */
    int64_t at_ns;    /* the later of now and the latest timestamp */
    uint64_t expired; /* entries at the head that no longer count */
    uint32_t before;  /* the running total before the first entry that counts */
    int64_t sum;      /* L(now) */
} view;

/* Returns the index in the ring of entry i, counted from the head. */
static uint64_t index_of(const view *v, uint64_t i)
{
    WEIR_ASSERT(v->head < v->cap && i <= v->cap);
    return v->head + i < v->cap ? v->head + i : v->head + i - v->cap;
}

static int64_t stamp_get(const view *v, const uint64_t *state, uint64_t i)
{
    return (int64_t)state[STAMPS + index_of(v, i)];
}

static uint32_t total_get(const view *v, const uint64_t *state, uint64_t i)
{
    uint64_t at = index_of(v, i);
    return (uint32_t)(state[STAMPS + v->cap + at / 2] >> (at % 2 * 32));
}

static void total_set(const view *v, uint64_t *state, uint64_t i, uint32_t total)
{
    uint64_t at = index_of(v, i);
    uint64_t *word = &state[STAMPS + v->cap + at / 2];
    unsigned shift = at % 2 * 32;
    *word = (*word & ~((uint64_t)UINT32_MAX << shift)) | (uint64_t)total << shift;
}

/* Returns the first entry whose timestamp is after t_ns, or len. It is usually near the head, so
 * this is an exponential search. */
static uint64_t first_after(const view *v, const uint64_t *state, int64_t t_ns)
{
    uint64_t low = 0, high = 0;
    while (high < v->len && stamp_get(v, state, high) <= t_ns) {
        low = high + 1;
        high = low * 2;
    }
    if (high > v->len)
        high = v->len;
    while (low < high) {
        uint64_t mid = (low + high) / 2;
        if (stamp_get(v, state, mid) > t_ns)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Returns the first entry at which the sum of the units from the head on is `units` or more, or len
 * if there is none. */
static uint64_t first_reaching(const view *v, const uint64_t *state, int64_t units)
{
    uint64_t low = 0, high = v->len;
    while (low < high) {
        uint64_t mid = (low + high) / 2;
        if ((int64_t)(uint32_t)(total_get(v, state, mid) - v->base) >= units)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Fills in the ring of *ret, in place: a copy of a view that was just written stalls the loads. */
static void ring_at(const weir_layer *l, const uint64_t *state, unsigned level, view *ret)
{
    ret->cap = weir_log_cap(l, level);
    ret->head = (uint32_t)state[RING];
    ret->len = state[RING] >> 32;
    ret->base = (uint32_t)state[BASE];
}

static void view_at(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                    view *ret)
{
    ring_at(l, state, level, ret);
    ret->at_ns = now_ns;
    ret->expired = 0;
    ret->before = ret->base;
    ret->sum = 0;
    if (ret->len == 0)
        return;
    int64_t latest_ns = stamp_get(ret, state, ret->len - 1);
    if (latest_ns > now_ns)
        ret->at_ns = latest_ns;
    ret->expired = first_after(ret, state, ret->at_ns - l->period_ns);
    if (ret->expired > 0)
        ret->before = total_get(ret, state, ret->expired - 1);
    ret->sum = (int64_t)(uint32_t)(total_get(ret, state, ret->len - 1) - ret->before);
}

static void write_ring(const view *v, uint64_t *state)
{
    state[RING] = v->len << 32 | v->head;
    state[BASE] = v->base;
}

/* Removes the expired entries, and then the oldest `units` that still count. */
static void drop_oldest(view *v, const uint64_t *state, int64_t units)
{
    WEIR_ASSERT(units >= 0 && units <= v->sum && v->expired <= v->len);
    v->base = v->before + (uint32_t)units;
    v->head = index_of(v, v->expired);
    v->len -= v->expired;
    v->sum -= units;
    v->expired = 0;
    v->before = v->base;
    if (units == 0)
        return; /* without a look at the totals: every entry has units */
    while (v->len > 0 && (int32_t)(total_get(v, state, 0) - v->base) <= 0) {
        v->head = index_of(v, 1);
        v->len--;
    }
}

static void push(view *v, uint64_t *state, int64_t cost)
{
    bool same = v->len > 0 && stamp_get(v, state, v->len - 1) == v->at_ns;
    uint32_t total = v->base + (uint32_t)(v->sum + cost);
    if (!same) {
        v->len++;
        state[STAMPS + index_of(v, v->len - 1)] = (uint64_t)v->at_ns;
    }
    total_set(v, state, v->len - 1, total);
    v->sum += cost;
    write_ring(v, state);
}

/* Returns how many of the oldest units must be dropped so that `cost` fits the limit: none for an
 * allowed cost, some for a denied one that is counted. */
static int64_t excess(const weir_layer *l, const view *v, int64_t cost)
{
    int64_t over = v->sum + cost - l->limit;
    return over < 0 ? 0 : over < v->sum ? over : v->sum;
}

static int64_t stamp_leaves_after(const weir_layer *l, const view *v, const uint64_t *state,
                                  uint64_t i, int64_t now_ns)
{
    uint64_t leaves_ns = (uint64_t)stamp_get(v, state, i) + (uint64_t)l->period_ns;
    return weir_ns_clamp(leaves_ns - (uint64_t)now_ns);
}

/* Returns the wait for a denied cost <= limit: until enough of the oldest entries have expired. */
static int64_t retry_after(const weir_layer *l, const view *v, const uint64_t *state,
                           int64_t now_ns, int64_t cost)
{
    int64_t expired = (int64_t)(uint32_t)(v->before - v->base);
    uint64_t i = first_reaching(v, state, expired + v->sum + cost - l->limit);
    return stamp_leaves_after(l, v, state, i, now_ns);
}

bool weir_log_sound(const weir_layer *l, const uint64_t *state, unsigned level)
{
    view v;
    ring_at(l, state, level, &v);
    if (v.head >= v.cap || v.len > v.cap)
        return false;
    if (v.len == 0)
        return true;
    int64_t first_ns = stamp_get(&v, state, 0), last_ns = stamp_get(&v, state, v.len - 1);
    uint32_t sum = total_get(&v, state, v.len - 1) - v.base;
    return first_ns >= 0 && first_ns <= last_ns && last_ns <= WEIR_NOW_NS_MAX &&
           (int64_t)sum <= l->limit;
}

/* Returns whether logging a charge needs a larger ring buffer. */
static bool is_full(const weir_layer *l, const view *v, const uint64_t *state)
{
    return v->len - v->expired == v->cap && v->cap < (uint64_t)l->limit &&
           stamp_get(v, state, v->len - 1) != v->at_ns;
}

bool weir_log_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                   int64_t cost)
{
    view v;
    view_at(l, state, level, now_ns, &v);
    return cost > 0 && is_full(l, &v, state);
}

bool weir_log_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost)
{
    view v;
    view_at(l, state, level, now_ns, &v);
    return v.sum + cost <= l->limit;
}

bool weir_log_check(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                    int64_t cost, bool count_denied, weir_decision *ret)
{
    view v;
    view_at(l, state, level, now_ns, &v);
    bool allowed = v.sum + cost <= l->limit, logged = cost > 0 && (allowed || count_denied);
    if (logged && is_full(l, &v, state))
        return false;
    ret->limit = l->limit;
    ret->allowed = allowed;
    ret->never = cost > l->limit;
    ret->delay_ns = 0;
    if (logged) {
        int64_t units = cost < l->limit ? cost : l->limit;
        drop_oldest(&v, state, excess(l, &v, units));
        push(&v, state, units);
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
    view v;
    view_at(l, state, level, now_ns, &v);
    return v.at_ns;
}

/* Returns the units in the first `entries` of the ring, one or more, none of which has expired. */
static int64_t units_of(const view *v, const uint64_t *state, uint64_t entries)
{
    WEIR_ASSERT(entries > 0);
    return (int64_t)(uint32_t)(total_get(v, state, entries - 1) - v->base);
}

/* Moves the entries at `from` and after to `to` and after, and subtracts `units` from their totals.
 */
static void move_down(view *v, uint64_t *state, uint64_t from, uint64_t to, int64_t units)
{
    uint64_t gap = from - to;
    for (uint64_t i = from; i < v->len; i++) {
        state[STAMPS + index_of(v, i - gap)] = (uint64_t)stamp_get(v, state, i);
        total_set(v, state, i - gap, total_get(v, state, i) - (uint32_t)units);
    }
    v->len -= gap;
}

void weir_log_refund(const weir_layer *l, uint64_t *state, unsigned level, int64_t charged_ns,
                     int64_t now_ns, int64_t cost)
{
    view v;
    view_at(l, state, level, now_ns, &v);
    if (v.sum == 0 || charged_ns < stamp_get(&v, state, v.expired))
        return;
    drop_oldest(&v, state, 0);
    uint64_t until = first_after(&v, state, charged_ns), kept = 0;
    int64_t units = units_of(&v, state, until), back = cost < units ? cost : units;
    if (units > back) {
        kept = first_reaching(&v, state, units - back) + 1;
        total_set(&v, state, kept - 1, v.base + (uint32_t)(units - back));
    }
    move_down(&v, state, until, kept, back);
    write_ring(&v, state);
}

/* Copies the entries to an empty log `to` of `words` words and `cap` entries. */
static void copy_entries(const view *old, const uint64_t *from, uint64_t cap, size_t words,
                         uint64_t *to)
{
    view new = {.cap = cap, .len = old->len, .base = old->base};
    for (size_t i = 0; i < words; i++)
        to[i] = 0;
    for (uint64_t i = 0; i < old->len; i++) {
        to[STAMPS + i] = (uint64_t)stamp_get(old, from, i);
        total_set(&new, to, i, total_get(old, from, i));
    }
    write_ring(&new, to);
}

void weir_log_grow(const weir_layer *l, const uint64_t *from, unsigned level, uint64_t *to)
{
    view old;
    ring_at(l, from, level, &old);
    copy_entries(&old, from, weir_log_cap(l, level + 1), weir_log_words(l, level + 1), to);
}

bool weir_log_convert(const weir_layer *l, const uint64_t *from, unsigned level,
                      const weir_layer *to, int64_t now_ns, uint64_t *ret, unsigned ret_level)
{
    view old;
    view_at(l, from, level, now_ns, &old);
    drop_oldest(&old, from, old.sum > to->limit ? old.sum - to->limit : 0);
    uint64_t cap = weir_log_cap(to, ret_level);
    if (old.len > cap)
        return false;
    copy_entries(&old, from, cap, weir_log_words(to, ret_level), ret);
    return true;
}

static size_t total_word(const view *v, uint64_t i)
{
    return (size_t)(STAMPS + v->cap + index_of(v, i) / 2);
}

size_t weir_log_writes(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t refund, size_t ret[WEIR_LOG_WRITES])
{
    ret[0] = RING;
    ret[1] = BASE;
    if (refund > 0) { /* a refund shortens the log, and rewrites the total of its last entry */
        view v;
        view_at(l, state, level, now_ns, &v);
        int64_t left = refund < v.sum ? v.sum - refund : 0;
        drop_oldest(&v, state, 0);
        ret[2] = total_word(&v, first_reaching(&v, state, left));
        return 3;
    }
    /* A charge rewrites the latest entry if its timestamp is now, else it appends one. Dropping
     * entries at the head moves neither. */
    view v;
    ring_at(l, state, level, &v);
    ret[2] = (size_t)(STAMPS + index_of(&v, v.len));
    ret[3] = total_word(&v, v.len);
    ret[4] = total_word(&v, v.len > 0 ? v.len - 1 : 0);
    return WEIR_LOG_WRITES;
}

size_t weir_log_loads(const weir_layer *l, uint64_t first, unsigned level,
                      size_t ret[WEIR_LOG_LOADS])
{
    if (level > WEIR_LEVEL_MAX)
        return 0;
    view v = {.cap = weir_log_cap(l, level), .head = (uint32_t)first, .len = first >> 32};
    if (v.head >= v.cap || v.len > v.cap)
        return 0;
    uint64_t last = v.len > 0 ? v.len - 1 : 0;
    ret[0] = (size_t)(STAMPS + v.head);
    ret[1] = (size_t)(STAMPS + index_of(&v, last));
    ret[2] = (size_t)(STAMPS + index_of(&v, v.len));
    ret[3] = total_word(&v, last);
    return WEIR_LOG_LOADS;
}
