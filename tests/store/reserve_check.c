/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The walker of the reservations. It includes reserve.c, which keeps the layout to itself. */

#include "store/reserve.c" /* NOLINT(bugprone-suspicious-include) */

#include "tests/store/check.h"

#include <inttypes.h>

static const char *check_heap(const table *t)
{
    for (uint32_t at = 0; at < t->head->heap_len; at++) {
        uint32_t slot = t->heap[at];
        if (slot >= t->max)
            return weir_wrong("heap entry %" PRIu32 ": there is no record %" PRIu32, at, slot);
        if (!sound(t, &t->records[slot], slot))
            return weir_wrong("record %" PRIu32 ": in the heap, and not open or damaged", slot);
        if (t->link[slot] != at)
            return weir_wrong("record %" PRIu32 ": not at its place in the heap", slot);
        if (at > 0 && sooner(t, slot, t->heap[(at - 1) / 2]))
            return weir_wrong("heap entry %" PRIu32 ": expires before its parent", at);
    }
    return NULL;
}

/* Checks the free list, and sets *ret_len to its length. */
static const char *check_free(const table *t, uint32_t *ret_len)
{
    uint32_t len = 0;
    for (uint32_t next = t->head->free_first; next > 0; next = t->link[next - 1], len++) {
        if (next > t->max || len == t->max)
            return weir_wrong("the list of free records is damaged");
        if (is_open(&t->records[next - 1]))
            return weir_wrong("record %" PRIu32 ": open, and in the list of free ones", next - 1);
    }
    *ret_len = len;
    return NULL;
}

/* Checks that each open record is in the chain of its hash, once. */
static const char *check_chains(const table *t)
{
    uint32_t len = 0;
    for (uint32_t i = 0; t->chain && i < t->max; i++) {
        uint32_t previous = 0;
        for (uint32_t next = t->chain[i]; next > 0; next = t->next[next - 1], len++) {
            if (next > t->max || len == t->head->heap_len)
                return weir_wrong("chain %" PRIu32 " is damaged", i);
            const record *r = &t->records[next - 1];
            if (!is_open(r) || r->hash % t->max != i || t->previous[next - 1] != previous)
                return weir_wrong("record %" PRIu32 ": in a wrong chain", next - 1);
            previous = next;
        }
    }
    if (t->chain && len != t->head->heap_len)
        return weir_wrong("%" PRIu32 " records in chains, expected %" PRIu32, len,
                          t->head->heap_len);
    return NULL;
}

/* Checks the time of the next expiry. The heap must be consistent. */
static const char *check_next(const table *t)
{
    int64_t expected_ns = t->head->heap_len > 0 ? t->records[t->heap[0]].expires_ns : INT64_MAX;
    int64_t next_ns = (int64_t)port_word_load_relaxed(&t->head->next_ns);
    if (next_ns != expected_ns)
        return weir_wrong("the next expiry is at %" PRId64 ", expected %" PRId64, next_ns,
                          expected_ns);
    return NULL;
}

const char *weir_reserve_check(weir_reserve *r)
{
    const table *t = (const table *)r;
    const head *h = t->head;
    uint32_t free_len = 0;
    if (port_word_load_relaxed(&h->lock) != 0)
        return weir_wrong("the reservations: locked");
    if (h->heap_len > t->max || h->used > t->max)
        return weir_wrong("the reservations: more than fit");
    const char *wrong = check_heap(t);
    if (!wrong)
        wrong = check_free(t, &free_len);
    if (!wrong && h->heap_len + free_len != h->used)
        wrong = weir_wrong("%" PRIu32 " records open and %" PRIu32 " free, expected %" PRIu32,
                           h->heap_len, free_len, h->used);
    if (!wrong)
        wrong = check_chains(t);
    return wrong ? wrong : check_next(t);
}
