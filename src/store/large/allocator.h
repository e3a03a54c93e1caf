/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_ALLOCATOR_H
#define WEIR_STORE_ALLOCATOR_H
/* An allocator for blocks of any length in a fixed area of memory. Two bitmaps have a bit for each
 * unit of 16 bytes: one says which units are taken, the other says where blocks begin. The
 * allocator does not know how a key finds its block.
 *
 * Processes that share the area may be killed at any time. One lock guards the bitmaps. A change of
 * the bitmaps is recorded before it begins, so that the next owner of the lock can complete it.
 * While a block is allocated but not in the index, a `pending` word refers to it. The caller
 * provides that word, in the same memory. It is set and cleared together with the block, so that no
 * block is leaked or freed twice.
 *
 * Nothing in the area is trusted: a power failure may have left anything. */

#include "port/atomic.h"
#include "store/robust_lock.h"

#include <stddef.h>

enum { WEIR_UNIT = 16 }; /* bytes */

/* A pending word: where the block begins, and two bits: whether a commit of the stripe's
 * transaction removes the block from the index or adds it. */
enum { WEIR_PENDING_REMOVED = 1, WEIR_PENDING_ADDED = 2, WEIR_PENDING_SHIFT = 2 };

/* A block. Its words belong to its user, but weir_allocator_list() may load them at any time. */
typedef struct weir_block {
    port_word hash;
    port_word mark;  /* see store/state.h */
    port_word next;  /* the next block of the chain in the index, or 0 */
    port_word shape; /* size and level of the state, and a checksum; see allocator.c */
    uint64_t state[];
} weir_block;

/* The allocator's data beside the bitmaps. All zero if it is new. */
typedef struct weir_allocator_head {
    port_word lock;
    port_word op, op_at, op_units, op_pending, op_used, op_count; /* the change in progress */
    port_word used;                                               /* units taken */
    port_word count;                                              /* blocks */
    port_word rover;                                              /* where the next search begins */
    port_word sweep_at; /* where the next sweep for idle keys begins */
    port_counter dice;
} weir_allocator_head;

/* A handle, in private memory. */
typedef struct weir_allocator {
    const weir_processes *processes;
    weir_allocator_head *head;
    port_word *taken, *begins; /* a bit for each unit; unit 0 is not used */
    unsigned char *base;       /* address of unit 0 */
    uint64_t units;            /* including unit 0 */
    port_word *words;          /* the whole memory as words, including the pending words */
    uint64_t words_len;        /* number of these words */
    uint64_t words_undo;       /* the first word that a journal may restore */
} weir_allocator;

/* The number of units of a block with a state of `words` words; UINT64_MAX if that is too large. */
uint64_t weir_block_units(uint64_t words);

static inline weir_block *weir_block_at(const weir_allocator *b, uint64_t at)
{
    return (weir_block *)(b->base + at * WEIR_UNIT);
}

uint64_t weir_block_words(const weir_block *block);
unsigned weir_block_level(const weir_block *block);

/* Whether a valid block begins at `at`, which may be any number. */
bool weir_block_sound(const weir_allocator *b, uint64_t at);

/* Repairs the allocator at opening. A lock that holds the id of this opening is damage, and is
 * released. */
void weir_allocator_repair(weir_allocator *b);

/* Allocates a block. Its state is not zeroed. Its other words except `next` are written.
 *  from     the unit at which the search begins; 0: where the last search ended.
 *  far      search a large area, otherwise a small one.
 *  pending  set to the block, as WEIR_PENDING_ADDED.
 * Returns where the block begins, or 0 if there is no free memory. */
uint64_t weir_allocator_alloc(weir_allocator *b, uint64_t words, unsigned level, uint64_t hash,
                              uint64_t from, bool far, port_word *pending);

/* Frees the block that `pending` refers to, and clears `pending`. If there is no such block, only
 * clears `pending`. */
void weir_allocator_free(weir_allocator *b, port_word *pending);

/* A block as it was when it was listed. */
typedef struct weir_block_seen {
    uint64_t at, units, hash;
    int64_t mark;
} weir_block_seen;

/* Lists up to `max` blocks from unit `from` on, within a few thousand units. Returns their number.
 * *ret_next is where to continue; b->units is the end. */
size_t weir_allocator_list(weir_allocator *b, uint64_t from, weir_block_seen *ret, size_t max,
                           uint64_t *ret_next);

/* The position of the sweep: get it, or move it to `to`. */
uint64_t weir_allocator_sweep_at(weir_allocator *b);
void weir_allocator_sweep_to(weir_allocator *b, uint64_t to);

/* Returns a random unit. */
uint64_t weir_allocator_any(weir_allocator *b);

#endif
