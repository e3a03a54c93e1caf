/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Blocks in a list, filled from the front. It must not know what lies in them. */

#include "cmd/config/arena.h"

#include "port/port.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK_SIZE = 64 << 10 };

struct config_block {
    struct config_block *next;
    max_align_t bytes[];
};

static bool add_block(config_arena *a, size_t size)
{
    struct config_block *b = port_zalloc(1, sizeof *b + size);
    if (!b)
        return false;
    b->next = a->blocks;
    a->blocks = b;
    a->used = 0;
    a->size = size;
    return true;
}

void *config_alloc(config_arena *a, size_t size)
{
    size_t whole = sizeof(max_align_t);
    if (size > SIZE_MAX / 2) {
        a->failed = true;
        return NULL;
    }
    size = (size + whole - 1) / whole * whole;
    if (size > a->size - a->used && !add_block(a, size > BLOCK_SIZE ? size : BLOCK_SIZE)) {
        a->failed = true;
        return NULL;
    }
    void *at = (char *)a->blocks->bytes + a->used;
    a->used += size;
    return at;
}

void *config_alloc_array(config_arena *a, size_t n, size_t size)
{
    if (size != 0 && n > SIZE_MAX / size) {
        a->failed = true;
        return NULL;
    }
    return config_alloc(a, n * size);
}

char *config_copy(config_arena *a, const char *text, size_t len)
{
    char *copy = config_alloc(a, len + 1);
    if (copy && len > 0)
        memcpy(copy, text, len);
    return copy;
}

void config_arena_free(config_arena *a)
{
    for (struct config_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        port_free(b);
    }
    *a = (config_arena){0};
}
