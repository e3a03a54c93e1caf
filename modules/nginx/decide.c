/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Asks the stores of the zones, and counts and logs what they decided. */

#include "decide.h"

#include "core/check.h"
#include "core/decision.h"
#include "port/assert.h"
#include "port/port.h"
#include "store/lease.h"
#include "store/take_many.h"

/* ---- outcomes -------------------------------------------------------------------------------- */

static weir_ngx_status status_of(const weir_ngx_limit *limit, const weir_decision *d)
{
    if (!d->allowed)
        return limit->shadow ? WEIR_NGX_REJECTED_SHADOW : WEIR_NGX_REJECTED;
    if (d->delay_ns > 0)
        return limit->shadow ? WEIR_NGX_DELAYED_SHADOW : WEIR_NGX_DELAYED;
    return WEIR_NGX_PASSED;
}

bool weir_ngx_may_log(ngx_http_request_t *r, weir_ngx_limit *limit, weir_ngx_line line,
                      ngx_uint_t level)
{
    static const char *const what[] = {
        [WEIR_NGX_LINE_DENIAL] = "requests were limited by",
        [WEIR_NGX_LINE_DELAY] = "requests were delayed by",
        [WEIR_NGX_LINE_FAILURE] = "requests were not decided by",
        [WEIR_NGX_LINE_COST] = "bad costs were counted as 1 by",
        [WEIR_NGX_LINE_KEY] = "long keys were not limited by",
        [WEIR_NGX_LINE_LEASE] = "leases were not renewed by",
    };
    const ngx_http_core_loc_conf_t *conf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    return weir_ngx_lines_may_log(&limit->lines[line], level, conf->error_log, what[line],
                                  &limit->label);
}

static void log_outcome(ngx_http_request_t *r, weir_ngx_limit *limit, const weir_decision *d)
{
    ngx_uint_t level = d->allowed ? ngx_min(limit->log_level + 1, NGX_LOG_INFO) : limit->log_level;
    if (!weir_ngx_may_log(r, limit, d->allowed ? WEIR_NGX_LINE_DELAY : WEIR_NGX_LINE_DENIAL, level))
        return;
    const char *shadow = limit->shadow ? " (shadow)" : "";
    int64_t wait_ns = d->allowed ? d->delay_ns : d->retry_after_ns;
    int64_t wait_ms = weir_ms_ceil(wait_ns);
    if (d->allowed) {
        ngx_log_error(level, r->connection->log, 0,
                      "delaying request by %L.%03L s, by \"%V\", zone \"%V\"%s", wait_ms / 1000,
                      wait_ms % 1000, &limit->label, &limit->zone->name, shadow);
    } else if (d->never) {
        ngx_log_error(level, r->connection->log, 0,
                      "limiting requests by \"%V\", which never allows so much, zone \"%V\"%s",
                      &limit->label, &limit->zone->name, shadow);
    } else {
        ngx_log_error(level, r->connection->log, 0,
                      "limiting requests by \"%V\", retry after %L.%03L s, zone \"%V\"%s",
                      &limit->label, wait_ms / 1000, wait_ms % 1000, &limit->zone->name, shadow);
    }
}

void weir_ngx_note(ngx_http_request_t *r, weir_ngx_ctx *ctx, const weir_ngx_outcome *outcome)
{
    weir_ngx_status status = status_of(outcome->limit, &outcome->decision);
    weir_ngx_count(outcome->limit, status);
    if (status != WEIR_NGX_PASSED)
        log_outcome(r, outcome->limit, &outcome->decision);
    weir_ngx_ctx_show(ctx, status, outcome);
}

weir_ngx_outcome weir_ngx_outcome_of(const weir_ngx_question *q, size_t i)
{
    const weir_store_request *one = &q->requests[i];
    return (weir_ngx_outcome){
        q->limits[i], one->decision, one->cost, q->next_ns[i], {one->key, one->key_len}};
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Counts and logs that a limit could not be checked, such as for lack of memory. */
static void fail(ngx_http_request_t *r, weir_ngx_limit *limit, const char *why)
{
    weir_ngx_count(limit, WEIR_NGX_FAILED);
    if (!weir_ngx_may_log(r, limit, WEIR_NGX_LINE_FAILURE, NGX_LOG_ALERT))
        return;
    ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0, "no decision by \"%V\", zone \"%V\": %s",
                  &limit->label, &limit->zone->name, why);
}

int64_t weir_ngx_delay(const weir_ngx_limit *limit, int64_t delay_ns)
{
    return delay_ns > limit->undelayed_ns ? delay_ns - limit->undelayed_ns : 0;
}

/* Decides on all requests: all are charged, or none is. As weir_store_take_many(). */
static weir_status ask_stores(weir_ngx_question *q, int64_t now_ns, size_t *ret_blocking)
{
    weir_store *stores[WEIR_TAKE_MANY_MAX];
    weir_store_request *one = &q->requests[0];
    for (size_t i = 0; i < q->len; i++)
        stores[i] = q->limits[i]->zone->store;
    if (q->len > 1)
        return weir_stores_take_many(stores, q->requests, q->len, now_ns, ret_blocking, q->ends_ns);
    q->ends_ns[0] = 0;
    if (q->limits[0]->hold)
        one->status = weir_store_take_lease(stores[0], one, now_ns, q->ends_ns);
    else
        weir_store_check_batch(stores[0], one, 1, now_ns);
    *ret_blocking = one->status == WEIR_OK && one->decision.allowed;
    return one->status;
}

/* The time until a cost of 1 is allowed. */
static int64_t next_of(weir_store *store, const weir_store_request *one, int64_t now_ns)
{
    weir_decision d;
    if (weir_next_is_now(one->policy, &one->decision))
        return 0;
    weir_status st = weir_store_peek_keep(store, one->policy, one->policy_id, one->key,
                                          one->key_len, now_ns, 1, one->keep, &d);
    return st == WEIR_OK ? d.retry_after_ns : WEIR_NEXT_UNKNOWN;
}

/* ask_stores(), and keeps the leases and applies delay=. */
static weir_status take(ngx_http_request_t *r, weir_ngx_question *q, size_t *ret_blocking)
{
    int64_t now_ns = weir_store_now(q->limits[0]->zone->store);
    weir_status st = ask_stores(q, now_ns, ret_blocking);
    if (st == WEIR_OK && !weir_ngx_keep_leases(r, q))
        st = WEIR_E_NOMEM;
    for (size_t i = 0; i < q->len && st == WEIR_OK; i++) {
        weir_decision *d = &q->requests[i].decision;
        d->delay_ns = weir_ngx_delay(q->limits[i], d->delay_ns);
        q->next_ns[i] = next_of(q->limits[i]->zone->store, &q->requests[i], now_ns);
    }
    return st;
}

ngx_int_t weir_ngx_apply(ngx_http_request_t *r, weir_ngx_ctx *ctx, const weir_ngx_question *q,
                         size_t blocking)
{
    size_t shown = blocking < q->len ? blocking : 0;
    WEIR_ASSERT(q->len > 0 && blocking <= q->len);
    ctx->now_ns = port_now_ns();
    for (size_t i = 0; i < q->len && blocking == q->len; i++) {
        const weir_decision *d = &q->requests[i].decision;
        const weir_ngx_outcome outcome = weir_ngx_outcome_of(q, i);
        weir_ngx_note(r, ctx, &outcome);
        ctx->delay_ns = ngx_max(ctx->delay_ns, d->delay_ns);
        if (weir_outranks(d, &q->requests[shown].decision))
            shown = i;
    }
    for (size_t i = 0; i < q->len; i++) {
        const weir_ngx_outcome outcome = weir_ngx_outcome_of(q, i);
        weir_ngx_ctx_keep(ctx, &outcome, i == shown);
    }
    if (blocking == q->len)
        return NGX_DECLINED;
    const weir_ngx_outcome denial = weir_ngx_outcome_of(q, blocking);
    weir_ngx_note(r, ctx, &denial);
    return (ngx_int_t)q->limits[blocking]->status;
}

/* The limit that could not be decided on. */
static weir_ngx_limit *failed_one(const weir_ngx_question *q)
{
    size_t i = 0;
    while (i + 1 < q->len && q->requests[i].status == WEIR_OK)
        i++;
    return q->limits[i];
}

ngx_int_t weir_ngx_enforce(ngx_http_request_t *r, weir_ngx_ctx *ctx, weir_ngx_question *q)
{
    size_t blocking;
    if (q->len == 0)
        return NGX_DECLINED;
    weir_status st = take(r, q, &blocking);
    if (st == WEIR_OK)
        return weir_ngx_apply(r, ctx, q, blocking);
    weir_ngx_limit *limit = failed_one(q);
    fail(r, limit, weir_status_str(st));
    return weir_ngx_by_error(ctx, limit, true);
}

ngx_int_t weir_ngx_by_error(weir_ngx_ctx *ctx, weir_ngx_limit *limit, bool deny)
{
    ctx->by_error = true;
    ctx->now_ns = port_now_ns();
    ctx->status = deny ? WEIR_NGX_REJECTED : WEIR_NGX_PASSED;
    ctx->shown.limit = limit;
    return deny ? (ngx_int_t)limit->status : NGX_DECLINED;
}

void weir_ngx_shadow(ngx_http_request_t *r, weir_ngx_ctx *ctx, const weir_ngx_question *q)
{
    for (size_t i = 0; i < q->len; i++) {
        weir_ngx_question one = {.len = 1, .limits = {q->limits[i]}, .requests = {q->requests[i]}};
        size_t blocking;
        weir_status st = take(r, &one, &blocking);
        if (st != WEIR_OK) {
            fail(r, one.limits[0], weir_status_str(st));
            continue;
        }
        const weir_ngx_outcome outcome = weir_ngx_outcome_of(&one, 0);
        weir_ngx_note(r, ctx, &outcome);
    }
}
