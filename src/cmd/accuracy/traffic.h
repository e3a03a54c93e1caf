/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCURACY_TRAFFIC_H
#define WEIR_CMD_ACCURACY_TRAFFIC_H
/* Generated traffic: the times of requests, source by source, in constant memory. The same options
 * give the same times on every machine: all arithmetic is on integers. docs/accuracy.md defines
 * each kind. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum traffic_kind {
    TRAFFIC_STEADY,      /* each source at an even rate */
    TRAFFIC_POISSON,     /* exponential gaps */
    TRAFFIC_BURSTY,      /* bursts of 20 requests on average */
    TRAFFIC_HEAVY_TAILED /* Poisson; the rates of the sources follow Zipf's law */
} traffic_kind;

enum { TRAFFIC_KINDS = TRAFFIC_HEAVY_TAILED + 1 };

/* "steady", "poisson", "bursty" or "heavy-tailed". */
const char *traffic_kind_name(traffic_kind kind);

#define TRAFFIC_SOURCES_MAX  INT64_C(10000000)
#define TRAFFIC_REQUESTS_MAX INT64_C(10000000000)
#define TRAFFIC_SPAN_NS_MAX  (INT64_C(3653) * 86400 * 1000000000) /* ten years */
#define TRAFFIC_BEGIN_NS     (INT64_C(1767225600) * 1000000000)   /* 2026-01-01T00:00:00Z */

typedef struct traffic_options {
    traffic_kind kind;
    uint64_t sources;  /* 1..TRAFFIC_SOURCES_MAX */
    uint64_t requests; /* 1..TRAFFIC_REQUESTS_MAX, of all sources together */
    int64_t rate;      /* the mean of the sources' rates: `rate` requests each `period_ns` */
    int64_t period_ns;
    uint64_t seed;
} traffic_options;

enum { TRAFFIC_LOG_BITS = 10, TRAFFIC_LOG_LEN = (1 << TRAFFIC_LOG_BITS) + 1 };

/* Private, except for the functions below. */
typedef struct traffic {
    traffic_options options;
    uint64_t span_ns;     /* the time that the requests of a source take on average */
    uint64_t shares;      /* the sum of the shares of all sources */
    uint64_t carry;       /* what rounding has left of the requests so far, in shares */
    uint64_t source;      /* how many sources have begun */
    uint64_t left;        /* requests of the current source that are to come */
    uint64_t random;      /* the generator of the current source */
    uint64_t gap_ns;      /* the mean gap of the current source */
    uint64_t gap_unit_ns; /* gap_ns * ln 2 */
    int64_t t_ns;
    uint64_t log[TRAFFIC_LOG_LEN]; /* log2(1 + i/1024) in units of 2^-40 */
} traffic;

/* Starts the traffic.
 * Returns false, with *ret undefined, if it would take longer than TRAFFIC_SPAN_NS_MAX. */
bool traffic_init(traffic *ret, const traffic_options *o);

/* Goes on to the next source that has requests. Returns false after the last one. */
bool traffic_source(traffic *t);

/* Writes the time of the next request of the source, which is not before the last one. Returns
 * false after its last request. */
bool traffic_next(traffic *t, int64_t *ret_t_ns);

#endif
