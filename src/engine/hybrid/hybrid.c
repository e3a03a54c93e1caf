/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The hybrid engine: what is answered here, and what is not. docs/hybrid.md says what it promises;
 * share.h has the arithmetic. */

#include "engine/hybrid/hybrid.h"

#include "port/port.h"

static const int64_t ns_per_ms = 1000000;

enum { FLUSH = 256 }; /* requests, before the stats have to know of them */

/* ---- one request ---------------------------------------------------------------------------- */

static void answer(weir_engine_request *q, const weir_slot *s, int64_t now_ns, bool allowed)
{
    q->status = WEIR_OK;
    q->by_error = false;
    q->reason = NULL;
    q->granted = 0;
    weir_share_figures(&s->share, &s->policy->plan, now_ns, q->cost, allowed, &q->decision);
}

/* Answers a take, if what is known here is enough for that. */
static bool here(weir_slot *s, weir_engine_request *q, int64_t now_ns)
{
    bool allowed = weir_share_spend(&s->share, now_ns, q->cost);
    if (allowed || weir_share_denies(&s->share, now_ns, q->cost)) {
        answer(q, s, now_ns, allowed);
        return true;
    }
    return false;
}

outcome hybrid_decide(hybrid *h, weir_slot *s, weir_engine_request *q, int64_t now_ns)
{
    weir_share *share = &s->share;
    if (here(s, q, now_ns)) {
        if (!q->decision.allowed)
            s->seen_ns = now_ns;
        else if (weir_share_is_low(share))
            settle(h, s, now_ns);
        return OUTCOME_HERE;
    }
    s->seen_ns = now_ns;
    weir_share_turn(share, &s->policy->plan, now_ns);
    if (q->cost > s->policy->plan.cost_max || now_ns < s->below_until_ns)
        return OUTCOME_BELOW;
    bool leased = s->policy->plan.kind == WEIR_SHARE_LEASED && q->cost <= s->policy->plan.cap;
    if (leased && share->exhausted) {
        settle(h, s, now_ns);
        if (!share->asking && here(s, q, now_ns)) /* it has answered already */
            return OUTCOME_HERE;
    }
    /* What is leased in advance is asked for behind the request, see pass.c. */
    return share->exhausted && (s->probes > 0 || (leased && share->asking)) ? OUTCOME_WAIT
                                                                            : OUTCOME_BELOW;
}

/* A peek tells what is known here of a share, which below does not know of yet. */
static outcome peek(weir_slot *s, weir_engine_request *q, int64_t now_ns)
{
    const weir_share *share = &s->share;
    if (share->balance - q->cost >= share->floor && now_ns < share->good_until_ns)
        answer(q, s, now_ns, true);
    else if (weir_share_denies(share, now_ns, q->cost))
        answer(q, s, now_ns, false);
    else
        return OUTCOME_BELOW;
    return OUTCOME_HERE;
}

/* *ret: the slot that has the key's share, or NULL. */
static outcome decide(hybrid *h, weir_engine_request *q, int64_t now_ns, weir_slot **ret)
{
    *ret = NULL;
    if (q->verb == WEIR_VERB_THROTTLE || q->verb == WEIR_VERB_GRANT || q->key.len == 0 ||
        q->key.len > WEIR_SLOT_KEY_MAX)
        return OUTCOME_BELOW;
    uint64_t hash = weir_slots_hash(&h->slots, q);
    weir_slot *s = weir_slots_find(&h->slots, q, hash);
    if (q->verb == WEIR_VERB_TAKE && q->cost > 0) {
        if (!s)
            s = weir_slots_count(&h->slots, q, hash, now_ns);
        *ret = s;
        return s ? hybrid_decide(h, s, q, now_ns) : OUTCOME_BELOW;
    }
    if (!s)
        return OUTCOME_BELOW;
    if (q->verb == WEIR_VERB_TAKE || q->verb == WEIR_VERB_PEEK)
        return peek(s, q, now_ns);
    weir_share_forget(&s->share, q->verb == WEIR_VERB_RESET);
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
static pass *ask_all(hybrid *h, weir_engine_batch *r)
{
    pass *p = pass_new(h, r);
    for (uint32_t i = 0; i < r->len; i++) {
        if (p)
            pass_add(p, i, NULL);
        else
            refuse(&r->request[i]);
    }
    return p;
}

/* Returns NULL if all were answered. */
static pass *ask_each(hybrid *h, weir_engine_batch *r, int64_t now_ns)
{
    pass *p = NULL;
    for (uint32_t i = 0; i < r->len; i++) {
        weir_slot *s;
        outcome o = decide(h, &r->request[i], now_ns, &s);
        if (o == OUTCOME_HERE) {
            h->here++;
            continue;
        }
        if (!p)
            p = pass_new(h, r);
        if (!p)
            refuse(&r->request[i]);
        else if (o == OUTCOME_WAIT)
            pass_wait(p, i, s);
        else
            pass_add(p, i, s);
    }
    return p;
}

static bool ask(weir_engine *e, weir_engine_batch *r, int64_t now_ns)
{
    hybrid *h = (hybrid *)e;
    h->inside++;
    h->asked += r->len;
    r->inside = NULL;
    pass *p = r->all ? ask_all(h, r) : ask_each(h, r, now_ns);
    bool answered = true;
    if (p) {
        pass_send(p, now_ns);
        p->asking = false;
        answered = p->left == 0;
        if (answered) {
            r->inside = NULL;
            port_free(p);
        }
    }
    h->inside--;
    if (h->asked >= FLUSH)
        settle_stats(h, now_ns);
    hybrid_wake_by(h, h->done ? now_ns : now_ns + h->interval_ns);
    return answered;
}

static void abandon(weir_engine *e, weir_engine_batch *r)
{
    hybrid *h = (hybrid *)e;
    if (!r->inside)
        return;
    h->inside++;
    pass_abandon(r->inside, h->dialer->calls->now(h->dialer));
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
        pass *p = h->done;
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
    settle_tick(h, now_ns);
    settle_stats(h, now_ns);
    if (h->slots.first)
        hybrid_wake_by(h, h->slots.first->check_ns);
    hybrid_deliver(h, now_ns);
}

static void close_engine(weir_engine *e)
{
    hybrid *h = (hybrid *)e;
    int64_t now_ns = h->dialer->calls->now(h->dialer);
    if (h->alarm) {
        settle_close(h, now_ns);
        settle_stats(h, now_ns);
        port_sub_relaxed(&h->stats->keys, h->keys);
        port_sub_relaxed(&h->stats->overshoot_last, (uint64_t)h->over_told);
    }
    h->dialer->calls->free_timer(h->alarm);
    weir_slots_close(&h->slots);
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
    weir_status st = weir_slots_open(&h->slots, o.memory_bytes, o.interval_ns, o.idle_ns, o.count);
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
