/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A call is a batch in flight. It lives until its deadline, even if its sender has gone: the server
 * receives it all the same. */

#include "net.h"

#include <stdlib.h>
#include <string.h>

struct net_call {
    net_call *next;
    net_link *link;
    weir_engine_batch *batch;     /* NULL: answered, or abandoned */
    weir_engine_request *request; /* a copy */
    char (*key)[NET_KEY_MAX];     /* of the copy, since the sender may go */
    size_t len;
    int64_t decided_ns;
};

/* ---- the server ------------------------------------------------------------------------------ */

/* The largest cost up to n that would be allowed now. */
static int64_t allowed_of(net_server *s, const weir_engine_request *q, int64_t n)
{
    int64_t low = 0, high = n; /* low is 0 or allowed */
    weir_decision d;
    while (low < high) {
        int64_t middle = high - (high - low) / 2;
        bool good = weir_store_peek(s->store, q->policy, q->policy_id, q->key.at, q->key.len,
                                    s->world->now_ns, middle, &d) == WEIR_OK &&
                    d.allowed;
        if (good)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void grant(net_server *s, weir_engine_request *q)
{
    weir_decision d;
    q->granted = allowed_of(s, q, q->cost);
    if (q->granted > 0 && weir_store_check(s->store, q->policy, q->policy_id, q->key.at, q->key.len,
                                           s->world->now_ns, q->granted, &d) != WEIR_OK)
        abort();
    q->status = weir_store_peek(s->store, q->policy, q->policy_id, q->key.at, q->key.len,
                                s->world->now_ns, 1, &q->decision);
    if (q->granted > 0)
        s->charged(s->ctx, q, q->granted);
}

/* Times are whole us, rounded up, as a real server sends them. */
static void round_up(weir_decision *d)
{
    if (!d->never)
        d->retry_after_ns = (d->retry_after_ns + 999) / 1000 * 1000;
    d->reset_after_ns = (d->reset_after_ns + 999) / 1000 * 1000;
}

static void serve(net_server *s, weir_engine_request *q)
{
    int64_t now_ns = s->world->now_ns;
    weir_store *store = s->store;
    s->asked++;
    q->by_error = false;
    q->reason = NULL;
    switch (q->verb) {
    case WEIR_VERB_TAKE:
        q->status = weir_store_check(store, q->policy, q->policy_id, q->key.at, q->key.len, now_ns,
                                     q->cost, &q->decision);
        if (q->status == WEIR_OK && q->decision.allowed)
            s->charged(s->ctx, q, q->cost);
        break;
    case WEIR_VERB_PEEK:
        q->status = weir_store_peek(store, q->policy, q->policy_id, q->key.at, q->key.len, now_ns,
                                    q->cost, &q->decision);
        break;
    case WEIR_VERB_REFUND:
        q->status = weir_store_refund(store, q->policy, q->policy_id, q->key.at, q->key.len, now_ns,
                                      q->cost, &q->decision);
        s->charged(s->ctx, q, -q->cost);
        break;
    case WEIR_VERB_GRANT:
        grant(s, q);
        break;
    default:
        abort(); /* the simulation sends none */
    }
    if (q->status == WEIR_OK)
        round_up(&q->decision);
}

static void serve_call(net_call *c)
{
    net_server *s = c->link->server;
    c->decided_ns = s->world->now_ns;
    for (size_t i = 0; i < c->len; i++)
        serve(s, &c->request[i]);
}

/* ---- the network ----------------------------------------------------------------------------- */

static bool goes(net_link *l, unsigned lost)
{
    return !l->cut && !world_chance(l->server->world, lost);
}

static int64_t delay_ns(net_server *s)
{
    const net_faults *w = &s->faults;
    bool slow = world_chance(s->world, w->slow);
    return world_between(s->world, w->delay_ns_min, slow ? w->slow_ns_max : w->delay_ns_max);
}

/* Delivers the answers. */
static void fill(net_call *c)
{
    weir_engine_batch *r = c->batch;
    net_server *s = c->link->server;
    for (size_t i = 0; i < c->len; i++) {
        weir_engine_request *to = &r->request[i];
        const weir_engine_request *q = &c->request[i];
        to->status = q->status;
        to->decision = q->decision;
        to->granted = q->granted;
        to->by_error = q->by_error;
        to->reason = q->reason;
        if (q->verb == WEIR_VERB_TAKE && !q->by_error)
            s->decided(s->ctx, to->key.at, c->decided_ns);
    }
    c->batch = NULL;
}

static void give_up(net_call *c)
{
    for (size_t i = 0; i < c->len; i++) {
        weir_engine_request *q = &c->request[i];
        q->by_error = q->on_error != WEIR_ON_ERROR_REPORT;
        q->status = q->by_error ? WEIR_OK : WEIR_E_IO;
        q->decision = (weir_decision){.allowed = q->on_error == WEIR_ON_ERROR_OPEN,
                                      .retry_after_ns = 1000000000};
        q->reason = q->by_error ? NULL : "no answer";
        q->granted = 0;
    }
}

static void answer(net_call *c)
{
    weir_engine_batch *r = c->batch;
    net_link *l = c->link;
    fill(c);
    r->done(r, l->server->world->now_ns + l->offset_ns);
}

static void arrived_back(void *ctx, uint64_t arg)
{
    (void)arg;
    net_call *c = ctx;
    if (c->batch && !c->link->cut)
        answer(c);
}

static void arrived_there(void *ctx, uint64_t arg)
{
    (void)arg;
    net_call *c = ctx;
    net_server *s = c->link->server;
    if (c->link->cut)
        return;
    serve_call(c);
    if (goes(c->link, s->faults.lost_back))
        world_add(s->world, s->world->now_ns + delay_ns(s), arrived_back, c, 0);
}

static void over(void *ctx, uint64_t arg)
{
    (void)arg;
    net_call *c = ctx;
    if (c->batch) {
        give_up(c);
        answer(c);
    }
}

/* Longer than any message is in flight. */
static void forget(void *ctx, uint64_t arg)
{
    (void)arg;
    net_call *c = ctx;
    net_call **at = &c->link->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free(c->request);
    free(c->key);
    free(c);
}

static net_call *call_new(net_link *l, weir_engine_batch *r)
{
    net_call *c = calloc(1, sizeof *c);
    if (!c || !(c->request = malloc(r->len * sizeof *c->request)) ||
        !(c->key = calloc(r->len, sizeof *c->key)))
        abort();
    memcpy(c->request, r->request, r->len * sizeof *c->request);
    for (size_t i = 0; i < r->len; i++) {
        weir_engine_request *q = &c->request[i];
        memcpy(c->key[i], q->key.at, q->key.len);
        q->key.at = c->key[i];
        q->policy = l->server->policy;
    }
    c->link = l;
    c->batch = r;
    c->len = r->len;
    c->next = l->calls;
    l->calls = c;
    return c;
}

static bool ask(weir_engine *e, weir_engine_batch *r, int64_t now_ns)
{
    (void)now_ns;
    net_link *l = (net_link *)e;
    net_server *s = l->server;
    world *w = s->world;
    if (l->dead)
        return false;
    net_call *c = call_new(l, r);
    int64_t long_ns = 2 * s->faults.slow_ns_max + s->faults.deadline_ns;
    world_add(w, w->now_ns + long_ns + 1, forget, c, 0);
    if (l->cut && l->knows_cut) {
        give_up(c);
        fill(c);
        return true;
    }
    if (!l->cut && world_chance(w, s->faults.at_once)) {
        serve_call(c);
        fill(c);
        return true;
    }
    if (goes(l, s->faults.lost_there))
        world_add(w, w->now_ns + delay_ns(s), arrived_there, c, 0);
    world_add(w, w->now_ns + s->faults.deadline_ns, over, c, 0);
    return false;
}

static void abandon(weir_engine *e, weir_engine_batch *r)
{
    for (net_call *c = ((net_link *)e)->calls; c; c = c->next)
        if (c->batch == r)
            c->batch = NULL;
}

static void close_link(weir_engine *e)
{
    (void)e;
}

static const weir_engine_calls calls = {ask, abandon, close_link};

void net_link_init(net_link *l, net_server *s, int64_t offset_ns)
{
    *l = (net_link){.face = {&calls}, .server = s, .offset_ns = offset_ns};
}
