/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* TLS connections to a server in the test, and TLS sessions with a server in memory. */

#include "net/dial_kit_test.h"

#include "net/tls/client.h"
#include "net/tls/client_kit_test.h"

#include <fcntl.h>
#include <openssl/err.h>

static struct {
    authority ours, other;
    char ca[96], other_ca[96], server[96], client[96], stranger[96], partial[96], bad[96];
} k;

static void name_file(const fixture *f, char path[96], const char *name)
{
    snprintf(path, 96, "%s/%s.pem", f->dir, name);
}

static int setup_files(void **state)
{
    setup(state);
    const fixture *f = *state;
    name_file(f, k.ca, "ca");
    name_file(f, k.other_ca, "other");
    name_file(f, k.server, "server");
    name_file(f, k.client, "client");
    name_file(f, k.stranger, "stranger");
    name_file(f, k.partial, "partial");
    name_file(f, k.bad, "bad");
    k.ours = make_authority(k.ca);
    k.other = make_authority(k.other_ca);
    make_pair(&k.ours, "DNS:redis.test,IP:127.0.0.1", k.server);
    make_pair(&k.ours, "DNS:client.test", k.client);
    make_pair(&k.other, "DNS:redis.test", k.stranger);
    make_pair(&k.ours, "DNS:re*.db.test", k.partial);
    FILE *file = fopen(k.bad, "w");
    fputs("no certificate\n", file);
    fclose(file);
    return 0;
}

static int teardown_files(void **state)
{
    free_authority(&k.ours);
    free_authority(&k.other);
    return teardown(state);
}

static port_tls *open_tls(const char *ca, const char *pair, bool insecure)
{
    port_tls *tls = NULL;
    char error[256] = "";
    weir_status st = net_tls_open(&tls, ca, pair, pair, insecure, error, sizeof error);
    assert_string_equal(error, "");
    assert_int_equal(st, WEIR_OK);
    return tls;
}

static void test_tls(void **state)
{
    fixture *f = *state;
    uint16_t port;
    tls_server server;
    tls_start(&server, listen_tcp(&port), k.server, NULL);
    port_tls *tls = open_tls(k.ca, NULL, false);
    caller c = {.leaves = 1};
    send_room = 10; /* the socket is full once in the handshake */
    call(f, &c, &(port_endpoint){.host = "127.0.0.1", .port = port, .tls = tls});
    say_text(&c, "early bird");
    run_until(f, &c.received, 9);
    assert_string_equal(c.text, "early bird");
    c.leaves = 0;
    c.received = 0;
    uint8_t *bytes = calloc(1, BIG);
    say(&c, bytes, BIG);
    run_until(f, &c.received, BIG + 1);
    assert_true(weir_buffer_memory(f->port->calls->out(c.connection)) <= 256 << 10);
    f->port->calls->close(c.connection);
    free(bytes);

    caller named = {0};
    call(f, &named,
         &(port_endpoint){.host = "127.0.0.1", .port = port, .tls = tls, .tls_name = "redis.test"});
    run_until(f, &named.ups, 1);
    say_text(&named, "hello");
    run_until(f, &named.received, 5);
    f->port->calls->close(named.connection);
    tls_stop(&server);
    net_tls_close(tls);
}

/* A connection that is closed sends its output first, and nothing if the buffer has failed. */
static void test_tls_close_sends(void **state)
{
    fixture *f = *state;
    static const size_t expected[] = {9, 0};
    for (size_t i = 0; i < 2; i++) {
        uint16_t port;
        tls_server server;
        tls_start_sink(&server, listen_tcp(&port), k.server, NULL, 9);
        port_tls *tls = open_tls(k.ca, NULL, false);
        caller c = {0};
        call(f, &c, &(port_endpoint){.host = "127.0.0.1", .port = port, .tls = tls});
        run_until(f, &c.ups, 1);
        say_text(&c, "last word");
        f->port->calls->out(c.connection)->failed = i == 1;
        f->port->calls->close(c.connection);
        run_idle(f);
        tls_stop(&server);
        assert_int_equal(server.sunk, expected[i]);
        assert_int_equal(c.downs, 0);
        net_tls_close(tls);
    }
}

/* All output is sent although the server says nothing until it has received everything. The socket
 * is full once, when not all of the output has been encrypted yet. */
static void test_tls_output_without_input(void **state)
{
    fixture *f = *state;
    uint16_t port;
    tls_server server;
    tls_start_sink(&server, listen_tcp(&port), k.server, NULL, BIG);
    port_tls *tls = open_tls(k.ca, NULL, false);
    caller c = {0};
    call(f, &c, &(port_endpoint){.host = "127.0.0.1", .port = port, .tls = tls});
    run_until(f, &c.ups, 1);
    uint8_t *bytes = calloc(1, BIG);
    send_room = 1;
    say(&c, bytes, BIG);
    run_until(f, &c.received, 1);
    assert_int_equal(weir_buffer_len(f->port->calls->out(c.connection)), 0);
    f->port->calls->close(c.connection);
    free(bytes);
    tls_stop(&server);
    net_tls_close(tls);
}

/* A connection that its user closes in a callback. */
static void test_tls_close(void **state)
{
    fixture *f = *state;
    uint16_t port;
    tls_server server;
    tls_start(&server, listen_tcp(&port), k.server, NULL);
    port_tls *tls = open_tls(k.ca, NULL, false);
    const port_endpoint to = {.host = "127.0.0.1", .port = port, .tls = tls};
    caller up = {.closes_when_up = true}, received = {.closes_when_received = true};
    call(f, &up, &to);
    run_until(f, &up.ups, 1);
    call(f, &received, &to);
    say_text(&received, "echo");
    run_until(f, &received.calls, 1);
    run_idle(f);
    assert_int_equal(up.downs + received.downs, 0);
    tls_stop(&server);
    net_tls_close(tls);
}

static void test_tls_send_error(void **state)
{
    fixture *f = *state;
    uint16_t port;
    tls_server server;
    tls_start(&server, listen_tcp(&port), k.server, NULL);
    port_tls *tls = open_tls(k.ca, NULL, false);
    const port_endpoint to = {.host = "127.0.0.1", .port = port, .tls = tls};
    caller early = {0}, late = {0};
    send_errno = EPIPE;
    call(f, &early, &to);
    run_until(f, &early.downs, 1);
    assert_string_equal(early.why, "the connection was reset");
    call(f, &late, &to);
    say_text(&late, "echo");
    run_until(f, &late.received, 4);
    run_idle(f);
    send_errno = EPIPE;
    say_text(&late, "lost");
    run_until(f, &late.downs, 1);
    assert_string_equal(late.why, "broken pipe");
    tls_stop(&server);
    net_tls_close(tls);
}

/* Runs the loop until a call of the server on a socket that does not block succeeds. */
static void run_until_done(fixture *f, SSL *server, int (*attempt)(SSL *server))
{
    for (int i = 0; i < 100000 && attempt(server) != 1; i++)
        uv_run(&f->uv, UV_RUN_NOWAIT);
}

static char heard;

static int hear(SSL *server)
{
    return SSL_read(server, &heard, 1);
}

/* Returns the server's end of an established connection with TLS 1.2, which does not block. */
static SSL *connect_tls(fixture *f, caller *c, port_tls *tls)
{
    uint16_t port;
    int listener = listen_tcp(&port);
    call(f, c, &(port_endpoint){.host = "127.0.0.1", .port = port, .tls = tls});
    run_idle(f);
    int fd = accept_one(listener);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate_file(ctx, k.server, SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(ctx, k.server, SSL_FILETYPE_PEM);
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    SSL *server = SSL_new(ctx);
    SSL_set_fd(server, fd);
    SSL_CTX_free(ctx);
    run_until_done(f, server, SSL_accept);
    run_until(f, &c->ups, 1);
    close(listener);
    return server;
}

static void close_tls(SSL *server)
{
    close(SSL_get_fd(server));
    SSL_free(server);
}

/* The user closes the connection when it receives the last bytes, which come with the end. */
static void test_tls_close_at_the_end(void **state)
{
    fixture *f = *state;
    port_tls *tls = open_tls(k.ca, NULL, false);
    caller c = {.closes_when_received = true};
    SSL *server = connect_tls(f, &c, tls);
    assert_int_equal(SSL_write(server, "last", 4), 4);
    SSL_shutdown(server);
    run_until(f, &c.calls, 1);
    run_idle(f);
    assert_int_equal(c.downs, 0);
    close_tls(server);
    net_tls_close(tls);
}

/* Output that is added while the server renegotiates (TLS 1.2) is sent afterwards, and a large
 * buffer of it is freed then. */
static void test_tls_renegotiation(void **state)
{
    fixture *f = *state;
    port_tls *tls = open_tls(k.ca, NULL, false);
    caller c = {0};
    SSL *server = connect_tls(f, &c, tls);
    assert_int_equal(SSL_renegotiate(server), 1);
    SSL_do_handshake(server);
    run_idle(f);
    weir_buffer *out = f->port->calls->out(c.connection);
    assert_true(weir_buffer_reserve(out, 512 << 10));
    say_text(&c, "x");
    run_idle(f);
    assert_int_equal(weir_buffer_len(out), 1);
    run_until_done(f, server, hear);
    assert_int_equal(heard, 'x');
    assert_int_equal(weir_buffer_memory(out), 0);
    f->port->calls->close(c.connection);
    close_tls(server);
    net_tls_close(tls);
}

/* Returns why a connection is not established, or closes soon after. */
static void expect_down(fixture *f, const port_endpoint *to, const char *why)
{
    caller c = {0};
    call(f, &c, to);
    run_until(f, &c.downs, 1);
    if (!strstr(c.why, why))
        print_error("%s\n", c.why);
    assert_non_null(strstr(c.why, why));
}

static void test_tls_verification(void **state)
{
    fixture *f = *state;
    uint16_t port, port_of_stranger, port_of_partial, plain;
    tls_server server, stranger, partial;
    tls_start(&server, listen_tcp(&port), k.server, NULL);
    tls_start(&stranger, listen_tcp(&port_of_stranger), k.stranger, NULL);
    tls_start(&partial, listen_tcp(&port_of_partial), k.partial, NULL);
    int listener = listen_tcp(&plain);
    port_tls *tls = open_tls(k.ca, NULL, false), *any = open_tls(NULL, NULL, true);
    port_endpoint to = {.host = "127.0.0.1", .port = port, .tls = tls, .tls_name = "other.test"};
    expect_down(f, &to, "TLS: the server's certificate is not valid for \"other.test\"");
    to.tls_name = "127.0.0.2";
    expect_down(f, &to, "TLS: the server's certificate is not valid for \"127.0.0.2\"");
    to.port = port_of_stranger;
    to.tls_name = "redis.test";
    expect_down(f, &to,
                "TLS: the server's certificate is not trusted: no trusted authority has "
                "signed it");
    to.port = port_of_partial;
    to.tls_name = "redis.db.test"; /* "re*.db.test" would match */
    expect_down(f, &to, "TLS: the server's certificate is not valid for \"redis.db.test\"");

    caller c = {0};
    to.tls = any;
    to.tls_name = "other-name.test";
    call(f, &c, &to);
    run_until(f, &c.ups, 1);
    f->port->calls->close(c.connection);

    caller d = {0};
    to.port = plain;
    call(f, &d, &to);
    while (uv_run(&f->uv, UV_RUN_NOWAIT) && d.calls == 0) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, 1) == 1)
            break;
    }
    int fd = accept_one(listener);
    reply(fd, "-ERR what is that\r\n");
    run_until(f, &d.downs, 1);
    assert_string_equal(d.why, "TLS: the server does not speak TLS");
    close(fd);
    close(listener);
    tls_stop(&server);
    tls_stop(&stranger);
    tls_stop(&partial);
    net_tls_close(tls);
    net_tls_close(any);
}

static void test_tls_client_certificate(void **state)
{
    fixture *f = *state;
    uint16_t port;
    tls_server server;
    tls_start(&server, listen_tcp(&port), k.server, k.ca);
    port_tls *no_client = open_tls(k.ca, NULL, false), *one = open_tls(k.ca, k.client, false);
    port_tls *other = open_tls(k.ca, k.stranger, false);
    port_endpoint to = {.host = "127.0.0.1", .port = port, .tls = no_client};
    expect_down(f, &to, "TLS: the server requires a client certificate");
    to.tls = other;
    expect_down(f, &to, "TLS: the server refuses the client's certificate: ");
    to.tls = one;
    caller c = {0};
    call(f, &c, &to);
    say_text(&c, "it is me");
    run_until(f, &c.received, 8);
    f->port->calls->close(c.connection);
    tls_stop(&server);
    net_tls_close(no_client);
    net_tls_close(other);
    net_tls_close(one);
}

static void test_tls_files(void **state)
{
    fixture *f = *state;
    port_tls *tls = NULL;
    char error[256], nowhere[96];
    name_file(f, nowhere, "nowhere");
    const struct {
        const char *ca, *cert, *key, *error;
    } bad[] = {
        {nowhere, NULL, NULL, "cannot load the trusted certificates %s/nowhere.pem: No such file"},
        {k.bad, NULL, NULL,
         "cannot load the trusted certificates %s/bad.pem: no certificate or crl found"},
        {k.ca, nowhere, k.client, "cannot load the certificate %s/nowhere.pem: No such file"},
        {k.ca, k.bad, k.client, "cannot load the certificate %s/bad.pem: it is not in PEM format"},
        {k.ca, k.client, k.bad, "cannot load the private key %s/bad.pem: it is not in PEM format"},
        {k.ca, k.client, k.server,
         "cannot load the private key %s/server.pem: it does not belong to the certificate"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char expected[256];
        snprintf(expected, sizeof expected, bad[i].error, f->dir);
        error[0] = '\0';
        ERR_raise(ERR_LIB_USER, 1); /* of an earlier call */
        assert_int_equal(
            net_tls_open(&tls, bad[i].ca, bad[i].cert, bad[i].key, false, error, sizeof error),
            WEIR_E_IO);
        if (strncmp(error, expected, strlen(expected)) != 0)
            print_error("%s\n", error);
        assert_int_equal(strncmp(error, expected, strlen(expected)), 0);
    }
    assert_null(tls);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* A session, and a server in memory. */
typedef struct pair {
    port_tls *tls;
    net_tls_session *session;
    weir_buffer in, out, wire;
    net_tls_state state;
    char why[256];
    SSL_CTX *ctx;
    SSL *server;
    BIO *from, *to; /* of the server */
    char heard[64]; /* by the server */
} pair;

static void open_pair(pair *p, const char *file, const char *name, bool insecure, int version)
{
    memset(p, 0, sizeof *p);
    p->tls = open_tls(k.ca, NULL, insecure);
    p->session = net_tls_session_open(p->tls, name);
    weir_buffer_init(&p->in, BIG);
    weir_buffer_init(&p->out, BIG);
    weir_buffer_init(&p->wire, BIG);
    p->ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate_file(p->ctx, file, SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(p->ctx, file, SSL_FILETYPE_PEM), 1);
    SSL_CTX_set_max_proto_version(p->ctx, version);
    p->server = SSL_new(p->ctx);
    p->from = BIO_new(BIO_s_mem());
    p->to = BIO_new(BIO_s_mem());
    SSL_set_bio(p->server, p->from, p->to);
    SSL_set_accept_state(p->server);
}

static void run(pair *p)
{
    p->state = net_tls_session_run(p->session, &p->in, &p->out, &p->wire, p->why, sizeof p->why);
}

/* Runs the session and the server until they have no more to tell each other. */
static void talk(pair *p)
{
    char bytes[16384];
    int len = 1;
    while (len > 0) {
        run(p);
        if (p->state == NET_TLS_CLOSED)
            return;
        BIO_write(p->from, weir_buffer_data(&p->wire), (int)weir_buffer_len(&p->wire));
        weir_buffer_clear(&p->wire);
        size_t have = strlen(p->heard);
        int n = SSL_read(p->server, p->heard + have, (int)(sizeof p->heard - 1 - have));
        p->heard[n > 0 ? have + (size_t)n : have] = '\0';
        len = BIO_read(p->to, bytes, sizeof bytes);
        assert_true(len <= 0 || net_tls_session_feed(p->session, (uint8_t *)bytes, (size_t)len));
    }
}

static void close_pair(pair *p)
{
    net_tls_session_close(p->session);
    net_tls_close(p->tls);
    weir_buffer_free(&p->in);
    weir_buffer_free(&p->out);
    weir_buffer_free(&p->wire);
    SSL_free(p->server);
    SSL_CTX_free(p->ctx);
}

/* Output is encrypted until 64 KiB of it are unsent. */
static void test_session_output_is_bounded(void **unused)
{
    (void)unused;
    enum { LIMIT = 64 << 10, RECORD = 17 << 10, LONG = 1 << 20 };
    static const uint8_t bytes[LONG];
    pair p;
    open_pair(&p, k.server, "redis.test", false, TLS1_3_VERSION);
    talk(&p);
    assert_int_equal(p.state, NET_TLS_ESTABLISHED);
    assert_string_equal(SSL_get_servername(p.server, TLSEXT_NAMETYPE_host_name), "redis.test");
    weir_buffer_append(&p.out, bytes, LONG);
    weir_buffer_append(&p.wire, bytes, LIMIT);
    run(&p);
    assert_int_equal(weir_buffer_len(&p.wire), LIMIT);
    weir_buffer_clear(&p.wire);
    weir_buffer_append(&p.wire, bytes, LIMIT - 1);
    run(&p);
    assert_in_range(weir_buffer_len(&p.wire), 2 * LIMIT - 1, 2 * LIMIT + RECORD);
    assert_in_range(weir_buffer_len(&p.out), LONG - LIMIT - RECORD, LONG - LIMIT + RECORD);
    assert_int_equal(p.state, NET_TLS_ESTABLISHED);
    close_pair(&p);
}

/* While the server renegotiates (TLS 1.2), output waits. */
static void test_session_renegotiates(void **unused)
{
    (void)unused;
    pair p;
    open_pair(&p, k.server, "127.0.0.1", false, TLS1_2_VERSION);
    talk(&p);
    assert_null(SSL_get_servername(p.server, TLSEXT_NAMETYPE_host_name));
    assert_int_equal(SSL_renegotiate(p.server), 1);
    SSL_do_handshake(p.server);
    char hello[64];
    int len = BIO_read(p.to, hello, sizeof hello);
    assert_true(net_tls_session_feed(p.session, (uint8_t *)hello, (size_t)len));
    weir_buffer_append(&p.out, "output", 6);
    run(&p);
    assert_int_equal(p.state, NET_TLS_ESTABLISHED);
    assert_int_equal(weir_buffer_len(&p.out), 6);
    talk(&p);
    assert_int_equal(weir_buffer_len(&p.out), 0);
    assert_string_equal(p.heard, "output");
    close_pair(&p);
}

/* Errors that other calls of OpenSSL left behind do not close a session. */
static void test_session_ignores_old_errors(void **unused)
{
    (void)unused;
    pair p;
    open_pair(&p, k.server, "redis.test", false, TLS1_3_VERSION);
    for (int i = 0; i < 2; i++) {
        ERR_raise(ERR_LIB_USER, 1);
        run(&p);
        assert_int_equal(p.state, i == 0 ? NET_TLS_HANDSHAKE : NET_TLS_ESTABLISHED);
        talk(&p);
    }
    close_pair(&p);
}

static void expect_closed(pair *p, const char *why)
{
    talk(p);
    assert_int_equal(p->state, NET_TLS_CLOSED);
    assert_string_equal(p->why, why);
    close_pair(p);
}

static void test_session_errors(void **unused)
{
    (void)unused;
    pair p;
    open_pair(&p, k.stranger, "other.test", true, TLS1_3_VERSION);
    talk(&p);
    SSL_shutdown(p.server);
    expect_closed(&p, "TLS: the server closed the connection");

    open_pair(&p, k.server, "redis.test", false, TLS1_3_VERSION);
    talk(&p);
    assert_true(net_tls_session_feed(p.session, (const uint8_t *)"garbage", 7));
    talk(&p);
    assert_int_equal(p.state, NET_TLS_CLOSED);
    assert_true(strncmp(p.why, "TLS: ", 5) == 0 && p.why[5] != '\0'); /* OpenSSL words the reason */
    close_pair(&p);

    open_pair(&p, k.server, "redis.test", false, TLS1_3_VERSION);
    assert_true(net_tls_session_feed(p.session, (const uint8_t *)"garbage", 7));
    expect_closed(&p, "TLS: the server does not speak TLS");

    open_pair(&p, k.server, "redis.test", false, TLS1_3_VERSION);
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 40}; /* handshake_failure */
    assert_true(net_tls_session_feed(p.session, alert, sizeof alert));
    char why[128] = "TLS: ";
    unsigned long error = ERR_PACK(ERR_LIB_SSL, 0, SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE);
    strncat(why, ERR_reason_error_string(error), sizeof why - 6);
    expect_closed(&p, why);
}

/* What an alert of the server says of the client's certificate. */
static void test_session_alerts(void **unused)
{
    (void)unused;
    static const char refused[] = "TLS: the server refuses the client's certificate: ",
                      required[] = "TLS: the server requires a client certificate";
    static const struct {
        uint8_t alert;
        const char *why; /* how the text begins */
    } cases[] = {{41, NULL},    {42, refused}, {43, refused}, {44, refused}, {45, refused},
                 {46, refused}, {47, NULL},    {48, refused}, {49, NULL},    {116, required}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pair p;
        open_pair(&p, k.server, "redis.test", false, TLS1_3_VERSION);
        const uint8_t alert[] = {21, 3, 3, 0, 2, 2, cases[i].alert};
        assert_true(net_tls_session_feed(p.session, alert, sizeof alert));
        talk(&p);
        assert_int_equal(p.state, NET_TLS_CLOSED);
        assert_int_equal(strncmp(p.why, "TLS: the server re", 18) == 0, cases[i].why != NULL);
        if (cases[i].why)
            assert_int_equal(strncmp(p.why, cases[i].why, strlen(cases[i].why)), 0);
        assert_false(net_tls_session_distrusts(p.session));
        close_pair(&p);
    }
}

/* No trusted authority has signed the certificate: one that was asked for, but not if it is not
 * checked, and not if only the name differs. */
static void test_session_distrusts(void **unused)
{
    (void)unused;
    const struct {
        const char *file, *name;
        bool insecure, distrusts;
    } cases[] = {{k.stranger, "redis.test", false, true},
                 {k.stranger, "redis.test", true, false},
                 {k.server, "other.test", false, false},
                 {k.server, "redis.test", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pair p;
        open_pair(&p, cases[i].file, cases[i].name, cases[i].insecure, TLS1_3_VERSION);
        talk(&p);
        assert_int_equal(net_tls_session_distrusts(p.session), cases[i].distrusts);
        close_pair(&p);
    }
}

/* A session closes without memory for encrypted output, and without space for input. */
static void test_session_without_space(void **unused)
{
    (void)unused;
    pair p;
    open_pair(&p, k.server, "redis.test", false, TLS1_3_VERSION);
    weir_buffer_init(&p.wire, 10);
    static const char why[] = "more than 64 MiB of input are unread, or memory is exhausted";
    expect_closed(&p, why);
    open_pair(&p, k.server, "redis.test", false, TLS1_3_VERSION);
    talk(&p);
    weir_buffer_free(&p.in);
    weir_buffer_init(&p.in, 10);
    expect_closed(&p, why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tls, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_tls_close_sends, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_tls_output_without_input, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_tls_close, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_tls_send_error, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_tls_close_at_the_end, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_tls_renegotiation, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_tls_verification, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_tls_client_certificate, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_tls_files, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_session_output_is_bounded, setup_files,
                                        teardown_files),
        cmocka_unit_test_setup_teardown(test_session_renegotiates, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_session_ignores_old_errors, setup_files,
                                        teardown_files),
        cmocka_unit_test_setup_teardown(test_session_errors, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_session_alerts, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_session_distrusts, setup_files, teardown_files),
        cmocka_unit_test_setup_teardown(test_session_without_space, setup_files, teardown_files),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
