/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_WAIT_HEAP_H
#define WEIR_NET_WAIT_HEAP_H
/* Who waits until when: a heap that gives back the earliest, and of equal ones the one that was
 * added first. It must not know any clock, timer or connection. One thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded in what waits. All zero: it does not wait. */
typedef struct weir_wait {
    int64_t at_ns;
    uint64_t turn; /* among those with the same at_ns */
    size_t place;  /* in the heap, from 1; 0: not there */
} weir_wait;

/* All zero: empty. */
typedef struct weir_wait_heap {
    weir_wait **heap; /* [1..len]; no one is later than the two at twice its place */
    size_t len, room;
    uint64_t turns;
} weir_wait_heap;

/* Makes room for n in all, so that adding cannot fail. Returns false if there is no memory. */
bool weir_wait_heap_reserve(weir_wait_heap *w, size_t n);

/* Gives the memory back. */
void weir_wait_heap_free(weir_wait_heap *w);

/* Adds one that does not wait, to wait until at_ns; room must have been reserved for it. */
void weir_wait_heap_add(weir_wait_heap *w, weir_wait *one, int64_t at_ns);

/* Takes it out; nothing happens if it is not there. */
void weir_wait_heap_remove(weir_wait_heap *w, weir_wait *one);

/* The earliest, or NULL. */
static inline weir_wait *weir_wait_heap_first(const weir_wait_heap *w)
{
    return w->len > 0 ? w->heap[1] : NULL;
}

#endif
