/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The OpenSSL context of a listener. A reload builds a new context and swaps the pointer; OpenSSL
 * counts the references of the sessions that still use the old one. It must not know any
 * connection. */

#include "net/tls/server.h"

#include "port/port.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES = 3, ALPN_MAX = 32, TICKETS = 1 };

/* Identifies a version of a file: replacing it changes the inode, writing it the time. */
typedef struct stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec written;
} stamp;

struct net_tls_server {
    const char *alpn;
    port_mutex *lock; /* guards ctx */
    SSL_CTX *ctx;
    char *path[FILES]; /* by net_tls_file; NULL: none */
    stamp stamp[FILES];
    port_counter not_after_s;
    port_counter handshakes, failures;
};

/* ---- files ----------------------------------------------------------------------------------- */

static stamp stamp_of(const char *path)
{
    struct stat st;
    if (!path || stat(path, &st) != 0)
        return (stamp){0};
    return (stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
}

static bool same_stamp(const stamp *a, const stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->written.tv_sec == b->written.tv_sec && a->written.tv_nsec == b->written.tv_nsec;
}

bool net_tls_server_is_stale(const net_tls_server *s)
{
    bool same = true;
    for (int i = 0; i < FILES; i++) {
        stamp now = stamp_of(s->path[i]);
        same &= same_stamp(&now, &s->stamp[i]);
    }
    return !same;
}

static bool has_path(const net_tls_server *s, net_tls_file file, const char *path)
{
    const char *own = s->path[file];
    return own == path || (own && path && strcmp(own, path) == 0);
}

bool net_tls_server_has(const net_tls_server *s, const net_tls_server_files *files)
{
    return has_path(s, NET_TLS_CERT, files->cert) && has_path(s, NET_TLS_KEY, files->key) &&
           has_path(s, NET_TLS_CA, files->client_ca);
}

static void free_paths(char *path[FILES])
{
    for (int i = 0; i < FILES; i++)
        port_free(path[i]);
}

static weir_status copy_paths(const net_tls_server_files *files, char *ret[FILES])
{
    const char *from[FILES] = {
        [NET_TLS_CERT] = files->cert, [NET_TLS_KEY] = files->key, [NET_TLS_CA] = files->client_ca};
    for (int i = 0; i < FILES; i++) {
        ret[i] = from[i] ? port_zalloc(1, strlen(from[i]) + 1) : NULL;
        if (ret[i])
            memcpy(ret[i], from[i], strlen(from[i]));
        else if (from[i])
            return WEIR_E_NOMEM;
    }
    return WEIR_OK;
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* Accepts the protocol of the listener only: RFC 7301 requires the alert no_application_protocol if
 * the client offers only others. */
static int select_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                       const unsigned char *offered, unsigned len, void *arg)
{
    const char *alpn = arg;
    size_t want = strlen(alpn);
    (void)ssl;
    for (unsigned at = 0, n; at < len; at += n + 1) {
        n = offered[at];
        if (n == want && at + 1 + n <= len && memcmp(offered + at + 1, alpn, n) == 0) {
            *ret = offered + at + 1;
            *ret_len = (unsigned char)n;
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Forward secrecy and authenticated encryption for TLS 1.2, too; all ciphers of TLS 1.3 have both.
 * Every client has one of the three groups, so no other of OpenSSL's has to be trusted.
 * The tickets are stateless, so all threads accept them, and a new context has new ticket keys. */
static bool configure(SSL_CTX *ctx, const char *alpn)
{
    static const unsigned char id[] = "weir";
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    if (alpn)
        SSL_CTX_set_alpn_select_cb(ctx, select_alpn, (void *)alpn);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384") == 1 &&
           SSL_CTX_set_num_tickets(ctx, TICKETS) == 1 &&
           SSL_CTX_set_session_id_context(ctx, id, sizeof id - 1) == 1;
}

/* Requires a certificate of each client. The names of the authorities are sent to the client, which
 * chooses its certificate by them. */
static weir_status require_clients(SSL_CTX *ctx, const char *ca, net_tls_failure *ret_why)
{
    weir_status st = net_tls_load_ca(ctx, ca, ret_why);
    if (st != WEIR_OK)
        return st;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(ca);
    if (!names)
        return WEIR_E_NOMEM;
    SSL_CTX_set_client_CA_list(ctx, names); /* takes ownership */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return WEIR_OK;
}

static weir_status open_context(SSL_CTX **ret, char *const path[FILES], const char *alpn,
                                net_tls_failure *ret_why)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    weir_status st = ctx && configure(ctx, alpn) ? WEIR_OK : WEIR_E_NOMEM;
    if (st == WEIR_OK)
        st = net_tls_load_pair(ctx, path[NET_TLS_CERT], path[NET_TLS_KEY], ret_why);
    if (st == WEIR_OK && path[NET_TLS_CA])
        st = require_clients(ctx, path[NET_TLS_CA], ret_why);
    if (st == WEIR_OK)
        *ret = ctx;
    else
        SSL_CTX_free(ctx);
    return st;
}

/* When the certificate of a context expires, in seconds since 1970; 0 if that cannot be read. */
static int64_t not_after(const SSL_CTX *ctx)
{
    const X509 *cert = SSL_CTX_get0_certificate(ctx);
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;
    if (!cert || !epoch || ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notAfter(cert)) != 1)
        days = seconds = 0;
    ASN1_TIME_free(epoch);
    int64_t sum = (int64_t)days * 86400 + seconds;
    return sum > 0 ? sum : 0;
}

static void swap_context(net_tls_server *s, SSL_CTX *ctx)
{
    port_mutex_lock(s->lock);
    SSL_CTX *old = s->ctx;
    s->ctx = ctx;
    port_mutex_unlock(s->lock);
    SSL_CTX_free(old); /* sessions that use it have references of their own */
    port_store_relaxed(&s->not_after_s, (uint64_t)not_after(ctx));
}

/* ---- servers --------------------------------------------------------------------------------- */

weir_status net_tls_server_reload(net_tls_server *s, const net_tls_server_files *files,
                                  net_tls_failure *ret_why)
{
    char *path[FILES] = {NULL};
    weir_status st = files ? copy_paths(files, path) : WEIR_OK;
    if (st != WEIR_OK) {
        free_paths(path);
        return st;
    }
    if (files) {
        free_paths(s->path);
        memcpy(s->path, path, sizeof path);
    }
    for (int i = 0; i < FILES; i++) /* before reading: a later change is noticed */
        s->stamp[i] = stamp_of(s->path[i]);
    SSL_CTX *ctx;
    st = open_context(&ctx, s->path, s->alpn, ret_why);
    if (st == WEIR_OK)
        swap_context(s, ctx);
    ERR_clear_error();
    return st;
}

weir_status net_tls_server_open(net_tls_server **ret, const net_tls_server_files *files,
                                const char *alpn, net_tls_failure *ret_why)
{
    net_tls_server *s = port_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_E_NOMEM;
    s->alpn = alpn;
    s->lock = port_mutex_new();
    weir_status st = s->lock ? net_tls_server_reload(s, files, ret_why) : WEIR_E_NOMEM;
    if (st == WEIR_OK)
        *ret = s;
    else
        net_tls_server_close(s);
    return st;
}

void net_tls_server_close(net_tls_server *s)
{
    if (!s)
        return;
    SSL_CTX_free(s->ctx);
    port_mutex_free(s->lock);
    free_paths(s->path);
    port_free(s);
}

net_tls_server_stats net_tls_server_stats_get(const net_tls_server *s)
{
    return (net_tls_server_stats){.not_after_s = (int64_t)port_load_relaxed(&s->not_after_s),
                                  .handshakes = port_load_relaxed(&s->handshakes),
                                  .failures = port_load_relaxed(&s->failures)};
}

/* ---- for sessions ---------------------------------------------------------------------------- */

SSL *net_tls_server_accept(net_tls_server *s)
{
    port_mutex_lock(s->lock);
    SSL *ssl = SSL_new(s->ctx); /* refers to the context */
    port_mutex_unlock(s->lock);
    if (ssl)
        SSL_set_accept_state(ssl);
    return ssl;
}

void net_tls_server_count(net_tls_server *s, bool completed)
{
    port_add_relaxed(completed ? &s->handshakes : &s->failures, 1);
}
