/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_DIAL_H
#define WEIR_NET_DIAL_H
/* Outgoing connections and timers on a libuv loop: the implementation of port/dial.h.
 * net/tls/client.h encrypts the connections.
 *
 * The addresses of a host name are tried one after the other. A connection that is not established
 * within 5 s, including the TLS handshake, is closed. Unread input and unsent output may have 64
 * MiB each; more closes the connection. All output that is added during one iteration of the loop
 * is sent at once. */

#include "net/tls/client.h"

#include <netdb.h>
#include <uv.h>

typedef struct net_dialer net_dialer;

typedef struct net_dialer_options {
    uv_loop_t *uv;
    void *ctx;
    int64_t (*now)(void *ctx); /* the dialer's clock, 0 or more; it must not step */
    /* Called in every iteration of the loop, after the events of the sockets and before the output
     * of the connections is sent. Output that it adds is sent along. May be NULL. */
    void (*before_send)(void *before_send_ctx);
    void *before_send_ctx;
} net_dialer_options;

/* Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status net_dialer_open(net_dialer **ret, const net_dialer_options *options);

/* The interface for users of the dialer. Valid until close. */
port_dialer *net_dialer_port(net_dialer *d);

/* Closes all connections and frees all timers without a callback. Call it on the loop's thread, or
 * before the loop runs. The memory is freed in the next iteration of the loop. It does not wait for
 * host name lookups in flight: their threads end when the system's resolver does. Accepts NULL. */
void net_dialer_close(net_dialer *d);

/* ---- host names (lookup.c) ------------------------------------------------------------------- */

/* Host name lookups (DNS) that do not block a libuv loop. Each lookup runs getaddrinfo() in a
 * detached thread, because getaddrinfo() has no timeout and cannot be interrupted: a resolver that
 * hangs must not delay other lookups or the end of the loop. libuv's thread pool would delay
 * both. */

typedef struct net_resolver net_resolver; /* the lookups of one loop */
typedef struct net_lookup net_lookup;

enum { NET_LOOKUPS_MAX = 32 }; /* running threads of a resolver, including cancelled lookups */

/* The callback of a lookup, called once on the loop's thread.
 *  error  NULL, or the error of getaddrinfo(), a constant string.
 *  found  the addresses, to be freed with freeaddrinfo(); NULL with an error. */
typedef void (*net_lookup_done)(void *ctx, const char *error, struct addrinfo *found);

/* Returns NULL if memory is exhausted. */
net_resolver *net_resolver_new(uv_loop_t *uv);

/* Call it after every lookup is done or cancelled. Threads that still run keep the memory that they
 * need. */
void net_resolver_free(net_resolver *r);

/* Starts to look up `host`, which is copied.
 * Returns NULL if memory or threads are exhausted, or if NET_LOOKUPS_MAX threads run. */
net_lookup *net_lookup_start(net_resolver *r, const char *host, uint16_t port, net_lookup_done done,
                             void *ctx);

/* Cancels a lookup whose callback has not been called yet; it will not be called. The loop does not
 * wait for the thread. */
void net_lookup_cancel(net_lookup *l);

#endif
