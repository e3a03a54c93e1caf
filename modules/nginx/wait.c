/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Requests that wait: for the end of a delay, or for the daemon. */

#include "decide.h"

#include "core/decision.h"
#include "port/assert.h"

/* Continues with the phases of a request that has waited. */
static void run_phases(ngx_http_request_t *r)
{
    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}

bool weir_ngx_wait(ngx_http_request_t *r)
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

ngx_int_t weir_ngx_hold(ngx_http_request_t *r, int64_t delay_ns)
{
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, sizeof(held));
    WEIR_ASSERT(delay_ns > 0);
    if (!cleanup || !weir_ngx_wait(r))
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
    WEIR_ASSERT(ctx->delay_ns >= 0);
    if (rc != NGX_DECLINED)
        ngx_http_finalize_request(r, weir_ngx_deny(r, ctx, rc));
    else if (ctx->delay_ns == 0)
        run_phases(r);
    else if (weir_ngx_hold(r, ctx->delay_ns) != NGX_AGAIN)
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    ngx_http_run_posted_requests(c);
}
