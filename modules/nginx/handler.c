/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The handler of the preaccess phase: evaluates keys and costs, and then lets a request pass, holds
 * it, or denies it, as decide.c says. wait.c has the requests that wait. */

#include "decide.h"

#include "port/assert.h"
#include "port/text.h"

/* ---- keys and costs -------------------------------------------------------------------------- */

static int64_t cost_of(ngx_http_request_t *r, weir_ngx_limit *limit)
{
    ngx_str_t text;
    if (!limit->cost || ngx_http_complex_value(r, limit->cost, &text) != NGX_OK || text.len == 0)
        return 1;
    uint64_t cost;
    if (weir_digits_read((const char *)text.data, text.len, &cost) < text.len) {
        if (weir_ngx_may_log(r, limit, WEIR_NGX_LINE_COST, NGX_LOG_WARN))
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
        weir_ngx_count(limit, WEIR_NGX_FAILED);
        return true;
    }
    if (key.len > WEIR_KEY_MAX) {
        if (weir_ngx_may_log(r, limit, WEIR_NGX_LINE_KEY, NGX_LOG_ERR))
            ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                          "the key of \"%V\" has %uz bytes, expected at most %d; not limited",
                          &limit->label, key.len, WEIR_KEY_MAX);
        return true;
    }
    WEIR_ASSERT(q->len < WEIR_TAKE_MANY_MAX && limit->zone->store);
    q->limits[q->len] = limit;
    q->requests[q->len++] = (weir_store_request){.policy = &limit->policy,
                                                 .policy_id = weir_ngx_limit_id(limit),
                                                 .key = key.data,
                                                 .key_len = key.len,
                                                 .cost = cost_of(r, limit),
                                                 .keep = limit->keep};
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
    weir_ngx_ctx *ctx = weir_ngx_ctx_new(r->main, enforced.len);
    if (!ctx)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ctx->headers = conf->headers;
    ctx->retry_spread = (int)conf->retry_spread;
    ctx->denied_body = conf->denied_body;
    if (conf->daemon) {
        bool waits = weir_ngx_ask_daemon(r, ctx, conf->daemon, &enforced, &shadows) == NGX_OK &&
                     weir_ngx_wait(r);
        return waits ? NGX_AGAIN : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ngx_int_t rc = weir_ngx_enforce(r, ctx, &enforced);
    weir_ngx_shadow(r, ctx, &shadows);
    if (rc == NGX_DECLINED)
        return ctx->delay_ns > 0 ? weir_ngx_hold(r, ctx->delay_ns) : rc;
    ngx_http_finalize_request(r, weir_ngx_deny(r, ctx, rc));
    return NGX_DONE;
}
