/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_SLIDING_COUNTER_H
#define WEIR_CORE_SLIDING_COUNTER_H
/* sliding-counter: the window before counts in proportion to how much of it still overlaps the
 * sliding window.
 *
 *     strict   allowed  iff  prev*overlap + (cur + cost)*W <= N*W
 *     relaxed  allowed  iff  prev*overlap + (cur + cost)*W <  (N + 1)*W,   and then   cur += cost
 *
 * Multiplied out in 128-bit integers, nothing is estimated twice. Bound (P1): the inequality
 * itself, with prev, cur <= N.
 *
 * State (WEIR_STATE_COUNTER): {start of the window, prev in the low half and cur in the high half}.
 * A stored window later than now stands for now. */

#include <weir/weir.h>

/* Would `cost` be allowed? now_ns 0..WEIR_NOW_NS_MAX, cost 0..WEIR_COST_MAX. Any state is safe.
 * Pure. */
bool weir_counter_allows(const weir_layer *c, const uint64_t *state, int64_t now_ns, int64_t cost);

/* Decides and charges; fills all of *ret but `layer`. A denial and cost 0 write nothing to
 * *state. */
void weir_counter_check(const weir_layer *c, uint64_t *state, int64_t now_ns, int64_t cost,
                        weir_decision *ret);

/* When the present window began: later than now_ns if the clock has stepped back. Pure. */
int64_t weir_counter_start(const weir_layer *c, const uint64_t *state, int64_t now_ns);

/* Takes `cost` off the window of charged_ns, and what is left of it off the one before. Nothing, if
 * it was charged before these two. */
void weir_counter_refund(const weir_layer *c, uint64_t *state, int64_t charged_ns, int64_t now_ns,
                         int64_t cost);

#endif
