/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The requests are in a ring, sorted by time. One that would have to move far is in a binary heap
 * instead, so that even a log in reverse order takes O(log n) a line. A short key is stored in its
 * entry; a longer one is allocated. */

#include "accesslog/reader.h"

#include "port/assert.h"
#include "port/port.h"

#include <string.h>

#define FAR_NS INT64_C(3600000000000) /* a line further from the log's time than this is doubted */

enum {
    CAPACITY_MIN = 256,
    MOVES_MAX = 64,      /* the entries of the ring that an insertion moves at most */
    CONFIRMATIONS = 100, /* the lines in a row that move the log's time further than FAR_NS */
};

void accesslog_reorder_init(accesslog_reorder *r, int64_t delay_ns, size_t len_max,
                            size_t bytes_max)
{
    *r = (accesslog_reorder){.delay_ns = delay_ns, .len_max = len_max, .bytes_max = bytes_max};
}

static accesslog_held *at(const accesslog_reorder *r, size_t i)
{
    return &r->ring[(r->first + i) & (r->capacity - 1)];
}

/* ---- keys ------------------------------------------------------------------------------------ */

static char *long_key(const accesslog_held *held)
{
    char *ret;
    memcpy(&ret, held->key, sizeof ret);
    return ret;
}

weir_slice accesslog_held_key(const accesslog_held *held)
{
    const char *key = held->key_len > ACCESSLOG_HELD_INLINE ? long_key(held) : held->key;
    return (weir_slice){key, held->key_len};
}

/* Copies a key that is too long for an entry. Returns false if there is no memory. */
static bool copy_key(const char *key, size_t len, char **ret)
{
    *ret = NULL;
    if (len <= ACCESSLOG_HELD_INLINE)
        return true;
    *ret = port_zalloc(1, len);
    if (!*ret)
        return false;
    memcpy(*ret, key, len);
    return true;
}

static inline void fill(accesslog_held *held, const weir_log_record *record, const char *copy,
                        uint64_t line)
{
    held->t_ns = record->t_ns;
    held->cost = record->cost;
    held->line = line;
    held->key_len = (uint32_t)record->key_len;
    if (copy)
        memcpy(held->key, &copy, sizeof copy);
    else
        memcpy(held->key, record->key, record->key_len);
}

/* ---- the log's time -------------------------------------------------------------------------- */

/* Moves the log's time to a line that is far from it, if many lines in a row are: to the nearest of
 * them. One wrong line does not move it, except that the first line of a log is not trusted more
 * than the second. */
static void doubt(accesslog_reorder *r, int64_t t_ns)
{
    bool ahead = t_ns > r->latest_ns;
    bool nearer = ahead ? t_ns < r->far_ns : t_ns > r->far_ns;
    if (r->far == 0 || ahead != (r->far_ns > r->latest_ns)) {
        r->far = 0;
        nearer = true;
    }
    r->far_ns = nearer ? t_ns : r->far_ns;
    r->far++;
    if (r->far < CONFIRMATIONS && (ahead || r->settled))
        return;
    r->latest_ns = r->far_ns;
    r->far = 0;
}

static inline void see_time(accesslog_reorder *r, int64_t t_ns)
{
    int64_t ahead_ns = t_ns - r->latest_ns;
    bool far = ahead_ns > FAR_NS || ahead_ns < -FAR_NS;
    if (r->begun && far)
        doubt(r, t_ns);
    else if (!r->begun || ahead_ns > 0)
        r->latest_ns = t_ns;
    r->far = far ? r->far : 0;
    r->settled = r->begun;
    r->begun = true;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static weir_status grow(accesslog_reorder *r)
{
    size_t wider = r->capacity ? 2 * r->capacity : CAPACITY_MIN;
    accesslog_held *ring = port_zalloc(wider, sizeof *ring);
    if (!ring)
        return WEIR_E_NOMEM;
    for (size_t i = 0; i < r->len; i++)
        ring[i] = *at(r, i);
    port_free(r->ring);
    r->ring = ring;
    r->capacity = wider;
    r->first = 0;
    return WEIR_OK;
}

/* How many entries of the ring are later; more than MOVES_MAX if not all of these were counted. */
static size_t later(const accesslog_reorder *r, int64_t t_ns)
{
    size_t n = 0;
    while (n < r->len && n <= MOVES_MAX && at(r, r->len - 1 - n)->t_ns > t_ns)
        n++;
    return n;
}

/* Makes room for an entry before the last `moves` ones. */
static accesslog_held *insert(accesslog_reorder *r, size_t moves)
{
    WEIR_ASSERT(moves <= r->len && r->len < r->capacity);
    size_t i = r->len++;
    accesslog_held *from = at(r, i - moves), *end = at(r, i);
    if (from < end)
        memmove(from + 1, from, moves * sizeof *from);
    else
        for (size_t n = moves; n > 0; n--, i--)
            *at(r, i) = *at(r, i - 1);
    return from;
}

/* ---- the heap -------------------------------------------------------------------------------- */

static bool is_before(const accesslog_held *a, const accesslog_held *b)
{
    return a->t_ns != b->t_ns ? a->t_ns < b->t_ns : a->line < b->line;
}

static weir_status grow_heap(accesslog_reorder *r)
{
    size_t wider = r->heap_capacity ? 2 * r->heap_capacity : CAPACITY_MIN;
    accesslog_held *heap = port_zalloc(wider, sizeof *heap);
    if (!heap)
        return WEIR_E_NOMEM;
    if (r->heap_len > 0)
        memcpy(heap, r->heap, r->heap_len * sizeof *heap);
    port_free(r->heap);
    r->heap = heap;
    r->heap_capacity = wider;
    return WEIR_OK;
}

static void push(accesslog_reorder *r, const accesslog_held *held)
{
    WEIR_ASSERT(r->heap_len < r->heap_capacity);
    size_t i = r->heap_len++;
    for (; i > 0 && is_before(held, &r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = *held;
}

static void pop(accesslog_reorder *r)
{
    accesslog_held *heap = r->heap, moved = heap[--r->heap_len];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < r->heap_len; i = child) {
        child += child + 1 < r->heap_len && is_before(&heap[child + 1], &heap[child]);
        if (!is_before(&heap[child], &moved))
            break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The earliest request. The heap must have one. */
static accesslog_held *earliest(const accesslog_reorder *r)
{
    accesslog_held *first = at(r, 0);
    return r->len == 0 || is_before(r->heap, first) ? r->heap : first;
}

weir_status accesslog_reorder_add(accesslog_reorder *r, const weir_log_record *record,
                                  uint64_t line)
{
    char *copy;
    WEIR_ASSERT(!accesslog_reorder_ready(r) && !r->ended);
    size_t moves = later(r, record->t_ns);
    bool far = moves > MOVES_MAX;
    if (far ? r->heap_len == r->heap_capacity && grow_heap(r) != WEIR_OK
            : r->len == r->capacity && grow(r) != WEIR_OK)
        return WEIR_E_NOMEM;
    if (!copy_key(record->key, record->key_len, &copy))
        return WEIR_E_NOMEM;
    if (far) {
        accesslog_held held;
        fill(&held, record, copy, line);
        push(r, &held);
    } else {
        fill(insert(r, moves), record, copy, line);
    }
    r->bytes += copy ? record->key_len : 0;
    see_time(r, record->t_ns);
    return WEIR_OK;
}

void accesslog_reorder_end(accesslog_reorder *r)
{
    r->ended = true;
}

size_t accesslog_reorder_len(const accesslog_reorder *r)
{
    return r->len + r->heap_len;
}

const accesslog_held *accesslog_reorder_ready(const accesslog_reorder *r)
{
    size_t len = r->len + r->heap_len;
    if (len == 0)
        return NULL;
    const accesslog_held *first = r->heap_len == 0 ? at(r, 0) : earliest(r);
    bool ready = r->latest_ns - first->t_ns >= r->delay_ns || len >= r->len_max ||
                 r->bytes >= r->bytes_max || r->ended;
    return ready ? first : NULL;
}

void accesslog_reorder_remove(accesslog_reorder *r)
{
    WEIR_ASSERT(accesslog_reorder_len(r) > 0);
    bool in_heap = r->heap_len > 0 && earliest(r) == r->heap;
    accesslog_held *held = in_heap ? r->heap : at(r, 0);
    if (held->key_len > ACCESSLOG_HELD_INLINE) {
        r->bytes -= held->key_len;
        port_free(long_key(held));
    }
    if (in_heap) {
        pop(r);
        return;
    }
    r->first = (r->first + 1) & (r->capacity - 1);
    r->len--;
}

void accesslog_reorder_free(accesslog_reorder *r)
{
    while (accesslog_reorder_len(r) > 0)
        accesslog_reorder_remove(r);
    port_free(r->ring);
    port_free(r->heap);
    *r = (accesslog_reorder){0};
}
