/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A linked list of blocks. Allocations are cut from the front of the newest block. */

#include "cmd/config/arena.h"

#include "port/port.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK_SIZE = 64 << 10 };

struct config_block {
    struct config_block *next;
    size_t size; /* of `bytes` */
    max_align_t bytes[];
};

static bool add_block(config_arena *a, size_t size)
{
    struct config_block *b = port_zalloc(1, sizeof *b + size);
    if (!b)
        return false;
    b->next = a->blocks;
    b->size = size;
    a->blocks = b;
    a->used = 0;
    a->size = size;
    return true;
}

void *config_alloc(config_arena *a, size_t n, size_t size)
{
    const size_t align = sizeof(max_align_t);
    bool fits = size == 0 || n <= SIZE_MAX / 2 / size;
    size_t bytes = fits ? (n * size + align - 1) / align * align : 0;
    if (!fits ||
        (bytes > a->size - a->used && !add_block(a, bytes > BLOCK_SIZE ? bytes : BLOCK_SIZE))) {
        a->failed = true;
        return NULL;
    }
    void *at = (char *)a->blocks->bytes + a->used;
    a->used += bytes;
    return at;
}

char *config_copy(config_arena *a, const char *text, size_t len)
{
    char *copy = config_alloc(a, len + 1, 1);
    if (copy && len > 0)
        memcpy(copy, text, len);
    return copy;
}

void config_arena_free(config_arena *a)
{
    for (struct config_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        explicit_bzero(b->bytes, b->size);
        port_free(b);
    }
}
