/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Several asks as one: which of them the store must decide together, and whose figures stand for
 * all. */

#include "core/check.h"
#include "service/dispatch.h"

#include <assert.h>

_Static_assert(WEIR_ALL_MAX == WEIR_TAKE_MANY_MAX && WEIR_ALL_MAX <= WEIR_BATCH_MAX,
               "the store takes them at once, and there is a place for each key");

typedef struct all {
    weir_service *service;
    weir_completion *completion;
    weir_request *asks;
    size_t n;
    int64_t now_ns;
    weir_resolved at[WEIR_ALL_MAX];
} all;

/* Whether an ask may deny, or is to be charged with the others. */
static bool is_enforced(const all *a, size_t i)
{
    return !weir_resolved_is_listed(&a->at[i]) && !weir_resolved_is_shadow(&a->at[i]);
}

static weir_status first_failure(const all *a)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->asks[i].status != WEIR_OK)
            return a->asks[i].status;
    }
    return WEIR_OK;
}

/* The engine that the states of all are with, in *ret. Another one's asks are refused. */
static weir_status find_engine(all *a, weir_engine_kind *ret)
{
    weir_engine_kind engine = WEIR_ENGINES;
    *ret = WEIR_ENGINE_LOCAL;
    for (size_t i = 0; i < a->n; i++) {
        if (weir_resolved_is_listed(&a->at[i]))
            continue;
        weir_engine_kind own = weir_resolved_engine(a->service, &a->at[i]);
        if (engine == WEIR_ENGINES)
            engine = *ret = own;
        if (!weir_dispatch_has_engine(a->service, a->completion, own, &a->asks[i]))
            return a->asks[i].status;
        if (own == engine)
            continue;
        a->asks[i].status = WEIR_E_UNSUPPORTED;
        a->asks[i].why = "its policy has another engine than those before it: all must have the "
                         "same, or be asked for one by one";
        return WEIR_E_UNSUPPORTED;
    }
    return WEIR_OK;
}

static weir_status find_all(all *a, weir_engine_kind *ret_engine)
{
    for (size_t i = 0; i < a->n; i++)
        a->asks[i].status = weir_resolve(a->service, &a->asks[i], &a->service->seen[i], &a->at[i]);
    weir_status st = first_failure(a);
    return st == WEIR_OK ? find_engine(a, ret_engine) : st;
}

/* Answers those that are on lists. Returns the first that is denied by one, else n. */
static size_t decide_listed(all *a)
{
    size_t denied = a->n;
    for (size_t i = 0; i < a->n; i++) {
        if (!weir_resolved_is_listed(&a->at[i]))
            continue;
        weir_resolved_decide_by_list(&a->at[i], &a->asks[i]);
        if (!a->asks[i].decision.allowed && denied == a->n)
            denied = i;
    }
    return denied;
}

/* Takes those that are enforced. *ret_blocking: the one that denies, else n. */
static weir_status take_enforced(all *a, size_t *ret_blocking)
{
    weir_store_request requests[WEIR_ALL_MAX];
    size_t ask[WEIR_ALL_MAX], len = 0, blocking;
    *ret_blocking = a->n;
    for (size_t i = 0; i < a->n; i++) {
        if (!is_enforced(a, i))
            continue;
        ask[len] = i;
        weir_resolved_fill(&requests[len++], &a->at[i], &a->asks[i]);
    }
    if (len == 0)
        return WEIR_OK;
    weir_status st =
        weir_store_take_many(a->service->limiter->store, requests, len, a->now_ns, &blocking);
    for (size_t i = 0; i < len; i++) {
        a->asks[ask[i]].status = requests[i].status;
        if (st == WEIR_OK)
            a->asks[ask[i]].decision = requests[i].decision;
    }
    if (st == WEIR_OK && blocking < len)
        *ret_blocking = ask[blocking];
    return st;
}

typedef weir_status (*store_call)(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                  const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                                  weir_decision *ret);

static void ask_alone(all *a, size_t i, store_call call)
{
    weir_store_request r;
    weir_resolved_fill(&r, &a->at[i], &a->asks[i]);
    a->asks[i].status = call(a->service->limiter->store, r.policy, r.policy_id, r.key, r.key_len,
                             a->now_ns, r.cost, &a->asks[i].decision);
}

/* What take_enforced() did not answer, and no list.
 *  denied_by_list  then it was not called at all. */
static void ask_others(all *a, bool denied, bool denied_by_list)
{
    for (size_t i = 0; i < a->n; i++) {
        if (weir_resolved_is_shadow(&a->at[i]) && !weir_resolved_is_listed(&a->at[i]))
            ask_alone(a, i, denied ? weir_store_peek : weir_store_check);
        else if (denied_by_list && is_enforced(a, i))
            ask_alone(a, i, weir_store_peek);
    }
}

/* Of the requests that may deny, which are all allowed, the one whose figures weir_outranks() puts
 * first; the first request if none may deny. */
static size_t scarcest(const all *a)
{
    size_t least = a->n;
    for (size_t i = 0; i < a->n; i++) {
        const weir_decision *d = &a->asks[i].decision;
        if (is_enforced(a, i) && (least == a->n || weir_outranks(d, &a->asks[least].decision)))
            least = i;
    }
    return least < a->n ? least : 0;
}

static int64_t longest_delay(const all *a)
{
    int64_t longest_ns = 0;
    for (size_t i = 0; i < a->n; i++) {
        const weir_request *ask = &a->asks[i];
        if (ask->status == WEIR_OK && ask->decision.delay_ns > longest_ns)
            longest_ns = ask->decision.delay_ns;
    }
    return longest_ns;
}

static void count(all *a, size_t blocking)
{
    for (size_t i = 0; i < a->n; i++) {
        if (blocking == a->n || blocking == i)
            weir_resolved_count(a->service, &a->at[i], &a->asks[i], a->now_ns);
    }
}

static weir_status fail(all *a, weir_status st)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->asks[i].status != WEIR_OK)
            weir_resolved_count(a->service, &a->at[i], &a->asks[i], a->now_ns);
    }
    return st;
}

/* All are answered, and nothing has failed.
 *  blocking  the one that denies, else n. */
static void conclude(all *a, size_t blocking, weir_all_result *ret)
{
    for (size_t i = 0; i < a->n; i++)
        weir_resolved_finish(&a->at[i], &a->asks[i]);
    count(a, blocking);
    bool allowed = blocking == a->n;
    *ret = (weir_all_result){WEIR_OK, allowed, allowed ? scarcest(a) : blocking,
                             allowed ? longest_delay(a) : 0};
}

static void take_here(all *a, weir_all_result *ret)
{
    size_t listed = decide_listed(a), blocking = listed;
    weir_status st = WEIR_OK;
    a->service->decided++;
    if (listed == a->n)
        st = take_enforced(a, &blocking);
    if (st != WEIR_OK) {
        ret->status = fail(a, st);
        return;
    }
    ask_others(a, blocking < a->n, listed < a->n);
    conclude(a, blocking, ret);
}

/* ---- where an engine has the states ---------------------------------------------------------- */
/* The same in two steps, each a round that may have to be waited for: those that are enforced, as
 * one; then, knowing whether they are denied, the others, each by itself. What is known in between
 * is with the turn. */

enum { ENFORCED, OTHERS, DONE };

static weir_pending *begin_elsewhere(all *a, weir_engine_kind engine)
{
    size_t key_bytes = 0;
    for (size_t i = 0; i < a->n; i++)
        key_bytes += a->at[i].key.len;
    weir_pending *p = weir_pending_open(a->service, a->n, key_bytes, a->now_ns);
    if (!p) {
        weir_dispatch_refuse(&a->asks[0]);
        return NULL;
    }
    p->blocking = decide_listed(a);
    p->step = p->blocking == a->n ? ENFORCED : OTHERS;
    p->listed = p->blocking < a->n;
    p->failed = false;
    p->engine = engine;
    for (size_t i = 0; i < a->n; i++) {
        weir_pending_copy_key(p, &a->at[i]);
        weir_pending_keep(p, &a->asks[i], &a->at[i], NULL);
    }
    return p;
}

/* Asks what the step is for. Returns whether that is answered: so it is if there is nothing to
 * ask. */
static bool ask_step(all *a, weir_pending *p)
{
    weir_pending_next_step(p);
    for (size_t i = 0; i < a->n; i++) {
        bool denied = p->blocking < a->n, taken = is_enforced(a, i);
        bool wanted = p->step == ENFORCED ? taken : !taken || p->listed;
        weir_verb verb = p->step == OTHERS && denied ? WEIR_VERB_PEEK : WEIR_VERB_TAKE;
        if (wanted && !weir_resolved_is_listed(&a->at[i]))
            p->kept[i].request = weir_pending_add(p, p->engine, verb, &a->asks[i], &a->at[i]);
    }
    return weir_pending_submit(p, p->step == ENFORCED, a->now_ns);
}

/* Reads the answers to a step, and goes to the next. */
static void read_step(all *a, weir_pending *p)
{
    const weir_engine_batch *r = &p->asked[p->engine].round;
    for (size_t i = 0; i < a->n; i++) {
        const weir_engine_request *q = p->kept[i].request;
        if (!q)
            continue;
        weir_dispatch_read(q, &a->asks[i]);
        if (p->step == ENFORCED && r->blocking < r->len && q == &r->request[r->blocking])
            p->blocking = i;
    }
    p->failed = p->step == ENFORCED && first_failure(a) != WEIR_OK;
    p->step = p->failed ? DONE : p->step + 1;
}

/* Makes what the turn knows of the asks that of the caller's. */
static bool resume(all *a, weir_pending *p)
{
    if (p->left > 0)
        return false;
    assert(p->n == a->n);
    for (size_t i = 0; i < a->n; i++) {
        a->at[i] = p->kept[i].at;
        weir_dispatch_copy(&a->asks[i], &p->kept[i].ask);
    }
    read_step(a, p);
    return true;
}

static bool wait(all *a, weir_pending *p)
{
    for (size_t i = 0; i < a->n; i++)
        weir_dispatch_copy(&p->kept[i].ask, &a->asks[i]);
    if (!a->completion->pending)
        weir_pending_wait(p, a->completion);
    return false;
}

static bool take_elsewhere(all *a, weir_engine_kind engine, weir_all_result *ret)
{
    weir_pending *p = a->completion->pending;
    if (p && !resume(a, p))
        return false;
    if (!p)
        p = begin_elsewhere(a, engine);
    if (!p) {
        ret->status = fail(a, WEIR_E_IO);
        return true;
    }
    for (; p->step < DONE; read_step(a, p)) {
        if (!ask_step(a, p))
            return wait(a, p);
    }
    if (p->failed)
        ret->status = fail(a, first_failure(a));
    else
        conclude(a, p->blocking, ret);
    if (a->completion->pending) {
        weir_service_took(a->service, 1, p->answered_ns - p->asked_ns);
        weir_pending_finish(p);
    } else {
        a->service->decided++;
        weir_pending_free(p);
    }
    return true;
}

bool weir_service_take_all(weir_service *s, weir_completion *completion, weir_request *asks,
                           size_t n, int64_t now_ns, weir_all_result *ret)
{
    if (n < 1 || n > WEIR_ALL_MAX) {
        ret->status = WEIR_E_RANGE;
        return true;
    }
    all a = {.service = s, .completion = completion, .asks = asks, .n = n, .now_ns = now_ns};
    weir_engine_kind engine;
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    if (completion && completion->pending)
        return take_elsewhere(&a, completion->pending->engine, ret);
    weir_status st = find_all(&a, &engine);
    if (st == WEIR_OK && engine != WEIR_ENGINE_LOCAL)
        return take_elsewhere(&a, engine, ret);
    if (st == WEIR_OK) {
        take_here(&a, ret);
        return true;
    }
    s->decided++;
    ret->status = fail(&a, st);
    return true;
}
