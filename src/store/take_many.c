/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* weir_store_take_many(): decides several requests as one transaction. It locks the buckets of all
 * small states and decides on them, then locks the stripes of all large states and decides on them.
 * Then it commits everything or rolls everything back. The requests may be of several stores. */

#include "store/take_many.h"

#include "store/store.h"

#include "core/algorithm.h"
#include "core/check.h"
#include "port/assert.h"
#include "store/kept.h"

/* One of the requests. */
typedef struct one {
    weir_store_request *request;
    struct one *next; /* the next request for the same state; NULL: none */
    bool repeats;     /* it is not the first request for its state */
    int64_t sum;      /* of its cost and the costs of the requests for its state before it */
    weir_store *store;
    uint64_t hash;
    const weir_area *at;
    bool large;
    weir_decision alone;      /* the decision for this request alone */
    weir_state_call together; /* the decision for this request and those before it */
    weir_status status;
    bool leases;     /* whether ends_ns is wanted */
    int64_t ends_ns; /* when the lease of the request ends, as weir_lease_of() */
} one;

/* A stripe of one of the areas. The numbers are its place in the order of locking, the same in all
 * processes. */
typedef struct stripe {
    weir_large *large;
    uint64_t store; /* weir_store.order */
    size_t area, i;
} stripe;

typedef struct transaction {
    weir_store *stores[WEIR_TAKE_MANY_MAX]; /* each once */
    size_t stores_len;
    size_t len, stripes_len;
    int64_t now_ns;
    bool committed;
    one ones[WEIR_TAKE_MANY_MAX];
    stripe stripes[WEIR_TAKE_MANY_MAX]; /* in the order of locking */
} transaction;

/* Peeks for all requests for a state, before any is charged. */
static weir_status peek_all(one *first, const weir_policy *p, const uint64_t *state, unsigned level,
                            int64_t now_ns)
{
    weir_status st = WEIR_OK;
    for (one *o = first; o && st == WEIR_OK; o = o->next) {
        const weir_state_call *c = &o->together;
        st = weir_peek_keep(p, state, level, now_ns, c->cost, c->keep, &o->alone);
        if (st == WEIR_OK && o->repeats)
            st = weir_peek_sum(p, state, level, now_ns, o->sum, c->keep, &o->together.decision);
        else
            o->together.decision = o->alone;
    }
    return st;
}

/* Peeks, then charges. A denial writes nothing: see begin_blocks(). */
static weir_status decide(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                          int64_t now_ns, weir_usage *ret_usage)
{
    one *o = ctx;
    weir_status st = o->repeats ? WEIR_OK : peek_all(o, p, state, level, now_ns);
    if (st == WEIR_OK && o->together.decision.allowed)
        st = weir_check_state(&o->together, p, state, level, now_ns, ret_usage);
    if (st == WEIR_OK && o->leases)
        o->ends_ns = weir_lease_of(&o->together, p, state, level, now_ns);
    return st;
}

/* ---- large states ---------------------------------------------------------------------------- */

/* 0 for the large states without a partition, then the partitions in their order. */
static size_t order_of(const weir_store *s, const weir_large *large)
{
    size_t i = s->partitions_len;
    while (i > 0 && s->partitions[i - 1].area.large != large)
        i--;
    return large == s->common.large ? 0 : i;
}

static bool is_before(const stripe *a, const stripe *b)
{
    if (a->store != b->store)
        return a->store < b->store;
    return a->area != b->area ? a->area < b->area : a->i < b->i;
}

static void add_stripe(transaction *t, const one *o)
{
    weir_large *large = o->at->large;
    const stripe add = {large, o->store->order, order_of(o->store, large),
                        weir_large_stripe(large, o->hash)};
    size_t to = t->stripes_len;
    while (to > 0 && is_before(&add, &t->stripes[to - 1]))
        to--;
    if (to > 0 && !is_before(&t->stripes[to - 1], &add))
        return;
    WEIR_ASSERT(t->stripes_len < WEIR_TAKE_MANY_MAX);
    for (size_t i = t->stripes_len++; i > to; i--)
        t->stripes[i] = t->stripes[i - 1];
    t->stripes[to] = add;
}

static void try_large(transaction *t)
{
    for (size_t i = 0; i < t->stripes_len; i++)
        weir_large_lock(t->stripes[i].large, t->stripes[i].i);
    for (size_t i = 0; i < t->len; i++) {
        one *o = &t->ones[i];
        if (!o->large)
            continue;
        const weir_large_call call = {.policy = o->request->policy,
                                      .hash = o->hash,
                                      .now_ns = weir_table_now(o->store->common.table, t->now_ns),
                                      .fn = decide,
                                      .ctx = o,
                                      .when_full = o->store->when_full};
        o->status = weir_large_try(o->at->large, &call);
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
            weir_large_commit(t->stripes[i].large, t->stripes[i].i);
        else
            weir_large_roll_back(t->stripes[i].large, t->stripes[i].i);
    }
    for (size_t i = t->stripes_len; i-- > 0;)
        weir_large_unlock(t->stripes[i].large, t->stripes[i].i);
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
            ones[len++] =
                (weir_table_one){o->request->policy, o->hash, decide, o, WEIR_OK, o->at->table};
    }
    if (weir_table_run_many(t->stores[0]->common.table, ones, len, t->now_ns, decide_large, finish,
                            t) != WEIR_OK)
        note_statuses(t, ones); /* one of them is now WEIR_E_FULL */
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static weir_status begin_block(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns, weir_usage *ret_usage)
{
    weir_state_call *c = ctx;
    (void)ret_usage;
    return weir_block_if_denied(p, state, level, now_ns, c->cost, c->keep, &c->decision);
}

/* A denied transaction writes nothing but this: each policy that has denied its request begins its
 * block. It does not if it allows the request alone. */
static void begin_blocks(transaction *t)
{
    for (size_t i = 0; i < t->len; i++) {
        one *o = &t->ones[i];
        const weir_store_request *r = o->request;
        weir_state_call c = {.cost = r->cost, .keep = r->keep};
        if (o->status == WEIR_OK && !o->together.decision.allowed &&
            weir_policy_blocks(r->policy) &&
            weir_store_run(o->store, r->policy, r->policy_id, o->hash, t->now_ns, begin_block,
                           &c) == WEIR_OK &&
            weir_outranks(&c.decision, &o->together.decision))
            o->together.decision = c.decision;
    }
}

/* ---- weir_store_take_many() ------------------------------------------------------------------ */

/* Adds the store of a request to those of the transaction. Returns false if another one has the
 * same order. */
static bool add_store(transaction *t, weir_store *s)
{
    size_t i = 0;
    while (i < t->stores_len && t->stores[i] != s) {
        if (t->stores[i]->order == s->order)
            return false;
        i++;
    }
    if (i == t->stores_len)
        t->stores[t->stores_len++] = s;
    return true;
}

/* Finds the request before request i that is for the same state. */
static void find_repeated(transaction *t, size_t i)
{
    one *o = &t->ones[i];
    o->sum = o->request->cost;
    for (size_t k = i; k-- > 0;) {
        one *before = &t->ones[k];
        if (before->hash != o->hash || before->store != o->store)
            continue;
        before->next = o;
        o->repeats = true;
        o->sum += before->sum;
        return;
    }
}

static weir_status read_request(transaction *t, one *o, weir_store_request *r, weir_store *s)
{
    bool good = weir_good_request(r, t->now_ns);
    r->status = good ? WEIR_OK : WEIR_E_RANGE;
    if (!good)
        return WEIR_E_RANGE;
    *o = (one){.request = r, .store = s, .together = {.cost = r->cost, .keep = r->keep}};
    o->hash = weir_store_hash(s, r->policy_id, r->key, r->key_len);
    o->at = weir_area_of(s, r->policy_id);
    o->large = weir_table_words(r->policy) == 0;
    if (o->large)
        add_stripe(t, o);
    return WEIR_OK;
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

/* Decides on the requests. Request i is of stores[i * step]. */
static weir_status take(weir_store *const stores[], size_t step, weir_store_request *requests,
                        size_t n, int64_t now_ns, size_t *ret_blocking, int64_t *ret_ends_ns)
{
    transaction t;
    weir_status st = WEIR_OK;
    t.stores_len = t.stripes_len = 0;
    t.len = n;
    t.now_ns = now_ns;
    t.committed = false;
    if (n < 1 || n > WEIR_TAKE_MANY_MAX)
        return WEIR_E_RANGE;
    for (size_t i = 0; i < n; i++) {
        if ((i == 0 || step > 0) && !add_store(&t, stores[i * step]))
            return WEIR_E_RANGE;
    }
    for (size_t i = 0; i < n; i++) {
        weir_status one_st = read_request(&t, &t.ones[i], &requests[i], stores[i * step]);
        st = one_st != WEIR_OK ? one_st : st;
        t.ones[i].leases = ret_ends_ns != NULL;
    }
    if (st != WEIR_OK)
        return st;
    for (size_t i = 0; i < n; i++)
        find_repeated(&t, i);
    for (size_t i = 0; i < t.stores_len; i++)
        weir_store_expire_due(t.stores[i], now_ns);
    for (size_t i = 0; i < n; i++)
        weir_kept_move(stores[i * step], &requests[i], now_ns);
    take_all(&t);
    if (!t.committed)
        begin_blocks(&t);
    for (size_t i = 0; i < t.stores_len; i++)
        weir_store_sync_if_always(t.stores[i]);
    st = answer(&t, ret_blocking);
    for (size_t i = 0; i < n && st == WEIR_OK && ret_ends_ns; i++)
        ret_ends_ns[i] = t.committed ? t.ones[i].ends_ns : 0;
    return st;
}

weir_status weir_store_take_many(weir_store *s, weir_store_request *requests, size_t n,
                                 int64_t now_ns, size_t *ret_blocking)
{
    return take(&s, 0, requests, n, now_ns, ret_blocking, NULL);
}

weir_status weir_stores_take_many(weir_store *const stores[], weir_store_request *requests,
                                  size_t n, int64_t now_ns, size_t *ret_blocking,
                                  int64_t *ret_ends_ns)
{
    return take(stores, 1, requests, n, now_ns, ret_blocking, ret_ends_ns);
}
