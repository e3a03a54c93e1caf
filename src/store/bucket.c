/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One bucket. Under the lock cells are loaded relaxed, since nobody else writes them, and stored
 * with release for the readers that take no lock. */

#include "store/bucket.h"

#include "port/port.h"

enum { SPINS = 64 }; /* before the processor is given to somebody else */

uint64_t weir_bucket_wait(const weir_bucket *b)
{
    for (unsigned spins = 0;; spins++) {
        uint64_t header = port_word_load_acquire(&b->cell[0]);
        if (!(header & WEIR_BUCKET_LOCKED))
            return header;
        if (spins < SPINS)
            port_pause();
        else
            port_yield(); /* the thread that holds it may be waiting for this processor */
    }
}

uint64_t weir_bucket_lock(weir_bucket *b)
{
    uint64_t header = weir_bucket_read(b);
    while (!weir_bucket_try_lock(b, header))
        header = weir_bucket_read(b);
    return header;
}

void weir_bucket_write(weir_bucket *b, unsigned at, const weir_entry *e)
{
    port_word_store_release(&b->cell[at], e->tag);
    port_word_store_release(&b->cell[at + 1], (uint64_t)e->fresh_at_ns);
    for (unsigned i = 2; i < e->cells; i++)
        port_word_store_release(&b->cell[at + i], e->words[i - 2]);
}

/* The first cell that is not used; WEIR_BUCKET_CELLS if all are. */
static unsigned end_of(uint64_t marks)
{
    return marks ? 63 - (unsigned)__builtin_clzll(marks) : 1;
}

unsigned weir_bucket_free_cells(uint64_t marks)
{
    return WEIR_BUCKET_CELLS - end_of(marks);
}

uint64_t weir_bucket_add(weir_bucket *b, uint64_t marks, const weir_entry *e)
{
    unsigned at = end_of(marks);
    weir_bucket_write(b, at, e);
    return marks | (uint64_t)1 << at | (uint64_t)1 << (at + e->cells);
}

uint64_t weir_bucket_copy(weir_bucket *b, uint64_t marks, const weir_bucket *from, unsigned at,
                          unsigned cells)
{
    unsigned to = end_of(marks);
    for (unsigned i = 0; i < cells; i++)
        port_word_store_release(&b->cell[to + i], port_word_load_relaxed(&from->cell[at + i]));
    return marks | (uint64_t)1 << to | (uint64_t)1 << (to + cells);
}

uint64_t weir_bucket_drop(weir_bucket *b, uint64_t marks, uint64_t drop)
{
    uint64_t kept = 0;
    unsigned to = 1;
    for (uint64_t left = marks; weir_bucket_more(left);) {
        unsigned at = weir_bucket_next(&left), end = weir_bucket_end(left);
        if (drop >> at & 1)
            continue;
        kept |= (uint64_t)1 << to;
        for (; at < end; at++, to++)
            port_word_store_release(&b->cell[to], port_word_load_relaxed(&b->cell[at]));
    }
    return kept ? kept | (uint64_t)1 << to : 0;
}

static int64_t fresh_at(const weir_bucket *b, unsigned at)
{
    return (int64_t)port_word_load_relaxed(&b->cell[at + 1]);
}

uint64_t weir_bucket_fresh(const weir_bucket *b, uint64_t marks, int64_t now_ns)
{
    uint64_t fresh = 0;
    for (uint64_t left = marks; weir_bucket_more(left);) {
        unsigned at = weir_bucket_next(&left);
        fresh |= (uint64_t)(fresh_at(b, at) <= now_ns) << at;
    }
    return fresh;
}

/* Of the entries that are not in `but`, the one closest to fresh; *ret_cells is its size. */
static unsigned closest(const weir_bucket *b, uint64_t marks, uint64_t but, unsigned *ret_cells)
{
    unsigned best = 0;
    for (uint64_t left = marks; weir_bucket_more(left);) {
        unsigned at = weir_bucket_next(&left);
        if (but >> at & 1 || (best != 0 && fresh_at(b, at) >= fresh_at(b, best)))
            continue;
        best = at;
        *ret_cells = weir_bucket_end(left) - at;
    }
    return best;
}

uint64_t weir_bucket_victims(const weir_bucket *b, uint64_t marks, unsigned cells,
                             int64_t *ret_fresh_at_ns)
{
    uint64_t drop = 0;
    *ret_fresh_at_ns = INT64_MIN;
    for (unsigned room = weir_bucket_free_cells(marks), more = 0; room < cells; room += more) {
        unsigned at = closest(b, marks, drop, &more);
        drop |= (uint64_t)1 << at;
        *ret_fresh_at_ns = fresh_at(b, at);
    }
    return drop;
}

uint64_t weir_bucket_count(uint64_t marks)
{
    uint64_t keys = marks ? (uint64_t)__builtin_popcountll(marks) - 1 : 0;
    return (uint64_t)(end_of(marks) - 1) << 32 | keys;
}
