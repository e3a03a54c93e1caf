/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A lookup is shared by its thread and its loop. It has a reference count: the last of the two
 * frees it. The loop holds its reference until the async handle is closed. The resolver's mutex
 * guards the members that both use. */

#include "net/dial.h"

#include "port/assert.h"
#include "port/port.h"

#include <stdio.h>
#include <string.h>

struct net_resolver {
    uv_loop_t *uv;
    port_mutex *mutex;
    unsigned lookups; /* not freed yet; the last one frees a closed resolver */
    bool closed;
};

struct net_lookup {
    net_resolver *resolver;
    uv_async_t ready; /* wakes the loop; closed when the loop no longer needs the lookup */
    net_lookup_done done;
    void *ctx;
    int holders;    /* reference count: the thread and the loop */
    bool cancelled; /* `ready` may be closed: the thread must not use it */
    int error;      /* of getaddrinfo() */
    struct addrinfo *found;
    char port[8];
    char host[];
};

net_resolver *net_resolver_new(uv_loop_t *uv)
{
    net_resolver *r = port_zalloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->uv = uv;
    r->mutex = port_mutex_new();
    if (r->mutex)
        return r;
    port_free(r);
    return NULL;
}

/* Unlocks the resolver. Frees it if it is closed and has no lookups. */
static void unlock(net_resolver *r)
{
    bool last = r->closed && r->lookups == 0;
    port_mutex_unlock(r->mutex);
    if (!last)
        return;
    port_mutex_free(r->mutex);
    port_free(r);
}

void net_resolver_free(net_resolver *r)
{
    port_mutex_lock(r->mutex);
    r->closed = true;
    unlock(r);
}

/* Drops one reference. The caller has locked the resolver; it is unlocked here. */
static void release(net_lookup *l)
{
    net_resolver *r = l->resolver;
    WEIR_ASSERT(l->holders > 0 && r->lookups > 0);
    if (--l->holders == 0) {
        if (l->found)
            freeaddrinfo(l->found);
        port_free(l);
        r->lookups--;
    }
    unlock(r);
}

static void resolve(void *arg)
{
    net_lookup *l = arg;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(l->host, l->port, &hints, &found);
    port_mutex_lock(l->resolver->mutex);
    l->error = error;
    l->found = error == 0 ? found : NULL;
    if (!l->cancelled)
        uv_async_send(&l->ready);
    release(l);
}

static void on_closed(uv_handle_t *ready)
{
    net_lookup *l = ready->data;
    port_mutex_lock(l->resolver->mutex);
    release(l);
}

static void on_ready(uv_async_t *ready)
{
    net_lookup *l = ready->data;
    port_mutex_lock(l->resolver->mutex); /* makes the thread's writes visible */
    WEIR_ASSERT(!l->cancelled);
    const char *error = l->error != 0 ? gai_strerror(l->error) : NULL;
    struct addrinfo *found = l->found;
    l->found = NULL;
    port_mutex_unlock(l->resolver->mutex);
    uv_close((uv_handle_t *)ready, on_closed);
    l->done(l->ctx, error, found);
}

/* Counts one more lookup. Returns false if NET_LOOKUPS_MAX are running. */
static bool reserve(net_resolver *r)
{
    port_mutex_lock(r->mutex);
    bool good = r->lookups < NET_LOOKUPS_MAX;
    r->lookups += good;
    port_mutex_unlock(r->mutex);
    return good;
}

net_lookup *net_lookup_start(net_resolver *r, const char *host, uint16_t port, net_lookup_done done,
                             void *ctx)
{
    size_t host_size = strlen(host) + 1;
    if (!reserve(r))
        return NULL;
    net_lookup *l = port_zalloc(1, sizeof *l + host_size);
    if (!l || uv_async_init(r->uv, &l->ready, on_ready) != 0) {
        port_free(l);
        port_mutex_lock(r->mutex);
        r->lookups--;
        unlock(r);
        return NULL;
    }
    l->resolver = r;
    l->ready.data = l;
    l->done = done;
    l->ctx = ctx;
    l->holders = 2;
    memcpy(l->host, host, host_size);
    snprintf(l->port, sizeof l->port, "%u", (unsigned)port);
    if (port_thread_run(resolve, l))
        return l;
    l->holders = 1;
    uv_close((uv_handle_t *)&l->ready, on_closed);
    return NULL;
}

void net_lookup_cancel(net_lookup *l)
{
    port_mutex_lock(l->resolver->mutex);
    WEIR_ASSERT(!l->cancelled);
    l->cancelled = true;
    port_mutex_unlock(l->resolver->mutex);
    uv_close((uv_handle_t *)&l->ready, on_closed);
}
