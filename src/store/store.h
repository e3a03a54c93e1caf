/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H
/* What of a store its own files share, and nobody else may see: what it is made of, how keys become
 * hashes, and how a state is reached by its hash. */

#include <weir/weir_store.h>

#include "store/clock.h"
#include "store/image/image.h"
#include "store/key_hash.h"
#include "store/large/large.h"
#include "store/reserve.h"
#include "store/table/table.h"

struct weir_store {
    weir_table *table;
    weir_large *large;
    weir_reserve *reserved;
    bool sync_always;
    weir_when_full when_full;
    weir_hash_keys hash;
    weir_secret secret;
    weir_image *image;
    weir_zones zones; /* find is NULL: UTC alone */
    uint64_t memory_max, large_max;
    weir_clock clock;
};

/* ---- keys ------------------------------------------------------------------------------------ */

static inline bool weir_good_key(const void *key, size_t len)
{
    return key && len >= 1 && len <= WEIR_KEY_MAX;
}

static inline bool weir_good_time(int64_t now_ns)
{
    return now_ns >= 0 && now_ns <= WEIR_NOW_NS_MAX;
}

static inline bool weir_good_cost(int64_t cost)
{
    return cost >= 0 && cost <= WEIR_COST_MAX;
}

/* What a key's state is filed under. The key is 1..WEIR_KEY_MAX bytes. Any thread. */
static inline uint64_t weir_store_hash(const weir_store *s, uint64_t policy_id, const void *key,
                                       size_t len)
{
    return weir_hash(&s->hash, policy_id, key, len);
}

/* ---- what is run on a key's state ------------------------------------------------------------ */

/* One charge; what weir_check_state() and weir_peek_state() have for ctx. */
typedef struct weir_charge {
    int64_t cost;
    weir_decision decision; /* not the caller's own: a run may be in vain */
} weir_charge;

/* weir_check() and weir_peek() as functions on a state. */
weir_status weir_check_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                             int64_t now_ns, int64_t *ret_fresh_after_ns);
weir_status weir_peek_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                            int64_t now_ns, int64_t *ret_fresh_after_ns);

/* Runs fn, which may change any of the state's words, on the state of a hash, at now_ns or, if that
 * is later, the store's time. It looks for no reservation that has run out. Any thread. */
weir_status weir_store_run(weir_store *s, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           weir_state_fn fn, void *ctx);

/* To be called before anything is decided at now_ns. Any thread. */
static inline void weir_store_expire_due(weir_store *s, int64_t now_ns)
{
    if (__builtin_expect(weir_reserve_due(s->reserved, now_ns), 0))
        weir_reserve_expire(s->reserved, now_ns);
}

/* To be called before a change is answered. Any thread. */
static inline void weir_store_sync_if_always(weir_store *s)
{
    if (__builtin_expect(s->sync_always, 0))
        (void)!weir_image_sync(s->image); /* a failure is counted there; what was decided, was */
}

#endif
