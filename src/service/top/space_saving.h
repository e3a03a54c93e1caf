/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_TOP_SPACE_SAVING_H
#define WEIR_SERVICE_TOP_SPACE_SAVING_H
/* The heaviest keys of a stream in bounded memory, and several such lists as one. It must not know
 * what is weighed, nor any thread. For this room only.
 *
 * Source: Space-Saving (Metwally, Agrawal, El Abbadi 2005) with weights; the sum of several lists
 * as of mergeable summaries (Agarwal et al. 2012). With N the weight of the stream, t that of a
 * key, and a list of `max` keys:
 *
 *     a key that is listed       least <= t <= cost
 *     one that is not            t <= N / max
 *
 * so that every key of more than N / max is listed. Where several lists are put together, max is
 * that of one of them and N the sum. A fading rounds down: whoever compares with weights that are
 * not rounded finds each figure too low by less than 1. */

#include <weir/weir.h>

#define WEIR_SPACE_SAVING_TEXT_MAX 128 /* bytes kept of a key */

/* All of a key that is not looked at to find it. */
typedef struct weir_space_saving_key {
    uint64_t least;    /* what it certainly weighs */
    uint64_t requests; /* since it is in the list */
    uint32_t len;      /* of the whole key */
    char text[WEIR_SPACE_SAVING_TEXT_MAX];
} weir_space_saving_key;

typedef struct weir_space_saving_weight {
    uint64_t hash; /* of the whole key: what it is known by */
    uint64_t cost; /* what it weighs at most */
} weir_space_saving_weight;

typedef struct weir_space_saving {
    uint64_t cost; /* of all keys, listed or not */
    int64_t step;  /* how often all of it has faded */
    size_t len, max;
    weir_space_saving_weight *weight; /* apart from the keys, so that a search reads little */
    weir_space_saving_key *key;
} weir_space_saving;

/* What a list of `max` keys takes, in bytes. */
size_t weir_space_saving_bytes(size_t max);

/* An empty list for 1 key or more, at fading `step`. NULL if there is no memory. */
weir_space_saving *weir_space_saving_new(size_t max, int64_t step);
void weir_space_saving_free(weir_space_saving *h); /* accepts NULL */

/* Makes `to`, of the same max, equal to `from`. */
void weir_space_saving_copy(weir_space_saving *to, const weir_space_saving *from);

/* Halves all weights once for each step from the last one; not if `step` is before it. What comes
 * to nothing leaves the list. */
void weir_space_saving_fade(weir_space_saving *h, int64_t step);

/* Adds `cost`, 1 or more, to a key. Sums stop at INT64_MAX. */
void weir_space_saving_add(weir_space_saving *h, uint64_t hash, const void *key, size_t len,
                           uint64_t cost, uint64_t requests);

/* What a key that is not listed can weigh at most. */
uint64_t weir_space_saving_unlisted(const weir_space_saving *h);

/* ---- several as one -------------------------------------------------------------------------- */

typedef struct weir_space_saving_row {
    uint64_t hash, cost, least, requests;
    const weir_space_saving_key *key;
} weir_space_saving_row;

typedef struct weir_space_saving_sum {
    uint64_t cost, unlisted;
    size_t len; /* of rows */
} weir_space_saving_sum;

/* Puts n lists together.
 *  ret_rows  room for as many as all of them have keys; the heaviest comes first. They point into
 *            the lists. */
weir_space_saving_sum weir_space_saving_merge(weir_space_saving *const *lists, size_t n,
                                              weir_space_saving_row *ret_rows);

#endif
