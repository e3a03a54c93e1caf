/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Spins, then yields, then asks whether the holder is still alive. */

#include "store/lock.h"

#include "port/port.h"

enum {
    SPINS = 100,     /* before other threads are let run */
    ASK_EVERY = 256, /* yields: then the holder may be dead */
};

/* Takes the place of a dead holder. */
static bool take_over(port_word *lock, const weir_owners *o, uint64_t holder)
{
    return !weir_owner_is_alive(o, holder) && port_word_cas_acquire(lock, &holder, o->self);
}

weir_lock_got weir_lock_take(port_word *lock, const weir_owners *o)
{
    for (uint64_t tries = 1;; tries++) {
        uint64_t holder = port_word_load_relaxed(lock);
        if (holder == 0 && port_word_cas_acquire(lock, &holder, o->self))
            return WEIR_LOCK_FREE;
        if (tries < SPINS) {
            port_pause();
            continue;
        }
        if (tries % ASK_EVERY == 0 && holder != 0 && take_over(lock, o, holder))
            return WEIR_LOCK_DEAD;
        port_yield();
    }
}

weir_lock_got weir_lock_try(port_word *lock, const weir_owners *o)
{
    uint64_t holder = 0;
    if (port_word_cas_acquire(lock, &holder, o->self))
        return WEIR_LOCK_FREE;
    return take_over(lock, o, holder) ? WEIR_LOCK_DEAD : WEIR_LOCK_NOT;
}
