/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Certificates and keys from PEM files. It must not know any connection. */

#include "net/tls/files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Describes the first error of OpenSSL: the later ones only follow from it. */
static const char *first_reason(void)
{
    unsigned long code = ERR_peek_error();
    int library = ERR_GET_LIB(code), reason = ERR_GET_REASON(code);
    const char *text = ERR_reason_error_string(code);
    if (ERR_SYSTEM_ERROR(code))
        return strerror(reason);
    if ((library == ERR_LIB_PEM && reason == PEM_R_NO_START_LINE) ||
        library == ERR_LIB_OSSL_DECODER)
        return "it is not in PEM format";
    return text ? text : "unknown format";
}

static weir_status fail(net_tls_file file, const char *what, const char *path, const char *why,
                        net_tls_failure *ret_why)
{
    ret_why->file = file;
    snprintf(ret_why->text, sizeof ret_why->text, "cannot load %s %s: %s", what, path, why);
    return WEIR_E_IO;
}

weir_status net_tls_load_ca(SSL_CTX *ctx, const char *ca, net_tls_failure *ret_why)
{
    ERR_clear_error();
    if (ca ? SSL_CTX_load_verify_file(ctx, ca) == 1 : SSL_CTX_set_default_verify_paths(ctx) == 1)
        return WEIR_OK;
    return fail(NET_TLS_CA, "the trusted certificates", ca ? ca : "of the system", first_reason(),
                ret_why);
}

/* OpenSSL would ask for the passphrase on the terminal. */
static int refuse_passphrase(char *buf, int size, int writing, void *asked)
{
    (void)buf;
    (void)size;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

static bool load_key(SSL_CTX *ctx, const char *key, bool *ret_asked)
{
    SSL_CTX_set_default_passwd_cb(ctx, refuse_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, ret_asked);
    bool loaded = SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    SSL_CTX_set_default_passwd_cb(ctx, NULL);
    return loaded;
}

weir_status net_tls_load_pair(SSL_CTX *ctx, const char *cert, const char *key,
                              net_tls_failure *ret_why)
{
    bool asked = false;
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return fail(NET_TLS_CERT, "the certificate", cert, first_reason(), ret_why);
    ERR_clear_error();
    bool loaded = load_key(ctx, key, &asked); /* compares keys of the certificate's type only */
    if (loaded && SSL_CTX_check_private_key(ctx) == 1)
        return WEIR_OK;
    unsigned long code = ERR_peek_error();
    bool other = loaded || (ERR_GET_LIB(code) == ERR_LIB_X509 &&
                            ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH);
    return fail(NET_TLS_KEY, "the private key", key,
                asked   ? "it has a passphrase; expected a key without one"
                : other ? "it does not belong to the certificate"
                        : first_reason(),
                ret_why);
}
