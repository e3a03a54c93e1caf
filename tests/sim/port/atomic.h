/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_SIM_PORT_ATOMIC_H
#define WEIR_TESTS_SIM_PORT_ATOMIC_H
/* src/port/atomic.h for store_sim: before each of its functions, another simulated process may go
 * on, or the running one may be killed. The sources of the store find this header first. */

#include "../../../src/port/atomic.h"

/* How many calls are left until sim_switch(). */
extern uint64_t sim_calls_left;

/* The process that runs. Which one last wrote each word of the memory that they share. */
enum { SIM_SHARED = 1 << 17 };
extern unsigned char sim_process;
extern unsigned char sim_shared[SIM_SHARED], sim_writer[SIM_SHARED / 8];

/* Sometimes lets the other processes go on for long. */
void sim_meet(void);

/* Switches to another process or kills one, and chooses the next sim_calls_left. */
void sim_switch(void);

/* Lets another process go on: this one waits for it. */
void sim_wait(void);

static inline void sim_call(void)
{
    if (__builtin_expect(--sim_calls_left == 0, 0))
        sim_switch();
}

/* Before a write. A word that another process wrote last is where processes meet. */
static inline void sim_write(const void *word)
{
    uintptr_t at = (uintptr_t)word - (uintptr_t)sim_shared;
    sim_call();
    if (at >= SIM_SHARED)
        return;
    if (sim_writer[at / 8] != sim_process)
        sim_meet();
    sim_writer[at / 8] = sim_process;
}

#define port_load_relaxed(c)               (sim_call(), port_load_relaxed(c))
#define port_store_relaxed(c, x)           (sim_write(c), port_store_relaxed(c, x))
#define port_add_relaxed(c, n)             (sim_write(c), port_add_relaxed(c, n))
#define port_bump_relaxed(c, n)            (sim_write(c), port_bump_relaxed(c, n))
#define port_sub_relaxed(c, n)             (sim_write(c), port_sub_relaxed(c, n))
#define port_word_load_relaxed(w)          (sim_call(), port_word_load_relaxed(w))
#define port_word_load_acquire(w)          (sim_call(), port_word_load_acquire(w))
#define port_word_store_release(w, x)      (sim_write(w), port_word_store_release(w, x))
#define port_word_store_relaxed(w, x)      (sim_write(w), port_word_store_relaxed(w, x))
#define port_word_add_relaxed(w, n)        (sim_write(w), port_word_add_relaxed(w, n))
#define port_word_sub_release(w, n)        (sim_write(w), port_word_sub_release(w, n))
#define port_stores_in_order()             (sim_call(), port_stores_in_order())
#define port_word_drop(w)                  (sim_write(w), port_word_drop(w))
#define port_word_cas_relaxed(w, from, to) (sim_write(w), port_word_cas_relaxed(w, from, to))
#define port_word_cas_acquire(w, from, to) (sim_write(w), port_word_cas_acquire(w, from, to))
#define port_prefetch(p)                   (sim_call(), port_prefetch(p))
#define port_peek(word)                    (sim_call(), port_peek(word))
#define port_pause()                       sim_wait()
#define port_back_off(n)                   ((void)(n), sim_wait())

#endif
