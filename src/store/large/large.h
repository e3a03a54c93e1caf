/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_LARGE_H
#define WEIR_STORE_LARGE_H
/* Large states, and those that grow, within one given part of memory. A key is a 64-bit hash, which
 * the caller has keyed with a secret. Stripes of keys each have a lock.
 *
 * The part may be a file that processes share, mapped at different addresses. A process may be
 * killed at any instruction: what it has answered stays, what it had not is undone by the next that
 * comes for the lock. What a power loss leaves behind is not trusted: a damaged entry is dropped
 * and counted.
 *
 * Where there is no room, what is as good as fresh goes first, then what is closest to fresh of a
 * few keys taken at random. If that leaves no gap that is wide enough, all in one place goes.
 *
 * Time: a decision takes about a microsecond, on a log of any length. It is longer if the state
 * grows, for then all of it is copied, and room of its size may have to be made: some milliseconds
 * for a log of a million requests. All functions but open and close may be called from any thread
 * at once. */

#include <weir/weir_store.h>

#include "store/robust_lock.h"
#include "store/state.h"

typedef struct weir_large weir_large;

#define WEIR_LARGE_BYTES_MIN 65536

/* Opens a part, in a time that does not depend on what is in it.
 *  part    `bytes` bytes, WEIR_LARGE_BYTES_MIN or more, that begin on a page; zeroed if it is_new.
 *  processes  must outlive *ret.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_RANGE for too few bytes; WEIR_E_SYNTAX if the part is none
 * of this size. One that is all zero is fresh. */
weir_status weir_large_open(weir_large **ret, void *part, size_t bytes, bool is_new,
                            const weir_processes *processes);
void weir_large_close(weir_large *l); /* accepts NULL */

typedef struct weir_large_call {
    const weir_policy *policy;
    uint64_t hash;
    int64_t now_ns; /* 0..WEIR_NOW_NS_MAX; an earlier one than the stripe's is read as that */
    weir_state_fn fn;
    void *ctx;
    int64_t refund; /* units that fn gives to weir_refund(); 0 if it does not */
    bool any_words; /* fn may write what neither weir_check() nor that would */
    weir_when_full when_full;
} weir_large_call;

/* Runs fn on the state of a key under its stripe's lock, at the level that it has grown to, again
 * at the next one if it says WEIR_E_ROOM; keeps what it leaves, for as long as that is not fresh.
 * Returns what fn does; or WEIR_E_NOMEM if the state could not fit if all others were gone,
 * WEIR_E_FULL if it could and when_full says WEIR_REFUSE: then nothing was written. */
weir_status weir_large_run(weir_large *l, const weir_large_call *call);

/* Makes a key fresh. */
void weir_large_reset(weir_large *l, uint64_t hash);

/* ---- several keys as one --------------------------------------------------------------------- */

/* A caller that needs several stripes locks them in ascending order. Later tries see the result of
 * earlier ones. All tries are committed, or all are dropped, stripe by stripe, before the locks are
 * released. If a process is killed, its uncommitted tries are dropped.
 *
 * weir_large_try() is weir_large_run() on a stripe that the caller has locked. At most
 * WEIR_TAKE_MANY_MAX tries may wait in a stripe; with more it may return WEIR_E_BUSY. A key that
 * has to go to make room is never one of a stripe in which something waits. */
size_t weir_large_stripe(const weir_large *l, uint64_t hash);
void weir_large_lock(weir_large *l, size_t stripe);
weir_status weir_large_try(weir_large *l, const weir_large_call *call);
void weir_large_commit(weir_large *l, size_t stripe);
void weir_large_roll_back(weir_large *l, size_t stripe);
void weir_large_unlock(weir_large *l, size_t stripe); /* nothing waits there */

/* ---- contents -------------------------------------------------------------------------------- */

#define WEIR_LARGE_FORM 0x4c /* weir_key_state.form of all that is here */

/* Calls fn for every key, fresh or not, under its stripe's lock: it must not call `l`. */
void weir_large_each(weir_large *l, weir_key_state_fn fn, void *ctx);

/* Puts a state in the place of what there is of its hash; nobody else is forgotten for it. Returns
 * WEIR_OK, also if it is fresh by now and not kept; WEIR_E_RANGE if it cannot be one of these;
 * WEIR_E_FULL; WEIR_E_NOMEM. */
weir_status weir_large_put(weir_large *l, const weir_key_state *stored);

typedef struct weir_large_stats {
    uint64_t keys;
    uint64_t bytes; /* taken by them */
    uint64_t evicted;
    uint64_t refused; /* that found no room under WEIR_REFUSE */
    uint64_t damaged; /* found so, and dropped */
} weir_large_stats;

weir_large_stats weir_large_stats_get(weir_large *l);

#endif
