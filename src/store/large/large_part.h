/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_LARGE_PART_H
#define WEIR_STORE_LARGE_PART_H
/* How the part of large.h lies in memory, and what large.c and room.c have in common: stripes,
 * blocks, and the index, whose buckets each begin a chain of blocks.
 *
 *     head of the part | stripes | two bitmaps | buckets | units
 *
 * A hash belongs to the bucket of its low bits, and that to the stripe of its low bits. */

#include "store/large/large.h"
#include "store/large/stripe.h"

struct weir_large {
    weir_stripe *stripe;
    size_t stripes; /* a power of two */
    port_word *bucket;
    size_t buckets; /* a power of two */
    weir_blocks blocks;
};

static inline weir_stripe *weir_large_stripe_of(weir_large *l, uint64_t hash)
{
    return &l->stripe[hash & (l->stripes - 1)];
}

/* Locks a stripe, and undoes what a dead process was doing there. */
void weir_large_enter(weir_large *l, weir_stripe *s);

/* The same, but false if somebody who is alive holds it. */
bool weir_large_try_enter(weir_large *l, weir_stripe *s);

/* The link that leads to the block of `hash`, which is written to *ret_at; the last link and 0 if
 * there is none. The stripe is locked. Cuts a chain off where it is damaged. */
port_word *weir_large_find(weir_large *l, uint64_t hash, uint64_t *ret_at);

/* The link that leads to the block `at` of `hash`, or NULL. */
port_word *weir_large_find_block(weir_large *l, uint64_t hash, uint64_t at);

/* Takes a block out of the index and frees it, at once: the stripe is locked and idle. */
void weir_large_remove(weir_large *l, weir_stripe *s, port_word *link, uint64_t at);

/* What room is made for. */
typedef struct weir_want {
    uint64_t hash;
    uint64_t words;
    unsigned level;
    uint64_t keep_at;    /* a block that must stay, or 0 */
    weir_stripe *stripe; /* of hash, locked */
    weir_when_full when_full;
} weir_want;

/* A block for a state, put down in the stripe as born; what is in its place goes. Returns WEIR_OK,
 * WEIR_E_NOMEM if there can be none, WEIR_E_FULL, WEIR_E_BUSY if too much waits to be kept. */
weir_status weir_large_room(weir_large *l, const weir_want *want, uint64_t *ret_at);

#endif
