/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_GCRA_H
#define WEIR_CORE_GCRA_H
/* Deciding by a theoretical arrival time (TAT): gcra, and token-bucket, leaky-bucket and
 * leaky-queue, which are the same arithmetic under other names. Each function serves one layer;
 * none of them knows of the others.
 *
 * With T the interval of one unit, C the limit, and backlog = max(0, TAT - now):
 *
 *     allowed  iff  backlog + cost*T <= C*T,   and then   TAT = max(now, TAT) + cost*T
 *
 * Bound (P1): for any allowed i <= k, sum(cost i..k) * T <= C*T + (t_k - t_i).
 *
 * Three formats keep the TAT, so that it is never rounded:
 *   WEIR_STATE_TAT_NS     one word, ns;                      T = den ns                 (num is 1)
 *   WEIR_STATE_TAT_TICKS  two words, hi then lo, 1/num ns;   T = den ticks, a ns is num ticks
 *   WEIR_STATE_TAT_STEPS  two words, hi then lo, tokens;     T = 1 token, the clock jumps by `rate`
 *                         at each multiple of the period
 * Source: GCRA, virtual-scheduling form, ITU-T I.371. */

#include <weir/weir.h>

/* Would `cost` be allowed? now_ns 0..WEIR_NOW_NS_MAX, cost 0..WEIR_COST_MAX. Any state is safe.
 * Pure. */
bool weir_gcra_allows(const weir_layer *g, const uint64_t *state, int64_t now_ns, int64_t cost);
bool weir_gcra_wide_allows(const weir_layer *g, const uint64_t *state, int64_t now_ns,
                           int64_t cost);

/* Decides and charges; fills all of *ret but `layer`. Ranges as above. A denial and cost 0 write
 * nothing to *state. */
void weir_gcra_check(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost,
                     weir_decision *ret);
void weir_gcra_wide_check(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost,
                          weir_decision *ret);

/* Takes `cost` units off the backlog, at most to none. */
void weir_gcra_refund(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost);
void weir_gcra_wide_refund(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost);

#endif
