/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SUGGEST_TRACE_H
#define WEIR_CMD_SUGGEST_TRACE_H
/* All requests of a log in memory, sorted by key and then by time, in 16 bytes a request. It must
 * not know policies. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/accesslog/source.h"

#define SUGGEST_COST_ABOVE UINT32_MAX /* a cost above WEIR_COST_MAX, which every policy denies */

typedef struct suggest_request {
    int64_t now_ns;
    uint32_t cost; /* 0..WEIR_COST_MAX, or SUGGEST_COST_ABOVE */
    uint32_t key;  /* while the trace is read; later private */
} suggest_request;

/* Callers may read all fields. */
typedef struct suggest_trace {
    suggest_request *request; /* those of key k are begin[k]..begin[k + 1] - 1, in order of time */
    size_t len;               /* 1 or more once it is read */
    size_t *begin;            /* keys + 1 of them */
    uint32_t keys;
    int64_t first_ns, last_ns;
    int64_t split_ns;   /* requests from here on are held out; INT64_MAX: none */
    uint64_t cost;      /* of all requests; UINT64_MAX: that or more */
    uint64_t over_cost; /* requests that cost more than WEIR_COST_MAX */
    bool mixed_costs;   /* two requests have different costs above 0 */
    size_t map_bytes;   /* of the memory at `request` */
    uint32_t some_cost; /* private: a cost above 0 */
} suggest_trace;

/* Reads a log to its end and sorts its requests. Keys are counted as the daemon counts them: an
 * IPv6 address is its /64.
 *  ret           zeroed by the caller; free it with suggest_trace_free(), also after a failure.
 *  memory_bytes  the limit of the memory of the requests. A log with more requests fails.
 *  hold_out      the part of the log's time that is held out, 0..90 * SUGGEST_PERCENT.
 * Returns 0, or the exit status after printing an error. */
int suggest_trace_read(suggest_trace *ret, accesslog *log, size_t memory_bytes, int64_t hold_out);

void suggest_trace_free(suggest_trace *t); /* accepts a zeroed trace */

#endif
