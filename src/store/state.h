/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STATE_H
#define WEIR_STORE_STATE_H
/* What store.c asks of the places that hold states: to run a function on the state of a key. */

#include <weir/weir.h>

/* Decides on a state and changes it. It may run more than once for one call, on copies, the last of
 * which counts: it must be pure but for *state and what it leaves in ctx.
 *  state               weir_state_words(p, level) words, all zero if the key is fresh. What it was
 *                      changed to is kept if the answer is WEIR_OK.
 *  ret_fresh_after_ns  weir_fresh_after() of the state that it leaves, if it happens to know it.
 *                      Else not written. */
typedef weir_status (*weir_state_fn)(void *ctx, const weir_policy *p, uint64_t *state,
                                     unsigned level, int64_t now_ns, int64_t *ret_fresh_after_ns);

#define WEIR_FRESH_UNKNOWN (-1) /* what *ret_fresh_after_ns holds beforehand */

/* When a state is as good as fresh, of which `after_ns` may be known. */
static inline int64_t weir_fresh_at(const weir_policy *p, const uint64_t *state, unsigned level,
                                    int64_t now_ns, int64_t after_ns)
{
    if (after_ns == WEIR_FRESH_UNKNOWN)
        after_ns = weir_fresh_after(p, state, level, now_ns);
    return after_ns < INT64_MAX - now_ns ? now_ns + after_ns : INT64_MAX;
}

#endif
