/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_TLS_SERVER_KIT_TEST_H
#define WEIR_NET_TLS_SERVER_KIT_TEST_H
/* Fixtures of the tests of TLS listeners: certificates in a directory, and an OpenSSL client and a
 * session of the TLS protocol that exchange bytes in memory. */

#include "net/fixture_test.h"

#include "net/tls/client_kit_test.h"
#include "net/tls/server.h"

#include <openssl/err.h>

enum { REQUEST_MAX = 1 << 20, OUT_PAUSE = 64 << 10, KIT_OUT_MAX = 16 << 20 };

/* ---- files ----------------------------------------------------------------------------------- */

/* Authorities, certificates with their keys, and a file that is none of these. */
typedef struct tls_kit {
    char dir[64];
    authority ours, other;
    char ca[96], other_ca[96], server[96], server2[96], client[96], stranger[96], bad[96];
} tls_kit;

static tls_kit k;

static inline void name_file(char path[96], const char *name)
{
    snprintf(path, 96, "%s/%s.pem", k.dir, name);
}

static inline int setup_files(void **unused)
{
    (void)unused;
    strcpy(k.dir, "/tmp/weir-tls-XXXXXX");
    assert_non_null(mkdtemp(k.dir));
    name_file(k.ca, "ca");
    name_file(k.other_ca, "other");
    name_file(k.server, "server");
    name_file(k.server2, "server2");
    name_file(k.client, "client");
    name_file(k.stranger, "stranger");
    name_file(k.bad, "bad");
    k.ours = make_authority(k.ca);
    k.other = make_authority(k.other_ca);
    make_pair(&k.ours, "DNS:weir.test,IP:127.0.0.1", k.server);
    make_pair(&k.ours, "DNS:weir.test,IP:127.0.0.1", k.server2);
    make_pair(&k.ours, "DNS:client.test", k.client);
    make_pair(&k.other, "DNS:client.test", k.stranger);
    write_file(k.bad, "no certificate\n");
    return 0;
}

static inline int teardown_files(void **unused)
{
    (void)unused;
    const char *paths[] = {k.ca, k.other_ca, k.server, k.server2, k.client, k.stranger, k.bad};
    free_authority(&k.ours);
    free_authority(&k.other);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        unlink(paths[i]);
    return rmdir(k.dir);
}

static inline net_tls_server *open_tls_server(const char *ca, const char *alpn)
{
    net_tls_server *s = NULL;
    net_tls_failure why = {.text = ""};
    const net_tls_server_files files = {k.server, k.server, ca};
    weir_status st = net_tls_server_open(&s, &files, alpn, &why);
    assert_string_equal(why.text, "");
    assert_int_equal(st, WEIR_OK);
    return s;
}

/* ---- clients --------------------------------------------------------------------------------- */

typedef struct client_options {
    int version;      /* the only version of TLS; 0: all */
    const char *pair; /* the client's certificate; NULL: none */
    const char *alpn; /* in the form of the extension: "\2h2"; NULL: none */
    SSL_SESSION *resumes;
} client_options;

static inline SSL_CTX *client_context(const client_options *o)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    assert_non_null(ctx);
    assert_int_equal(SSL_CTX_load_verify_file(ctx, k.ca), 1);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (o->version == TLS1_1_VERSION)
        SSL_CTX_set_security_level(ctx, 0);
    if (o->version > 0) {
        assert_int_equal(SSL_CTX_set_min_proto_version(ctx, o->version), 1);
        assert_int_equal(SSL_CTX_set_max_proto_version(ctx, o->version), 1);
    }
    if (o->pair) {
        assert_int_equal(SSL_CTX_use_certificate_file(ctx, o->pair, SSL_FILETYPE_PEM), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, o->pair, SSL_FILETYPE_PEM), 1);
    }
    if (o->alpn) /* returns 0 on success */
        assert_int_equal(
            SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)o->alpn, (unsigned)strlen(o->alpn)),
            0);
    return ctx;
}

/* A client of OpenSSL on two memory BIOs, and the session that it is connected to. */
typedef struct pair {
    weir_tls_protocol *protocol;
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *from, *to;
    void *session;
    weir_buffer in, out;
    weir_session_step step; /* the last */
    int64_t now_ns;
    size_t piece; /* the most bytes that the session receives at once */
    size_t runs;
    bool closed; /* the session has closed */
    int wakes;
} pair;

static inline void count_wake(void *wake_ctx)
{
    ((pair *)wake_ctx)->wakes++;
}

static inline void open_pair(pair *p, weir_tls_protocol *protocol, const client_options *o)
{
    *p = (pair){.protocol = protocol, .piece = 1 << 20, .now_ns = s_ns};
    p->ctx = client_context(o);
    p->ssl = SSL_new(p->ctx);
    p->from = BIO_new(BIO_s_mem());
    p->to = BIO_new(BIO_s_mem());
    SSL_set_bio(p->ssl, p->from, p->to);
    SSL_set_connect_state(p->ssl);
    if (o->resumes)
        assert_int_equal(SSL_set_session(p->ssl, o->resumes), 1);
    weir_buffer_init(&p->in, REQUEST_MAX + (128 << 10));
    weir_buffer_init(&p->out, KIT_OUT_MAX);
    p->session = calloc(1, protocol->outer.session_size);
    protocol->outer.open(p->session, protocol, count_wake, p);
}

static inline void close_pair(pair *p)
{
    p->protocol->outer.close(p->session);
    free(p->session);
    SSL_free(p->ssl);
    SSL_CTX_free(p->ctx);
    weir_buffer_free(&p->in);
    weir_buffer_free(&p->out);
    ERR_clear_error();
}

/* Runs the session as a connection does, and sends its replies to the client. */
static inline void run_session(pair *p)
{
    bool more = !p->closed;
    while (more) {
        size_t len = weir_buffer_len(&p->in);
        p->step = p->protocol->outer.run(p->session, &p->in, &p->out, OUT_PAUSE, p->now_ns);
        p->runs++;
        p->closed = p->step.next == WEIR_SESSION_CLOSE || p->out.failed;
        size_t sent = weir_buffer_len(&p->out);
        bool waits = p->step.next == WEIR_SESSION_WAIT && p->step.until_ns > p->now_ns;
        if (sent > 0)
            assert_int_equal(BIO_write(p->from, weir_buffer_data(&p->out), (int)sent), sent);
        more = !p->closed && !waits && (sent > 0 || weir_buffer_len(&p->in) < len) &&
               (p->step.next == WEIR_SESSION_AGAIN || p->step.next == WEIR_SESSION_WAIT);
        if (!p->out.failed)
            weir_buffer_clear(&p->out);
    }
}

/* Delivers bytes to the session, at most p->piece at a time. */
static inline void deliver(pair *p, const uint8_t *bytes, size_t len)
{
    for (size_t at = 0, n; at < len && !p->closed; at += n) {
        n = len - at < p->piece ? len - at : p->piece;
        weir_buffer_append(&p->in, bytes + at, n);
        assert_false(p->in.failed);
        run_session(p);
    }
}

/* Delivers what the client has written. */
static inline void deliver_all(pair *p)
{
    char *bytes = NULL;
    long len = BIO_get_mem_data(p->to, &bytes);
    if (len > 0)
        deliver(p, (const uint8_t *)bytes, (size_t)len);
    (void)BIO_reset(p->to);
}

/* Runs the handshake. Returns whether the client has completed it. */
static inline bool shake_hands(pair *p)
{
    for (int i = 0; i < 10 && !p->closed; i++) {
        ERR_clear_error();
        int result = SSL_do_handshake(p->ssl);
        bool fails = result != 1 && SSL_get_error(p->ssl, result) != SSL_ERROR_WANT_READ;
        deliver_all(p);
        if (fails)
            return false;
        if (result == 1)
            return !p->closed;
    }
    return false;
}

/* Encrypts a text without delivering it. */
static inline void write_text(pair *p, const char *text)
{
    assert_int_equal(SSL_write(p->ssl, text, (int)strlen(text)), strlen(text));
}

static inline void send_text(pair *p, const char *text)
{
    write_text(p, text);
    deliver_all(p);
}

/* Expects exactly this text, and nothing after it. */
static inline void expect_text(pair *p, const char *text)
{
    char got[1024] = "";
    size_t have = 0;
    for (int n; have < sizeof got - 1 &&
                (n = SSL_read(p->ssl, got + have, (int)(sizeof got - 1 - have))) > 0;)
        have += (size_t)n;
    assert_string_equal(got, text);
}

/* The alert that the client has received instead of a reply; 0: none. */
static inline int received_alert(pair *p)
{
    char byte;
    ERR_clear_error();
    int result = SSL_read(p->ssl, &byte, 1);
    assert_true(result <= 0);
    int reason = ERR_GET_REASON(ERR_peek_error());
    return reason > SSL_AD_REASON_OFFSET ? reason - SSL_AD_REASON_OFFSET : 0;
}

static inline bool is_closed_properly(pair *p)
{
    char byte;
    return SSL_get_error(p->ssl, SSL_read(p->ssl, &byte, 1)) == SSL_ERROR_ZERO_RETURN;
}

/* ---- a server and a client ------------------------------------------------------------------- */

static loop_context lines_context;

typedef struct scene {
    net_tls_server *server;
    weir_tls_protocol protocol;
    pair pair;
} scene;

static inline void open_scene_for(scene *s, const weir_protocol *inner, const char *ca,
                                  const char *alpn, const client_options *o)
{
    s->server = open_tls_server(ca, alpn);
    assert_int_equal(
        weir_tls_protocol_init(&s->protocol, s->server, inner, &lines_context, REQUEST_MAX),
        WEIR_OK);
    open_pair(&s->pair, &s->protocol, o);
}

static inline void open_scene(scene *s, const client_options *o)
{
    open_scene_for(s, &lines, NULL, NULL, o);
}

static inline void close_scene(scene *s)
{
    close_pair(&s->pair);
    weir_tls_protocol_free(&s->protocol);
    assert_null(s->protocol.method);
    net_tls_server_close(s->server);
    assert_int_equal(lines_context.open, 0);
    assert_int_equal(port_load_relaxed(&wrong_in_threads), 0);
}

static inline void expect_counts(const scene *s, uint64_t handshakes, uint64_t failures)
{
    net_tls_server_stats stats = net_tls_server_stats_get(s->server);
    assert_int_equal(stats.handshakes, handshakes);
    assert_int_equal(stats.failures, failures);
}

static inline weir_session_usage usage_of(const scene *s)
{
    return s->protocol.outer.usage(s->pair.session);
}

#endif
