/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table is set-associative: a key is in one of the eight slots of its row. Their tags share a
 * cache line. */

#include "engine/hybrid/lease_table.h"

#include "port/assert.h"
#include "port/port.h"

#include <string.h>

enum { WAYS = 8, BUSY = 2 };

weir_status weir_lease_table_open(weir_lease_table *t, size_t memory_bytes, int64_t interval_ns,
                                  int64_t idle_ns, int64_t count)
{
    size_t n = WAYS;
    weir_secret secret;
    while (2 * n * (sizeof *t->slot + sizeof *t->tag) <= memory_bytes)
        n *= 2;
    *t = (weir_lease_table){
        .mask = n - 1, .interval_ns = interval_ns, .idle_ns = idle_ns, .count = count};
    if (port_random(&secret, sizeof secret) != WEIR_OK)
        return WEIR_E_IO;
    weir_hash_init(&t->hash, secret);
    t->slot = port_map(n * sizeof *t->slot);
    t->tag = port_map(n * sizeof *t->tag);
    return t->slot && t->tag ? WEIR_OK : WEIR_E_NOMEM;
}

void weir_lease_table_close(weir_lease_table *t)
{
    for (size_t i = 0; i < WEIR_LEASE_CHAINS; i++)
        for (weir_lease_policy *p = t->chain[i], *next; p; p = next) {
            next = p->next;
            port_free(p);
        }
    port_unmap(t->slot, (t->mask + 1) * sizeof *t->slot);
    port_unmap(t->tag, (t->mask + 1) * sizeof *t->tag);
}

/* ---- policies -------------------------------------------------------------------------------- */

static bool same_bytes(weir_slice a, weir_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static bool same_policy(const weir_lease_policy *p, const weir_engine_request *q)
{
    return p->id == q->policy_id && same_bytes(p->name, q->name);
}

static weir_lease_policy *new_policy(const weir_lease_table *t, const weir_engine_request *q)
{
    weir_lease_policy *p = port_zalloc(1, sizeof *p + q->text.len + q->name.len);
    if (!p)
        return NULL;
    p->id = q->policy_id;
    p->token = weir_redis_resets_token(t->resets, q);
    p->policy = *q->policy;
    p->plan = weir_lease_plan_of(q->policy, t->count, t->interval_ns, t->idle_ns);
    memcpy(p->bytes, q->text.at, q->text.len);
    if (q->name.len > 0)
        memcpy(p->bytes + q->text.len, q->name.at, q->name.len);
    p->text = (weir_slice){p->bytes, q->text.len};
    p->name = (weir_slice){p->bytes + q->text.len, q->name.len};
    return p;
}

/* Adds a reference. NULL: no memory, or too many policies. */
static weir_lease_policy *hold_policy(weir_lease_table *t, const weir_engine_request *q)
{
    weir_lease_policy **chain = &t->chain[q->policy_id % WEIR_LEASE_CHAINS];
    for (weir_lease_policy *p = *chain; p; p = p->next)
        if (same_policy(p, q)) {
            p->refs++;
            return p;
        }
    if (t->policies == WEIR_LEASE_POLICIES_MAX)
        return NULL;
    weir_lease_policy *p = new_policy(t, q);
    if (!p)
        return NULL;
    p->refs = 1;
    p->next = *chain;
    *chain = p;
    t->policies++;
    return p;
}

static void drop_policy(weir_lease_table *t, weir_lease_policy *p)
{
    WEIR_ASSERT(p->refs > 0 && t->policies > 0);
    if (--p->refs > 0)
        return;
    weir_lease_policy **at = &t->chain[p->id % WEIR_LEASE_CHAINS];
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    t->policies--;
    port_free(p);
}

/* ---- slots ----------------------------------------------------------------------------------- */

uint64_t weir_lease_table_hash(const weir_lease_table *t, const weir_engine_request *q)
{
    uint64_t h = weir_hash(&t->hash, q->policy_id, q->key.at, q->key.len);
    h = h >> 6 | h << 58; /* the low 6 bits, the class of the policy, choose no row */
    return h ? h : 1;
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32) | 1;
}

static size_t row_of(const weir_lease_table *t, uint64_t hash)
{
    return (size_t)hash & t->mask & ~(size_t)(WAYS - 1);
}

static bool is_lease_of(const weir_lease_slot *s, const weir_engine_request *q, uint64_t hash)
{
    return s->hash == hash && s->policy && s->key_len == q->key.len && same_policy(s->policy, q) &&
           memcmp(s->key, q->key.at, q->key.len) == 0;
}

weir_lease_slot *weir_lease_table_find(weir_lease_table *t, const weir_engine_request *q,
                                       uint64_t hash)
{
    WEIR_ASSERT(hash != 0);
    uint32_t tag = tag_of(hash);
    size_t row = row_of(t, hash);
    for (size_t i = row; i < row + WAYS; i++)
        if (t->tag[i] == tag && is_lease_of(&t->slot[i], q, hash))
            return &t->slot[i];
    return NULL;
}

/* A slot that only counts has no key: keys with the same hash are counted together. */
static weir_lease_slot *find_counted(weir_lease_table *t, uint64_t hash)
{
    size_t row = row_of(t, hash);
    for (size_t i = row; i < row + WAYS; i++)
        if (t->slot[i].hash == hash && !t->slot[i].policy)
            return &t->slot[i];
    return NULL;
}

/* A slot for a new key: a free one, or the oldest of those that only count. NULL: all slots of the
 * row have leases. */
static weir_lease_slot *claim(weir_lease_table *t, uint64_t hash, int64_t now_ns)
{
    weir_lease_slot *best = NULL;
    size_t row = row_of(t, hash);
    for (size_t i = row; i < row + WAYS; i++) {
        weir_lease_slot *s = &t->slot[i];
        if (s->policy)
            continue;
        if (s->hash == 0) {
            best = s;
            break;
        }
        if (!best || s->since_ns < best->since_ns)
            best = s;
    }
    if (!best)
        return NULL;
    best->hash = hash;
    best->since_ns = now_ns;
    best->requests = 0;
    t->tag[best - t->slot] = tag_of(hash);
    return best;
}

static weir_lease_slot *promote(weir_lease_table *t, weir_lease_slot *s,
                                const weir_engine_request *q, int64_t now_ns)
{
    weir_lease_policy *p = NULL;
    WEIR_ASSERT(!s->policy && !s->waits && s->probes == 0);
    if (weir_lease_plan_of(q->policy, t->count, t->interval_ns, t->idle_ns).kind != WEIR_LEASE_NONE)
        p = hold_policy(t, q);
    if (!p)
        return NULL;
    s->policy = p;
    s->lease = (weir_lease){.used_at_ns = now_ns};
    s->key_len = (uint32_t)q->key.len;
    s->forward_until_ns = 0;
    s->uses++;
    memcpy(s->key, q->key.at, q->key.len);
    t->leases++;
    weir_lease_table_reschedule(t, s, now_ns);
    return s;
}

weir_lease_slot *weir_lease_table_count(weir_lease_table *t, const weir_engine_request *q,
                                        uint64_t hash, int64_t now_ns)
{
    WEIR_ASSERT(q->key.len > 0 && q->key.len <= WEIR_LEASE_KEY_MAX);
    weir_lease_slot *s = find_counted(t, hash);
    if (!s)
        s = claim(t, hash, now_ns);
    if (!s)
        return NULL;
    if (now_ns - s->since_ns >= t->idle_ns) {
        s->since_ns = now_ns;
        s->requests = 0;
    }
    return ++s->requests > BUSY ? promote(t, s, q, now_ns) : NULL;
}

/* ---- the list -------------------------------------------------------------------------------- */

static void unlink_slot(weir_lease_table *t, weir_lease_slot *s)
{
    if (s->before)
        s->before->after = s->after;
    else if (t->first == s)
        t->first = s->after;
    if (s->after)
        s->after->before = s->before;
    else if (t->last == s)
        t->last = s->before;
    s->before = NULL;
    s->after = NULL;
}

void weir_lease_table_reschedule(weir_lease_table *t, weir_lease_slot *s, int64_t now_ns)
{
    WEIR_ASSERT(s->policy);
    unlink_slot(t, s);
    s->check_ns = now_ns + t->interval_ns;
    s->before = t->last;
    if (t->last)
        t->last->after = s;
    else
        t->first = s;
    t->last = s;
}

static uint64_t token_of(const weir_lease_table *t, const weir_lease_policy *p)
{
    const weir_engine_request q = {.text = p->text, .name = p->name};
    return weir_redis_resets_token(t->resets, &q);
}

/* Several leases share a policy, so its token is changed after all of them were compared. */
void weir_lease_table_drop_resets(weir_lease_table *t)
{
    for (weir_lease_slot *s = t->first; s; s = s->after) {
        if (s->policy->token != token_of(t, s->policy))
            weir_lease_invalidate(&s->lease, true);
    }
    for (weir_lease_slot *s = t->first; s; s = s->after)
        s->policy->token = token_of(t, s->policy);
}

void weir_lease_table_remove(weir_lease_table *t, weir_lease_slot *s)
{
    WEIR_ASSERT(s->policy && t->leases > 0);
    WEIR_ASSERT(!s->waits && s->probes == 0 && !s->lease.syncing);
    unlink_slot(t, s);
    drop_policy(t, s->policy);
    s->policy = NULL;
    s->hash = 0;
    t->tag[s - t->slot] = 0;
    t->leases--;
}
