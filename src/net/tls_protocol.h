/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_TLS_PROTOCOL_H
#define WEIR_NET_TLS_PROTOCOL_H
/* A protocol that carries another protocol in TLS. Its sessions decrypt the input, run the session
 * of the inner protocol, and encrypt the replies, so a connection needs to know nothing of TLS. */

#include "net/tls_server.h"
#include "port/session.h"

#include <openssl/types.h>

/* The wrapper of a listener's protocol on an event loop: one thread uses it. */
typedef struct weir_tls_protocol {
    weir_protocol outer; /* for connections; the context of its open() is this structure */
    const weir_protocol *inner;
    void *inner_ctx;
    net_tls_server *server;
    size_t request_max;
    struct bio_method_st *method;
    weir_buffer in, out; /* decrypted input, and replies to encrypt, of the session that runs */
} weir_tls_protocol;

/* Initialises *ret, which must not move.
 *  server       of the listener; kept by reference, as `inner`.
 *  inner_ctx    the context of inner->open().
 *  request_max  bytes of decrypted input that a session holds while its request is incomplete;
 *               see weir_server_limits.request.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_tls_protocol_init(weir_tls_protocol *ret, net_tls_server *server,
                                                  const weir_protocol *inner, void *inner_ctx,
                                                  size_t request_max);

/* Frees what it holds; close its sessions first. Accepts zeros. */
void weir_tls_protocol_free(weir_tls_protocol *p);

#endif
