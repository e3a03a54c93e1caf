/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Dispatches a batch of requests by the engine of their policies. The local store decides its
 * requests at once. Each other engine gets its requests as one batch, and the completion waits for
 * all. */

#include "service/pending.h"

#include "core/algorithm.h"
#include "core/decision.h"

/* ---- answers --------------------------------------------------------------------------------- */

bool weir_dispatch_has_engine(const weir_service *s, const weir_completion *completion,
                              weir_engine_kind engine, weir_request *request)
{
    static const char *const absent[WEIR_ENGINES] = {
        [WEIR_ENGINE_REDIS] =
            "the policy's engine is redis, but no server is configured: add redis: with a "
            "url to weir.yaml",
        [WEIR_ENGINE_HYBRID] =
            "the policy's engine is hybrid, but no server is configured: add redis: with "
            "a url to weir.yaml",
    };
    WEIR_ASSERT(engine < WEIR_ENGINES);
    if (engine == WEIR_ENGINE_LOCAL || (completion && s->engine[engine]))
        return true;
    request->status = WEIR_E_UNSUPPORTED;
    request->why = absent[engine];
    return false;
}

void weir_dispatch_refuse(weir_request *request)
{
    request->status = WEIR_E_IO;
    request->why = "too many requests are waiting for the engine: try again later";
}

/* What an engine's answer says of weir_request.next_ns. */
static int64_t next_of(const weir_engine_request *q)
{
    bool of_one = q->cost == 1 && (q->verb == WEIR_VERB_TAKE || q->verb == WEIR_VERB_PEEK);
    if (weir_next_is_now(q->policy, &q->decision))
        return 0;
    return of_one && !q->decision.allowed ? q->decision.retry_after_ns : q->next_ns;
}

void weir_dispatch_read(const weir_engine_request *q, weir_request *request)
{
    request->status = q->status;
    if (q->status == WEIR_OK) {
        request->decision = q->decision;
        request->next_ns = next_of(q);
        request->figures = q->figures;
        if (q->verb == WEIR_VERB_CHARGE)
            request->over = q->cost - q->granted;
        if (request->decision.allowed)
            request->decision.retry_after_ns = 0;
        if (q->by_error)
            request->reason = WEIR_BY_ON_ERROR;
    } else if (q->reason) {
        request->why = q->reason;
    } else if (q->status == WEIR_E_IO) {
        request->why = "the policy's engine could not reach its server";
    } else if (q->status == WEIR_E_UNSUPPORTED && q->verb != WEIR_VERB_REFUND) {
        request->why = "the policy's engine does not support this policy";
    }
}

void weir_dispatch_copy(weir_request *to, const weir_request *from)
{
    to->status = from->status;
    to->decision = from->decision;
    to->reason = from->reason;
    to->next_ns = from->next_ns;
    to->figures = from->figures;
    to->over = from->over;
    to->policy = from->policy;
    to->answer = from->answer;
    to->why = from->why;
    to->error.column = 0;
    if (from->error.column > 0)
        to->error = from->error;
}

/* ---- batches --------------------------------------------------------------------------------- */

typedef struct batch {
    weir_service *service;
    weir_completion *completion;
    weir_request *requests;
    size_t n;
    int64_t now_ns;
    size_t remote, key_bytes;              /* of the requests that need an engine */
    weir_engine_kind with[WEIR_BATCH_MAX]; /* WEIR_ENGINES: answered already */
    weir_resolved at[WEIR_BATCH_MAX];
    weir_engine_request *query[WEIR_BATCH_MAX]; /* NULL: no engine is needed */
} batch;

static bool is_remote(const batch *b, size_t i)
{
    return b->with[i] != WEIR_ENGINE_LOCAL && b->with[i] != WEIR_ENGINES;
}

static void finish(batch *b, size_t i, weir_verb verb)
{
    weir_resolved_finish(&b->at[i], &b->requests[i]);
    if (verb == WEIR_VERB_TAKE)
        weir_resolved_count(b->service, &b->at[i], &b->requests[i], b->now_ns);
}

/* Fails the requests that need an engine, since there is no memory for them. */
static bool refuse(batch *b, weir_verb verb)
{
    for (size_t i = 0; i < b->n; i++) {
        if (!is_remote(b, i))
            continue;
        weir_dispatch_refuse(&b->requests[i]);
        finish(b, i, verb);
    }
    return true;
}

/* Sends the requests that need an engine. */
static bool query_engines(batch *b, weir_verb verb)
{
    weir_service *s = b->service;
    WEIR_ASSERT(b->remote >= 1 && b->remote <= b->n);
    weir_pending *p = weir_pending_open(s, b->n, b->key_bytes, b->now_ns);
    if (!p)
        return refuse(b, verb);
    for (size_t i = 0; i < b->n; i++)
        b->query[i] = NULL;
    for (int kind = WEIR_ENGINE_REDIS; kind < WEIR_ENGINES; kind++) {
        for (size_t i = 0; i < b->n; i++) {
            if ((int)b->with[i] != kind)
                continue;
            weir_pending_copy_key(p, &b->at[i]);
            b->query[i] =
                weir_pending_add(p, (weir_engine_kind)kind, verb, &b->requests[i], &b->at[i]);
        }
    }
    if (!weir_pending_submit(p, false, b->now_ns)) {
        for (size_t i = 0; i < b->n; i++)
            weir_pending_keep(p, &b->requests[i], &b->at[i], b->query[i]);
        weir_pending_wait(p, b->completion);
        return false;
    }
    for (size_t i = 0; i < b->n; i++) {
        if (!b->query[i])
            continue;
        weir_dispatch_read(b->query[i], &b->requests[i]);
        finish(b, i, verb);
    }
    if (verb == WEIR_VERB_TAKE)
        s->decided += b->remote;
    weir_pending_free(p);
    return true;
}

/* Copies the answers of engines, once they have arrived, to the repeated requests. */
static bool read_answers(weir_service *s, weir_completion *completion, weir_request *requests,
                         size_t n, int64_t now_ns)
{
    weir_pending *p = completion->pending;
    if (p->in_flight > 0)
        return false;
    WEIR_ASSERT(p->n == n);
    bool counts = p->query[0].verb == WEIR_VERB_TAKE;
    for (size_t i = 0; i < n; i++) {
        weir_pending_request *k = &p->kept[i];
        if (k->query) {
            weir_dispatch_read(k->query, &k->request);
            weir_resolved_finish(&k->at, &k->request);
        }
        if (k->query && counts)
            weir_resolved_count(s, &k->at, &k->request, now_ns);
        weir_dispatch_copy(&requests[i], &k->request);
    }
    if (counts)
        weir_service_record_latency(s, p->queries, p->answered_ns - p->opened_ns);
    weir_pending_finish(p);
    return true;
}

/* ---- takes and charges ----------------------------------------------------------------------- */

static void find(batch *b, size_t i, weir_verb verb)
{
    weir_service *s = b->service;
    weir_request *request = &b->requests[i];
    weir_resolved *at = &b->at[i];
    b->with[i] = WEIR_ENGINES;
    request->status = weir_resolve(s, request, &s->match[i], at);
    if (request->status != WEIR_OK)
        return;
    weir_engine_kind engine = weir_resolved_engine(s, at);
    if (verb == WEIR_VERB_CHARGE && !weir_policy_counts(request->policy)) {
        request->status = WEIR_E_RANGE;
        request->why = WEIR_NO_CHARGES;
    } else if (weir_resolved_is_listed(at)) {
        weir_resolved_decide_by_list(at, request);
    } else if (weir_dispatch_has_engine(s, b->completion, engine, request)) {
        b->with[i] = engine;
        b->remote += engine != WEIR_ENGINE_LOCAL;
        b->key_bytes += engine != WEIR_ENGINE_LOCAL ? at->key.len : 0;
    }
}

/* Decides the requests that need no engine, by their candidates too. */
static void decide_locally(batch *b)
{
    weir_store_request takes[WEIR_BATCH_MAX];
    size_t len = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (b->with[i] == WEIR_ENGINE_LOCAL)
            weir_resolved_fill(&takes[len++], &b->at[i], &b->requests[i]);
    }
    weir_store_check_batch(b->service->limiter->store, takes, len, b->now_ns);
    len = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (is_remote(b, i))
            continue;
        if (b->with[i] == WEIR_ENGINE_LOCAL) {
            b->requests[i].status = takes[len].status;
            b->requests[i].decision = takes[len++].decision;
        }
        finish(b, i, WEIR_VERB_TAKE);
    }
    WEIR_ASSERT(len + b->remote <= b->n);
    if (b->service->rules->candidates) /* all rules with a candidate have the local engine */
        weir_candidates_take(b->service, b->at, b->requests, b->n, b->now_ns);
    b->service->decided += b->n - b->remote;
}

/* Charges the requests that need no engine, and their candidates. */
static void charge_locally(batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        weir_request *r = &b->requests[i];
        const weir_resolved *at = &b->at[i];
        if (is_remote(b, i))
            continue;
        if (b->with[i] == WEIR_ENGINE_LOCAL)
            r->status =
                weir_store_charge(b->service->limiter->store, r->policy, at->policy_id, at->key.at,
                                  at->key.len, b->now_ns, r->cost, &r->decision, &r->over);
        if (b->with[i] == WEIR_ENGINE_LOCAL && r->status == WEIR_OK)
            weir_candidate_repeat(b->service, WEIR_VERB_CHARGE, at, r, b->now_ns);
        weir_resolved_finish(at, r);
    }
}

bool weir_dispatch_take(weir_service *s, weir_completion *completion, weir_verb verb,
                        weir_request *requests, size_t n, int64_t now_ns)
{
    if (completion && completion->pending)
        return read_answers(s, completion, requests, n, now_ns);
    batch b;
    b.service = s;
    b.completion = completion;
    b.requests = requests;
    b.n = n;
    b.now_ns = now_ns;
    b.remote = b.key_bytes = 0;
    for (size_t i = 0; i < n; i++)
        find(&b, i, verb);
    if (verb == WEIR_VERB_CHARGE)
        charge_locally(&b);
    else
        decide_locally(&b);
    return b.remote == 0 || query_engines(&b, verb);
}

/* ---- single requests ------------------------------------------------------------------------- */

bool weir_dispatch_one(weir_service *s, weir_completion *completion, weir_verb verb,
                       weir_request *request, int64_t now_ns, const weir_resolved *at)
{
    WEIR_ASSERT(verb != WEIR_VERB_TAKE);
    WEIR_ASSERT(!weir_resolved_is_listed(at) || verb == WEIR_VERB_RESET);
    weir_engine_kind engine = weir_resolved_engine(s, at);
    if (!weir_dispatch_has_engine(s, completion, engine, request))
        return true;
    batch b;
    b.service = s;
    b.completion = completion;
    b.requests = request;
    b.n = b.remote = 1;
    b.now_ns = now_ns;
    b.key_bytes = at->key.len;
    b.with[0] = engine;
    b.at[0] = *at;
    return query_engines(&b, verb);
}

bool weir_dispatch_answer(weir_service *s, weir_completion *completion, weir_request *request,
                          weir_resolved *ret_at)
{
    WEIR_ASSERT(completion->pending->n == 1);
    *ret_at = completion->pending->kept[0].at;
    return read_answers(s, completion, request, 1, 0);
}

/* ---- CL.THROTTLE ----------------------------------------------------------------------------- */

static void read_throttle(const weir_engine_request *q, weir_throttle_result *ret,
                          bool *ret_by_error)
{
    weir_request request = {0};
    weir_dispatch_read(q, &request);
    *ret = (weir_throttle_result){
        .status = q->status, .why = request.why, .numbers = WEIR_THROTTLE_OK};
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
    weir_request request = {.key = key};
    weir_resolved at = {.policy_id = s->limiter->throttle_id, .key = key};
    weir_engine_kind engine = s->default_engine;
    weir_pending *p = NULL;
    if (weir_dispatch_has_engine(s, completion, engine, &request)) {
        p = weir_pending_open(s, 1, key.len, now_ns);
        if (!p)
            weir_dispatch_refuse(&request);
    }
    if (!p) {
        *ret = (weir_throttle_result){
            .status = request.status, .why = request.why, .numbers = WEIR_THROTTLE_OK};
        return true;
    }
    weir_pending_copy_key(p, &at);
    weir_engine_request *q = weir_pending_add(p, engine, WEIR_VERB_THROTTLE, &request, &at);
    q->policy = &s->limiter->throttle_policy;
    q->throttle = *t;
    q->throttle_status = WEIR_THROTTLE_OK;
    if (!weir_pending_submit(p, false, now_ns)) {
        weir_pending_keep(p, &request, &at, q);
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
    if (p->in_flight > 0)
        return false;
    WEIR_ASSERT(p->n == 1 && p->queries == 1);
    read_throttle(p->kept[0].query, ret, ret_by_error);
    weir_service_record_latency(s, 1, p->answered_ns - p->opened_ns);
    weir_pending_finish(p);
    return true;
}
