/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_BUCKET_H
#define WEIR_STORE_BUCKET_H
/* One bucket of the table: how its words lie, and what a thread that has locked it may do to them.
 * It must not know how a key finds its buckets, what a state means, nor what time it is.
 *
 * A bucket is an array of 8-byte cells. Cell 0 is the header, the others hold entries, packed:
 *
 *     tag, fresh_at_ns, the state's words ...
 *
 * where the one word of an 8-byte TAT is itself the time at which it is fresh, and is not held
 * twice. So the second cell of every entry is its fresh_at_ns. A tag is never 0. An entry belongs
 * to a key if its tag and its size are the key's.
 *
 *     header   bit 0          locked: a thread is writing the cells
 *              bit 1          spilled: a key whose first bucket this is may lie in its second
 *              bit 1 + c      cell c is where an entry begins, or the first that is not used; c is
 *                             1..CELLS. An empty bucket has none of these bits
 *              above          version: one more with every change of the bucket
 *
 * A zeroed bucket is an empty one.
 *
 * Reading takes no lock: load the header, copy cells, and load the header again; if it is the same
 * and not locked, no cell changed in between. Cells are loaded with acquire and stored with release
 * for this: a reader that saw a cell of a later version sees the header that was locked for it. To
 * write, put the lock bit in place of the very header that was read, which proves the same. */

#include "port/atomic.h"

#include <stdalign.h>

/* 128 or 256, or between: the fewer the lines the faster, the more the fuller a table may be. Of
 * 8-byte TATs, measured in a table filled until 0.03 % of the keys had been evicted: 128 holds one
 * in 20.5 bytes, 192 in 18.5, 256 in 17.5; a batch on ten million keys is 1.35 times as fast with
 * 128 as with 256. */
#ifndef WEIR_BUCKET_BYTES
#define WEIR_BUCKET_BYTES 128
#endif
#define WEIR_LINE_BYTES 64

enum {
    WEIR_BUCKET_CELLS = WEIR_BUCKET_BYTES / 8,
    WEIR_BUCKET_ROOM = WEIR_BUCKET_CELLS - 1, /* cells for entries */
};

typedef struct weir_bucket {
    alignas(WEIR_LINE_BYTES) port_word cell[WEIR_BUCKET_CELLS];
} weir_bucket;

_Static_assert(sizeof(weir_bucket) == WEIR_BUCKET_BYTES, "buckets lie side by side");

#define WEIR_BUCKET_LOCKED  ((uint64_t)1)
#define WEIR_BUCKET_SPILLED ((uint64_t)2)
#define WEIR_BUCKET_MARKS   ((((uint64_t)1 << WEIR_BUCKET_CELLS) - 1) << 1)
#define WEIR_BUCKET_VERSION ((uint64_t)1 << (WEIR_BUCKET_CELLS + 2))

/* The marks of a header: bit c is cell c. */
static inline uint64_t weir_bucket_marks(uint64_t header)
{
    return header >> 1 & WEIR_BUCKET_MARKS;
}

static inline uint64_t weir_bucket_with_marks(uint64_t header, uint64_t marks)
{
    return (header & ~(WEIR_BUCKET_MARKS << 1)) | marks << 1;
}

/* Walks entries: begin with left = marks; while weir_bucket_more(left), the next entry begins at
 * weir_bucket_next(&left) and ends before weir_bucket_end(left). */
static inline bool weir_bucket_more(uint64_t left)
{
    return (left & (left - 1)) != 0;
}

static inline unsigned weir_bucket_end(uint64_t left)
{
    return (unsigned)__builtin_ctzll(left);
}

static inline unsigned weir_bucket_next(uint64_t *left)
{
    unsigned at = weir_bucket_end(*left);
    *left &= *left - 1;
    return at;
}

/* Where the entry of `tag` with `cells` cells begins, 0 if there is none; `cells` 0 takes any. */
static inline unsigned weir_bucket_find(const weir_bucket *b, uint64_t header, uint64_t tag,
                                        unsigned cells)
{
    for (uint64_t left = weir_bucket_marks(header); weir_bucket_more(left);) {
        unsigned at = weir_bucket_next(&left);
        if (port_word_load_acquire(&b->cell[at]) == tag &&
            (cells == 0 || weir_bucket_end(left) - at == cells))
            return at;
    }
    return 0;
}

/* Is the header still what it was? After loads of cells with acquire, so relaxed is enough. */
static inline bool weir_bucket_same(const weir_bucket *b, uint64_t header)
{
    return port_word_load_relaxed(&b->cell[0]) == header;
}

/* The header, as soon as it is not locked: first at once, then in a loop. */
uint64_t weir_bucket_wait(const weir_bucket *b);

static inline uint64_t weir_bucket_read(const weir_bucket *b)
{
    uint64_t header = port_word_load_acquire(&b->cell[0]);
    return header & WEIR_BUCKET_LOCKED ? weir_bucket_wait(b) : header;
}

/* Locks a bucket whose header was `header`, not locked. False if it is another by now. */
static inline bool weir_bucket_try_lock(weir_bucket *b, uint64_t header)
{
    return port_word_cas_acquire(&b->cell[0], &header, header | WEIR_BUCKET_LOCKED);
}

/* Waits for the lock. Returns the header that was replaced. */
uint64_t weir_bucket_lock(weir_bucket *b);

/* Gives `header` back as it was: nothing was written. */
static inline void weir_bucket_unlock(weir_bucket *b, uint64_t header)
{
    port_word_store_release(&b->cell[0], header);
}

/* Publishes what was written, under `header` (not locked) with the next version. */
static inline void weir_bucket_publish(weir_bucket *b, uint64_t header)
{
    port_word_store_release(&b->cell[0], header + WEIR_BUCKET_VERSION);
}

/* ---- under the lock -------------------------------------------------------------------------- */

typedef struct weir_entry { /* to be put in; the words are the state's without fresh_at_ns */
    uint64_t tag;
    int64_t fresh_at_ns;
    const uint64_t *words;
    unsigned cells; /* 2: fresh_at_ns is the state */
} weir_entry;

/* Writes an entry at cell `at`. */
void weir_bucket_write(weir_bucket *b, unsigned at, const weir_entry *e);

/* The cells that are not used. */
unsigned weir_bucket_free_cells(uint64_t marks);

/* Adds an entry, for which there is room. Returns the marks then. */
uint64_t weir_bucket_add(weir_bucket *b, uint64_t marks, const weir_entry *e);

/* Adds a copy of the entry of `cells` cells at cell `at` of `from`, which is locked too; there is
 * room. Returns the marks then. */
uint64_t weir_bucket_copy(weir_bucket *b, uint64_t marks, const weir_bucket *from, unsigned at,
                          unsigned cells);

/* Takes out the entries that begin where `drop` says. Returns the marks then. */
uint64_t weir_bucket_drop(weir_bucket *b, uint64_t marks, uint64_t drop);

/* Where the entries that are fresh at now_ns begin. */
uint64_t weir_bucket_fresh(const weir_bucket *b, uint64_t marks, int64_t now_ns);

/* Where those begin that must go for `cells` cells to be free: the closest to fresh first.
 *  ret_fresh_at_ns  the latest among them, INT64_MIN if none has to go. */
uint64_t weir_bucket_victims(const weir_bucket *b, uint64_t marks, unsigned cells,
                             int64_t *ret_fresh_at_ns);

/* What a counter of keys (low half) and cells (high half) loses or gains by the entries of
 * `marks`. */
uint64_t weir_bucket_count(uint64_t marks);

#endif
