/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_GCRA_H
#define WEIR_CORE_GCRA_H
/* GCRA, the generic cell rate algorithm. token-bucket, leaky-bucket and leaky-queue are the same
 * arithmetic under other names. A state is the theoretical arrival time (TAT): the time at which
 * the key has full quota again.
 *
 * With T the interval of one unit, C the limit, and backlog = max(0, TAT - now):
 *
 *     allowed  iff  backlog + cost*T <= C*T,   and then   TAT = max(now, TAT) + cost*T
 *
 * A leaky-queue delays an allowed request by max(0, backlog - K*T), where K is weir_layer.nodelay.
 *
 * Bound (P1): for any allowed i <= k, sum(cost i..k) * T <= C*T + (t_k - t_i).
 *
 * gcra.c is the everyday path: T is a whole number of ns. gcra_wide.c handles all other rates, such
 * as 3/s, and refills in steps. The three state formats store the TAT in a unit in which T is a
 * whole number, so the TAT is never rounded:
 *   WEIR_STATE_TAT_NS     one word, ns;                      T = den ns                 (num is 1)
 *   WEIR_STATE_TAT_TICKS  two words, hi then lo, 1/num ns;   T = den ticks, 1 ns is num ticks
 *   WEIR_STATE_TAT_STEPS  two words, hi then lo, tokens;     T = 1 token, the clock jumps by `rate`
 *                         at each multiple of the period
 * Source: GCRA, virtual-scheduling form, ITU-T I.371. */

#include <weir/weir.h>

/* Returns whether `cost` is allowed.
 *  state   any words are safe.
 *  now_ns  0..WEIR_NOW_NS_MAX.
 *  cost    0..WEIR_COST_MAX.
 * Pure. */
bool weir_gcra_allows(const weir_layer *g, const uint64_t *state, int64_t now_ns, int64_t cost);
bool weir_gcra_wide_allows(const weir_layer *g, const uint64_t *state, int64_t now_ns,
                           int64_t cost);

/* Decides, and charges if allowed. Sets every field of *ret except `layer`. Ranges as above. A
 * denial and a cost of 0 do not write *state. */
void weir_gcra_check(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost,
                     weir_decision *ret);
void weir_gcra_wide_check(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost,
                          weir_decision *ret);

/* As weir_gcra_wide_check() for WEIR_STATE_TAT_TICKS, with the TAT as *f_ns - *rest / num ns, where
 * *rest is below num. The new TAT is written if the request is allowed and cost > 0. Returns false,
 * with *ret undefined, if a quantity is too large: then use weir_gcra_wide_check(). Unused if the
 * amalgamated library is compiled as the core alone. */
__attribute__((unused)) bool weir_gcra_ticks_check(const weir_layer *g, int64_t *f_ns,
                                                   uint64_t *rest, int64_t now_ns, int64_t cost,
                                                   weir_decision *ret);

/* Removes `cost` units from the backlog, down to 0 at most. */
void weir_gcra_refund(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost);
void weir_gcra_wide_refund(const weir_layer *g, uint64_t *state, int64_t now_ns, int64_t cost);

#endif
