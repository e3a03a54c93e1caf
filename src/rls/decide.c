/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decides requests: plans those that fit into one batch, lets the service decide the batch, and
 * composes the responses. special.c has the requests that need several calls of the service. */

#include "core/check.h"
#include "rls/internal.h"

#include <stdio.h>
#include <string.h>

static const int64_t second_ns = 1000000000;

/* ---- the decision on a descriptor ------------------------------------------------------------ */

/* What the service decided about a descriptor with a limit. */
typedef struct verdict {
    bool over;                         /* before shadow_mode */
    bool shadow;                       /* the limit is in shadow_mode */
    int64_t limit, remaining, wait_ns; /* wait_ns: until the reset; 0: unknown */
} verdict;

/* Whether late hits were within the limit. */
static bool fitted(const weir_rls_loop *l, const rls_item *item)
{
    return l->take[item->before].decision.remaining >= rls_cost_of(item);
}

static verdict verdict_of(const weir_rls_loop *l, const weir_rls_config *c, const rls_item *item)
{
    const rls_limit *limit = item->limit;
    if (limit->rule.len == 0)
        return (verdict){.over = true, .shadow = limit->shadow};
    const weir_request *take = &l->take[item->take];
    const weir_decision *d = &take->decision;
    bool by_shadow = take->reason == WEIR_BY_SHADOW;
    verdict v = {!d->allowed || by_shadow, limit->shadow || by_shadow,
                 limit->marks_over ? limit->requests_per_unit : d->limit, d->remaining,
                 d->reset_after_ns};
    if (take->keep != limit->keep) { /* a charge or a refund keeps nothing, so it shows more */
        int64_t kept = weir_kept_of_limit(d->limit, limit->keep);
        v.remaining -= kept < v.remaining ? kept : v.remaining;
    }
    if (item->late && limit->late)
        v.over = rls_denies_peek(c, limit, &l->take[item->before].decision);
    else if (item->late)
        v.over = !fitted(l, item);
    else if (item->hits == 0 && !item->negative)
        v.over = rls_denies_peek(c, limit, d);
    else if (item->negative)
        v.over = v.remaining <= 0;
    else if (item->probes)
        v.over = d->remaining < rls_cost_of(item);
    if (!d->allowed && !d->never)
        v.wait_ns = d->retry_after_ns;
    return v;
}

/* The time until the window of a fixed-window ends; 0 if the limit has none. */
static int64_t window_left(const rls_limit *limit, int64_t now_ns)
{
    if (limit->window)
        return limit->window(limit->zone, limit->calendar, limit->anchor, now_ns).end_ns - now_ns;
    return limit->window_ns > 0 ? limit->window_ns - now_ns % limit->window_ns : 0;
}

/* Rounds up to whole seconds. */
static int64_t seconds_up(int64_t ns)
{
    int64_t rest = ns % second_ns;
    return rest > 0 && ns <= INT64_MAX - second_ns ? ns - rest + second_ns : ns;
}

static uint32_t to_u32(int64_t x)
{
    return x < 0 ? 0 : x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}

static void write_status(const weir_rls_config *c, const rls_item *item, const verdict *v,
                         weir_rls_status *ret, int64_t now_ns)
{
    const rls_limit *limit = item->limit;
    ret->code = v->over && !v->shadow ? WEIR_RLS_OVER_LIMIT : WEIR_RLS_OK;
    ret->has_limit = true;
    ret->requests_per_unit = limit->shows_policy ? to_u32(v->limit) : limit->requests_per_unit;
    ret->unit = limit->unit;
    ret->name = limit->name;
    ret->remaining = v->over ? 0 : to_u32(v->remaining);
    ret->reset_ns = v->wait_ns > 0 ? v->wait_ns : window_left(limit, now_ns);
    if (!c->options.exact_reset)
        ret->reset_ns = seconds_up(ret->reset_ns);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void bump(rls_counters *counters, int which, uint64_t n)
{
    port_bump_relaxed(&counters->count[which], n);
}

/* The hits that were counted before the item; UINT64_MAX if that is not known. */
static uint64_t count_before(const weir_rls_loop *l, const rls_item *item, const verdict *v)
{
    if (item->before != RLS_NO_TAKE && l->take[item->before].status == WEIR_OK)
        return (uint64_t)(v->limit - l->take[item->before].decision.remaining);
    uint64_t left = v->limit > v->remaining ? (uint64_t)(v->limit - v->remaining) : 0;
    if (!v->over)
        return left > item->hits ? left - item->hits : 0;
    /* A denial that charges nothing shows the count. One that counts shows a full window. */
    return !item->limit->counts_denied ? left : item->hits > 1 ? UINT64_MAX : (uint64_t)v->limit;
}

/* Counts the hits of a descriptor as the reference does: those above the limit are over it, and
 * those of the others that are above the threshold are near it. What they keep for others is no
 * part of their limit.
 *  refused  the limit denied the hits and charged none of them: all are over it. */
static void count_hits(weir_rls_loop *l, const weir_rls_config *c, const rls_item *item, verdict *v,
                       bool refused)
{
    rls_counters *counters = rls_counters_of(l, item->stat);
    int64_t kept = weir_kept_of_limit(v->limit, item->limit->keep);
    v->limit -= kept < v->limit ? kept : v->limit;
    uint64_t limit = (uint64_t)v->limit, hits = item->hits;
    bump(counters, RLS_TOTAL_HITS, hits);
    if (refused) {
        bump(counters, RLS_OVER_LIMIT, hits);
        return;
    }
    uint64_t near =
        item->limit->policy || kept > 0 ? rls_near(&c->options, limit) : item->limit->near;
    uint64_t before = count_before(l, item, v);
    if (!v->over) {
        uint64_t after = before + hits;
        if (after > near)
            bump(counters, RLS_NEAR_LIMIT, before >= near ? hits : after - near);
        bump(counters, RLS_WITHIN_LIMIT, hits);
        return;
    }
    uint64_t over = hits;
    if (before < limit) {
        over = before + hits - limit;
        bump(counters, RLS_NEAR_LIMIT, limit - (near > before ? near : before));
    }
    bump(counters, RLS_OVER_LIMIT, over);
    if (v->shadow)
        bump(counters, RLS_SHADOW_MODE, over);
}

/* ---- responses ------------------------------------------------------------------------------- */

static void fail(weir_rls_loop *l, weir_rls_response *ret, weir_rls_failure failure,
                 const char *why)
{
    int which = failure == WEIR_RLS_REFUSED ? RLS_SERVICE_ERRORS : RLS_ENGINE_ERRORS;
    port_bump_relaxed(&l->own[which], 1);
    *ret = (weir_rls_response){.failure = failure, .why = why};
}

/* Returns why an item was not decided; NULL if it was. Takes the limit away if its rule is gone. */
static const char *failure_of(const weir_rls_loop *l, rls_item *item)
{
    if (!rls_has_state(item))
        return NULL;
    WEIR_ASSERT(item->take != RLS_NO_TAKE);
    const weir_request *take = &l->take[item->take];
    switch (take->status) {
    case WEIR_OK:
        return NULL;
    case WEIR_E_ABSENT:
        item->limit = NULL;
        return NULL;
    case WEIR_E_NOMEM:
        return "the store is full";
    default:
        return take->why ? take->why : "the limit was not decided";
    }
}

/* What the overall code and the headers depend on. */
typedef struct overall {
    size_t over, quota_over, quotas;
    const weir_rls_status *tightest; /* NULL: no descriptor has a limit */
    uint32_t remaining;
} overall;

static void add_status(overall *o, const weir_rls_config *c, const rls_item *item,
                       const weir_rls_status *status)
{
    if (status->has_limit && status->remaining < o->remaining) {
        o->tightest = status;
        o->remaining = status->remaining;
    }
    if (item->unlimited)
        return;
    bool quota = c->options.quota_mode || (item->limit && item->limit->quota);
    o->quotas += quota;
    if (status->code != WEIR_RLS_OVER_LIMIT)
        return;
    if (quota) {
        o->quota_over++;
        return;
    }
    o->over++;
    o->tightest = status;
    o->remaining = 0;
}

static void write_number(weir_rls_header *header, const char *name, int64_t value)
{
    header->name = name;
    header->value[weir_i64_print(header->value, value)] = '\0';
}

static void write_headers(weir_rls_loop *l, const weir_rls_config *c, size_t plan,
                          const weir_rls_status *status, weir_rls_response *ret)
{
    weir_rls_header *header = l->header[plan];
    write_number(&header[0], c->options.limit_header, status->requests_per_unit);
    write_number(&header[1], c->options.remaining_header, status->remaining);
    write_number(&header[2], c->options.reset_header, seconds_up(status->reset_ns) / second_ns);
    ret->headers = header;
    ret->headers_len = 3;
}

/* Whether `a` represents the request rather than `b`: in a denied request, denials do. */
static bool outranks(bool over, const weir_decision *a, const weir_decision *b)
{
    return a->allowed != b->allowed ? a->allowed != over : weir_outranks(a, b);
}

/* Lists the decisions of a request for header fields. An inline policy that an earlier call of the
 * service has decided is not known any more, and left out. */
static void list_decided(weir_rls_loop *l, const weir_rls_config *c, const rls_plan *p,
                         weir_rls_response *ret, int64_t now_ns)
{
    weir_rls_decided *decided = &l->decided[p->first];
    bool over = ret->code == WEIR_RLS_OVER_LIMIT;
    for (size_t i = p->first; i < p->first + p->len; i++) {
        const rls_item *item = &l->item[i];
        if (!rls_has_state(item))
            continue;
        weir_request *take = &l->take[item->take];
        weir_slice none = {0}, rule = item->limit->by_text ? none : item->limit->rule;
        const weir_policy *inlined = p->special ? NULL : take->policy;
        const weir_policy *policy = item->limit->by_text ? inlined : item->limit->parsed;
        if (item->limit->marks_over) { /* the policy has the layer of the limit only */
            take->decision.layer = 0;
            take->decision.limit = item->limit->requests_per_unit;
        }
        if (!policy || take->decision.layer >= policy->layers)
            continue;
        weir_service_next(l->service, take, 1, now_ns);
        decided[ret->decided_len] =
            (weir_rls_decided){rule, policy, &take->decision, take->next_ns, take->key};
        if (outranks(over, &take->decision, decided[ret->shown].decision))
            ret->shown = ret->decided_len;
        ret->decided_len++;
    }
    ret->flavours = c->options.flavours;
    ret->retry_spread = c->options.retry_spread;
    ret->decided = decided;
    ret->now_ns = now_ns;
}

/* Notes a request of several hits that was denied without a charge while units were left, or that
 * never fits: perhaps it reports what was used already. */
static void note_not_charged(const rls_item *item, const verdict *v)
{
    rls_not_charged *n = item->limit->not_charged;
    if (!n || item->hits < 2 || item->limit->rule.len == 0 ||
        (v->remaining <= 0 && item->hits <= (uint64_t)v->limit))
        return;
    uint64_t hits = item->hits < UINT32_MAX ? item->hits : UINT32_MAX;
    port_word_store_relaxed(&n->last, hits << 32 | to_u32(v->remaining));
    port_word_add_relaxed(&n->requests, 1);
}

/* Writes the status of an item, and counts its hits, unless another limit of an atomic request
 * denied them, so that this limit was not charged. */
static void decide_item(weir_rls_loop *l, const weir_rls_config *c, const rls_item *item,
                        weir_rls_verb verb, weir_rls_status *ret, int64_t now_ns)
{
    *ret = (weir_rls_status){.code = WEIR_RLS_OK, .remaining = item->unlimited ? UINT32_MAX : 0};
    if (!item->limit || item->unlimited)
        return;
    verdict v = verdict_of(l, c, item);
    write_status(c, item, &v, ret, now_ns);
    bool denies = ret->code == WEIR_RLS_OVER_LIMIT && !item->late;
    bool charges = item->limit->counts_denied;
    if (item->late)
        v.over = !fitted(l, item);
    if (verb == WEIR_RLS_CHECK_AND_REPORT && denies && !charges && !item->negative)
        note_not_charged(item, &v);
    if (verb != WEIR_RLS_CHECK && !item->negative && item->hits > 0 && (denies || !item->uncharged))
        count_hits(l, c, item, &v,
                   denies && verb != WEIR_RLS_REPORT && (!charges || item->uncharged));
}

void rls_respond(weir_rls_loop *l, const weir_rls_config *c, size_t plan,
                 const weir_rls_request *request, weir_rls_response *ret, int64_t now_ns)
{
    const rls_plan *p = &l->plan[plan];
    if (request->verb == WEIR_RLS_CHECK_AND_REPORT)
        port_bump_relaxed(&l->own[RLS_REQUESTS], 1);
    if (p->refused) {
        fail(l, ret, WEIR_RLS_REFUSED, p->refused);
        return;
    }
    if (p->unknown_domain)
        rls_count_unknown_domain(l, request->domain, p->len);
    for (size_t i = p->first; i < p->first + p->len; i++) {
        const char *why = failure_of(l, &l->item[i]);
        if (why) {
            fail(l, ret, WEIR_RLS_UNAVAILABLE, why);
            return;
        }
    }
    overall o = {.remaining = UINT32_MAX};
    for (size_t i = p->first; i < p->first + p->len; i++) {
        decide_item(l, c, &l->item[i], request->verb, &l->status[i], now_ns);
        add_status(&o, c, &l->item[i], &l->status[i]);
    }
    bool over = o.over > 0 || (o.quotas > 0 && o.quotas == o.quota_over);
    if (over && c->options.shadow_mode) {
        port_bump_relaxed(&l->own[RLS_GLOBAL_SHADOW], 1);
        over = false;
    }
    over = over && request->verb != WEIR_RLS_REPORT;
    *ret = (weir_rls_response){.code = over ? WEIR_RLS_OVER_LIMIT : WEIR_RLS_OK,
                               .statuses = &l->status[p->first],
                               .statuses_len = p->len};
    if (c->options.metadata) {
        ret->metadata =
            rls_metadata(&l->metadata, request, &l->item[p->first], &l->status[p->first], p->len);
        if (!ret->metadata) {
            fail(l, ret, WEIR_RLS_UNAVAILABLE, "out of memory");
            return;
        }
    }
    if (c->options.flavours)
        list_decided(l, c, p, ret, now_ns);
    else if (c->options.headers && o.tightest)
        write_headers(l, c, plan, o.tightest, ret);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static size_t ask_fallback(weir_rls_loop *l, weir_rls_wait *wait, const weir_rls_request *request,
                           weir_rls_response *ret, int64_t now_ns)
{
    wait->in_fallback =
        !l->fallback.decide(l->fallback.ctx, &wait->completion, request, ret, now_ns);
    if (!wait->in_fallback && request->verb == WEIR_RLS_CHECK_AND_REPORT)
        port_bump_relaxed(&l->own[RLS_REQUESTS], 1);
    return !wait->in_fallback;
}

/* Lets the service decide the planned requests. Returns false if an engine is pending. */
static bool run(weir_rls_loop *l, weir_rls_wait *wait, weir_rls_verb verb, int64_t now_ns)
{
    if (l->plan[0].special)
        return rls_run_special(l, wait, &l->plan[0], verb, now_ns);
    return l->takes_len == 0 ||
           weir_service_take(l->service, &wait->completion, l->take, l->takes_len, now_ns);
}

size_t weir_rls_decide(weir_rls_loop *l, weir_rls_wait *wait, const weir_rls_request *requests,
                       size_t n, weir_rls_response *responses, int64_t now_ns)
{
    bool resumes = wait->config != NULL;
    WEIR_ASSERT(n >= 1 && n >= wait->len);
    rls_loop_refresh(l);
    if (wait->in_fallback)
        return ask_fallback(l, wait, requests, responses, now_ns);
    weir_rls_config *c = resumes ? wait->config : l->config;
    size_t len = rls_plan_group(l, c, requests, resumes ? wait->len : n, resumes);
    if (len == 0)
        return ask_fallback(l, wait, requests, responses, now_ns);
    if (!run(l, wait, requests[0].verb, now_ns)) {
        if (!resumes)
            weir_rls_config_hold(c);
        wait->config = c;
        wait->len = len;
        return 0;
    }
    for (size_t i = 0; i < len; i++)
        rls_respond(l, c, i, &requests[i], &responses[i], now_ns);
    if (resumes) {
        l->held = c; /* the statuses point to its names */
        wait->config = NULL;
        rls_wait_clear(wait);
    }
    return len;
}

void weir_rls_wait_cancel(weir_rls_wait *wait)
{
    weir_completion_cancel(&wait->completion);
    weir_rls_config_drop(wait->config);
    wait->config = NULL;
    wait->in_fallback = false;
    rls_wait_clear(wait);
}
