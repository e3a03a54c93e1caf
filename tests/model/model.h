/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEIR_TESTS_MODEL_H
#define WEIR_TESTS_MODEL_H
/* A model checker for the memory orders of src/port/atomic.h. It runs the real sources with
 * simulated threads and a simulated weak memory, and explores their executions.
 *
 * The memory is C11 without load buffering (RC11) and without seq_cst, which weir does not use.
 * Each word has a history of stores in modification order. A load may read any store that the
 * thread's view allows. A store may be put at any place of the history that the view allows.
 * Release stores and fences attach a view to a store, and acquire loads take it over.
 *
 * Plain memory is checked for data races: two accesses, one of them a store, that no
 * synchronisation orders.
 *
 * A thread stands for a process. It may be killed before any operation. A thread that
 * learns of the death sees all that the process did. But the compiler may have moved one store past
 * that point, unless release or a fence forbids it.
 *
 * Loads that read the same stores in another order are the same execution: stores are executed at
 * once, and a thread that postpones a load reads only stores that are newer. */

#include "port/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct port_word;
struct port_counter;

enum {
    MODEL_THREADS = 4,
    MODEL_SITES = 512,
    MODEL_DIED_BEFORE = 1 << MODEL_THREADS /* a process died before the threads began */
};

/* ---- what the sources call ------------------------------------------------------------------- */

typedef enum model_order { MODEL_RELAXED, MODEL_ACQUIRE, MODEL_RELEASE } model_order;

/* Returns the number of an order in the sources, 1 or more. */
unsigned model_site(const char *file, int line, const char *function, const char *text,
                    model_order order);

uint64_t model_load(unsigned site, const struct port_word *w);
void model_store(unsigned site, struct port_word *w, uint64_t x);
uint64_t model_add(unsigned site, struct port_word *w, uint64_t n);
bool model_cas(unsigned site, struct port_word *w, uint64_t *from, uint64_t to);
void model_release_fence(unsigned site);
void model_pause(void);

/* Adds to a statistics counter. Returns the old value. */
uint64_t model_count(struct port_counter *c, uint64_t n);
void model_set_count(struct port_counter *c, uint64_t x);

/* memcpy() */
void *model_copy(void *to, const void *from, size_t n);

/* ---- scenes ---------------------------------------------------------------------------------- */

/* A scene: threads that run at the same time, and the properties that must hold. */
typedef struct model_scene {
    const char *name;
    void (*prepare)(void);               /* before the threads, once */
    void (*thread[MODEL_THREADS])(void); /* NULL after the last one */
    void (*check)(void);                 /* after the threads; may be NULL */
    unsigned mortal; /* a bit for each thread that may be killed, and MODEL_DIED_BEFORE */
} model_scene;

extern const model_scene *const model_scenes[]; /* NULL after the last one */

/* States a property of the scene. */
#define MODEL_CHECK(x) ((x) ? (void)0 : model_fail(#x, __FILE__, __LINE__))
void model_fail(const char *what, const char *file, int line);

/* The number of the running thread. */
unsigned model_self(void);

/* Kills the running thread here. */
void model_die(void);

/* Whether a thread was killed. For the alive() of weir_processes: the caller learns of a death. */
bool model_is_dead(unsigned thread);

/* Zeroed memory, aligned to 64 bytes, for all that the threads share. It is restored after each
 * execution. */
void *model_alloc(size_t bytes);

/* ---- exploration ----------------------------------------------------------------------------- */

typedef struct model_result {
    uint64_t executions; /* complete ones */
    uint64_t redundant;  /* given up, because they repeat another one */
    bool complete;       /* all were explored */
    const char *failure; /* NULL: every property holds */
} model_result;

/* Explores a scene in order until a property fails, or after `max` executions. */
model_result model_explore(const model_scene *s, uint64_t max);

/* Tries `n` executions at random until a property fails. */
model_result model_sample(const model_scene *s, uint64_t n);

/* Weakens an order to relaxed; 0: none. */
void model_weaken(unsigned site);

typedef struct model_site_info {
    const char *name; /* FILE:FUNCTION OPERATION(WORD) */
    int line;
    model_order order;
    bool used; /* by the scenes explored since the last model_forget_use() */
} model_site_info;

/* Information on orders 1..; name is NULL after the last one. */
model_site_info model_site_at(unsigned site);
void model_forget_use(void);

/* Prints the operations of the last execution. */
void model_print_trace(void);

#endif
