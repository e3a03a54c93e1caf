/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_LOOKUP_H
#define WEIR_NET_LOOKUP_H
/* Host name lookups (DNS) that do not block a libuv loop. Each lookup runs getaddrinfo() in a
 * detached thread, because getaddrinfo() has no timeout and cannot be interrupted: a resolver that
 * hangs must not delay other lookups or the end of the loop. libuv's thread pool would delay
 * both. */

#include <netdb.h>
#include <stdint.h>
#include <uv.h>

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
