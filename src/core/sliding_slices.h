/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_SLIDING_SLICES_H
#define WEIR_CORE_SLIDING_SLICES_H
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

#include <weir/weir.h>

/* The words before the counts. */
enum { WEIR_SLICES_COUNTS = 2 };

static inline size_t weir_slices_words(const weir_layer *s)
{
    return WEIR_SLICES_COUNTS + ((size_t)s->slices + 1) / 2;
}

/* Returns whether `cost` is allowed.
 *  state   any words are safe.
 *  now_ns  0..WEIR_NOW_NS_MAX.
 *  cost    0..WEIR_COST_MAX.
 * Pure. */
bool weir_slices_allows(const weir_layer *s, const uint64_t *state, int64_t now_ns, int64_t cost);

/* Decides, and charges if allowed. Sets every field of *ret except `layer`. A denial and a cost of
 * 0 do not write *state. Time: O(slices that began since the last write), or O(S) for a denial. */
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

#endif
