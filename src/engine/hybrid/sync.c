/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A sync charges to the server what a postpaid lease owes, or what a prepaid lease lacks. Prepaid
 * units that are not used are refunded. A key has at most one sync in flight. If no reply comes,
 * the sync is sent again: its units may be charged twice, but are not lost. */

#include "engine/hybrid/hybrid.h"

#include "port/assert.h"
#include "port/port.h"

/* ---- replies --------------------------------------------------------------------------------- */

static void count_overshoot(hybrid *h, int64_t units)
{
    (void)port_add_relaxed(&h->stats->overshoot, (uint64_t)units);
    if (units > h->over)
        h->over = units;
}

static void apply_reply(hybrid *h, const sync_request *j, int64_t now_ns)
{
    weir_lease_slot *s = j->slot;
    const weir_engine_request *q = &j->request;
    WEIR_ASSERT(s->policy && s->lease.syncing);
    s->lease.syncing = false;
    if (q->status != WEIR_OK || q->by_error) {
        s->lease.low = INT64_MIN; /* no sync before the next interval */
        s->forward_until_ns = now_ns + (q->status == WEIR_E_IO ? h->interval_ns : h->idle_ns);
    } else if (q->verb == WEIR_VERB_GRANT) {
        const weir_lease_plan *plan = &s->policy->plan;
        count_overshoot(h, weir_lease_granted(&s->lease, plan, j->epoch, q->cost, q->granted));
        if (j->version == s->lease.version)
            weir_lease_update(&s->lease, plan, &q->decision, 1, j->sent_ns, now_ns);
    }
    forward_release(h, s, now_ns);
}

static void unlink_request(sync_request *j)
{
    if (j->before)
        j->before->next = j->next;
    else
        j->engine->syncs = j->next;
    if (j->next)
        j->next->before = j->before;
}

static void on_done(weir_engine_batch *r, int64_t now_ns)
{
    sync_request *j = (sync_request *)(void *)((char *)r - offsetof(sync_request, batch));
    hybrid *h = j->engine;
    unlink_request(j);
    h->inside++;
    apply_reply(h, j, now_ns);
    h->inside--;
    port_free(j);
    hybrid_deliver(h, now_ns);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* False: no memory. */
static bool send(hybrid *h, weir_lease_slot *s, weir_verb verb, int64_t n, int64_t now_ns)
{
    WEIR_ASSERT(n > 0 && !s->lease.syncing);
    sync_request *j = port_zalloc(1, sizeof *j);
    if (!j)
        return false;
    const weir_lease_policy *p = s->policy;
    *j = (sync_request){.engine = h, .slot = s, .sent_ns = now_ns};
    j->epoch = s->lease.epoch;
    j->version = s->lease.version;
    j->request = (weir_engine_request){.verb = verb,
                                       .policy = &p->policy,
                                       .text = p->text,
                                       .name = p->name,
                                       .key = {s->key, s->key_len},
                                       .policy_id = p->id,
                                       .cost = n < WEIR_COST_MAX ? n : WEIR_COST_MAX,
                                       .on_error = WEIR_ON_ERROR_REPORT};
    j->batch = (weir_engine_batch){.request = &j->request, .len = 1, .done = on_done};
    j->next = h->syncs;
    if (j->next)
        j->next->before = j;
    h->syncs = j;
    s->lease.syncing = true;
    (void)port_add_relaxed(&h->stats->syncs, 1);
    if (h->upstream->calls->submit(h->upstream, &j->batch, now_ns)) {
        h->inside++;
        on_done(&j->batch, now_ns);
        h->inside--;
    }
    return true;
}

void sync(hybrid *h, weir_lease_slot *s, int64_t now_ns)
{
    if (s->lease.syncing)
        return;
    weir_lease_roll_window(&s->lease, now_ns);
    int64_t n = weir_lease_wanted(&s->lease, &s->policy->plan);
    if (n > 0 && !send(h, s, WEIR_VERB_GRANT, n, now_ns))
        s->lease.low = INT64_MIN; /* no sync before the next interval */
}

static void give_back(hybrid *h, weir_lease_slot *s, int64_t n, int64_t now_ns)
{
    if (n > 0 && send(h, s, WEIR_VERB_REFUND, n, now_ns))
        (void)port_add_relaxed(&h->stats->given_back, (uint64_t)n);
}

/* ---- intervals ------------------------------------------------------------------------------- */

static void end_interval(hybrid *h, weir_lease_slot *s, int64_t now_ns)
{
    const weir_lease_plan *plan = &s->policy->plan;
    int64_t back = weir_lease_end_interval(&s->lease, plan, now_ns);
    if (plan->kind == WEIR_LEASE_POSTPAID)
        sync(h, s, now_ns);
    else
        give_back(h, s, back, now_ns);
    if (!s->waits && s->probes == 0 && now_ns - s->seen_ns >= h->idle_ns &&
        weir_lease_is_idle(&s->lease, plan, now_ns))
        weir_lease_table_remove(&h->table, s);
    else
        weir_lease_table_reschedule(&h->table, s, now_ns);
}

void sync_due(hybrid *h, int64_t now_ns)
{
    h->inside++;
    while (h->table.first && h->table.first->check_ns <= now_ns)
        end_interval(h, h->table.first, now_ns);
    h->inside--;
}

void sync_stats(hybrid *h, int64_t now_ns)
{
    weir_hybrid_stats *to = h->stats;
    (void)port_add_relaxed(&to->requests, h->requests);
    (void)port_add_relaxed(&to->local, h->local);
    (void)port_add_relaxed(&to->keys, h->table.leases - h->keys);
    h->requests = 0;
    h->local = 0;
    h->keys = h->table.leases;
    if (now_ns - h->over_at_ns < h->interval_ns)
        return;
    (void)port_add_relaxed(&to->overshoot_last, (uint64_t)(h->over - h->over_reported));
    h->over_reported = h->over;
    h->over = 0;
    h->over_at_ns = now_ns;
}

void sync_all(hybrid *h, int64_t now_ns)
{
    while (h->syncs) {
        sync_request *j = h->syncs;
        h->upstream->calls->abandon(h->upstream, &j->batch);
        unlink_request(j);
        j->slot->lease.syncing = false;
        port_free(j);
    }
    for (weir_lease_slot *s = h->table.first; s; s = s->after) {
        if (s->policy->plan.kind == WEIR_LEASE_PREPAID) {
            give_back(h, s, s->lease.balance, now_ns);
        } else {
            sync(h, s, now_ns);
        }
    }
    while (h->syncs) {
        sync_request *j = h->syncs;
        h->upstream->calls->abandon(h->upstream, &j->batch);
        unlink_request(j);
        port_free(j);
    }
}
