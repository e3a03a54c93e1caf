/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_DIAL_H
#define WEIR_PORT_DIAL_H
/* Lines to other machines, and alarms, as an interface: who speaks over a line does not know how it
 * is made. net/dial.h makes real ones; tests make their own, with a clock of their own. All of a
 * dialer, its lines and its alarms belongs to one thread. */

#include "port/buffer.h"

#include <stdint.h>

/* What a line is encrypted with; made by whoever makes the dialer. */
typedef struct port_tls port_tls;

/* Where to. What it points to is read by dial() only, but for `tls`. */
typedef struct port_endpoint {
    const char *host; /* a name, an address, or the path of a socket file, which begins with '/' */
    uint16_t port;    /* of a socket file: 0 */
    const port_tls *tls;  /* NULL: not encrypted */
    const char *tls_name; /* that the certificate must be for; NULL: `host` */
} port_endpoint;

typedef struct port_connection port_connection;

/* What happens on a line; never from within a call of the dialer. now_ns is the dialer's clock. */
typedef struct port_connection_events {
    void (*connected)(void *ctx,
                      int64_t now_ns); /* it is there, encryption and all; once, and first */
    /* Bytes have come. What was read is to be dropped from `in`; the rest is there again at the
     * next call. */
    void (*received)(void *ctx, weir_buffer *in, int64_t now_ns);
    /* It never came up, or is gone: why, for the log. The last event; the line is no more. */
    void (*closed)(void *ctx, const char *why, int64_t now_ns);
} port_connection_events;

typedef struct port_timer port_timer;
typedef struct port_dialer port_dialer;

typedef struct port_dialer_calls {
    /* Begins to make a line. It ends by `down`, or by hang_up(). NULL if there is no memory. */
    port_connection *(*connect)(port_dialer *d, const port_endpoint *to,
                                const port_connection_events *events, void *ctx);
    /* What is to be sent: bytes are added there, before it is up too, and go out together soon
     * after, at the end of what the thread is doing now. Its length is what was not yet taken by
     * the system. */
    weir_buffer *(*out)(port_connection *line);
    /* To be called after something was added. Cheap if it was called before. */
    void (*send)(port_connection *line);
    /* Closes it at once; no event follows. */
    void (*close)(port_connection *line);

    /* Something that happens at a time. NULL if there is no memory. */
    port_timer *(*new_timer)(port_dialer *d, void (*fn)(void *ctx, int64_t now_ns), void *ctx);
    /* When: INT64_MAX is never. A time that is past is soon; not from within this call. It happens
     * once, and may be set again from within fn. */
    void (*set_timer)(port_timer *a, int64_t at_ns);
    void (*free_timer)(port_timer *a); /* accepts NULL */

    int64_t (*now)(port_dialer *d);
} port_dialer_calls;

struct port_dialer {
    const port_dialer_calls *calls;
};

#endif
