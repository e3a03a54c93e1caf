/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_ALLOCATOR_H
#define WEIR_STORE_ALLOCATOR_H
/* Blocks of memory for states, of any length, in a given area: two bitmaps say which units are
 * taken and where a block begins. It must not know how a key finds its block.
 *
 * The area may be shared by processes that are killed: one lock guards the bitmaps, and a change of
 * them is noted before it is begun, so that whoever takes the lock over can end it. A block between
 * the allocator's hands and an index is held by a `note`, a word of the caller's in the same
 * memory: it is set and cleared together with the block, so that no block is lost, nor freed twice.
 *
 * Nothing that is read from the area is trusted: it may be what a power loss has left. */

#include "port/atomic.h"
#include "store/robust_lock.h"

#include <stddef.h>

enum { WEIR_UNIT = 16 }; /* bytes */

/* A note: where the block begins, and two bits for its holder. */
enum { WEIR_NOTE_GONE = 1, WEIR_NOTE_BORN = 2, WEIR_NOTE_SHIFT = 2 };

/* The words of a block are its owner's, but may be loaded by weir_allocator_list() at any time. */
typedef struct weir_block {
    port_word hash;
    port_word fresh_at_ns;
    port_word next;  /* the block that follows in its index, or 0 */
    port_word shape; /* of the state, and a check sum; see blocks.c */
    uint64_t state[];
} weir_block;

/* What the area keeps beside the bitmaps. All zero if it is new. */
typedef struct weir_allocator_head {
    port_word lock;
    port_word op, op_at, op_units, op_note, op_used, op_count; /* the change under way */
    port_word used;                                            /* units */
    port_word count;                                           /* blocks */
    port_word rover;                                           /* where the last block was found */
    port_word sweep_at; /* where to look next for what can go */
    port_counter dice;
} weir_allocator_head;

/* A handle; private memory. */
typedef struct weir_allocator {
    const weir_processes *processes;
    weir_allocator_head *head;
    port_word *taken, *begins; /* a bit for each unit; unit 0 is nobody's */
    unsigned char *base;       /* unit 0 */
    uint64_t units;            /* and unit 0 */
    port_word *words;          /* all of the memory, the notes included, ... */
    uint64_t words_len;        /* ... how much it is, ... */
    uint64_t words_undo;       /* ... and from where on a journal may write */
} weir_allocator;

/* Units that a block with a state of so many words takes; UINT64_MAX if none can. */
uint64_t weir_block_units(uint64_t words);

static inline weir_block *weir_block_at(const weir_allocator *b, uint64_t at)
{
    return (weir_block *)(b->base + at * WEIR_UNIT);
}

uint64_t weir_block_words(const weir_block *block);
unsigned weir_block_level(const weir_block *block);

/* Whether a block may begin at `at`, which may be any number. */
bool weir_block_sound(const weir_allocator *b, uint64_t at);

/* For one who has just opened the memory: a lock that says that he has it is damage. */
void weir_allocator_repair(weir_allocator *b);

/* A block whose state is not zeroed and whose other words but next are written.
 *  from  unit to look from; 0: from where the last one was found.
 *  far   look through all of a large area, else through a part of it.
 *  note  where it is stored, such as WEIR_NOTE_BORN.
 * Returns where it begins, or 0 if no place was found. */
uint64_t weir_allocator_alloc(weir_allocator *b, uint64_t words, unsigned level, uint64_t hash,
                              uint64_t from, bool far, port_word *note);

/* Frees a block that is put down in `note`, and clears that. */
void weir_allocator_free(weir_allocator *b, uint64_t at, port_word *note);

/* A block that was there when it was looked at. */
typedef struct weir_block_seen {
    uint64_t at, units, hash;
    int64_t fresh_at_ns;
} weir_block_seen;

/* Lists up to `max` blocks that begin at `from` or after it, and looks no further than a few
 * thousand units. Returns how many; where to go on is in *ret_next: the end is b->units. */
size_t weir_allocator_list(weir_allocator *b, uint64_t from, weir_block_seen *ret, size_t max,
                           uint64_t *ret_next);

/* Takes a turn in sweeping: where it is, and moves it on to `to`. */
uint64_t weir_allocator_sweep_at(weir_allocator *b);
void weir_allocator_sweep_to(weir_allocator *b, uint64_t to);

/* A unit at random. */
uint64_t weir_allocator_any(weir_allocator *b);

#endif
