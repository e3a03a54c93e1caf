/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The hybrid engine decides requests for busy keys by quota leases, and forwards all others.
 * docs/hybrid.md states the bound that it keeps; lease.h has the arithmetic. */

#include "engine/hybrid/hybrid.h"

#include "port/assert.h"
#include "port/port.h"

static const int64_t ns_per_ms = 1000000;

enum { FLUSH = 256 }; /* requests that are counted here before they are added to the statistics */

/* ---- one request ----------------------------------------------------------------------------- */

static void answer(weir_engine_request *q, const weir_lease_slot *s, int64_t now_ns, bool allowed)
{
    q->status = WEIR_OK;
    q->by_error = false;
    q->reason = NULL;
    q->granted = 0;
    weir_lease_decision(&s->lease, &s->policy->plan, now_ns, q->cost, allowed, &q->decision);
}

/* Answers a take by the lease, if possible. */
static bool decide_locally(weir_lease_slot *s, weir_engine_request *q, int64_t now_ns)
{
    bool allowed = weir_lease_take(&s->lease, now_ns, q->cost);
    if (allowed || weir_lease_denies(&s->lease, &s->policy->plan, now_ns, q->cost)) {
        answer(q, s, now_ns, allowed);
        return true;
    }
    return false;
}

outcome hybrid_decide(hybrid *h, weir_lease_slot *s, weir_engine_request *q, int64_t now_ns)
{
    weir_lease *lease = &s->lease;
    if (decide_locally(s, q, now_ns)) {
        if (!q->decision.allowed)
            s->seen_ns = now_ns;
        else if (weir_lease_is_low(lease))
            sync(h, s, now_ns);
        return OUTCOME_ANSWERED;
    }
    s->seen_ns = now_ns;
    weir_lease_roll_window(lease, now_ns);
    if (q->cost > s->policy->plan.cost_max || now_ns < s->forward_until_ns)
        return OUTCOME_FORWARD;
    bool leased = s->policy->plan.kind == WEIR_LEASE_PREPAID && q->cost <= s->policy->plan.cap;
    if (leased && lease->exhausted) {
        sync(h, s, now_ns);
        if (!lease->syncing && decide_locally(s, q, now_ns)) /* the sync was answered at once */
            return OUTCOME_ANSWERED;
    }
    /* A prepaid lease is filled after the request was sent: see forward.c. */
    return lease->exhausted && (s->probes > 0 || (leased && lease->syncing)) ? OUTCOME_WAIT
                                                                             : OUTCOME_FORWARD;
}

/* Answers a peek by the lease: the server does not know yet what the lease has admitted. */
static outcome peek(weir_lease_slot *s, weir_engine_request *q, int64_t now_ns)
{
    if (weir_lease_has(&s->lease, now_ns, q->cost))
        answer(q, s, now_ns, true);
    else if (weir_lease_denies(&s->lease, &s->policy->plan, now_ns, q->cost))
        answer(q, s, now_ns, false);
    else
        return OUTCOME_FORWARD;
    return OUTCOME_ANSWERED;
}

/* Sets *ret to the slot with the key's lease, or to NULL. A lease does not tell how many units
 * remain, so a request that keeps some is forwarded. */
static outcome decide(hybrid *h, weir_engine_request *q, int64_t now_ns, weir_lease_slot **ret)
{
    *ret = NULL;
    if (q->verb == WEIR_VERB_THROTTLE || q->verb == WEIR_VERB_GRANT || q->keep != 0 ||
        q->key.len == 0 || q->key.len > WEIR_LEASE_KEY_MAX)
        return OUTCOME_FORWARD;
    uint64_t hash = weir_lease_table_hash(&h->table, q);
    weir_lease_slot *s = weir_lease_table_find(&h->table, q, hash);
    if (q->verb == WEIR_VERB_TAKE && q->cost > 0) {
        if (!s)
            s = weir_lease_table_count(&h->table, q, hash, now_ns);
        *ret = s;
        return s ? hybrid_decide(h, s, q, now_ns) : OUTCOME_FORWARD;
    }
    if (!s)
        return OUTCOME_FORWARD;
    if (q->verb == WEIR_VERB_TAKE || q->verb == WEIR_VERB_PEEK)
        return peek(s, q, now_ns);
    weir_lease_invalidate(&s->lease, q->verb == WEIR_VERB_RESET);
    return OUTCOME_FORWARD;
}

/* ---- batches --------------------------------------------------------------------------------- */

static void refuse(weir_engine_request *q)
{
    q->status = WEIR_E_NOMEM;
    q->by_error = false;
    q->reason = NULL;
}

/* A batch that is decided as one is always forwarded. */
static forward *forward_all(hybrid *h, weir_engine_batch *b)
{
    forward *f = forward_new(h, b);
    for (uint32_t i = 0; i < b->len; i++) {
        if (f)
            forward_add(f, i, NULL);
        else
            refuse(&b->request[i]);
    }
    return f;
}

/* Returns NULL if all requests were answered. */
static forward *decide_each(hybrid *h, weir_engine_batch *b, int64_t now_ns)
{
    forward *f = NULL;
    for (uint32_t i = 0; i < b->len; i++) {
        weir_lease_slot *s;
        outcome o = decide(h, &b->request[i], now_ns, &s);
        if (o == OUTCOME_ANSWERED) {
            h->local++;
            continue;
        }
        if (!f)
            f = forward_new(h, b);
        if (!f)
            refuse(&b->request[i]);
        else if (o == OUTCOME_WAIT)
            forward_wait(f, i, s);
        else
            forward_add(f, i, s);
    }
    return f;
}

/* Drops the leases of policies that were reset. */
static void look_for_resets(hybrid *h)
{
    const weir_redis_resets *r = h->table.resets;
    uint64_t version = r ? port_word_load_acquire(&r->version) : 0;
    if (version == h->resets_version)
        return;
    h->resets_version = version;
    weir_lease_table_drop_resets(&h->table);
}

static bool submit(weir_engine *e, weir_engine_batch *b, int64_t now_ns)
{
    hybrid *h = (hybrid *)e;
    WEIR_ASSERT(b->len > 0);
    h->inside++;
    h->requests += b->len;
    look_for_resets(h);
    b->inside = NULL;
    forward *f = b->all ? forward_all(h, b) : decide_each(h, b, now_ns);
    bool answered = true;
    if (f) {
        forward_send(f, now_ns);
        f->submitting = false;
        answered = f->left == 0;
        if (answered) {
            b->inside = NULL;
            port_free(f);
        }
    }
    h->inside--;
    if (h->requests >= FLUSH)
        sync_stats(h, now_ns);
    hybrid_wake_by(h, h->done ? now_ns : now_ns + h->interval_ns);
    return answered;
}

static void abandon(weir_engine *e, weir_engine_batch *b)
{
    hybrid *h = (hybrid *)e;
    WEIR_ASSERT(b->inside);
    h->inside++;
    forward_abandon(b->inside, h->dialer->calls->now(h->dialer));
    b->inside = NULL;
    h->inside--;
}

void hybrid_deliver(hybrid *h, int64_t now_ns)
{
    if (h->inside > 0) {
        hybrid_wake_by(h, now_ns);
        return;
    }
    while (h->done) {
        forward *f = h->done;
        weir_engine_batch *b = f->batch;
        WEIR_ASSERT(f->left == 0);
        h->done = f->next;
        b->inside = NULL;
        port_free(f);
        b->done(b, now_ns);
    }
}

/* ---- opening and closing --------------------------------------------------------------------- */

void hybrid_wake_by(hybrid *h, int64_t at_ns)
{
    if (at_ns >= h->timer_ns)
        return;
    h->timer_ns = at_ns;
    h->dialer->calls->set_timer(h->timer, at_ns);
}

static void on_timer(void *ctx, int64_t now_ns)
{
    hybrid *h = ctx;
    h->timer_ns = INT64_MAX;
    look_for_resets(h);
    sync_due(h, now_ns);
    sync_stats(h, now_ns);
    if (h->table.first)
        hybrid_wake_by(h, h->table.first->check_ns);
    hybrid_deliver(h, now_ns);
}

static void close_engine(weir_engine *e)
{
    hybrid *h = (hybrid *)e;
    int64_t now_ns = h->dialer->calls->now(h->dialer);
    WEIR_ASSERT(h->inside == 0);
    sync_all(h, now_ns);
    sync_stats(h, now_ns);
    port_sub_relaxed(&h->stats->keys, h->keys);
    port_sub_relaxed(&h->stats->overshoot_last, (uint64_t)h->over_reported);
    h->dialer->calls->free_timer(h->timer);
    weir_lease_table_close(&h->table);
    port_free(h);
}

static const weir_engine_calls calls = {submit, abandon, close_engine};

weir_status weir_hybrid_engine_open(weir_engine **ret, const weir_hybrid_setup *setup)
{
    weir_hybrid_options o = *setup->options;
    if (o.interval_ns == 0)
        o.interval_ns = 100 * ns_per_ms;
    if (o.count == 0)
        o.count = 1000;
    if (o.idle_ns == 0)
        o.idle_ns = 1000 * ns_per_ms;
    if (o.memory_bytes == 0)
        o.memory_bytes = (size_t)4 << 20;
    if (o.interval_ns < ns_per_ms || o.interval_ns > 60000 * ns_per_ms || o.count < 1 ||
        o.idle_ns < 1 || o.idle_ns > WEIR_SPAN_NS_MAX)
        return WEIR_E_RANGE;
    hybrid *h = port_zalloc(1, sizeof *h);
    if (!h)
        return WEIR_E_NOMEM;
    *h = (hybrid){.base = {&calls},
                  .upstream = setup->upstream,
                  .dialer = setup->dialer,
                  .timer_ns = INT64_MAX,
                  .interval_ns = o.interval_ns,
                  .idle_ns = o.idle_ns,
                  .stats = setup->stats};
    weir_status st =
        weir_lease_table_open(&h->table, o.memory_bytes, o.interval_ns, o.idle_ns, o.count);
    h->table.resets = setup->resets;
    if (st == WEIR_OK) {
        h->timer = h->dialer->calls->new_timer(h->dialer, on_timer, h);
        if (!h->timer)
            st = WEIR_E_NOMEM;
    }
    if (st != WEIR_OK) {
        close_engine(&h->base);
        return WEIR_E_NOMEM;
    }
    *ret = &h->base;
    return WEIR_OK;
}
