/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_RESERVE_H
#define WEIR_STORE_RESERVE_H
/* Open reservations, in a part of a store's memory that may be a file and may be shared: what was
 * charged for the time being, and when it is given back. It knows keys as hashes alone, and reaches
 * their states through the store that it is of.
 *
 * A record is written before the charge and counts from one store on, made after it; and it is
 * taken away before anything is given back. So whoever is killed in between leaves units charged
 * that nobody used, until they drain as all others do; never units that are given back twice.
 *
 * Given back is what still counts of the charge, as of the moment that it ends: a reservation that
 * ran out at t is given back as of t, before any decision at t or later is made, however late that
 * is. A window that was over by then gets nothing back, since the next one never had the charge.
 *
 * Threads' clocks differ by up to the millisecond that the store allows. A reservation is charged
 * and noted as of the latest time that the key's layers remember, weir_state_time(). So each layer
 * finds the charge again in the window that it was counted in.
 *
 * If the key was evicted in the meantime, less may be left to give back. */

#include "port/atomic.h"
#include "store/robust_lock.h"
#include "store/siphash.h"
#include "store/state.h"

#define WEIR_RESERVE_MAX       65536 /* open at a time, if the part has the room */
#define WEIR_RESERVE_BYTES_MIN 4096
#define WEIR_RESERVE_BYTES_MAX (128 + WEIR_RESERVE_MAX * (size_t)(64 + 8)) /* more is not used */

/* What it asks of its store; under its lock, so that none of these may call it. */
typedef struct weir_reserve_hooks {
    void *ctx;

    /* Runs fn on the state of a key, at now_ns or, if that is later, the store's time. */
    weir_status (*run)(void *ctx, const weir_policy *p, uint64_t hash, int64_t now_ns,
                       weir_state_fn fn, void *fn_ctx);

    /* The policy of an id. Returns WEIR_OK, or WEIR_E_ABSENT if nobody noted it. */
    weir_status (*policy_find)(void *ctx, uint64_t policy_id, weir_policy *ret);

    /* Sees to it that policy_find() will know the policy, also after a restart. */
    void (*policy_note)(void *ctx, uint64_t policy_id, const weir_policy *p);
} weir_reserve_hooks;

/* The first of its members is for the function below; it has others. */
typedef struct weir_reserve {
    const port_word *next_ns;
} weir_reserve;

/* Opens a part, and finds in one pass what is open in it. A record that is damaged is dropped.
 *  part    `bytes` of them, WEIR_RESERVE_BYTES_MIN or more, on a page; must outlive it, as must
 *          *processes and what the hooks refer to.
 *  is_new  the part is all zero, and nobody else has it open.
 * Returns WEIR_OK; WEIR_E_RANGE for too few bytes; WEIR_E_NOMEM; WEIR_E_IO (no random). */
WEIR_NODISCARD weir_status weir_reserve_open(weir_reserve **ret, void *part, size_t bytes,
                                             bool is_new, const weir_processes *processes,
                                             weir_secret secret, const weir_reserve_hooks *hooks);
void weir_reserve_close(weir_reserve *r); /* accepts NULL; the part stays as it is */

/* Whether some reservation has run out by now_ns: then weir_reserve_expire() is to be called before
 * anything is decided. Acquire pairs with the release of whoever gave back what was due before: who
 * sees a later time here sees those units too. Any thread. */
static inline bool weir_reserve_due(const weir_reserve *r, int64_t now_ns)
{
    return (int64_t)port_word_load_acquire(r->next_ns) <= now_ns;
}

/* Gives back all that has run out by now_ns, in the order of time. When it returns, it is done,
 * whoever did it. Any thread. */
void weir_reserve_expire(weir_reserve *r, int64_t now_ns);

/* See weir_store_reserve(). Times, cost and ttl_ns are in range. Any thread. */
WEIR_NODISCARD weir_status weir_reserve_make(weir_reserve *r, const weir_policy *p,
                                             uint64_t policy_id, uint64_t hash, int64_t now_ns,
                                             int64_t cost, int64_t ttl_ns, weir_decision *ret,
                                             uint64_t *ret_id);

/* See weir_store_commit(). now_ns and actual are in range. Any thread. */
WEIR_NODISCARD weir_status weir_reserve_commit(weir_reserve *r, uint64_t id, int64_t now_ns,
                                               int64_t actual, weir_decision *ret,
                                               int64_t *ret_over);

/* Opens in `r`, which is new and whose secret is the same, what is open in `from`. What has no room
 * there counts as lost. */
void weir_reserve_copy(weir_reserve *r, weir_reserve *from);

/* To be called before a key is made fresh: what it was charged by reservations is forgiven with the
 * rest, so that they have nothing left to give back. They stay open, of 0 units. Work: as many as
 * are open. Any thread. */
void weir_reserve_forgive(weir_reserve *r, uint64_t hash);

typedef struct weir_reserve_stats {
    uint64_t open;
    uint64_t max;     /* what `open` may come to */
    uint64_t damaged; /* records that were dropped at opening, ever */
    uint64_t lost;    /* reservations whose policy nobody knew any more: what they had stays charged
                         until it drains */
} weir_reserve_stats;

/* Any thread. */
weir_reserve_stats weir_reserve_stats_get(weir_reserve *r);

#endif
