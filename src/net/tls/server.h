/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_TLS_SERVER_H
#define WEIR_NET_TLS_SERVER_H
/* TLS 1.2 and 1.3 for servers, on OpenSSL: the certificate of a listener, which can be replaced
 * while the server runs. The last part is TLS around a protocol: the sessions. */

#include "net/tls/files.h"
#include "port/atomic.h"
#include "port/session.h"

#include <stdbool.h>
#include <stdint.h>

/* PEM files of a listener. */
typedef struct net_tls_server_files {
    const char *cert;      /* the certificate chain, the server's own certificate first */
    const char *key;       /* its private key, without a passphrase; may be the same file */
    const char *client_ca; /* clients must present a certificate that one of these has signed; NULL:
                              clients need no certificate */
} net_tls_server_files;

typedef struct net_tls_server net_tls_server;

/* Loads the files of a listener.
 *  alpn     the protocol that the sessions speak, such as "h2". A client that offers protocols by
 *           ALPN without this one is refused with the alert no_application_protocol. NULL: ALPN is
 *           ignored. Kept by reference.
 *  ret_why  written on WEIR_E_IO.
 * Returns WEIR_OK; WEIR_E_IO; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status net_tls_server_open(net_tls_server **ret,
                                               const net_tls_server_files *files, const char *alpn,
                                               net_tls_failure *ret_why);

void net_tls_server_close(net_tls_server *s); /* accepts NULL; close its sessions first */

/* Loads the files again, or other files. New sessions use them; sessions that are open continue
 * with what they began with. On failure nothing changes. Session tickets that were issued before
 * are no longer accepted, because a client's certificate may have been revoked with the old files:
 * such a client does a full handshake.
 *  files  NULL: the same paths.
 * Returns as net_tls_server_open(). Threads: any, one at a time. */
WEIR_NODISCARD weir_status net_tls_server_reload(net_tls_server *s,
                                                 const net_tls_server_files *files,
                                                 net_tls_failure *ret_why);

/* Whether a file was replaced or written since it was last loaded, or since loading it failed.
 * Follows symbolic links, so it notices a link that was changed. Threads: as
 * net_tls_server_reload(). */
bool net_tls_server_is_stale(const net_tls_server *s);

/* Whether these are the paths that were last passed, also if loading them failed. Threads: as
 * net_tls_server_reload(). */
bool net_tls_server_has(const net_tls_server *s, const net_tls_server_files *files);

typedef struct net_tls_server_stats {
    int64_t not_after_s; /* when the certificate expires, in seconds since 1970 */
    uint64_t handshakes; /* completed */
    uint64_t failures;   /* connections whose handshake failed */
} net_tls_server_stats;

/* Threads: any. */
net_tls_server_stats net_tls_server_stats_get(const net_tls_server *s);

/* ---- for sessions ---------------------------------------------------------------------------- */

/* Creates the OpenSSL session of a connection, without a BIO. Returns NULL if memory is exhausted.
 * Threads: any. */
SSL *net_tls_server_accept(net_tls_server *s);

/* Counts the end of a handshake. Threads: any. */
void net_tls_server_count(net_tls_server *s, bool completed);

/* ---- TLS around a protocol (protocol.c) ------------------------------------------------------ */

/* A protocol that carries another protocol in TLS. Its sessions decrypt the input, run the session
 * of the inner protocol, and encrypt the replies, so a connection needs to know nothing of TLS. */

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

/* Whether the client of a session has shown a certificate whose common name, or a DNS name or URI
 * of which, is this text, byte by byte; false for a protocol without TLS.
 *  protocol, session  of a connection. */
bool weir_tls_session_has_name(const weir_protocol *protocol, const void *session,
                               const char *name);

/* Frees what it holds; close its sessions first. Accepts zeros. */
void weir_tls_protocol_free(weir_tls_protocol *p);

#endif
