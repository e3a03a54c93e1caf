/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_TLS_CLIENT_KIT_TEST_H
#define WEIR_NET_TLS_CLIENT_KIT_TEST_H
/* Fixtures of the TLS tests: generated certificates, and a TLS echo server on a thread. Include it
 * after cmocka. */

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct authority {
    EVP_PKEY *key;
    X509 *cert;
    int serial;
} authority;

static inline void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(cert, e, -1), 1);
    X509_EXTENSION_free(e);
}

/* A verifier that requires what RFC 5280 requires, such as Python 3.13 and later, accepts it. */
static inline void expect_strict(X509 *issuer, X509 *cert)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    assert_int_equal(X509_STORE_add_cert(store, issuer), 1);
    assert_int_equal(X509_STORE_set_flags(store, X509_V_FLAG_X509_STRICT), 1);
    assert_int_equal(X509_STORE_CTX_init(ctx, store, cert, NULL), 1);
    X509_verify_cert(ctx);
    assert_int_equal(X509_STORE_CTX_get_error(ctx), X509_V_OK);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
}

/* names  such as "DNS:redis.test,IP:127.0.0.1"; NULL: a certificate authority. */
static inline X509 *make_cert(authority *by, EVP_PKEY *key, const char *common, const char *names)
{
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);
    X509 *issuer = by->cert ? by->cert : cert;
    assert_int_equal(X509_set_version(cert, 2), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++by->serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer));
    X509_set_pubkey(cert, key);
    add_extension(cert, issuer, NID_basic_constraints, names ? "CA:FALSE" : "critical,CA:TRUE");
    add_extension(cert, issuer, NID_key_usage,
                  names ? "critical,digitalSignature" : "critical,keyCertSign,cRLSign");
    add_extension(cert, issuer, NID_subject_key_identifier, "hash");
    add_extension(cert, issuer, NID_authority_key_identifier, "keyid");
    if (names)
        add_extension(cert, issuer, NID_subject_alt_name, names);
    assert_true(X509_sign(cert, by->key, EVP_sha256()) > 0);
    expect_strict(issuer, cert);
    return cert;
}

static inline void write_pem(const char *path, X509 *cert, EVP_PKEY *key)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    if (cert)
        assert_int_equal(PEM_write_X509(file, cert), 1);
    if (key)
        assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
}

/* Writes the certificate to `path`. */
static inline authority make_authority(const char *path)
{
    authority a = {.key = EVP_EC_gen("P-256")};
    assert_non_null(a.key);
    a.cert = make_cert(&a, a.key, "an authority", NULL);
    write_pem(path, a.cert, NULL);
    return a;
}

static inline void free_authority(authority *a)
{
    X509_free(a->cert);
    EVP_PKEY_free(a->key);
}

/* Writes a certificate and its key to one file. */
static inline void make_pair(authority *a, const char *names, const char *path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = make_cert(a, key, "someone", names);
    write_pem(path, cert, key);
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* ---- the server ------------------------------------------------------------------------------ */

typedef struct tls_server {
    SSL_CTX *ctx;
    size_t sinks; /* how many bytes of each client are read, then answered with one; 0: echoes */
    size_t sunk;  /* bytes of the last client, once it is answered or gone */
    int listener;
    pthread_t thread;
} tls_server;

static inline void echo(SSL *ssl)
{
    char bytes[16384];
    int n = SSL_accept(ssl) == 1 ? 1 : 0;
    while (n > 0 && (n = SSL_read(ssl, bytes, sizeof bytes)) > 0)
        n = SSL_write(ssl, bytes, n);
}

static inline void sink(SSL *ssl, tls_server *s)
{
    char bytes[16384];
    int n = SSL_accept(ssl) == 1 ? 1 : 0;
    for (s->sunk = 0; n > 0 && s->sunk<s->sinks; s->sunk += n> 0 ? (size_t)n : 0)
        n = SSL_read(ssl, bytes, sizeof bytes);
    if (n > 0)
        SSL_write(ssl, bytes, 1);
}

/* Serves one client after the other until the listener is shut down. */
static inline void *tls_serve(void *arg)
{
    tls_server *s = arg;
    for (int fd; (fd = accept(s->listener, NULL, NULL)) >= 0; close(fd)) {
        SSL *ssl = SSL_new(s->ctx);
        SSL_set_fd(ssl, fd);
        s->sinks > 0 ? sink(ssl, s) : echo(ssl);
        SSL_free(ssl);
    }
    return NULL;
}

/* pair  file with certificate and key.  ca  file to check clients by; NULL: they need not show a
 * certificate.  sinks  see tls_server. */
static inline void tls_start_sink(tls_server *s, int listener, const char *pair, const char *ca,
                                  size_t sinks)
{
    s->listener = listener;
    s->sinks = sinks;
    s->ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate_file(s->ctx, pair, SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(s->ctx, pair, SSL_FILETYPE_PEM), 1);
    if (ca) {
        assert_int_equal(SSL_CTX_load_verify_file(s->ctx, ca), 1);
        SSL_CTX_set_verify(s->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    SSL_CTX_set_num_tickets(s->ctx, sinks > 0 ? 0 : 2); /* a ticket is input for the client */
    assert_int_equal(pthread_create(&s->thread, NULL, tls_serve, s), 0);
}

static inline void tls_start(tls_server *s, int listener, const char *pair, const char *ca)
{
    tls_start_sink(s, listener, pair, ca, 0);
}

static inline void tls_stop(tls_server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
    SSL_CTX_free(s->ctx);
}

#endif
