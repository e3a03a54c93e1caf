/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_TLS_FILES_H
#define WEIR_NET_TLS_FILES_H
/* Loads PEM files into an OpenSSL context, for clients and for servers. Errors of OpenSSL become
 * one-line messages. */

#include <openssl/types.h>
#include <weir/weir.h>

#include <stddef.h>

/* A file of a TLS configuration. */
typedef enum net_tls_file { NET_TLS_CERT, NET_TLS_KEY, NET_TLS_CA } net_tls_file;

/* Why files could not be loaded. */
typedef struct net_tls_failure {
    net_tls_file file;
    char text[320]; /* "cannot load the private key server.key: ..." */
} net_tls_failure;

/* Loads the trusted certificates.
 *  ca       NULL: those of the system.
 *  ret_why  written on WEIR_E_IO.
 * Returns WEIR_OK or WEIR_E_IO. */
WEIR_NODISCARD weir_status net_tls_load_ca(SSL_CTX *ctx, const char *ca, net_tls_failure *ret_why);

/* Loads a certificate chain and its private key, which must belong to the certificate and have no
 * passphrase. As net_tls_load_ca(). */
WEIR_NODISCARD weir_status net_tls_load_pair(SSL_CTX *ctx, const char *cert, const char *key,
                                             net_tls_failure *ret_why);

#endif
