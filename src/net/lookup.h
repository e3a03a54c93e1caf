/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_LOOKUP_H
#define WEIR_NET_LOOKUP_H
/* Looking up host names without blocking a libuv loop. Each look-up has a detached thread, because
 * getaddrinfo() has no deadline and cannot be interrupted: a resolver that hangs must delay neither
 * other look-ups nor the end of the loop. libuv's own thread pool would delay both. */

#include <netdb.h>
#include <stdint.h>
#include <uv.h>

typedef struct net_resolver net_resolver; /* the look-ups of one loop */
typedef struct net_lookup net_lookup;

enum { NET_LOOKUPS_MAX = 32 }; /* of a resolver at once, with the cancelled ones that still run */

/* Called once on the loop's thread.
 *  error  NULL, or what getaddrinfo() reported; the text is constant.
 *  found  the addresses, for freeaddrinfo(); NULL with an error. */
typedef void (*net_lookup_done)(void *ctx, const char *error, struct addrinfo *found);

/* Returns NULL without memory. */
net_resolver *net_resolver_new(uv_loop_t *uv);

/* Every look-up is done or cancelled. Threads that still run keep what they need. Accepts NULL. */
void net_resolver_free(net_resolver *r);

/* Starts to look up `host`; both strings are copied.
 * Returns NULL without memory or threads, or if NET_LOOKUPS_MAX threads run. */
net_lookup *net_lookup_start(net_resolver *r, const char *host, uint16_t port, net_lookup_done done,
                             void *ctx);

/* Before `done` was called: it is not called any more. The loop does not wait for the thread. */
void net_lookup_cancel(net_lookup *l);

#endif
