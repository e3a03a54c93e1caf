/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The heap of a gRPC connection: malloc() with a count of the bytes, for limits.buffers, and a list
 * of the blocks. Once memory was exhausted, libnghttp2 is not called again, not even to free its
 * session: in versions up to 1.52 at least, it then frees an item of its queue twice. */

#include "codec/grpc/connection.h"
#include "port/assert.h"

#include <stdlib.h>

/* Precedes each block. */
typedef struct weir_grpc_block {
    struct weir_grpc_block *next, **link;
    size_t size; /* with this head */
} block;

enum { HEAD = 32 };
_Static_assert(sizeof(block) <= HEAD && HEAD % _Alignof(max_align_t) == 0, "blocks are aligned");

static block *block_of(void *p)
{
    return (block *)(void *)((char *)p - HEAD);
}

/* Adds a block to the list; b is NULL if memory is exhausted. */
static void *add(weir_grpc_heap *h, block *b, size_t size)
{
    if (!b) {
        h->failed = true;
        return NULL;
    }
    *b = (block){.next = h->blocks, .link = &h->blocks, .size = size};
    if (b->next)
        b->next->link = &b->next;
    h->blocks = b;
    h->bytes += size;
    return (char *)b + HEAD;
}

static block *take_out(weir_grpc_heap *h, void *p)
{
    block *b = block_of(p);
    WEIR_ASSERT(*b->link == b && h->bytes >= b->size);
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    h->bytes -= b->size;
    return b;
}

static void *heap_malloc(size_t size, void *heap)
{
    return size > SIZE_MAX - HEAD ? NULL : add(heap, malloc(size + HEAD), size + HEAD);
}

static void *heap_calloc(size_t n, size_t size, void *heap)
{
    if (size > 0 && n > (SIZE_MAX - HEAD) / size)
        return NULL;
    return add(heap, calloc(1, n * size + HEAD), n * size + HEAD);
}

static void heap_free(void *p, void *heap)
{
    if (p)
        free(take_out(heap, p));
}

static void *heap_realloc(void *p, size_t size, void *heap)
{
    if (!p)
        return heap_malloc(size, heap);
    if (size > SIZE_MAX - HEAD)
        return NULL;
    block *b = take_out(heap, p), *moved = realloc(b, size + HEAD);
    if (!moved)
        add(heap, b, b->size);
    return add(heap, moved, size + HEAD);
}

void weir_grpc_heap_init(weir_grpc_heap *h)
{
    *h = (weir_grpc_heap){.mem = {h, heap_malloc, heap_free, heap_calloc, heap_realloc}};
}

void weir_grpc_heap_free(weir_grpc_heap *h)
{
    for (block *b = h->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    h->blocks = NULL;
    h->bytes = 0;
}

void *weir_grpc_alloc(weir_grpc_heap *h, size_t size)
{
    return heap_malloc(size, h);
}

void weir_grpc_free(weir_grpc_heap *h, void *p)
{
    heap_free(p, h);
}
