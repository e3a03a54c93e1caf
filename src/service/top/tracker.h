/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_TOP_TRACKER_H
#define WEIR_SERVICE_TOP_TRACKER_H
/* The tracker of one service's top keys: it samples requests and adds the samples to
 * sketches (space_saving.h), one for each policy and verdict. The service's thread writes; other
 * threads read copies of the sketches under a lock. Private to src/service. */

#include "port/atomic.h"
#include "port/text.h"
#include "service/top/space_saving.h"
#include "service/top/top.h"
#include "store/siphash.h"

/* ---- sampling -------------------------------------------------------------------------------- */

/* Sampling of a stream of requests, each of which costs some units. The stream is divided into
 * intervals of 2^shift units. One unit of each interval is drawn at random, and the request that
 * contains it is counted with the cost of the whole interval. So the expected count of a request is
 * its cost, a periodic stream is not sampled in step with its period, and a request that spans many
 * intervals is counted almost exactly. A shift of 0 counts every request exactly.
 *
 * The caller subtracts the cost of each request from `left`, and calls weir_sampler_hit() once it
 * is 0 or less. Other requests cost nothing more. */
#define WEIR_SAMPLER_SHIFT_MAX 48

typedef struct weir_sampler {
    uint64_t at;    /* the drawn unit of this interval */
    unsigned shift; /* the size of this interval */
    unsigned next;  /* the size of the intervals after it */
} weir_sampler;

/* Returns the next number of a xorshift64 generator.
 *  state  never 0. */
uint64_t weir_sampler_random(uint64_t *state);

/* Begins a new interval now, even within another one. This keeps the expectation, unless the caller
 * does it because of a hit. Writes *left. */
void weir_sampler_begin(weir_sampler *s, int64_t *left, uint64_t *random);

/* To be called once a request has made *left 0 or less. Returns the units with which that request
 * is counted. Writes *left. */
uint64_t weir_sampler_hit(weir_sampler *s, int64_t *left, uint64_t *random);

/* ---- the tracker ----------------------------------------------------------------------------- */

/* What all trackers of a limiter share. */
typedef struct weir_top_shared {
    size_t keys; /* of each sketch; 0: no keys are tracked */
    size_t bytes_max;
    port_counter bytes; /* of all sketches */
    weir_secret secret; /* for the hashes of keys */
} weir_top_shared;

typedef struct weir_top_tracker weir_top_tracker;

/* Opens a tracker for policies 0..policies-1. Returns NULL if memory is exhausted. */
weir_top_tracker *weir_top_tracker_open(weir_top_shared *shared, size_t policies);
void weir_top_tracker_close(weir_top_tracker *w); /* accepts NULL */

/* Samples a request. The caller subtracts the cost of each request from lefts[which], which is 0 at
 * first, and calls this function once the result is 0 or less. Writes lefts[which]; the first call
 * for a policy writes all its lefts.
 *  w      NULL: nothing is tracked, and lefts[which] becomes so high that no call follows.
 *  which  the counter of the verdict, COUNT_ALLOWED to COUNT_DENY_LISTED.
 *  lefts  one for each counter of the policy; they must not move. */
void weir_top_tracker_hit(weir_top_tracker *w, size_t policy, int which, int64_t *lefts,
                          weir_slice key, int64_t cost, int64_t now_ns);

/* To be called about once a second of now_ns. Decays the sketches, and samples streams that became
 * slower at shorter intervals. Accepts NULL. */
void weir_top_tracker_tick(weir_top_tracker *w, int64_t now_ns);

typedef struct weir_top_accuracy {
    int64_t sampling; /* raised to the longest sampling interval */
    bool complete;    /* cleared if memory for a sketch was refused */
} weir_top_accuracy;

/* Copies a sketch. Any thread.
 *  ret_list  to be freed by weir_space_saving_free(); NULL if there is none.
 * Returns false if there is no memory for the copy. */
bool weir_top_tracker_read(weir_top_tracker *w, size_t policy, weir_top_of of,
                           weir_space_saving **ret_list, weir_top_accuracy *accuracy);

#endif
