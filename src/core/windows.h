/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_WINDOWS_H
#define WEIR_CORE_WINDOWS_H
/* The algorithms that count charges in windows: fixed-window, sliding-counter, sliding-slices and
 * sliding-log, each in a file of its own. Of each:
 *
 *   x_allows  returns whether `cost` is allowed. Pure.
 *   x_check   decides, and charges if allowed. Sets every field of *ret except `layer`.
 *     state   any words are safe, but sliding-log requires a sound state.
 *     now_ns  0..WEIR_NOW_NS_MAX.
 *     cost    0..WEIR_COST_MAX. */

#include "port/assert.h"

#include <weir/weir.h>

/* ---- fixed-window ---------------------------------------------------------------------------- */

/* fixed-window: counts what is charged in the current window.
 *
 *     allowed  iff  count + cost <= N,   and then   count += cost
 *
 * Bound (P1): in every window sum(cost) <= N. count_denied: a denied cost counts too, but the count
 * never exceeds N.
 *
 * If the clock steps back, the stored window is later than now. It is then treated as the current
 * window, so that an older window is never reopened.
 *
 * WEIR_STATE_WINDOW_WORD stores start + count in one word. It requires a window longer than N ns:
 * the word then lies between the start and the end of its window, so one comparison decides whether
 * the word belongs to the current window. WEIR_STATE_WINDOW_PAIR stores {start, count}. It serves
 * from-first, whose start cannot be computed from now, and windows of N ns or less. */

bool weir_window_allows(const weir_layer *w, const uint64_t *state, int64_t now_ns, int64_t cost);

/* Writes *state if cost > 0 and the request is allowed, or is denied and count_denied is true. */
void weir_window_check(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost,
                       bool count_denied, weir_decision *ret);

/* Returns the start of the current window. It is later than now_ns if the clock has stepped back.
 * Charges from before it no longer count. Pure. */
int64_t weir_window_start(const weir_layer *w, const uint64_t *state, int64_t now_ns);

/* Subtracts `cost` from the count of the current window, down to 0 at most. */
void weir_window_refund(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost);

/* ---- sliding-counter ------------------------------------------------------------------------- */

/* sliding-counter, or approximated sliding window: the count of the previous window is weighted by
 * how much of it the sliding window still overlaps.
 *
 *     strict   allowed  iff  prev*overlap + (cur + cost)*W <= N*W
 *     relaxed  allowed  iff  prev*overlap + (cur + cost)*W <  (N + 1)*W,   and then   cur += cost
 *
 * Both sides are computed exactly, in 128-bit integers. Bound (P1): the inequality itself, with
 * prev, cur <= N.
 *
 * State (WEIR_STATE_COUNTER): the start of the current window; then prev in the low half and cur in
 * the high half of a word. If the clock steps back, a stored window that is later than now is
 * treated as the current one. */

bool weir_counter_allows(const weir_layer *c, const uint64_t *state, int64_t now_ns, int64_t cost);

/* A denial and a cost of 0 do not write *state. */
void weir_counter_check(const weir_layer *c, uint64_t *state, int64_t now_ns, int64_t cost,
                        weir_decision *ret);

/* Returns the start of the current window. It is later than now_ns if the clock has stepped back.
 * Pure. */
int64_t weir_counter_start(const weir_layer *c, const uint64_t *state, int64_t now_ns);

/* Writes what the current window and the one before it have counted. Pure. */
void weir_counter_counts(const weir_layer *c, const uint64_t *state, int64_t now_ns,
                         int64_t *ret_current, int64_t *ret_previous);

/* Subtracts `cost` from the window that contains charged_ns, and any remainder from the window
 * before it. Does nothing if charged_ns is before the previous window. */
void weir_counter_refund(const weir_layer *c, uint64_t *state, int64_t charged_ns, int64_t now_ns,
                         int64_t cost);

/* ---- sliding-slices -------------------------------------------------------------------------- */

/* sliding-slices, or bucketed sliding window: the window is divided into S slices with a count
 * each. The current slice and the S - 1 before it count.
 *
 *     allowed  iff  sum + cost <= N,   and then   count[current] += cost
 *
 * Bound (P1): in any S consecutive slices sum(cost) <= N. Slice k is [ceil(k*W/S), ceil((k +
 * 1)*W/S)). The layer's num/den is S/W in lowest terms.
 *
 * State (WEIR_STATE_SLICES): the number of the latest slice written, the sum of all counts, and S
 * counts of 32 bits, two to a word. The count of slice k is at index k mod S. If the clock steps
 * back, a stored slice that is later than now is treated as the current one. */

/* The words before the counts. */
enum { WEIR_SLICES_COUNTS = 2 };

static inline size_t weir_slices_words(const weir_layer *s)
{
    return WEIR_SLICES_COUNTS + ((size_t)s->slices + 1) / 2;
}

bool weir_slices_allows(const weir_layer *s, const uint64_t *state, int64_t now_ns, int64_t cost);

/* A denial and a cost of 0 do not write *state. Time: O(slices that began since the last write), or
 * O(S) for a denial. */
void weir_slices_check(const weir_layer *s, uint64_t *state, int64_t now_ns, int64_t cost,
                       weir_decision *ret);

/* Returns the time at which the layer decides: the later of now_ns and the start of the stored
 * slice. Pure. */
int64_t weir_slices_time(const weir_layer *s, const uint64_t *state, int64_t now_ns);

/* Subtracts up to `cost` from the slice that contains charged_ns and from those before it, the
 * latest first. */
void weir_slices_refund(const weir_layer *s, uint64_t *state, int64_t charged_ns, int64_t now_ns,
                        int64_t cost);

/* Lists the words that weir_slices_check() at now_ns may write: see weir_state_writes(). Returns
 * WEIR_SLICES_WRITES + 1 if there are more. */
enum { WEIR_SLICES_WRITES = 32 };
size_t weir_slices_writes(const weir_layer *s, const uint64_t *state, int64_t now_ns,
                          size_t ret[WEIR_SLICES_WRITES]);

/* Lists words that weir_slices_check() will probably load: see weir_state_loads(). Any `first` is
 * safe. */
enum { WEIR_SLICES_LOADS = 2 };
size_t weir_slices_loads(const weir_layer *s, uint64_t first, size_t ret[WEIR_SLICES_LOADS]);

/* ---- sliding-log ----------------------------------------------------------------------------- */

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

/* Copies a log to another one of the same period: what counts at now_ns. Units above the limit of
 * `to` are joined: see weir_ring_convert().
 *  from  sound.
 *  ret   the words of a log of `to` at ret_level.
 * Returns false, with *ret undefined, if the entries do not fit at ret_level. */
bool weir_log_convert(const weir_layer *l, const uint64_t *from, unsigned level,
                      const weir_layer *to, int64_t now_ns, uint64_t *ret, unsigned ret_level);

/* Returns false if the functions below cannot have written the state. They require a sound state.
 */
bool weir_log_sound(const weir_layer *l, const uint64_t *state, unsigned level);

/* Returns whether charging `cost` at now_ns needs a larger ring buffer. Never true at the level
 * where cap = N. */
bool weir_log_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                   int64_t cost);

bool weir_log_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost);

/* Writes *state if cost > 0 and the request is allowed, or is denied and count_denied is true.
 * Returns false, with nothing written, if that needs a larger ring buffer. Time: O(log len), or
 * O(1) if at most one entry has expired since the last charge and the cost is allowed. */
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
