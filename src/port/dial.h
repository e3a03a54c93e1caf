/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_DIAL_H
#define WEIR_PORT_DIAL_H
/* The interface for connections to other machines, and for timers. The Redis client uses it and
 * knows no sockets. net/dial.h implements it on libuv; tests implement it with a clock of their
 * own. A dialer, its connections and its timers belong to one thread. */

#include "port/buffer.h"

#include <stdint.h>

/* The TLS settings of connections; the implementation of the dialer makes them. */
typedef struct port_tls port_tls;

/* The address of a server. connect() copies what it needs, except for `tls`. */
typedef struct port_endpoint {
    const char
        *host;     /* a name, an IP address, or the path of a Unix socket, which begins with '/' */
    uint16_t port; /* 0 for a Unix socket */
    uint32_t skip; /* how many of the addresses of a name are tried last, modulo their number. Each
                      attempt that adds 1 begins with the next address */
    const port_tls *tls;  /* NULL: not encrypted */
    const char *tls_name; /* the name that the certificate must have; NULL: `host` */
} port_endpoint;

typedef struct port_connection port_connection;

/* The callbacks of a connection, which are never called from within a call of the dialer. now_ns is
 * the dialer's clock. */
typedef struct port_connection_events {
    /* The connection is established, with TLS if requested. Called once, before received(). */
    void (*connected)(void *ctx, int64_t now_ns);
    /* Bytes have arrived. Consume from `in` what was read; the rest stays for the next call. */
    void (*received)(void *ctx, weir_buffer *in, int64_t now_ns);
    /* The connection failed or was closed; `why` is for the log. No callback follows, and the
     * connection is freed. */
    void (*closed)(void *ctx, const char *why, int64_t now_ns);
} port_connection_events;

typedef struct port_timer port_timer;
typedef struct port_dialer port_dialer;

typedef struct port_dialer_calls {
    /* Begins to connect. The connection ends by closed() or close(). Returns NULL if memory is
     * exhausted. */
    port_connection *(*connect)(port_dialer *d, const port_endpoint *to,
                                const port_connection_events *events, void *ctx);
    /* The output buffer. Bytes may be added before the connection is established. They are sent
     * together at the end of the thread's current callback. Its length is the number of bytes that
     * the system has not accepted yet. */
    weir_buffer *(*out)(port_connection *c);
    /* To be called after bytes were added. A repeated call is cheap. */
    void (*send)(port_connection *c);
    /* Sends what the system accepts at once of the output of an established connection, and closes.
     * No callback follows. */
    void (*close)(port_connection *c);

    /* Makes a timer, which is not set. Returns NULL if memory is exhausted. */
    port_timer *(*new_timer)(port_dialer *d, void (*fn)(void *ctx, int64_t now_ns), void *ctx);
    /* Sets when fn is called once, also from within fn. A time in the past means soon, but not from
     * within this call; INT64_MAX means never. */
    void (*set_timer)(port_timer *t, int64_t at_ns);
    void (*free_timer)(port_timer *t); /* accepts NULL */

    int64_t (*now)(port_dialer *d);
} port_dialer_calls;

struct port_dialer {
    const port_dialer_calls *calls;
};

#endif
