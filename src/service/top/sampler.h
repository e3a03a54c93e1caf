/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_TOP_SAMPLER_H
#define WEIR_SERVICE_TOP_SAMPLER_H
/* Which units of a stream are looked at. The stream is cut into strides of 2^shift units, and one
 * unit of each is drawn: its request stands for the whole stride. No rhythm of the stream is missed
 * so, a request of many strides is weighed nearly exactly, and what is expected of a request is its
 * cost. With a shift of 0 every request is weighed, exactly. It must not know what the units are,
 * nor the time. For this room only.
 *
 * The caller takes the cost of every request from `left`, and calls weir_sampler_hit() when that is
 * 0 or less: nothing more is on the way of the others. */

#include <stdbool.h>
#include <stdint.h>

#define WEIR_SAMPLER_SHIFT_MAX 48

typedef struct weir_sampler {
    uint64_t at;    /* which unit of its stride was drawn */
    unsigned shift; /* of this stride ... */
    unsigned next;  /* ... and of those to come */
} weir_sampler;

/* xorshift64; a state is never 0. */
uint64_t weir_sampler_random(uint64_t *state);

/* Begins a stride, wherever the one before is: that takes nothing from what is expected, as long as
 * it does not follow from a unit having just been hit. Writes *left. */
void weir_sampler_begin(weir_sampler *s, int64_t *left, uint64_t *random);

/* The units that the request stands for which has just made *left 0 or less. Writes *left. */
uint64_t weir_sampler_hit(weir_sampler *s, int64_t *left, uint64_t *random);

#endif
