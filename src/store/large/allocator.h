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
    port_word shape; /* see weir_block_shape() */
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

enum { WEIR_BLOCK_HEAD_UNITS = sizeof(weir_block) / WEIR_UNIT };
_Static_assert(sizeof(weir_block) % WEIR_UNIT == 0, "a block's head is whole units");

#define WEIR_BLOCK_WORDS_MAX (((uint64_t)1 << 40) - 1)

/* The number of units of a block with a state of `words` words; UINT64_MAX if that is too large. */
static inline uint64_t weir_block_units(uint64_t words)
{
    return words > WEIR_BLOCK_WORDS_MAX ? UINT64_MAX
                                        : WEIR_BLOCK_HEAD_UNITS + words / 2 + words % 2;
}

static inline weir_block *weir_block_at(const weir_allocator *b, uint64_t at)
{
    return (weir_block *)(b->base + at * WEIR_UNIT);
}

/* The shape of the block `at` of `hash`: from the high bits on, 40 bits of the state's size in
 * words, 8 bits of its level and a checksum of 16 bits. */
static inline uint64_t weir_block_shape(uint64_t words, unsigned level, uint64_t hash, uint64_t at)
{
    uint64_t front = words << 24 | (uint64_t)(level & 0xff) << 16;
    uint64_t mix = (front ^ hash ^ at << 32 ^ 0x77656972) * 0x9e3779b97f4a7c15;
    return front | mix >> 48;
}

static inline uint64_t weir_block_words(const weir_block *block)
{
    return port_word_load_relaxed(&block->shape) >> 24;
}

static inline unsigned weir_block_level(const weir_block *block)
{
    return port_word_load_relaxed(&block->shape) >> 16 & 0xff;
}

static inline bool weir_unit_bit(const port_word *bits, uint64_t at)
{
    return port_word_load_relaxed(&bits[at / 64]) >> at % 64 & 1;
}

/* Whether a valid block begins at `at`, which may be any number. */
static inline bool weir_block_sound(const weir_allocator *b, uint64_t at)
{
    if (at == 0 || at >= b->units || b->units - at < WEIR_BLOCK_HEAD_UNITS ||
        !weir_unit_bit(b->begins, at) || !weir_unit_bit(b->taken, at))
        return false;
    const weir_block *block = weir_block_at(b, at);
    uint64_t shape = port_word_load_relaxed(&block->shape);
    uint64_t hash = port_word_load_relaxed(&block->hash);
    return weir_block_units(shape >> 24) <= b->units - at &&
           shape == weir_block_shape(shape >> 24, shape >> 16 & 0xff, hash, at);
}

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
