/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table over its buckets: where a key lies, and how several threads decide about it at once.
 *
 * A decision copies the state, works on the copy, and ends in one of three ways. If the state is
 * left as it was, there is nothing to write: the copy was whole, and that is when it was decided.
 * If it was changed, the bucket is locked in place of the header that was read, so that nothing can
 * have come between. If somebody was faster, all is done again; after some such tries, under the
 * locks of both buckets.
 *
 * Who may put a key in: only a thread that holds its first bucket, whichever of the two it goes
 * into. So while the first bucket's header stays the same, a key that was absent stays absent, and
 * no key is ever in both.
 *
 * Where both buckets are full, an entry of theirs that has room in its other bucket is moved there,
 * and only if there is none one that is not fresh is forgotten.
 *
 * Two locks are taken in the order of their addresses, or the second is only tried, as is a third.
 *
 * Time. `seen_ns` never goes back and is at most SEEN_STEP_NS behind any now that a decision was
 * made at. A decision runs at the later of its own now and seen_ns, which it loads after its
 * buckets' headers (acquire). Only what is fresh at seen_ns is dropped. So no decision about a key
 * that was dropped runs at a time at which the key was not yet fresh: if it found the key gone, its
 * header came from the thread that dropped it or from a later one, whose load of seen_ns happened
 * before; and loads of one word that are ordered so never see it go back, relaxed as they are. */

#include "store/table.h"

#include "port/port.h"
#include "store/bucket.h"

#include <assert.h>
#include <stdalign.h>

enum {
    TRIES = 8,             /* without locks */
    STRIPES = 64,          /* of counters, a power of two */
    SEEN_STEP_NS = 1000000 /* so that seen_ns is written at most 1000 times a second */
};

_Static_assert((int)WEIR_TABLE_WORDS_MAX + 2 <= (int)WEIR_BUCKET_ROOM,
               "the largest entry must fit in an empty bucket");

/* Counts of every STRIPES-th bucket, so that threads seldom write the same line. */
typedef struct stripe {
    alignas(WEIR_LINE_BYTES) port_counter held; /* keys, and from bit 32 on cells */
    port_counter evicted;
} stripe;

struct weir_table {
    weir_bucket *buckets;
    uint64_t buckets_len;
    port_word seen_ns; /* in the line of what is only read: it is seldom written */
    stripe stripes[STRIPES];
};

/* What a call works on. */
typedef struct call {
    weir_table *table;
    const weir_policy *policy;
    size_t words;
    unsigned cells;
    uint64_t tag;
    int64_t now_ns; /* the caller's */
    weir_state_fn fn;
    void *ctx;
    weir_bucket *first, *second;
} call;

/* The state of a key, and where it was found. */
typedef struct found {
    weir_bucket *bucket; /* NULL if the key is absent */
    uint64_t header;     /* of that bucket, or else of the first */
    unsigned at;
    uint64_t old[WEIR_TABLE_WORDS_MAX], new[WEIR_TABLE_WORDS_MAX];
    int64_t fresh_at_ns; /* of the new state */
    int64_t seen_ns;
} found;

/* ---- where a key lies ------------------------------------------------------------------------ */

/* x in 0..n-1, evenly, by the high bits of `hash`. */
static uint64_t reduce(uint64_t hash, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)hash * n >> 64);
}

static uint64_t first_of(const weir_table *t, uint64_t hash)
{
    return reduce(hash, t->buckets_len);
}

/* By the low bits, so that keys that share a first bucket seldom share the second. */
static uint64_t second_of(const weir_table *t, uint64_t hash)
{
    uint64_t first = first_of(t, hash);
    uint64_t second = reduce(hash << 32 | hash >> 32, t->buckets_len - 1);
    return second < first ? second : second + 1; /* another than the first */
}

static uint64_t tag_of(uint64_t hash)
{
    return hash ? hash : 1;
}

/* The state is one word that is itself the time at which it is fresh. */
static bool is_time(const weir_policy *p)
{
    return p->layers == 1 && p->layer[0].format == WEIR_STATE_TAT_NS;
}

size_t weir_table_words(const weir_policy *p)
{
    if (is_time(p))
        return 1; /* as the next line would say, but for most policies at once */
    size_t words = weir_state_words(p, WEIR_LEVEL_MAX);
    return words <= WEIR_TABLE_WORDS_MAX ? words : 0;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Relaxed: sums that publish nothing. Each change is made under the lock of its bucket, so that the
 * counts of a stripe never fall below 0. */
static void count(weir_table *t, const weir_bucket *b, uint64_t marks_before, uint64_t marks)
{
    uint64_t change = weir_bucket_count(marks) - weir_bucket_count(marks_before);
    if (change != 0)
        port_add_relaxed(&t->stripes[(size_t)(b - t->buckets) % STRIPES].held, change);
}

static void count_evicted(weir_table *t, const weir_bucket *b, uint64_t victims)
{
    port_add_relaxed(&t->stripes[(size_t)(b - t->buckets) % STRIPES].evicted,
                     (uint64_t)__builtin_popcountll(victims));
}

/* ---- time ------------------------------------------------------------------------------------ */

/* The table's time, to be loaded after the headers, moved on if now_ns is far ahead of it. */
static inline int64_t see(weir_table *t, int64_t now_ns)
{
    uint64_t seen_ns = port_word_load_relaxed(&t->seen_ns);
    while (now_ns - (int64_t)seen_ns > SEEN_STEP_NS) { /* ends: a lost try has moved it on */
        if (port_word_cas_relaxed(&t->seen_ns, &seen_ns, (uint64_t)now_ns))
            return now_ns;
    }
    return (int64_t)seen_ns;
}

static int64_t later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

int64_t weir_table_now(weir_table *t, int64_t now_ns)
{
    return later(see(t, now_ns), now_ns);
}

/* ---- deciding on a copy ---------------------------------------------------------------------- */

/* Copies the state of the key at f->at, or a fresh one. */
static inline void copy(const call *c, found *f)
{
    const port_word *from = f->bucket ? &f->bucket->cell[f->at + c->cells - c->words] : NULL;
    for (size_t i = 0; i < c->words; i++)
        f->new[i] = f->old[i] = from ? port_word_load_acquire(&from[i]) : 0;
}

/* Runs the function on a copy that is whole. False if there is nothing to write, and *ret_st is the
 * answer; true if so, and it will be once that is done. */
static bool same_words(const uint64_t *a, const uint64_t *b, size_t words)
{
    uint64_t differ = 0;
    for (size_t i = 0; i < words; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

static inline bool decide(const call *c, found *f, weir_status *ret_st)
{
    int64_t after_ns = WEIR_FRESH_UNKNOWN;
    f->seen_ns = see(c->table, c->now_ns);
    int64_t now_ns = later(c->now_ns, f->seen_ns);
    *ret_st = c->fn(c->ctx, c->policy, f->new, WEIR_LEVEL_MAX, now_ns, &after_ns);
    if (*ret_st != WEIR_OK || same_words(f->new, f->old, c->words))
        return false;
    f->fresh_at_ns = c->cells == c->words + 1
                         ? (int64_t)f->new[0]
                         : weir_fresh_at(c->policy, f->new, WEIR_LEVEL_MAX, now_ns, after_ns);
    return f->bucket || f->fresh_at_ns > f->seen_ns; /* a fresh key need not be put in */
}

/* ---- writing --------------------------------------------------------------------------------- */

static inline weir_entry entry_of(const call *c, const found *f)
{
    return (weir_entry){c->tag, f->fresh_at_ns, f->new, c->cells};
}

/* Drops what is fresh in a locked bucket. Returns the marks then. */
static uint64_t drop_fresh(const call *c, weir_bucket *b, uint64_t marks, int64_t seen_ns)
{
    uint64_t fresh = weir_bucket_fresh(b, marks, seen_ns);
    if (fresh == 0)
        return marks;
    uint64_t left = weir_bucket_drop(b, marks, fresh);
    count(c->table, b, marks, left);
    return left;
}

/* Puts the key into a locked bucket that has room for it. Returns the marks then. */
static uint64_t add(const call *c, weir_bucket *b, uint64_t marks, const found *f)
{
    weir_entry e = entry_of(c, f);
    uint64_t more = weir_bucket_add(b, marks, &e);
    count(c->table, b, marks, more);
    return more;
}

/* Whether `cells` would be free in a bucket once what is fresh there was dropped. It need not be
 * locked: then this is a guess. */
static bool may_hold(const weir_bucket *b, uint64_t marks, unsigned cells, int64_t seen_ns)
{
    return weir_bucket_free_cells(marks) >= cells || weir_bucket_fresh(b, marks, seen_ns) != 0;
}

/* Moves the entry at cell `at` of a locked bucket to its other bucket. False if that is full, or
 * locked: whoever holds two locks waits for no third. */
static bool move_entry(const call *c, const found *f, weir_bucket *b, uint64_t *header, unsigned at,
                       unsigned cells)
{
    weir_table *t = c->table;
    uint64_t tag = port_word_load_relaxed(&b->cell[at]);
    weir_bucket *first = &t->buckets[first_of(t, tag)];
    weir_bucket *to = b == first ? &t->buckets[second_of(t, tag)] : first;
    uint64_t header_to = port_word_load_acquire(&to->cell[0]);
    if (to == c->first || to == c->second || header_to & WEIR_BUCKET_LOCKED ||
        !may_hold(to, weir_bucket_marks(header_to), cells, f->seen_ns) ||
        !weir_bucket_try_lock(to, header_to))
        return false;
    uint64_t marks_to = drop_fresh(c, to, weir_bucket_marks(header_to), f->seen_ns);
    bool fits = weir_bucket_free_cells(marks_to) >= cells;
    if (fits) {
        uint64_t marks = weir_bucket_marks(*header),
                 more = weir_bucket_copy(to, marks_to, b, at, cells);
        uint64_t left = weir_bucket_drop(b, marks, (uint64_t)1 << at);
        count(t, to, marks_to, more);
        count(t, b, marks, left);
        marks_to = more;
        *header = weir_bucket_with_marks(*header, left) | (b == first ? WEIR_BUCKET_SPILLED : 0);
    }
    weir_bucket_publish(to, weir_bucket_with_marks(header_to, marks_to));
    return fits;
}

/* Moves some entry of a locked bucket out of the way. False if none will do. */
static bool move_one(const call *c, const found *f, weir_bucket *b, uint64_t *header)
{
    uint64_t marks = weir_bucket_marks(*header);
    unsigned room = weir_bucket_free_cells(marks);
    for (uint64_t left = marks; weir_bucket_more(left);) {
        unsigned at = weir_bucket_next(&left), cells = weir_bucket_end(left) - at;
        if (room + cells >= c->cells && move_entry(c, f, b, header, at, cells))
            return true;
    }
    return false;
}

/* Makes room in whichever of two locked buckets loses less by it: the one whose last victim is
 * closer to fresh. The key itself is no candidate, however close: it would never be limited. True
 * if that is the second. */
static bool evict(const call *c, uint64_t *header1, uint64_t *header2)
{
    int64_t fresh1_ns, fresh2_ns;
    uint64_t marks1 = weir_bucket_marks(*header1), marks2 = weir_bucket_marks(*header2);
    uint64_t victims1 = weir_bucket_victims(c->first, marks1, c->cells, &fresh1_ns);
    uint64_t victims2 = weir_bucket_victims(c->second, marks2, c->cells, &fresh2_ns);
    bool is_second = fresh2_ns < fresh1_ns;
    weir_bucket *b = is_second ? c->second : c->first;
    uint64_t marks = is_second ? marks2 : marks1, victims = is_second ? victims2 : victims1;
    uint64_t *header = is_second ? header2 : header1, left = weir_bucket_drop(b, marks, victims);
    count(c->table, b, marks, left);
    count_evicted(c->table, b, victims);
    *header = weir_bucket_with_marks(*header, left);
    return is_second;
}

/* Puts the key into one of its buckets, both locked with these headers, which are updated. */
static void insert(const call *c, const found *f, uint64_t *header1, uint64_t *header2)
{
    uint64_t marks1 = drop_fresh(c, c->first, weir_bucket_marks(*header1), f->seen_ns);
    uint64_t marks2 = drop_fresh(c, c->second, weir_bucket_marks(*header2), f->seen_ns);
    *header1 = weir_bucket_with_marks(*header1, marks1);
    *header2 = weir_bucket_with_marks(*header2, marks2);
    bool is_second = weir_bucket_free_cells(marks1) < c->cells;
    if (is_second && weir_bucket_free_cells(marks2) < c->cells &&
        !move_one(c, f, c->second, header2)) {
        is_second = !move_one(c, f, c->first, header1) && evict(c, header1, header2);
    }
    weir_bucket *b = is_second ? c->second : c->first;
    uint64_t *header = is_second ? header2 : header1;
    *header = weir_bucket_with_marks(*header, add(c, b, weir_bucket_marks(*header), f));
    if (is_second)
        *header1 |= WEIR_BUCKET_SPILLED;
}

/* ---- without locks --------------------------------------------------------------------------- */

/* Finds the key and copies its state. False if the copy may not be whole. */
static inline bool read_state(const call *c, found *f)
{
    uint64_t header1 = weir_bucket_read(c->first), header2 = 0;
    f->bucket = NULL;
    f->header = header1;
    f->at = weir_bucket_find(c->first, header1, c->tag, c->cells);
    if (f->at) {
        f->bucket = c->first;
    } else if (header1 & WEIR_BUCKET_SPILLED) {
        header2 = weir_bucket_read(c->second);
        f->at = weir_bucket_find(c->second, header2, c->tag, c->cells);
        if (f->at) {
            f->bucket = c->second;
            f->header = header2;
        }
    }
    copy(c, f);
    if (f->bucket)
        return weir_bucket_same(f->bucket, f->header);
    /* Absent from both at once: the second stayed the same for a while that lies within the while
     * that the first stayed the same. */
    bool same2 = !(header1 & WEIR_BUCKET_SPILLED) || weir_bucket_same(c->second, header2);
    return same2 && weir_bucket_same(c->first, header1);
}

/* Writes the new state of a key that was found. False if its bucket has changed. */
static inline bool try_update(const call *c, const found *f)
{
    if (!weir_bucket_try_lock(f->bucket, f->header))
        return false;
    weir_entry e = entry_of(c, f);
    weir_bucket_write(f->bucket, f->at, &e);
    weir_bucket_publish(f->bucket, f->header);
    return true;
}

/* Puts in a key that was absent. False if its first bucket has changed, or the second is needed and
 * locked. */
static bool try_insert(const call *c, const found *f)
{
    if (!weir_bucket_try_lock(c->first, f->header))
        return false;
    uint64_t marks = drop_fresh(c, c->first, weir_bucket_marks(f->header), f->seen_ns);
    uint64_t header1 = weir_bucket_with_marks(f->header, marks), header2;
    if (weir_bucket_free_cells(marks) >= c->cells) {
        header1 = weir_bucket_with_marks(f->header, add(c, c->first, marks, f));
        weir_bucket_publish(c->first, header1);
        return true;
    }
    header2 = port_word_load_relaxed(&c->second->cell[0]);
    bool locked = !(header2 & WEIR_BUCKET_LOCKED) && weir_bucket_try_lock(c->second, header2);
    if (locked) {
        insert(c, f, &header1, &header2);
        weir_bucket_publish(c->second, header2);
    }
    weir_bucket_publish(c->first, header1);
    return locked;
}

/* ---- under both locks ------------------------------------------------------------------------ */

static void lock_both(const call *c, uint64_t *ret_header1, uint64_t *ret_header2)
{
    bool in_order = c->first < c->second;
    uint64_t low = weir_bucket_lock(in_order ? c->first : c->second);
    uint64_t high = weir_bucket_lock(in_order ? c->second : c->first);
    *ret_header1 = in_order ? low : high;
    *ret_header2 = in_order ? high : low;
}

/* For a call that was too slow too often. Whoever reads the buckets waits for it. */
static weir_status run_locked(const call *c)
{
    uint64_t header1, header2;
    weir_status st;
    found f = {.bucket = c->first};
    lock_both(c, &header1, &header2);
    f.at = weir_bucket_find(c->first, header1, c->tag, c->cells);
    if (!f.at) {
        f.bucket = c->second;
        f.at = weir_bucket_find(c->second, header2, c->tag, c->cells);
    }
    if (!f.at)
        f.bucket = NULL;
    copy(c, &f);
    if (!decide(c, &f, &st)) {
        weir_bucket_unlock(c->first, header1);
        weir_bucket_unlock(c->second, header2);
        return st;
    }
    weir_entry e = entry_of(c, &f);
    if (f.bucket)
        weir_bucket_write(f.bucket, f.at, &e);
    else
        insert(c, &f, &header1, &header2);
    weir_bucket_publish(c->first, header1);
    weir_bucket_publish(c->second, header2);
    return st;
}

/* ---- the face -------------------------------------------------------------------------------- */

static inline void prefetch(const weir_bucket *b)
{
    for (size_t i = 0; i < sizeof *b; i += WEIR_LINE_BYTES)
        port_prefetch((const char *)b + i);
}

static inline void set_buckets(call *c, uint64_t hash)
{
    c->tag = tag_of(hash);
    c->first = &c->table->buckets[first_of(c->table, hash)];
    c->second = &c->table->buckets[second_of(c->table, hash)];
}

weir_status weir_table_run(weir_table *t, const weir_policy *p, size_t words, uint64_t hash,
                           int64_t now_ns, weir_state_fn fn, void *ctx)
{
    call c = {t, p, words, (unsigned)words + (is_time(p) ? 1 : 2), 0, now_ns, fn, ctx, NULL, NULL};
    assert(words >= 1 && words <= WEIR_TABLE_WORDS_MAX);
    set_buckets(&c, hash);
    prefetch(c.first); /* all its lines at once, not one after the other as they are needed */
    for (int i = 0; i < TRIES; i++) {
        found f;
        weir_status st;
        if (!read_state(&c, &f))
            continue;
        if (!decide(&c, &f, &st) || (f.bucket ? try_update(&c, &f) : try_insert(&c, &f)))
            return st;
    }
    return run_locked(&c);
}

/* Takes the entries of the tag out of a locked bucket; gives it back. */
static void take_out(const call *c, weir_bucket *b, uint64_t header)
{
    uint64_t marks = weir_bucket_marks(header), left = marks;
    for (unsigned at; (at = weir_bucket_find(b, weir_bucket_with_marks(header, left), c->tag, 0));)
        left = weir_bucket_drop(b, left, (uint64_t)1 << at);
    count(c->table, b, marks, left);
    if (left == marks)
        weir_bucket_unlock(b, header);
    else
        weir_bucket_publish(b, weir_bucket_with_marks(header, left));
}

void weir_table_reset(weir_table *t, uint64_t hash)
{
    uint64_t header1, header2;
    call c = {.table = t};
    set_buckets(&c, hash);
    lock_both(&c, &header1, &header2);
    take_out(&c, c.first, header1);
    take_out(&c, c.second, header2);
}

void weir_table_prefetch(const weir_table *t, uint64_t hash)
{
    prefetch(&t->buckets[first_of(t, hash)]);
}

weir_table_stats weir_table_stats_get(weir_table *t)
{
    weir_table_stats stats = {0, 0, 0};
    for (size_t i = 0; i < STRIPES; i++) {
        uint64_t held = port_load_relaxed(&t->stripes[i].held);
        stats.keys += (uint32_t)held;
        stats.bytes += (held >> 32) * 8;
        stats.evicted += port_load_relaxed(&t->stripes[i].evicted);
    }
    return stats;
}

weir_status weir_table_open(weir_table **ret, size_t bytes)
{
    assert(bytes >= WEIR_TABLE_BYTES_MIN);
    weir_table *t = port_map(sizeof *t); /* a whole page: it is aligned to a line */
    if (!t)
        return WEIR_E_NOMEM;
    t->buckets_len = bytes / sizeof(weir_bucket);
    t->buckets = port_map(t->buckets_len * sizeof(weir_bucket));
    if (!t->buckets) {
        weir_table_close(t);
        return WEIR_E_NOMEM;
    }
    *ret = t;
    return WEIR_OK;
}

void weir_table_close(weir_table *t)
{
    if (t)
        port_unmap(t->buckets, t->buckets_len * sizeof(weir_bucket));
    port_unmap(t, sizeof *t);
}
