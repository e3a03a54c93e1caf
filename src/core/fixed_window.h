/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_FIXED_WINDOW_H
#define WEIR_CORE_FIXED_WINDOW_H
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

#include <weir/weir.h>

/* Returns whether `cost` is allowed.
 *  state   any words are safe.
 *  now_ns  0..WEIR_NOW_NS_MAX.
 *  cost    0..WEIR_COST_MAX.
 * Pure. */
bool weir_window_allows(const weir_layer *w, const uint64_t *state, int64_t now_ns, int64_t cost);

/* Decides, and charges if allowed. Sets every field of *ret except `layer`. Writes *state if cost >
 * 0 and the request is allowed, or is denied and count_denied is true. */
void weir_window_check(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost,
                       bool count_denied, weir_decision *ret);

/* Returns the start of the current window. It is later than now_ns if the clock has stepped back.
 * Charges from before it no longer count. Pure. */
int64_t weir_window_start(const weir_layer *w, const uint64_t *state, int64_t now_ns);

/* Subtracts `cost` from the count of the current window, down to 0 at most. */
void weir_window_refund(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost);

#endif
