/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_MEMORY_KIT_TEST_H
#define WEIR_PORT_MEMORY_KIT_TEST_H
/* Memory that runs out. Wrappers of the allocator make the n-th allocation fail and count the
 * blocks in use; see memory_fakes in meson.build. A test can add other calls that may fail: it
 * calls may_allocate() in a wrapper of its own. Include it after cmocka. */

#include "port/atomic.h"

#include <stdbool.h>
#include <stddef.h>

static struct {
    port_counter made, blocks, failed;
    port_counter first, end; /* allocations first..end-1 fail, counted by `made` */
} memory;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static inline bool may_allocate(void)
{
    uint64_t i = port_add_relaxed(&memory.made, 1);
    bool fails = i >= port_load_relaxed(&memory.first) && i < port_load_relaxed(&memory.end);
    port_add_relaxed(&memory.failed, fails);
    return !fails;
}

static inline void *count_block(void *p)
{
    port_add_relaxed(&memory.blocks, p != NULL);
    return p;
}

void *__wrap_malloc(size_t size)
{
    return may_allocate() ? count_block(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may_allocate() ? count_block(__real_calloc(n, size)) : NULL;
}

void *__wrap_realloc(void *p, size_t size)
{
    void *moved = may_allocate() ? __real_realloc(p, size) : NULL;
    return p ? moved : count_block(moved);
}

void __wrap_free(void *p)
{
    port_sub_relaxed(&memory.blocks, p != NULL);
    __real_free(p);
}

/* Makes the n-th allocation from now on fail, counted from 0, and with `later` all later ones. */
static inline void memory_fail(uint64_t n, bool later)
{
    uint64_t first = port_load_relaxed(&memory.made) + n;
    port_store_relaxed(&memory.failed, 0);
    port_store_relaxed(&memory.first, first);
    port_store_relaxed(&memory.end, later ? UINT64_MAX : first + 1);
}

/* No allocation fails any more. Returns whether one failed since memory_fail(). */
static inline bool memory_stop(void)
{
    port_store_relaxed(&memory.end, 0);
    return port_load_relaxed(&memory.failed) > 0;
}

/* Calls attempt() with n = 0, 1, ... until no allocation fails, for each value of `later`.
 * attempt() calls memory_fail(n, later), returns the result of memory_stop(), and frees all that it
 * made. */
static inline void fail_each_allocation(bool (*attempt)(uint64_t n, bool later))
{
    for (int later = 0; later <= 1; later++) {
        uint64_t blocks = port_load_relaxed(&memory.blocks), n = 0;
        while (attempt(n, later)) {
            assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
            assert_in_range(++n, 1, 10000);
        }
        assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
        assert_true(n > 0);
    }
}

/* As fail_each_allocation(), for an attempt after whose first success some memory stays. */
static inline void fail_each_remembered(bool (*attempt)(uint64_t n, bool later))
{
    for (uint64_t n = 0; attempt(n, false); n++)
        assert_in_range(n, 0, 10000);
    fail_each_allocation(attempt);
}

#endif
