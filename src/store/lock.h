/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_LOCK_H
#define WEIR_STORE_LOCK_H
/* Locks in memory that outlives a killed process: a word that holds its holder's id, 0 if nobody
 * holds it. Whoever finds that the holder is dead takes the lock over, and must first put in order
 * what the dead one was at. Held for a short time; not recursive, and not fair. */

#include "port/atomic.h"
#include "store/owner.h"

typedef enum weir_lock_got {
    WEIR_LOCK_NOT, /* somebody who is alive holds it */
    WEIR_LOCK_FREE,
    WEIR_LOCK_DEAD /* taken over: repair first */
} weir_lock_got;

/* Waits for the lock. Never WEIR_LOCK_NOT. */
weir_lock_got weir_lock_take(port_word *lock, const weir_owners *o);

/* Does not wait. */
weir_lock_got weir_lock_try(port_word *lock, const weir_owners *o);

static inline void weir_lock_free(port_word *lock)
{
    port_word_store_release(lock, 0);
}

#endif
