/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_FIXED_WINDOW_H
#define WEIR_CORE_FIXED_WINDOW_H
/* fixed-window: a count for the window that holds now.
 *
 *     allowed  iff  count + cost <= N,   and then   count += cost
 *
 * Bound (P1): in every window sum(cost) <= N. count_denied: a denied cost counts too, up to N in
 * all.
 *
 * A stored window later than now stands for now: a clock that steps back never opens an older
 * window again.
 *
 * WEIR_STATE_WINDOW_WORD keeps start + count in one word. A window is longer than N ns, so the word
 * lies in [start, start + N] of the window it was written in, and telling it from older windows
 * needs one compare. WEIR_STATE_WINDOW_PAIR keeps {start, count}: from-first, whose start cannot be
 * computed from now, and windows of N ns or less. */

#include <weir/weir.h>

/* Would `cost` be allowed? now_ns 0..WEIR_NOW_NS_MAX, cost 0..WEIR_COST_MAX. Any state is safe.
 * Pure. */
bool weir_window_allows(const weir_layer *w, const uint64_t *state, int64_t now_ns, int64_t cost);

/* Decides and charges; fills all of *ret but `layer`. Writes *state if cost > 0 and it is allowed,
 * or denied and to be counted. */
void weir_window_check(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost,
                       bool count_denied, weir_decision *ret);

/* When the present window began: later than now_ns if the clock has stepped back. What was charged
 * before that no longer counts. Pure. */
int64_t weir_window_start(const weir_layer *w, const uint64_t *state, int64_t now_ns);

/* Takes `cost` off the present window's count, at most to 0. */
void weir_window_refund(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost);

#endif
