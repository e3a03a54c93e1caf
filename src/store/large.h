/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_LARGE_H
#define WEIR_STORE_LARGE_H
/* Large states, and those that grow: allocated one by one, in shards that each have a lock and a
 * chained hash table, within a memory budget. A key is a 64-bit hash, which the caller has keyed
 * with a secret. All functions but open and close may be called from any thread at once. */

#include "store/state.h"

typedef struct weir_large weir_large;

/* Returns WEIR_OK or WEIR_E_NOMEM. */
weir_status weir_large_open(weir_large **ret, uint64_t memory_max);
void weir_large_close(weir_large *l); /* accepts NULL */

/* Runs fn on the state of `hash` under its shard's lock, at the level that it has grown to, again
 * at the next one if it says WEIR_E_ROOM; keeps what it leaves, for as long as that is not fresh.
 *  now_ns  0..WEIR_NOW_NS_MAX; an earlier one than the shard has seen is read as that.
 * Returns what fn does, but WEIR_E_NOMEM if there is no room: then nothing was written. */
weir_status weir_large_run(weir_large *l, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           weir_state_fn fn, void *ctx);

/* Makes a key fresh. */
void weir_large_reset(weir_large *l, uint64_t hash);

typedef struct weir_large_stats {
    uint64_t keys;
    uint64_t bytes; /* taken by them */
    uint64_t evicted;
} weir_large_stats;

weir_large_stats weir_large_stats_get(weir_large *l);

#endif
