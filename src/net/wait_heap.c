/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A binary heap of pointers to elements, each of which stores its index. */

#include "net/queue.h"

#include "port/assert.h"
#include "port/port.h"

#include <assert.h>
#include <string.h>

enum { CAPACITY_FIRST = 64 };

bool weir_wait_heap_reserve(weir_wait_heap *w, size_t n)
{
    if (n <= w->capacity)
        return true;
    size_t capacity = w->capacity < CAPACITY_FIRST ? CAPACITY_FIRST : 2 * w->capacity;
    if (capacity < n)
        capacity = n;
    weir_wait **heap = port_zalloc(capacity + 1, sizeof(weir_wait *));
    if (!heap)
        return false;
    if (w->heap)
        memcpy(heap, w->heap, (w->len + 1) * sizeof(weir_wait *));
    port_free(w->heap);
    w->heap = heap;
    w->capacity = capacity;
    return true;
}

void weir_wait_heap_free(weir_wait_heap *w)
{
    port_free(w->heap);
}

static bool before(const weir_wait *a, const weir_wait *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

static void put(weir_wait_heap *w, weir_wait *one, size_t place)
{
    WEIR_ASSERT(place >= 1 && place <= w->len);
    w->heap[place] = one;
    one->place = place;
}

/* Restores the order: puts `one` at the free index `place`, then moves it up or down (sift). */
static void sift(weir_wait_heap *w, weir_wait *one, size_t place)
{
    for (; place > 1 && before(one, w->heap[place / 2]); place /= 2)
        put(w, w->heap[place / 2], place);
    for (size_t next; (next = 2 * place) <= w->len; place = next) {
        if (next < w->len && before(w->heap[next + 1], w->heap[next]))
            next++;
        if (!before(w->heap[next], one))
            break;
        put(w, w->heap[next], place);
    }
    put(w, one, place);
}

void weir_wait_heap_add(weir_wait_heap *w, weir_wait *one, int64_t at_ns)
{
    assert(one->place == 0 && w->len < w->capacity);
    one->at_ns = at_ns;
    one->sequence = w->next_sequence++;
    sift(w, one, ++w->len);
}

void weir_wait_heap_remove(weir_wait_heap *w, weir_wait *one)
{
    if (one->place == 0)
        return;
    WEIR_ASSERT(one->place <= w->len && w->heap[one->place] == one);
    weir_wait *last = w->heap[w->len--];
    if (last != one)
        sift(w, last, one->place);
    one->place = 0;
}
