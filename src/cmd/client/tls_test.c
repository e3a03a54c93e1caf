/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connections with TLS, to a server on a thread that sends the replies of a script. */

#define _GNU_SOURCE

#include "cmd/client/connection.h"
#include "port/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/tls/client_kit_test.h"

#define MS       INT64_C(1000000)
#define HELLO_OK "%1\r\n$5\r\nproto\r\n:3\r\n"

enum { REPLIES_MAX = 4, BIG = 200000 };

/* What the server does with each connection. */
typedef struct script {
    const char *plain;                /* sends this instead of TLS */
    bool silent;                      /* sends nothing, and waits for the end */
    bool closes;                      /* before a handshake */
    size_t requests[REPLIES_MAX];     /* bytes of each request; 0: one read */
    const char *replies[REPLIES_MAX]; /* to each request; then close_notify */
} script;

static struct {
    authority ours, other;
    char dir[32], ca[64], other_ca[64], server[64], client[64];
    SSL_CTX *ctx;
    int listener, port;
    const script *script;
    pthread_t thread;
    char big[BIG + 32]; /* a reply */
    int no_session;     /* which call of net_tls_session_open() fails; 0: none */
} k;

net_tls_session *__wrap_net_tls_session_open(const port_tls *tls, const char *name);
net_tls_session *__real_net_tls_session_open(const port_tls *tls, const char *name);

net_tls_session *__wrap_net_tls_session_open(const port_tls *tls, const char *name)
{
    return k.no_session-- == 1 ? NULL : __real_net_tls_session_open(tls, name);
}

/* ---- the server ------------------------------------------------------------------------------ */

static bool hear(SSL *ssl, size_t len)
{
    char bytes[16384];
    for (size_t have = 0; have == 0 || have < len;) {
        int n = SSL_read(ssl, bytes, sizeof bytes);
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return true;
}

static void speak(int fd)
{
    SSL *ssl = SSL_new(k.ctx);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1) {
        for (int i = 0; i < REPLIES_MAX && k.script->replies[i] && hear(ssl, k.script->requests[i]);
             i++)
            SSL_write(ssl, k.script->replies[i], (int)strlen(k.script->replies[i]));
        SSL_shutdown(ssl);
    }
    SSL_free(ssl);
}

static void *serve(void *unused)
{
    char byte;
    for (int fd; (fd = accept(k.listener, NULL, NULL)) >= 0; close(fd)) {
        if (k.script->closes)
            (void)!read(fd, &byte, 1);
        else if (k.script->silent)
            while (read(fd, &byte, 1) > 0)
                ;
        else if (k.script->plain)
            (void)!write(fd, k.script->plain, strlen(k.script->plain));
        else
            speak(fd);
    }
    return unused;
}

static void start(const script *s, const char *client_ca)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    k.script = s;
    k.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(k.listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(k.listener, 8), 0);
    assert_int_equal(getsockname(k.listener, (struct sockaddr *)&address, &len), 0);
    k.port = ntohs(address.sin_port);
    k.ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate_file(k.ctx, k.server, SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(k.ctx, k.server, SSL_FILETYPE_PEM), 1);
    if (client_ca) {
        assert_int_equal(SSL_CTX_load_verify_file(k.ctx, client_ca), 1);
        SSL_CTX_set_verify(k.ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    assert_int_equal(pthread_create(&k.thread, NULL, serve, NULL), 0);
}

static void stop(void)
{
    shutdown(k.listener, SHUT_RDWR);
    pthread_join(k.thread, NULL);
    close(k.listener);
    SSL_CTX_free(k.ctx);
}

static int setup(void **unused)
{
    (void)unused;
    signal(SIGPIPE, SIG_IGN);
    snprintf(k.dir, sizeof k.dir, "/tmp/weir-tls-XXXXXX");
    assert_non_null(mkdtemp(k.dir));
    snprintf(k.ca, sizeof k.ca, "%s/ca.pem", k.dir);
    snprintf(k.other_ca, sizeof k.other_ca, "%s/other.pem", k.dir);
    snprintf(k.server, sizeof k.server, "%s/server.pem", k.dir);
    snprintf(k.client, sizeof k.client, "%s/client.pem", k.dir);
    k.ours = make_authority(k.ca);
    k.other = make_authority(k.other_ca);
    make_pair(&k.ours, "DNS:weir.test,IP:127.0.0.1", k.server);
    make_pair(&k.ours, "DNS:client.test", k.client);
    int head = snprintf(k.big, sizeof k.big, "$%d\r\n", BIG);
    memset(k.big + head, 'x', BIG);
    memcpy(k.big + head + BIG, "\r\n", 3);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    free_authority(&k.ours);
    free_authority(&k.other);
    const char *const files[] = {k.ca, k.other_ca, k.server, k.client};
    for (size_t i = 0; i < 4; i++)
        unlink(files[i]);
    return rmdir(k.dir);
}

/* ---- the client ------------------------------------------------------------------------------ */

static client c; /* its reply is large */
static char server[64];

static client_login login(void)
{
    snprintf(server, sizeof server, "%d", k.port);
    return (client_login){.server = server, .tls = true, .ca = k.ca};
}

static const weir_slice ping[] = {{"PING", 4}};

/* The connection fails with "127.0.0.1:PORT: " and the text. */
static void expect_error(const client_login *l, int64_t timeout_ns, const char *text)
{
    char expected[CLIENT_ERROR_MAX];
    snprintf(expected, sizeof expected, "127.0.0.1:%d: %s", k.port, text);
    assert_int_equal(client_open(&c, l, timeout_ns), CLIENT_FAILED);
    assert_string_equal(c.error, expected);
    client_close(&c);
}

/* A reply and a request of several records, and a reply together with the end. */
static void check_requests(void **unused)
{
    (void)unused;
    static char key[BIG];
    memset(key, 'k', sizeof key);
    const script s = {.requests = {0, BIG}, .replies = {HELLO_OK, k.big, "+PONG\r\n"}};
    start(&s, NULL);
    client_login l = login();
    assert_int_equal(client_open(&c, &l, 5000 * MS), CLIENT_OK);
    assert_int_equal(client_request(&c, &(weir_slice){key, sizeof key}, 1), CLIENT_OK);
    assert_int_equal(c.reply.value[0].len, BIG);
    assert_int_equal(client_request(&c, ping, 1), CLIENT_OK);
    assert_memory_equal(c.reply.value[0].text, "PONG", 4);
    assert_int_equal(client_request(&c, ping, 1), CLIENT_FAILED);
    assert_int_equal(weir_buffer_len(&c.out), 0);
    client_close(&c);
    stop();
}

static void check_reopen(void **unused)
{
    (void)unused;
    const script s = {.replies = {HELLO_OK, "+PONG\r\n"}};
    start(&s, NULL);
    client_login l = login();
    l.server_name = "weir.test";
    assert_int_equal(client_open(&c, &l, 5000 * MS), CLIENT_OK);
    assert_int_equal(client_send(&c, ping, 1), CLIENT_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_reopen(&c, 5000 * MS), CLIENT_OK);
        assert_int_equal(client_request(&c, ping, 1), CLIENT_OK);
        assert_memory_equal(c.reply.value[0].text, "PONG", 4);
    }
    k.no_session = 1;
    assert_int_equal(client_reopen(&c, 5000 * MS), CLIENT_FAILED);
    assert_string_equal(c.error, "out of memory for TLS");
    client_close(&c);
    stop();
}

static void check_certificates(void **unused)
{
    (void)unused;
    const script s = {.replies = {HELLO_OK}};
    start(&s, k.ca);
    client_login l = login();
    l.cert = l.key = k.client;
    assert_int_equal(client_open(&c, &l, 5000 * MS), CLIENT_OK);
    client_close(&c);
    l.server_name = "other.test";
    expect_error(&l, 5000 * MS, "TLS: the server's certificate is not valid for \"other.test\"");
    l.server_name = NULL;
    l.ca = k.other_ca;
    expect_error(&l, 5000 * MS,
                 "TLS: the server's certificate is not trusted: no trusted authority has signed "
                 "it; --ca names the file of the authority to trust");
    l = login();
    expect_error(&l, 5000 * MS, "TLS: the server requires a client certificate");
    l.ca = "/nowhere.pem";
    assert_int_equal(client_open(&c, &l, 5000 * MS), CLIENT_FAILED);
    assert_string_equal(c.error, "cannot load the trusted certificates /nowhere.pem: No such file "
                                 "or directory");
    client_close(&c);
    stop();
}

static void check_servers_without_tls(void **unused)
{
    (void)unused;
    const script plain = {.plain = "-ERR what is that\r\n"}, silent = {.silent = true},
                 closes = {.closes = true};
    client_login l;
    start(&plain, NULL);
    l = login();
    expect_error(&l, 5000 * MS, "TLS: the server does not speak TLS");
    stop();
    start(&silent, NULL);
    l = login();
    expect_error(&l, 20 * MS,
                 "timeout: no reply to the TLS handshake; is this a port with TLS?; --timeout sets "
                 "how long to wait");
    stop();
    start(&closes, NULL);
    l = login();
    assert_int_equal(client_open(&c, &l, 5000 * MS), CLIENT_FAILED);
    bool reset = strstr(c.error, "connection lost: Connection reset by peer") != NULL;
    assert_true(reset || strstr(c.error, ": the server closed the connection during the TLS "
                                         "handshake"));
    client_close(&c);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_requests),
        cmocka_unit_test(check_reopen),
        cmocka_unit_test(check_certificates),
        cmocka_unit_test(check_servers_without_tls),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
