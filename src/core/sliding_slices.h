/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_SLIDING_SLICES_H
#define WEIR_CORE_SLIDING_SLICES_H
/* sliding-slices: the window is cut into S slices; the present one and the S - 1 before it count.
 *
 *     allowed  iff  sum + cost <= N,   and then   count[present] += cost
 *
 * Bound (P1): in any S slices in a row sum(cost) <= N. Slice k is [ceil(k*W/S), ceil((k + 1)*W/S)):
 * the layer's num/den is S/W in lowest terms.
 *
 * State (WEIR_STATE_SLICES): {the latest slice written, the sum of all counts, S counts of 32 bits,
 * two a word}. Slice k lies at k mod S. A stored slice later than now stands for now. */

#include <weir/weir.h>

size_t weir_slices_words(const weir_layer *s);

/* Would `cost` be allowed? now_ns 0..WEIR_NOW_NS_MAX, cost 0..WEIR_COST_MAX. Any state is safe.
 * Pure. */
bool weir_slices_allows(const weir_layer *s, const uint64_t *state, int64_t now_ns, int64_t cost);

/* Decides and charges; fills all of *ret but `layer`. A denial and cost 0 write nothing to *state.
 * Work: as many slices as began since the last write; on a denial at most S. */
void weir_slices_check(const weir_layer *s, uint64_t *state, int64_t now_ns, int64_t cost,
                       weir_decision *ret);

/* The time at which the layer decides: now_ns, or the start of the stored slice if that is later.
 * Pure. */
int64_t weir_slices_time(const weir_layer *s, const uint64_t *state, int64_t now_ns);

/* Takes `cost` off the counts of the slice of charged_ns and of those before it, the latest first.
 */
void weir_slices_refund(const weir_layer *s, uint64_t *state, int64_t charged_ns, int64_t now_ns,
                        int64_t cost);

/* The words that weir_slices_check() at now_ns may write: see weir_state_writes(). Returns
 * WEIR_SLICES_WRITES + 1 if they are more. */
enum { WEIR_SLICES_WRITES = 32 };
size_t weir_slices_writes(const weir_layer *s, const uint64_t *state, int64_t now_ns,
                          size_t ret[WEIR_SLICES_WRITES]);

#endif
