/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_ARENA_H
#define WEIR_CMD_CONFIG_ARENA_H
/* An arena allocator: everything in it is freed at once. */

#include <stdbool.h>
#include <stddef.h>

typedef struct config_arena { /* all zero when empty */
    struct config_block *blocks;
    size_t used, size; /* of the first block */
    bool failed;       /* an allocation has failed; the caller checks this once, at the end */
} config_arena;

/* Returns `n` zeroed elements of `size` bytes, aligned for any type. Returns NULL and sets `failed`
 * if memory is exhausted. */
void *config_alloc(config_arena *a, size_t n, size_t size);

/* Returns a terminated copy of `len` bytes; NULL as config_alloc(). */
char *config_copy(config_arena *a, const char *text, size_t len);

/* Overwrites everything, since it may hold passwords, and frees it. */
void config_arena_free(config_arena *a);

#endif
