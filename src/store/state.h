/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STATE_H
#define WEIR_STORE_STATE_H
/* One key's state: the callback that decides on it, when it may be dropped, and its serialised
 * form. */

#include <weir/weir.h>

/* Decides on a state and changes it. It may run several times for one call, each time on a new
 * copy, and the last run counts. So it must be pure but for *state and what it writes to ctx.
 *  state               weir_state_words(p, level) words, all zero for a key with full quota. The
 *                      changed state is kept if the function returns WEIR_OK.
 *  ret_fresh_after_ns  weir_fresh_after() of the new state. May be left unwritten. */
typedef weir_status (*weir_state_fn)(void *ctx, const weir_policy *p, uint64_t *state,
                                     unsigned level, int64_t now_ns, int64_t *ret_fresh_after_ns);

#define WEIR_FRESH_UNKNOWN (-1) /* the initial value of *ret_fresh_after_ns */

/* The time from which on a state equals full quota.
 *  after_ns  weir_fresh_after() of the state at now_ns, or WEIR_FRESH_UNKNOWN. */
static inline int64_t weir_fresh_at(const weir_policy *p, const uint64_t *state, unsigned level,
                                    int64_t now_ns, int64_t after_ns)
{
    if (after_ns == WEIR_FRESH_UNKNOWN)
        after_ns = weir_fresh_after(p, state, level, now_ns);
    return after_ns < INT64_MAX - now_ns ? now_ns + after_ns : INT64_MAX;
}

/* A key's state in serialised form, for iteration and copying. */
typedef struct weir_key_state {
    uint64_t hash;       /* of key and policy, under the store's secret */
    int64_t fresh_at_ns; /* from then on the key has full quota */
    uint32_t form;       /* how the words are encoded: a weir_form, or WEIR_LARGE_FORM */
    uint32_t level;      /* how far a state that grows has grown, else 0 */
    size_t words_len;
    const uint64_t *words; /* valid during the call only */
} weir_key_state;

/* Returns false to stop the iteration. */
typedef bool (*weir_key_state_fn)(void *ctx, const weir_key_state *state);

#endif
