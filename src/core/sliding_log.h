/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_SLIDING_LOG_H
#define WEIR_CORE_SLIDING_LOG_H
/* sliding-log: stores every charge with its time. L(now) is the sum of the charges in (now - W,
 * now].
 *
 *     allowed  iff  L(now) + cost <= N,   and then   log (now, cost)
 *
 * Bound (P1): sum(cost in (t - W, t]) <= N for every t. count_denied: denied costs are logged too.
 * Only the latest N units are stored, since older ones never change a decision.
 *
 * State (WEIR_STATE_LOG): a ring buffer of `cap` entries, cap = min(N, 4 << level), in these words:
 *   1    head in the low half, len in the high half
 *   1    base: the running total before the head
 *   cap  timestamps in ns
 *   cap  running totals of 32 bits, two to a word: the sum up to and including the entry, mod 2^32
 * The sum of a range is thus one subtraction, and every search is binary. Charges with equal
 * timestamps share an entry. If the clock steps back, the latest timestamp is used as now. */

#include <weir/weir.h>

#include "port/assert.h"

/* Returns `cap`. level is 0..WEIR_LEVEL_MAX + 1. */
static inline uint64_t weir_log_cap(const weir_layer *l, unsigned level)
{
    WEIR_ASSERT(level <= WEIR_LEVEL_MAX + 1);
    uint64_t cap = (uint64_t)4 << level;
    return cap < (uint64_t)l->limit ? cap : (uint64_t)l->limit;
}

/* The words before the timestamps. */
enum { WEIR_LOG_STAMPS = 2 };

static inline size_t weir_log_words(const weir_layer *l, unsigned level)
{
    size_t cap = (size_t)weir_log_cap(l, level);
    return WEIR_LOG_STAMPS + cap + (cap + 1) / 2;
}

/* Copies a state of `level` into a larger one of `level + 1`. */
void weir_log_grow(const weir_layer *l, const uint64_t *from, unsigned level, uint64_t *to);

/* Returns false if the functions below cannot have written the state. They require a sound state.
 */
bool weir_log_sound(const weir_layer *l, const uint64_t *state, unsigned level);

/* Returns whether charging `cost` at now_ns needs a larger ring buffer. Never true at the level
 * where cap = N. */
bool weir_log_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                   int64_t cost);

/* Returns whether `cost` is allowed. now_ns is 0..WEIR_NOW_NS_MAX, cost 0..WEIR_COST_MAX. Pure. */
bool weir_log_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost);

/* Decides, and logs the charge if allowed. Sets every field of *ret except `layer`. Writes *state
 * if cost > 0 and the request is allowed, or is denied and count_denied is true. Returns false,
 * with nothing written, if that needs a larger ring buffer. Time: O(log len), or O(1) if at most
 * one entry has expired since the last charge and the cost is allowed. */
bool weir_log_check(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                    int64_t cost, bool count_denied, weir_decision *ret);

/* Returns the time at which the log decides: the later of now_ns and the latest timestamp. Pure. */
int64_t weir_log_time(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns);

/* Removes up to `cost` units that were charged at charged_ns or before, the latest first. Time:
 * O(log len + the entries after charged_ns). */
void weir_log_refund(const weir_layer *l, uint64_t *state, unsigned level, int64_t charged_ns,
                     int64_t now_ns, int64_t cost);

/* Lists the words that weir_log_check() at now_ns may write, or, if refund > 0, the words that a
 * refund of the latest `refund` units may write: see weir_state_writes(). Time: O(log len). */
enum { WEIR_LOG_WRITES = 5 };
size_t weir_log_writes(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t refund, size_t ret[WEIR_LOG_WRITES]);

/* Lists words that weir_log_check() will probably load: see weir_state_loads(). Any `first` is
 * safe, and any level. */
enum { WEIR_LOG_LOADS = 4 };
size_t weir_log_loads(const weir_layer *l, uint64_t first, unsigned level,
                      size_t ret[WEIR_LOG_LOADS]);

#endif
