/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STRIPE_H
#define WEIR_STORE_STRIPE_H
/* A stripe: one lock for a part of the large states, and its undo journal. A transaction saves each
 * word in the journal before it changes that word. The commit empties the journal with one store.
 * If the owner of the lock is killed before that, the next owner restores the saved words. A
 * roll-back does the same. A transaction may cover several keys.
 *
 * The stripe also refers to its pending blocks: those that a commit adds to the index or removes
 * from it. */

#include "store/large/allocator.h"
#include "store/robust_lock.h"

#include <stdalign.h>

enum {
    WEIR_JOURNAL_MAX = 112,
    /* Records that only changes of the index may use: three for each of 16 tries. */
    WEIR_JOURNAL_SPARE = 48,
    WEIR_STRIPE_PENDING = 36, /* two for each of 16 tries, and a few temporary ones */
};

typedef struct weir_journal_record {
    port_word at; /* index of the word in the memory */
    port_word old;
} weir_journal_record;

/* In the shared memory; all zero in a new one. */
typedef struct weir_stripe {
    alignas(64) port_word lock;
    port_word now_ns; /* the latest time seen */
    port_word evicted, damaged;
    port_word journal_len;  /* valid records in the journal; 0: no open transaction */
    port_word pending_used; /* a bit for each pending word that may be in use */
    /* WEIR_PENDING_ADDED: a commit adds the block to the index. WEIR_PENDING_REMOVED: a commit
     * removes the block from the index. */
    port_word pending[WEIR_STRIPE_PENDING];
    weir_journal_record journal[WEIR_JOURNAL_MAX];
    port_word refused; /* last, in what would be padding otherwise */
} weir_stripe;

/* Whether the stripe has no open transaction. */
static inline bool weir_stripe_idle(const weir_stripe *s)
{
    return port_word_load_relaxed(&s->journal_len) == 0;
}

/* Saves `count` words, given by their addresses in b->words, before they are changed. Returns
 * false, with nothing saved, if the journal is full. This and the functions below need the stripe's
 * lock. */
bool weir_stripe_journal(weir_stripe *s, weir_allocator *b, port_word *const *words, size_t count,
                         bool spare);

/* Saves `count` words of a block's state, given by their indices, and the block's mark. Otherwise
 * as weir_stripe_journal(). */
bool weir_stripe_journal_block(weir_stripe *s, weir_allocator *b, const weir_block *block,
                               const size_t *index, size_t count);

/* Restores the words saved after the first `keep` records, and drops these records. */
void weir_stripe_undo(weir_stripe *s, weir_allocator *b, uint64_t keep);

/* Takes a free pending word. Returns NULL if there is none. */
port_word *weir_stripe_take_pending(weir_stripe *s);

/* Gives back a pending word that was not used. */
void weir_stripe_give_pending(weir_stripe *s, const port_word *pending);

/* Marks a block as one that the commit removes. Returns false if there is no free pending word. */
bool weir_stripe_mark_removed(weir_stripe *s, uint64_t at);

/* Frees a pending block that is not in the index. */
void weir_stripe_free(weir_stripe *s, weir_allocator *b, uint64_t at);

/* Commits the transaction, and frees the blocks that it removed. */
void weir_stripe_commit(weir_stripe *s, weir_allocator *b);

/* Rolls the transaction back, and frees the blocks that it added. */
void weir_stripe_roll_back(weir_stripe *s, weir_allocator *b);

#endif
