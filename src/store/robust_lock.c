/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Waiting: spins, then yields, then checks whether the owner is alive. */

#include "store/robust_lock.h"

#include "port/assert.h"
#include "port/port.h"

enum {
    SPINS = 100,       /* tries before the thread yields */
    CHECK_EVERY = 256, /* tries between two checks that the owner is alive */
};

/* Takes the lock over if its owner is dead. */
static bool take_over(port_word *lock, const weir_processes *p, uint64_t owner)
{
    return !weir_process_is_alive(p, owner) && port_word_cas_acquire(lock, &owner, p->self);
}

weir_lock_result weir_robust_lock_wait(port_word *lock, const weir_processes *p)
{
    WEIR_ASSERT(p->self >= 1 && p->self < (uint64_t)1 << WEIR_PROCESS_ID_BITS);
    for (uint64_t tries = 1;; tries++) {
        uint64_t owner = port_word_load_relaxed(lock);
        if (owner == 0 && port_word_cas_acquire(lock, &owner, p->self))
            return WEIR_LOCK_TAKEN;
        if (tries < SPINS) {
            port_pause();
            continue;
        }
        if (tries % CHECK_EVERY == 0 && owner != 0 && take_over(lock, p, owner))
            return WEIR_LOCK_OWNER_DIED;
        port_yield();
    }
}

weir_lock_result weir_robust_try_lock(port_word *lock, const weir_processes *p)
{
    uint64_t owner = 0;
    if (port_word_cas_acquire(lock, &owner, p->self))
        return WEIR_LOCK_TAKEN;
    return take_over(lock, p, owner) ? WEIR_LOCK_OWNER_DIED : WEIR_LOCK_BUSY;
}
