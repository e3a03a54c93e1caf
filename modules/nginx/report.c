/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reports the decision on a request: in the variables $weir_*. */

#include "context.h"

#include "core/decision.h"

#include <string.h>

static const char *const status_names[WEIR_NGX_STATUSES] = {
    [WEIR_NGX_PASSED] = "PASSED",
    [WEIR_NGX_DELAYED_SHADOW] = "DELAYED_SHADOW",
    [WEIR_NGX_REJECTED_SHADOW] = "REJECTED_SHADOW",
    [WEIR_NGX_DELAYED] = "DELAYED",
    [WEIR_NGX_REJECTED] = "REJECTED",
};

/* ---- variables ------------------------------------------------------------------------------- */

enum { POLICY = WEIR_DECISION_FIELDS, NEXT };

static const struct {
    ngx_str_t name;
    uintptr_t variable; /* a weir_field, POLICY or NEXT */
} variables[] = {
    {ngx_string("weir_status"), WEIR_FIELD_ALLOWED},
    {ngx_string("weir_limit"), WEIR_FIELD_LIMIT},
    {ngx_string("weir_remaining"), WEIR_FIELD_REMAINING},
    {ngx_string("weir_retry_after"), WEIR_FIELD_RETRY_AFTER},
    {ngx_string("weir_reset"), WEIR_FIELD_RESET_AFTER},
    {ngx_string("weir_policy"), POLICY},
    {ngx_string("weir_delay"), WEIR_FIELD_DELAY},
    {ngx_string("weir_next"), NEXT},
};
_Static_assert(sizeof variables / sizeof variables[0] == WEIR_DECISION_FIELDS + 2,
               "each field of a decision is a variable, and so are the policy and next");

enum { NUMBER_ROOM = NGX_INT64_LEN + sizeof ".000" };

static void set_text(ngx_http_variable_value_t *ret, const u_char *at, size_t len)
{
    *ret = (ngx_http_variable_value_t){
        .data = (u_char *)at, .len = (unsigned)len & 0xfffffff, .valid = 1};
}

static ngx_int_t set_number(ngx_http_request_t *r, ngx_http_variable_value_t *ret, int64_t v)
{
    u_char *at = ngx_pnalloc(r->pool, NUMBER_ROOM);
    if (!at)
        return NGX_ERROR;
    set_text(ret, at, weir_i64_print((char *)at, v));
    return NGX_OK;
}

static ngx_int_t set_seconds(ngx_http_request_t *r, ngx_http_variable_value_t *ret, int64_t ns)
{
    u_char *at = ngx_pnalloc(r->pool, NUMBER_ROOM);
    int64_t ms = weir_ms_ceil(ns);
    if (!at)
        return NGX_ERROR;
    set_text(ret, at, (size_t)(ngx_sprintf(at, "%L.%03L", ms / 1000, ms % 1000) - at));
    return NGX_OK;
}

static ngx_int_t get_number(ngx_http_request_t *r, const weir_ngx_ctx *ctx, weir_field which,
                            ngx_http_variable_value_t *ret)
{
    const weir_decision *d = &ctx->shown.decision;
    switch (which) {
    case WEIR_FIELD_LIMIT:
        return set_number(r, ret, d->limit);
    case WEIR_FIELD_REMAINING:
        return set_number(r, ret, d->remaining);
    case WEIR_FIELD_RETRY_AFTER: /* not set if no wait helps */
        return d->never ? NGX_OK : set_number(r, ret, weir_ngx_retry_after_s(ctx));
    case WEIR_FIELD_RESET_AFTER:
        return set_number(r, ret, weir_s_ceil(d->reset_after_ns));
    case WEIR_FIELD_DELAY:
        return set_seconds(r, ret, d->delay_ns);
    case WEIR_FIELD_ALLOWED:
    case WEIR_DECISION_FIELDS:
        break;
    }
    return NGX_OK;
}

/* Not set if it is unknown, or if no wait helps. */
static ngx_int_t get_next(ngx_http_request_t *r, const weir_ngx_ctx *ctx,
                          ngx_http_variable_value_t *ret)
{
    int64_t next_ns = ctx->shown.next_ns;
    bool known = !ctx->by_error && next_ns != WEIR_NEXT_UNKNOWN;
    return known && next_ns < INT64_MAX ? set_number(r, ret, weir_s_ceil(next_ns)) : NGX_OK;
}

static ngx_int_t get_variable(ngx_http_request_t *r, ngx_http_variable_value_t *ret, uintptr_t data)
{
    const weir_ngx_ctx *ctx = weir_ngx_ctx_of(r);
    *ret = (ngx_http_variable_value_t){.not_found = 1};
    if (!ctx || !ctx->shown.limit)
        return NGX_OK;
    const char *status = status_names[ctx->status];
    const ngx_str_t *label = &ctx->shown.limit->label;
    if (data == WEIR_FIELD_ALLOWED)
        set_text(ret, (const u_char *)status, strlen(status));
    else if (data == POLICY)
        set_text(ret, label->data, label->len);
    else if (data == NEXT)
        return get_next(r, ctx, ret);
    else if (!ctx->by_error)
        return get_number(r, ctx, (weir_field)data, ret);
    return NGX_OK;
}

ngx_int_t weir_ngx_add_variables(ngx_conf_t *cf)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        ngx_str_t name = variables[i].name;
        ngx_http_variable_t *v = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);
        if (!v)
            return NGX_ERROR;
        v->get_handler = get_variable;
        v->data = variables[i].variable;
    }
    return NGX_OK;
}
