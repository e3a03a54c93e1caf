/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_PROTOCOLS_H
#define WEIR_CMD_PROTOCOLS_H
/* The table of protocols that the daemon serves. To add one, write its codec in src/codec, then add
 * it to the enum, to protocol_loop and, as one row, to the table; docs/HACKING.md has the steps. */

#include "codec/grpc_session.h"
#include "codec/http_session.h"
#include "codec/resp_session.h"
#include "codec/rls_message.h"
#include "codec/spop_session.h"
#include "port/session.h"
#include "service/rls/limitador.h"

struct daemon;
struct auth_failures;
struct weir_config;
struct weir_peer_address;

typedef enum protocol_kind {
    PROTOCOL_RESP,
    PROTOCOL_HTTP,
    PROTOCOL_GRPC,
    PROTOCOL_SPOE,
    PROTOCOLS
} protocol_kind;

/* The context of a session's wrong_password callback. */
typedef struct protocol_login {
    struct auth_failures *failures;
    protocol_kind kind;
} protocol_login;

/* The context of weir_protocol.open(): what the sessions of one event loop share. The daemon fills
 * in the first part and then calls protocols_open_loop(). */
typedef struct protocol_loop {
    struct daemon *daemon;
    const struct weir_config *config;
    struct auth_failures *failures;
    weir_service *service;
    weir_rls *rls;                  /* of the daemon */
    weir_limitador_loop *limitador; /* NULL: not configured */
    weir_spop_loop *spop;           /* NULL: no listener has the protocol */
    weir_rls_door door;             /* the loop's part of it; the daemon opens and closes it */
    unsigned i, loops;              /* this is event loop i of 0..loops - 1 */
    bool (*not_ready)(void *loop, weir_buffer *out);   /* for GET /readyz: see weir_http_options */
    void (*metrics)(void *loop, weir_buffer *out);     /* for GET /metrics */
    void (*server)(void *loop, weir_resp_server *ret); /* for INFO */
    void (*live)(void *loop, int64_t now_ns, weir_buffer *out); /* for GET /v1/live */
    port_counter *streams;                                      /* of all loops: the same */
    int64_t started_ns;

    protocol_login login[PROTOCOLS];
    weir_resp_options resp;
    weir_http_options http;
    weir_grpc_options grpc;
    weir_spop_options spoe;
} protocol_loop;

typedef struct protocol_row {
    const char *name;            /* in weir.yaml (listen.NAME), the log, the metrics */
    const char *option, *usage;  /* of weir serve: --OPTION PORT, and its line in --help */
    const char *alpn;            /* the name of the protocol in TLS (ALPN); NULL: none */
    const char *default_address; /* used if weir.yaml has no `listen`; NULL: off */
    weir_protocol session;
    void (*open_loop)(protocol_loop *l);
    void (*print_example)(const char *address); /* commands to try, for a daemon started by hand */
} protocol_row;

extern const protocol_row protocols[PROTOCOLS];

/* Sets up what the sessions of an event loop share, for every protocol. */
void protocols_open_loop(protocol_loop *l);

/* The address of a client, without its port. */
weir_address protocols_address(const struct weir_peer_address *peer);

#endif
