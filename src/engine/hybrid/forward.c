/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Rounds that need the engine below: which of their requests it is asked, and the way back. Each
 * request is asked below at most once, with its own on_error; so one without an answer there gets
 * one all the same. Where a key is exhausted, one request goes ahead, and the others wait for what
 * it learns. */

#include "engine/hybrid/hybrid.h"

#include "port/port.h"

forward *forward_new(hybrid *h, weir_engine_batch *r)
{
    size_t waits = r->len * sizeof(wait), from = r->len * sizeof(struct below_from);
    forward *p = port_zalloc(1, sizeof *p + waits + from);
    if (!p)
        return NULL;
    p->engine = h;
    p->round = r;
    p->asking = true;
    p->from = (struct below_from *)(void *)((char *)(p + 1) + waits);
    r->inside = p;
    return p;
}

/* What is learned by asking about a key of `s`. */
static struct below_from from_of(const weir_engine_request *q, weir_lease_slot *s, uint32_t index)
{
    struct below_from f = {.index = index};
    if (s && q->verb == WEIR_VERB_TAKE) {
        f.slot = s;
        f.uses = s->uses;
        f.probe = s->lease.exhausted;
        s->probes += f.probe;
    }
    return f;
}

void forward_add(forward *p, uint32_t index, weir_lease_slot *s)
{
    p->from[p->to_ask++] = from_of(&p->round->request[index], s, index);
    p->left++;
}

void forward_wait(forward *p, uint32_t index, weir_lease_slot *s)
{
    wait *w = &p->wait[index];
    w->forward = p;
    w->index = index;
    w->slot = s;
    w->next = s->waits;
    s->waits = w;
    p->left++;
}

static void end_wait(wait *w)
{
    wait **at = &w->slot->waits;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    w->slot = NULL;
}

/* One request of it has its answer. */
static void answered(forward *p)
{
    if (--p->left > 0 || p->asking)
        return;
    forward **at = &p->engine->done;
    while (*at)
        at = &(*at)->next;
    p->next = NULL;
    *at = p;
}

/* ---- asking below ---------------------------------------------------------------------------- */

static void copy_answer(weir_engine_request *to, const weir_engine_request *from)
{
    to->status = from->status;
    to->decision = from->decision;
    to->answer = from->answer;
    to->throttle_status = from->throttle_status;
    to->granted = from->granted;
    to->by_error = from->by_error;
    to->reason = from->reason;
}

/* Is the slot still that of the key that was asked about? */
static weir_lease_slot *slot_of(const struct below_from *f)
{
    return f->slot && f->slot->policy && f->slot->uses == f->uses ? f->slot : NULL;
}

static void learn(hybrid *h, const struct below_from *f, const weir_engine_request *q,
                  int64_t sent_ns, int64_t now_ns)
{
    weir_lease_slot *s = slot_of(f);
    if (!s)
        return;
    s->probes -= f->probe;
    if (q->status != WEIR_OK || q->by_error)
        s->below_until_ns = now_ns + h->interval_ns;
    else
        weir_lease_update(&s->lease, &s->policy->plan, &q->decision, q->cost, sent_ns, now_ns);
}

/* Takes `a` out of its forward. */
static void unlink_ask(below_ask *a)
{
    below_ask **at = &a->forward->asks;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
}

static void back(below_ask *a, int64_t now_ns)
{
    forward *p = a->forward;
    hybrid *h = p->engine;
    unlink_ask(a);
    if (a->round.all)
        p->round->blocking = a->round.blocking;
    for (size_t i = 0; i < a->round.len; i++) {
        if (a->request)
            copy_answer(&p->round->request[a->from[i].index], &a->request[i]);
        learn(h, &a->from[i], &a->round.request[i], a->sent_ns, now_ns);
    }
    h->inside++; /* the forward may be answered by what follows, but not freed */
    for (size_t i = 0; i < a->round.len; i++) {
        weir_lease_slot *s = slot_of(&a->from[i]);
        if (s && s->waits)
            forward_release(h, s, now_ns);
    }
    h->inside--;
    for (size_t i = a->round.len; i > 0; i--)
        answered(p);
    port_free(a);
}

static void came_back(weir_engine_batch *r, int64_t now_ns)
{
    below_ask *a = (below_ask *)(void *)((char *)r - offsetof(below_ask, round));
    hybrid *h = a->forward->engine;
    back(a, now_ns);
    hybrid_deliver(h, now_ns);
}

static void fail(forward *p, const struct below_from *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        weir_engine_request *q = &p->round->request[from[i].index];
        weir_lease_slot *s = slot_of(&from[i]);
        if (s)
            s->probes -= from[i].probe;
        q->status = WEIR_E_NOMEM;
        q->by_error = false;
        q->reason = NULL;
        answered(p);
    }
}

/* Leases what a bucket's key will need next. The request that is asked below goes first: else the
 * lease could have the last unit, and who asks for it be denied. */
static void lease_next(hybrid *h, const struct below_from *f, int64_t cost, int64_t now_ns)
{
    weir_lease_slot *s = slot_of(f);
    if (!s || s->policy->plan.kind != WEIR_LEASE_PREPAID || cost > s->policy->plan.cap)
        return;
    if (!s->lease.exhausted && now_ns >= s->below_until_ns)
        sync(h, s, now_ns);
}

/* Asks below what `from` says. Where that is the whole round, the asker's own requests do. */
static void ask_below(forward *p, const struct below_from *from, size_t n, int64_t now_ns)
{
    hybrid *h = p->engine;
    bool whole = n == p->round->len;
    size_t rest = n * sizeof *from + (whole ? 0 : n * sizeof(weir_engine_request));
    below_ask *a = port_zalloc(1, sizeof *a + rest);
    if (!a) {
        fail(p, from, n);
        return;
    }
    weir_engine_request *copies = whole ? NULL : (weir_engine_request *)(void *)(a + 1);
    *a = (below_ask){.next = p->asks, .forward = p, .sent_ns = now_ns, .request = copies};
    a->from = (struct below_from *)(void *)((char *)(a + 1) +
                                            (whole ? 0 : n * sizeof(weir_engine_request)));
    for (size_t i = 0; i < n; i++) {
        a->from[i] = from[i];
        if (copies)
            copies[i] = p->round->request[from[i].index];
    }
    a->round = (weir_engine_batch){.request = whole ? p->round->request : copies,
                                   .len = n,
                                   .all = p->round->all,
                                   .done = came_back};
    p->asks = a;
    if (h->below->calls->submit(h->below, &a->round, now_ns))
        back(a, now_ns);
    for (size_t i = 0; i < n; i++)
        lease_next(h, &from[i], p->round->request[from[i].index].cost, now_ns);
}

void forward_send(forward *p, int64_t now_ns)
{
    size_t n = p->to_ask;
    p->to_ask = 0;
    if (n > 0)
        ask_below(p, p->from, n, now_ns);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void release(hybrid *h, weir_lease_slot *s, wait *w, int64_t now_ns)
{
    forward *p = w->forward;
    weir_engine_request *q = &p->round->request[w->index];
    outcome o = hybrid_decide(h, s, q, now_ns);
    w->slot = NULL; /* it has waited once: no more */
    if (o == OUTCOME_HERE) {
        answered(p);
        return;
    }
    struct below_from from = from_of(q, s, w->index);
    ask_below(p, &from, 1, now_ns);
}

void forward_release(hybrid *h, weir_lease_slot *s, int64_t now_ns)
{
    wait *first = NULL;
    while (s->waits) { /* they are in the order of the last first */
        wait *w = s->waits;
        s->waits = w->next;
        w->next = first;
        first = w;
    }
    while (first) {
        wait *w = first;
        first = w->next;
        release(h, s, w, now_ns);
    }
}

/* ---- going away ------------------------------------------------------------------------------ */

/* Those who wait for a request that will have no answer find another way. */
static void abandon_ask(hybrid *h, below_ask *a, int64_t now_ns)
{
    h->below->calls->abandon(h->below, &a->round);
    for (size_t i = 0; i < a->round.len; i++) {
        weir_lease_slot *s = slot_of(&a->from[i]);
        if (!s || !a->from[i].probe)
            continue;
        s->probes--;
        if (s->probes == 0)
            forward_release(h, s, now_ns);
    }
    port_free(a);
}

void forward_abandon(forward *p, int64_t now_ns)
{
    hybrid *h = p->engine;
    for (forward **at = &h->done; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            port_free(p);
            hybrid_deliver(h, now_ns);
            return;
        }
    for (size_t i = 0; i < p->round->len; i++)
        if (p->wait[i].slot)
            end_wait(&p->wait[i]);
    while (p->asks) {
        below_ask *a = p->asks;
        p->asks = a->next;
        abandon_ask(h, a, now_ns);
    }
    port_free(p);
    if (h->done)
        hybrid_deliver(h, now_ns);
}
