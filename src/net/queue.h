/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_QUEUE_H
#define WEIR_NET_QUEUE_H
/* An intrusive queue: its structures contain their place in it, so nothing is allocated, and a
 * place can be removed from the middle. */

#include "port/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: in no queue. */
typedef struct net_place {
    struct net_place *next, **link; /* link: NULL if it is in no queue */
} net_place;

typedef struct net_queue {
    net_place *first, **end;
} net_queue;

static inline void net_queue_init(net_queue *q)
{
    q->first = NULL;
    q->end = &q->first;
}

static inline bool net_is_queued(const net_place *p)
{
    return p->link;
}

/* Adds a place at the end. Does nothing if it is in the queue. */
static inline void net_queue_add(net_queue *q, net_place *p)
{
    if (p->link)
        return;
    p->next = NULL;
    p->link = q->end;
    *q->end = p;
    q->end = &p->next;
}

/* Does nothing if the place is not in the queue. */
static inline void net_queue_remove(net_queue *q, net_place *p)
{
    if (!p->link)
        return;
    WEIR_ASSERT(*p->link == p);
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    else
        q->end = p->link;
    p->link = NULL;
}

/* ---- delayed replies (wait_heap.c) ----------------------------------------------------------- */

/* A priority queue of delayed replies: a binary heap, ordered by time. Equal times keep the order
 * in which they were added. It must not know any clock, timer or connection. One thread. */

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
