/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* weir_store_take_many(): decides several requests as one transaction. It locks the buckets of all
 * small states and decides on them, then locks the stripes of all large states and decides on them.
 * Then it commits everything or rolls everything back. */

#include "store/store.h"

#include "core/check.h"
#include "port/assert.h"

/* One of the requests. */
typedef struct one {
    weir_store_request *request;
    uint64_t hash;
    bool large;
    weir_decision alone;  /* the decision for this request alone */
    weir_charge together; /* the decision after the requests before it */
    weir_status status;
} one;

typedef struct transaction {
    weir_store *store;
    one ones[WEIR_TAKE_MANY_MAX];
    size_t len;
    size_t stripes[WEIR_TAKE_MANY_MAX], stripes_len; /* ascending: the order of locking */
    int64_t now_ns;
    bool committed;
} transaction;

/* Peeks, then charges. */
static weir_status decide(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                          int64_t now_ns, weir_usage *ret_usage)
{
    one *o = ctx;
    weir_status st = weir_peek(p, state, level, now_ns, o->together.cost, &o->alone);
    if (st == WEIR_OK)
        st = weir_check_state(&o->together, p, state, level, now_ns, ret_usage);
    return st;
}

/* ---- large states ---------------------------------------------------------------------------- */

static void add_stripe(transaction *t, size_t stripe)
{
    size_t to = t->stripes_len;
    while (to > 0 && t->stripes[to - 1] > stripe)
        to--;
    if (to > 0 && t->stripes[to - 1] == stripe)
        return;
    WEIR_ASSERT(t->stripes_len < WEIR_TAKE_MANY_MAX);
    for (size_t i = t->stripes_len++; i > to; i--)
        t->stripes[i] = t->stripes[i - 1];
    t->stripes[to] = stripe;
}

static void try_large(transaction *t)
{
    for (size_t i = 0; i < t->stripes_len; i++)
        weir_large_lock(t->store->large, t->stripes[i]);
    for (size_t i = 0; i < t->len; i++) {
        one *o = &t->ones[i];
        if (!o->large)
            continue;
        const weir_large_call call = {.policy = o->request->policy,
                                      .hash = o->hash,
                                      .now_ns = weir_table_now(t->store->table, t->now_ns),
                                      .fn = decide,
                                      .ctx = o,
                                      .when_full = t->store->when_full};
        o->status = weir_large_try(t->store->large, &call);
    }
}

static bool all_allowed(const transaction *t)
{
    for (size_t i = 0; i < t->len; i++) {
        if (t->ones[i].status != WEIR_OK || !t->ones[i].together.decision.allowed)
            return false;
    }
    return true;
}

static void end_large(transaction *t, bool commit)
{
    for (size_t i = 0; i < t->stripes_len; i++) {
        if (commit)
            weir_large_commit(t->store->large, t->stripes[i]);
        else
            weir_large_roll_back(t->store->large, t->stripes[i]);
    }
    for (size_t i = t->stripes_len; i-- > 0;)
        weir_large_unlock(t->store->large, t->stripes[i]);
}

/* ---- small states ---------------------------------------------------------------------------- */

static void note_statuses(transaction *t, const weir_table_one *ones)
{
    for (size_t i = 0, at = 0; i < t->len; i++) {
        if (!t->ones[i].large)
            t->ones[i].status = ones[at++].status;
    }
}

/* Runs under the locks of the small states, which have been decided. Returns whether to commit. */
static bool decide_large(void *ctx, const weir_table_one *ones)
{
    transaction *t = ctx;
    note_statuses(t, ones);
    try_large(t);
    t->committed = all_allowed(t);
    return t->committed;
}

static void finish(void *ctx, bool written)
{
    transaction *t = ctx;
    t->committed = written;
    end_large(t, t->committed);
}

static void take_all(transaction *t)
{
    weir_table_one ones[WEIR_TABLE_MANY_MAX];
    size_t len = 0;
    for (size_t i = 0; i < t->len; i++) {
        one *o = &t->ones[i];
        if (!o->large)
            ones[len++] = (weir_table_one){o->request->policy, o->hash, decide, o, WEIR_OK, NULL};
    }
    if (weir_table_run_many(t->store->table, ones, len, t->now_ns, decide_large, finish, t) !=
        WEIR_OK)
        note_statuses(t, ones); /* one of them is now WEIR_E_FULL */
}

/* ---- weir_store_take_many() ------------------------------------------------------------------ */

static weir_status read_requests(transaction *t, weir_store_request *requests, size_t n)
{
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < n; i++) {
        weir_store_request *r = &requests[i];
        bool good = weir_good_request(r, t->now_ns);
        r->status = good ? WEIR_OK : WEIR_E_RANGE;
        if (!good) {
            st = WEIR_E_RANGE;
            continue;
        }
        one *o = &t->ones[i];
        *o = (one){.request = r, .together.cost = r->cost};
        o->hash = weir_store_hash(t->store, r->policy_id, r->key, r->key_len);
        o->large = weir_table_words(r->policy) == 0;
        if (o->large)
            add_stripe(t, weir_large_stripe(t->store->large, o->hash));
    }
    t->len = n;
    return st;
}

/* The index of the request that denies all, or t->len. Among several denials, weir_outranks()
 * chooses. */
static size_t blocking(const transaction *t)
{
    size_t longest = t->len;
    for (size_t i = 0; i < t->len; i++) {
        const weir_decision *d = &t->ones[i].together.decision;
        if (!d->allowed &&
            (longest == t->len || weir_outranks(d, &t->ones[longest].together.decision)))
            longest = i;
    }
    return longest;
}

static weir_status answer(const transaction *t, size_t *ret_blocking)
{
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < t->len; i++) {
        t->ones[i].request->status = t->ones[i].status;
        if (st == WEIR_OK)
            st = t->ones[i].status;
    }
    if (st != WEIR_OK)
        return st;
    for (size_t i = 0; i < t->len; i++) {
        const one *o = &t->ones[i];
        bool as_charged = t->committed || !o->together.decision.allowed;
        o->request->decision = as_charged ? o->together.decision : o->alone;
    }
    *ret_blocking = blocking(t);
    WEIR_ASSERT(t->committed == (*ret_blocking == t->len));
    return WEIR_OK;
}

weir_status weir_store_take_many(weir_store *s, weir_store_request *requests, size_t n,
                                 int64_t now_ns, size_t *ret_blocking)
{
    if (n < 1 || n > WEIR_TAKE_MANY_MAX)
        return WEIR_E_RANGE;
    transaction t = {.store = s, .now_ns = now_ns};
    weir_status st = read_requests(&t, requests, n);
    if (st != WEIR_OK)
        return st;
    weir_store_expire_due(s, now_ns);
    take_all(&t);
    weir_store_sync_if_always(s);
    return answer(&t, ret_blocking);
}
