/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_DIAL_H
#define WEIR_NET_DIAL_H
/* The dialer of a libuv loop: see port/dial.h for what can be done with it, and net/tls.h for what
 * its lines are encrypted with.
 *
 * A name's addresses are tried one after the other. A line that is not up after 5 s, encryption and
 * all, goes down. What is not yet read by its user and what is not yet taken by the system is at
 * most 64 MiB each; more is the end of the line. All that is added to a line during one round of
 * the loop is sent at once. */

#include "net/tls.h"

#include <uv.h>

typedef struct net_dialer net_dialer;

typedef struct net_dialer_options {
    uv_loop_t *uv;
    void *ctx;
    int64_t (*now)(void *ctx); /* the dialer's clock, 0..; one that does not step */
    /* Called in every round of the loop, after the events of the sockets and before what was added
     * to lines is sent: what is asked from within it still travels with that. May be NULL. */
    void (*turn)(void *turn_ctx);
    void *turn_ctx;
} net_dialer_options;

/* Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status net_dialer_open(net_dialer **ret, const net_dialer_options *options);

/* For its users. Good until close. */
port_dialer *net_dialer_port(net_dialer *d);

/* By the loop's thread, or before it runs: hangs up all lines and drops all alarms, without any
 * event. The memory is freed in the next round of the loop. It does not wait for name look-ups in
 * flight: their threads end when the system's resolver does. Accepts NULL. */
void net_dialer_close(net_dialer *d);

#endif
