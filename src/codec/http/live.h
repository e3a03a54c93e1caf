/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_LIVE_H
#define WEIR_CODEC_HTTP_LIVE_H
/* The stream of GET /v1/live: server-sent events with the counters of the daemon, one event each
 * second. docs/http.md documents the events. This module does not know how the stream is sent, and
 * reads no clock. */

#include "codec/http/options.h"

#define WEIR_HTTP_LIVE_NS  ((int64_t)1000000000) /* between two ticks */
#define WEIR_HTTP_LIVE_MAX 64 /* streams at once; an error of endpoints.c names it */

typedef struct weir_http_live weir_http_live;

/* Opens a stream, and appends its first event, `hello`.
 *  o      kept by reference.
 *  login  who opens it; copied. Its user sees only some policies.
 *  ret  written on WEIR_OK only.
 * Returns WEIR_OK; WEIR_E_FULL if options->streams has reached WEIR_HTTP_LIVE_MAX; WEIR_E_NOMEM,
 * with any bytes in `out`. */
WEIR_NODISCARD weir_status weir_http_live_open(weir_http_live **ret, const weir_http_options *o,
                                               const weir_login *login, int64_t now_ns,
                                               weir_buffer *out);

/* Whether the client still has the right to the stream. */
bool weir_http_live_may_go_on(weir_http_live *l, const void *peer);

void weir_http_live_close(weir_http_live *l); /* accepts NULL */

/* When the next tick is due: at once after the opening, and then each WEIR_HTTP_LIVE_NS. */
int64_t weir_http_live_next_ns(const weir_http_live *l);

/* Appends the tick that is due at now_ns and, if the policies have changed, an event `policies`
 * before it. Skips ticks that are overdue.
 *  now_ns  weir_http_live_next_ns() or later. */
void weir_http_live_put(weir_http_live *l, int64_t now_ns, weir_buffer *out);

/* The bytes of memory that a stream holds. */
size_t weir_http_live_memory(const weir_http_live *l);

/* Estimates one of the latencies that were recorded between two snapshots, in nanoseconds: it
 * interpolates in the histogram's bucket. Pure.
 *  rank  the place of the latency in ascending order: 1..their number, below 2^34. */
uint64_t weir_http_live_latency_ns(const weir_latency *since, const weir_latency *now,
                                   uint64_t rank);

#endif
