/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_KIT_TEST_H
#define WEIR_STORE_KIT_TEST_H
/* A kit for the tests of a store's parts: memory for a part, and a charge as a callback. */

#include "store/robust_lock.h"
#include "store/state.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static const int64_t s_ns = 1000000000;
static const weir_processes alone = {.self = 1};

static inline void *part_of(size_t bytes)
{
    void *part = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(part != MAP_FAILED);
    return part;
}

typedef struct charge {
    int64_t cost;
    weir_decision decision;
} charge;

static inline weir_status check(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    charge *c = ctx;
    return weir_check(p, state, level, now_ns, c->cost, &c->decision);
}

/* A callback for iteration that reads every word. */
static inline bool sum_words(void *ctx, const weir_key_state *state)
{
    uint64_t *sum = ctx;
    for (size_t i = 0; i < state->words_len; i++)
        *sum += state->words[i];
    return true;
}

#endif
