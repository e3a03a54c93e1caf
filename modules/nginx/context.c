/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Contexts, and which of several decisions they show. */

#include "context.h"

#include "core/check.h"
#include "port/assert.h"

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

weir_ngx_ctx *weir_ngx_ctx_new(ngx_http_request_t *main, size_t n)
{
    size_t size = sizeof(weir_ngx_ctx) + n * sizeof(weir_ngx_outcome);
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(main->pool, size);
    if (!cleanup)
        return NULL;
    ngx_memzero(cleanup->data, size);
    cleanup->handler = on_pool_cleanup;
    weir_ngx_ctx *ctx = cleanup->data;
    ctx->enforced_max = n;
    ngx_http_set_ctx(main, ctx, ngx_http_weir_module);
    return ctx;
}

void weir_ngx_ctx_show(weir_ngx_ctx *ctx, weir_ngx_status status, const weir_ngx_outcome *outcome)
{
    WEIR_ASSERT(outcome->limit && status < WEIR_NGX_STATUSES);
    bool first = !ctx->shown.limit || status > ctx->status ||
                 (status == ctx->status && weir_outranks(&outcome->decision, &ctx->shown.decision));
    if (!first)
        return;
    ctx->status = status;
    ctx->shown = *outcome;
}

void weir_ngx_ctx_keep(weir_ngx_ctx *ctx, const weir_ngx_outcome *outcome, bool shown)
{
    if (outcome->decision.limit == 0)
        return;
    WEIR_ASSERT(ctx->enforced_len < ctx->enforced_max);
    if (shown)
        ctx->enforced_shown = ctx->enforced_len;
    ctx->enforced[ctx->enforced_len++] = *outcome;
}
