/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Several asks as one: which of them the store must decide together, and whose figures stand for
 * all. */

#include "service/place.h"

_Static_assert(WEIR_ALL_MAX == WEIR_TAKE_MANY_MAX && WEIR_ALL_MAX <= WEIR_BATCH_MAX,
               "the store takes them at once, and there is a place for each key");

typedef struct all {
    weir_service *service;
    weir_ask *asks;
    size_t n;
    int64_t now_ns;
    weir_place at[WEIR_ALL_MAX];
} all;

/* Whether an ask may deny, or is to be charged with the others. */
static bool is_enforced(const all *a, size_t i)
{
    return !weir_place_is_listed(&a->at[i]) && !weir_place_is_shadow(&a->at[i]);
}

static weir_status first_failure(const all *a)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->asks[i].status != WEIR_OK)
            return a->asks[i].status;
    }
    return WEIR_OK;
}

static weir_status find_all(all *a)
{
    for (size_t i = 0; i < a->n; i++)
        a->asks[i].status =
            weir_place_find(a->service, &a->asks[i], &a->service->seen[i], &a->at[i]);
    return first_failure(a);
}

/* Answers those that are on lists. Returns the first that is denied by one, else n. */
static size_t decide_listed(all *a)
{
    size_t denied = a->n;
    for (size_t i = 0; i < a->n; i++) {
        if (!weir_place_is_listed(&a->at[i]))
            continue;
        weir_decide_by_list(&a->asks[i], a->at[i].seen->list == WEIR_ON_ALLOW_LIST);
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
        weir_place_ask(&requests[len++], &a->at[i], &a->asks[i]);
    }
    if (len == 0)
        return WEIR_OK;
    weir_status st =
        weir_store_take_many(a->service->hub->store, requests, len, a->now_ns, &blocking);
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
    weir_place_ask(&r, &a->at[i], &a->asks[i]);
    a->asks[i].status = call(a->service->hub->store, r.policy, r.policy_id, r.key, r.key_len,
                             a->now_ns, r.cost, &a->asks[i].decision);
}

/* What take_enforced() did not answer, and no list.
 *  denied_by_list  then it was not called at all. */
static void ask_others(all *a, bool denied, bool denied_by_list)
{
    for (size_t i = 0; i < a->n; i++) {
        if (weir_place_is_shadow(&a->at[i]) && !weir_place_is_listed(&a->at[i]))
            ask_alone(a, i, denied ? weir_store_peek : weir_store_check);
        else if (denied_by_list && is_enforced(a, i))
            ask_alone(a, i, weir_store_peek);
    }
}

/* The one with the least remaining of those that may deny; the first if there is none such. */
static size_t scarcest(const all *a)
{
    size_t least = a->n;
    for (size_t i = 0; i < a->n; i++) {
        bool less =
            least == a->n || a->asks[i].decision.remaining < a->asks[least].decision.remaining;
        if (is_enforced(a, i) && less)
            least = i;
    }
    return least < a->n ? least : 0;
}

static int64_t longest_delay(const all *a)
{
    int64_t longest_ns = 0;
    for (size_t i = 0; i < a->n; i++) {
        const weir_ask *ask = &a->asks[i];
        if (ask->status == WEIR_OK && ask->decision.delay_ns > longest_ns)
            longest_ns = ask->decision.delay_ns;
    }
    return longest_ns;
}

static void count(all *a, size_t blocking)
{
    for (size_t i = 0; i < a->n; i++) {
        if (blocking == a->n || blocking == i)
            weir_place_count(a->service, &a->at[i], &a->asks[i], a->now_ns);
    }
}

static weir_status fail(all *a, weir_status st)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->asks[i].status != WEIR_OK)
            weir_place_count(a->service, &a->at[i], &a->asks[i], a->now_ns);
    }
    return st;
}

weir_status weir_service_take_all(weir_service *s, weir_ask *asks, size_t n, int64_t now_ns,
                                  weir_all *ret)
{
    if (n < 1 || n > WEIR_ALL_MAX)
        return WEIR_E_RANGE;
    all a = {.service = s, .asks = asks, .n = n, .now_ns = now_ns};
    weir_service_refresh(s);
    weir_service_tick(s, now_ns);
    s->decided++;
    weir_status st = find_all(&a);
    if (st != WEIR_OK)
        return fail(&a, st);
    size_t listed = decide_listed(&a), blocking = listed;
    if (listed == n)
        st = take_enforced(&a, &blocking);
    if (st != WEIR_OK)
        return fail(&a, st);
    ask_others(&a, blocking < n, listed < n);
    for (size_t i = 0; i < n; i++)
        weir_place_finish(&a.at[i], &asks[i]);
    count(&a, blocking);
    bool allowed = blocking == n;
    *ret = (weir_all){allowed, allowed ? scarcest(&a) : blocking, allowed ? longest_delay(&a) : 0};
    return WEIR_OK;
}
