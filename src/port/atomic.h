/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_ATOMIC_H
#define WEIR_PORT_ATOMIC_H
/* Atomics by names that carry their memory order. No other file uses stdatomic. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct port_counter {
    _Atomic uint64_t value;
} port_counter;

static inline uint64_t port_load_relaxed(port_counter *c)
{
    return atomic_load_explicit(&c->value, memory_order_relaxed);
}

/* Returns the value before. */
static inline uint64_t port_add_relaxed(port_counter *c, uint64_t n)
{
    return atomic_fetch_add_explicit(&c->value, n, memory_order_relaxed);
}

/* Adds to a counter that no other thread writes: a load and a store, with no lock on the bus. */
static inline void port_bump_relaxed(port_counter *c, uint64_t n)
{
    atomic_store_explicit(&c->value, atomic_load_explicit(&c->value, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline void port_sub_relaxed(port_counter *c, uint64_t n)
{
    atomic_fetch_sub_explicit(&c->value, n, memory_order_relaxed);
}

#endif
