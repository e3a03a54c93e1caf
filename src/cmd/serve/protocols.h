/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SERVE_PROTOCOLS_H
#define WEIR_CMD_SERVE_PROTOCOLS_H
/* The functions of the protocols that the daemon serves. docs/HACKING.md has the steps to add a
 * protocol. */

#include "cmd/config/config.h"
#include "codec/grpc/session.h"
#include "codec/http/call.h"
#include "codec/resp/session.h"
#include "port/session.h"

struct daemon;
struct auth_failures;
struct weir_peer_address;

enum { FEATURES_MAX = 16, HTTP_GUESTS_MAX = 4 };

/* The context of weir_protocol.open(): what the sessions of one event loop share. The daemon and
 * its features fill in the first part, and then protocols_open_loop() is called. */
typedef struct protocol_loop {
    struct daemon *daemon;
    const struct weir_config *config;        /* in use: see in_use_refresh() */
    weir_answer answers[CONFIG_LISTENS_MAX]; /* of the listeners, without unset members that
                                                config->answer has */
    struct auth_failures *failures;
    weir_access access; /* of the sessions of this loop */
    weir_service *service;
    unsigned i, loops;                                 /* this is event loop i of 0..loops - 1 */
    void *part[FEATURES_MAX];                          /* of each feature, by feature_index() */
    bool (*not_ready)(void *loop, weir_buffer *out);   /* for GET /readyz; see weir_http_options */
    void (*metrics)(void *loop, weir_buffer *out);     /* for GET /metrics */
    void (*server)(void *loop, weir_resp_server *ret); /* for INFO */
    void (*live)(void *loop, int64_t now_ns, weir_buffer *out); /* for GET /v1/live */
    port_counter *streams;                                      /* of all loops: the same */
    int64_t started_ns;

    weir_resp_options resp;
    weir_http_options http;
    weir_http_guest guests[HTTP_GUESTS_MAX]; /* for `http`, which the features fill in */
    size_t guests_len;
    const weir_tracer *tracer; /* of the loop, which a feature sets; NULL: there are no spans */
    weir_grpc_options grpc;    /* its methods: a feature */
} protocol_loop;

typedef struct protocol_row {
    /* Of weir serve: --OPTION PORT, and its line in --help. NULL: none. */
    const char *option, *usage;
    const char *alpn; /* the name of the protocol in TLS (ALPN); NULL: none */
    weir_protocol session;
    void (*open_loop)(protocol_loop *l); /* NULL: nothing is to be set up */
    /* Sets up what depends on l->config, after open_loop(), and again after each reload, on the
     * loop's thread. NULL: nothing does. */
    void (*configure)(protocol_loop *l);
    /* Prints commands to try, for a daemon that was started by hand.
     *  address  not the path of a Unix socket if policy is NULL.
     *  policy   the name of a policy; NULL: there is none. */
    void (*print_example)(const char *address, const char *policy);
} protocol_row;

/* The row of a protocol of the configuration. */
const protocol_row *protocol_of(protocol_kind kind);

/* Records how long the decisions of one run took, which began at begun_ns. The clock is read only
 * if there were any. Returns `step`. */
weir_session_step protocols_count_latency(weir_service *s, int64_t begun_ns,
                                          weir_session_step step);

/* Sets up what the sessions of an event loop share, for every protocol. */
void protocols_open_loop(protocol_loop *l);

/* Sets up what depends on l->config again, which has changed, on the loop's thread. */
void protocols_configure(protocol_loop *l);

/* The address of a client, without its port. */
weir_address protocols_address(const struct weir_peer_address *peer);

#endif
