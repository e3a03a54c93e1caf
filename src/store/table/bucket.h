/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_BUCKET_H
#define WEIR_STORE_BUCKET_H
/* One bucket of the table, a cache line: how its eight words lie, how a thread reads them whole,
 * and how one that has locked them writes. It must not know how a key finds its buckets, what a
 * state means, nor what time it is.
 *
 * Word 0 is the header. Of the others, entries take words from the front and units of 16 bits from
 * the back, until the two meet: 28 units in all, a word being four. An entry has a tag of 48 bits,
 * the time at which it is fresh, and what its form says:
 *
 *     form                     words  units             takes    in a bucket
 *     TIME    no more              1      3          14 bytes              4
 *     SHORT   32 bits              1    3 + 2        18                    3
 *     LONG    48 bits              1    3 + 3        20                    2
 *     ONE .. FIVE  words of 64   1 + n    3     22, 30, 38, 54       2, 1, 1, 1
 *
 *     header   bit 0       locked: a thread is writing
 *              bit 1       spilled: a key whose first bucket this is may lie in its second
 *              bits 2-5    away: entry i lies in its second bucket
 *              bits 6-21   four bits an entry: its form, and 8 if it is live; then none but zeros.
 *                          An entry that is not live is room
 *              bit 22      mixed: there are other forms than TIME
 *              bits 23-63  not locked: the version, one more with every change of header or lock
 *                          locked: 20 bits of the owner's id, 8 of the undo record that holds what
 *                          the bucket was (0: none), 13 of the version
 *
 * The units of a bucket that is not mixed lie so that four tags are compared at once: word 5 has
 * the high 16 bits of the tags, the first one's in its low end; words 6 and 7 the low 32.
 *
 * A zeroed bucket is an empty one.
 *
 * Reading takes no lock: load the header, copy words, and load the header again; if it is the same
 * and not locked, no word changed in between. Words are loaded with acquire and stored with release
 * for this: a reader that saw a word of a later version sees the header that was locked for it. To
 * write, put the lock in place of the very header that was read, which proves the same.
 *
 * A writer may be killed between any two stores, and what it leaves must be the old bucket or the
 * new one. Where one store decides, it may leave the lock and nothing else to mend: the time of a
 * TIME entry is one word; an entry that is added counts from the header that names it on; one that
 * is dropped, from the header that no longer does. Any other change is first written down: the
 * words as they were, in an undo record. */

#include "port/atomic.h"
#include "store/robust_lock.h"

#include <stdalign.h>
#include <stddef.h>

enum {
    WEIR_LINE_BYTES = 64,
    WEIR_LINE_WORDS = 8,
    WEIR_LINE_UNITS = 28,
    WEIR_LINE_ENTRIES = 4,
    WEIR_UNDO_RECORDS = 255,
    WEIR_ENTRY_WORDS = 5,
};

typedef struct weir_bucket {
    alignas(WEIR_LINE_BYTES) port_word word[WEIR_LINE_WORDS];
} weir_bucket;

_Static_assert(sizeof(weir_bucket) == WEIR_LINE_BYTES, "a bucket is a line");

/* ---- the header ------------------------------------------------------------------------------ */

#define WEIR_LOCKED        ((uint64_t)1)
#define WEIR_OVERFLOWED    ((uint64_t)2)
#define WEIR_ALTERNATE(i)  ((uint64_t)1 << (2 + (i)))
#define WEIR_ALTERNATES    ((uint64_t)15 << 2)
#define WEIR_CODE_AT(i)    (6 + 4 * (i))
#define WEIR_CODES         ((uint64_t)0xffff << 6)
#define WEIR_MIXED         ((uint64_t)1 << 22)
#define WEIR_CONTENTS      ((uint64_t)0x7ffffe) /* all of the above but locked */
#define WEIR_VERSION_AT    23
#define WEIR_VERSION_ONE   ((uint64_t)1 << WEIR_VERSION_AT)
#define WEIR_HOLDER_AT     23 /* of a locked one, beside the contents */
#define WEIR_UNDO_AT       43
#define WEIR_REMEMBERED_AT 51
#define WEIR_LIVE          8u

typedef enum weir_form {
    WEIR_FORM_NONE,
    WEIR_FORM_TIME,
    WEIR_FORM_SHORT,
    WEIR_FORM_LONG,
    WEIR_FORM_ONE,
    WEIR_FORM_TWO,
    WEIR_FORM_THREE,
    WEIR_FORM_FIVE
} weir_form;

/* The words beside the time that an entry of a form holds: one of 32 or 48 bits for SHORT, LONG. */
unsigned weir_form_words(weir_form form);

/* What a form takes of WEIR_LINE_UNITS. */
unsigned weir_form_units(weir_form form);

/* ---- a copy of a bucket ---------------------------------------------------------------------- */

typedef struct weir_line {
    uint64_t word[WEIR_LINE_WORDS];
} weir_line;

typedef struct weir_bucket_entry {
    uint64_t tag; /* 48 bits */
    int64_t fresh_at_ns;
    weir_form form;
    bool alternate;
    uint64_t words[WEIR_ENTRY_WORDS];
} weir_bucket_entry;

/* All functions on lines are pure, and safe on any 64 bytes that weir_line_sound(). */
bool weir_line_sound(const weir_line *l);

/* What entry i takes, live or not. */
static inline weir_form weir_line_form(const weir_line *l, unsigned i)
{
    return (weir_form)(l->word[0] >> WEIR_CODE_AT(i) & 7);
}

/* The live entry of a tag that is away or not, WEIR_LINE_ENTRIES if there is none. */
unsigned weir_line_find(const weir_line *l, uint64_t tag, bool alternate);

/* The live entries: bit i. */
unsigned weir_line_live(const weir_line *l);

weir_bucket_entry weir_line_get(const weir_line *l, unsigned i);

/* Writes a live entry of the same form anew. */
void weir_line_put(weir_line *l, unsigned i, const weir_bucket_entry *e);

/* Whether an entry of that form has room. */
bool weir_line_has_room(const weir_line *l, weir_form form);

/* Adds an entry, for which there is room, if need be by moving the others together. */
void weir_line_add(weir_line *l, const weir_bucket_entry *e);

/* Drops the entries of a set. */
void weir_line_drop(weir_line *l, unsigned set);

/* The live entries that are fresh at now_ns. */
unsigned weir_line_fresh(const weir_line *l, int64_t now_ns);

/* Those that must go for an entry of `form` to have room: the closest to fresh first.
 *  ret_fresh_at_ns  the latest among them, INT64_MIN if none has to go. */
unsigned weir_line_victims(const weir_line *l, weir_form form, int64_t *ret_fresh_at_ns);

/* ---- the bucket itself ----------------------------------------------------------------------- */

typedef struct weir_undo_record {
    alignas(WEIR_LINE_BYTES) port_word owner; /* 0: free */
    port_word bucket;                         /* which one */
    port_word header;                         /* as it was before it was locked */
    port_word word[WEIR_LINE_WORDS - 1];      /* words 1.. */
} weir_undo_record;

/* What a thread must know beside a bucket to lock it. */
typedef struct weir_bucket_array {
    const weir_processes *processes;
    uint64_t lock; /* what a header is locked with: WEIR_LOCKED and our id */
    weir_bucket *buckets;
    uint64_t buckets_len;
    weir_undo_record *undo; /* WEIR_UNDO_RECORDS of them */
    port_counter *damaged;  /* entries that had to be thrown away */
} weir_bucket_array;

/* The header, as soon as it is not locked: first at once, then in a loop, in which a lock that a
 * killed process has left is mended. */
uint64_t weir_bucket_wait(const weir_bucket_array *k, weir_bucket *b);

static inline uint64_t weir_bucket_read(const weir_bucket_array *k, weir_bucket *b)
{
    uint64_t header = port_word_load_acquire(&b->word[0]);
    return __builtin_expect((header & WEIR_LOCKED) != 0, 0) ? weir_bucket_wait(k, b) : header;
}

/* Is the header still what it was? After loads of words with acquire, so relaxed is enough. */
static inline bool weir_bucket_same(const weir_bucket *b, uint64_t header)
{
    return port_word_load_relaxed(&b->word[0]) == header;
}

/* Copies a bucket, whole and sound, as soon as it is not locked. One that is not sound, which only
 * a disk can have done, is emptied. */
void weir_bucket_copy(const weir_bucket_array *k, weir_bucket *b, weir_line *ret);

static inline uint64_t weir_header_lock(const weir_bucket_array *k, uint64_t header)
{
    uint64_t remembered = header >> WEIR_VERSION_AT << WEIR_REMEMBERED_AT;
    return remembered | k->lock | (header & WEIR_CONTENTS);
}

/* Locks a bucket whose header was `header`, not locked. False if it is another by now. */
static inline bool weir_bucket_try_lock(const weir_bucket_array *k, weir_bucket *b, uint64_t header)
{
    return port_word_cas_acquire(&b->word[0], &header, weir_header_lock(k, header));
}

/* Waits for the lock, and copies what is under it. */
void weir_bucket_lock(const weir_bucket_array *k, weir_bucket *b, weir_line *ret);

/* Gives `header` back as it was: nothing was written. */
static inline void weir_bucket_unlock(weir_bucket *b, uint64_t header)
{
    port_word_store_release(&b->word[0], header);
}

/* Gives `header` back with the next version: one word was written. */
static inline void weir_bucket_publish(weir_bucket *b, uint64_t header)
{
    port_word_store_release(&b->word[0], header + WEIR_VERSION_ONE);
}

/* Makes a locked bucket, which holds `old`, hold `line`, and unlocks it. If the writer is killed
 * it holds the one or the other, but for entries that `line` has not, which may be gone. */
void weir_bucket_commit(const weir_bucket_array *k, weir_bucket *b, const weir_line *old,
                        const weir_line *line);

/* Mends what killed processes have left behind in undo records; any thread, at opening. */
void weir_bucket_repair_all(const weir_bucket_array *k);

#endif
