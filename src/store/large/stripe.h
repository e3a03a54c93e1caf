/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STRIPE_H
#define WEIR_STORE_STRIPE_H
/* One lock's share of the large states, and the journal of what its holder is changing. Every word
 * of the memory that is about to change is first noted with what it holds; then the words change;
 * then the journal is emptied with one store, which is the moment at which the decision counts. A
 * holder that was killed before leaves notes by which the next one takes everything back. The same
 * serves to decide on several keys and then keep or drop it all.
 *
 * Blocks that are not, or not yet, or no longer in the index are put down in the stripe as well. */

#include "store/large/allocator.h"
#include "store/robust_lock.h"

#include <stdalign.h>

enum {
    WEIR_STRIPE_RECORDS = 112,
    WEIR_STRIPE_SPARE = 48, /* of them, only for what needs three or fewer: 16 calls do */
    WEIR_STRIPE_NOTES = 36, /* two for each of 16 calls, and a few in passing */
};

typedef struct weir_journal_record {
    port_word at; /* which word of the memory */
    port_word old;
} weir_journal_record;

/* In the memory; all zero in a new one. */
typedef struct weir_stripe {
    alignas(64) port_word lock;
    port_word now_ns; /* the latest seen */
    port_word evicted, damaged;
    port_word records; /* how many count */
    port_word noted;   /* a bit for each note that may be in use */
    /* WEIR_NOTE_BORN if the index does not hold the block unless this counts, WEIR_NOTE_GONE if it
     * does not once this counts. */
    port_word note[WEIR_STRIPE_NOTES];
    weir_journal_record record[WEIR_STRIPE_RECORDS];
    port_word refused; /* in what would else be padding */
} weir_stripe;

/* Whether nothing waits to be kept or dropped. */
static inline bool weir_stripe_idle(const weir_stripe *s)
{
    return port_word_load_relaxed(&s->records) == 0;
}

/* Notes what `count` words hold, each given by its address in b->words; then they may be changed.
 * False if there is no room for that many: nothing is noted. The stripe is locked, as below. */
bool weir_stripe_record(weir_stripe *s, weir_allocator *b, port_word *const *words, size_t count,
                        bool spare);

/* Puts back what was noted after the first `keep` records, and forgets these. */
void weir_stripe_undo(weir_stripe *s, weir_allocator *b, uint64_t keep);

/* A place for a note, or NULL if all are used. */
port_word *weir_stripe_note(weir_stripe *s);

/* Gives back a place in which nothing was put. */
void weir_stripe_forget(weir_stripe *s, const port_word *note);

/* Puts a block down that the index is about to lose. False if there is no place. */
bool weir_stripe_gone(weir_stripe *s, uint64_t at);

/* Frees a block that was put down and is not in the index. */
void weir_stripe_free(weir_stripe *s, weir_allocator *b, uint64_t at);

/* Makes all that was noted count, and frees the blocks that it has replaced. */
void weir_stripe_commit(weir_stripe *s, weir_allocator *b);

/* Undoes all that was noted, and frees the blocks that were for it. */
void weir_stripe_roll_back(weir_stripe *s, weir_allocator *b);

#endif
