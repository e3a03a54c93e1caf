/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_ARENA_H
#define WEIR_PORT_ARENA_H
/* An arena allocator: everything in it is freed at once. */

#include <stdbool.h>
#include <stddef.h>

typedef struct weir_arena { /* all zero when empty */
    struct arena_block *blocks;
    size_t used, size; /* of the first block */
    bool failed;       /* an allocation has failed; the caller checks this once, at the end */
} weir_arena;

/* Returns `n` zeroed elements of `size` bytes, aligned for any type. Returns NULL and sets `failed`
 * if memory is exhausted. */
void *weir_arena_alloc(weir_arena *a, size_t n, size_t size);

/* Returns a terminated copy of `len` bytes; NULL as weir_arena_alloc(). */
char *weir_arena_copy(weir_arena *a, const char *text, size_t len);

/* Frees everything, but keeps a block for later allocations. */
void weir_arena_reset(weir_arena *a);

/* Overwrites everything, since it may hold passwords, and frees it. */
void weir_arena_free(weir_arena *a);

#endif
