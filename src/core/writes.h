/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_WRITES_H
#define WEIR_CORE_WRITES_H
/* Which words of a state a call is going to change: for a store that notes what they held, so that
 * a change that was cut short can be taken back without a copy of all of a long log. */

#include <weir/weir.h>

/* False if the words cannot be a state of the policy: weir_check() would refuse them for good. */
bool weir_state_sound(const weir_policy *p, const uint64_t *state, unsigned level);

/* Lists every word that weir_check() at now_ns may write, whatever the cost, or that
 * weir_refund() of `refund` units may, if that is not 0.
 *  state   sound. Of a log a handful are listed, however long it is; of slices, those that have
 *          begun since the last charge, or with a refund all.
 *  refund  0..WEIR_COST_MAX.
 *  ret     up to `max` indices into state; some may come twice.
 * Returns how many; max + 1 if they are more, and then *ret means nothing. Threads: pure. In the
 * library of one file nobody calls it if that is compiled as the core alone. */
__attribute__((unused)) size_t weir_state_writes(const weir_policy *p, const uint64_t *state,
                                                 unsigned level, int64_t now_ns, int64_t refund,
                                                 size_t *ret, size_t max);

#endif
