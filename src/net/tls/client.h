/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_TLS_CLIENT_H
#define WEIR_NET_TLS_CLIENT_H
/* TLS 1.2 and 1.3 for clients, on OpenSSL. A session reads and writes buffers; it knows no
 * socket. */

#include "port/dial.h"

#include <weir/weir.h>

/* Loads the certificates of a client.
 *  ca         PEM file with the trusted certificates; NULL: those of the system.
 *  cert, key  PEM files with the client's own certificate chain and private key; both or none.
 *  insecure   accept any server certificate.
 *  ret_error  written on WEIR_E_IO: the file and the reason.
 * Returns WEIR_OK; WEIR_E_IO; WEIR_E_NOMEM. Several threads may use the result. */
WEIR_NODISCARD weir_status net_tls_open(port_tls **ret, const char *ca, const char *cert,
                                        const char *key, bool insecure, char *ret_error,
                                        size_t size);

void net_tls_close(port_tls *tls); /* accepts NULL; close its sessions first */

/* ---- the TLS session of a connection --------------------------------------------------------- */

typedef struct net_tls_session net_tls_session;

typedef enum net_tls_state {
    NET_TLS_HANDSHAKE, /* the handshake is in progress */
    NET_TLS_ESTABLISHED,
    NET_TLS_CLOSED /* closed by the server, or failed */
} net_tls_state;

/* Starts a session. Returns NULL if memory is exhausted.
 *  name  the DNS name or IP address for which the server's certificate must be valid. */
net_tls_session *net_tls_session_open(const port_tls *tls, const char *name);
void net_tls_session_close(net_tls_session *s); /* accepts NULL */

/* Adds received bytes. Returns false if memory is exhausted. */
bool net_tls_session_feed(net_tls_session *s, const uint8_t *bytes, size_t len);

/* Advances the session: continues the handshake, decrypts received bytes into `in`, and encrypts
 * `out` into `wire` until `wire` has 64 KiB. Call it again after `wire` was sent. Handshake
 * messages and alerts are added to `wire`, too.
 *  ret_why  `size` bytes; written if the result is NET_TLS_CLOSED. */
net_tls_state net_tls_session_run(net_tls_session *s, weir_buffer *in, weir_buffer *out,
                                  weir_buffer *wire, char *ret_why, size_t size);

/* Whether a session was closed because no trusted authority has signed the server's certificate. */
bool net_tls_session_distrusts(const net_tls_session *s);

#endif
