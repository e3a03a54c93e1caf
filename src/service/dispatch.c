/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Asks whose states are with engines: those of a batch that the store can decide are decided at
 * once, the others go as one round to each engine, and the turn waits for all of them. */

#include "service/dispatch.h"

#include <assert.h>

/* ---- answers --------------------------------------------------------------------------------- */

bool weir_dispatch_has_engine(const weir_service *s, const weir_completion *completion,
                              weir_engine_kind engine, weir_request *ask)
{
    static const char *const absent[WEIR_ENGINES] = {
        [WEIR_ENGINE_REDIS] = "the policy's engine is redis, which is not there: weir.yaml needs "
                              "redis: with a url",
        [WEIR_ENGINE_HYBRID] = "the policy's engine is hybrid, which is not there: weir.yaml needs "
                               "redis: with a url",
    };
    if (engine == WEIR_ENGINE_LOCAL || (completion && s->engine[engine]))
        return true;
    ask->status = WEIR_E_UNSUPPORTED;
    ask->why = absent[engine];
    return false;
}

void weir_dispatch_refuse(weir_request *ask)
{
    ask->status = WEIR_E_IO;
    ask->why = "too many decisions wait for the engine, and there is no room for more; try again";
}

void weir_dispatch_read(const weir_engine_request *q, weir_request *ask)
{
    ask->status = q->status;
    if (q->status == WEIR_OK) {
        ask->decision = q->decision;
        if (q->by_error)
            ask->reason = WEIR_BY_ON_ERROR;
    } else if (q->reason) {
        ask->why = q->reason;
    } else if (q->status == WEIR_E_IO) {
        ask->why = "the policy's engine could not be asked";
    } else if (q->status == WEIR_E_UNSUPPORTED && q->verb != WEIR_VERB_REFUND) {
        ask->why = "the policy's engine cannot decide by this policy";
    }
}

void weir_dispatch_copy(weir_request *to, const weir_request *from)
{
    to->status = from->status;
    to->decision = from->decision;
    to->reason = from->reason;
    to->policy = from->policy;
    to->why = from->why;
    to->error.column = 0;
    if (from->error.column > 0)
        to->error = from->error;
}

/* ---- asking ---------------------------------------------------------------------------------- */

typedef struct batch {
    weir_service *service;
    weir_completion *completion;
    weir_request *asks;
    size_t n;
    int64_t now_ns;
    size_t remote, key_bytes;              /* asks that engines are asked about, and their keys */
    weir_engine_kind with[WEIR_BATCH_MAX]; /* WEIR_ENGINES: it is answered */
    weir_resolved at[WEIR_BATCH_MAX];
    weir_engine_request *request[WEIR_BATCH_MAX]; /* NULL: it needs none */
} batch;

static bool is_remote(const batch *b, size_t i)
{
    return b->with[i] != WEIR_ENGINE_LOCAL && b->with[i] != WEIR_ENGINES;
}

static void answer(batch *b, size_t i, weir_verb verb)
{
    weir_resolved_finish(&b->at[i], &b->asks[i]);
    if (verb == WEIR_VERB_TAKE)
        weir_resolved_count(b->service, &b->at[i], &b->asks[i], b->now_ns);
}

/* There was no room to ask. */
static bool refuse(batch *b, weir_verb verb)
{
    for (size_t i = 0; i < b->n; i++) {
        if (!is_remote(b, i))
            continue;
        weir_dispatch_refuse(&b->asks[i]);
        answer(b, i, verb);
    }
    return true;
}

/* Asks the engines about those that are with them. */
static bool ask_engines(batch *b, weir_verb verb)
{
    weir_service *s = b->service;
    weir_pending *p = weir_pending_open(s, b->n, b->key_bytes, b->now_ns);
    if (!p)
        return refuse(b, verb);
    for (size_t i = 0; i < b->n; i++)
        b->request[i] = NULL;
    for (int kind = WEIR_ENGINE_LOCAL + 1; kind < WEIR_ENGINES; kind++) {
        for (size_t i = 0; i < b->n; i++) {
            if ((int)b->with[i] != kind)
                continue;
            weir_pending_copy_key(p, &b->at[i]);
            b->request[i] =
                weir_pending_add(p, (weir_engine_kind)kind, verb, &b->asks[i], &b->at[i]);
        }
    }
    if (!weir_pending_submit(p, false, b->now_ns)) {
        for (size_t i = 0; i < b->n; i++)
            weir_pending_keep(p, &b->asks[i], &b->at[i], b->request[i]);
        weir_pending_wait(p, b->completion);
        return false;
    }
    for (size_t i = 0; i < b->n; i++) {
        if (!b->request[i])
            continue;
        weir_dispatch_read(b->request[i], &b->asks[i]);
        answer(b, i, verb);
    }
    if (verb == WEIR_VERB_TAKE)
        s->decided += b->remote;
    weir_pending_free(p);
    return true;
}

/* The answers are there: they become those of the asks, in order. */
static bool take_up(weir_service *s, weir_completion *completion, weir_request *asks, size_t n,
                    int64_t now_ns)
{
    weir_pending *p = completion->pending;
    if (p->left > 0)
        return false;
    assert(p->n == n);
    bool takes = p->request[0].verb == WEIR_VERB_TAKE;
    for (size_t i = 0; i < n; i++) {
        weir_pending_request *k = &p->kept[i];
        if (k->request) {
            weir_dispatch_read(k->request, &k->ask);
            weir_resolved_finish(&k->at, &k->ask);
        }
        if (k->request && takes)
            weir_resolved_count(s, &k->at, &k->ask, now_ns);
        weir_dispatch_copy(&asks[i], &k->ask);
    }
    if (takes)
        weir_service_took(s, p->requests, p->answered_ns - p->asked_ns);
    weir_pending_finish(p);
    return true;
}

/* ---- takes ----------------------------------------------------------------------------------- */

static void find(batch *b, size_t i)
{
    weir_service *s = b->service;
    weir_request *ask = &b->asks[i];
    weir_resolved *at = &b->at[i];
    b->with[i] = WEIR_ENGINES;
    ask->status = weir_resolve(s, ask, &s->seen[i], at);
    if (ask->status != WEIR_OK)
        return;
    weir_engine_kind engine = weir_resolved_engine(s, at);
    if (weir_resolved_is_listed(at)) {
        weir_resolved_decide_by_list(at, ask);
    } else if (weir_dispatch_has_engine(s, b->completion, engine, ask)) {
        b->with[i] = engine;
        b->remote += engine != WEIR_ENGINE_LOCAL;
        b->key_bytes += engine != WEIR_ENGINE_LOCAL ? at->key.len : 0;
    }
}

/* Decides those that need no engine. */
static void decide_here(batch *b)
{
    weir_store_request requests[WEIR_BATCH_MAX];
    size_t len = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (b->with[i] == WEIR_ENGINE_LOCAL)
            weir_resolved_fill(&requests[len++], &b->at[i], &b->asks[i]);
    }
    weir_store_check_batch(b->service->limiter->store, requests, len, b->now_ns);
    len = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (is_remote(b, i))
            continue;
        if (b->with[i] == WEIR_ENGINE_LOCAL) {
            b->asks[i].status = requests[len].status;
            b->asks[i].decision = requests[len++].decision;
        }
        answer(b, i, WEIR_VERB_TAKE);
    }
    b->service->decided += b->n - b->remote;
}

bool weir_dispatch_take(weir_service *s, weir_completion *completion, weir_request *asks, size_t n,
                        int64_t now_ns)
{
    if (completion && completion->pending)
        return take_up(s, completion, asks, n, now_ns);
    batch b;
    b.service = s;
    b.completion = completion;
    b.asks = asks;
    b.n = n;
    b.now_ns = now_ns;
    b.remote = b.key_bytes = 0;
    for (size_t i = 0; i < n; i++)
        find(&b, i);
    decide_here(&b);
    return b.remote == 0 || ask_engines(&b, WEIR_VERB_TAKE);
}

/* ---- one ask alone --------------------------------------------------------------------------- */

bool weir_dispatch_one(weir_service *s, weir_completion *completion, weir_verb verb,
                       weir_request *ask, int64_t now_ns, const weir_resolved *at)
{
    weir_engine_kind engine = weir_resolved_engine(s, at);
    if (!weir_dispatch_has_engine(s, completion, engine, ask))
        return true;
    batch b;
    b.service = s;
    b.completion = completion;
    b.asks = ask;
    b.n = b.remote = 1;
    b.now_ns = now_ns;
    b.key_bytes = at->key.len;
    b.with[0] = engine;
    b.at[0] = *at;
    return ask_engines(&b, verb);
}

bool weir_dispatch_answer(weir_service *s, weir_completion *completion, weir_request *ask,
                          weir_resolved *ret_at)
{
    *ret_at = completion->pending->kept[0].at;
    return take_up(s, completion, ask, 1, 0);
}

/* ---- CL.THROTTLE ----------------------------------------------------------------------------- */

static void read_throttle(const weir_engine_request *q, weir_throttle_result *ret,
                          bool *ret_by_error)
{
    weir_request ask = {0};
    weir_dispatch_read(q, &ask);
    *ret = (weir_throttle_result){.status = q->status, .why = ask.why, .numbers = WEIR_THROTTLE_OK};
    if (q->status == WEIR_OK)
        ret->answer = q->answer;
    else if (q->status == WEIR_E_RANGE)
        ret->numbers = q->throttle_status;
    *ret_by_error = q->by_error;
}

static bool ask_throttle(weir_service *s, weir_completion *completion, const weir_throttle *t,
                         weir_slice key, int64_t now_ns, weir_throttle_result *ret,
                         bool *ret_by_error)
{
    weir_request ask = {.key = key};
    weir_resolved at = {.policy_id = s->limiter->throttle_id, .key = key};
    weir_engine_kind engine = s->engine_of_texts;
    weir_pending *p = NULL;
    if (weir_dispatch_has_engine(s, completion, engine, &ask)) {
        p = weir_pending_open(s, 1, key.len, now_ns);
        if (!p)
            weir_dispatch_refuse(&ask);
    }
    if (!p) {
        *ret = (weir_throttle_result){
            .status = ask.status, .why = ask.why, .numbers = WEIR_THROTTLE_OK};
        return true;
    }
    weir_pending_copy_key(p, &at);
    weir_engine_request *q = weir_pending_add(p, engine, WEIR_VERB_THROTTLE, &ask, &at);
    q->policy = &s->limiter->throttle_policy;
    q->throttle = *t;
    q->throttle_status = WEIR_THROTTLE_OK;
    if (!weir_pending_submit(p, false, now_ns)) {
        weir_pending_keep(p, &ask, &at, q);
        weir_pending_wait(p, completion);
        return false;
    }
    read_throttle(q, ret, ret_by_error);
    s->decided++;
    weir_pending_free(p);
    return true;
}

bool weir_dispatch_throttle(weir_service *s, weir_completion *completion, const weir_throttle *t,
                            weir_slice key, int64_t now_ns, weir_throttle_result *ret,
                            bool *ret_by_error)
{
    weir_pending *p = completion ? completion->pending : NULL;
    if (!p) {
        if (key.len >= 1 && key.len <= WEIR_KEY_MAX)
            return ask_throttle(s, completion, t, key, now_ns, ret, ret_by_error);
        ret->status = WEIR_E_RANGE;
        return true;
    }
    if (p->left > 0)
        return false;
    read_throttle(p->kept[0].request, ret, ret_by_error);
    weir_service_took(s, 1, p->answered_ns - p->asked_ns);
    weir_pending_finish(p);
    return true;
}
