/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The in-memory store: 64 shards, each a lock and a chained hash table. An entry is one key's state
 * and the time at which it will be as good as fresh; from then on it may be dropped. It knows what
 * a state is from the core alone, and never sees a key's text after hashing it. */

#include <weir/weir_store.h>

#include "port/atomic.h"
#include "port/port.h"
#include "store/siphash.h"

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

struct weir_store {
    shard shards[SHARDS];
    weir_secret secret;
    uint64_t memory_max;
    port_counter memory; /* relaxed: a sum, it publishes nothing */
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

static void entry_free(weir_store *s, entry *e)
{
    port_sub_relaxed(&s->memory, entry_bytes(e));
    port_free(e);
}

static void unlink_entry(weir_store *s, shard *sh, entry **link)
{
    entry *e = *link;
    *link = e->next;
    sh->keys--;
    entry_free(s, e);
}

/* Drops the fresh entries of the next `count` buckets. */
static void sweep(weir_store *s, shard *sh, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sh->sweep_at = (sh->sweep_at + 1) & (sh->buckets_len - 1);
        entry **link = &sh->buckets[sh->sweep_at];
        while (*link) {
            if ((*link)->fresh_at_ns <= sh->now_ns)
                unlink_entry(s, sh, link);
            else
                link = &(*link)->next;
        }
    }
}

/* Forgets the one closest to fresh of the next few entries, but not `keep`. False if there is
 * none. */
static bool evict_one(weir_store *s, shard *sh, const entry *keep)
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
    unlink_entry(s, sh, best);
    return true;
}

/* A zeroed entry, neither linked nor counted. NULL if it could never fit, or there is no memory. */
static entry *entry_new(const weir_store *s, size_t words, unsigned level)
{
    uint64_t bytes = sizeof(entry) + (uint64_t)words * 8 + MALLOC_OVERHEAD;
    if (words > UINT32_MAX || bytes > s->memory_max)
        return NULL;
    entry *e = port_zalloc(1, sizeof *e + words * 8);
    if (!e)
        return NULL;
    e->words = (uint32_t)words;
    e->level = level;
    return e;
}

static bool lacks(weir_store *s, uint64_t bytes)
{
    return port_load_relaxed(&s->memory) + bytes > s->memory_max;
}

/* Makes room in one locked shard, with bounded work for each entry that goes. */
static void make_room(weir_store *s, shard *sh, uint64_t bytes, const entry *keep)
{
    if (lacks(s, bytes))
        sweep(s, sh, SWEEP_FULL < sh->buckets_len ? SWEEP_FULL : sh->buckets_len);
    while (lacks(s, bytes) && evict_one(s, sh, keep))
        continue;
}

/* Counts `e` among the memory taken, after making room for it: in its own shard, and if there is
 * nothing left to go, in those that nobody holds. False if that was not enough. */
static bool count_entry(weir_store *s, shard *sh, const entry *e, const entry *keep)
{
    uint64_t bytes = entry_bytes(e);
    make_room(s, sh, bytes, keep);
    for (size_t i = 0; i < SHARDS && lacks(s, bytes); i++) {
        shard *other = &s->shards[i];
        if (other == sh || !port_mutex_trylock(other->lock))
            continue; /* waiting for it while holding ours could be waiting for each other */
        make_room(s, other, bytes, NULL);
        port_mutex_unlock(other->lock);
    }
    if (lacks(s, bytes))
        return false;
    port_add_relaxed(&s->memory, bytes);
    return true;
}

/* Twice the buckets. Without memory for them the chains only grow longer. */
static void rehash(weir_store *s, shard *sh)
{
    size_t old_len = sh->buckets_len;
    entry **old = sh->buckets, **wider = port_zalloc(old_len * 2, sizeof *wider);
    if (!wider)
        return;
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
    port_add_relaxed(&s->memory, old_len * sizeof *wider);
}

static void link_entry(weir_store *s, shard *sh, entry *e)
{
    sweep(s, sh, SWEEP_BUCKETS);
    if (sh->keys >= sh->buckets_len)
        rehash(s, sh);
    entry **bucket = bucket_of(sh, e->hash);
    e->next = *bucket;
    *bucket = e;
    sh->keys++;
}

/* ---- open and close -------------------------------------------------------------------------- */

static weir_status set_secret(weir_store *s, const uint8_t *bytes)
{
    uint8_t random[16];
    if (!bytes) {
        weir_status st = port_random(random, sizeof random);
        if (st != WEIR_OK)
            return st;
        bytes = random;
    }
    for (unsigned i = 0; i < 8; i++) {
        s->secret.k0 |= (uint64_t)bytes[i] << (8 * i);
        s->secret.k1 |= (uint64_t)bytes[8 + i] << (8 * i);
    }
    return WEIR_OK;
}

static weir_status shard_open(shard *sh)
{
    sh->lock = port_mutex_new();
    sh->buckets = port_zalloc(BUCKETS_MIN, sizeof *sh->buckets);
    sh->buckets_len = BUCKETS_MIN;
    return sh->lock && sh->buckets ? WEIR_OK : WEIR_E_NOMEM;
}

weir_status weir_store_open(weir_store **ret, const weir_store_options *options)
{
    weir_store_options o = options ? *options : (weir_store_options){0, NULL};
    if (o.memory_bytes == 0)
        o.memory_bytes = (size_t)256 << 20;
    if (o.memory_bytes < (size_t)1 << 20)
        return WEIR_E_RANGE;
    weir_store *s = port_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_E_NOMEM;
    s->memory_max = o.memory_bytes;
    weir_status st = set_secret(s, o.secret);
    for (size_t i = 0; i < SHARDS && st == WEIR_OK; i++)
        st = shard_open(&s->shards[i]);
    if (st != WEIR_OK) {
        weir_store_close(s);
        return st;
    }
    port_add_relaxed(&s->memory, (uint64_t)SHARDS * BUCKETS_MIN * sizeof(entry *));
    *ret = s;
    return WEIR_OK;
}

void weir_store_close(weir_store *s) /* accepts NULL and half-opened stores */
{
    for (size_t i = 0; s && i < SHARDS; i++) {
        shard *sh = &s->shards[i];
        for (size_t b = 0; sh->buckets && b < sh->buckets_len; b++) {
            while (sh->buckets[b])
                unlink_entry(s, sh, &sh->buckets[b]);
        }
        port_free(sh->buckets);
        port_mutex_free(sh->lock);
    }
    port_free(s);
}

/* ---- deciding -------------------------------------------------------------------------------- */

uint64_t weir_store_policy_id(const weir_store *s, const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_policy_print(p, text, sizeof text);
    return weir_siphash(s->secret, text, len);
}

static bool good_key(const void *key, size_t len)
{
    return key && len >= 1 && len <= WEIR_KEY_MAX;
}

/* Keyed by the policy's id as well, which is itself a secret function of the policy. */
static uint64_t key_hash(const weir_store *s, uint64_t policy_id, const void *key, size_t len)
{
    weir_secret secret = {s->secret.k0 ^ policy_id, s->secret.k1};
    return weir_siphash(secret, key, len);
}

/* Locks the shard of `hash` and moves its time on. */
static shard *enter(weir_store *s, uint64_t hash, int64_t *now_ns)
{
    shard *sh = &s->shards[hash & (SHARDS - 1)];
    port_mutex_lock(sh->lock);
    if (*now_ns < sh->now_ns)
        *now_ns = sh->now_ns;
    else if (*now_ns <= WEIR_NOW_NS_MAX)
        sh->now_ns = *now_ns;
    return sh;
}

typedef weir_status (*state_fn)(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns);

/* Replaces *e by an entry of the next level that holds the same. */
static weir_status grow(weir_store *s, shard *sh, const weir_policy *p, entry **e, bool linked)
{
    entry *old = *e;
    entry *wider = entry_new(s, weir_state_words(p, old->level + 1), old->level + 1);
    if (!wider || (linked && !count_entry(s, sh, wider, old))) {
        port_free(wider);
        return WEIR_E_NOMEM;
    }
    weir_state_grow(p, old->state, old->level, wider->state);
    wider->hash = old->hash;
    wider->next = old->next;
    wider->fresh_at_ns = old->fresh_at_ns;
    if (linked) {
        *find(sh, old->hash) = wider; /* found anew: an eviction may have changed the chain */
        port_sub_relaxed(&s->memory, entry_bytes(old));
    }
    port_free(old);
    *e = wider;
    return WEIR_OK;
}

/* Keeps a new entry if it is worth keeping: nothing is evicted for a denial or a peek. */
static weir_status keep_or_free(weir_store *s, shard *sh, entry *e, weir_status st)
{
    bool keep = st == WEIR_OK && e->fresh_at_ns > sh->now_ns;
    if (keep && !count_entry(s, sh, e, NULL)) {
        keep = false;
        st = WEIR_E_NOMEM;
    }
    if (keep)
        link_entry(s, sh, e);
    else
        port_free(e);
    return st;
}

/* Runs fn on the state of `hash`, and keeps the state for as long as it is not fresh. */
static weir_status with_state(weir_store *s, shard *sh, const weir_policy *p, uint64_t hash,
                              int64_t now_ns, state_fn fn, void *ctx)
{
    entry *e = *find(sh, hash);
    bool linked = e != NULL;
    if (!linked) {
        e = entry_new(s, weir_state_words(p, 0), 0);
        if (!e)
            return WEIR_E_NOMEM;
        e->hash = hash;
    }
    weir_status st;
    while ((st = fn(ctx, p, e->state, e->level, now_ns)) == WEIR_E_ROOM) {
        st = grow(s, sh, p, &e, linked);
        if (st != WEIR_OK)
            break;
    }
    int64_t fresh_after_ns = weir_fresh_after(p, e->state, e->level, now_ns);
    e->fresh_at_ns = fresh_after_ns < INT64_MAX - now_ns ? now_ns + fresh_after_ns : INT64_MAX;
    return linked ? st : keep_or_free(s, sh, e, st);
}

static weir_status run(weir_store *s, const weir_policy *p, uint64_t policy_id, const void *key,
                       size_t key_len, int64_t now_ns, state_fn fn, void *ctx)
{
    if (!good_key(key, key_len) || now_ns < 0 || now_ns > WEIR_NOW_NS_MAX)
        return WEIR_E_RANGE;
    uint64_t hash = key_hash(s, policy_id, key, key_len);
    shard *sh = enter(s, hash, &now_ns);
    weir_status st = with_state(s, sh, p, hash, now_ns, fn, ctx);
    port_mutex_unlock(sh->lock);
    return st;
}

typedef struct charge {
    int64_t cost;
    weir_decision *ret;
} charge;

static weir_status check_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns)
{
    charge *c = ctx;
    return weir_check(p, state, level, now_ns, c->cost, c->ret);
}

static weir_status peek_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                              int64_t now_ns)
{
    charge *c = ctx;
    return weir_peek(p, state, level, now_ns, c->cost, c->ret);
}

static weir_status refund_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns)
{
    charge *c = ctx;
    return weir_refund(p, state, level, now_ns, c->cost, c->ret);
}

weir_status weir_store_check(weir_store *s, const weir_policy *p, uint64_t policy_id,
                             const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                             weir_decision *ret)
{
    charge c = {cost, ret};
    return run(s, p, policy_id, key, key_len, now_ns, check_state, &c);
}

void weir_store_check_batch(weir_store *s, weir_store_request *requests, size_t n, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++) {
        weir_store_request *r = &requests[i];
        r->status = weir_store_check(s, r->policy, r->policy_id, r->key, r->key_len, now_ns,
                                     r->cost, &r->decision);
    }
}

weir_status weir_store_peek(weir_store *s, const weir_policy *p, uint64_t policy_id,
                            const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                            weir_decision *ret)
{
    charge c = {cost, ret};
    return run(s, p, policy_id, key, key_len, now_ns, peek_state, &c);
}

weir_status weir_store_refund(weir_store *s, const weir_policy *p, uint64_t policy_id,
                              const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                              weir_decision *ret)
{
    charge c = {cost, ret};
    return run(s, p, policy_id, key, key_len, now_ns, refund_state, &c);
}

typedef struct apply {
    weir_store_fn fn;
    void *ctx;
} apply;

static weir_status apply_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns)
{
    (void)p;
    (void)level;
    apply *a = ctx;
    return a->fn(a->ctx, state, now_ns);
}

weir_status weir_store_apply(weir_store *s, const weir_policy *p, uint64_t policy_id,
                             const void *key, size_t key_len, int64_t now_ns, weir_store_fn fn,
                             void *ctx)
{
    apply a = {fn, ctx};
    return run(s, p, policy_id, key, key_len, now_ns, apply_state, &a);
}

weir_status weir_store_reset(weir_store *s, uint64_t policy_id, const void *key, size_t key_len)
{
    if (!good_key(key, key_len))
        return WEIR_E_RANGE;
    uint64_t hash = key_hash(s, policy_id, key, key_len);
    int64_t now_ns = 0;
    shard *sh = enter(s, hash, &now_ns);
    entry **link = find(sh, hash);
    if (*link)
        unlink_entry(s, sh, link);
    port_mutex_unlock(sh->lock);
    return WEIR_OK;
}

weir_store_stats weir_store_stats_get(weir_store *s)
{
    weir_store_stats stats = {0, port_load_relaxed(&s->memory), 0};
    for (size_t i = 0; i < SHARDS; i++) {
        shard *sh = &s->shards[i];
        port_mutex_lock(sh->lock);
        stats.keys += sh->keys;
        stats.evicted += sh->evicted;
        port_mutex_unlock(sh->lock);
    }
    return stats;
}
