/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Requests that need several calls of the service: those with hits to give back, atomic ones, and
 * those with hits that were used already. The calls follow each other. If an engine is
 * pending, the answers of the calls before are kept in the wait, and the repeated request continues
 * after them. */

#include "rls/internal.h"

typedef struct outcome {
    weir_status status;
    weir_decision decision;
    weir_reason reason;
    const char *why;
} outcome;

struct weir_rls_partial {
    size_t done;                /* requests to the service that are answered */
    bool denied;                /* by the atomic call */
    bool absent[RLS_TAKES_MAX]; /* by item: its rule is gone */
    outcome outcome[RLS_TAKES_MAX];
};

typedef enum call { TAKE, TAKE_ALL, REFUND, CHARGE } call;

typedef struct special {
    weir_rls_loop *loop;
    weir_rls_wait *wait;
    rls_item *items;
    size_t n;
    int64_t now_ns;
    bool denied;
    bool absent[WEIR_RLS_DESCRIPTORS_MAX];
} special;

/* ---- calls ----------------------------------------------------------------------------------- */

/* Keeps the answers before the call that is pending. Returns false if memory is exhausted. */
static bool keep(special *s, size_t done)
{
    struct weir_rls_partial *p = s->wait->partial;
    if (!p)
        p = s->wait->partial = port_zalloc(1, sizeof *p);
    if (!p)
        return false;
    for (size_t i = p->done; i < done; i++) {
        const weir_request *take = &s->loop->take[i];
        p->outcome[i] = (outcome){take->status, take->decision, take->reason, take->why};
    }
    for (size_t i = 0; i < s->n; i++)
        p->absent[i] = s->absent[i];
    p->denied = s->denied;
    p->done = done;
    return true;
}

/* Restores the answers of a call that was completed before. */
static void restore(special *s, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const outcome *o = &s->wait->partial->outcome[i];
        weir_request *take = &s->loop->take[i];
        take->status = o->status;
        take->decision = o->decision;
        take->reason = o->reason;
        take->why = o->why;
    }
    s->denied = s->wait->partial->denied;
}

/* The atomic call. If it fails, one of its requests at least has another status than WEIR_OK. */
static bool run_all(special *s, size_t from, size_t to)
{
    weir_rls_loop *l = s->loop;
    weir_all_result all;
    if (!weir_service_take_all(l->service, &s->wait->completion, &l->take[from], to - from,
                               s->now_ns, &all))
        return false;
    if (all.status == WEIR_OK)
        s->denied = !all.allowed;
    return true;
}

/* Calls the service with the requests from `from` on. Returns false if an engine is pending. */
static bool run(special *s, call kind, size_t from)
{
    weir_rls_loop *l = s->loop;
    size_t to = l->takes_len;
    bool answered;
    if (from == to)
        return true;
    if (s->wait->partial && s->wait->partial->done >= to) {
        restore(s, from, to);
        return true;
    }
    if (kind == TAKE_ALL)
        answered = run_all(s, from, to);
    else if (kind == REFUND)
        answered = weir_service_refund(l->service, &s->wait->completion, &l->take[from], s->now_ns);
    else if (kind == CHARGE)
        answered = weir_service_charge_all(l->service, &s->wait->completion, &l->take[from],
                                           to - from, s->now_ns);
    else
        answered = weir_service_take(l->service, &s->wait->completion, &l->take[from], to - from,
                                     s->now_ns);
    if (answered || keep(s, from))
        return answered;
    weir_completion_cancel(&s->wait->completion);
    for (size_t i = from; i < to; i++)
        l->take[i].status = WEIR_E_NOMEM;
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool refund(special *s)
{
    for (size_t i = 0; i < s->n; i++) {
        rls_item *item = &s->items[i];
        if (!item->negative || !rls_has_state(item))
            continue;
        size_t from = s->loop->takes_len;
        rls_add_take(s->loop, item, rls_cost_of(item), 0);
        if (!run(s, REFUND, from))
            return false;
    }
    return true;
}

/* Whether an item can deny an atomic request. A limit in quota_mode cannot: it does not deny the
 * request by itself. */
static bool can_deny(const weir_rls_config *c, const rls_item *item)
{
    return item->limit && !item->unlimited && !item->negative && !item->late &&
           !item->limit->quota && !c->options.quota_mode;
}

/* Whether a limit is over before the request is charged, by the answer to a probe. */
static bool is_over(const special *s, const weir_rls_config *c, const rls_item *item)
{
    if (item->limit->shadow)
        return false;
    if (item->take == RLS_NO_TAKE)
        return item->limit->rule.len == 0;
    const weir_request *take = &s->loop->take[item->take];
    if (take->status != WEIR_OK)
        return false;
    return item->hits > 0 ? take->decision.remaining < rls_cost_of(item)
                          : rls_denies_peek(c, item->limit, &take->decision);
}

/* Whether the request is denied before it is charged: by a limit of 0, or by a peek at a limit that
 * is used up. */
static bool is_denied_already(const special *s, const weir_rls_config *c)
{
    for (size_t i = 0; i < s->n; i++) {
        const rls_item *item = &s->items[i];
        if (can_deny(c, item) && (item->hits == 0 || !rls_has_state(item)) && is_over(s, c, item))
            return true;
    }
    return false;
}

/* Adds requests for the items of an atomic request, except peeks that are already answered.
 *  denying  the items that can deny the request; else those that cannot.
 *  probes   the requests have a cost of 0. */
static void add_items(special *s, const weir_rls_config *c, bool denying, bool probes)
{
    for (size_t i = 0; i < s->n; i++) {
        rls_item *item = &s->items[i];
        if (!rls_has_state(item) || item->negative || item->late || can_deny(c, item) != denying ||
            s->absent[i])
            continue;
        if (item->hits == 0 && item->take != RLS_NO_TAKE)
            continue;
        item->probes = probes;
        rls_add_take(s->loop, item, probes ? 0 : rls_cost_of(item), item->limit->keep);
    }
}

/* Adds the peeks that can deny an atomic request. */
static void add_peeks(special *s, const weir_rls_config *c)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->items[i].hits == 0 && rls_has_state(&s->items[i]) && can_deny(c, &s->items[i]))
            rls_add_take(s->loop, &s->items[i], 0, s->items[i].limit->keep);
    }
}

/* Marks the items whose rules are gone. Returns whether there are any that were not marked yet. */
static bool drop_absent(special *s, size_t from)
{
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        rls_item *item = &s->items[i];
        if (s->absent[i] || item->take == RLS_NO_TAKE || item->take < from ||
            s->loop->take[item->take].status != WEIR_E_ABSENT)
            continue;
        s->absent[i] = any = true;
    }
    return any;
}

/* Finds out whether the request is denied before it is charged: by a limit of 0, by a peek, or by
 * the limits in quota_mode, which deny it together if all of them are over. Returns false if an
 * engine is pending. */
static bool probe(special *s, const weir_rls_config *c, bool *ret_denied)
{
    size_t from = s->loop->takes_len, quotas = 0, over = 0;
    add_items(s, c, false, true);
    add_peeks(s, c);
    if (!run(s, TAKE, from))
        return false;
    for (size_t i = 0; i < s->n; i++) {
        const rls_item *item = &s->items[i];
        if (item->unlimited || item->negative || item->late ||
            (!item->limit && !c->options.quota_mode) || can_deny(c, item))
            continue;
        quotas++;
        over += item->limit && is_over(s, c, item);
    }
    *ret_denied = (quotas > 0 && quotas == over) || is_denied_already(s, c);
    return true;
}

/* Takes from the limits that can deny: all or nothing. Then from the others, if it was not
 * denied. */
static bool take_all(special *s, const weir_rls_config *c)
{
    bool denied;
    if (!probe(s, c, &denied))
        return false;
    size_t from = s->loop->takes_len;
    do {
        s->loop->takes_len = from;
        add_items(s, c, true, denied);
        if (!run(s, denied ? TAKE : TAKE_ALL, from))
            return false;
    } while (!denied && drop_absent(s, from));
    denied = denied || s->denied;
    from = s->loop->takes_len;
    add_items(s, c, false, denied);
    if (!run(s, TAKE, from))
        return false;
    for (size_t i = 0; i < s->n; i++) {
        s->items[i].uncharged = denied;
        if (s->absent[i])
            s->items[i].limit = NULL;
    }
    return true;
}

/* Charges late hits, whether they fit or not. A peek before the charge tells whether they do. */
static bool charge_late(special *s)
{
    weir_rls_loop *l = s->loop;
    size_t from = l->takes_len;
    for (size_t i = 0; i < s->n; i++) {
        rls_item *item = &s->items[i];
        if (!item->late || !rls_has_state(item))
            continue;
        rls_add_take(l, item, 0, item->limit->keep);
        item->before = item->take;
    }
    if (!run(s, TAKE, from))
        return false;
    from = l->takes_len;
    for (size_t i = 0; i < s->n; i++) {
        rls_item *item = &s->items[i];
        if (!item->late)
            continue;
        rls_add_take(l, item, rls_cost_of(item), 0);
    }
    if (!run(s, CHARGE, from))
        return false;
    /* What on_error has decided stays, though nothing is charged. */
    for (size_t i = 0; i < s->n; i++) {
        rls_item *item = &s->items[i];
        if (item->late && (l->take[item->before].status != WEIR_OK ||
                           (l->take[item->before].reason == WEIR_BY_ON_ERROR &&
                            l->take[item->take].status != WEIR_OK)))
            item->take = item->before;
    }
    return true;
}

bool rls_run_special(weir_rls_loop *l, weir_rls_wait *wait, const rls_plan *p, weir_rls_verb verb,
                     int64_t now_ns)
{
    const weir_rls_config *c = wait->config ? wait->config : l->config;
    special s = {
        .loop = l, .wait = wait, .items = &l->item[p->first], .n = p->len, .now_ns = now_ns};
    for (size_t i = 0; i < s.n && wait->partial; i++)
        s.absent[i] = wait->partial->absent[i];
    bool atomic = false;
    for (size_t i = 0; i < s.n; i++)
        atomic |= s.items[i].limit && s.items[i].limit->atomic;
    if (!refund(&s) || !charge_late(&s))
        return false;
    if (atomic && verb != WEIR_RLS_REPORT)
        return take_all(&s, c);
    size_t from = l->takes_len;
    add_items(&s, c, true, false);
    add_items(&s, c, false, false);
    return run(&s, TAKE, from);
}

void rls_wait_clear(weir_rls_wait *wait)
{
    port_free(wait->partial);
    wait->partial = NULL;
    wait->len = 0;
}
