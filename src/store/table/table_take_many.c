/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Transactions on several keys of one table or several. It locks the buckets of all keys, memory by
 * memory and in each in the order of their addresses, decides on all keys, and then commits or
 * releases all buckets (two-phase locking). */

#include "store/table/cuckoo.h"

/* A key's state between the decision and the write. */
typedef struct draft {
    weir_table *table;
    weir_bucket_pair at;
    weir_locked_bucket *first, *alternate; /* those of `at` */
    weir_locked_bucket *l; /* the key's bucket; the first one if the key is absent */
    unsigned i;            /* WEIR_LINE_ENTRIES: the key is absent */
    bool dropped;          /* the key was present, and its new state is all zero */
    uint64_t old[WEIR_ENTRY_WORDS], new[WEIR_ENTRY_WORDS];
    weir_bucket_entry entry;
} draft;

/* The times of a memory during a transaction: once all buckets are locked, one for all its keys. */
typedef struct times {
    int64_t seen_ns, now_ns;
} times;

typedef struct to_lock {
    weir_table *table;
    weir_bucket *bucket;
} to_lock;

/* Sorts buckets that are in the order of their addresses by the order of their memory. */
static void sort_by_memory(to_lock *b, size_t len)
{
    for (size_t i = 1; i < len; i++) {
        to_lock next = b[i];
        size_t to = i;
        for (; to > 0 && b[to - 1].table->order > next.table->order; to--)
            b[to] = b[to - 1];
        b[to] = next;
    }
}

static void lock_all(weir_lock_set *h, const draft *drafts, size_t n)
{
    to_lock b[2 * WEIR_TABLE_MANY_MAX];
    size_t len = 0;
    for (size_t i = 0; i < 2 * n; i++) { /* insertion sort, without duplicates */
        weir_bucket *next = i % 2 ? drafts[i / 2].at.alternate : drafts[i / 2].at.first;
        size_t to = len;
        while (to > 0 && b[to - 1].bucket > next)
            to--;
        if (to > 0 && b[to - 1].bucket == next)
            continue;
        for (size_t j = len++; j > to; j--)
            b[j] = b[j - 1];
        b[to] = (to_lock){drafts[i / 2].table, next};
    }
    sort_by_memory(b, len);
    for (size_t i = 0; i < len; i++)
        weir_lock_set_wait(b[i].table, h, b[i].bucket);
}

/* Reads the state of a draft that is all zero otherwise. */
static void read_state(const weir_lock_set *h, const weir_policy *p, draft *d)
{
    d->first = weir_lock_set_find(h, d->at.first);
    d->alternate = weir_lock_set_find(h, d->at.alternate);
    d->l = weir_locked_find_key(d->first, d->alternate, d->at.tag, &d->i);
    if (d->i < WEIR_LINE_ENTRIES) {
        weir_bucket_entry e = weir_line_get(&d->l->line, d->i);
        weir_unpack(p, &e, d->old);
    }
    for (size_t i = 0; i < WEIR_ENTRY_WORDS; i++)
        d->new[i] = d->old[i];
}

/* The times of request i: those of the first request of the same memory. */
static times times_of(const draft *drafts, const times *of, size_t i, int64_t now_ns)
{
    size_t j = 0;
    while (drafts[j].table->head != drafts[i].table->head)
        j++;
    WEIR_ASSERT(j <= i);
    if (j < i)
        return of[j];
    int64_t seen_ns = weir_table_see(drafts[i].table, now_ns);
    return (times){seen_ns, weir_later(now_ns, seen_ns)};
}

/* The index of the first request with the same key as request i. */
static size_t first_of_key(const weir_table_one *ones, size_t i)
{
    size_t j = 0;
    while (ones[j].hash != ones[i].hash || ones[j].table != ones[i].table)
        j++;
    WEIR_ASSERT(j <= i);
    return j;
}

/* Writes the states that have changed. It searches for each key again, because an insertion may
 * have displaced it. A request whose state does not fit gets that status. */
static weir_status write_all(weir_lock_set *h, weir_table_one *ones, draft *drafts, const times *of,
                             size_t n)
{
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < n && st == WEIR_OK; i++) {
        draft *d = &drafts[i];
        uint64_t differ = 0, rest = 0;
        for (size_t w = 0; w < WEIR_ENTRY_WORDS; w++) {
            differ |= d->old[w] ^ d->new[w];
            rest |= d->new[w];
        }
        d->dropped = d->i < WEIR_LINE_ENTRIES && rest == 0;
        if (differ == 0 || d->dropped) /* unchanged, or decided in an earlier request's draft */
            continue;
        d->l = weir_locked_find_key(d->first, d->alternate, d->at.tag, &d->i);
        d->entry = (weir_bucket_entry){.tag = d->at.tag};
        weir_pack(ones[i].policy, d->new, of[i].now_ns, WEIR_USAGE_UNKNOWN, &d->entry);
        if (d->i < WEIR_LINE_ENTRIES || weir_pack_time(&d->entry) > of[i].seen_ns)
            st = weir_cuckoo_write(d->table, h, &d->at, d->l, d->i, &d->entry, of[i].seen_ns);
        if (st != WEIR_OK)
            ones[i].status = st;
    }
    return st;
}

/* Drops the keys whose new states are all zero. The commit writes their buckets last: a state that
 * moved to another key is there before it is gone here. */
static void drop_zeros(weir_lock_set *h, draft *drafts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const weir_bucket_pair at = drafts[i].at;
        unsigned entry;
        if (!drafts[i].dropped)
            continue;
        weir_locked_bucket *l = weir_lock_set_find_key(h, &at, &entry);
        if (entry < WEIR_LINE_ENTRIES)
            weir_line_drop(&l->line, 1u << entry);
        weir_lock_set_write_first(&h->of[0], l); /* index 0 is written last */
    }
}

weir_status weir_table_run_many(weir_table *t, weir_table_one *ones, size_t n, int64_t now_ns,
                                bool (*keep)(void *ctx, const weir_table_one *ones),
                                void (*finish)(void *ctx, bool written), void *ctx)
{
    draft drafts[WEIR_TABLE_MANY_MAX];
    times at[WEIR_TABLE_MANY_MAX];
    weir_locked_bucket of[WEIR_LOCK_SET_MANY_KEYS];
    weir_lock_set h = {0, WEIR_LOCK_SET_MANY_KEYS, of};
    WEIR_ASSERT(n <= WEIR_TABLE_MANY_MAX);
    for (size_t i = 0; i < n; i++) {
        weir_table *table = ones[i].table ? ones[i].table : t;
        drafts[i] = (draft){
            .table = table, .at = weir_bucket_pair_of(table, ones[i].hash), .i = WEIR_LINE_ENTRIES};
    }
    lock_all(&h, drafts, n);
    for (size_t i = 0; i < n; i++) {
        draft *d = &drafts[first_of_key(ones, i)];
        weir_usage usage = WEIR_USAGE_UNKNOWN;
        at[i] = times_of(drafts, at, i, now_ns);
        if (d == &drafts[i])
            read_state(&h, ones[i].policy, d);
        ones[i].status =
            ones[i].fn(ones[i].ctx, ones[i].policy, d->new, WEIR_LEVEL_MAX, at[i].now_ns, &usage);
    }
    weir_status st = WEIR_OK;
    bool kept = keep(ctx, ones);
    if (kept)
        st = write_all(&h, ones, drafts, at, n);
    finish(ctx, kept && st == WEIR_OK);
    if (kept && st == WEIR_OK) {
        drop_zeros(&h, drafts, n);
        weir_lock_set_commit(&h);
    } else {
        weir_lock_set_release(&h);
    }
    return st;
}
