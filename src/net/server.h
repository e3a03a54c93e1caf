/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_SERVER_H
#define WEIR_NET_SERVER_H
/* The daemon's event loop: a TCP listener on 127.0.0.1 and its connections, over libuv. It moves
 * bytes and keeps every client within its limits; what the bytes mean is codec's business. */

#include "service/service.h"

typedef struct weir_server weir_server;

typedef struct weir_server_options {
    weir_service *service;
    int port;            /* 0..65535; 0: any free one */
    int connections_max; /* more are told so and closed */
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
