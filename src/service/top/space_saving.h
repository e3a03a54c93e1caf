/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_TOP_SPACE_SAVING_H
#define WEIR_SERVICE_TOP_SPACE_SAVING_H
/* Space-Saving: a heavy-hitters sketch. It finds the keys with the highest total cost in a stream,
 * in bounded memory. Sketches of several streams can be merged, and all costs decay by half at each
 * step. It must not know what is counted, nor any thread. Private to src/service.
 *
 * Sources: Space-Saving (Metwally, Agrawal, El Abbadi 2005), with weights; merging as in "Mergeable
 * summaries" (Agarwal et al. 2012). Let N be the total cost of the stream, t the true cost of a
 * key, and max the number of keys in the sketch. Then:
 *
 *     a listed key         least <= t <= cost
 *     an unlisted key      t <= N / max
 *
 * Hence every key with t > N / max is listed. In a merge of several sketches, N is the sum of their
 * costs, and max that of a single one. Decay rounds down, so a reported cost may be lower than the
 * exact one by less than 1. */

#include <weir/weir.h>

#define WEIR_SPACE_SAVING_TEXT_MAX 128 /* bytes kept of a key */

/* The fields of a key that a search does not read. */
typedef struct weir_space_saving_key {
    uint64_t least;    /* lower bound of the cost */
    uint64_t requests; /* since the key entered the list */
    uint32_t len;      /* of the whole key */
    char text[WEIR_SPACE_SAVING_TEXT_MAX];
} weir_space_saving_key;

typedef struct weir_space_saving_weight {
    uint64_t hash; /* of the whole key; identifies it */
    uint64_t cost; /* upper bound of the cost */
} weir_space_saving_weight;

typedef struct weir_space_saving {
    uint64_t cost; /* of all keys, listed or not */
    int64_t step;  /* of the last decay */
    size_t len, max;
    weir_space_saving_weight *weight; /* separate from the keys: a search reads less memory */
    weir_space_saving_key *key;
} weir_space_saving;

/* The memory of a sketch, in bytes. */
size_t weir_space_saving_bytes(size_t max);

/* Makes an empty sketch for 1 key or more. Returns NULL if memory is exhausted. */
weir_space_saving *weir_space_saving_new(size_t max, int64_t step);
void weir_space_saving_free(weir_space_saving *h); /* accepts NULL */

/* Copies a sketch to another with the same max. */
void weir_space_saving_copy(weir_space_saving *to, const weir_space_saving *from);

/* Halves all costs once for each step since the last decay. Does nothing if `step` is not later.
 * Removes keys whose cost becomes 0. */
void weir_space_saving_decay(weir_space_saving *h, int64_t step);

/* Adds `cost`, 1 or more, to a key. Sums saturate at INT64_MAX. If the list is full, a new key
 * evicts the key with the lowest cost, and inherits that cost. */
void weir_space_saving_add(weir_space_saving *h, uint64_t hash, const void *key, size_t len,
                           uint64_t cost, uint64_t requests);

/* The upper bound of the cost of an unlisted key. */
uint64_t weir_space_saving_unlisted(const weir_space_saving *h);

/* ---- merging --------------------------------------------------------------------------------- */

typedef struct weir_space_saving_row {
    uint64_t hash, cost, least, requests;
    const weir_space_saving_key *key;
} weir_space_saving_row;

typedef struct weir_space_saving_sum {
    uint64_t cost, unlisted;
    size_t len; /* of rows */
} weir_space_saving_sum;

/* Merges n sketches.
 *  ret_rows  an array with one row for each key of each sketch. Written in the order of the cost,
 *            highest first. The rows point into the sketches. */
weir_space_saving_sum weir_space_saving_merge(weir_space_saving *const *lists, size_t n,
                                              weir_space_saving_row *ret_rows);

#endif
