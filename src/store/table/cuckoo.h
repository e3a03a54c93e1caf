/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_CUCKOO_H
#define WEIR_STORE_CUCKOO_H
/* Cuckoo hashing: where a key's two buckets are, how an entry is inserted, displaced or evicted,
 * and how a thread locks several buckets at once to change them together. Also the table's
 * internals and counters. Only the table's own files include this header. */

#include "store/key_hash.h"
#include "store/table/bucket.h"
#include "store/table/pack.h"
#include "store/table/table.h"

enum { WEIR_COUNTS_LEN = 64 }; /* a power of two */

/* The counters of every WEIR_COUNTS_LEN-th bucket, so that threads seldom write the same cache
 * line. */
typedef struct weir_table_counts {
    /* The number of keys; from bit 32 on their size in units of 2 bytes. */
    alignas(WEIR_LINE_BYTES) port_counter held;
    port_counter evicted, refused;
    port_counter skip; /* searches to skip, see weir_cuckoo_skips_search(). Only a hint */
    port_word moves;   /* see watch.c; 0 in files of earlier builds, as the words of notes are */
} weir_table_counts;

/* The header of the table, in front of the buckets. */
typedef struct weir_table_head {
    /* On a cache line of its own, because it is seldom written. */
    alignas(WEIR_LINE_BYTES) port_word seen_ns;
    port_word kept_until_ns; /* see weir_table_kept_until(); 0 in files of earlier builds */
    port_word notes, missed; /* how many were made, and for how many there was no space */
    alignas(WEIR_LINE_BYTES) port_counter damaged;
    struct {
        port_word owner; /* the id of the process that moves; 0: free */
        port_word from, to;
    } moves[WEIR_TABLE_MOVES]; /* 0 in files of earlier builds */
    port_word watcher;         /* the lock of weir_table_watch() */
    weir_table_counts counts[WEIR_COUNTS_LEN];
    weir_undo_record undo[WEIR_UNDO_RECORDS];
} weir_table_head;

/* A table has a range of the buckets in its memory; see weir_table_open_split(). Locks and the undo
 * log belong to all ranges together. */
struct weir_table {
    weir_bucket_array array; /* of all ranges */
    weir_bucket *buckets;    /* this range */
    uint64_t buckets_len;
    weir_table_counts *counts; /* of this range: WEIR_COUNTS_LEN */
    weir_table_head *head;
    uint64_t order; /* of this memory, see weir_table_set_order() */
    bool refuse;
    bool folded; /* the hashes are folded, see weir_hash_fold() */
};

/* ---- a key's two buckets --------------------------------------------------------------------- */

#define WEIR_TAG_MASK (((uint64_t)1 << 48) - 1)

typedef struct weir_bucket_pair {
    uint64_t tag;
    weir_bucket *first, *alternate;
} weir_bucket_pair;

/* The high bits of the hash give the first bucket. The low bits are the tag, which also gives the
 * distance to the alternate bucket. */
static inline uint64_t weir_first_of(const weir_table *t, uint64_t hash)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)hash * t->buckets_len >> 64);
}

/* The hash of an entry: the low bits are its tag, the high bits follow from its first bucket. In a
 * table of more than 2^16 buckets, or 2^13 with folded hashes, a damaged entry may have a tag that
 * no hash of its bucket has. Lookups never find that entry, and the result is a hash of another
 * bucket. */
static inline uint64_t weir_hash_of(const weir_table *t, uint64_t first, uint64_t tag)
{
    /* The smallest hash whose first bucket this is: ceil(first * 2^64 / len). */
    __extension__ typedef unsigned __int128 wide;
    uint64_t len = t->buckets_len, low = (uint64_t)((((wide)first << 64) + len - 1) / len);
    uint64_t known = t->folded ? WEIR_FOLDED_MASK : WEIR_TAG_MASK;
    uint64_t hash = (low & ~known) | (t->folded ? weir_fold(tag) & known : tag);
    return hash + (hash < low ? known + 1 : 0);
}

static inline uint64_t weir_distance_of(const weir_table *t, uint64_t tag)
{
    WEIR_ASSERT(t->buckets_len >= 2);
    return 1 + ((tag & UINT32_MAX) * (t->buckets_len - 1) >> 32);
}

static inline weir_bucket *weir_first_bucket(const weir_table *t, uint64_t hash)
{
    return &t->buckets[weir_first_of(t, hash)];
}

static inline weir_bucket_pair weir_bucket_pair_of(const weir_table *t, uint64_t hash)
{
    uint64_t first = weir_first_of(t, hash);
    uint64_t alternate = first + weir_distance_of(t, hash);
    alternate -= alternate >= t->buckets_len ? t->buckets_len : 0;
    WEIR_ASSERT(first < t->buckets_len && alternate < t->buckets_len);
    WEIR_ASSERT(first != alternate);
    return (weir_bucket_pair){hash & WEIR_TAG_MASK, &t->buckets[first], &t->buckets[alternate]};
}

/* ---- counting -------------------------------------------------------------------------------- */

/* `b` is in the range of `t`. */
static inline weir_table_counts *weir_counts_of(weir_table *t, const weir_bucket *b)
{
    WEIR_ASSERT(b >= t->buckets && b < t->buckets + t->buckets_len);
    return &t->counts[(size_t)(b - t->array.buckets) % WEIR_COUNTS_LEN];
}

/* Counts evicted keys: those dropped from bucket b while they had less than their full quota. All
 * evictions from the table are counted here. */
static inline void weir_count_evictions(weir_table *t, const weir_bucket *b, unsigned keys)
{
    port_add_relaxed(&weir_counts_of(t, b)->evicted, keys);
}

/* What an entry adds to `held`. */
static inline uint64_t weir_held_by(weir_form form)
{
    return (uint64_t)weir_form_units(form) << 32 | 1;
}

/* ---- keys that move (watch.c) ---------------------------------------------------------------- */

/* Notes the entry of bucket `from`, in which it lies, for weir_table_noted(). To be called while
 * both buckets of the key are locked, before the move is committed. */
void weir_note_entry(weir_table *t, const weir_bucket *from, const weir_bucket_entry *e);

/* The other bucket of an entry in `b`. */
static inline weir_bucket *weir_other_bucket(const weir_table *t, const weir_bucket *b,
                                             const weir_bucket_entry *e)
{
    uint64_t at = (uint64_t)(b - t->buckets), len = t->buckets_len;
    uint64_t distance = weir_distance_of(t, e->tag);
    at += e->alternate ? len - distance : distance;
    return &t->buckets[at >= len ? at - len : at];
}

/* The hash of an entry in `b`, see weir_hash_of(). */
static inline uint64_t weir_entry_hash(const weir_table *t, const weir_bucket *b,
                                       const weir_bucket_entry *e)
{
    const weir_bucket *first = e->alternate ? weir_other_bucket(t, b, e) : b;
    return weir_hash_of(t, (uint64_t)(first - t->buckets), e->tag);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* The table's time. Advances it if now_ns is far ahead. Call it after loading the headers. */
static inline int64_t weir_table_see(weir_table *t, int64_t now_ns)
{
    WEIR_ASSERT(now_ns >= 0 && now_ns <= WEIR_NOW_NS_MAX);
    uint64_t seen_ns = port_word_load_relaxed(&t->head->seen_ns);
    /* The loop ends: a failed compare-and-swap means that seen_ns has advanced. */
    while (__builtin_expect(now_ns - (int64_t)seen_ns > WEIR_SEEN_STEP_NS, 0)) {
        if (port_word_cas_relaxed(&t->head->seen_ns, &seen_ns, (uint64_t)now_ns))
            return now_ns;
    }
    return (int64_t)seen_ns;
}

static inline int64_t weir_later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* Whether an absent key may have a state under the id of a former limit. A thread that inserts the
 * key calls it again once it has locked the first bucket: a transaction that has locked the bucket
 * before has made it known. */
static inline bool weir_table_keeps(const weir_table *t, int64_t now_ns)
{
    return __builtin_expect(weir_kept_until(&t->head->kept_until_ns, now_ns), 0);
}

/* ---- lookups without locks ------------------------------------------------------------------- */

enum { WEIR_TRIES = 8 }; /* tries before the call locks both buckets */

/* ---- takes ----------------------------------------------------------------------------------- */

/* One request, or several for the same key, of a policy for which weir_pack_is_fast() is true. */
typedef struct weir_take_call {
    const weir_policy *policy;
    weir_store_request *row; /* NULL: one request */
    size_t n;
    int64_t cost; /* of the one request */
    weir_decision *ret;
    bool blocks; /* the policy has a block, which is over: only weir_check() begins one */
} weir_take_call;

/* Decides all requests on `words`, which has weir_pack_layers() words, 0 if the key is absent.
 * Returns false, with `words` undefined, if weir_check() must decide.
 *  used  see weir_pair_take(). */
bool weir_take_fast(const weir_take_call *a, uint64_t *words, int64_t now_ns, unsigned *used);

/* Decides all requests, in buckets with entries of any form. Returns WEIR_OK or WEIR_E_FULL. */
weir_status weir_table_take(weir_table *t, weir_take_call *a, uint64_t hash, int64_t now_ns);

/* The same with both buckets locked. Inserts an absent key, even if it may be elsewhere. */
weir_status weir_table_take_locked(weir_table *t, weir_take_call *a, uint64_t hash, int64_t now_ns);

/* ---- sets of locked buckets ------------------------------------------------------------------ */

typedef struct weir_locked_bucket {
    weir_table *table; /* the range that has the bucket */
    weir_bucket *bucket;
    weir_line old, line; /* the contents before and after the change */
    /* A key was inserted into its alternate bucket, and this is its first one. Its version must
     * advance, even if its contents stay the same: a thread that found the key absent must not be
     * able to lock this bucket with the header that it read. */
    bool advance;
} weir_locked_bucket;

enum {
    WEIR_MOVES = 4,   /* entries displaced in a row, at most, to insert one */
    WEIR_SKIPS = 127, /* searches to skip after one that failed */
    WEIR_LOCK_SET_ONE_KEY = 2 + WEIR_MOVES,
    WEIR_LOCK_SET_MANY_KEYS = (2 + WEIR_MOVES) * WEIR_TABLE_MANY_MAX
};

typedef struct weir_lock_set {
    unsigned len, max;
    weir_locked_bucket *of;
} weir_lock_set;

/* Finds a bucket in the set. Returns NULL if it is not there. */
weir_locked_bucket *weir_lock_set_find(const weir_lock_set *h, const weir_bucket *b);

/* Locks a bucket and adds it to the set, which is not full. weir_lock_set_wait() waits for the
 * lock. weir_lock_set_try() returns NULL unless the header is `header` and not locked. */
void weir_lock_set_wait(weir_table *t, weir_lock_set *h, weir_bucket *b);
weir_locked_bucket *weir_lock_set_try(weir_table *t, weir_lock_set *h, weir_bucket *b,
                                      uint64_t header);

/* Locks both buckets of a pair, in the order of their addresses, which prevents deadlocks. The set
 * is empty. */
void weir_lock_set_pair(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at);

/* Finds a key in its two locked buckets, as weir_lock_set_find_key() does. Marks the first one as
 * overflowed if the key is in the alternate one. */
weir_locked_bucket *weir_locked_find_key(weir_locked_bucket *first, weir_locked_bucket *alternate,
                                         uint64_t tag, unsigned *ret_i);

/* Finds a key in its two buckets, which are in the set. Returns the key's bucket and sets *ret_i to
 * its entry. If the key is absent, returns the first bucket and sets *ret_i to
 * WEIR_LINE_ENTRIES. */
weir_locked_bucket *weir_lock_set_find_key(const weir_lock_set *h, const weir_bucket_pair *at,
                                           unsigned *ret_i);

/* Writes all changed buckets and unlocks all. It begins with the bucket added last: a displaced
 * entry is written to its new bucket before it is dropped from its old one. */
void weir_lock_set_commit(weir_lock_set *h);

/* Makes the commit write `to` before `from`, both of one set: an entry of `from` moved to `to`. */
void weir_lock_set_write_first(weir_locked_bucket *to, weir_locked_bucket *from);

/* Unlocks all buckets and writes nothing. */
void weir_lock_set_release(weir_lock_set *h);

/* Inserts an entry whose key is absent into one of its two buckets, which are both in the set.
 * Displaces or evicts other entries if necessary. Returns WEIR_OK; WEIR_E_FULL, with nothing
 * changed except that idle entries are dropped. */
weir_status weir_cuckoo_insert(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at,
                               weir_bucket_entry *e, int64_t seen_ns);

/* Whether to skip the search for entries to displace. In a full table every search would fail.
 * After a failed search, the next WEIR_SKIPS searches that share its counters are skipped. Each
 * call counts as one of them. */
bool weir_cuckoo_skips_search(weir_table *t, const weir_bucket *first);

/* Overwrites the entry of a key, which is entry i of `l`; inserts it if i is WEIR_LINE_ENTRIES.
 * Returns as weir_cuckoo_insert(). */
weir_status weir_cuckoo_write(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at,
                              weir_locked_bucket *l, unsigned i, weir_bucket_entry *e,
                              int64_t seen_ns);

/* Inserts an entry whose key is absent, and commits. Only the first bucket is in the set. Returns
 * false, with all buckets unlocked, if the alternate bucket is needed and is locked, or if the key
 * may have a state elsewhere by now. Otherwise *ret_st may be written: WEIR_E_FULL. */
bool weir_cuckoo_insert_alone(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at,
                              weir_bucket_entry *e, int64_t seen_ns, weir_status *ret_st);

#endif
