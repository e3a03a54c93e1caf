/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The heap of a gRPC connection: malloc() with a count of the bytes, for limits.buffers. Each block
 * begins with its size. */

#include "codec/grpc_connection.h"
#include "port/assert.h"

#include <stdlib.h>

enum { HEAD = 16 }; /* bytes before a block, which stays aligned */
_Static_assert(_Alignof(max_align_t) <= HEAD && sizeof(size_t) <= HEAD, "blocks are aligned");

static char *block_of(void *p)
{
    return (char *)p - HEAD;
}

static void *begin_block(weir_grpc_heap *h, char *block, size_t size)
{
    if (!block)
        return NULL;
    memcpy(block, &size, sizeof size);
    h->bytes += size + HEAD;
    return block + HEAD;
}

static size_t size_of(void *p)
{
    size_t size;
    memcpy(&size, block_of(p), sizeof size);
    return size;
}

static void *heap_malloc(size_t size, void *heap)
{
    return size > SIZE_MAX - HEAD ? NULL : begin_block(heap, malloc(size + HEAD), size);
}

static void *heap_calloc(size_t n, size_t size, void *heap)
{
    if (size > 0 && n > (SIZE_MAX - HEAD) / size)
        return NULL;
    return begin_block(heap, calloc(1, n * size + HEAD), n * size);
}

static void heap_free(void *p, void *heap)
{
    weir_grpc_heap *h = heap;
    if (!p)
        return;
    WEIR_ASSERT(h->bytes >= size_of(p) + HEAD);
    h->bytes -= size_of(p) + HEAD;
    free(block_of(p));
}

static void *heap_realloc(void *p, size_t size, void *heap)
{
    weir_grpc_heap *h = heap;
    if (!p)
        return heap_malloc(size, heap);
    if (size > SIZE_MAX - HEAD)
        return NULL;
    size_t before = size_of(p) + HEAD;
    void *block = begin_block(h, realloc(block_of(p), size + HEAD), size);
    h->bytes -= block ? before : 0;
    return block;
}

void weir_grpc_heap_init(weir_grpc_heap *h)
{
    h->bytes = 0;
    h->mem = (nghttp2_mem){h, heap_malloc, heap_free, heap_calloc, heap_realloc};
}

void *weir_grpc_alloc(weir_grpc_heap *h, size_t size)
{
    return heap_malloc(size, h);
}

void weir_grpc_free(weir_grpc_heap *h, void *p)
{
    heap_free(p, h);
}
