/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Forwards requests to the upstream engine, and their answers back. Each request is sent upstream
 * at most once, with its own on_error, so every request gets an answer. For an exhausted key one
 * request is sent as a probe, and the others wait for its reply (single-flight). */

#include "engine/hybrid/hybrid.h"

#include "port/assert.h"
#include "port/port.h"

forward *forward_new(hybrid *h, weir_engine_batch *b)
{
    size_t waits = b->len * sizeof(wait), origins = b->len * sizeof(origin);
    forward *f = port_zalloc(1, sizeof *f + waits + origins);
    if (!f)
        return NULL;
    f->engine = h;
    f->batch = b;
    f->submitting = true;
    f->origin = (origin *)(void *)((char *)(f + 1) + waits);
    b->inside = f;
    return f;
}

/* The reply to a take updates the lease of its key. */
static origin origin_of(const weir_engine_request *q, weir_lease_slot *s, uint32_t index)
{
    origin f = {.index = index};
    if (s && q->verb == WEIR_VERB_TAKE) {
        f.slot = s;
        f.uses = s->uses;
        f.version = s->lease.version;
        f.probe = s->lease.exhausted;
        s->probes += f.probe;
    }
    return f;
}

void forward_add(forward *f, uint32_t index, weir_lease_slot *s)
{
    WEIR_ASSERT(f->submitting && f->to_send < f->batch->len);
    f->origin[f->to_send++] = origin_of(&f->batch->request[index], s, index);
    f->left++;
}

void forward_wait(forward *f, uint32_t index, weir_lease_slot *s)
{
    wait *w = &f->wait[index];
    WEIR_ASSERT(!w->slot && (s->probes > 0 || s->lease.syncing));
    w->forward = f;
    w->index = index;
    w->slot = s;
    w->next = s->waits;
    s->waits = w;
    f->left++;
}

static void end_wait(wait *w)
{
    wait **at = &w->slot->waits;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
}

/* One of its requests has been answered. */
static void answered(forward *f)
{
    WEIR_ASSERT(f->left > 0);
    if (--f->left > 0 || f->submitting)
        return;
    forward **at = &f->engine->done;
    while (*at)
        at = &(*at)->next;
    *at = f;
}

/* ---- sending upstream ------------------------------------------------------------------------ */

static void copy_answer(weir_engine_request *to, const weir_engine_request *from)
{
    to->status = from->status;
    to->decision = from->decision;
    to->next_ns = from->next_ns;
    to->figures = from->figures;
    to->answer = from->answer;
    to->throttle_status = from->throttle_status;
    to->granted = from->granted;
    to->by_error = from->by_error;
    to->reason = from->reason;
}

/* NULL: no slot, or it has another key by now. */
static weir_lease_slot *slot_of(const origin *f)
{
    return f->slot && f->slot->policy && f->slot->uses == f->uses ? f->slot : NULL;
}

static void update_lease(hybrid *h, const origin *f, const weir_engine_request *q, int64_t sent_ns,
                         int64_t now_ns)
{
    weir_lease_slot *s = slot_of(f);
    if (!s)
        return;
    WEIR_ASSERT(s->probes >= f->probe);
    s->probes -= f->probe;
    if (q->status != WEIR_OK || q->by_error)
        s->forward_until_ns = now_ns + h->interval_ns;
    else if (f->version == s->lease.version)
        weir_lease_update(&s->lease, &s->policy->plan, &q->decision, q->cost, sent_ns, now_ns);
}

static void unlink_sub(sub_batch *a)
{
    sub_batch **at = &a->forward->subs;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
}

static void return_answers(sub_batch *a, int64_t now_ns)
{
    forward *f = a->forward;
    hybrid *h = f->engine;
    unlink_sub(a);
    f->batch->blocking = a->batch.blocking;
    for (size_t i = 0; i < a->batch.len; i++) {
        if (a->request)
            copy_answer(&f->batch->request[a->origin[i].index], &a->request[i]);
        update_lease(h, &a->origin[i], &a->batch.request[i], a->sent_ns, now_ns);
    }
    h->inside++; /* done() must not be called yet: it frees the forward */
    for (size_t i = 0; i < a->batch.len; i++) {
        weir_lease_slot *s = slot_of(&a->origin[i]);
        if (s)
            forward_release(h, s, now_ns);
    }
    h->inside--;
    for (size_t i = a->batch.len; i > 0; i--)
        answered(f);
    port_free(a);
}

static void on_done(weir_engine_batch *b, int64_t now_ns)
{
    sub_batch *a = (sub_batch *)(void *)((char *)b - offsetof(sub_batch, batch));
    hybrid *h = a->forward->engine;
    return_answers(a, now_ns);
    hybrid_deliver(h, now_ns);
}

/* Fails requests for lack of memory. Decides the requests again that wait for a failed probe. */
static void fail(forward *f, const origin *from, size_t n, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++) {
        weir_engine_request *q = &f->batch->request[from[i].index];
        weir_lease_slot *s = slot_of(&from[i]);
        if (s)
            s->probes -= from[i].probe;
        q->status = WEIR_E_NOMEM;
        q->by_error = false;
        q->reason = NULL;
        answered(f);
        if (s && s->probes == 0 && !s->lease.syncing)
            forward_release(f->engine, s, now_ns);
    }
}

/* Fills the prepaid lease of a key. The forwarded request was sent before: otherwise the lease
 * could get the last unit, and the request would be denied. */
static void lease_next(hybrid *h, const origin *f, int64_t cost, int64_t now_ns)
{
    weir_lease_slot *s = slot_of(f);
    if (!s || s->policy->plan.kind != WEIR_LEASE_PREPAID || cost > s->policy->plan.cap)
        return;
    if (!s->lease.exhausted && now_ns >= s->forward_until_ns)
        sync(h, s, now_ns);
}

/* Sends n requests upstream. If they are the whole batch, the caller's requests are not copied. */
static void send_upstream(forward *f, const origin *from, size_t n, int64_t now_ns)
{
    hybrid *h = f->engine;
    bool whole = n == f->batch->len;
    size_t copied = whole ? 0 : n * sizeof(weir_engine_request);
    sub_batch *a = port_zalloc(1, sizeof *a + n * sizeof *from + copied);
    if (!a) {
        fail(f, from, n, now_ns);
        return;
    }
    origin *origins = (origin *)(void *)(a + 1);
    weir_engine_request *copies = whole ? NULL : (weir_engine_request *)(void *)(origins + n);
    *a = (sub_batch){.next = f->subs, .forward = f, .sent_ns = now_ns, .request = copies};
    a->origin = origins;
    for (size_t i = 0; i < n; i++) {
        a->origin[i] = from[i];
        if (copies)
            copies[i] = f->batch->request[from[i].index];
    }
    a->batch = (weir_engine_batch){.request = whole ? f->batch->request : copies,
                                   .len = n,
                                   .all = f->batch->all,
                                   .done = on_done};
    f->subs = a;
    if (h->upstream->calls->submit(h->upstream, &a->batch, now_ns))
        return_answers(a, now_ns);
    for (size_t i = 0; i < n; i++)
        lease_next(h, &from[i], f->batch->request[from[i].index].cost, now_ns);
}

void forward_send(forward *f, int64_t now_ns)
{
    if (f->to_send > 0)
        send_upstream(f, f->origin, f->to_send, now_ns);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void release(hybrid *h, weir_lease_slot *s, wait *w, int64_t now_ns)
{
    forward *f = w->forward;
    WEIR_ASSERT(w->slot == s);
    weir_engine_request *q = &f->batch->request[w->index];
    outcome o = hybrid_decide(h, s, q, now_ns);
    w->slot = NULL; /* a request waits at most once */
    if (o == OUTCOME_ANSWERED) {
        answered(f);
        return;
    }
    origin from = origin_of(q, s, w->index);
    send_upstream(f, &from, 1, now_ns);
}

void forward_release(hybrid *h, weir_lease_slot *s, int64_t now_ns)
{
    wait *first = NULL;
    while (s->waits) { /* the list has the latest first; answer the earliest first */
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

/* ---- abandoning ------------------------------------------------------------------------------ */

/* The requests that wait for an abandoned probe are decided again. */
static void abandon_sub(hybrid *h, sub_batch *a, int64_t now_ns)
{
    h->upstream->calls->abandon(h->upstream, &a->batch);
    for (size_t i = 0; i < a->batch.len; i++) {
        weir_lease_slot *s = slot_of(&a->origin[i]);
        if (!s || !a->origin[i].probe)
            continue;
        s->probes--;
        if (s->probes == 0)
            forward_release(h, s, now_ns);
    }
    port_free(a);
}

void forward_abandon(forward *f, int64_t now_ns)
{
    hybrid *h = f->engine;
    for (forward **at = &h->done; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            port_free(f);
            return;
        }
    for (size_t i = 0; i < f->batch->len; i++)
        if (f->wait[i].slot)
            end_wait(&f->wait[i]);
    while (f->subs) {
        sub_batch *a = f->subs;
        f->subs = a->next;
        abandon_sub(h, a, now_ns);
    }
    port_free(f);
    if (h->done)
        hybrid_deliver(h, now_ns);
}
