/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_ATOMIC_H
#define WEIR_PORT_ATOMIC_H
/* Atomics by names that carry their memory order, and what goes with waiting and reading ahead. No
 * other file uses stdatomic. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct port_counter {
    _Atomic uint64_t value;
} port_counter;

static inline uint64_t port_load_relaxed(const port_counter *c)
{
    return atomic_load_explicit(&c->value, memory_order_relaxed);
}

static inline void port_store_relaxed(port_counter *c, uint64_t x)
{
    atomic_store_explicit(&c->value, x, memory_order_relaxed);
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

/* ---- words that threads hand each other ------------------------------------------------------ */

typedef struct port_word {
    _Atomic uint64_t value;
} port_word;

static inline uint64_t port_word_load_relaxed(const port_word *w)
{
    return atomic_load_explicit(&w->value, memory_order_relaxed);
}

static inline uint64_t port_word_load_acquire(const port_word *w)
{
    return atomic_load_explicit(&w->value, memory_order_acquire);
}

static inline void port_word_store_release(port_word *w, uint64_t x)
{
    atomic_store_explicit(&w->value, x, memory_order_release);
}

static inline void port_word_store_relaxed(port_word *w, uint64_t x)
{
    atomic_store_explicit(&w->value, x, memory_order_relaxed);
}

/* Counts of who refers to something: taking one adds nothing to what its owner may already see. Who
 * finds 0 by an acquire has all behind it that was done before each release. */
static inline void port_word_add_relaxed(port_word *w, uint64_t n)
{
    atomic_fetch_add_explicit(&w->value, n, memory_order_relaxed);
}

static inline void port_word_sub_release(port_word *w, uint64_t n)
{
    atomic_fetch_sub_explicit(&w->value, n, memory_order_release);
}

/* What was stored before, of whatever kind, is seen before what is stored after: also by a process
 * that finds the memory as a killed one has left it. */
static inline void port_stores_in_order(void)
{
#ifdef __SANITIZE_THREAD__
    atomic_signal_fence(
        memory_order_release); /* gcc's knows no other, and nobody is killed there */
#else
    atomic_thread_fence(memory_order_release);
#endif
}

/* Puts `to` in place of *from. False if it held something else, which is then in *from. The order
 * is that of success; a failure is relaxed. */
static inline bool port_word_cas_relaxed(port_word *w, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_strong_explicit(&w->value, from, to, memory_order_relaxed,
                                                   memory_order_relaxed);
}

static inline bool port_word_cas_acquire(port_word *w, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_strong_explicit(&w->value, from, to, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* To be called in a loop that waits for another processor. */
static inline void port_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Asks for the cache line of `p`, which may be any address. To gcc this has no effect, so that it
 * drops the calls of a function that does nothing else, where it can see into it; not so if there
 * is an asm, empty as it is. */
static inline void port_prefetch(const void *p)
{
    __builtin_prefetch(p);
    __asm__ __volatile__("");
}

#endif
