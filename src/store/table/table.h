/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_TABLE_H
#define WEIR_STORE_TABLE_H
/* The table: small states of fixed size, in memory that is taken once and never grows. A key is a
 * 64-bit hash, which the caller has keyed with a secret. It must not know a key's text, nor what a
 * policy means beyond the size of its state.
 *
 * A key has two buckets, both given by its hash. It lies in the first if there was room, else in
 * the second. Where both are full of states that are not fresh, those closest to fresh make room
 * for it. All functions but open and close may be called from any thread at once, and from any
 * process that has the same memory open. */

#include <weir/weir_store.h>

#include "store/robust_lock.h"
#include "store/state.h"

typedef struct weir_table weir_table;

/* How many words a state of `p` takes in the table, or 0 if its states do not belong there: they
 * grow, or are too large. */
size_t weir_table_words(const weir_policy *p);

/* Works in `bytes` of memory at `part`, which begins on a page and must outlive the table.
 *  part    all zero, or what a table of the same size has left there.
 *  bytes   at least WEIR_TABLE_BYTES_MIN.
 *  processes  must outlive the table.
 *  refuse  keys that would need an eviction are refused.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
#define WEIR_TABLE_BYTES_MIN 49152
weir_status weir_table_open(weir_table **ret, void *part, size_t bytes,
                            const weir_processes *processes, bool refuse);
void weir_table_close(weir_table *t); /* accepts NULL; the part stays as it is */

/* The smallest part of which weir_table_each() can tell the whole hash of a key. */
#define WEIR_TABLE_BYTES_WHOLE ((size_t)5 << 20)

/* Runs fn on the state of `hash` at level WEIR_LEVEL_MAX, and keeps what it leaves.
 *  p       weir_table_words(p) is not 0.
 *  now_ns  0..WEIR_NOW_NS_MAX; an earlier one than weir_table_now() is read as that.
 * Returns what fn does; WEIR_E_FULL if there is no room and none is made: then nothing changed. */
weir_status weir_table_run(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           weir_state_fn fn, void *ctx);

/* Decides requests about one key, in order, as weir_check() does: the hot path.
 *  requests  of one policy, whose states weir_pack_is_time(); key and id are not looked at, costs
 *            are in range. Statuses are written, WEIR_OK or WEIR_E_FULL, and decisions. */
void weir_table_take_row(weir_table *t, weir_store_request *requests, size_t n, uint64_t hash,
                         int64_t now_ns);

/* The same for one request. Returns WEIR_OK or WEIR_E_FULL. */
weir_status weir_table_take_one(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                                int64_t cost, weir_decision *ret);

/* One of several keys that are decided as one. */
typedef struct weir_table_one {
    const weir_policy *policy;
    uint64_t hash;
    weir_state_fn fn;
    void *ctx;
    weir_status status; /* out: what fn returned, or WEIR_E_FULL: no room for what it left */
} weir_table_one;

/* Runs the functions, in order, each on its key's state, with all keys locked against others, and
 * then asks `keep` whether what they left is to be kept: all of it, or nothing. Before others see
 * it, it calls `finish`.
 *  n        0..WEIR_TABLE_MANY_MAX; keys of the same hash see each other's changes.
 *  written  whether all is kept.
 * Returns WEIR_OK, or WEIR_E_FULL, which is then the status of one of them: nothing was kept. */
#define WEIR_TABLE_MANY_MAX 16
weir_status weir_table_run_many(weir_table *t, weir_table_one *ones, size_t n, int64_t now_ns,
                                bool (*keep)(void *ctx, const weir_table_one *ones),
                                void (*finish)(void *ctx, bool written), void *ctx);

/* Makes a key fresh, whatever its policy. */
void weir_table_reset(weir_table *t, uint64_t hash);

/* Sets out to read what a run will ask for first; and if what has arrived of that says so, what it
 * will ask for then. */
void weir_table_prefetch(const weir_table *t, uint64_t hash);
void weir_table_prefetch_alternate(const weir_table *t, uint64_t hash);

/* The later of now_ns and the time that the table has seen. */
int64_t weir_table_now(weir_table *t, int64_t now_ns);

/* Tells every entry, bucket by bucket. Returns false if fn stopped it. */
bool weir_table_each(weir_table *t, weir_key_state_fn fn, void *ctx);

/* Files an entry that weir_table_each() of this table or another told. WEIR_E_RANGE if it cannot be
 * one, WEIR_E_FULL if it was refused. */
weir_status weir_table_put(weir_table *t, const weir_key_state *stored);

typedef struct weir_table_stats {
    uint64_t keys;
    uint64_t bytes;     /* taken by them */
    uint64_t bytes_max; /* that they can take */
    uint64_t evicted;
    uint64_t refused;
    uint64_t damaged; /* thrown away because they were not whole */
} weir_table_stats;

weir_table_stats weir_table_stats_get(weir_table *t);

#endif
