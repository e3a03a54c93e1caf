/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_TOP_TRACKER_H
#define WEIR_SERVICE_TOP_TRACKER_H
/* What one service has to weigh keys with: which requests it looks at, and its lists. It belongs to
 * the service's thread; others read its lists under its lock. For this room only. */

#include "port/atomic.h"
#include "service/top/sampler.h"
#include "service/top/space_saving.h"
#include "service/top/top.h"
#include "store/siphash.h"

/* What all weighers of a limiter share. */
typedef struct weir_top_shared {
    size_t keys; /* 0: nothing is weighed */
    size_t bytes_max;
    port_counter bytes; /* of all lists */
    weir_secret secret;
} weir_top_shared;

typedef struct weir_top_tracker weir_top_tracker;

/* One for `places` names. NULL if there is no memory. */
weir_top_tracker *weir_top_tracker_open(weir_top_shared *scales, size_t places);
void weir_top_tracker_close(weir_top_tracker *w); /* accepts NULL */

/* Called when lefts[which], from which the cost of each request that is counted there is taken, has
 * come to 0 or less, which it is to begin with. Writes all of the place's then, lefts[which] else.
 *  w      NULL: nothing is weighed, and lefts[which] becomes so high that this is not called again.
 *  which  the counter of a verdict: COUNT_ALLOWED to COUNT_DENY_LISTED.
 *  lefts  one for each counter of the place. They may not move. */
void weir_top_tracker_hit(weir_top_tracker *w, size_t place, int which, int64_t *lefts,
                          weir_slice key, int64_t cost, int64_t now_ns);

/* To be called about once a second of now_ns, so that samples become finer where less is asked.
 * Accepts NULL. */
void weir_top_tracker_tick(weir_top_tracker *w, int64_t now_ns);

/* What is told of a place besides its list. */
typedef struct weir_top_accuracy {
    int64_t sampling; /* raised to what holds here */
    bool complete;    /* cleared if there is no list for want of memory */
} weir_top_accuracy;

/* A copy of a list, for weir_space_saving_free(); NULL if there is none. Any thread. Returns false if
 * there is no memory for the copy. */
bool weir_top_tracker_read(weir_top_tracker *w, size_t place, weir_top_of of,
                           weir_space_saving **ret_list, weir_top_accuracy *told);

#endif
