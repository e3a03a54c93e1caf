/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_LOCKS_KIT_TEST_H
#define WEIR_PORT_LOCKS_KIT_TEST_H
/* Wrappers of locks, which abort if a thread unlocks a mutex that it does not hold, or locks one
 * that it holds; see lock_fakes in meson.build. They count the locks that were taken. */

#include "port/port.h"

#include <stdlib.h>

enum { LOCKS_HELD_MAX = 8 };

static _Thread_local struct {
    const port_mutex *held[LOCKS_HELD_MAX];
    size_t taken;
} locks;

void __real_port_mutex_lock(port_mutex *m);
void __real_port_mutex_unlock(port_mutex *m);
void __wrap_port_mutex_lock(port_mutex *m);
void __wrap_port_mutex_unlock(port_mutex *m);

/* The place of a mutex among those that the thread holds. NULL: a free place. */
static const port_mutex **locks_find(const port_mutex *m)
{
    for (size_t i = 0; i < LOCKS_HELD_MAX; i++) {
        if (locks.held[i] == m)
            return &locks.held[i];
    }
    return NULL;
}

void __wrap_port_mutex_lock(port_mutex *m)
{
    const port_mutex **place = locks_find(NULL);
    if (!place || locks_find(m))
        abort();
    __real_port_mutex_lock(m);
    *place = m;
    locks.taken++;
}

void __wrap_port_mutex_unlock(port_mutex *m)
{
    const port_mutex **place = locks_find(m);
    if (!m || !place)
        abort();
    *place = NULL;
    __real_port_mutex_unlock(m);
}

#endif
