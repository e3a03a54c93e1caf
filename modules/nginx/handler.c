/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The handler of the preaccess phase: evaluates keys and costs, and then lets a request pass, holds
 * it, or denies it, as decide.c says. */

#include "decide.h"

#include "codec/decision.h"
#include "port/text.h"

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

/* A context with room for the decisions of n enforced limits. */
static weir_ngx_ctx *new_ctx(ngx_http_request_t *main, size_t n)
{
    size_t size = sizeof(weir_ngx_ctx) + n * sizeof(weir_ngx_outcome);
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(main->pool, size);
    if (!cleanup)
        return NULL;
    ngx_memzero(cleanup->data, size);
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
    uint64_t cost;
    if (weir_digits_read((const char *)text.data, text.len, &cost) < text.len) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "bad cost \"%V\" of \"%V\", expected a whole number; counting 1", &text,
                      &limit->label);
        return 1;
    }
    return (int64_t)ngx_min(cost, WEIR_COST_MAX);
}

/* Adds a limit to the question, unless its key is empty. Returns false if memory is exhausted. */
static bool add_request(ngx_http_request_t *r, weir_ngx_limit *limit, weir_ngx_question *q)
{
    ngx_str_t key;
    if (ngx_http_complex_value(r, &limit->key, &key) != NGX_OK)
        return false;
    if (key.len == 0)
        return true;
    if (!limit->open)
        weir_ngx_limit_open(limit, r->connection->log);
    if (!limit->open) { /* the log says why */
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

/* Collects the shadow limits of a location or, if `shadow` is false, all others. */
static bool collect(ngx_http_request_t *r, const weir_ngx_loc_conf *conf, bool shadow,
                    weir_ngx_question *ret)
{
    weir_ngx_limit **all = conf->limits->elts;
    ngx_uint_t n = shadow ? conf->shadows : conf->limits->nelts - conf->shadows;
    ret->len = 0;
    for (ngx_uint_t i = 0; n > 0; i++) {
        if (all[i]->shadow != shadow)
            continue;
        if (!add_request(r, all[i], ret))
            return false;
        n--;
    }
    return true;
}

/* ---- the phase handler ----------------------------------------------------------------------- */

/* Continues with the phases of a request that has waited. */
static void run_phases(ngx_http_request_t *r)
{
    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}

/* Lets a request wait until run_phases(). Write events do nothing meanwhile. If the client closes
 * the connection, the request ends, and its charge stays. */
static bool await_event(ngx_http_request_t *r)
{
    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK)
        return false;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    return true;
}

/* A request that waits for a timer. It cannot use the timers of its connection: they would resume
 * the main request, not a subrequest in the background. */
typedef struct held {
    ngx_event_t timer;
    ngx_http_request_t *r;
} held;

static void on_timer(ngx_event_t *timer)
{
    ngx_http_request_t *r = ((held *)((u_char *)timer - offsetof(held, timer)))->r;
    ngx_connection_t *c = r->connection;
    ngx_http_set_log_request(c->log, r);
    run_phases(r);
    ngx_http_run_posted_requests(c);
}

static void stop_timer(void *data)
{
    held *h = data;
    if (h->timer.timer_set)
        ngx_del_timer(&h->timer);
}

/* Holds a request. */
static ngx_int_t hold(ngx_http_request_t *r, int64_t delay_ns)
{
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, sizeof(held));
    if (!cleanup || !await_event(r))
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    held *h = cleanup->data;
    *h = (held){.timer = {.handler = on_timer, .data = r->connection, .log = r->connection->log},
                .r = r};
    cleanup->handler = stop_timer;
    ngx_add_timer(&h->timer, (ngx_msec_t)weir_ms_ceil(delay_ns));
    return NGX_AGAIN;
}

void weir_ngx_resume(ngx_http_request_t *r, weir_ngx_ctx *ctx, ngx_int_t rc)
{
    ngx_connection_t *c = r->connection;
    if (rc != NGX_DECLINED)
        ngx_http_finalize_request(r, weir_ngx_deny(r, ctx, rc));
    else if (ctx->delay_ns == 0)
        run_phases(r);
    else if (hold(r, ctx->delay_ns) != NGX_AGAIN)
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    ngx_http_run_posted_requests(c);
}

/* Waits for the daemon. */
static ngx_int_t ask(ngx_http_request_t *r, weir_ngx_ctx *ctx, weir_ngx_daemon *daemon,
                     const weir_ngx_question *enforced, const weir_ngx_question *shadows)
{
    bool asked = weir_ngx_ask_daemon(r, ctx, daemon, enforced, shadows) == NGX_OK && await_event(r);
    return asked ? NGX_AGAIN : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

/* The phase runs again after a delay, after an internal redirect and in subrequests. By then the
 * main request has its decision. If it had no limits, those of a subrequest decide instead. */
ngx_int_t weir_ngx_handler(ngx_http_request_t *r)
{
    const weir_ngx_loc_conf *conf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);
    if (!conf->limits || conf->limits->nelts == 0 || weir_ngx_ctx_of(r))
        return NGX_DECLINED;
    weir_ngx_question enforced, shadows;
    if (!collect(r, conf, false, &enforced) || !collect(r, conf, true, &shadows))
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (enforced.len + shadows.len == 0)
        return NGX_DECLINED;
    weir_ngx_ctx *ctx = new_ctx(r->main, enforced.len);
    if (!ctx)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ctx->headers = conf->headers;
    ctx->denied_body = conf->denied_body;
    if (conf->daemon)
        return ask(r, ctx, conf->daemon, &enforced, &shadows);
    ngx_int_t rc = weir_ngx_enforce(r, ctx, &enforced);
    weir_ngx_shadow(r, ctx, &shadows);
    if (rc == NGX_DECLINED)
        return ctx->delay_ns > 0 ? hold(r, ctx->delay_ns) : rc;
    ngx_http_finalize_request(r, weir_ngx_deny(r, ctx, rc));
    return NGX_DONE;
}
