/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_SIM_PROCESSES_H
#define WEIR_TESTS_SIM_PROCESSES_H
/* Simulated processes that share the memory of a store. Each is a coroutine, which runs the sources
 * of the store. A process may be killed before any call of src/port/atomic.h: then it never goes
 * on, and its locks stay. Which process runs, and for how many calls, follows from a seed. */

#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

enum { PROCESSES = 4 };

/* The next random number of the seed, below n. */
uint64_t any(uint64_t n);

/* Creates the processes once. `work` is what process i does in an episode. */
void processes_init(void (*work)(unsigned i, weir_store *s));

/* Begins again with memory that is all zero, and a seed. */
void world_begin(uint64_t seed);

/* The store, as the simulation's own process has opened it. That process is never killed. Use the
 * store between episodes only. */
weir_store *world_store(void);

/* Runs all processes until each has done its work or is killed, at most kills_max of them.
 * Those that were killed before are first started again. Returns a bit for each that was killed. */
unsigned episode_run(unsigned kills_max);

/* Reports a violation, with the seed, and exits. */
__attribute__((format(printf, 1, 2), noreturn)) void violation(const char *format, ...);

#endif
