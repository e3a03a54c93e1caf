/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_COUNTERS_H
#define WEIR_SERVICE_COUNTERS_H
/* The counters of a service. Each service has its own counters, and the limiter adds them up on
 * request. Counters belong to a name: that of a rule, or one for requests without a rule. A name
 * keeps its index for ever. Private to src/service. */

#include "port/atomic.h"
#include "service/limiter.h"

enum { /* the counters of a name, in the order of weir_counts */
       COUNT_ALLOWED,
       COUNT_DENIED,
       COUNT_SHADOWED,
       COUNT_ALLOW_LISTED,
       COUNT_DENY_LISTED,
       COUNT_FAILED, /* from here on, requests do not count towards the top keys */
       COUNT_UNREACHED,
       COUNTS
};

enum { /* the requests of a rule with a candidate, in the order of weir_candidate_counts */
       CANDIDATE_BOTH_ALLOW,
       CANDIDATE_BOTH_DENY,
       CANDIDATE_ONLY_CURRENT_DENIES,
       CANDIDATE_ONLY_CANDIDATE_DENIES,
       CANDIDATE_OVERRIDDEN,
       CANDIDATE_COUNTS
};

enum { /* the first names */
       NAME_TEXTS,
       NAME_THROTTLE,
       NAME_OTHERS, /* unknown rules, and rules that come after NAMES_MAX names */
       NAMES_FIRST
};

#define NAMES_MAX 16384

typedef struct weir_counters {
    port_counter count[COUNTS];
    int64_t left[COUNTS]; /* units until the next sample for the top keys; the owner's alone */
} weir_counters;

/* The counters of one service. Its thread writes them and all threads read them. Relaxed, since no
 * counter depends on another. */
typedef struct weir_counter_table {
    weir_counters of[NAMES_MAX];
    port_counter latency[WEIR_LATENCY_BUCKETS];
    port_counter latency_sum_ns;
    port_counter candidate[NAMES_MAX][CANDIDATE_COUNTS]; /* by name; untouched without candidates */
} weir_counter_table;

/* A series of the history: the requests of the last hour, of one name or of all together. */
typedef struct weir_history_row {
    uint32_t name;
    int64_t first;                      /* the step in which it begins */
    uint32_t seen[WEIR_HISTORY_GROUPS]; /* the counts that it contains, modulo 2^32 */
    uint32_t count[WEIR_HISTORY_STEPS][WEIR_HISTORY_GROUPS]; /* of step i: i % WEIR_HISTORY_STEPS */
} weir_history_row;

/* The history of a limiter, which is zero at first. Pages that no row uses are never touched. */
typedef struct weir_history {
    int64_t start_ns; /* of step 0; 0: no tick yet */
    int64_t step;     /* to which the next requests belong */
    weir_history_row all;
    size_t rows;
    weir_history_row row[WEIR_HISTORY_NAMES];
    struct {
        uint32_t sum;    /* of the name's counters at the last count, modulo 2^32 */
        uint32_t weight; /* its requests; those of earlier steps fade by 1/64 a step */
    } of[NAMES_MAX];
} weir_history;

/* Adds the counters of the first `names` names, and the latencies. */
void weir_counters_add(weir_counter_table *to, weir_counter_table *from, size_t names);

#endif
