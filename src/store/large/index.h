/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_INDEX_H
#define WEIR_STORE_INDEX_H
/* The index of large states: a hash table with chaining, in which each bucket is the head of a
 * linked list of blocks. It also has the locks: a bucket belongs to the stripe that its low bits
 * name (lock striping).
 *
 * The layout of the memory:
 *
 *     header | stripes | two bitmaps | buckets | units of blocks
 *
 * The bits of a key's hash above the class are the number of its bucket, and the low bits of that
 * number are the number of its stripe. */

#include "store/large/large.h"
#include "store/large/stripe.h"

struct weir_large {
    weir_stripe *stripe;
    size_t stripes; /* a power of two */
    port_word *bucket;
    size_t buckets; /* a power of two */
    weir_allocator blocks;
};

static inline size_t weir_index_bucket(const weir_large *l, uint64_t hash)
{
    return (size_t)(hash >> WEIR_CLASS_BITS) & (l->buckets - 1);
}

static inline weir_stripe *weir_large_stripe_of(weir_large *l, uint64_t hash)
{
    return &l->stripe[weir_index_bucket(l, hash) & (l->stripes - 1)];
}

/* Whether this process has locked a stripe. For assertions. */
static inline bool weir_index_is_locked(const weir_large *l, const weir_stripe *s)
{
    return port_word_load_relaxed(&s->lock) == l->blocks.processes->self;
}

/* Does not wait. Returns false if a live process holds the lock. */
bool weir_index_try_lock(weir_large *l, weir_stripe *s);

/* Rolls back what a dead owner of the stripe was doing. The stripe is locked. */
void weir_index_repair(weir_large *l, weir_stripe *s);

/* Locks a stripe. If the last owner died, rolls back what it was doing. */
static inline void weir_index_lock(weir_large *l, weir_stripe *s)
{
    weir_lock_result got = weir_robust_lock(&s->lock, l->blocks.processes);
    /* An open transaction without a dead owner is damage. */
    if (got == WEIR_LOCK_OWNER_DIED || !weir_stripe_idle(s))
        weir_index_repair(l, s);
}

/* The stripe is locked for all functions below. They cut a chain off where it is damaged. */

/* Finds the block of `hash`. Returns the link that points to it and sets *ret_at. If there is none,
 * returns the last link of the chain and sets *ret_at to 0. */
port_word *weir_index_find(weir_large *l, uint64_t hash, uint64_t *ret_at);

/* Returns the link that points to the block `at` of `hash`, or NULL. */
port_word *weir_index_find_block(weir_large *l, uint64_t hash, uint64_t at);

/* Takes a block out of the index and frees it at once. The stripe has no open transaction. */
void weir_index_remove(weir_large *l, weir_stripe *s, port_word *link, uint64_t at);

/* Takes a block out of the index as a part of the stripe's transaction. Returns WEIR_OK, or
 * WEIR_E_BUSY if the journal is full. */
weir_status weir_index_detach(weir_large *l, weir_stripe *s, port_word *link, uint64_t at);

/* Puts a new block into the index, as a part of the stripe's transaction. It replaces the block
 * `old`, unless that is 0. Returns WEIR_OK, or WEIR_E_BUSY if the journal is full. */
weir_status weir_index_insert(weir_large *l, weir_stripe *s, uint64_t hash, uint64_t at,
                              uint64_t old);

/* Calls fn for each block of bucket i. Returns false if fn stopped the iteration. */
bool weir_index_each(weir_large *l, size_t i, weir_key_state_fn fn, void *ctx);

/* Counts a damaged entry. */
void weir_index_count_damage(weir_stripe *s);

/* ---- eviction (eviction.c) ------------------------------------------------------------------- */

/* Eviction of large states: which keys are dropped when the memory for large states is full. It
 * first drops keys that have full quota, then samples keys and evicts the one closest to full
 * quota, then clears a whole stretch of memory. */

/* The block that memory is needed for. */
typedef struct weir_block_request {
    uint64_t hash;
    uint64_t words;
    unsigned level;
    uint64_t keep_at;    /* a block that must not be evicted, or 0 */
    weir_stripe *stripe; /* the stripe of `hash`, locked */
    weir_when_full when_full;
    bool busy; /* set if a key was not evicted because its stripe was locked */
} weir_block_request;

/* Allocates a block for a state, and evicts others for it if there is no free memory. The block is
 * in the stripe's list of pending blocks, as WEIR_PENDING_ADDED.
 * Returns WEIR_OK; WEIR_E_NOMEM if the block cannot fit; WEIR_E_FULL under WEIR_REFUSE; WEIR_E_BUSY
 * if the stripe has too many pending blocks. */
weir_status weir_eviction_alloc(weir_large *l, weir_block_request *want, uint64_t *ret_at);

#endif
