/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The algorithms decide with weir_check(). The exact count of a window does not: it is a queue of
 * all charges in the window, so that an error of the core shows.
 *
 * With ACCURACY_RATE an algorithm must count denied requests too. It decides under the largest
 * limit, so that every request is charged, and what it has used up is compared with the limit.
 * Since weir rounds `remaining` down, the comparison gives the same decisions as the inequality of
 * the algorithm. */

#include "cmd/accuracy/accuracy.h"

#include "cmd/kit/key_state.h"
#include "port/assert.h"
#include "port/port.h"

/* ---- policies -------------------------------------------------------------------------------- */

const char *accuracy_against_name(accuracy_against against)
{
    static const char *const names[ACCURACY_AGAINST] = {"own", "log", "rate"};
    return names[against];
}

static bool is_window(const weir_layer *l)
{
    switch (l->algorithm) {
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_LOG:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_SLICES:
        return true;
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_LEAKY_QUEUE:
    case WEIR_BLOCK:
    case WEIR_CONCURRENT:
        break;
    }
    return false;
}

bool accuracy_estimates(const accuracy_policy *p)
{
    return is_window(&p->policy.layer[0]);
}

weir_status accuracy_measure_init(accuracy_measure *ret, accuracy_against against, int64_t limit,
                                  int64_t period_ns)
{
    *ret = (accuracy_measure){.against = against, .limit = limit, .period_ns = period_ns};
    ret->log.layers = 1;
    ret->log.layer[0] = (weir_layer){
        .algorithm = WEIR_SLIDING_LOG, .limit = limit, .rate = limit, .period_ns = period_ns};
    return weir_layer_init(&ret->log.layer[0], NULL);
}

weir_status accuracy_measure_add(accuracy_measure *m, const weir_policy *p)
{
    const weir_layer *l = &p->layer[0];
    if (p->layers != 1 || l->algorithm == WEIR_LEAKY_QUEUE || l->algorithm == WEIR_CONCURRENT)
        return WEIR_E_UNSUPPORTED;
    if (m->against == ACCURACY_RATE && (!is_window(l) || l->limit != m->limit))
        return WEIR_E_UNSUPPORTED;
    if (m->len == ACCURACY_POLICIES_MAX)
        return WEIR_E_FULL;
    accuracy_policy *a = &m->policy[m->len];
    *a = (accuracy_policy){.policy = *p};
    weir_policy_print(p, a->text, sizeof a->text);
    if (m->against == ACCURACY_RATE) {
        a->policy.layer[0].limit = a->policy.layer[0].rate = WEIR_LIMIT_MAX;
        if (weir_layer_init(&a->policy.layer[0], NULL) != WEIR_OK)
            return WEIR_E_RANGE;
    }
    m->len++;
    return WEIR_OK;
}

/* ---- exact windows --------------------------------------------------------------------------- */

typedef struct charge {
    int64_t t_ns, cost;
} charge;

enum { FEW = 2 }; /* most keys have few requests */

/* The charges of a window: a queue in a ring buffer. */
typedef struct window {
    charge few[FEW]; /* the buffer while `more` is NULL */
    charge *more;
    size_t more_cap; /* a power of two */
    size_t head, len;
    int64_t units;
} window;

static charge *window_at(window *w, size_t i)
{
    return w->more ? &w->more[i & (w->more_cap - 1)] : &w->few[i & (FEW - 1)];
}

/* Removes the charges up to t_ns. Returns the units that are left. */
static int64_t window_expire(window *w, int64_t t_ns)
{
    while (w->len > 0 && window_at(w, w->head)->t_ns <= t_ns) {
        w->units -= window_at(w, w->head)->cost;
        w->head++;
        w->len--;
    }
    WEIR_ASSERT(w->units >= 0 && (w->len > 0 || w->units == 0));
    return w->units;
}

/* Doubles a buffer that is full. */
static bool window_grow(window *w)
{
    WEIR_ASSERT(w->len == (w->more ? w->more_cap : FEW));
    size_t cap = 2 * w->len;
    charge *wider = port_zalloc(cap, sizeof *wider);
    if (!wider)
        return false;
    for (size_t i = 0; i < w->len; i++)
        wider[i] = *window_at(w, w->head + i);
    port_free(w->more);
    w->more = wider;
    w->more_cap = cap;
    w->head = 0;
    return true;
}

static bool window_add(window *w, int64_t t_ns, int64_t cost)
{
    if (cost == 0)
        return true;
    if (w->len == (w->more ? w->more_cap : FEW) && !window_grow(w))
        return false;
    *window_at(w, w->head + w->len) = (charge){t_ns, cost};
    w->len++;
    w->units += cost;
    return true;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The counts from which a sliding counter estimates. weir_check() reports the estimate in whole
 * units only. */
typedef struct counts {
    int64_t index; /* of the current window, counted from the epoch */
    int64_t prev, cur;
} counts;

/* A key under one policy. */
typedef struct key_policy {
    key_state state;
    counts counts;
    window allowed;              /* ACCURACY_OWN */
    bool denied, exactly_denied; /* at least once */
} key_policy;

struct accuracy_key {
    key_state log; /* ACCURACY_LOG */
    window all;    /* ACCURACY_RATE */
    key_policy policy[];
};

accuracy_key *accuracy_key_open(const accuracy_measure *m)
{
    return port_zalloc(1, sizeof(accuracy_key) + m->len * sizeof(key_policy));
}

void accuracy_key_close(accuracy_key *k, const accuracy_measure *m)
{
    if (!k)
        return;
    for (size_t i = 0; i < m->len; i++) {
        key_state_free(&k->policy[i].state);
        port_free(k->policy[i].allowed.more);
    }
    key_state_free(&k->log);
    port_free(k->all.more);
    port_free(k);
}

void accuracy_key_end(accuracy_measure *m, const accuracy_key *k)
{
    m->keys++;
    for (size_t i = 0; i < m->len; i++) {
        const key_policy *p = &k->policy[i];
        m->policy[i].tally.keys_missed += p->exactly_denied && !p->denied;
        m->policy[i].tally.keys_wrongly_denied += p->denied && !p->exactly_denied;
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* One request, and what is known about it so far. */
typedef struct request {
    int64_t now_ns, cost;
    bool fits;         /* the exact decision */
    int64_t true_rate; /* the exact count of the window, with this request */
} request;

/* Returns the rate that the sliding counter estimates, with this request. */
static double counter_estimate(counts *c, int64_t period_ns, const request *r, bool charged)
{
    int64_t index = r->now_ns / period_ns;
    if (index != c->index) {
        c->prev = index == c->index + 1 ? c->cur : 0;
        c->cur = 0;
        c->index = index;
    }
    double overlap = (double)(period_ns - r->now_ns % period_ns) / (double)period_ns;
    double before = (double)c->prev * overlap + (double)c->cur;
    c->cur += charged ? r->cost : 0;
    return before + (double)r->cost;
}

static void count_difference(accuracy_tally *t, double estimate, int64_t true_rate)
{
    WEIR_ASSERT(true_rate > 0);
    double difference = (estimate - (double)true_rate) / (double)true_rate;
    difference = difference < 0 ? -difference : difference;
    t->estimates++;
    t->difference_sum += difference;
    if (difference > t->difference_max)
        t->difference_max = difference;
}

static void count_decision(accuracy_tally *t, key_policy *k, bool allowed, bool fits)
{
    t->allowed += allowed;
    t->denied += !allowed;
    t->wrongly_allowed += allowed && !fits;
    t->wrongly_denied += !allowed && fits;
    k->denied |= !allowed;
    k->exactly_denied |= !fits;
}

/* Decides the request with one policy. *r is complete, except with ACCURACY_OWN. */
static weir_status decide(const accuracy_measure *m, accuracy_policy *p, key_policy *k, request *r)
{
    weir_decision d;
    const weir_layer *l = &p->policy.layer[0];
    if (m->against == ACCURACY_OWN) {
        int64_t held = window_expire(&k->allowed, r->now_ns - m->period_ns);
        r->fits = held + r->cost <= m->limit;
        r->true_rate = held + r->cost;
    }
    weir_status st = key_state_check(&k->state, &p->policy, r->now_ns, r->cost, &d);
    if (st != WEIR_OK)
        return st;
    bool charged = d.allowed;
    int64_t used = l->limit - d.remaining + (charged ? 0 : r->cost);
    bool allowed = m->against == ACCURACY_RATE ? charged && used <= m->limit : charged;
    count_decision(&p->tally, k, allowed, r->fits);
    if (m->against == ACCURACY_OWN && allowed) {
        if (!window_add(&k->allowed, r->now_ns, r->cost))
            return WEIR_E_NOMEM;
        p->tally.peak = r->true_rate > p->tally.peak ? r->true_rate : p->tally.peak;
    }
    if (r->cost == 0 || !is_window(l))
        return WEIR_OK;
    double estimate = l->algorithm == WEIR_SLIDING_COUNTER
                          ? counter_estimate(&k->counts, l->period_ns, r, charged)
                          : (double)used;
    count_difference(&p->tally, estimate, r->true_rate);
    return WEIR_OK;
}

/* Finds the exact decision, with ACCURACY_LOG and ACCURACY_RATE. */
static weir_status decide_exactly(accuracy_measure *m, accuracy_key *k, request *r)
{
    weir_decision d;
    if (m->against == ACCURACY_OWN)
        return WEIR_OK;
    if (m->against == ACCURACY_LOG) {
        weir_status st = key_state_check(&k->log, &m->log, r->now_ns, r->cost, &d);
        if (st != WEIR_OK)
            return st;
        r->fits = d.allowed;
        r->true_rate = m->limit - d.remaining + (d.allowed ? 0 : r->cost);
    } else {
        r->true_rate = window_expire(&k->all, r->now_ns - m->period_ns) + r->cost;
        r->fits = r->true_rate <= m->limit;
        if (!window_add(&k->all, r->now_ns, r->cost))
            return WEIR_E_NOMEM;
    }
    m->exact_denied += !r->fits;
    return WEIR_OK;
}

weir_status accuracy_request(accuracy_measure *m, accuracy_key *k, int64_t now_ns, int64_t cost)
{
    WEIR_ASSERT(now_ns >= 0 && cost >= 0 && cost <= WEIR_COST_MAX);
    request r = {.now_ns = now_ns, .cost = cost};
    m->requests++;
    weir_status st = decide_exactly(m, k, &r);
    for (size_t i = 0; i < m->len && st == WEIR_OK; i++)
        st = decide(m, &m->policy[i], &k->policy[i], &r);
    return st;
}
