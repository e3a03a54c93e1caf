/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_LARGE_H
#define WEIR_STORE_LARGE_H
/* Large states, and states that grow: logs and long lists of slices, in a fixed part of memory. A
 * key is a 64-bit hash, keyed by the caller with a secret. The keys are divided among stripes, each
 * with a lock (lock striping).
 *
 * Processes may share the memory, mapped at different addresses. If a process is killed, its
 * committed decisions stay. The next process that locks the stripe rolls back what was not
 * committed. Data that a power failure may have damaged is not trusted: a damaged entry is dropped
 * and counted.
 *
 * If the memory is full, keys are evicted, see index.h.
 *
 * A decision takes about a microsecond, for a log of any length. If the state grows, all of it is
 * copied and memory for it may have to be freed: some milliseconds for a log of a million requests.
 * All functions but open and close may be called from any thread. */

#include <weir/weir_store.h>

#include "port/atomic.h"
#include "store/robust_lock.h"
#include "store/state.h"

typedef struct weir_large weir_large;

#define WEIR_LARGE_BYTES_MIN 65536

/* Opens the memory of large states. That takes the same time for any contents.
 *  part       `bytes` bytes, at least WEIR_LARGE_BYTES_MIN, that begin on a page. All zero if
 *             is_new.
 *  processes  must outlive *ret.
 * Returns WEIR_OK, also for memory that is all zero; WEIR_E_NOMEM; WEIR_E_RANGE for too few bytes;
 * WEIR_E_SYNTAX if the memory does not hold large states, or has another size. */
weir_status weir_large_open(weir_large **ret, void *part, size_t bytes, bool is_new,
                            const weir_processes *processes);
void weir_large_close(weir_large *l); /* accepts NULL */

typedef struct weir_large_call {
    const weir_policy *policy;
    uint64_t hash;
    int64_t now_ns; /* 0..WEIR_NOW_NS_MAX. The decision is at the later of now_ns and the stripe's
                       time */
    weir_state_fn fn;
    void *ctx;
    int64_t refund; /* units that fn passes to weir_refund(); 0 if fn does not call it */
    bool any_words; /* fn may write words that weir_check() and weir_refund() do not write */
    weir_when_full when_full;
    const port_word *kept_until_ns; /* see weir_table_kept_until(); NULL: insert an absent key */
} weir_large_call;

/* Runs fn on the state of a key, with its stripe locked, at the state's level. If fn returns
 * WEIR_E_ROOM, it runs again at the next level. The new state is stored, unless the key is idle.
 * If the memory is full and other threads have locked the keys that could be evicted, waits for
 * them, and runs fn again.
 * Returns the status of fn; WEIR_E_NOMEM if the state would not fit even if all other keys were
 * evicted; WEIR_E_FULL if it does not fit and when_full is WEIR_REFUSE; WEIR_E_ELSEWHERE if the key
 * is absent before *kept_until_ns. On any of these errors nothing was written. */
weir_status weir_large_run(weir_large *l, const weir_large_call *call);

/* A key that will be decided on. */
typedef struct weir_large_hint {
    const weir_large *large;
    const weir_policy *policy;
    uint64_t hash;
} weir_large_hint;

/* Prefetches what the decisions on n keys load, at most WEIR_LARGE_HINTS_MAX. Takes no lock. */
enum { WEIR_LARGE_HINTS_MAX = 32 };
void weir_large_prefetch(const weir_large_hint *keys, size_t n);

/* Resets a key. */
void weir_large_reset(weir_large *l, uint64_t hash);

/* ---- transactions on several keys ------------------------------------------------------------ */

/* A caller that needs several stripes locks them in ascending order. weir_large_try() is
 * weir_large_run() on a stripe that the caller has locked, without the commit. Each try sees the
 * results of earlier ones. Then the caller commits or rolls back all tries, stripe by stripe, and
 * releases the locks. If a process is killed, its uncommitted tries are rolled back.
 *
 * A stripe allows WEIR_TAKE_MANY_MAX uncommitted tries. Beyond that, weir_large_try() may return
 * WEIR_E_BUSY. Keys of a stripe with uncommitted tries are not evicted. weir_large_try() does not
 * wait for keys that other threads have locked: it may return WEIR_E_NOMEM. */
size_t weir_large_stripe(const weir_large *l, uint64_t hash);
void weir_large_lock(weir_large *l, size_t stripe);
weir_status weir_large_try(weir_large *l, const weir_large_call *call);
void weir_large_commit(weir_large *l, size_t stripe);
void weir_large_roll_back(weir_large *l, size_t stripe);
/* Returns the state of a key in a locked stripe, and its level; NULL if the key is absent, or its
 * state is not one of `p`. Valid until the next call on the stripe. */
const uint64_t *weir_large_look(weir_large *l, const weir_policy *p, uint64_t hash,
                                unsigned *ret_level);
/* Whether a locked stripe has the state of a key, idle or not. */
bool weir_large_has(weir_large *l, uint64_t hash);
/* Resets a key in a locked stripe without uncommitted tries. */
void weir_large_drop(weir_large *l, uint64_t hash);
void weir_large_unlock(weir_large *l, size_t stripe); /* the stripe has no uncommitted tries */

/* ---- iteration ------------------------------------------------------------------------------- */

#define WEIR_LARGE_FORM 0x4c /* the weir_key_state.form of all large states */

/* Calls fn for every key, idle or not, with its stripe locked: fn must not call functions on
 * `l`. */
void weir_large_each(weir_large *l, weir_key_state_fn fn, void *ctx);

/* The same for a part of the keys that has `hash`, if there is such a key. */
void weir_large_get(weir_large *l, uint64_t hash, weir_key_state_fn fn, void *ctx);

/* Adds a state in the place of the one with the same hash. Evicts no other key. Returns WEIR_OK,
 * also for an idle key, which is not stored; WEIR_E_RANGE for an invalid state; WEIR_E_FULL;
 * WEIR_E_NOMEM. */
weir_status weir_large_put(weir_large *l, const weir_key_state *stored);

typedef struct weir_large_stats {
    uint64_t keys;
    uint64_t bytes; /* that they use */
    uint64_t evicted;
    uint64_t refused; /* new states that did not fit, under WEIR_REFUSE */
    uint64_t damaged; /* damaged entries that were dropped */
} weir_large_stats;

weir_large_stats weir_large_stats_get(weir_large *l);

#endif
