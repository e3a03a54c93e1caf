/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of denials: buckets of eight entries, found by a part of the hash, told apart by all of
 * it. */

#include "engine/redis/deny.h"

#include "core/algorithm.h"
#include "port/port.h"
#include "store/siphash.h"

#include <string.h>

enum {
    WAYS = 8,
    PLAIN_MAX = 256,     /* bytes of a name, text or key that are hashed with the others */
    SWEPT_AT_ONCE = 512, /* buckets */
    SLOW = 4             /* times the way there and back, at least, that one waits for another's */
};

static const int64_t ns_per_us = 1000, ns_per_s = 1000000000;

/* Free if cost is 0. */
typedef struct entry {
    weir_deny_id id;
    int64_t until_ns; /* answered here before */
    int64_t retry_ns; /* the figures, as times: never earlier than the server's */
    int64_t reset_ns;
    int64_t claimed_ns; /* once it has ended: until when somebody asks */
    uint32_t cost;
    uint32_t limit;
    uint32_t remaining;
    uint32_t epoch;
    uint32_t left; /* once it has ended: what may still go */
    uint8_t layer;
    bool slow; /* the wait is many times the way to the server */
} entry;

struct weir_deny {
    weir_secret secret[2];
    entry *entries;
    size_t buckets;
    size_t hand; /* the bucket that is swept next */
    size_t keys;
};

weir_status weir_deny_open(weir_deny **ret, size_t bytes, const uint64_t secret[4])
{
    weir_deny *d = port_zalloc(1, sizeof *d);
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

void weir_deny_close(weir_deny *d)
{
    if (!d)
        return;
    port_free(d->entries);
    port_free(d);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Adds one of several byte strings in a way that no other strings are added alike: its length, then
 * itself, or, if it is long, both of its hashes. */
static uint8_t *put(const weir_deny *d, uint8_t *to, weir_slice bytes)
{
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

weir_deny_id weir_deny_id_of(const weir_deny *d, const weir_engine_request *q)
{
    uint8_t buf[3 * (sizeof(size_t) + PLAIN_MAX)];
    uint8_t *end = put(d, put(d, put(d, buf, q->name), q->text), q->key);
    size_t len = (size_t)(end - buf);
    return (weir_deny_id){
        {weir_siphash(d->secret[0], buf, len), weir_siphash(d->secret[1], buf, len)}};
}

bool weir_deny_holds(const weir_engine_request *q)
{
    if (q->verb != WEIR_VERB_TAKE && q->verb != WEIR_VERB_PEEK && q->verb != WEIR_VERB_GRANT)
        return false;
    for (uint32_t i = 0; i < q->policy->layers; i++)
        if (q->policy->layer[i].count_denied)
            return false;
    return true;
}

static entry *bucket_of(const weir_deny *d, weir_deny_id id)
{
    size_t at = (size_t)(((unsigned __int128)id.word[0] * d->buckets) >> 64);
    return &d->entries[at * WAYS];
}

static entry *find(const weir_deny *d, weir_deny_id id)
{
    entry *bucket = bucket_of(d, id);
    for (int i = 0; i < WAYS; i++)
        if (bucket[i].cost && memcmp(&bucket[i].id, &id, sizeof id) == 0)
            return &bucket[i];
    return NULL;
}

static void drop(weir_deny *d, entry *e)
{
    e->cost = 0;
    d->keys--;
}

/* ---- what is known --------------------------------------------------------------------------- */

/* A grant is denied if one unit is. */
static int64_t cost_of(const weir_engine_request *q)
{
    return q->verb == WEIR_VERB_GRANT ? 1 : q->cost;
}

/* How much longer a cost waits that is `more` units larger than one that is denied.
 * Returns false if that does not follow from the policy alone. */
static bool longer(const weir_policy *p, int64_t more, int64_t *ret_ns)
{
    const weir_layer *l = &p->layer[0];
    *ret_ns = 0;
    if (more == 0)
        return true;
    if (p->layers > 1)
        return false;
    if (weir_layer_can(l, WEIR_CAN_EMPTY_AT_ONCE))
        return true;
    if (!weir_layer_can(l, WEIR_CAN_DRAIN_EVENLY))
        return false;
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

/* From now until then, in whole microseconds, rounded up. */
static int64_t until(int64_t then_ns, int64_t now_ns)
{
    int64_t ns = then_ns > now_ns ? then_ns - now_ns : 0;
    return ns / ns_per_us * ns_per_us + (ns % ns_per_us ? ns_per_us : 0);
}

static void answer(const entry *e, int64_t more_ns, bool never, int64_t now_ns,
                   weir_engine_request *q)
{
    q->status = WEIR_OK;
    q->granted = 0;
    q->by_error = false;
    q->reason = NULL;
    q->decision = (weir_decision){
        .limit = e->limit,
        .remaining = e->remaining,
        .retry_after_ns = never ? INT64_MAX : until(plus(e->retry_ns, more_ns), now_ns),
        .reset_after_ns = until(e->reset_ns, now_ns),
        .layer = e->layer,
        .never = never,
    };
}

/* A denial has ended. Where units come faster than a server can be asked, waiting for one that asks
 * would let through fewer than the policy does. */
static weir_deny_known ended(entry *e, const weir_engine_request *q, int64_t cost, int64_t now_ns)
{
    if (!e->slow)
        return WEIR_DENY_NOTHING;
    if (cost > e->left)
        return now_ns < e->claimed_ns ? WEIR_DENY_CLAIMED : WEIR_DENY_ENDED;
    if (q->verb != WEIR_VERB_PEEK)
        e->left -= (uint32_t)cost;
    return WEIR_DENY_NOTHING;
}

weir_deny_known weir_deny_look(weir_deny *d, weir_deny_id id, uint32_t epoch, int64_t now_ns,
                               weir_engine_request *q)
{
    entry *e = find(d, id);
    if (!e)
        return WEIR_DENY_NOTHING;
    if (e->epoch != epoch) {
        drop(d, e);
        return WEIR_DENY_NOTHING;
    }
    int64_t cost = cost_of(q), more_ns = 0;
    if (cost < e->cost)
        return WEIR_DENY_NOTHING;
    if (now_ns >= e->until_ns)
        return ended(e, q, cost, now_ns);
    bool never = cost > e->limit && q->policy->layers == 1;
    if (!never && !longer(q->policy, cost - e->cost, &more_ns))
        return WEIR_DENY_NOTHING;
    answer(e, more_ns, never, now_ns, q);
    return WEIR_DENY_DENIED;
}

/* ---- learning -------------------------------------------------------------------------------- */

/* That of the id, or a free one, or that which ends soonest. */
static entry *place(weir_deny *d, weir_deny_id id)
{
    entry *bucket = bucket_of(d, id), *best = find(d, id);
    if (best)
        return best;
    best = &bucket[0];
    for (int i = 1; i < WAYS && best->cost; i++)
        if (!bucket[i].cost || bucket[i].until_ns < best->until_ns)
            best = &bucket[i];
    return best;
}

void weir_deny_learn(weir_deny *d, weir_deny_id id, uint32_t epoch, int64_t sent_ns, int64_t now_ns,
                     const weir_engine_request *q)
{
    const weir_decision *a = &q->decision;
    int64_t cost = cost_of(q);
    if (q->status != WEIR_OK || a->allowed || a->never || cost < 1 || cost > WEIR_COST_MAX ||
        a->retry_after_ns <= 0 || a->limit < 0 || a->limit > WEIR_LIMIT_MAX || a->remaining < 0 ||
        a->remaining > WEIR_LIMIT_MAX)
        return;
    entry *e = place(d, id);
    bool known = e->cost && memcmp(&e->id, &id, sizeof id) == 0 && e->epoch == epoch;
    /* Of two costs the smaller says more, while it holds. */
    if (known && e->cost < cost && now_ns < e->until_ns)
        return;
    /* What is left of a long wait may be short. */
    bool slow =
        a->retry_after_ns / SLOW >= now_ns - sent_ns || (known && e->cost == cost && e->slow);
    d->keys += !e->cost;
    /* Two clocks that are led back by 500 millionths each part by less than 1/512; what was rounded
     * up to whole microseconds is one too many. */
    int64_t slack_ns = a->retry_after_ns / 512 + ns_per_us;
    *e = (entry){
        .id = id,
        .until_ns = plus(sent_ns, a->retry_after_ns - slack_ns),
        .retry_ns = plus(now_ns, a->retry_after_ns),
        .reset_ns = plus(now_ns, a->reset_after_ns),
        .claimed_ns = INT64_MIN,
        .cost = (uint32_t)cost,
        .limit = (uint32_t)a->limit,
        .remaining = (uint32_t)a->remaining,
        .epoch = epoch,
        .layer = (uint8_t)a->layer,
        .slow = slow,
    };
}

void weir_deny_left(weir_deny *d, weir_deny_id id, int64_t left)
{
    entry *e = find(d, id);
    if (e)
        e->left = left < 0 ? 0 : left > WEIR_LIMIT_MAX ? WEIR_LIMIT_MAX : (uint32_t)left;
}

void weir_deny_claim(weir_deny *d, weir_deny_id id, int64_t until_ns)
{
    entry *e = find(d, id);
    if (e)
        e->claimed_ns = until_ns;
}

void weir_deny_copy(weir_deny *to, const weir_deny *from, weir_deny_id id)
{
    const entry *e = find(from, id);
    if (!e)
        return;
    entry *at = place(to, id);
    to->keys += !at->cost;
    *at = *e;
}

void weir_deny_sweep(weir_deny *d, int64_t now_ns)
{
    size_t buckets = d->buckets < SWEPT_AT_ONCE ? d->buckets : SWEPT_AT_ONCE;
    for (size_t n = 0; n < buckets && d->keys > 0; n++) {
        entry *bucket = &d->entries[d->hand * WAYS];
        for (int i = 0; i < WAYS; i++)
            if (bucket[i].cost && now_ns - bucket[i].until_ns >= ns_per_s)
                drop(d, &bucket[i]);
        d->hand = d->hand + 1 < d->buckets ? d->hand + 1 : 0;
    }
}

size_t weir_deny_keys(const weir_deny *d)
{
    return d->keys;
}
