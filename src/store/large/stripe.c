/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The order of the stores is all there is to it: a record before it is counted, the count before
 * the words, the words before the count is 0 again, and that before records are written anew. */

#include "store/large/stripe.h"

static uint64_t records(const weir_stripe *s)
{
    uint64_t n = port_word_load_relaxed(&s->records);
    return n <= WEIR_STRIPE_RECORDS ? n : WEIR_STRIPE_RECORDS;
}

bool weir_stripe_record(weir_stripe *s, weir_allocator *b, port_word *const *words, size_t count,
                        bool spare)
{
    uint64_t n = records(s);
    uint64_t room = (uint64_t)WEIR_STRIPE_RECORDS - (spare ? 0 : WEIR_STRIPE_SPARE);
    if (n + count > room)
        return false;
    for (size_t i = 0; i < count; i++, n++) {
        port_word_store_relaxed(&s->record[n].at, (uint64_t)(words[i] - b->words));
        port_word_store_relaxed(&s->record[n].old, port_word_load_relaxed(words[i]));
    }
    port_word_store_release(&s->records, n);
    port_stores_in_order();
    return true;
}

void weir_stripe_undo(weir_stripe *s, weir_allocator *b, uint64_t keep)
{
    for (uint64_t n = records(s); n > keep; n--) {
        uint64_t at = port_word_load_relaxed(&s->record[n - 1].at);
        if (at >= b->words_undo && at < b->words_len)
            port_word_store_relaxed(&b->words[at], port_word_load_relaxed(&s->record[n - 1].old));
    }
    port_word_store_release(&s->records, keep);
    port_stores_in_order();
}

static uint64_t noted(const weir_stripe *s)
{
    return port_word_load_relaxed(&s->noted) & (((uint64_t)1 << WEIR_STRIPE_NOTES) - 1);
}

port_word *weir_stripe_note(weir_stripe *s)
{
    unsigned i = (unsigned)__builtin_ctzll(~noted(s));
    if (i >= WEIR_STRIPE_NOTES)
        return NULL;
    port_word_store_release(&s->noted, noted(s) | (uint64_t)1 << i);
    port_stores_in_order();
    return &s->note[i];
}

static port_word *note_of(weir_stripe *s, uint64_t at)
{
    for (uint64_t left = noted(s); left != 0; left &= left - 1) {
        port_word *note = &s->note[__builtin_ctzll(left)];
        if (port_word_load_relaxed(note) >> WEIR_NOTE_SHIFT == at)
            return note;
    }
    return NULL;
}

bool weir_stripe_gone(weir_stripe *s, uint64_t at)
{
    port_word *note = note_of(s, at);
    uint64_t bits = note ? port_word_load_relaxed(note) & WEIR_NOTE_BORN : 0;
    if (!note)
        note = weir_stripe_note(s);
    if (!note)
        return false;
    port_word_store_release(note, at << WEIR_NOTE_SHIFT | bits | WEIR_NOTE_GONE);
    port_stores_in_order();
    return true;
}

void weir_stripe_forget(weir_stripe *s, const port_word *note)
{
    port_word_store_release(&s->noted, noted(s) & ~((uint64_t)1 << (note - s->note)));
}

void weir_stripe_free(weir_stripe *s, weir_allocator *b, uint64_t at)
{
    port_word *note = note_of(s, at);
    if (!note)
        return;
    weir_allocator_free(b, at, note);
    weir_stripe_forget(s, note);
}

/* Frees the blocks whose notes have `bit`, and forgets the others, which the index holds. */
static void clear_notes(weir_stripe *s, weir_allocator *b, uint64_t bit)
{
    for (uint64_t left = noted(s); left != 0; left &= left - 1) {
        port_word *note = &s->note[__builtin_ctzll(left)];
        uint64_t block = port_word_load_relaxed(note);
        if (block & bit)
            weir_allocator_free(b, block >> WEIR_NOTE_SHIFT, note);
        else
            port_word_store_relaxed(note, 0);
        weir_stripe_forget(s, note);
    }
}

void weir_stripe_commit(weir_stripe *s, weir_allocator *b)
{
    port_word_store_release(&s->records, 0);
    port_stores_in_order();
    clear_notes(s, b, WEIR_NOTE_GONE);
}

void weir_stripe_roll_back(weir_stripe *s, weir_allocator *b)
{
    weir_stripe_undo(s, b, 0);
    clear_notes(s, b, WEIR_NOTE_BORN);
}
