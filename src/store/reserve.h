/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_RESERVE_H
#define WEIR_STORE_RESERVE_H
/* Reservations: charges that are provisional until they are committed, cancelled or expire. The
 * records lie in a part of the store's memory, which may be a file that processes share. This part
 * knows keys as hashes only, and changes their states through callbacks of the store.
 *
 * Crash safety: a record is written before its charge, and becomes valid afterwards, with one
 * store. It is removed before its units are returned. So a process that is killed in between may
 * leave units charged that nobody used, until they drain as usual. Units are never returned twice.
 *
 * Late commits: a reservation that expired is still known, without units, until its record is
 * needed for a new one, the oldest first. So the latest ones are known, as many as there are
 * records that are not open. A commit charges the real cost then.
 *
 * Expiry: a reservation that expires at t returns its units as of t, before any decision at t or
 * later. Only units that still count are returned. If the window of the charge has ended by then,
 * nothing is returned. A reservation under a concurrent layer expires when its lease ends, so that
 * layer has nothing to return then.
 *
 * Time: the clocks of threads may differ by up to 1 ms. A reservation is charged at the latest time
 * that the layers of the key remember, weir_state_time(). So each layer finds the charge in the
 * window in which it was counted.
 *
 * If the key was evicted meanwhile, there may be fewer units left to return. */

#include <weir/weir_store.h>

#include "port/atomic.h"
#include "store/robust_lock.h"
#include "store/siphash.h"
#include "store/state.h"

#define WEIR_RESERVE_MAX       (1 << 24) /* open at a time, if the memory is large enough */
#define WEIR_RESERVE_BYTES_MIN 4096
/* With at least WEIR_RESERVE_BYTES_CHAINED bytes, the open reservations of a key are found without
 * a search. With less, there are at most WEIR_RESERVE_UNCHAINED_MAX, as in files of earlier
 * versions. */
#define WEIR_RESERVE_UNCHAINED_MAX   65536
#define WEIR_RESERVE_BYTES_UNCHAINED (128 + WEIR_RESERVE_UNCHAINED_MAX * (size_t)(64 + 8))
#define WEIR_RESERVE_BYTES_CHAINED   (128 + (WEIR_RESERVE_UNCHAINED_MAX + 1024) * (size_t)(64 + 20))
/* More memory is not used. */
#define WEIR_RESERVE_BYTES_MAX (128 + WEIR_RESERVE_MAX * (size_t)(64 + 20))

/* The callbacks of the store. They run under the lock of the reservations, so they must not call
 * functions of this header. */
typedef struct weir_reserve_hooks {
    void *ctx;

    /* Runs fn on the state of a key, at the later of now_ns and the store's time. */
    weir_status (*run)(void *ctx, const weir_policy *p, uint64_t policy_id, uint64_t hash,
                       int64_t now_ns, weir_state_fn fn, void *fn_ctx);

    /* Finds the policy of an id. Returns WEIR_OK, or WEIR_E_ABSENT if the id is unknown. */
    weir_status (*policy_find)(void *ctx, uint64_t policy_id, weir_policy *ret);

    /* Whether policy_find() will find the policy of an id after a restart. */
    bool (*policy_known)(void *ctx, uint64_t policy_id);

    /* Stores a policy, so that policy_find() finds it, also after a restart. */
    void (*policy_note)(void *ctx, uint64_t policy_id, const weir_policy *p);

    /* Whether a state under this id may have moved to another hash not long ago. */
    bool (*may_have_moved)(void *ctx, uint64_t policy_id, int64_t now_ns);
} weir_reserve_hooks;

/* The public member of the handle, for weir_reserve_due(). The others are private. */
typedef struct weir_reserve {
    const port_word *next_ns;
} weir_reserve;

/* Opens the memory of reservations and rebuilds the index of open ones in one pass. Damaged records
 * are dropped.
 *  part    `bytes` bytes of memory, at least WEIR_RESERVE_BYTES_MIN, page-aligned. It must outlive
 *          the handle, as must *processes and the contexts of the hooks.
 *  is_new  true for new memory, which is all zero and not used by another process.
 * Returns WEIR_OK; WEIR_E_RANGE for too few bytes; WEIR_E_NOMEM; WEIR_E_IO if there are no random
 * numbers. */
WEIR_NODISCARD weir_status weir_reserve_open(weir_reserve **ret, void *part, size_t bytes,
                                             bool is_new, const weir_processes *processes,
                                             weir_secret secret, const weir_reserve_hooks *hooks);
void weir_reserve_close(weir_reserve *r); /* accepts NULL; the memory stays as it is */

/* Whether a reservation has expired by now_ns. If so, call weir_reserve_expire() before any
 * decision. The acquire load pairs with the release store made after units are returned: a thread
 * that sees the later time also sees the returned units. Any thread. */
static inline bool weir_reserve_due(const weir_reserve *r, int64_t now_ns)
{
    return (int64_t)port_word_load_acquire(r->next_ns) <= now_ns;
}

/* Returns the units of all reservations that have expired by now_ns, in the order of expiry. Once
 * the function returns, these units have been returned, by this thread or by another. Any
 * thread. */
void weir_reserve_expire(weir_reserve *r, int64_t now_ns);

/* See weir_store_reserve(). Times and cost are in range; ttl_ns is 0..WEIR_SPAN_NS_MAX. Any thread.
 *  request  its key is not read: `hash` is that of the key. The decision is written on WEIR_OK. */
WEIR_NODISCARD weir_status weir_reserve_make(weir_reserve *r, weir_store_request *request,
                                             uint64_t hash, int64_t now_ns, int64_t ttl_ns,
                                             uint64_t *ret_id);

/* See weir_store_commit(). now_ns and actual are in range. Any thread. */
WEIR_NODISCARD weir_status weir_reserve_commit(weir_reserve *r, uint64_t id, int64_t now_ns,
                                               int64_t actual, weir_decision *ret,
                                               int64_t *ret_over);

/* See weir_store_renew(). now_ns is in range; ttl_ns is 0..WEIR_SPAN_NS_MAX. Any thread. */
WEIR_NODISCARD weir_status weir_reserve_renew(weir_reserve *r, uint64_t id, int64_t now_ns,
                                              int64_t ttl_ns, weir_decision *ret);

/* The state that a reservation has charged. */
typedef struct weir_reserved {
    weir_policy policy;
    uint64_t policy_id, hash; /* of the key */
} weir_reserved;

/* Finds an open reservation. Returns false if there is none. Any thread. */
bool weir_reserve_find(weir_reserve *r, uint64_t id, weir_reserved *ret);

/* While the lock is held, no reservation is made, committed or returned, and calls that would do so
 * wait. Other decisions do not wait, unless a reservation has expired. */
void weir_reserve_lock(weir_reserve *r);
void weir_reserve_unlock(weir_reserve *r);

/* Copies the open reservations of `from`, whose lock is held, to `r`, which is new and has the same
 * secret. Those that do not fit are counted as lost. */
void weir_reserve_copy(weir_reserve *r, weir_reserve *from);

/* Sets the units of the open reservations on a key to 0, so that they return nothing. The
 * reservations stay open. Call it under the lock, and reset the key before the lock is released:
 * a reservation made in between would return units that were charged after the reset. */
void weir_reserve_zero_units(weir_reserve *r, uint64_t hash);

/* Gives the open reservations on a key to another key: its state has moved there. Those that
 * expired stay where they are. Call it under the lock that was held during the move. Takes time in
 * proportion to the open reservations. */
void weir_reserve_rename(weir_reserve *r, uint64_t hash, uint64_t to_hash, uint64_t to_policy_id);

/* Whether a reservation of a policy's id is open, or can still be committed late. Call it under the
 * lock. Takes time in proportion to the reservations. */
bool weir_reserve_refers(const weir_reserve *r, uint64_t policy_id);

/* Whether there are open reservations. May miss one that another thread is making. */
bool weir_reserve_any(const weir_reserve *r);

typedef struct weir_reserve_stats {
    uint64_t open;
    uint64_t max;     /* the limit of `open` */
    uint64_t damaged; /* records dropped as damaged at an opening, since the file was created */
    /* Reservations whose units could not be returned when they expired, because the policy was
     * unknown or the state did not fit, and those that did not fit when the memory was resized.
     * Their units stay charged until they drain. */
    uint64_t lost;
} weir_reserve_stats;

/* Any thread. */
weir_reserve_stats weir_reserve_stats_get(weir_reserve *r);

#endif
