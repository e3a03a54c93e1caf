/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A linked list of blocks. Allocations are cut from the front of the newest block. */

#include "port/arena.h"

#include "port/port.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK_SIZE = 64 << 10 };

struct arena_block {
    struct arena_block *next;
    size_t size; /* of `bytes` */
    max_align_t bytes[];
};

static bool add_block(weir_arena *a, size_t size)
{
    struct arena_block *b = port_zalloc(1, sizeof *b + size);
    if (!b)
        return false;
    b->next = a->blocks;
    b->size = size;
    a->blocks = b;
    a->used = 0;
    a->size = size;
    return true;
}

void *weir_arena_alloc(weir_arena *a, size_t n, size_t size)
{
    const size_t align = sizeof(max_align_t);
    bool fits = size == 0 || n <= SIZE_MAX / 2 / size;
    size_t bytes = fits ? (n * size + align - 1) / align * align : 0;
    if (!fits || ((!a->blocks || bytes > a->size - a->used) &&
                  !add_block(a, bytes > BLOCK_SIZE ? bytes : BLOCK_SIZE))) {
        a->failed = true;
        return NULL;
    }
    void *at = (char *)a->blocks->bytes + a->used;
    a->used += bytes;
    return at;
}

char *weir_arena_copy(weir_arena *a, const char *text, size_t len)
{
    char *copy = weir_arena_alloc(a, len + 1, 1);
    if (copy && len > 0)
        memcpy(copy, text, len);
    return copy;
}

void weir_arena_reset(weir_arena *a)
{
    struct arena_block *kept = a->blocks;
    if (!kept)
        return;
    weir_arena rest = {.blocks = kept->next};
    explicit_bzero(kept->bytes, a->used);
    *a = (weir_arena){.blocks = kept, .size = a->size};
    kept->next = NULL;
    weir_arena_free(&rest);
}

void weir_arena_free(weir_arena *a)
{
    for (struct arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        explicit_bzero(b->bytes, b->size);
        port_free(b);
    }
}
