/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEIR_TESTS_MODEL_MEMORY_H
#define WEIR_TESTS_MODEL_MEMORY_H
/* The simulated memory: histories of stores, views of threads, plain memory, and the stores that a
 * killed process leaves behind. It makes no choice by itself, except through memory_choose(). */

#include "model.h"

/* Chooses one of n. The explorer provides it. */
unsigned memory_choose(unsigned n);

/* Begins an execution with all words as they are. `mortal` has a bit for each thread whose stores
 * are recorded, because it may be killed. */
void memory_begin(unsigned mortal);

/* The number of a word's history. */
unsigned memory_place(const void *word);

/* What a load of a word may read. */
typedef struct memory_limits {
    bool is_cas;
    uint64_t expected;   /* of a compare-and-swap */
    uint64_t newer_than; /* only stores with a greater serial number; 0: all */
    bool unseen;         /* only stores that come after the last one that the thread has seen */
    bool last;           /* only the last store */
} memory_limits;

enum { MEMORY_OPTIONS = 64 };

/* The stores that a thread may read. Returns their number. */
unsigned memory_options(unsigned thread, unsigned place, const memory_limits *m,
                        unsigned ret[MEMORY_OPTIONS]);

/* Reads a store that memory_options() returned. */
uint64_t memory_load(unsigned thread, unsigned place, unsigned option, bool acquire);

/* Stores a value at one of the places of the history that are allowed. */
void memory_store(unsigned thread, unsigned place, uint64_t x, bool release);

/* Stores a value right after the store that was just read as `option`. */
void memory_swap(unsigned thread, unsigned place, unsigned option, uint64_t x, model_order order,
                 bool is_cas);

void memory_fence(unsigned thread);

/* An access to plain memory, before it happens. */
void memory_plain(unsigned thread, const void *p, size_t n, bool is_store);

/* Whether a word was stored as plain memory in this execution. Its loads and stores are then plain
 * accesses. */
bool memory_was_plain(const void *word);

/* The serial number of the last store. */
uint64_t memory_serial(void);

/* Kills a thread: chooses at most one store that the compiler moved past this point. */
void memory_kill(unsigned thread);

/* All that `dead` did happens before all that `thread` will do. */
void memory_learn(unsigned thread, unsigned dead);

/* The arena: all memory that threads share. */
void *memory_alloc(size_t bytes);
void memory_free_all(void);
bool memory_is_shared(const void *p);
void memory_save(void);
void memory_restore(void);

#endif
