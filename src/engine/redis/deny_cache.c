/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The deny cache is a hash table of buckets with eight entries each. A part of the key's hash
 * selects the bucket; all 128 bits are compared. */

#include "engine/redis/deny_cache.h"

#include "core/algorithm.h"
#include "port/assert.h"
#include "port/port.h"
#include "store/siphash.h"

#include <string.h>

enum {
    WAYS = 8,
    PLAIN_MAX = 256,     /* a longer name, text or key is hashed on its own first */
    SWEPT_AT_ONCE = 4096 /* buckets: 2 MiB */
};

static const int64_t ns_per_us = 1000, ns_per_s = 1000000000;
static const int64_t held_ns_max = 1000000000; /* docs/redis.md says so */

#define NEXT_US_MAX ((UINT64_C(1) << 56) - 1) /* more than any time of a decision */

/* A cost of 0 marks a free entry. */
typedef struct entry {
    weir_deny_key key;
    int64_t until_ns; /* when the entry expires */
    int64_t retry_ns; /* when to retry: never earlier than the server allows */
    int64_t reset_ns; /* when the quota is full: never earlier than at the server */
    uint32_t cost;
    uint32_t limit;
    uint32_t remaining;
    uint32_t epoch;
    uint64_t layer : 8;
    uint64_t next_us : 56; /* when a cost of 1 is allowed; 0: not known */
} entry;

_Static_assert(sizeof(entry) == 64, "an entry is one cache line; docs/internals/engine.md says so");

struct weir_deny_cache {
    weir_secret secret[2];
    entry *entries;
    size_t buckets;
    size_t next_swept; /* bucket */
    size_t keys;
};

weir_status weir_deny_cache_open(weir_deny_cache **ret, size_t bytes, const uint64_t secret[4])
{
    weir_deny_cache *d = port_zalloc(1, sizeof *d);
    if (!d)
        return WEIR_E_NOMEM;
    if (bytes < 4096)
        bytes = 4096;
    d->secret[0] = (weir_secret){secret[0], secret[1]};
    d->secret[1] = (weir_secret){secret[2], secret[3]};
    d->buckets = bytes / (WAYS * sizeof(entry));
    d->entries = port_zalloc(d->buckets * WAYS, sizeof(entry));
    if (!d->entries) {
        port_free(d);
        return WEIR_E_NOMEM;
    }
    *ret = d;
    return WEIR_OK;
}

void weir_deny_cache_close(weir_deny_cache *d)
{
    if (!d)
        return;
    WEIR_ASSERT(weir_deny_cache_sound(d));
    port_free(d->entries);
    port_free(d);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Appends a string so that no two sequences of strings give the same bytes: its length, then its
 * bytes, or both hashes of them if it is long. */
static uint8_t *put(const weir_deny_cache *d, uint8_t *to, weir_slice bytes)
{
    WEIR_ASSERT(bytes.at || bytes.len == 0);
    memcpy(to, &bytes.len, sizeof bytes.len);
    to += sizeof bytes.len;
    if (bytes.len > PLAIN_MAX) {
        for (int i = 0; i < 2; i++, to += 8) {
            uint64_t hash = weir_siphash(d->secret[i], bytes.at, bytes.len);
            memcpy(to, &hash, 8);
        }
        return to;
    }
    if (bytes.len > 0)
        memcpy(to, bytes.at, bytes.len);
    return to + bytes.len;
}

weir_deny_key weir_deny_key_of(const weir_deny_cache *d, const weir_engine_request *q)
{
    uint8_t buf[3 * (sizeof(size_t) + PLAIN_MAX)];
    uint8_t *end = put(d, put(d, put(d, buf, q->name), q->text), q->key);
    size_t len = (size_t)(end - buf);
    WEIR_ASSERT(len <= sizeof buf);
    return (weir_deny_key){
        {weir_siphash(d->secret[0], buf, len), weir_siphash(d->secret[1], buf, len)}};
}

bool weir_deny_cache_may_hold(const weir_engine_request *q)
{
    if (q->verb != WEIR_VERB_TAKE && q->verb != WEIR_VERB_PEEK && q->verb != WEIR_VERB_GRANT)
        return false;
    if (q->keep != 0)
        return false;
    for (uint32_t i = 0; i < q->policy->layers; i++)
        if (q->policy->layer[i].count_denied || weir_layer_holds(&q->policy->layer[i]))
            return false; /* units that are held may be given back at any time */
    return true;
}

static entry *bucket_of(const weir_deny_cache *d, weir_deny_key key)
{
    size_t at = (size_t)(((unsigned __int128)key.word[0] * d->buckets) >> 64);
    return &d->entries[at * WAYS];
}

static entry *find(const weir_deny_cache *d, weir_deny_key key)
{
    entry *bucket = bucket_of(d, key);
    for (int i = 0; i < WAYS; i++)
        if (bucket[i].cost && memcmp(&bucket[i].key, &key, sizeof key) == 0)
            return &bucket[i];
    return NULL;
}

static void drop(weir_deny_cache *d, entry *e)
{
    WEIR_ASSERT(e->cost > 0 && d->keys > 0);
    e->cost = 0;
    d->keys--;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The smallest cost that decides: a grant is denied if one unit is. */
static int64_t cost_of(const weir_engine_request *q)
{
    return q->verb == WEIR_VERB_GRANT ? 1 : q->cost;
}

/* Writes how much longer the wait is for a cost that is `more` units larger than a denied one.
 *  ret_ns  0 before.
 * Returns false if the policy alone does not determine it. */
static bool extra_wait(const weir_policy *p, int64_t more, int64_t *ret_ns)
{
    const weir_layer *l = &p->layer[0];
    WEIR_ASSERT(more >= 0 && *ret_ns == 0);
    if (more == 0)
        return true;
    if (p->layers > 1)
        return false;
    if (weir_layer_can(l, WEIR_CAN_EMPTY_AT_ONCE))
        return true;
    if (!weir_layer_can(l, WEIR_CAN_DRAIN_EVENLY))
        return false;
    WEIR_ASSERT(l->period_ns > 0 && l->rate > 0);
    unsigned __int128 ticks = (unsigned __int128)more * (uint64_t)l->period_ns;
    unsigned __int128 ns = (ticks + (uint64_t)l->rate - 1) / (uint64_t)l->rate;
    if (ns > (uint64_t)WEIR_NOW_NS_MAX)
        return false;
    *ret_ns = (int64_t)ns;
    return true;
}

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* In whole microseconds, rounded up; 0 if then_ns is past. */
static int64_t until(int64_t then_ns, int64_t now_ns)
{
    int64_t ns = then_ns > now_ns ? then_ns - now_ns : 0;
    return ns / ns_per_us * ns_per_us + (ns % ns_per_us ? ns_per_us : 0);
}

/* When the next unit comes, as weir_engine_request.next_ns. */
static int64_t next_of(const entry *e, int64_t now_ns)
{
    if (e->cost == 1)
        return until(e->retry_ns, now_ns);
    return e->next_us ? until((int64_t)e->next_us * ns_per_us, now_ns) : WEIR_NEXT_UNKNOWN;
}

/* Whether the entry lacks what a request wants beside the decision. */
static bool lacks_figures(const entry *e, const weir_engine_request *q)
{
    const weir_layer *l = &q->policy->layer[e->layer];
    bool counts = q->verb == WEIR_VERB_PEEK && !weir_layer_is_bucket(l) && !weir_layer_is_block(l);
    bool knows_next = e->cost == 1 || e->next_us || (e->remaining > 0 && q->policy->layers == 1);
    return q->with_figures && (counts || !knows_next);
}

static void answer(const entry *e, int64_t more_ns, bool never, int64_t now_ns,
                   weir_engine_request *q)
{
    WEIR_ASSERT(e->cost > 0 && more_ns >= 0);
    q->status = WEIR_OK;
    q->granted = 0;
    q->by_error = false;
    q->reason = NULL;
    q->next_ns = next_of(e, now_ns);
    q->decision = (weir_decision){
        .limit = e->limit,
        .remaining = e->remaining,
        .retry_after_ns = never ? INT64_MAX : until(plus(e->retry_ns, more_ns), now_ns),
        .reset_after_ns = until(e->reset_ns, now_ns),
        .layer = (uint32_t)e->layer,
        .never = never,
    };
}

bool weir_deny_cache_find(weir_deny_cache *d, weir_deny_key key, uint32_t epoch, int64_t now_ns,
                          weir_engine_request *q)
{
    WEIR_ASSERT(weir_deny_cache_may_hold(q));
    entry *e = find(d, key);
    if (!e)
        return false;
    if (e->epoch != epoch) {
        drop(d, e);
        return false;
    }
    int64_t cost = cost_of(q), more_ns = 0;
    if (cost < e->cost || now_ns >= e->until_ns || lacks_figures(e, q))
        return false;
    bool never = cost > e->limit && q->policy->layers == 1;
    if (!never && !extra_wait(q->policy, cost - e->cost, &more_ns))
        return false;
    answer(e, more_ns, never, now_ns, q);
    return true;
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* The entry of the key; else a free one; else the one that expires first. */
static entry *find_or_evict(weir_deny_cache *d, weir_deny_key key)
{
    entry *bucket = bucket_of(d, key), *best = find(d, key);
    if (best)
        return best;
    best = &bucket[0];
    for (int i = 1; i < WAYS && best->cost; i++)
        if (!bucket[i].cost || bucket[i].until_ns < best->until_ns)
            best = &bucket[i];
    return best;
}

/* The time in microseconds, rounded up, of a wait that began at now_ns; 0 if it never ends. */
static uint64_t next_at_us(int64_t wait_ns, int64_t now_ns)
{
    int64_t at_ns = plus(now_ns, wait_ns);
    return at_ns == INT64_MAX ? 0 : (uint64_t)(at_ns / ns_per_us + (at_ns % ns_per_us > 0));
}

void weir_deny_cache_add(weir_deny_cache *d, weir_deny_key key, uint32_t epoch, int64_t sent_ns,
                         int64_t now_ns, const weir_engine_request *q)
{
    WEIR_ASSERT(weir_deny_cache_may_hold(q));
    const weir_decision *a = &q->decision;
    int64_t cost = cost_of(q);
    if (q->status != WEIR_OK || a->allowed || a->never || cost < 1 || cost > WEIR_COST_MAX ||
        a->retry_after_ns <= 0 || a->limit < 1 || a->limit > WEIR_LIMIT_MAX || a->remaining < 0 ||
        a->remaining > WEIR_LIMIT_MAX)
        return;
    /* If another layer waits longer than the block, a later denial begins another block. */
    if (weir_policy_blocks(q->policy) && a->layer + 1 != q->policy->layers)
        return;
    uint64_t next_us = q->with_figures && q->next_ns >= 0 ? next_at_us(q->next_ns, now_ns) : 0;
    entry *e = find_or_evict(d, key);
    bool known = e->cost && memcmp(&e->key, &key, sizeof key) == 0 && e->epoch == epoch;
    /* The denial of a smaller cost answers more requests: keep it until it expires. */
    if (known && e->cost < cost && now_ns < e->until_ns) {
        if (!e->next_us)
            e->next_us = next_us & NEXT_US_MAX;
        return;
    }
    d->keys += !e->cost;
    /* Two clocks that NTP slews by 500 ppm each diverge by less than 1/512. The server rounds the
     * wait up to whole microseconds, by less than one. */
    int64_t held_ns = a->retry_after_ns - a->retry_after_ns / 512 - ns_per_us;
    *e = (entry){
        .key = key,
        .until_ns = plus(sent_ns, held_ns < held_ns_max ? held_ns : held_ns_max),
        .retry_ns = plus(now_ns, a->retry_after_ns),
        .reset_ns = plus(now_ns, a->reset_after_ns),
        .cost = (uint32_t)cost,
        .limit = (uint32_t)a->limit,
        .remaining = (uint32_t)a->remaining,
        .epoch = epoch,
        .layer = (uint8_t)a->layer,
        .next_us = next_us & NEXT_US_MAX,
    };
}

void weir_deny_cache_sweep(weir_deny_cache *d, int64_t now_ns)
{
    WEIR_ASSERT(d->next_swept < d->buckets);
    size_t buckets = d->buckets < SWEPT_AT_ONCE ? d->buckets : SWEPT_AT_ONCE;
    for (size_t n = 0; n < buckets && d->keys > 0; n++) {
        entry *bucket = &d->entries[d->next_swept * WAYS];
        for (int i = 0; i < WAYS; i++)
            if (bucket[i].cost && now_ns - bucket[i].until_ns >= ns_per_s)
                drop(d, &bucket[i]);
        d->next_swept = d->next_swept + 1 < d->buckets ? d->next_swept + 1 : 0;
    }
}

size_t weir_deny_cache_keys(const weir_deny_cache *d)
{
    return d->keys;
}

bool weir_deny_cache_sound(const weir_deny_cache *d)
{
    size_t keys = 0;
    for (size_t i = 0; i < d->buckets * WAYS; i++)
        keys += find(d, d->entries[i].key) == &d->entries[i]; /* false for a free entry */
    return keys == d->keys;
}
