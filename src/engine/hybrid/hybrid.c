/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The hybrid engine: what is answered here, and what is not. docs/hybrid.md says what it promises;
 * share.h has the arithmetic. */

#include "engine/hybrid/hybrid.h"

#include "port/port.h"

static const int64_t ns_per_ms = 1000000;

enum { FLUSH = 256 }; /* requests, before the stats have to know of them */

/* ---- one request ---------------------------------------------------------------------------- */

static void answer(weir_engine_request *q, const weir_lease_slot *s, int64_t now_ns, bool allowed)
{
    q->status = WEIR_OK;
    q->by_error = false;
    q->reason = NULL;
    q->granted = 0;
    weir_lease_decision(&s->lease, &s->policy->plan, now_ns, q->cost, allowed, &q->decision);
}

/* Answers a take, if what is known here is enough for that. */
static bool here(weir_lease_slot *s, weir_engine_request *q, int64_t now_ns)
{
    bool allowed = weir_lease_take(&s->lease, now_ns, q->cost);
    if (allowed || weir_lease_denies(&s->lease, now_ns, q->cost)) {
        answer(q, s, now_ns, allowed);
        return true;
    }
    return false;
}

outcome hybrid_decide(hybrid *h, weir_lease_slot *s, weir_engine_request *q, int64_t now_ns)
{
    weir_lease *lease = &s->lease;
    if (here(s, q, now_ns)) {
        if (!q->decision.allowed)
            s->seen_ns = now_ns;
        else if (weir_lease_is_low(lease))
            sync(h, s, now_ns);
        return OUTCOME_HERE;
    }
    s->seen_ns = now_ns;
    weir_lease_roll_window(lease, &s->policy->plan, now_ns);
    if (q->cost > s->policy->plan.cost_max || now_ns < s->below_until_ns)
        return OUTCOME_BELOW;
    bool leased = s->policy->plan.kind == WEIR_LEASE_PREPAID && q->cost <= s->policy->plan.cap;
    if (leased && lease->exhausted) {
        sync(h, s, now_ns);
        if (!lease->asking && here(s, q, now_ns)) /* it has answered already */
            return OUTCOME_HERE;
    }
    /* What is leased in advance is asked for behind the request, see forward.c. */
    return lease->exhausted && (s->probes > 0 || (leased && lease->asking)) ? OUTCOME_WAIT
                                                                            : OUTCOME_BELOW;
}

/* A peek tells what is known here of a share, which below does not know of yet. */
static outcome peek(weir_lease_slot *s, weir_engine_request *q, int64_t now_ns)
{
    const weir_lease *lease = &s->lease;
    if (lease->balance - q->cost >= lease->floor && now_ns < lease->good_until_ns)
        answer(q, s, now_ns, true);
    else if (weir_lease_denies(lease, now_ns, q->cost))
        answer(q, s, now_ns, false);
    else
        return OUTCOME_BELOW;
    return OUTCOME_HERE;
}

/* *ret: the slot that has the key's share, or NULL. */
static outcome decide(hybrid *h, weir_engine_request *q, int64_t now_ns, weir_lease_slot **ret)
{
    *ret = NULL;
    if (q->verb == WEIR_VERB_THROTTLE || q->verb == WEIR_VERB_GRANT || q->key.len == 0 ||
        q->key.len > WEIR_LEASE_KEY_MAX)
        return OUTCOME_BELOW;
    uint64_t hash = weir_lease_table_hash(&h->table, q);
    weir_lease_slot *s = weir_lease_table_find(&h->table, q, hash);
    if (q->verb == WEIR_VERB_TAKE && q->cost > 0) {
        if (!s)
            s = weir_lease_table_count(&h->table, q, hash, now_ns);
        *ret = s;
        return s ? hybrid_decide(h, s, q, now_ns) : OUTCOME_BELOW;
    }
    if (!s)
        return OUTCOME_BELOW;
    if (q->verb == WEIR_VERB_TAKE || q->verb == WEIR_VERB_PEEK)
        return peek(s, q, now_ns);
    weir_lease_invalidate(&s->lease, q->verb == WEIR_VERB_RESET);
    return OUTCOME_BELOW;
}

/* ---- a round --------------------------------------------------------------------------------- */

static void refuse(weir_engine_request *q)
{
    q->status = WEIR_E_NOMEM;
    q->by_error = false;
    q->reason = NULL;
}

/* Asks all of them below as one. */
static forward *ask_all(hybrid *h, weir_engine_batch *r)
{
    forward *p = forward_new(h, r);
    for (uint32_t i = 0; i < r->len; i++) {
        if (p)
            forward_add(p, i, NULL);
        else
            refuse(&r->request[i]);
    }
    return p;
}

/* Returns NULL if all were answered. */
static forward *ask_each(hybrid *h, weir_engine_batch *r, int64_t now_ns)
{
    forward *p = NULL;
    for (uint32_t i = 0; i < r->len; i++) {
        weir_lease_slot *s;
        outcome o = decide(h, &r->request[i], now_ns, &s);
        if (o == OUTCOME_HERE) {
            h->here++;
            continue;
        }
        if (!p)
            p = forward_new(h, r);
        if (!p)
            refuse(&r->request[i]);
        else if (o == OUTCOME_WAIT)
            forward_wait(p, i, s);
        else
            forward_add(p, i, s);
    }
    return p;
}

static bool ask(weir_engine *e, weir_engine_batch *r, int64_t now_ns)
{
    hybrid *h = (hybrid *)e;
    h->inside++;
    h->asked += r->len;
    r->inside = NULL;
    forward *p = r->all ? ask_all(h, r) : ask_each(h, r, now_ns);
    bool answered = true;
    if (p) {
        forward_send(p, now_ns);
        p->asking = false;
        answered = p->left == 0;
        if (answered) {
            r->inside = NULL;
            port_free(p);
        }
    }
    h->inside--;
    if (h->asked >= FLUSH)
        sync_stats(h, now_ns);
    hybrid_wake_by(h, h->done ? now_ns : now_ns + h->interval_ns);
    return answered;
}

static void abandon(weir_engine *e, weir_engine_batch *r)
{
    hybrid *h = (hybrid *)e;
    if (!r->inside)
        return;
    h->inside++;
    forward_abandon(r->inside, h->dialer->calls->now(h->dialer));
    r->inside = NULL;
    h->inside--;
}

void hybrid_deliver(hybrid *h, int64_t now_ns)
{
    if (h->inside > 0) {
        hybrid_wake_by(h, now_ns);
        return;
    }
    while (h->done) {
        forward *p = h->done;
        weir_engine_batch *r = p->round;
        h->done = p->next;
        r->inside = NULL;
        port_free(p);
        r->done(r, now_ns);
    }
}

/* ---- opening and closing --------------------------------------------------------------------- */

void hybrid_wake_by(hybrid *h, int64_t at_ns)
{
    if (at_ns >= h->alarm_ns)
        return;
    h->alarm_ns = at_ns;
    h->dialer->calls->set_timer(h->alarm, at_ns);
}

static void woken(void *ctx, int64_t now_ns)
{
    hybrid *h = ctx;
    h->alarm_ns = INT64_MAX;
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
    if (h->alarm) {
        sync_all(h, now_ns);
        sync_stats(h, now_ns);
        port_sub_relaxed(&h->stats->keys, h->keys);
        port_sub_relaxed(&h->stats->overshoot_last, (uint64_t)h->over_told);
    }
    h->dialer->calls->free_timer(h->alarm);
    weir_lease_table_close(&h->table);
    port_free(h);
}

static const weir_engine_calls calls = {ask, abandon, close_engine};

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
    *h = (hybrid){.face = {&calls},
                  .below = setup->below,
                  .dialer = setup->dialer,
                  .alarm_ns = INT64_MAX,
                  .interval_ns = o.interval_ns,
                  .idle_ns = o.idle_ns,
                  .stats = setup->stats};
    weir_status st =
        weir_lease_table_open(&h->table, o.memory_bytes, o.interval_ns, o.idle_ns, o.count);
    if (st == WEIR_OK) {
        h->alarm = h->dialer->calls->new_timer(h->dialer, woken, h);
        if (!h->alarm)
            st = WEIR_E_NOMEM;
    }
    if (st != WEIR_OK) {
        close_engine(&h->face);
        return WEIR_E_NOMEM;
    }
    *ret = &h->face;
    return WEIR_OK;
}
