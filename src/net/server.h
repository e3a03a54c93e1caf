/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_SERVER_H
#define WEIR_NET_SERVER_H
/* The daemon's event loop: a TCP listener on 127.0.0.1 and its connections, over libuv. It moves
 * bytes and keeps every client within its limits; what the bytes mean is the protocol's
 * business. */

#include "port/buffer.h"

#include <weir/weir.h>

typedef struct weir_server weir_server;

/* What is spoken on a listener. A session is one connection's; all calls come from one thread. */
typedef struct weir_protocol {
    void *ctx;           /* handed to open */
    size_t session_size; /* bytes of a session, zeroed before open */
    void (*open)(void *session, void *ctx);

    /* Answers every whole request in `in`, and drops it from there; all of them happen at now_ns.
     * May stop when `out` holds more than out_pause bytes, and is called again when it has been
     * sent. Returns whether it did, so that requests may be left in `in`. */
    bool (*run)(void *session, weir_buffer *in, weir_buffer *out, size_t out_pause, int64_t now_ns);

    bool (*closing)(const void *session); /* close when `out` has been sent */
    const char *refusal;                  /* sent to a connection too many, before it is closed */
} weir_protocol;

typedef struct weir_server_options {
    weir_protocol protocol;
    int port;            /* 0..65535; 0: any free one */
    int connections_max; /* 1.. */
} weir_server_options;

/* Binds and listens.
 *  ret_error  written on WEIR_E_IO: what went wrong and what to do; `size` bytes of room.
 * Returns WEIR_OK; WEIR_E_IO; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_server_open(weir_server **ret, const weir_server_options *options,
                                            char *ret_error, size_t size);

/* The port it listens on. */
int weir_server_port(const weir_server *s);

/* Serves until SIGINT or SIGTERM: then sends the replies that are under way, for at most 2 s, and
 * closes. */
void weir_server_run(weir_server *s);

void weir_server_close(weir_server *s); /* accepts NULL */

#endif
