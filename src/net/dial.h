/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_DIAL_H
#define WEIR_NET_DIAL_H
/* Outgoing connections and timers on a libuv loop: the implementation of port/dial.h. net/tls.h
 * encrypts the connections.
 *
 * The addresses of a host name are tried one after the other. A connection that is not established
 * within 5 s, including the TLS handshake, is closed. Unread input and unsent output may have 64
 * MiB each; more closes the connection. All output that is added during one iteration of the loop
 * is sent at once. */

#include "net/tls.h"

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

#endif
