/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* weir_store_take_many(): decides several requests as one transaction. It locks the buckets of all
 * small states and decides on them, then locks the stripes of all large states and decides on them.
 * Then it commits everything or rolls everything back. */

#include "store/store.h"

#include "core/check.h"

/* One of the requests. */
typedef struct one {
    weir_store_request *request;
    uint64_t hash;
    bool large;
    weir_decision alone;  /* the decision for this request alone */
    weir_charge together; /* the decision after the requests before it */
    weir_status status;
} one;

typedef struct many {
    weir_store *store;
    one ones[WEIR_TAKE_MANY_MAX];
    size_t len;
    size_t stripes[WEIR_TAKE_MANY_MAX], stripes_len; /* ascending: the order of locking */
    int64_t now_ns;
    bool kept;
} many;

/* Peeks, then charges. */
static weir_status decide(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                          int64_t now_ns, int64_t *ret_fresh_after_ns)
{
    one *o = ctx;
    weir_status st = weir_peek(p, state, level, now_ns, o->together.cost, &o->alone);
    if (st == WEIR_OK)
        st = weir_check_state(&o->together, p, state, level, now_ns, ret_fresh_after_ns);
    return st;
}

/* ---- large states ---------------------------------------------------------------------------- */

static void add_stripe(many *m, size_t stripe)
{
    size_t to = m->stripes_len;
    while (to > 0 && m->stripes[to - 1] > stripe)
        to--;
    if (to > 0 && m->stripes[to - 1] == stripe)
        return;
    for (size_t i = m->stripes_len++; i > to; i--)
        m->stripes[i] = m->stripes[i - 1];
    m->stripes[to] = stripe;
}

static void try_large(many *m)
{
    for (size_t i = 0; i < m->stripes_len; i++)
        weir_large_lock(m->store->large, m->stripes[i]);
    for (size_t i = 0; i < m->len; i++) {
        one *o = &m->ones[i];
        if (!o->large)
            continue;
        const weir_large_call call = {.policy = o->request->policy,
                                      .hash = o->hash,
                                      .now_ns = weir_table_now(m->store->table, m->now_ns),
                                      .fn = decide,
                                      .ctx = o,
                                      .when_full = m->store->when_full};
        o->status = weir_large_try(m->store->large, &call);
    }
}

static bool all_allowed(const many *m)
{
    for (size_t i = 0; i < m->len; i++) {
        if (m->ones[i].status != WEIR_OK || !m->ones[i].together.decision.allowed)
            return false;
    }
    return true;
}

static void end_large(many *m, bool keep)
{
    for (size_t i = 0; i < m->stripes_len; i++) {
        if (keep)
            weir_large_commit(m->store->large, m->stripes[i]);
        else
            weir_large_roll_back(m->store->large, m->stripes[i]);
    }
    for (size_t i = m->stripes_len; i-- > 0;)
        weir_large_unlock(m->store->large, m->stripes[i]);
}

/* ---- small states ---------------------------------------------------------------------------- */

static void note_statuses(many *m, const weir_table_one *ones)
{
    for (size_t i = 0, at = 0; i < m->len; i++) {
        if (!m->ones[i].large)
            m->ones[i].status = ones[at++].status;
    }
}

/* Runs under the locks of the small states, which have been decided. Returns whether to commit. */
static bool keep_all(void *ctx, const weir_table_one *ones)
{
    many *m = ctx;
    note_statuses(m, ones);
    try_large(m);
    m->kept = all_allowed(m);
    return m->kept;
}

static void finish(void *ctx, bool written)
{
    many *m = ctx;
    m->kept = m->kept && written;
    end_large(m, m->kept);
}

static void take_all(many *m)
{
    weir_table_one ones[WEIR_TABLE_MANY_MAX];
    size_t len = 0;
    for (size_t i = 0; i < m->len; i++) {
        one *o = &m->ones[i];
        if (!o->large)
            ones[len++] = (weir_table_one){o->request->policy, o->hash, decide, o, WEIR_OK};
    }
    if (weir_table_run_many(m->store->table, ones, len, m->now_ns, keep_all, finish, m) != WEIR_OK)
        note_statuses(m, ones); /* one of them is now WEIR_E_FULL */
}

/* ---- weir_store_take_many() ------------------------------------------------------------------ */

static weir_status read_requests(many *m, weir_store_request *requests, size_t n)
{
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < n; i++) {
        weir_store_request *r = &requests[i];
        bool good = weir_good_key(r->key, r->key_len) && weir_good_time(m->now_ns) &&
                    weir_good_cost(r->cost);
        r->status = good ? WEIR_OK : WEIR_E_RANGE;
        if (!good) {
            st = WEIR_E_RANGE;
            continue;
        }
        one *o = &m->ones[i];
        *o = (one){.request = r, .together.cost = r->cost};
        o->hash = weir_store_hash(m->store, r->policy_id, r->key, r->key_len);
        o->large = weir_table_words(r->policy) == 0;
        if (o->large)
            add_stripe(m, weir_large_stripe(m->store->large, o->hash));
    }
    m->len = n;
    return st;
}

/* The index of the request that denies all, or m->len. Among several denials, weir_outranks()
 * chooses. */
static size_t blocking(const many *m)
{
    size_t longest = m->len;
    for (size_t i = 0; i < m->len; i++) {
        const weir_decision *d = &m->ones[i].together.decision;
        if (!d->allowed &&
            (longest == m->len || weir_outranks(d, &m->ones[longest].together.decision)))
            longest = i;
    }
    return longest;
}

static weir_status answer(const many *m, size_t *ret_blocking)
{
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < m->len; i++) {
        m->ones[i].request->status = m->ones[i].status;
        if (st == WEIR_OK)
            st = m->ones[i].status;
    }
    if (st != WEIR_OK)
        return st;
    for (size_t i = 0; i < m->len; i++) {
        const one *o = &m->ones[i];
        bool as_charged = m->kept || !o->together.decision.allowed;
        o->request->decision = as_charged ? o->together.decision : o->alone;
    }
    *ret_blocking = blocking(m);
    return WEIR_OK;
}

weir_status weir_store_take_many(weir_store *s, weir_store_request *requests, size_t n,
                                 int64_t now_ns, size_t *ret_blocking)
{
    if (n < 1 || n > WEIR_TAKE_MANY_MAX)
        return WEIR_E_RANGE;
    many m = {.store = s, .now_ns = now_ns};
    weir_status st = read_requests(&m, requests, n);
    if (st != WEIR_OK)
        return st;
    weir_store_expire_due(s, now_ns);
    take_all(&m);
    weir_store_sync_if_always(s);
    return answer(&m, ret_blocking);
}
