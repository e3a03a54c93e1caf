/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* OpenSSL reads from one piece of memory and writes to another; whoever owns the socket carries the
 * bytes. What it says when something is wrong becomes one line that a person can act on. */

#include "net/tls.h"

#include "port/port.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

enum {
    WIRE_MAX = 64 << 10,  /* encrypted and not sent: no more is encrypted then */
    PIECE = 16 << 10,     /* a record has at most so many bytes */
    NAME_MAX_BYTES = 256, /* a DNS name has fewer */
};

struct port_tls {
    SSL_CTX *ctx;
    bool insecure;
};

struct net_secure {
    SSL *ssl;
    BIO *from, *to; /* the SSL's own */
    bool up, insecure;
    char name[NAME_MAX_BYTES];
};

/* ---- files ----------------------------------------------------------------------------------- */

/* The first error tells of the file; those after it only that it was of no use. */
static weir_status complain(const char *what, const char *file, char *ret_error, size_t size)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);
    if (ERR_SYSTEM_ERROR(code))
        reason = strerror(ERR_GET_REASON(code));
    snprintf(ret_error, size, "%s %s: %s", what, file, reason ? reason : "it cannot be used");
    ERR_clear_error();
    return WEIR_E_IO;
}

static weir_status read_files(SSL_CTX *ctx, const char *ca, const char *cert, const char *key,
                              char *ret_error, size_t size)
{
    ERR_clear_error();
    if (ca ? SSL_CTX_load_verify_file(ctx, ca) != 1 : SSL_CTX_set_default_verify_paths(ctx) != 1)
        return complain("the certificates to trust", ca ? ca : "of the system", ret_error, size);
    if (!cert)
        return WEIR_OK;
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return complain("the certificate", cert, ret_error, size);
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1)
        return complain("the private key", key, ret_error, size);
    return WEIR_OK;
}

weir_status net_tls_open(port_tls **ret, const char *ca, const char *cert, const char *key,
                         bool insecure, char *ret_error, size_t size)
{
    port_tls *tls = port_zalloc(1, sizeof *tls);
    if (!tls)
        return WEIR_E_NOMEM;
    weir_status st = WEIR_E_NOMEM;
    tls->insecure = insecure;
    tls->ctx = SSL_CTX_new(TLS_client_method());
    if (!tls->ctx || SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION) != 1)
        goto fail;
    SSL_CTX_set_mode(tls->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                   SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(tls->ctx, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    st = read_files(tls->ctx, ca, cert, key, ret_error, size);
    if (st != WEIR_OK)
        goto fail;
    *ret = tls;
    return WEIR_OK;
fail:
    net_tls_close(tls);
    return st;
}

void net_tls_close(port_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->ctx);
    port_free(tls);
}

/* ---- a line's -------------------------------------------------------------------------------- */

/* The certificate has to be for this name; a server that has several is told which one is meant. */
static bool expect_name(net_secure *s)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(s->ssl);
    bool is_address = X509_VERIFY_PARAM_set1_ip_asc(param, s->name) == 1;
    ERR_clear_error(); /* a name is no address, and that is no error */
    if (is_address)
        return true;
    SSL_set_hostflags(s->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return (s->insecure || SSL_set1_host(s->ssl, s->name) == 1) &&
           SSL_set_tlsext_host_name(s->ssl, s->name) == 1;
}

net_secure *net_secure_open(const port_tls *tls, const char *name)
{
    net_secure *s = port_zalloc(1, sizeof *s);
    if (!s)
        return NULL;
    snprintf(s->name, sizeof s->name, "%s", name);
    s->insecure = tls->insecure;
    s->ssl = SSL_new(tls->ctx);
    s->from = BIO_new(BIO_s_mem());
    s->to = BIO_new(BIO_s_mem());
    if (!s->ssl || !s->from || !s->to || !expect_name(s)) {
        BIO_free(s->from);
        BIO_free(s->to);
        s->from = s->to = NULL;
        net_secure_close(s);
        return NULL;
    }
    SSL_set_bio(s->ssl, s->from, s->to);
    SSL_set_connect_state(s->ssl);
    return s;
}

void net_secure_close(net_secure *s)
{
    if (!s)
        return;
    SSL_free(s->ssl); /* and the two with it */
    port_free(s);
}

bool net_secure_feed(net_secure *s, const uint8_t *bytes, size_t len)
{
    size_t taken = 0;
    return BIO_write_ex(s->from, bytes, len, &taken) == 1 && taken == len;
}

/* ---- what went wrong ------------------------------------------------------------------------- */

static void explain(const net_secure *s, char *ret_why, size_t size)
{
    long verdict = s->insecure ? X509_V_OK : SSL_get_verify_result(s->ssl);
    unsigned long code = ERR_peek_last_error();
    int reason = ERR_GET_REASON(code);
    const char *text = ERR_reason_error_string(code);
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        snprintf(ret_why, size, "TLS: its certificate is not for \"%s\"", s->name);
    else if (verdict != X509_V_OK)
        snprintf(ret_why, size, "TLS: its certificate is not trusted: %s",
                 X509_verify_cert_error_string(verdict));
    else if (!s->up && reason == SSL_R_WRONG_VERSION_NUMBER)
        snprintf(ret_why, size, "TLS: what answers there speaks no TLS");
    else
        snprintf(ret_why, size, "TLS: %s", text ? text : "it ended the connection");
}

/* Whether a call that did not succeed will after more was received. */
static bool waits(net_secure *s, int result)
{
    int error = SSL_get_error(s->ssl, result);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

/* ---- work ------------------------------------------------------------------------------------ */

static bool decrypt(net_secure *s, weir_buffer *in)
{
    while (weir_buffer_reserve(in, PIECE)) {
        size_t n = 0;
        ERR_clear_error();
        int result = SSL_read_ex(s->ssl, weir_buffer_tail(in), PIECE, &n);
        if (result != 1)
            return waits(s, result);
        weir_buffer_added(in, n);
    }
    return true; /* `in` has failed, and whoever owns it sees that */
}

static bool encrypt(net_secure *s, weir_buffer *out)
{
    while (weir_buffer_len(out) > 0 && BIO_ctrl_pending(s->to) < WIRE_MAX) {
        size_t n = 0;
        ERR_clear_error();
        int result = SSL_write_ex(s->ssl, weir_buffer_data(out), weir_buffer_len(out), &n);
        if (result != 1)
            return waits(s, result);
        weir_buffer_consume(out, n);
    }
    return true;
}

static bool shake(net_secure *s)
{
    ERR_clear_error();
    int result = SSL_do_handshake(s->ssl);
    s->up = result == 1;
    return s->up || waits(s, result);
}

static void drain(net_secure *s, weir_buffer *wire)
{
    size_t len = BIO_ctrl_pending(s->to), n = 0;
    if (len == 0 || !weir_buffer_reserve(wire, len))
        return;
    if (BIO_read_ex(s->to, weir_buffer_tail(wire), len, &n) == 1)
        weir_buffer_added(wire, n);
}

net_secure_state net_secure_turn(net_secure *s, weir_buffer *in, weir_buffer *out,
                                 weir_buffer *wire, char *ret_why, size_t size)
{
    bool good = s->up || shake(s);
    if (good && s->up)
        good = decrypt(s, in);
    if (good && s->up && weir_buffer_len(wire) < WIRE_MAX)
        good = encrypt(s, out);
    if (!good)
        explain(s, ret_why, size);
    ERR_clear_error();
    drain(s, wire);
    if (!good)
        return NET_SECURE_ENDED;
    return s->up ? NET_SECURE_UP : NET_SECURE_SHAKING;
}
