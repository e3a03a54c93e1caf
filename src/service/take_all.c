/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Atomic takes of several requests: which requests are decided together, and which request's
 * decision represents all. */

#include "core/check.h"
#include "service/pending.h"
#include "service/service.h"

_Static_assert(WEIR_ALL_MAX == WEIR_TAKE_MANY_MAX && WEIR_ALL_MAX <= WEIR_BATCH_MAX,
               "the store takes all at once, and the service has a match for each key");

typedef struct all {
    weir_service *service;
    weir_completion *completion;
    weir_request *requests;
    size_t n;
    int64_t now_ns;
    weir_resolved at[WEIR_ALL_MAX];
} all;

/* Whether a request can deny the call. Enforced requests are charged together. */
static bool is_enforced(const all *a, size_t i)
{
    return !weir_resolved_is_listed(&a->at[i]) && !weir_resolved_is_shadow(&a->at[i]);
}

static weir_status first_failure(const all *a)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->requests[i].status != WEIR_OK)
            return a->requests[i].status;
    }
    return WEIR_OK;
}

/* Finds the engine that keeps all states. Refuses a request with another engine.
 *  ret  written unless lists decide all requests. */
static weir_status find_engine(all *a, weir_engine_kind *ret)
{
    weir_engine_kind engine = WEIR_ENGINES;
    for (size_t i = 0; i < a->n; i++) {
        if (weir_resolved_is_listed(&a->at[i]))
            continue;
        weir_engine_kind own = weir_resolved_engine(a->service, &a->at[i]);
        if (engine == WEIR_ENGINES)
            engine = *ret = own;
        if (!weir_dispatch_has_engine(a->service, a->completion, own, &a->requests[i]))
            return a->requests[i].status;
        if (own == engine)
            continue;
        a->requests[i].status = WEIR_E_UNSUPPORTED;
        a->requests[i].why = "its policy has another engine than the policies before it: use one "
                             "engine for all, or separate requests";
        return WEIR_E_UNSUPPORTED;
    }
    return WEIR_OK;
}

static weir_status find_all(all *a, weir_engine_kind *ret_engine)
{
    for (size_t i = 0; i < a->n; i++)
        a->requests[i].status =
            weir_resolve(a->service, &a->requests[i], &a->service->match[i], &a->at[i]);
    weir_status st = first_failure(a);
    return st == WEIR_OK ? find_engine(a, ret_engine) : st;
}

/* Decides the requests with keys on lists. Returns the first one that is denied, else n. */
static size_t decide_listed(all *a)
{
    size_t denied = a->n;
    for (size_t i = 0; i < a->n; i++) {
        if (!weir_resolved_is_listed(&a->at[i]))
            continue;
        weir_resolved_decide_by_list(&a->at[i], &a->requests[i]);
        if (!a->requests[i].decision.allowed && denied == a->n)
            denied = i;
    }
    return denied;
}

/* Takes the enforced requests atomically.
 *  ret_blocking  the request that denies, else n. */
static weir_status take_enforced(all *a, size_t *ret_blocking)
{
    weir_store_request takes[WEIR_ALL_MAX];
    size_t request[WEIR_ALL_MAX], len = 0, blocking;
    *ret_blocking = a->n;
    for (size_t i = 0; i < a->n; i++) {
        if (!is_enforced(a, i))
            continue;
        request[len] = i;
        weir_resolved_fill(&takes[len++], &a->at[i], &a->requests[i]);
    }
    if (len == 0)
        return WEIR_OK;
    weir_status st =
        weir_store_take_many(a->service->limiter->store, takes, len, a->now_ns, &blocking);
    for (size_t i = 0; i < len; i++) {
        a->requests[request[i]].status = takes[i].status;
        if (st == WEIR_OK)
            a->requests[request[i]].decision = takes[i].decision;
    }
    if (st == WEIR_OK && blocking < len)
        *ret_blocking = request[blocking];
    return st;
}

typedef weir_status (*store_call)(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                  const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                                  int64_t keep, weir_decision *ret);

static void run_alone(all *a, size_t i, store_call call)
{
    weir_store_request r;
    weir_resolved_fill(&r, &a->at[i], &a->requests[i]);
    a->requests[i].status = call(a->service->limiter->store, r.policy, r.policy_id, r.key,
                                 r.key_len, a->now_ns, r.cost, r.keep, &a->requests[i].decision);
}

/* Decides the other requests one by one: those in shadow, and the enforced ones if a list denied
 * the whole, since take_enforced() was not called then. */
static void decide_others(all *a, bool denied, bool denied_by_list)
{
    for (size_t i = 0; i < a->n; i++) {
        if (weir_resolved_is_shadow(&a->at[i]) && !weir_resolved_is_listed(&a->at[i]))
            run_alone(a, i, denied ? weir_store_peek_keep : weir_store_check_keep);
        else if (denied_by_list && is_enforced(a, i))
            run_alone(a, i, weir_store_peek_keep);
    }
}

/* Returns the enforced request that weir_outranks() puts first; request 0 if none is enforced. All
 * are allowed. */
static size_t scarcest(const all *a)
{
    size_t least = a->n;
    for (size_t i = 0; i < a->n; i++) {
        const weir_decision *d = &a->requests[i].decision;
        if (is_enforced(a, i) && (least == a->n || weir_outranks(d, &a->requests[least].decision)))
            least = i;
    }
    return least < a->n ? least : 0;
}

static int64_t longest_delay(const all *a)
{
    int64_t longest_ns = 0;
    for (size_t i = 0; i < a->n; i++) {
        const weir_request *request = &a->requests[i];
        if (request->status == WEIR_OK && request->decision.delay_ns > longest_ns)
            longest_ns = request->decision.delay_ns;
    }
    return longest_ns;
}

/* Counts all requests of an allowed call, and only the blocking one of a denied call. Candidates
 * decide the same requests, each alone. */
static void count(all *a, size_t blocking)
{
    size_t first = blocking == a->n ? 0 : blocking, n = blocking == a->n ? a->n : 1;
    for (size_t i = first; i < first + n; i++)
        weir_resolved_count(a->service, &a->at[i], &a->requests[i], a->now_ns);
    if (a->service->rules->candidates)
        weir_candidates_take(a->service, &a->at[first], &a->requests[first], n, a->now_ns);
}

static weir_status fail(all *a, weir_status st)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->requests[i].status != WEIR_OK)
            weir_resolved_count(a->service, &a->at[i], &a->requests[i], a->now_ns);
    }
    return st;
}

/* Writes the joint answer, once all requests are decided.
 *  blocking  the request that denies, else n. */
static void conclude(all *a, size_t blocking, weir_all_result *ret)
{
    WEIR_ASSERT(blocking <= a->n);
    for (size_t i = 0; i < a->n; i++)
        weir_resolved_finish(&a->at[i], &a->requests[i]);
    count(a, blocking);
    bool allowed = blocking == a->n;
    *ret = (weir_all_result){WEIR_OK, allowed, allowed ? scarcest(a) : blocking,
                             allowed ? longest_delay(a) : 0};
}

static void take_locally(all *a, weir_all_result *ret)
{
    size_t listed = decide_listed(a), blocking = listed;
    WEIR_ASSERT(a->n >= 1 && a->n <= WEIR_ALL_MAX);
    weir_status st = WEIR_OK;
    a->service->decided++;
    if (listed == a->n)
        st = take_enforced(a, &blocking);
    if (st != WEIR_OK) {
        ret->status = fail(a, st);
        return;
    }
    decide_others(a, blocking < a->n, listed < a->n);
    conclude(a, blocking, ret);
}

/* ---- takes by an engine ---------------------------------------------------------------------- */
/* An engine decides in two steps, each of which may have to wait for it. The first step takes the
 * enforced requests atomically. The second decides the others one by one, and depends on whether
 * the first one denied. weir_pending keeps the state in between. */

enum { ENFORCED, OTHERS, DONE };

static weir_pending *begin_remote(all *a, weir_engine_kind engine)
{
    size_t key_bytes = 0;
    for (size_t i = 0; i < a->n; i++)
        key_bytes += a->at[i].key.len;
    weir_pending *p = weir_pending_open(a->service, a->n, key_bytes, a->now_ns);
    if (!p) {
        weir_dispatch_refuse(&a->requests[0]);
        return NULL;
    }
    p->blocking = decide_listed(a);
    p->step = p->blocking == a->n ? ENFORCED : OTHERS;
    p->listed = p->blocking < a->n;
    p->engine = engine;
    for (size_t i = 0; i < a->n; i++) {
        weir_pending_copy_key(p, &a->at[i]);
        weir_pending_keep(p, &a->requests[i], &a->at[i], NULL);
    }
    return p;
}

/* Submits the queries of a step. Returns whether they are answered now. */
static bool submit_step(all *a, weir_pending *p)
{
    WEIR_ASSERT(p->n == a->n && (p->step == ENFORCED || p->step == OTHERS));
    weir_pending_next_step(p);
    for (size_t i = 0; i < a->n; i++) {
        bool denied = p->blocking < a->n, taken = is_enforced(a, i);
        bool needed = p->step == ENFORCED ? taken : !taken || p->listed;
        weir_verb verb = p->step == OTHERS && denied ? WEIR_VERB_PEEK : WEIR_VERB_TAKE;
        if (needed && !weir_resolved_is_listed(&a->at[i]))
            p->kept[i].query = weir_pending_add(p, p->engine, verb, &a->requests[i], &a->at[i]);
    }
    return weir_pending_submit(p, p->step == ENFORCED, a->now_ns);
}

/* Reads the answers to a step, and advances to the next step. */
static void read_step(all *a, weir_pending *p)
{
    WEIR_ASSERT(p->in_flight == 0 && p->step < DONE);
    const weir_engine_batch *r = &p->batches[p->engine].batch;
    for (size_t i = 0; i < a->n; i++) {
        const weir_engine_request *q = p->kept[i].query;
        if (!q)
            continue;
        weir_dispatch_read(q, &a->requests[i]);
        if (p->step == ENFORCED && r->blocking < r->len && q == &r->request[r->blocking])
            p->blocking = i;
    }
    p->failed = p->step == ENFORCED && first_failure(a) != WEIR_OK;
    p->step = p->failed ? DONE : p->step + 1;
}

/* Restores the state of the pending requests, once the answers have arrived. */
static bool resume(all *a, weir_pending *p)
{
    if (p->in_flight > 0)
        return false;
    WEIR_ASSERT(p->n == a->n);
    for (size_t i = 0; i < a->n; i++) {
        a->at[i] = p->kept[i].at;
        weir_dispatch_copy(&a->requests[i], &p->kept[i].request);
    }
    read_step(a, p);
    return true;
}

static bool wait(all *a, weir_pending *p)
{
    for (size_t i = 0; i < a->n; i++)
        weir_dispatch_copy(&p->kept[i].request, &a->requests[i]);
    if (!a->completion->pending)
        weir_pending_wait(p, a->completion);
    return false;
}

static bool take_remotely(all *a, weir_engine_kind engine, weir_all_result *ret)
{
    weir_pending *p = a->completion->pending;
    if (p && !resume(a, p))
        return false;
    if (!p)
        p = begin_remote(a, engine);
    if (!p) {
        ret->status = fail(a, WEIR_E_IO);
        return true;
    }
    for (; p->step < DONE; read_step(a, p)) {
        if (!submit_step(a, p))
            return wait(a, p);
    }
    if (p->failed)
        ret->status = fail(a, first_failure(a));
    else
        conclude(a, p->blocking, ret);
    if (a->completion->pending) {
        weir_service_record_latency(a->service, 1, p->answered_ns - p->opened_ns);
        weir_pending_finish(p);
    } else {
        a->service->decided++;
        weir_pending_free(p);
    }
    return true;
}

bool weir_service_take_all(weir_service *s, weir_completion *completion, weir_request *requests,
                           size_t n, int64_t now_ns, weir_all_result *ret)
{
    if (n < 1 || n > WEIR_ALL_MAX) {
        ret->status = WEIR_E_RANGE;
        return true;
    }
    all a = {
        .service = s, .completion = completion, .requests = requests, .n = n, .now_ns = now_ns};
    weir_engine_kind engine = WEIR_ENGINE_LOCAL;
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    if (completion && completion->pending)
        return take_remotely(&a, completion->pending->engine, ret);
    weir_status st = find_all(&a, &engine);
    if (st == WEIR_OK && engine != WEIR_ENGINE_LOCAL)
        return take_remotely(&a, engine, ret);
    if (st == WEIR_OK) {
        take_locally(&a, ret);
        return true;
    }
    s->decided++;
    ret->status = fail(&a, st);
    return true;
}
