/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_THROTTLE_H
#define WEIR_SERVICE_THROTTLE_H
/* CL.THROTTLE: the arithmetic of redis-cell, with its truncated interval, its whole seconds, and
 * its refunds by a negative quantity. docs/compatibility.md lists the differences. It shares only
 * the format of the state with weir's own GCRA: a TAT (theoretical arrival time) in ns. */

#include <weir/weir_store.h>

typedef struct weir_throttle {
    int64_t max_burst; /* limit - 1 */
    int64_t count;     /* units per period */
    int64_t period_s;
    int64_t quantity; /* 0: a peek; negative: a refund */
} weir_throttle;

typedef struct weir_throttle_answer {
    bool limited;
    int64_t limit;
    int64_t remaining;     /* 0..limit */
    int64_t retry_after_s; /* 0 or more; -1: allowed, or never allowed */
    int64_t reset_after_s; /* 0 or more */
} weir_throttle_answer;

typedef enum weir_throttle_status {
    WEIR_THROTTLE_OK,
    WEIR_THROTTLE_ZERO_RATE,     /* count or period is 0, or the interval is below 1 ns */
    WEIR_THROTTLE_RANGE,         /* the numbers do not fit in 64 bits of ns */
    WEIR_THROTTLE_NEGATIVE_LIMIT /* max_burst is below -1 */
} weir_throttle_status;

/* Returns the error message, which follows "Cell error: Store error: " in the reply. A static
 * string. Pure.
 *  st  not WEIR_THROTTLE_OK. */
const char *weir_throttle_status_text(weir_throttle_status st);

/* Reads a number as redis-cell does: an optional sign and digits, within 64 bits.
 *  ret  written on success only. Pure. */
bool weir_throttle_number(const char *bytes, size_t len, int64_t *ret);

/* Decides, and charges if allowed. A refund restores the full quota at most.
 *  state   one word, the TAT; 0 and a TAT before now_ns mean the full quota. Written if allowed
 *          and changed: a refund of a full quota leaves it, and so does a quantity of 0.
 *  now_ns  0..WEIR_NOW_NS_MAX.
 *  ret     written on WEIR_THROTTLE_OK only.
 * Pure; the caller owns *state. */
weir_throttle_status weir_throttle_check(const weir_throttle *t, uint64_t *state, int64_t now_ns,
                                         weir_throttle_answer *ret);

/* The policy and the id under which a store keeps the states of CL.THROTTLE. Any policy with an
 * 8-byte TAT will do. Each request brings its own rate, so an eviction compares the keys as if they
 * had this one. The id differs from the policy's own, with which CL.THROTTLE shares no states.
 * Returns the status of weir_policy_parse(). */
static inline weir_status weir_throttle_states(const weir_store *store, weir_policy *ret_policy,
                                               uint64_t *ret_id)
{
    static const char text[] = "gcra 1/s burst 60";
    weir_status st = weir_policy_parse(ret_policy, text, sizeof text - 1, NULL, NULL);
    if (st == WEIR_OK)
        *ret_id = weir_store_policy_id(store, ret_policy) ^ ~WEIR_POLICY_CLASS;
    return st;
}

#endif
