/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_CUCKOO_H
#define WEIR_STORE_CUCKOO_H
/* The table from within: where a key's buckets are, what it counts, and buckets that a thread has
 * locked together to change them as one. For the table's own files. */

#include "store/table/bucket.h"
#include "store/table/pack.h"
#include "store/table/table.h"

enum { WEIR_COUNTS_LEN = 64 }; /* of counters, a power of two */

/* Counts of every WEIR_COUNTS_LEN-th bucket, so that threads seldom write the same line. */
typedef struct weir_table_counts {
    alignas(WEIR_LINE_BYTES) port_counter held; /* keys, and from bit 32 on units of 2 bytes */
    port_counter evicted, refused;
    port_counter skip; /* searches that are not to be made; a hint */
} weir_table_counts;

/* What is in front of the buckets. */
typedef struct weir_table_head {
    alignas(WEIR_LINE_BYTES) port_word seen_ns; /* alone in its line: it is seldom written */
    alignas(WEIR_LINE_BYTES) port_counter damaged;
    weir_table_counts counts[WEIR_COUNTS_LEN];
    weir_undo_record undo[WEIR_UNDO_RECORDS];
} weir_table_head;

struct weir_table {
    weir_bucket_array array;
    weir_table_head *head;
    bool refuse;
};

/* ---- where a key lies ------------------------------------------------------------------------ */

#define WEIR_TAG_MASK (((uint64_t)1 << 48) - 1)

typedef struct weir_bucket_pair {
    uint64_t tag;
    weir_bucket *first, *alternate; /* never the same */
} weir_bucket_pair;

/* The first by the high bits; the tag is the low ones, and says how far on the second lies. */
static inline uint64_t weir_first_of(const weir_table *t, uint64_t hash)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)hash * t->array.buckets_len >> 64);
}

static inline uint64_t weir_distance_of(const weir_table *t, uint64_t tag)
{
    return 1 + ((tag & UINT32_MAX) * (t->array.buckets_len - 1) >> 32);
}

static inline weir_bucket *weir_first_bucket(const weir_table *t, uint64_t hash)
{
    return &t->array.buckets[weir_first_of(t, hash)];
}

static inline weir_bucket_pair weir_bucket_pair_of(const weir_table *t, uint64_t hash)
{
    uint64_t first = weir_first_of(t, hash);
    uint64_t alternate = first + weir_distance_of(t, hash);
    alternate -= alternate >= t->array.buckets_len ? t->array.buckets_len : 0;
    return (weir_bucket_pair){hash & WEIR_TAG_MASK, &t->array.buckets[first],
                              &t->array.buckets[alternate]};
}

/* ---- counting -------------------------------------------------------------------------------- */

static inline weir_table_counts *weir_counts_of(weir_table *t, const weir_bucket *b)
{
    return &t->head->counts[(size_t)(b - t->array.buckets) % WEIR_COUNTS_LEN];
}

/* The one place that counts evictions: keys with less than full quota that are dropped from bucket
 * b to free memory. */
static inline void weir_count_evictions(weir_table *t, const weir_bucket *b, unsigned keys)
{
    port_add_relaxed(&weir_counts_of(t, b)->evicted, keys);
}

/* What an entry adds to `held`. */
static inline uint64_t weir_held_by(weir_form form)
{
    return (uint64_t)weir_form_units(form) << 32 | 1;
}

/* ---- time ------------------------------------------------------------------------------------ */

enum {
    WEIR_SEEN_STEP_NS = 1000000
}; /* so that seen_ns is written at most 1000 times a alternate */

/* The table's time, to be loaded after the headers, moved on if now_ns is far ahead of it. */
static inline int64_t weir_table_see(weir_table *t, int64_t now_ns)
{
    uint64_t seen_ns = port_word_load_relaxed(&t->head->seen_ns);
    while (now_ns - (int64_t)seen_ns > WEIR_SEEN_STEP_NS) { /* ends: a lost try has moved it on */
        if (port_word_cas_relaxed(&t->head->seen_ns, &seen_ns, (uint64_t)now_ns))
            return now_ns;
    }
    return (int64_t)seen_ns;
}

static inline int64_t weir_later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* ---- deciding without locks ------------------------------------------------------------------ */

enum { WEIR_TRIES = 8 }; /* before the locks of both buckets are waited for */

/* ---- buckets that are locked together -------------------------------------------------------- */

typedef struct weir_locked_bucket {
    weir_bucket *bucket;
    weir_line old, line; /* as it was, and as it shall be */
} weir_locked_bucket;

enum {
    WEIR_MOVES = 4,   /* in a row, so that one key finds room */
    WEIR_SKIPS = 127, /* searches that are not made after one that failed */
    WEIR_LOCK_SET_ONE_KEY = 2 + WEIR_MOVES,
    WEIR_LOCK_SET_MANY_KEYS = (2 + WEIR_MOVES) * WEIR_TABLE_MANY_MAX
};

typedef struct weir_lock_set {
    unsigned len, max;
    weir_locked_bucket *of;
} weir_lock_set;

/* The place in the hold of a bucket that it has, NULL if it has not. */
weir_locked_bucket *weir_lock_set_find(const weir_lock_set *h, const weir_bucket *b);

/* Adds a bucket: waits for it, or tries to lock it with this header. The hold is not full. */
weir_locked_bucket *weir_lock_set_wait(weir_table *t, weir_lock_set *h, weir_bucket *b);
weir_locked_bucket *weir_lock_set_try(weir_table *t, weir_lock_set *h, weir_bucket *b,
                                      uint64_t header);

/* Adds both buckets of a place, which the hold, empty so far, waits for in an order that all
 * keep. */
void weir_lock_set_pair(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at);

/* Finds the key in a locked pair of buckets: the hold has locked both buckets of the place. Returns
 * the key's bucket and sets *ret_i to its entry. If the key is absent, returns the first bucket and
 * sets *ret_i to WEIR_LINE_ENTRIES. */
weir_locked_bucket *weir_lock_set_find_key(const weir_lock_set *h, const weir_bucket_pair *at,
                                           unsigned *ret_i);

/* Writes what has changed and unlocks all: the last added first, so that an entry that moves is
 * where it goes to before it is gone from where it was. */
void weir_lock_set_commit(weir_table *t, weir_lock_set *h);

/* Unlocks all, with nothing written. */
void weir_lock_set_drop(weir_lock_set *h);

/* Puts an entry that is in neither into one of the two buckets of its place, both of which the
 * hold has, with room made for it if need be. WEIR_OK, or WEIR_E_FULL with nothing changed but
 * fresh entries gone. */
weir_status weir_cuckoo_insert(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at,
                               weir_bucket_entry *e, int64_t seen_ns);

/* Whether to make room by several moves is not worth a try: a table that is truly full would be
 * searched in vain with every key. After a search that failed, so many that begin in buckets of
 * the same counts are not made; each call is one of them. */
bool weir_cuckoo_skips_search(weir_table *t, const weir_bucket *first);

/* Writes the entry of a key that lies at entry i of `l`, or, if i is WEIR_LINE_ENTRIES, nowhere. As
 * weir_cuckoo_insert(). */
weir_status weir_cuckoo_write(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at,
                              weir_locked_bucket *l, unsigned i, weir_bucket_entry *e,
                              int64_t seen_ns);

/* Puts in an entry whose key is absent, with nothing held but its first bucket, and commits. False
 * if the second bucket is needed and locked: then all is let go. */
bool weir_cuckoo_insert_alone(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at,
                              weir_bucket_entry *e, int64_t seen_ns, weir_status *ret_st);

#endif
