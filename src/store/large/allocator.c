/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* First-fit search in bitmaps, which begins where the last search ended (next fit). */

#include "store/large/allocator.h"

#include "port/assert.h"
#include "store/robust_lock.h"

enum {
    /* Units that a short search covers, beside NEAR_BLOCKS times the block's size. */
    NEAR = 1 << 14,
    NEAR_BLOCKS = 8,
    FAR = 1 << 22,
    GAPS = 1 << 15, /* gaps that a search tries */
    LIST_FAR = 1 << 13,
};

enum { OP_NONE, OP_ALLOC, OP_FREE };

/* ---- bitmaps --------------------------------------------------------------------------------- */

/* The first bit in from..to-1 that equals `value`; `to` if there is none. */
static uint64_t next_bit(const port_word *bits, uint64_t from, uint64_t to, bool value)
{
    while (from < to) {
        uint64_t word = port_word_load_relaxed(&bits[from / 64]);
        word = (value ? word : ~word) >> from % 64;
        if (word != 0) {
            uint64_t at = from + (uint64_t)__builtin_ctzll(word);
            return at < to ? at : to;
        }
        from = (from / 64 + 1) * 64;
    }
    return to;
}

static void set_bits(port_word *bits, uint64_t from, uint64_t count, bool value)
{
    for (uint64_t end = from + count; from < end;) {
        uint64_t low = from % 64, n = 64 - low < end - from ? 64 - low : end - from;
        uint64_t mask = (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1) << low;
        port_word *word = &bits[from / 64];
        uint64_t old = port_word_load_relaxed(word);
        port_word_store_relaxed(word, value ? old | mask : old & ~mask);
        from += n;
    }
}

/* The start of `units` free units in a row, within from..to-1; 0 if there are none, or after GAPS
 * gaps that were too small. */
static uint64_t find_run(const weir_allocator *b, uint64_t from, uint64_t to, uint64_t units)
{
    if (from == 0)
        from = 1;
    for (unsigned gaps = 0; gaps < GAPS; gaps++) {
        from = next_bit(b->taken, from, to, false);
        if (from >= to || units > b->units - from)
            break;
        uint64_t end = next_bit(b->taken, from, from + units, true);
        WEIR_ASSERT(end > from && end <= from + units);
        if (end == from + units)
            return from;
        from = end;
    }
    return 0;
}

/* ---- changes that survive a kill ------------------------------------------------------------- */

static void clear_block(weir_allocator *b, uint64_t at, uint64_t units)
{
    set_bits(b->begins, at, units, false);
    set_bits(b->taken, at, units, false);
}

/* Completes a change: an allocation is undone, a free is finished. */
static void end_op(weir_allocator *b)
{
    weir_allocator_head *h = b->head;
    uint64_t op = port_word_load_relaxed(&h->op), at = port_word_load_relaxed(&h->op_at),
             units = port_word_load_relaxed(&h->op_units),
             pending = port_word_load_relaxed(&h->op_pending);
    if (op == OP_NONE)
        return;
    if (at > 0 && at < b->units && units <= b->units - at) {
        clear_block(b, at, units);
        uint64_t freed = op == OP_FREE;
        port_word_store_relaxed(&h->used, port_word_load_relaxed(&h->op_used) - freed * units);
        port_word_store_relaxed(&h->count, port_word_load_relaxed(&h->op_count) - freed);
        /* A process that has taken over the dead one's stripe may use the word for another block
         * by now. No block begins at `at` until the lock is released, so it cannot come back. */
        uint64_t there = pending < b->words_len ? port_word_load_relaxed(&b->words[pending]) : 0;
        if (there >> WEIR_PENDING_SHIFT == at)
            (void)port_word_cas_relaxed(&b->words[pending], &there, 0);
    }
    port_word_store_release(&h->op, OP_NONE);
}

static void begin_op(weir_allocator *b, uint64_t op, uint64_t at, uint64_t units,
                     port_word *pending)
{
    weir_allocator_head *h = b->head;
    WEIR_ASSERT(port_word_load_relaxed(&h->lock) == b->processes->self);
    WEIR_ASSERT(pending >= b->words && (uint64_t)(pending - b->words) < b->words_undo);
    WEIR_ASSERT(at > 0 && units <= b->units - at);
    port_word_store_relaxed(&h->op_at, at);
    port_word_store_relaxed(&h->op_units, units);
    port_word_store_relaxed(&h->op_pending, (uint64_t)(pending - b->words));
    port_word_store_relaxed(&h->op_used, port_word_load_relaxed(&h->used));
    port_word_store_relaxed(&h->op_count, port_word_load_relaxed(&h->count));
    port_word_store_release(&h->op, op);
    port_stores_in_order();
}

static void lock(weir_allocator *b)
{
    if (weir_robust_lock(&b->head->lock, b->processes) == WEIR_LOCK_OWNER_DIED)
        end_op(b);
}

static void unlock(weir_allocator *b)
{
    weir_robust_unlock(&b->head->lock);
}

void weir_allocator_repair(weir_allocator *b)
{
    if (port_word_load_relaxed(&b->head->lock) != b->processes->self)
        return;
    end_op(b);
    unlock(b);
}

/* ---- alloc and free -------------------------------------------------------------------------- */

static uint64_t at_most(uint64_t x, uint64_t max)
{
    return x < max ? x : max;
}

static uint64_t find_place(const weir_allocator *b, uint64_t units, uint64_t from, bool far)
{
    uint64_t near = NEAR + at_most(units, b->units) * NEAR_BLOCKS;
    if (from == 0)
        from = port_word_load_relaxed(&b->head->rover);
    from = at_most(from, b->units);
    uint64_t to = at_most(b->units, from + (far ? FAR : near));
    uint64_t at = find_run(b, from, to, units);
    if (at == 0 && (far || to == b->units))
        at = find_run(b, 0, far ? from : at_most(from, near), units);
    return at;
}

static void take_block(weir_allocator *b, uint64_t at, uint64_t units, uint64_t words,
                       unsigned level, uint64_t hash)
{
    weir_allocator_head *h = b->head;
    weir_block *block = weir_block_at(b, at);
    port_word_store_relaxed(&block->hash, hash);
    port_word_store_relaxed(&block->mark, INT64_MAX);
    port_word_store_relaxed(&block->next, 0);
    port_word_store_relaxed(&block->shape, weir_block_shape(words, level, hash, at));
    set_bits(b->taken, at, units, true);
    set_bits(b->begins, at, 1, true);
    port_word_store_relaxed(&h->used, port_word_load_relaxed(&h->used) + units);
    port_word_store_relaxed(&h->count, port_word_load_relaxed(&h->count) + 1);
}

uint64_t weir_allocator_alloc(weir_allocator *b, uint64_t words, unsigned level, uint64_t hash,
                              uint64_t from, bool far, port_word *pending)
{
    uint64_t units = weir_block_units(words);
    lock(b);
    uint64_t at = find_place(b, units, from, far);
    if (at != 0) {
        begin_op(b, OP_ALLOC, at, units, pending);
        take_block(b, at, units, words, level, hash);
        port_word_store_relaxed(&b->head->rover, at + units);
        port_word_store_relaxed(pending, at << WEIR_PENDING_SHIFT | WEIR_PENDING_ADDED);
        port_word_store_release(&b->head->op, OP_NONE);
    }
    unlock(b);
    return at;
}

void weir_allocator_free(weir_allocator *b, port_word *pending)
{
    lock(b);
    /* Only now: another process may have completed the free of a dead process, and the block may
     * belong to another key. */
    uint64_t at = port_word_load_relaxed(pending) >> WEIR_PENDING_SHIFT;
    if (weir_block_sound(b, at)) {
        begin_op(b, OP_FREE, at, weir_block_units(weir_block_words(weir_block_at(b, at))), pending);
        end_op(b);
    } else {
        port_word_store_relaxed(pending, 0);
    }
    unlock(b);
}

/* ---- listing --------------------------------------------------------------------------------- */

size_t weir_allocator_list(weir_allocator *b, uint64_t from, weir_block_seen *ret, size_t max,
                           uint64_t *ret_next)
{
    size_t n = 0;
    lock(b); /* so that blocks in the list are not freed meanwhile */
    uint64_t to = at_most(b->units, from + LIST_FAR);
    while (n < max && (from = next_bit(b->begins, from, to, true)) < to) {
        const weir_block *block = weir_block_at(b, from);
        if (weir_block_sound(b, from)) {
            ret[n++] = (weir_block_seen){from, weir_block_units(weir_block_words(block)),
                                         port_word_load_relaxed(&block->hash),
                                         (int64_t)port_word_load_relaxed(&block->mark)};
        } else { /* damaged: in no index */
            uint64_t end = next_bit(b->begins, from + 1, to, true);
            clear_block(b, from, next_bit(b->taken, from, end, false) - from);
        }
        from++;
    }
    *ret_next = from;
    unlock(b);
    return n;
}

uint64_t weir_allocator_sweep_at(weir_allocator *b)
{
    uint64_t at = port_word_load_relaxed(&b->head->sweep_at);
    return at < b->units ? at : 0;
}

void weir_allocator_sweep_to(weir_allocator *b, uint64_t to)
{
    port_word_store_relaxed(&b->head->sweep_at, to < b->units ? to : 0);
}

uint64_t weir_allocator_any(weir_allocator *b)
{
    __extension__ typedef unsigned __int128 wide;
    uint64_t x = port_add_relaxed(&b->head->dice, 0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (uint64_t)((wide)x * b->units >> 64);
}
