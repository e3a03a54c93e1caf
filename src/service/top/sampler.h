/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_TOP_SAMPLER_H
#define WEIR_SERVICE_TOP_SAMPLER_H
/* Sampling of a stream of requests, each of which costs some units. The stream is divided into
 * intervals of 2^shift units. One unit of each interval is drawn at random, and the request that
 * contains it is counted with the cost of the whole interval. So the expected count of a request is
 * its cost, a periodic stream is not sampled in step with its period, and a request that spans many
 * intervals is counted almost exactly. A shift of 0 counts every request exactly.
 *
 * The caller subtracts the cost of each request from `left`, and calls weir_sampler_hit() once it
 * is 0 or less. Other requests cost nothing more. Private to src/service. */

#include <stdbool.h>
#include <stdint.h>

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

#endif
