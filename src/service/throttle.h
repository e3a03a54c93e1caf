/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_THROTTLE_H
#define WEIR_SERVICE_THROTTLE_H
/* The arithmetic of redis-cell's CL.THROTTLE, to the letter: with its truncated interval, its
 * figures in whole seconds, and its refunds by a negative quantity. weir's own algorithms share
 * nothing with it but the format of the state, a TAT in ns. docs/compatibility.md lists where it
 * differs. */

#include <weir/weir.h>

typedef struct weir_throttle {
    int64_t max_burst; /* limit - 1 */
    int64_t count;     /* units a period */
    int64_t period_s;
    int64_t quantity; /* 0 peeks, negative gives back */
} weir_throttle;

typedef struct weir_throttle_answer {
    bool limited;
    int64_t limit;
    int64_t remaining;     /* 0..limit */
    int64_t retry_after_s; /* -1 if allowed, or if it can never be; else 0 or more */
    int64_t reset_after_s; /* 0 or more */
} weir_throttle_answer;

typedef enum weir_throttle_status {
    WEIR_THROTTLE_OK,
    WEIR_THROTTLE_ZERO_RATE,     /* count or period is 0, or a unit takes less than 1 ns */
    WEIR_THROTTLE_RANGE,         /* the numbers do not fit in 64 bits of ns */
    WEIR_THROTTLE_NEGATIVE_LIMIT /* max_burst is below -1 */
} weir_throttle_status;

/* The text of an error reply, after "Cell error: Store error: ". `st` is not WEIR_THROTTLE_OK.
 * Static. Pure. */
const char *weir_throttle_status_text(weir_throttle_status st);

/* Reads one of its numbers as redis-cell does: an optional sign and digits, within 64 bits.
 *  ret  written only if true. Pure. */
bool weir_throttle_number(const char *bytes, size_t len, int64_t *ret);

/* Decides and charges. A negative quantity gives back at most what makes the key fresh.
 *  state   one word, the TAT. 0, or a TAT of now_ns or earlier, is a fresh key. Written if allowed.
 *  now_ns  0..WEIR_NOW_NS_MAX.
 *  ret     written on WEIR_THROTTLE_OK only. Pure; the caller owns *state. */
weir_throttle_status weir_throttle_check(const weir_throttle *t, uint64_t *state, int64_t now_ns,
                                         weir_throttle_answer *ret);

#endif
