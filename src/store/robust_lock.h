/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_ROBUST_LOCK_H
#define WEIR_STORE_ROBUST_LOCK_H
/* A robust spin lock: it survives the death of the process that holds it. It lies in memory that
 * several processes share, or that outlives a process because it is a mapped file.
 *
 * The lock is a word that holds the id of the lock's owner, or 0 while it is free. A waiter checks
 * whether the owner is alive. If it is not, the waiter takes the lock over, and must first repair
 * what the dead owner was changing. Hold the lock for a short time only. It is not recursive and
 * not fair. */

#include "port/atomic.h"

#include <stdbool.h>
#include <stdint.h>

#define WEIR_PROCESS_ID_BITS 20 /* of an id. 0 means no process */

/* The id of opening n, which counts from 0. Ids are odd: if damage sets the lock bit of a bucket,
 * the owner that it names is even, see WEIR_VERSION_ONE. Ids ascend, so that an id is used again
 * only after 2^19 openings. */
static inline uint64_t weir_process_id(uint64_t n)
{
    return 2 * (n % ((uint64_t)1 << (WEIR_PROCESS_ID_BITS - 1))) + 1;
}

/* The processes that have the memory open. */
typedef struct weir_processes {
    uint64_t self;                               /* the id of this opening */
    bool (*alive)(const void *ctx, uint64_t id); /* NULL: no other process has the memory open */
    const void *ctx;
} weir_processes;

/* Whether the process of `id` still has the memory open. If not, its locks are never released. It
 * may make a system call, so call it only after waiting for a while. Any thread. */
static inline bool weir_process_is_alive(const weir_processes *p, uint64_t id)
{
    return id == p->self || (p->alive && p->alive(p->ctx, id));
}

typedef enum weir_lock_result {
    WEIR_LOCK_BUSY, /* a live process holds the lock */
    WEIR_LOCK_TAKEN,
    WEIR_LOCK_OWNER_DIED /* taken over from a dead owner: repair first */
} weir_lock_result;

/* As weir_robust_lock(), for a lock that is not free. */
weir_lock_result weir_robust_lock_wait(port_word *lock, const weir_processes *p);

/* Waits for the lock. Never returns WEIR_LOCK_BUSY. */
static inline weir_lock_result weir_robust_lock(port_word *lock, const weir_processes *p)
{
    uint64_t owner = 0;
    return port_word_cas_acquire(lock, &owner, p->self) ? WEIR_LOCK_TAKEN
                                                        : weir_robust_lock_wait(lock, p);
}

/* Does not wait. */
weir_lock_result weir_robust_try_lock(port_word *lock, const weir_processes *p);

/* Release: the next owner takes the lock with acquire, and sees all changes made under it. */
static inline void weir_robust_unlock(port_word *lock)
{
    port_word_store_release(lock, 0);
}

#endif
