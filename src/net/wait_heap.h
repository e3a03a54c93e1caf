/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_WAIT_HEAP_H
#define WEIR_NET_WAIT_HEAP_H
/* A priority queue of delayed replies: a binary heap, ordered by time. Equal times keep the order
 * in which they were added. It must not know any clock, timer or connection. One thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An element, embedded in the object that waits. All zero: not in the heap. */
typedef struct weir_wait {
    int64_t at_ns;
    uint64_t sequence; /* order among elements with the same at_ns */
    size_t place;      /* index in the heap, from 1; 0: not in it */
} weir_wait;

/* All zero: empty. */
typedef struct weir_wait_heap {
    weir_wait **heap; /* [1..len]; element i is not later than 2i and 2i + 1 */
    size_t len, capacity;
    uint64_t next_sequence;
} weir_wait_heap;

/* Reserves memory for n elements in total, so that adding them cannot fail. Returns false if memory
 * is exhausted. */
bool weir_wait_heap_reserve(weir_wait_heap *w, size_t n);

/* Frees the memory. */
void weir_wait_heap_free(weir_wait_heap *w);

/* Adds an element that is not in the heap. Its memory must have been reserved. */
void weir_wait_heap_add(weir_wait_heap *w, weir_wait *one, int64_t at_ns);

/* Removes an element, if it is in the heap. */
void weir_wait_heap_remove(weir_wait_heap *w, weir_wait *one);

/* Returns the earliest element, or NULL. */
static inline weir_wait *weir_wait_heap_first(const weir_wait_heap *w)
{
    return w->len > 0 ? w->heap[1] : NULL;
}

#endif
