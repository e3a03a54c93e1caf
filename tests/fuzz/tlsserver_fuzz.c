/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: bytes that a TLS client sends. The first byte selects what happens, the second
 * seeds the splits, and the rest is:
 *   0  raw bytes, instead of a handshake;
 *   1  raw bytes, after a handshake;
 *   2  the differences to the messages of a client's handshake;
 *   3  requests, which a client encrypts. The replies to them are exact, however they are split.
 * A session that has closed stays closed, and holds no more than its limits. */

#define _GNU_SOURCE /* memfd_create */

#include "fuzz.h"

#include "net/tls/server.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REQUEST_MAX = 4096, OUT_PAUSE = 512, WIRE_MAX = 1 << 20 };

/* ---- the server ------------------------------------------------------------------------------ */

/* Echoes bytes, at most 100 at a time, so that it returns AGAIN after long input. */
static void echo_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    (void)session;
    (void)ctx;
    (void)wake;
    (void)wake_ctx;
}

static weir_session_step echo_run(void *session, weir_buffer *in, weir_buffer *out,
                                  size_t out_pause, int64_t now_ns)
{
    (void)session;
    (void)out_pause;
    (void)now_ns;
    size_t len = weir_buffer_len(in), n = len < 100 ? len : 100;
    weir_buffer_append(out, weir_buffer_data(in), n);
    weir_buffer_consume(in, n);
    return (weir_session_step){.next = n < len ? WEIR_SESSION_AGAIN : WEIR_SESSION_READ};
}

static const weir_protocol echo = {.session_size = 1, .open = echo_open, .run = echo_run};

static net_tls_server *server;
static weir_tls_protocol protocol;
static SSL_CTX *client_ctx;

/* Writes a new key and its certificate to an anonymous file. */
static void make_pair(char path[64])
{
    int fd = memfd_create("pair", 0);
    FILE *file = fdopen(dup(fd), "w");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    CHECK(fd >= 0 && file && key && cert);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    CHECK(X509_sign(cert, key, EVP_sha256()) > 0);
    CHECK(PEM_write_X509(file, cert) == 1);
    CHECK(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1);
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static void open_once(void)
{
    char path[64];
    net_tls_failure why;
    if (server)
        return;
    make_pair(path);
    CHECK(net_tls_server_open(&server, &(net_tls_server_files){path, path, NULL}, "echo", &why) ==
          WEIR_OK);
    CHECK(weir_tls_protocol_init(&protocol, server, &echo, NULL, REQUEST_MAX) == WEIR_OK);
    client_ctx = SSL_CTX_new(TLS_client_method());
    CHECK(client_ctx);
}

/* ---- a connection ---------------------------------------------------------------------------- */

typedef struct connection {
    void *session;
    weir_buffer in, out;
    SSL *client;
    BIO *from, *to;
    uint32_t seed; /* of the splits; 0: none */
    bool closed;
} connection;

static void do_not_wake(void *wake_ctx)
{
    (void)wake_ctx;
}

static void open_connection(connection *c, uint32_t seed)
{
    open_once();
    *c = (connection){.seed = seed, .session = calloc(1, protocol.outer.session_size)};
    weir_buffer_init(&c->in, WIRE_MAX);
    weir_buffer_init(&c->out, WIRE_MAX);
    c->client = SSL_new(client_ctx);
    c->from = BIO_new(BIO_s_mem());
    c->to = BIO_new(BIO_s_mem());
    SSL_set_bio(c->client, c->from, c->to);
    SSL_set_connect_state(c->client);
    protocol.outer.open(c->session, &protocol, do_not_wake, NULL);
}

static void close_connection(connection *c)
{
    weir_session_step step = protocol.outer.run(c->session, &c->in, &c->out, OUT_PAUSE, 1);
    CHECK(!c->closed || (step.next == WEIR_SESSION_CLOSE && weir_buffer_len(&c->out) == 0));
    protocol.outer.close(c->session);
    free(c->session);
    SSL_free(c->client);
    weir_buffer_free(&c->in);
    weir_buffer_free(&c->out);
    ERR_clear_error();
}

/* Runs the session as a connection does. */
static void run(connection *c)
{
    for (bool more = !c->closed; more;) {
        size_t len = weir_buffer_len(&c->in);
        weir_session_step step = protocol.outer.run(c->session, &c->in, &c->out, OUT_PAUSE, 1);
        size_t sent = weir_buffer_len(&c->out);
        CHECK(!c->out.failed && weir_buffer_len(&c->in) <= len);
        CHECK(step.next == WEIR_SESSION_READ || step.next == WEIR_SESSION_AGAIN ||
              step.next == WEIR_SESSION_CLOSE);
        CHECK(sent == 0 || BIO_write(c->from, weir_buffer_data(&c->out), (int)sent) == (int)sent);
        weir_buffer_clear(&c->out);
        c->closed = step.next == WEIR_SESSION_CLOSE;
        more = step.next == WEIR_SESSION_AGAIN && (sent > 0 || weir_buffer_len(&c->in) < len);
        CHECK(protocol.outer.usage(c->session).bytes < 100000);
    }
}

static void deliver(connection *c, const uint8_t *bytes, size_t len)
{
    for (size_t at = 0, n; at < len && !c->closed; at += n) {
        c->seed = c->seed * 1664525 + (c->seed ? 1013904223 : 0);
        n = c->seed ? c->seed >> 20 : len;
        n = n < 1 ? 1 : n > len - at ? len - at : n;
        weir_buffer_append(&c->in, bytes + at, n);
        run(c);
    }
}

/* Delivers what the client has written, changed by XOR with some of the data. */
static void deliver_client(connection *c, const uint8_t *data, size_t size)
{
    char *bytes = NULL;
    long len = BIO_get_mem_data(c->to, &bytes);
    if (len <= 0)
        return;
    uint8_t *copy = exact_copy(bytes, (size_t)len);
    (void)BIO_reset(c->to);
    for (size_t i = 0; i + 2 < size; i += 3)
        copy[(data[i] << 8 | data[i + 1]) % len] ^= data[i + 2];
    deliver(c, copy, (size_t)len);
    free(copy);
}

static bool shake_hands(connection *c, const uint8_t *data, size_t size)
{
    bool done = false;
    for (int i = 0; i < 6 && !done && !c->closed; i++) {
        ERR_clear_error();
        done = SSL_do_handshake(c->client) == 1;
        deliver_client(c, data, size);
    }
    return done && !c->closed;
}

static void check_echo(connection *c, const uint8_t *data, size_t size)
{
    CHECK(size == 0 || SSL_write(c->client, data, (int)size) == (int)size);
    deliver_client(c, NULL, 0);
    CHECK(!c->closed && weir_buffer_len(&c->in) == 0);
    uint8_t *got = malloc(size + 1);
    size_t have = 0;
    for (int n; have < size && (n = SSL_read(c->client, got + have, (int)(size - have))) > 0;)
        have += (size_t)n;
    CHECK(have == size && (size == 0 || memcmp(got, data, size) == 0));
    free(got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    connection c;
    if (size < 2 || size > 50000)
        return 0;
    unsigned mode = data[0] % 4;
    open_connection(&c, data[1]);
    data += 2;
    size -= 2;
    if (mode == 2)
        (void)shake_hands(&c, data, size);
    else if (mode != 0)
        CHECK(shake_hands(&c, NULL, 0));
    if (mode == 3)
        check_echo(&c, data, size);
    else if (mode != 2)
        deliver(&c, data, size);
    close_connection(&c);
    return 0;
}
