/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decides on requests in the preaccess phase: evaluates keys and costs, asks the stores, and then
 * lets the request pass, holds it, or denies it. */

#include "module.h"

#include "core/check.h"

#include <inttypes.h>

#define MS_NS INT64_C(1000000)

/* The limits of one location for one request. */
typedef struct question {
    weir_ngx_limit *limits[WEIR_TAKE_MANY_MAX];
    weir_store_request requests[WEIR_TAKE_MANY_MAX];
    size_t len;
} question;

/* ---- the context of a request ---------------------------------------------------------------- */

static void on_pool_cleanup(void *data)
{
    (void)data; /* the cleanup only marks where the context is */
}

/* nginx clears the contexts of modules at an internal redirect. The pool's list of cleanups still
 * has this one. */
static weir_ngx_ctx *find_ctx(ngx_http_request_t *main)
{
    for (ngx_pool_cleanup_t *c = main->pool->cleanup; c; c = c->next) {
        if (c->handler == on_pool_cleanup) {
            ngx_http_set_ctx(main, c->data, ngx_http_weir_module);
            return c->data;
        }
    }
    return NULL;
}

weir_ngx_ctx *weir_ngx_ctx_of(ngx_http_request_t *r)
{
    weir_ngx_ctx *ctx = ngx_http_get_module_ctx(r->main, ngx_http_weir_module);
    return ctx || !(r->main->internal || r->main->filter_finalize) ? ctx : find_ctx(r->main);
}

static weir_ngx_ctx *new_ctx(ngx_http_request_t *main)
{
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(main->pool, sizeof(weir_ngx_ctx));
    if (!cleanup)
        return NULL;
    ngx_memzero(cleanup->data, sizeof(weir_ngx_ctx));
    cleanup->handler = on_pool_cleanup;
    ngx_http_set_ctx(main, cleanup->data, ngx_http_weir_module);
    return cleanup->data;
}

/* ---- keys and costs -------------------------------------------------------------------------- */

static int64_t cost_of(ngx_http_request_t *r, const weir_ngx_limit *limit)
{
    ngx_str_t text;
    if (!limit->cost || ngx_http_complex_value(r, limit->cost, &text) != NGX_OK || text.len == 0)
        return 1;
    off_t cost = ngx_atoof(text.data, text.len);
    if (cost < 0) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "bad cost \"%V\" of \"%V\", expected a whole number; counting 1", &text,
                      &limit->label);
        return 1;
    }
    return ngx_min(cost, WEIR_COST_MAX);
}

/* Adds the question of a limit, unless its key is empty. Returns false if memory is exhausted. */
static bool add_request(ngx_http_request_t *r, weir_ngx_limit *limit, question *q)
{
    ngx_str_t key;
    if (ngx_http_complex_value(r, &limit->key, &key) != NGX_OK)
        return false;
    if (key.len == 0)
        return true;
    if (!limit->counts) /* after a reload without workers, by master_process off */
        weir_ngx_limit_open(limit, r->connection->log);
    if (!limit->zone->store) { /* the log says why */
        (void)ngx_atomic_fetch_add(&limit->counts->failed, 1);
        return true;
    }
    if (key.len > WEIR_KEY_MAX) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "the key of \"%V\" has %uz bytes, expected at most %d; not limited",
                      &limit->label, key.len, WEIR_KEY_MAX);
        return true;
    }
    q->limits[q->len] = limit;
    q->requests[q->len++] = (weir_store_request){.policy = &limit->policy,
                                                 .policy_id = limit->id,
                                                 .key = key.data,
                                                 .key_len = key.len,
                                                 .cost = cost_of(r, limit)};
    return true;
}

/* Collects the limits of a location that are shadow limits, or those that are not. */
static bool collect(ngx_http_request_t *r, const ngx_array_t *limits, bool shadow, question *ret)
{
    weir_ngx_limit **all = limits->elts;
    ret->len = 0;
    for (ngx_uint_t i = 0; i < limits->nelts; i++) {
        if (all[i]->shadow == shadow && !add_request(r, all[i], ret))
            return false;
    }
    return true;
}

/* ---- outcomes -------------------------------------------------------------------------------- */

static ngx_atomic_t *count_of(weir_ngx_counts *c, weir_ngx_status status)
{
    switch (status) {
    case WEIR_NGX_PASSED:
        return &c->passed;
    case WEIR_NGX_DELAYED_SHADOW:
        return &c->delayed_shadow;
    case WEIR_NGX_REJECTED_SHADOW:
        return &c->rejected_shadow;
    case WEIR_NGX_DELAYED:
        return &c->delayed;
    case WEIR_NGX_REJECTED:
    case WEIR_NGX_STATUSES:
        break;
    }
    return &c->rejected;
}

static weir_ngx_status status_of(const weir_ngx_limit *limit, const weir_decision *d)
{
    if (!d->allowed)
        return limit->shadow ? WEIR_NGX_REJECTED_SHADOW : WEIR_NGX_REJECTED;
    if (d->delay_ns > 0)
        return limit->shadow ? WEIR_NGX_DELAYED_SHADOW : WEIR_NGX_DELAYED;
    return WEIR_NGX_PASSED;
}

static void log_outcome(ngx_http_request_t *r, const weir_ngx_limit *limit, const weir_decision *d)
{
    const char *shadow = limit->shadow ? " (shadow)" : "";
    int64_t wait_ns = d->allowed ? d->delay_ns : d->retry_after_ns;
    int64_t wait_ms = wait_ns / MS_NS + (wait_ns % MS_NS > 0);
    if (d->allowed) {
        ngx_log_error(ngx_min(limit->log_level + 1, NGX_LOG_INFO), r->connection->log, 0,
                      "delaying request by %L.%03L s, by \"%V\", zone \"%V\"%s", wait_ms / 1000,
                      wait_ms % 1000, &limit->label, &limit->zone->name, shadow);
    } else if (d->never) {
        ngx_log_error(limit->log_level, r->connection->log, 0,
                      "limiting requests by \"%V\", which never allows so much, zone \"%V\"%s",
                      &limit->label, &limit->zone->name, shadow);
    } else {
        ngx_log_error(limit->log_level, r->connection->log, 0,
                      "limiting requests by \"%V\", retry after %L.%03L s, zone \"%V\"%s",
                      &limit->label, wait_ms / 1000, wait_ms % 1000, &limit->zone->name, shadow);
    }
}

/* Counts and logs what a limit decided, and notes it if it ranks first. */
static void note(ngx_http_request_t *r, weir_ngx_ctx *ctx, weir_ngx_limit *limit,
                 const weir_decision *d)
{
    weir_ngx_status status = status_of(limit, d);
    (void)ngx_atomic_fetch_add(count_of(limit->counts, status), 1);
    if (status != WEIR_NGX_PASSED)
        log_outcome(r, limit, d);
    const weir_ngx_outcome outcome = {limit, *d};
    bool first = !ctx->shown.limit || status > ctx->status ||
                 (status == ctx->status && weir_outranks(d, &ctx->shown.decision));
    if (first) {
        ctx->status = status;
        ctx->shown = outcome;
    }
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* A limit could not be decided on, such as for lack of memory. */
static void fail(ngx_http_request_t *r, const weir_ngx_limit *limit, const char *why)
{
    (void)ngx_atomic_fetch_add(&limit->counts->failed, 1);
    ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0, "no decision by \"%V\", zone \"%V\": %s",
                  &limit->label, &limit->zone->name, why);
}

/* Decides on all requests: all are charged, or none is. As weir_store_take_many(). */
static weir_status take(question *q, size_t *ret_blocking)
{
    weir_store *store = q->limits[0]->zone->store;
    weir_store_request *one = &q->requests[0];
    int64_t now_ns = weir_store_now(store);
    if (q->len > 1)
        return weir_store_take_many(store, q->requests, q->len, now_ns, ret_blocking);
    one->status = weir_store_check(store, one->policy, one->policy_id, one->key, one->key_len,
                                   now_ns, one->cost, &one->decision);
    *ret_blocking = one->status == WEIR_OK && one->decision.allowed;
    return one->status;
}

static const char *failure_of(const question *q, size_t *ret_index)
{
    size_t i = 0;
    while (i + 1 < q->len && q->requests[i].status == WEIR_OK)
        i++;
    *ret_index = i;
    return weir_status_str(q->requests[i].status);
}

/* Notes the decisions on the enforced limits. Returns the status of a denial, or NGX_DECLINED.
 *  blocking  the index of the limit that denies all, or q->len. */
static ngx_int_t apply(ngx_http_request_t *r, weir_ngx_ctx *ctx, const question *q, size_t blocking)
{
    if (blocking < q->len) {
        note(r, ctx, q->limits[blocking], &q->requests[blocking].decision);
        ctx->enforced = (weir_ngx_outcome){q->limits[blocking], q->requests[blocking].decision};
        return (ngx_int_t)q->limits[blocking]->status;
    }
    for (size_t i = 0; i < q->len; i++) {
        const weir_decision *d = &q->requests[i].decision;
        note(r, ctx, q->limits[i], d);
        ctx->delay_ns = ngx_max(ctx->delay_ns, d->delay_ns);
        if (!ctx->enforced.limit || weir_outranks(d, &ctx->enforced.decision))
            ctx->enforced = (weir_ngx_outcome){q->limits[i], *d};
    }
    return NGX_DECLINED;
}

static ngx_int_t enforce(ngx_http_request_t *r, weir_ngx_ctx *ctx, question *q)
{
    size_t blocking;
    if (take(q, &blocking) == WEIR_OK)
        return apply(r, ctx, q, blocking);
    const char *why = failure_of(q, &blocking);
    fail(r, q->limits[blocking], why);
    return (ngx_int_t)q->limits[blocking]->status;
}

/* Decides on each shadow limit alone. */
static void shadow(ngx_http_request_t *r, weir_ngx_ctx *ctx, const question *q)
{
    for (size_t i = 0; i < q->len; i++) {
        question one = {{q->limits[i]}, {q->requests[i]}, 1};
        size_t blocking;
        if (take(&one, &blocking) == WEIR_OK)
            note(r, ctx, one.limits[0], &one.requests[0].decision);
        else
            fail(r, one.limits[0], failure_of(&one, &blocking));
    }
}

/* ---- the phase handler ----------------------------------------------------------------------- */

/* Write events of a held request: the connection became writable, or the delay is over. */
static void on_write(ngx_http_request_t *r)
{
    ngx_connection_t *c = r->connection;
    bool held = c->write->delayed;
    ngx_int_t rc = held ? ngx_handle_write_event(c->write, 0) : ngx_handle_read_event(c->read, 0);
    if (rc != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    } else if (!held) {
        r->read_event_handler = ngx_http_block_reading;
        r->write_event_handler = ngx_http_core_run_phases;
        ngx_http_core_run_phases(r);
    }
}

/* Holds a request on its connection's timer. If the client closes the connection meanwhile, the
 * request ends, and its charge stays. */
static ngx_int_t hold(ngx_http_request_t *r, int64_t delay_ns)
{
    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = on_write;
    r->connection->write->delayed = 1;
    ngx_add_timer(r->connection->write, (ngx_msec_t)(delay_ns / MS_NS + (delay_ns % MS_NS > 0)));
    return NGX_AGAIN;
}

/* The phase continues after a delay, and begins again after an internal redirect and in
 * subrequests: then the decision is there. */
ngx_int_t weir_ngx_handler(ngx_http_request_t *r)
{
    const weir_ngx_loc_conf *conf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);
    if (!conf->limits || conf->limits->nelts == 0 || weir_ngx_ctx_of(r))
        return NGX_DECLINED;
    question enforced, shadows;
    weir_ngx_ctx *ctx = new_ctx(r->main);
    if (!ctx || !collect(r, conf->limits, false, &enforced) ||
        !collect(r, conf->limits, true, &shadows))
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ctx->headers = conf->headers;
    ngx_int_t rc = enforced.len > 0 ? enforce(r, ctx, &enforced) : NGX_DECLINED;
    shadow(r, ctx, &shadows);
    return rc == NGX_DECLINED && ctx->delay_ns > 0 ? hold(r, ctx->delay_ns) : rc;
}
