/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_TLS_H
#define WEIR_NET_TLS_H
/* The client's side of TLS 1.2 and 1.3, by OpenSSL over buffers: it knows no socket. */

#include "port/dial.h"

#include <weir/weir.h>

/* Reads what a client trusts and who it is.
 *  ca         file of the certificates to trust, PEM; NULL: those of the system.
 *  cert, key  files of the client's own certificate (with what is between it and the root) and its
 *             private key, PEM; both or none.
 *  insecure   any certificate of a server will do.
 *  ret_error  written on WEIR_E_IO: which file, and what is wrong with it.
 * Returns WEIR_OK; WEIR_E_IO; WEIR_E_NOMEM. What is made may be used by many threads. */
WEIR_NODISCARD weir_status net_tls_open(port_tls **ret, const char *ca, const char *cert,
                                        const char *key, bool insecure, char *ret_error,
                                        size_t size);

void net_tls_close(port_tls *tls); /* accepts NULL; no line may use it any more */

/* ---- one line's encryption ------------------------------------------------------------------- */

typedef struct net_secure net_secure;

typedef enum net_secure_state {
    NET_SECURE_SHAKING, /* keys are being agreed on */
    NET_SECURE_UP,
    NET_SECURE_ENDED /* no more will be read: the other side closed it, or something is wrong */
} net_secure_state;

/* name  that the certificate must be for: a DNS name or an address. NULL if there is no memory. */
net_secure *net_secure_open(const port_tls *tls, const char *name);
void net_secure_close(net_secure *s); /* accepts NULL */

/* Takes what was received. False if there is no memory. */
bool net_secure_feed(net_secure *s, const uint8_t *bytes, size_t len);

/* Does what can be done now: decrypts all that was received into `in`, encrypts from `out` what
 * finds room in `wire` (a bounded piece; again when that is sent), and adds to `wire` what TLS
 * itself has to say, an alert before an end too.
 *  ret_why  `size` bytes; written if the answer is NET_SECURE_ENDED. */
net_secure_state net_secure_turn(net_secure *s, weir_buffer *in, weir_buffer *out,
                                 weir_buffer *wire, char *ret_why, size_t size);

#endif
