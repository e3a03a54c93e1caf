/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The journal relies on the order of stores. A transaction stores first the record, then the new
 * length of the journal, then the changed words, and last the length 0. The record of the next
 * transaction follows. */

#include "store/large/stripe.h"

#include "port/assert.h"

static uint64_t journal_len(const weir_stripe *s)
{
    uint64_t n = port_word_load_relaxed(&s->journal_len);
    return n <= WEIR_JOURNAL_MAX ? n : WEIR_JOURNAL_MAX;
}

/* Saves the word `at` in record n. */
static void save_word(weir_stripe *s, const weir_allocator *b, uint64_t n, uint64_t at)
{
    WEIR_ASSERT(n < WEIR_JOURNAL_MAX && at >= b->words_undo && at < b->words_len);
    port_word_store_relaxed(&s->journal[n].at, at);
    port_word_store_relaxed(&s->journal[n].old, port_word_load_relaxed(&b->words[at]));
}

static void set_journal_len(weir_stripe *s, uint64_t n)
{
    port_word_store_release(&s->journal_len, n);
    port_stores_in_order();
}

bool weir_stripe_journal(weir_stripe *s, weir_allocator *b, port_word *const *words, size_t count,
                         bool spare)
{
    uint64_t n = journal_len(s);
    uint64_t space = (uint64_t)WEIR_JOURNAL_MAX - (spare ? 0 : WEIR_JOURNAL_SPARE);
    if (n + count > space)
        return false;
    for (size_t i = 0; i < count; i++)
        save_word(s, b, n++, (uint64_t)(words[i] - b->words));
    set_journal_len(s, n);
    return true;
}

bool weir_stripe_journal_block(weir_stripe *s, weir_allocator *b, const weir_block *block,
                               const size_t *index, size_t count)
{
    uint64_t n = journal_len(s);
    if (n + count + 1 > (uint64_t)WEIR_JOURNAL_MAX - WEIR_JOURNAL_SPARE)
        return false;
    uint64_t state = (uint64_t)((const port_word *)block->state - b->words);
    for (size_t i = 0; i < count; i++)
        save_word(s, b, n++, state + index[i]);
    save_word(s, b, n++, (uint64_t)(&block->mark - b->words));
    set_journal_len(s, n);
    return true;
}

void weir_stripe_undo(weir_stripe *s, weir_allocator *b, uint64_t keep)
{
    for (uint64_t n = journal_len(s); n > keep; n--) {
        uint64_t at = port_word_load_relaxed(&s->journal[n - 1].at);
        if (at >= b->words_undo && at < b->words_len)
            port_word_store_relaxed(&b->words[at], port_word_load_relaxed(&s->journal[n - 1].old));
    }
    set_journal_len(s, keep);
}

static uint64_t pending_used(const weir_stripe *s)
{
    return port_word_load_relaxed(&s->pending_used) & (((uint64_t)1 << WEIR_STRIPE_PENDING) - 1);
}

port_word *weir_stripe_take_pending(weir_stripe *s)
{
    unsigned i = (unsigned)__builtin_ctzll(~pending_used(s));
    if (i >= WEIR_STRIPE_PENDING)
        return NULL;
    /* Relaxed: a repair looks at all pending words. */
    port_word_store_relaxed(&s->pending_used, pending_used(s) | (uint64_t)1 << i);
    return &s->pending[i];
}

static port_word *pending_of(weir_stripe *s, uint64_t at)
{
    for (uint64_t left = pending_used(s); left != 0; left &= left - 1) {
        port_word *pending = &s->pending[__builtin_ctzll(left)];
        if (port_word_load_relaxed(pending) >> WEIR_PENDING_SHIFT == at)
            return pending;
    }
    return NULL;
}

bool weir_stripe_mark_removed(weir_stripe *s, uint64_t at)
{
    port_word *pending = pending_of(s, at);
    uint64_t bits = pending ? port_word_load_relaxed(pending) & WEIR_PENDING_ADDED : 0;
    if (!pending)
        pending = weir_stripe_take_pending(s);
    if (!pending)
        return false;
    port_word_store_relaxed(pending, at << WEIR_PENDING_SHIFT | bits | WEIR_PENDING_REMOVED);
    port_stores_in_order();
    return true;
}

void weir_stripe_give_pending(weir_stripe *s, const port_word *pending)
{
    WEIR_ASSERT(pending >= s->pending && pending < s->pending + WEIR_STRIPE_PENDING);
    port_word_store_relaxed(&s->pending_used,
                            pending_used(s) & ~((uint64_t)1 << (pending - s->pending)));
}

void weir_stripe_free(weir_stripe *s, weir_allocator *b, uint64_t at)
{
    port_word *pending = pending_of(s, at);
    if (!pending)
        return;
    weir_allocator_free(b, pending);
    weir_stripe_give_pending(s, pending);
}

/* Frees the pending blocks that have `bit`, and releases the pending words of the others, which
 * stay in the index. */
static void clear_pending(weir_stripe *s, weir_allocator *b, uint64_t bit)
{
    for (uint64_t left = pending_used(s); left != 0; left &= left - 1) {
        port_word *pending = &s->pending[__builtin_ctzll(left)];
        if (port_word_load_relaxed(pending) & bit)
            weir_allocator_free(b, pending);
        else
            port_word_store_relaxed(pending, 0);
        weir_stripe_give_pending(s, pending);
    }
}

void weir_stripe_commit(weir_stripe *s, weir_allocator *b)
{
    set_journal_len(s, 0);
    if (pending_used(s) != 0)
        clear_pending(s, b, WEIR_PENDING_REMOVED);
}

void weir_stripe_roll_back(weir_stripe *s, weir_allocator *b)
{
    weir_stripe_undo(s, b, 0);
    clear_pending(s, b, WEIR_PENDING_ADDED);
}
