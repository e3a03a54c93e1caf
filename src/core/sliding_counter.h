/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_SLIDING_COUNTER_H
#define WEIR_CORE_SLIDING_COUNTER_H
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

#include <weir/weir.h>

/* Returns whether `cost` is allowed.
 *  state   any words are safe.
 *  now_ns  0..WEIR_NOW_NS_MAX.
 *  cost    0..WEIR_COST_MAX.
 * Pure. */
bool weir_counter_allows(const weir_layer *c, const uint64_t *state, int64_t now_ns, int64_t cost);

/* Decides, and charges if allowed. Sets every field of *ret except `layer`. A denial and a cost of
 * 0 do not write *state. */
void weir_counter_check(const weir_layer *c, uint64_t *state, int64_t now_ns, int64_t cost,
                        weir_decision *ret);

/* Returns the start of the current window. It is later than now_ns if the clock has stepped back.
 * Pure. */
int64_t weir_counter_start(const weir_layer *c, const uint64_t *state, int64_t now_ns);

/* Subtracts `cost` from the window that contains charged_ns, and any remainder from the window
 * before it. Does nothing if charged_ns is before the previous window. */
void weir_counter_refund(const weir_layer *c, uint64_t *state, int64_t charged_ns, int64_t now_ns,
                         int64_t cost);

#endif
