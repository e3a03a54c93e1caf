/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* OpenSSL reads from one memory BIO and writes to another; the dialer moves the bytes between these
 * and the socket. */

#include "net/tls/client.h"

#include "net/tls/files.h"
#include "port/assert.h"
#include "port/port.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

enum {
    WIRE_MAX = 64 << 10,  /* bytes of unsent encrypted output above which nothing is encrypted */
    PIECE = 16 << 10,     /* the most bytes of a TLS record */
    NAME_MAX_BYTES = 256, /* above the length of any DNS name */
};

struct port_tls {
    SSL_CTX *ctx;
    bool insecure;
};

struct net_tls_session {
    SSL *ssl;
    BIO *from, *to; /* owned by `ssl` */
    bool established, insecure;
    char name[NAME_MAX_BYTES];
};

/* ---- files ----------------------------------------------------------------------------------- */

static weir_status read_files(SSL_CTX *ctx, const char *ca, const char *cert, const char *key,
                              char *ret_error, size_t size)
{
    net_tls_failure why;
    weir_status st = net_tls_load_ca(ctx, ca, &why);
    if (st == WEIR_OK && cert)
        st = net_tls_load_pair(ctx, cert, key, &why);
    if (st != WEIR_OK)
        snprintf(ret_error, size, "%s", why.text);
    return st;
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
    SSL_CTX_set_mode(tls->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS);
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

/* ---- sessions -------------------------------------------------------------------------------- */

/* Sets the name for which the certificate must be valid, and sends it to the server (SNI). */
static bool expect_name(net_tls_session *s)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(s->ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, s->name) == 1)
        return true;
    SSL_set_hostflags(s->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return (s->insecure || SSL_set1_host(s->ssl, s->name) == 1) &&
           SSL_set_tlsext_host_name(s->ssl, s->name) == 1;
}

net_tls_session *net_tls_session_open(const port_tls *tls, const char *name)
{
    net_tls_session *s = port_zalloc(1, sizeof *s);
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
        net_tls_session_close(s);
        return NULL;
    }
    SSL_set_bio(s->ssl, s->from, s->to);
    SSL_set_connect_state(s->ssl);
    return s;
}

void net_tls_session_close(net_tls_session *s)
{
    if (!s)
        return;
    SSL_free(s->ssl); /* frees both BIOs, too */
    port_free(s);
}

bool net_tls_session_feed(net_tls_session *s, const uint8_t *bytes, size_t len)
{
    return BIO_write(s->from, bytes, (int)len) == (int)len;
}

/* ---- errors ---------------------------------------------------------------------------------- */

bool net_tls_session_distrusts(const net_tls_session *s)
{
    long verdict = s->insecure ? X509_V_OK : SSL_get_verify_result(s->ssl);
    return verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
           verdict == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
           verdict == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT;
}

/* Whether the server has refused the client's certificate, by an alert. */
static bool is_refused(int reason)
{
    return reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ||
           (reason >= SSL_R_SSLV3_ALERT_BAD_CERTIFICATE &&
            reason <= SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN);
}

/* Why the server's certificate is refused. */
static void explain_certificate(const net_tls_session *s, long verdict, char *ret_why, size_t size)
{
    const char *why = net_tls_session_distrusts(s) ? "no trusted authority has signed it"
                      : verdict == X509_V_ERR_CERT_HAS_EXPIRED
                          ? "it has expired"
                          : X509_verify_cert_error_string(verdict);
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        snprintf(ret_why, size, "TLS: the server's certificate is not valid for \"%s\"", s->name);
    else
        snprintf(ret_why, size, "TLS: the server's certificate is not trusted: %s", why);
}

static void explain(const net_tls_session *s, char *ret_why, size_t size)
{
    long verdict = s->insecure ? X509_V_OK : SSL_get_verify_result(s->ssl);
    unsigned long code = ERR_peek_last_error();
    int reason = ERR_GET_REASON(code);
    const char *text = ERR_reason_error_string(code);
    if (verdict != X509_V_OK)
        explain_certificate(s, verdict, ret_why, size);
    else if (!s->established && reason == SSL_R_WRONG_VERSION_NUMBER)
        snprintf(ret_why, size, "TLS: the server does not speak TLS");
    else if (reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED)
        snprintf(ret_why, size, "TLS: the server requires a client certificate");
    else if (is_refused(reason))
        snprintf(ret_why, size, "TLS: the server refuses the client's certificate: %s", text);
    else
        snprintf(ret_why, size, "TLS: %s", text ? text : "the server closed the connection");
}

/* Prepares a call of OpenSSL: waits() must not find errors of earlier calls. */
static SSL *begin(net_tls_session *s)
{
    ERR_clear_error();
    return s->ssl;
}

/* Returns whether a failed call only needs more input. Output never waits: `to` has no limit. */
static bool waits(net_tls_session *s, int result)
{
    return SSL_get_error(s->ssl, result) == SSL_ERROR_WANT_READ;
}

/* ---- handshake, input, output ---------------------------------------------------------------- */

static bool decrypt(net_tls_session *s, weir_buffer *in)
{
    while (weir_buffer_reserve(in, PIECE)) {
        size_t n;
        int result = SSL_read_ex(begin(s), weir_buffer_tail(in), PIECE, &n);
        if (result != 1)
            return waits(s, result);
        weir_buffer_added(in, n);
    }
    return true; /* in->failed is set */
}

static bool encrypt(net_tls_session *s, weir_buffer *out)
{
    while (weir_buffer_len(out) > 0 && BIO_ctrl_pending(s->to) < WIRE_MAX) {
        size_t n = 0;
        int result = SSL_write_ex(begin(s), weir_buffer_data(out), weir_buffer_len(out), &n);
        if (result != 1) /* also while the server renegotiates */
            return waits(s, result);
        WEIR_ASSERT(n > 0);
        weir_buffer_consume(out, n);
    }
    return true;
}

static bool handshake(net_tls_session *s)
{
    int result = SSL_do_handshake(begin(s));
    s->established = result == 1;
    return s->established || waits(s, result);
}

/* Returns false if memory is exhausted. */
static bool drain(net_tls_session *s, weir_buffer *wire)
{
    size_t len = BIO_ctrl_pending(s->to);
    if (len == 0)
        return true;
    if (!weir_buffer_reserve(wire, len))
        return false;
    int n = BIO_read(s->to, weir_buffer_tail(wire), (int)len);
    WEIR_ASSERT(n == (int)len);
    weir_buffer_added(wire, (size_t)n);
    return true;
}

net_tls_state net_tls_session_run(net_tls_session *s, weir_buffer *in, weir_buffer *out,
                                  weir_buffer *wire, char *ret_why, size_t size)
{
    bool good = s->established || handshake(s);
    if (s->established)
        good = decrypt(s, in) && (weir_buffer_len(wire) >= WIRE_MAX || encrypt(s, out));
    bool space = drain(s, wire) && !in->failed;
    if (good && space)
        return s->established ? NET_TLS_ESTABLISHED : NET_TLS_HANDSHAKE;
    if (space)
        explain(s, ret_why, size);
    else
        snprintf(ret_why, size, "more than 64 MiB of input are unread, or memory is exhausted");
    return NET_TLS_CLOSED;
}
