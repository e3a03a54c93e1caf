/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEIR_TESTS_MODEL_SCENES_H
#define WEIR_TESTS_MODEL_SCENES_H
/* Shared by all scenes: a process for each thread, with ids 1, 2, ... */

#include "model.h"

#include "store/robust_lock.h"

#include <weir/weir.h>

enum { DEAD_ID = 77 }; /* of a process that died before the threads began */

static inline bool process_is_alive(const void *ctx, uint64_t id)
{
    (void)ctx;
    return id != DEAD_ID && !model_is_dead((unsigned)id - 1);
}

static const weir_processes processes[MODEL_THREADS] = {
    {1, process_is_alive, NULL},
    {2, process_is_alive, NULL},
    {3, process_is_alive, NULL},
    {4, process_is_alive, NULL},
};

/* A process that opens the memory after all others. */
static const weir_processes last_process = {5, process_is_alive, NULL};

/* A scene whose property fails in some execution if `can_fail`, and otherwise in none. */
typedef struct model_litmus {
    model_scene scene;
    bool can_fail;
} model_litmus;

extern const model_litmus model_litmus_tests[]; /* the last one has no name */

#endif
