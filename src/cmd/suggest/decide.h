/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SUGGEST_DECIDE_H
#define WEIR_CMD_SUGGEST_DECIDE_H
/* Decides the requests of a trace with the core, key by key, on a state that begins with full
 * quota. It must not know targets. */

#include "cmd/key_state.h"
#include "cmd/suggest/trace.h"

/* Zeroed by the caller; free it with suggest_decider_free(). */
typedef struct suggest_decider {
    weir_policy policy; /* set by the caller */
    weir_status status; /* the first error, which the caller checks at the end, or WEIR_OK */
    key_state state;    /* private */
} suggest_decider;

/* The requests of a part of the log, and how many were denied. */
typedef struct suggest_counts {
    uint64_t requests, requests_denied;
    uint64_t keys, keys_denied; /* keys with a request, or a denied request, in this part */
} suggest_counts;

/* The same for the two parts, and for the whole log. */
typedef struct suggest_result {
    suggest_counts searched, held_out, all;
} suggest_result;

/* Decides the requests of a key that are before `end_ns`.
 *  denied_max  stops once so many requests are denied; 1 or more.
 * Returns how many were denied. */
uint64_t suggest_denied(suggest_decider *d, const suggest_trace *t, uint32_t key, int64_t end_ns,
                        uint64_t denied_max);

/* Decides all requests of a key, and adds the denied requests and keys to *ret. The other counts
 * are those of suggest_totals(). */
void suggest_decide(suggest_decider *d, const suggest_trace *t, uint32_t key, suggest_result *ret);

/* Counts the requests and keys of the parts. Nothing is denied. */
suggest_result suggest_totals(const suggest_trace *t);

void suggest_decider_free(suggest_decider *d);

#endif
