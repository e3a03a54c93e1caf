/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_BUCKET_H
#define WEIR_STORE_BUCKET_H
/* A bucket of the hash table: one cache line of 8 words, read with a seqlock. Buckets do
 * not know how a key finds them, or what a state means, except the time at which an entry is idle.
 *
 * Layout: word 0 is the header. The rest is divided among up to 4 entries, also called slots.
 * Entries take words from the front, and units of 16 bits from the back, until the two meet. A
 * bucket has 28 units in all; a word is four of them. An entry has a tag of 48 bits, which
 * identifies its key, and one word: the time from which the key is idle, or a state as in word.h.
 * Its form says what else it has:
 *
 *     form         beside tag and time     words  units            bytes    entries in a bucket
 *     TIME         nothing                    1      3                14          4
 *     SHORT        a number of 32 bits        1    3 + 2              18          3
 *     LONG         a number of 48 bits        1    3 + 3              20          2
 *     ONE .. FIVE  n words of 64 bits       1 + n    3    22, 30, 38, 54    2, 1, 1, 1
 *
 *     header   bit 0       locked: a thread is writing
 *              bit 1       overflowed: this is the first bucket of a key that may lie in its
 *                          alternate bucket
 *              bits 2-5    this is the alternate bucket of entry i
 *              bits 6-21   four bits for each entry: its form, and 8 if it is live. An entry that
 *                          is not live is free. All entries after the last are zero
 *              bit 22      mixed: there are other forms than TIME
 *              bits 23-63  if not locked: the version, which grows by two with every change of the
 *                          header. It is even, and ids are odd: if damage sets bit 0, the owner
 *                          that the header then names does not exist
 *                          if locked: 20 bits of the lock owner's id, 8 bits of the number of the
 *                          undo record with the old contents (0: none), 13 bits of the version
 *
 * In a bucket that is not mixed, the units are placed so that four tags are compared at once. Word
 * 5 has the high 16 bits of each tag, beginning with entry 0 at the low end. Words 6 and 7 have the
 * low 32 bits of each tag.
 *
 * A bucket that is all zero is empty.
 *
 * Reading is a seqlock. A reader loads the header, copies the words, and loads the header again. If
 * the header is unchanged and not locked, the copy is consistent. Words are loaded with acquire and
 * stored with release: if a reader copied a word that was stored under a lock, its second load of
 * the header sees that lock. A writer locks the bucket with a compare-and-swap of the header that
 * it read, which proves that its copy is still valid.
 *
 * Crash safety: a writer may be killed between any two stores. The bucket must then have its old or
 * its new contents. Where a single store makes the change, no undo record is needed: the time of a
 * TIME entry is one word; the store of the header makes an added entry valid, and a dropped entry
 * invalid. Before any other change, the old words are saved in the undo log. */

#include "port/assert.h"
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
    WEIR_NOTES = 6, /* words that the undo log would otherwise leave unused in a record */
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
#define WEIR_CONTENTS      ((uint64_t)0x7ffffe) /* all of the above but the lock */
#define WEIR_VERSION_AT    23
#define WEIR_VERSION_ODD   ((uint64_t)1 << WEIR_VERSION_AT) /* earlier builds wrote it too */
#define WEIR_VERSION_ONE   ((uint64_t)2 << WEIR_VERSION_AT)
#define WEIR_LOCK_OWNER_AT 23 /* the id of the lock's owner, in a locked header */
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

/* The 64-bit words that an entry of a form has beside its time. SHORT and LONG count as one
 * word. */
unsigned weir_form_words(weir_form form);

/* How many of the WEIR_LINE_UNITS a form takes. */
unsigned weir_form_units(weir_form form);

/* ---- a private copy of a bucket -------------------------------------------------------------- */

typedef struct weir_line {
    uint64_t word[WEIR_LINE_WORDS];
} weir_line;

typedef struct weir_bucket_entry {
    uint64_t tag;        /* 48 bits */
    int64_t fresh_at_ns; /* in the form TIME, a word of word.h */
    weir_form form;
    bool alternate;
    uint64_t words[WEIR_ENTRY_WORDS];
} weir_bucket_entry;

/* All functions on lines are pure. They are safe on any 64 bytes that pass weir_line_sound(). */
bool weir_line_sound(const weir_line *l);

/* The form of entry i, live or free. */
static inline weir_form weir_line_form(const weir_line *l, unsigned i)
{
    return (weir_form)(l->word[0] >> WEIR_CODE_AT(i) & 7);
}

/* Finds the live entry of a tag, among those that lie in their alternate bucket or among the
 * others. Returns WEIR_LINE_ENTRIES if there is none. */
unsigned weir_line_find(const weir_line *l, uint64_t tag, bool alternate);

/* The set of live entries: bit i is entry i. */
unsigned weir_line_live(const weir_line *l);

weir_bucket_entry weir_line_get(const weir_line *l, unsigned i);

/* weir_line_find() and, if there is an entry, weir_line_get(). */
unsigned weir_line_lookup(const weir_line *l, uint64_t tag, bool alternate, weir_bucket_entry *ret);

/* Overwrites a live entry with one of the same form. */
void weir_line_put(weir_line *l, unsigned i, const weir_bucket_entry *e);

/* Whether there is space for an entry of a form. */
bool weir_line_fits(const weir_line *l, weir_form form);

/* Adds an entry, for which there is space. Compacts the other entries if necessary. */
void weir_line_add(weir_line *l, const weir_bucket_entry *e);

/* Drops a set of entries. */
void weir_line_drop(weir_line *l, unsigned set);

/* The set of live entries that are idle at now_ns. */
unsigned weir_line_idle(const weir_line *l, int64_t now_ns);

/* The entries to drop so that an entry of `form` fits, the lowest rank first.
 *  rank      of each live entry.
 *  ret_rank  the highest rank among them; 0 if there are none. */
unsigned weir_line_victims(const weir_line *l, weir_form form,
                           const uint64_t rank[WEIR_LINE_ENTRIES], uint64_t *ret_rank);

/* ---- the shared bucket ----------------------------------------------------------------------- */

typedef struct weir_undo_record {
    alignas(WEIR_LINE_BYTES) port_word owner; /* id of the process that uses the record; 0: free */
    port_word bucket;                         /* its number */
    port_word header;                         /* its header before it was locked */
    port_word word[WEIR_LINE_WORDS - 1];      /* its words 1.. before the change */
    port_word noted[WEIR_NOTES];              /* of watch.c; not a part of the record */
} weir_undo_record;

/* The buckets, and what a thread needs to lock them: its id, and the undo log. */
typedef struct weir_bucket_array {
    const weir_processes *processes;
    uint64_t lock; /* the lock bits of a header: WEIR_LOCKED and our id */
    weir_bucket *buckets;
    uint64_t buckets_len;
    weir_undo_record *undo; /* the undo log: WEIR_UNDO_RECORDS records */
    port_counter *damaged;  /* dropped entries that were damaged, and locks that nobody held */
    /* No thread of this opening has locked anything yet, so a lock with its id is stale. */
    bool opening;
} weir_bucket_array;

/* Waits until a bucket is not locked, and returns its header. Repairs a bucket whose lock owner
 * died. A lock with the id of this opening may be one that no thread holds: damage, or an opening
 * 2^19 openings earlier, may have left it. After two seconds it counts as damage, and is
 * released. */
uint64_t weir_bucket_wait(const weir_bucket_array *a, weir_bucket *b);

static inline uint64_t weir_bucket_read(const weir_bucket_array *a, weir_bucket *b)
{
    uint64_t header = port_word_load_acquire(&b->word[0]);
    return __builtin_expect((header & WEIR_LOCKED) != 0, 0) ? weir_bucket_wait(a, b) : header;
}

/* Whether the header is still the same. Relaxed is enough: the words before it were loaded with
 * acquire. */
static inline bool weir_bucket_same(const weir_bucket *b, uint64_t header)
{
    return port_word_load_relaxed(&b->word[0]) == header;
}

/* Waits until a bucket is not locked, and makes a consistent copy. A bucket with an invalid header,
 * which only a damaged file can have, is emptied. */
void weir_bucket_copy(const weir_bucket_array *a, weir_bucket *b, weir_line *ret);

static inline uint64_t weir_header_lock(const weir_bucket_array *a, uint64_t header)
{
    uint64_t remembered = header >> WEIR_VERSION_AT << WEIR_REMEMBERED_AT;
    return remembered | a->lock | (header & WEIR_CONTENTS);
}

/* Locks a bucket if its header is still `header`, which is not locked. Returns whether it did.
 * Acquire: the words may be loaded afterwards, and `header` may have been loaded relaxed. */
static inline bool weir_bucket_try_lock(const weir_bucket_array *a, weir_bucket *b, uint64_t header)
{
    return port_word_cas_acquire(&b->word[0], &header, weir_header_lock(a, header));
}

/* Waits for the lock, and copies the locked bucket. */
void weir_bucket_lock(const weir_bucket_array *a, weir_bucket *b, weir_line *ret);

/* For assertions of a thread that has locked the bucket: no other thread changes the header. */
static inline bool weir_is_locked(const weir_bucket *b)
{
    return (port_word_load_relaxed(&b->word[0]) & WEIR_LOCKED) != 0;
}

/* Unlocks a bucket that was not changed. Release: loads under the lock do not move after it. */
static inline void weir_bucket_unlock(weir_bucket *b, uint64_t header)
{
    WEIR_ASSERT(weir_is_locked(b) && !(header & WEIR_LOCKED));
    port_word_store_release(&b->word[0], header);
}

/* Unlocks a bucket after a change of one word: advances the version. Release: a reader of the new
 * header sees the word. */
static inline void weir_bucket_publish(weir_bucket *b, uint64_t header)
{
    WEIR_ASSERT(weir_is_locked(b) && !(header & WEIR_LOCKED));
    port_word_store_release(&b->word[0], header + WEIR_VERSION_ONE);
}

/* Changes a locked bucket from `old` to `line`, and unlocks it. If the writer is killed, the bucket
 * has one or the other. Entries of `old` that `line` does not have may be gone in either case. */
void weir_bucket_commit(const weir_bucket_array *a, weir_bucket *b, const weir_line *old,
                        const weir_line *line);

/* Overwrites entry i of a locked bucket with one of the same key and form, and unlocks it. Crash
 * safety as of weir_bucket_commit(). */
void weir_bucket_set(const weir_bucket_array *a, weir_bucket *b, const weir_line *old, unsigned i,
                     const weir_bucket_entry *e);

/* Repairs the buckets whose lock owners died, from the undo log. For opening; any thread. */
void weir_bucket_repair_all(const weir_bucket_array *a);

/* Repairs every bucket whose lock owner died; while `opening` is set, also those with the id of
 * this opening. It reads all buckets. */
void weir_bucket_repair_locks(const weir_bucket_array *a);

#endif
