/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_ATOMIC_H
#define WEIR_PORT_ATOMIC_H
/* Atomics, with the memory order in the name of each operation; and pausing and prefetching. No
 * other file uses <stdatomic.h>. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A statistics counter: it orders no other memory. */
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

/* Returns the old value. */
static inline uint64_t port_add_relaxed(port_counter *c, uint64_t n)
{
    return atomic_fetch_add_explicit(&c->value, n, memory_order_relaxed);
}

/* Adds to a counter that only this thread writes. Needs no locked instruction. */
static inline void port_bump_relaxed(port_counter *c, uint64_t n)
{
    atomic_store_explicit(&c->value, atomic_load_explicit(&c->value, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline void port_sub_relaxed(port_counter *c, uint64_t n)
{
    atomic_fetch_sub_explicit(&c->value, n, memory_order_relaxed);
}

/* ---- words ----------------------------------------------------------------------------------- */
/* Words that several threads write, with acquire and release. */

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

/* For reference counts. Taking a reference needs no order. Dropping one is a release: a thread that
 * loads 0 with acquire sees all that was done before the references were dropped. */
static inline void port_word_add_relaxed(port_word *w, uint64_t n)
{
    atomic_fetch_add_explicit(&w->value, n, memory_order_relaxed);
}

static inline void port_word_sub_release(port_word *w, uint64_t n)
{
    atomic_fetch_sub_explicit(&w->value, n, memory_order_release);
}

/* Adds n, with release. Returns the value before. */
static inline uint64_t port_word_add_release(port_word *w, uint64_t n)
{
    return atomic_fetch_add_explicit(&w->value, n, memory_order_release);
}

/* A store barrier: all stores before it become visible before all stores after it. This also holds
 * for a process that maps memory which a killed process left. */
static inline void port_stores_in_order(void)
{
#ifdef __SANITIZE_THREAD__
    atomic_signal_fence(memory_order_release); /* gcc's sanitizer supports no thread fence */
#else
    atomic_thread_fence(memory_order_release);
#endif
}

/* Drops a reference, as above. Returns whether it was the last one. */
static inline bool port_word_drop(port_word *w)
{
    return atomic_fetch_sub_explicit(&w->value, 1, memory_order_acq_rel) == 1;
}

/* Compare and swap. If the word equals *from, sets it to `to` and returns true. Otherwise writes
 * its value to *from and returns false. The order in the name is that of success; failure is
 * relaxed. */
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

static inline bool port_word_cas_release(port_word *w, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_strong_explicit(&w->value, from, to, memory_order_release,
                                                   memory_order_relaxed);
}

/* To be called in a spin loop. */
static inline void port_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Pauses n times. A thread that cannot change a cache line, because another one does, calls it
 * before it tries again: as long as the other thread has the line in its cache, it is much faster
 * than two threads that take the line from each other. */
static inline void port_back_off(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        port_pause();
}

/* Prefetches the cache line of `p`, which may be any address. The empty asm is needed: without it
 * gcc finds no side effect in a function that only prefetches, and drops calls to it. */
static inline void port_prefetch(const void *p)
{
    __builtin_prefetch(p);
    __asm__ __volatile__("");
}

/* Loads a word that another thread may be writing with plain stores, and that may be unmapped only
 * if any other load of it would fault too. The result is a hint, such as what to prefetch next: it
 * may be any number. In C such a load is a data race, so the compiler must not see it. */
static inline uint64_t port_peek(const void *word)
{
    uint64_t x = 0;
#if defined(__x86_64__)
    __asm__ __volatile__("movq (%1), %0" : "=r"(x) : "r"(word));
#elif defined(__aarch64__)
    __asm__ __volatile__("ldr %0, [%1]" : "=r"(x) : "r"(word));
#else
    (void)word;
#endif
    return x;
}

#endif
