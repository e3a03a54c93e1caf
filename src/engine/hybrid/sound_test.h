/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_HYBRID_SOUND_TEST_H
#define WEIR_ENGINE_HYBRID_SOUND_TEST_H
/* For tests: whether the structures of the hybrid engine agree between two calls of the engine.
 * Reads the whole table. */

#include "engine/hybrid/hybrid.h"

/* Whether the balance and the floor of a lease are within the bound of docs/hybrid.md. */
static inline bool is_sound_lease(const weir_lease *s, const weir_lease_plan *p)
{
    if (s->floor > 0 || s->floor < -p->cap || s->debt < 0)
        return false;
    return p->kind == WEIR_LEASE_PREPAID ? s->balance >= 0 && s->balance <= p->cap
                                         : s->balance <= 0 && s->balance >= -p->cap;
}

/* Whether the slot is in the row of its hash, and its tag is that of its hash. */
static inline bool is_in_its_row(const weir_lease_table *t, size_t i)
{
    uint64_t hash = t->slot[i].hash;
    return t->tag[i] == ((uint32_t)(hash >> 32) | 1) && ((hash ^ i) & t->mask) < 8;
}

static inline bool is_sound_slot(const weir_lease_table *t, size_t i)
{
    const weir_lease_slot *s = &t->slot[i];
    if (s->hash == 0)
        return t->tag[i] == 0 && !s->policy;
    if (!s->policy)
        return is_in_its_row(t, i) && !s->waits && s->probes == 0;
    return is_in_its_row(t, i) && s->key_len > 0 && s->key_len <= WEIR_LEASE_KEY_MAX &&
           (s->before ? s->before->after == s : t->first == s) &&
           (s->after ? s->after->before == s : t->last == s) &&
           is_sound_lease(&s->lease, &s->policy->plan);
}

static inline bool is_sound_table(const weir_lease_table *t)
{
    size_t leases = 0, listed = 0, policies = 0, refs = 0;
    bool sound = true;
    for (size_t i = 0; i <= t->mask; i++) {
        sound = sound && is_sound_slot(t, i);
        leases += t->slot[i].policy != NULL;
    }
    for (const weir_lease_slot *s = t->first; s && listed <= leases; s = s->after)
        listed++;
    for (size_t i = 0; i < WEIR_LEASE_CHAINS; i++)
        for (const weir_lease_policy *p = t->chain[i]; p; p = p->next) {
            policies++;
            refs += p->refs;
        }
    return sound && leases == t->leases && listed == leases && policies == t->policies &&
           refs == leases;
}

static inline bool is_sound_hybrid(const hybrid *h)
{
    size_t syncing = 0, in_flight = 0;
    bool sound = is_sound_table(&h->table);
    for (const weir_lease_slot *s = h->table.first; s; s = s->after) {
        syncing += s->lease.syncing;
        sound = sound && s->probes <= INT32_MAX; /* not below 0 */
        sound = sound && (!s->waits || s->probes > 0 || s->lease.syncing);
        for (const wait *w = s->waits; w; w = w->next)
            sound = sound && w->slot == s && w->forward->left > 0;
    }
    for (const sync_request *j = h->syncs; j; j = j->next) {
        in_flight++;
        sound = sound && j->slot->lease.syncing && (!j->next || j->next->before == j);
    }
    for (const forward *f = h->done; f; f = f->next)
        sound = sound && f->left == 0 && !f->subs;
    return sound && syncing == in_flight;
}

#endif
