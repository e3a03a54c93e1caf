/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Pending requests. The queries to an engine, and all they point to, stay valid until it answers:
 * keys are copied, inline policies are pinned, and replaced rules keep a reference. */

#include "service/pending.h"

#include "core/decision.h"

#include <string.h>

/* Free lists of two sizes: most requests wait alone or in full batches. */
enum { FEW, MANY };
static const size_t sizes[] = {[FEW] = 4, [MANY] = WEIR_BATCH_MAX};
static const size_t free_max[] = {[FEW] = 256, [MANY] = 32};
enum { KEYS_KEPT = 4096 }; /* bytes; a larger buffer of keys is not kept in a free list */

static size_t bytes_of(size_t max, size_t keys_max)
{
    return sizeof(weir_pending) +
           max * (sizeof(weir_pending_request) + sizeof(weir_engine_request)) + keys_max;
}

static weir_pending *make(size_t max)
{
    weir_pending *p = port_zalloc(1, bytes_of(max, 0));
    if (!p)
        return NULL;
    p->max = max;
    p->kept = (weir_pending_request *)(p + 1);
    p->query = (weir_engine_request *)(p->kept + max);
    return p;
}

static bool reserve_keys(weir_pending *p, size_t key_bytes)
{
    if (key_bytes <= p->keys_max)
        return true;
    char *keys = port_zalloc(1, key_bytes);
    if (!keys)
        return false;
    port_free(p->keys);
    p->keys = keys;
    p->keys_max = key_bytes;
    return true;
}

weir_pending *weir_pending_open(weir_service *s, size_t n, size_t key_bytes, int64_t now_ns)
{
    weir_pending_pool *w = &s->pending;
    WEIR_ASSERT(n >= 1 && n <= WEIR_BATCH_MAX);
    int size = n <= sizes[FEW] ? FEW : MANY;
    if (w->bytes + bytes_of(sizes[size], key_bytes) > WEIR_SERVICE_PENDING_BYTES_MAX)
        return NULL;
    weir_pending *p = w->free[size];
    if (p) {
        w->free[size] = p->next;
        w->free_len[size]--;
    } else {
        p = make(sizes[size]);
    }
    if (!p)
        return NULL;
    WEIR_ASSERT(p->max == sizes[size] && !p->completion && !p->rules && p->in_flight == 0);
    p->service = s;
    p->opened_ns = p->answered_ns = now_ns;
    p->n = p->queries = p->keys_len = 0;
    for (int i = WEIR_ENGINE_REDIS; i < WEIR_ENGINES; i++)
        p->batches[i] = (weir_pending_batch){.pending = p};
    if (!reserve_keys(p, key_bytes)) {
        weir_pending_free(p);
        return NULL;
    }
    return p;
}

static void destroy(weir_pending *p)
{
    port_free(p->keys);
    port_free(p);
}

void weir_pending_free(weir_pending *p)
{
    weir_service *s = p->service;
    weir_pending_pool *w = &s->pending;
    WEIR_ASSERT(!p->completion && p->in_flight == 0);
    for (size_t i = 0; i < p->n; i++) {
        if (p->kept[i].pinned)
            weir_policy_cache_unpin(s->policies, p->kept[i].request.policy);
    }
    if (p->rules) {
        port_mutex_lock(s->limiter->lock);
        weir_rules_drop(p->rules);
        port_mutex_unlock(s->limiter->lock);
        p->rules = NULL;
    }
    int size = p->max == sizes[FEW] ? FEW : MANY;
    if (w->free_len[size] == free_max[size] || p->keys_max > KEYS_KEPT) {
        destroy(p);
        return;
    }
    p->next = w->free[size];
    w->free[size] = p;
    w->free_len[size]++;
}

/* ---- queries --------------------------------------------------------------------------------- */

void weir_pending_copy_key(weir_pending *p, weir_resolved *at)
{
    if (at->key.len == 0) /* of a reset of all keys */
        return;
    char *to = p->keys + p->keys_len;
    WEIR_ASSERT(p->keys_len + at->key.len <= p->keys_max);
    memcpy(to, at->key.at, at->key.len);
    p->keys_len += at->key.len;
    at->key.at = to;
}

/* Clears only those outputs that an engine does not always write. */
weir_engine_request *weir_pending_add(weir_pending *p, weir_engine_kind kind, weir_verb verb,
                                      const weir_request *request, const weir_resolved *at)
{
    weir_engine_batch *r = &p->batches[kind].batch;
    WEIR_ASSERT(p->queries < p->max);
    weir_engine_request *q = &p->query[p->queries++];
    if (r->len++ == 0)
        r->request = q;
    WEIR_ASSERT(kind != WEIR_ENGINE_LOCAL && &r->request[r->len - 1] == q);
    q->verb = verb;
    q->policy = request->policy;
    q->text = q->name = (weir_slice){"", 0};
    q->on_error = WEIR_ON_ERROR_DEFAULT;
    if (at->rule) {
        q->text = (weir_slice){at->limit->canonical, at->limit->canonical_len};
        q->name = (weir_slice){at->rule->name, at->rule->name_len};
        q->on_error = at->rule->options->on_error;
    } else if (request->policy) {
        q->text = weir_policy_cache_canonical(request->policy);
    }
    q->key = (weir_slice){at->key.at, at->key.len};
    q->policy_id = at->policy_id;
    q->cost = request->cost;
    q->keep = request->keep;
    q->with_figures = request->with_figures;
    q->next_ns = WEIR_NEXT_UNKNOWN;
    q->figures = WEIR_NO_FIGURES;
    q->by_error = false;
    q->reason = NULL;
    return q;
}

void weir_pending_keep(weir_pending *p, const weir_request *request, const weir_resolved *at,
                       weir_engine_request *query)
{
    WEIR_ASSERT(p->n < p->max);
    weir_pending_request *k = &p->kept[p->n++];
    k->request = *request;
    k->at = *at;
    k->query = query;
    k->pinned = request->by_text && request->status == WEIR_OK;
    if (k->pinned)
        weir_policy_cache_pin(request->policy);
}

static void on_done(weir_engine_batch *r, int64_t now_ns)
{
    weir_pending_batch *a = (weir_pending_batch *)r;
    weir_pending *p = a->pending;
    WEIR_ASSERT(a->in_flight && p->in_flight > 0);
    a->in_flight = false;
    if (--p->in_flight > 0)
        return;
    p->answered_ns = now_ns;
    p->completion->ready(p->completion->ctx);
}

bool weir_pending_submit(weir_pending *p, bool all, int64_t now_ns)
{
    WEIR_ASSERT(p->in_flight == 0);
    for (int i = WEIR_ENGINE_REDIS; i < WEIR_ENGINES; i++) {
        weir_pending_batch *a = &p->batches[i];
        if (a->batch.len == 0)
            continue;
        a->batch.all = all;
        a->batch.done = on_done;
        a->engine = p->service->engine[i];
        a->in_flight = !a->engine->calls->submit(a->engine, &a->batch, now_ns);
        p->in_flight += a->in_flight;
    }
    return p->in_flight == 0;
}

void weir_pending_next_step(weir_pending *p)
{
    WEIR_ASSERT(p->in_flight == 0);
    for (size_t i = 0; i < p->n; i++)
        p->kept[i].query = NULL;
    for (int i = WEIR_ENGINE_REDIS; i < WEIR_ENGINES; i++)
        p->batches[i].batch.len = 0;
}

/* ---- completions ----------------------------------------------------------------------------- */

void weir_pending_wait(weir_pending *p, weir_completion *completion)
{
    weir_pending_pool *w = &p->service->pending;
    WEIR_ASSERT(!completion->pending && p->in_flight > 0);
    p->completion = completion;
    completion->pending = p;
    p->previous = NULL;
    p->next = w->first;
    if (w->first)
        w->first->previous = p;
    w->first = p;
    w->bytes += bytes_of(p->max, p->keys_max);
}

static void stop_waiting(weir_pending *p)
{
    weir_pending_pool *w = &p->service->pending;
    WEIR_ASSERT(p->completion->pending == p);
    WEIR_ASSERT(w->bytes >= bytes_of(p->max, p->keys_max));
    if (p->previous)
        p->previous->next = p->next;
    else
        w->first = p->next;
    if (p->next)
        p->next->previous = p->previous;
    w->bytes -= bytes_of(p->max, p->keys_max);
    p->completion->pending = NULL;
    p->completion = NULL;
}

void weir_pending_finish(weir_pending *p)
{
    weir_pending_pool *w = &p->service->pending;
    WEIR_ASSERT(p->in_flight == 0 && !w->finished);
    stop_waiting(p);
    w->finished = p;
}

void weir_pending_collect(weir_service *s)
{
    weir_pending *p = s->pending.finished;
    s->pending.finished = NULL;
    if (p)
        weir_pending_free(p);
}

void weir_pending_keep_rules(weir_service *s)
{
    /* The latest come first. All after one that keeps its rules do so as well. */
    for (weir_pending *p = s->pending.first; p && !p->rules; p = p->next) {
        p->rules = s->rules;
        p->rules->refs++;
    }
}

void weir_pending_close(weir_service *s)
{
    weir_pending_pool *w = &s->pending;
    WEIR_ASSERT(!w->first);
    WEIR_ASSERT(w->bytes == 0);
    weir_pending_collect(s);
    for (int size = FEW; size <= MANY; size++) {
        while (w->free[size]) {
            weir_pending *p = w->free[size];
            w->free[size] = p->next;
            destroy(p);
        }
    }
}

bool weir_completion_is_pending(const weir_completion *c)
{
    return c->pending && c->pending->in_flight > 0;
}

size_t weir_completion_len(const weir_completion *c)
{
    return c->pending ? c->pending->n : 0;
}

void weir_completion_cancel(weir_completion *c)
{
    weir_pending *p = c->pending;
    if (!p)
        return;
    for (int i = WEIR_ENGINE_REDIS; i < WEIR_ENGINES; i++) {
        weir_pending_batch *a = &p->batches[i];
        if (a->in_flight)
            a->engine->calls->abandon(a->engine, &a->batch);
    }
    p->in_flight = 0;
    stop_waiting(p);
    weir_pending_free(p);
}
