/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What a request holds of its limits with a concurrent layer. The cleanup of the request's memory
 * gives it back, however the request ends. Until then a timer renews the leases. If the worker is
 * killed, they end by themselves. */

#include "decide.h"

#include "port/assert.h"
#include "store/lease.h"

enum { RENEWALS = 3 }; /* in the time of a lease, so that one may come late */

typedef struct lease {
    weir_ngx_limit *limit;
    weir_store_request request; /* its key lies in the request's pool */
    int64_t ends_ns;            /* 0: nothing is held any more */
} lease;

typedef struct leases {
    ngx_event_t timer;
    ngx_http_request_t *r;
    ngx_msec_t every_ms;
    size_t len;
    lease of[];
} leases;

static void give_back(const lease *l)
{
    weir_store *s = l->limit->zone->store;
    if (l->ends_ns > 0) /* without memory, and after a reset of the key, the lease ends by itself */
        (void)!weir_store_return_lease(s, &l->request, weir_store_now(s), l->ends_ns);
}

static void give_all_back(void *data)
{
    leases *all = data;
    if (all->timer.timer_set)
        ngx_del_timer(&all->timer);
    for (size_t i = 0; i < all->len; i++)
        give_back(&all->of[i]);
}

/* Renews a lease. If memory is exhausted, the next renewal may be in time. */
static void renew(leases *all, lease *l)
{
    weir_store *s = l->limit->zone->store;
    if (l->ends_ns == 0)
        return;
    weir_status st = weir_store_renew_lease(s, &l->request, weir_store_now(s), &l->ends_ns);
    if (st != WEIR_OK && weir_ngx_may_log(all->r, l->limit, WEIR_NGX_LINE_LEASE, NGX_LOG_WARN))
        ngx_log_error(NGX_LOG_WARN, all->r->connection->log, 0,
                      "cannot renew a lease of \"%V\", zone \"%V\": %s", &l->limit->label,
                      &l->limit->zone->name,
                      st == WEIR_E_ABSENT ? "it has ended, or the key was reset or evicted"
                                          : weir_status_str(st));
    if (st == WEIR_E_ABSENT)
        l->ends_ns = 0;
}

static void on_timer(ngx_event_t *timer)
{
    leases *all = (leases *)((u_char *)timer - offsetof(leases, timer));
    for (size_t i = 0; i < all->len; i++)
        renew(all, &all->of[i]);
    ngx_add_timer(timer, all->every_ms);
}

static lease lease_of(const weir_ngx_question *q, size_t i)
{
    return (lease){q->limits[i], q->requests[i], q->ends_ns[i]};
}

bool weir_ngx_keep_leases(ngx_http_request_t *r, const weir_ngx_question *q)
{
    size_t n = 0;
    int64_t shortest_ns = INT64_MAX;
    for (size_t i = 0; i < q->len; i++) {
        if (q->ends_ns[i] == 0)
            continue;
        shortest_ns = ngx_min(shortest_ns, q->limits[i]->hold->period_ns);
        n++;
    }
    if (n == 0)
        return true;
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, sizeof(leases) + n * sizeof(lease));
    for (size_t i = 0; i < q->len && !cleanup; i++) {
        const lease l = lease_of(q, i);
        give_back(&l);
    }
    if (!cleanup)
        return false;
    leases *all = cleanup->data;
    *all = (leases){.timer = {.handler = on_timer,
                              .data = r->connection,
                              .log = r->connection->log,
                              .cancelable = 1}, /* a worker that shuts down waits for requests */
                    .r = r,
                    .every_ms = (ngx_msec_t)(shortest_ns / RENEWALS / 1000000)};
    for (size_t i = 0; i < q->len; i++) {
        if (q->ends_ns[i] > 0)
            all->of[all->len++] = lease_of(q, i);
    }
    WEIR_ASSERT(all->len == n && all->every_ms > 0);
    cleanup->handler = give_all_back;
    ngx_add_timer(&all->timer, all->every_ms);
    return true;
}
