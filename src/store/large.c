/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* 64 shards. An entry is one key's state and the time at which it will be as good as fresh; from
 * then on it may be dropped. It knows what a state is from the core alone. */

#include "store/large.h"

#include "port/atomic.h"
#include "port/port.h"

enum {
    SHARDS = 64,          /* a power of two */
    BUCKETS_MIN = 16,     /* of a shard, a power of two */
    SWEEP_BUCKETS = 2,    /* looked at for fresh entries with every new one */
    SWEEP_FULL = 64,      /* the same when the memory is full */
    EVICT_SAMPLE = 16,    /* entries looked at to find the one closest to fresh */
    MALLOC_OVERHEAD = 16, /* bytes counted beside each entry */
};

typedef struct entry {
    struct entry *next;
    uint64_t hash;
    int64_t fresh_at_ns;
    uint32_t words;
    uint32_t level;
    uint64_t state[];
} entry;

typedef struct shard {
    port_mutex *lock;
    entry **buckets;
    size_t buckets_len; /* a power of two */
    size_t keys;
    size_t sweep_at;
    int64_t now_ns; /* the latest seen */
    uint64_t evicted;
} shard;

struct weir_large {
    shard shards[SHARDS];
    uint64_t memory_max;
    port_counter memory; /* relaxed: a sum, it publishes nothing */
    port_counter fixed;  /* of it, what the buckets take, which nothing can give back */
};

/* ---- entries and memory ---------------------------------------------------------------------- */

static uint64_t entry_bytes(const entry *e)
{
    return sizeof *e + (uint64_t)e->words * 8 + MALLOC_OVERHEAD;
}

static entry **bucket_of(shard *sh, uint64_t hash)
{
    return &sh->buckets[(hash / SHARDS) & (sh->buckets_len - 1)];
}

/* The link that points to the entry of `hash`, or to NULL at the end of its bucket. */
static entry **find(shard *sh, uint64_t hash)
{
    entry **link = bucket_of(sh, hash);
    while (*link && (*link)->hash != hash)
        link = &(*link)->next;
    return link;
}

static void entry_free(weir_large *l, entry *e)
{
    port_sub_relaxed(&l->memory, entry_bytes(e));
    port_free(e);
}

static void unlink_entry(weir_large *l, shard *sh, entry **link)
{
    entry *e = *link;
    *link = e->next;
    sh->keys--;
    entry_free(l, e);
}

/* Drops the fresh entries of the next `count` buckets. */
static void sweep(weir_large *l, shard *sh, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sh->sweep_at = (sh->sweep_at + 1) & (sh->buckets_len - 1);
        entry **link = &sh->buckets[sh->sweep_at];
        while (*link) {
            if ((*link)->fresh_at_ns <= sh->now_ns)
                unlink_entry(l, sh, link);
            else
                link = &(*link)->next;
        }
    }
}

/* Forgets the one closest to fresh of the next few entries, but not `keep`. False if there is
 * none. */
static bool evict_one(weir_large *l, shard *sh, const entry *keep)
{
    entry **best = NULL;
    size_t seen = 0;
    for (size_t i = 0; i < sh->buckets_len && seen < EVICT_SAMPLE; i++) {
        sh->sweep_at = (sh->sweep_at + 1) & (sh->buckets_len - 1);
        for (entry **link = &sh->buckets[sh->sweep_at]; *link; link = &(*link)->next) {
            if (*link == keep)
                continue;
            seen++;
            if (!best || (*link)->fresh_at_ns < (*best)->fresh_at_ns)
                best = link;
        }
    }
    if (!best)
        return false;
    sh->evicted += (*best)->fresh_at_ns > sh->now_ns;
    unlink_entry(l, sh, best);
    return true;
}

/* A zeroed entry, neither linked nor counted. NULL if it could not fit with all others gone, so
 * that none of them goes for nothing; or if there is no memory. */
static entry *entry_new(weir_large *l, size_t words, unsigned level)
{
    uint64_t bytes = sizeof(entry) + (uint64_t)words * 8 + MALLOC_OVERHEAD;
    if (words > UINT32_MAX || bytes > l->memory_max - port_load_relaxed(&l->fixed))
        return NULL;
    entry *e = port_zalloc(1, sizeof *e + words * 8);
    if (!e)
        return NULL;
    e->words = (uint32_t)words;
    e->level = level;
    return e;
}

static bool lacks(weir_large *l, uint64_t bytes)
{
    return port_load_relaxed(&l->memory) + bytes > l->memory_max;
}

/* Counts bytes as taken if they are there: several threads together take no more than there is. */
static bool reserve(weir_large *l, uint64_t bytes)
{
    if (port_add_relaxed(&l->memory, bytes) + bytes <= l->memory_max)
        return true;
    port_sub_relaxed(&l->memory, bytes);
    return false;
}

/* Makes room in one locked shard, with bounded work for each entry that goes. */
static void make_room(weir_large *l, shard *sh, uint64_t bytes, const entry *keep)
{
    if (lacks(l, bytes))
        sweep(l, sh, SWEEP_FULL < sh->buckets_len ? SWEEP_FULL : sh->buckets_len);
    while (lacks(l, bytes) && evict_one(l, sh, keep))
        continue;
}

/* Counts bytes as taken, after making room for them: in one shard, and if there is nothing left to
 * go, in those that nobody holds. False if that was not enough. */
static bool take_memory(weir_large *l, shard *sh, uint64_t bytes, const entry *keep)
{
    make_room(l, sh, bytes, keep);
    for (size_t i = 0; i < SHARDS && lacks(l, bytes); i++) {
        shard *other = &l->shards[i];
        if (other == sh || !port_mutex_trylock(other->lock))
            continue; /* waiting for it while holding ours could be waiting for each other */
        make_room(l, other, bytes, NULL);
        port_mutex_unlock(other->lock);
    }
    return reserve(l, bytes);
}

/* Twice the buckets. Without memory for them the chains only grow longer. */
static void rehash(weir_large *l, shard *sh)
{
    size_t old_len = sh->buckets_len, more = old_len * sizeof(entry *);
    if (!reserve(l, more))
        return;
    entry **old = sh->buckets, **wider = port_zalloc(old_len * 2, sizeof *wider);
    if (!wider) {
        port_sub_relaxed(&l->memory, more);
        return;
    }
    port_add_relaxed(&l->fixed, more);
    sh->buckets = wider;
    sh->buckets_len = old_len * 2;
    for (size_t i = 0; i < old_len; i++) {
        for (entry *e = old[i], *next; e; e = next) {
            next = e->next;
            entry **bucket = bucket_of(sh, e->hash);
            e->next = *bucket;
            *bucket = e;
        }
    }
    port_free(old);
}

static void link_entry(weir_large *l, shard *sh, entry *e)
{
    sweep(l, sh, SWEEP_BUCKETS);
    if (sh->keys >= sh->buckets_len)
        rehash(l, sh);
    entry **bucket = bucket_of(sh, e->hash);
    e->next = *bucket;
    *bucket = e;
    sh->keys++;
}

/* ---- open and close -------------------------------------------------------------------------- */

static weir_status shard_open(shard *sh)
{
    sh->lock = port_mutex_new();
    sh->buckets = port_zalloc(BUCKETS_MIN, sizeof *sh->buckets);
    sh->buckets_len = BUCKETS_MIN;
    return sh->lock && sh->buckets ? WEIR_OK : WEIR_E_NOMEM;
}

weir_status weir_large_open(weir_large **ret, uint64_t memory_max)
{
    weir_status st = WEIR_E_NOMEM;
    weir_large *l = port_zalloc(1, sizeof *l);
    if (!l)
        return st;
    l->memory_max = memory_max;
    for (size_t i = 0; i < SHARDS; i++) {
        st = shard_open(&l->shards[i]);
        if (st != WEIR_OK)
            goto fail;
    }
    port_add_relaxed(&l->memory, (uint64_t)SHARDS * BUCKETS_MIN * sizeof(entry *));
    port_add_relaxed(&l->fixed, (uint64_t)SHARDS * BUCKETS_MIN * sizeof(entry *));
    *ret = l;
    return WEIR_OK;
fail:
    weir_large_close(l);
    return st;
}

void weir_large_close(weir_large *l) /* accepts NULL and half-opened ones */
{
    for (size_t i = 0; l && i < SHARDS; i++) {
        shard *sh = &l->shards[i];
        for (size_t b = 0; sh->buckets && b < sh->buckets_len; b++) {
            while (sh->buckets[b])
                unlink_entry(l, sh, &sh->buckets[b]);
        }
        port_free(sh->buckets);
        port_mutex_free(sh->lock);
    }
    port_free(l);
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* Locks the shard of `hash` and moves its time on. */
static shard *enter(weir_large *l, uint64_t hash, int64_t *now_ns)
{
    shard *sh = &l->shards[hash & (SHARDS - 1)];
    port_mutex_lock(sh->lock);
    if (*now_ns < sh->now_ns)
        *now_ns = sh->now_ns;
    else if (*now_ns <= WEIR_NOW_NS_MAX)
        sh->now_ns = *now_ns;
    return sh;
}

/* Replaces *e by an entry of the next level that holds the same. What the old one takes is taken
 * over, so it is counted once, though for a moment both are there. */
static weir_status grow(weir_large *l, shard *sh, const weir_policy *p, entry **e, bool linked)
{
    entry *old = *e;
    entry *wider = entry_new(l, weir_state_words(p, old->level + 1), old->level + 1);
    if (!wider || (linked && !take_memory(l, sh, entry_bytes(wider) - entry_bytes(old), old))) {
        port_free(wider);
        return WEIR_E_NOMEM;
    }
    weir_state_grow(p, old->state, old->level, wider->state);
    wider->hash = old->hash;
    wider->next = old->next;
    wider->fresh_at_ns = old->fresh_at_ns;
    if (linked)
        *find(sh, old->hash) = wider; /* found anew: an eviction may have changed the chain */
    port_free(old);
    *e = wider;
    return WEIR_OK;
}

/* Keeps a new entry if it is worth keeping: nothing is evicted for a denial or a peek. */
static weir_status keep_or_free(weir_large *l, shard *sh, entry *e, weir_status st)
{
    bool keep = st == WEIR_OK && e->fresh_at_ns > sh->now_ns;
    if (keep && !take_memory(l, sh, entry_bytes(e), NULL)) {
        keep = false;
        st = WEIR_E_NOMEM;
    }
    if (keep)
        link_entry(l, sh, e);
    else
        port_free(e);
    return st;
}

/* Runs fn on the state of `hash`, and keeps the state for as long as it is not fresh. */
static weir_status with_state(weir_large *l, shard *sh, const weir_policy *p, uint64_t hash,
                              int64_t now_ns, weir_state_fn fn, void *ctx)
{
    entry *e = *find(sh, hash);
    bool linked = e != NULL;
    if (linked && e->words != weir_state_words(p, e->level)) { /* two keys of one hash */
        unlink_entry(l, sh, find(sh, hash));
        linked = false;
    }
    if (!linked) {
        e = entry_new(l, weir_state_words(p, 0), 0);
        if (!e)
            return WEIR_E_NOMEM;
        e->hash = hash;
    }
    weir_status st;
    int64_t after_ns = WEIR_FRESH_UNKNOWN;
    while ((st = fn(ctx, p, e->state, e->level, now_ns, &after_ns)) == WEIR_E_ROOM) {
        st = grow(l, sh, p, &e, linked);
        if (st != WEIR_OK)
            break;
    }
    e->fresh_at_ns = weir_fresh_at(p, e->state, e->level, now_ns, after_ns);
    return linked ? st : keep_or_free(l, sh, e, st);
}

weir_status weir_large_run(weir_large *l, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           weir_state_fn fn, void *ctx)
{
    shard *sh = enter(l, hash, &now_ns);
    weir_status st = with_state(l, sh, p, hash, now_ns, fn, ctx);
    port_mutex_unlock(sh->lock);
    return st;
}

void weir_large_reset(weir_large *l, uint64_t hash)
{
    int64_t now_ns = 0;
    shard *sh = enter(l, hash, &now_ns);
    entry **link = find(sh, hash);
    if (*link)
        unlink_entry(l, sh, link);
    port_mutex_unlock(sh->lock);
}

weir_large_stats weir_large_stats_get(weir_large *l)
{
    weir_large_stats stats = {0, port_load_relaxed(&l->memory), 0};
    for (size_t i = 0; i < SHARDS; i++) {
        shard *sh = &l->shards[i];
        port_mutex_lock(sh->lock);
        stats.keys += sh->keys;
        stats.evicted += sh->evicted;
        port_mutex_unlock(sh->lock);
    }
    return stats;
}
