/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Notes of keys that move while the table is copied.
 *
 * Each mover counts its move in the word `moves` of its bucket's counters, with both buckets
 * locked. The lowest bit says whether the memory is watched. If the mover counts first (release),
 * the watcher that sets the bit (acquire) knows of its locks, and waits for the buckets. If the
 * watcher is first, the mover sees the bit, and notes the hash before it unlocks the bucket that
 * the key leaves. So a watcher that finds the key gone from there also finds the note.
 *
 * A note is the hash, in one of a few words that follow from the hash. If none of them is free, it
 * is lost, and counted. */

#include "store/table/cuckoo.h"

enum { WATCHED = 1, MOVE = 2, PROBES = 16 };

_Static_assert(WEIR_TABLE_NOTES <= WEIR_NOTES * WEIR_UNDO_RECORDS, "each has a word");

static port_word *note_at(weir_table *t, uint64_t n)
{
    n %= WEIR_TABLE_NOTES;
    return &t->head->undo[n / WEIR_NOTES].noted[n % WEIR_NOTES];
}

static bool is_watched(weir_table *t, const weir_bucket *b)
{
    return port_word_add_release(&weir_counts_of(t, b)->moves, MOVE) & WATCHED;
}

static void note(weir_table *t, uint64_t hash)
{
    port_word_add_relaxed(&t->head->notes, 1);
    for (uint64_t i = 0; i < PROBES; i++) {
        uint64_t none = 0;
        if (port_word_cas_relaxed(note_at(t, hash + i), &none, hash) || none == hash)
            return;
    }
    port_word_add_relaxed(&t->head->missed, 1);
}

void weir_table_note(weir_table *t, uint64_t hash)
{
    if (is_watched(t, weir_first_bucket(t, hash)))
        note(t, hash);
}

void weir_note_entry(weir_table *t, const weir_bucket *from, const weir_bucket_entry *e)
{
    if (__builtin_expect(is_watched(t, from), 0))
        note(t, weir_entry_hash(t, from, e));
}

static void set_watched(weir_table *t, uint64_t watched)
{
    for (size_t i = 0; i < WEIR_COUNTS_LEN; i++) {
        port_word *moves = &t->counts[i].moves;
        uint64_t seen = port_word_load_relaxed(moves);
        while (!port_word_cas_acquire(moves, &seen, (seen & ~(uint64_t)WATCHED) | watched))
            ;
    }
}

static void drop_hash(void *ctx, uint64_t hash)
{
    (void)ctx;
    (void)hash;
}

void weir_table_watch(weir_table *const t[], size_t n)
{
    (void)weir_robust_lock(&t[0]->head->watcher, t[0]->array.processes);
    (void)weir_table_noted(t[0], drop_hash, NULL); /* left by a watcher that was killed */
    for (size_t i = 0; i < n; i++)
        set_watched(t[i], WATCHED);
}

void weir_table_unwatch(weir_table *const t[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        set_watched(t[i], 0);
    weir_robust_unlock(&t[0]->head->watcher);
}

uint64_t weir_table_notes(const weir_table *t)
{
    return port_word_load_relaxed(&t->head->notes);
}

bool weir_table_noted(weir_table *t, void (*fn)(void *ctx, uint64_t hash), void *ctx)
{
    for (uint64_t n = 0; n < WEIR_TABLE_NOTES; n++) {
        uint64_t hash = port_word_load_relaxed(note_at(t, n));
        /* Only the watcher clears a note, so the word still has this hash. */
        if (hash != 0 && port_word_cas_relaxed(note_at(t, n), &hash, 0))
            fn(ctx, hash);
    }
    uint64_t missed = port_word_load_relaxed(&t->head->missed);
    while (!port_word_cas_relaxed(&t->head->missed, &missed, 0))
        ;
    return missed == 0;
}

void weir_table_get(weir_table *t, uint64_t hash, weir_key_state_fn fn, void *ctx)
{
    weir_bucket_pair at = weir_bucket_pair_of(t, hash);
    weir_locked_bucket of[2];
    weir_lock_set h = {0, 2, of};
    unsigned i;
    weir_lock_set_pair(t, &h, &at);
    const weir_locked_bucket *l = weir_lock_set_find_key(&h, &at, &i);
    weir_bucket_entry e = weir_line_get(&l->line, i % WEIR_LINE_ENTRIES);
    weir_lock_set_release(&h);
    weir_key_state stored = {.hash = hash,
                             .fresh_at_ns = e.fresh_at_ns,
                             .form = e.form,
                             .words_len = weir_form_words(e.form),
                             .words = e.words};
    if (i < WEIR_LINE_ENTRIES)
        (void)fn(ctx, &stored);
}
