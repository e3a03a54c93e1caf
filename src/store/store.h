/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H
/* The internals of a store: its parts, how a key is hashed, and how a key's state is found by its
 * hash. Only the files of src/store include this header. */

#include <weir/weir_store.h>

#include "store/clock.h"
#include "store/image/image.h"
#include "store/key_hash.h"
#include "store/large/large.h"
#include "store/reserve.h"
#include "store/table/table.h"

/* Where the states of a policy are. A partition has an area: a range of the hash table's buckets,
 * and a part of the large states. All policies without a partition share the common area. */
typedef struct weir_area {
    weir_table *table; /* small states */
    weir_large *large; /* large states */
} weir_area;

/* A partition, see weir_store_partition. */
typedef struct weir_partition {
    weir_area area;          /* where it has no memory of its own, that of the store */
    weir_image_partition is; /* its name and its sizes */
} weir_partition;

struct weir_store {
    weir_area common;           /* of all policies without a partition */
    weir_partition *partitions; /* sorted by name */
    size_t partitions_len;
    weir_reserve *reserved;
    bool sync_always;
    bool plain; /* neither has partitions nor syncs always */
    weir_when_full when_full;
    weir_hash_keys hash;
    weir_secret secret;
    uint64_t order; /* in which a transaction locks its stores: follows from the secret */
    weir_image *image;
    weir_resets *resets;                /* in the header of the image */
    struct weir_huge_pages *huge_pages; /* NULL: no thread */
    weir_zones zones;                   /* find is NULL: UTC only */
    uint64_t memory_max, large_max;
    weir_clock clock;
    struct weir_kept *kept; /* see kept.h */
};

/* ---- keys ------------------------------------------------------------------------------------ */

static inline bool weir_good_time(int64_t now_ns)
{
    return now_ns >= 0 && now_ns <= WEIR_NOW_NS_MAX;
}

static inline bool weir_good_cost(int64_t cost)
{
    return cost >= 0 && cost <= WEIR_COST_MAX;
}

static inline bool weir_good_request(const weir_store_request *r, int64_t now_ns)
{
    return weir_good_key(r->key, r->key_len) && weir_good_time(now_ns) && weir_good_cost(r->cost) &&
           weir_keep_is_good(r->keep);
}

/* Whether a request at a good time is good and keeps nothing, as the fast path requires. */
static inline bool weir_plain_request(const weir_store_request *r)
{
    return weir_good_key(r->key, r->key_len) && weir_good_cost(r->cost) && r->keep == 0;
}

/* Hashes a key of 1..WEIR_KEY_MAX bytes. The hash identifies the key's state. Any thread. */
static inline uint64_t weir_store_hash(const weir_store *s, uint64_t policy_id, const void *key,
                                       size_t len)
{
    return weir_hash(&s->hash, policy_id, key, len);
}

/* Starts the clock of a store whose parts are open: it goes on from the readings in its memory. */
void weir_store_start_clock(weir_store *s);

/* Lets other openings that set `shared` use the file of a store that was opened without it, for a
 * daemon that hands over to another. weir_store_own() takes the file back, once no other opening
 * uses it. Return whether the file is shared, or owned, now. One thread at a time. */
bool weir_store_share(weir_store *s);
bool weir_store_own(weir_store *s);

/* ---- partitions ------------------------------------------------------------------------------ */

/* In the id of a policy in a partition, these bits are those of the hash of the partition's name.
 * So the partition follows from the id, also for a reservation of an earlier opening. */
enum { WEIR_ID_PARTITION_BITS = 24, WEIR_ID_PARTITION_AT = 34 };
#define WEIR_ID_PARTITION ((((uint64_t)1 << WEIR_ID_PARTITION_BITS) - 1) << WEIR_ID_PARTITION_AT)

_Static_assert((WEIR_ID_PARTITION & WEIR_POLICY_CLASS) == 0, "the class stays");

/* Whether an id is that of a generation of `id`, up to the current one; see
 * weir_store_current_id(). */
bool weir_id_is_of(const weir_store *s, uint64_t current_id, uint64_t id, uint64_t policy);

/* Whether the registry has the policy of an id. */
bool weir_store_knows(const weir_store *s, uint64_t policy_id);

/* The id that the record of a reservation has, under which the registry must have the policy. The
 * registry is not filled with the ids of generations: it has the id of the text. */
uint64_t weir_recorded_id(const weir_store *s, const weir_policy *p, uint64_t policy_id);

/* Finds where the states of a policy's id are. */
const weir_area *weir_area_find(const weir_store *s, uint64_t policy_id);

static inline const weir_area *weir_area_of(const weir_store *s, uint64_t policy_id)
{
    return __builtin_expect(s->partitions_len == 0, 1) ? &s->common : weir_area_find(s, policy_id);
}

/* ---- callbacks on a key's state -------------------------------------------------------------- */

/* One call on a state: the ctx of weir_check_state() and weir_peek_state(). */
typedef struct weir_state_call {
    int64_t cost, keep;
    weir_decision decision; /* a copy: the caller's may be written only after the last run */
    int64_t over;           /* of weir_charge() */
} weir_state_call;

/* weir_check_keep() and weir_peek_keep() as callbacks on a state. */
weir_status weir_check_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                             int64_t now_ns, weir_usage *ret_usage);
weir_status weir_peek_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                            int64_t now_ns, weir_usage *ret_usage);

/* Runs fn on the state of a hash under a policy's id, at the later of now_ns and the store's time.
 * fn may change any word of the state. It does not expire reservations. Any thread. */
weir_status weir_store_run(weir_store *s, const weir_policy *p, uint64_t policy_id, uint64_t hash,
                           int64_t now_ns, weir_state_fn fn, void *ctx);

/* Does what a public function does for one key: expires reservations, runs the callback, and syncs.
 *  named  the key and the policy's id, to find a state that is elsewhere; a key of NULL is unknown.
 *         NULL: WEIR_E_ELSEWHERE is returned.
 * Returns the status of the callback; WEIR_E_RANGE for a bad time. Any thread. */
weir_status weir_store_call(weir_store *s, const weir_area *at, weir_large_call *call,
                            const weir_store_request *named);

/* When the lease of a charge ends that weir_check_state() has made; 0: it holds nothing. Pure. */
static inline int64_t weir_lease_of(const weir_state_call *c, const weir_policy *p,
                                    const uint64_t *state, unsigned level, int64_t now_ns)
{
    return c->decision.allowed && c->cost > 0 ? weir_lease_end(p, state, level, now_ns) : 0;
}

/* Returns the units of reservations that have expired by now_ns. Call it before any decision at
 * now_ns. Any thread. */
static inline void weir_store_expire_due(weir_store *s, int64_t now_ns)
{
    if (__builtin_expect(weir_reserve_due(s->reserved, now_ns), 0))
        weir_reserve_expire(s->reserved, now_ns);
}

/* With WEIR_SYNC_ALWAYS, waits until all changes are on the disk. Call it before returning a
 * decision that changed a state. Any thread. */
static inline void weir_store_sync_if_always(weir_store *s)
{
    if (__builtin_expect(s->sync_always, 0))
        (void)!weir_image_sync(s->image); /* counts its failures; the decision stays valid */
}

/* ---- huge pages (huge_pages.c) --------------------------------------------------------------- */

/* When a store in memory uses huge pages. Hashing spreads keys over the whole table, so a few
 * hundred of them would make all of it resident in huge pages of 2 MiB. A store therefore begins
 * with small pages, and resident memory grows by at most one of them with each key. Lookups are
 * faster in huge pages. So a thread moves the table to huge pages once a quarter of its pages is in
 * use, and the large states as they fill their part from its beginning. It moves one huge page at a
 * time, while other threads use the memory. */

/* A store with less memory uses huge pages from the beginning. Without prefault it has no
 * thread. */
#define WEIR_SMALL_PAGES_BYTES_MIN ((size_t)16 << 20)

typedef struct weir_huge_pages weir_huge_pages;

/* Starts the thread for a store in memory, whose parts are open.
 *  prefault  begin to move the memory at once, however little is in use.
 *  ret       NULL if no thread is needed.
 * If the system refuses a thread, the store uses huge pages from now on. Returns WEIR_OK;
 * WEIR_E_NOMEM. */
weir_status weir_huge_pages_start(weir_huge_pages **ret, weir_store *s, bool prefault);

/* Stops the thread, which usually takes a few milliseconds at most. Accepts NULL. */
void weir_huge_pages_stop(weir_huge_pages *h);

#endif
