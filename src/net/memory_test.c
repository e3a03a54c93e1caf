/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each allocation of the server, the dialer, lookups, TLS and the worker fails in turn, and so does
 * each call that needs a descriptor or a thread. A call that fails returns an error, and frees
 * all memory and descriptors. */

#include "net/fixture_test.h"

#include "net/dial.h"
#include "net/names_test.h"
#include "net/tls/client.h"
#include "net/tls/client_kit_test.h"
#include "net/tls/server.h"
#include "net/worker.h"

#include "port/memory_kit_test.h"

#include <errno.h>
#include <fcntl.h>
#include <uv.h>

/* ---- calls that fail ------------------------------------------------------------------------- */

static pthread_t tester; /* the calls of a TLS server's thread do not fail */

static bool fails_now(void)
{
    return pthread_equal(pthread_self(), tester) && !may_allocate();
}

#define FAILING_AS(type, name, parameters, arguments, failure)                                     \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return fails_now() ? (failure) : __real_##name arguments;                                  \
    }
#define FAILING(name, parameters, arguments, failure)                                              \
    FAILING_AS(int, name, parameters, arguments, failure)

FAILING(uv_loop_init, (uv_loop_t * uv), (uv), UV_EMFILE)
FAILING(uv_async_init, (uv_loop_t * uv, uv_async_t *handle, uv_async_cb fn), (uv, handle, fn),
        UV_EMFILE)
FAILING(uv_poll_init, (uv_loop_t * uv, uv_poll_t *handle, int fd), (uv, handle, fd), UV_ENOMEM)
FAILING(uv_signal_init, (uv_loop_t * uv, uv_signal_t *handle), (uv, handle), UV_EMFILE)
FAILING(uv_signal_start, (uv_signal_t * handle, uv_signal_cb fn, int signum), (handle, fn, signum),
        UV_ENOMEM)
FAILING(pthread_create,
        (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
        (thread, attr, fn, arg), EAGAIN)
FAILING(socket, (int domain, int type, int protocol), (domain, type, protocol),
        (errno = ENOMEM, -1))
FAILING(bind, (int fd, const struct sockaddr *address, socklen_t len), (fd, address, len),
        (errno = ENOMEM, -1))
FAILING(listen, (int fd, int backlog), (fd, backlog), (errno = ENOMEM, -1))
FAILING(getsockname, (int fd, struct sockaddr *address, socklen_t *len), (fd, address, len),
        (errno = ENOMEM, -1))
FAILING(setsockopt, (int fd, int level, int name, const void *value, socklen_t len),
        (fd, level, name, value, len), (errno = ENOMEM, -1))
FAILING_AS(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *method), (method), NULL)
FAILING_AS(SSL *, SSL_new, (SSL_CTX * ctx), (ctx), NULL)
FAILING_AS(BIO_METHOD *, BIO_meth_new, (int type, const char *name), (type, name), NULL)
FAILING_AS(BIO *, BIO_new, (const BIO_METHOD *method), (method), NULL)
FAILING(BIO_write, (BIO * to, const void *bytes, int len), (to, bytes, len), -1)
FAILING(SSL_set1_host, (SSL * ssl, const char *name), (ssl, name), 0)
FAILING_AS(long, SSL_ctrl, (SSL * ssl, int what, long n, void *p), (ssl, what, n, p), 0)

long __real_SSL_CTX_ctrl(SSL_CTX *ctx, int what, long n, void *p);
long __wrap_SSL_CTX_ctrl(SSL_CTX *ctx, int what, long n, void *p);
long __wrap_SSL_CTX_ctrl(SSL_CTX *ctx, int what, long n, void *p)
{
    bool fails = what == SSL_CTRL_SET_MIN_PROTO_VERSION && fails_now();
    return fails ? 0 : __real_SSL_CTX_ctrl(ctx, what, n, p);
}

/* A call that succeeds may change errno. */
#define CLOBBERING(name, parameters, arguments)                                                    \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters                                                                   \
    {                                                                                              \
        int result = __real_##name arguments;                                                      \
        errno = result == 0 ? EDOM : errno;                                                        \
        return result;                                                                             \
    }

CLOBBERING(close, (int fd), (fd))
CLOBBERING(unlink, (const char *path), (path))

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 512; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* ---- the server ------------------------------------------------------------------------------ */

static fixture server_fixture;

static void do_nothing(void *context)
{
    (void)context;
}

static void begin_nothing(void *context, port_dialer *dialer)
{
    (void)context;
    (void)dialer;
}

static char stale_path[128];

static void make_stale_file(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, stale_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(stale_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    close(fd);
}

static bool try_server(uint64_t n, bool later)
{
    fixture *f = &server_fixture;
    make_stale_file();
    int descriptors = open_descriptors();
    f->error[0] = '\0';
    f->server = NULL;
    memory_fail(n, later);
    weir_status st = weir_server_open(&f->server, &f->options, f->error, sizeof f->error);
    bool failed = memory_stop();
    if (failed)
        assert_true(st == WEIR_E_NOMEM || st == WEIR_E_IO);
    else
        assert_int_equal(st, WEIR_OK);
    assert_int_equal(f->server == NULL, failed);
    if (st == WEIR_E_IO)
        assert_true(
            strstr(f->error, "raise the limits of the process") ||
            (strstr(f->error, "cannot listen on ") && strstr(f->error, "not enough memory")));
    weir_server_close(f->server);
    assert_int_equal(open_descriptors(), descriptors);
    return failed;
}

/* ---- TLS listeners --------------------------------------------------------------------------- */

static char tls_dir[] = "/tmp/weir-memory-XXXXXX", tls_ca[64], tls_pair[64];
static uint8_t hello[4096]; /* of a TLS client */
static int hello_len;

static void make_tls_files(void)
{
    strcpy(tls_dir, "/tmp/weir-memory-XXXXXX");
    assert_non_null(mkdtemp(tls_dir));
    snprintf(tls_ca, sizeof tls_ca, "%s/ca", tls_dir);
    snprintf(tls_pair, sizeof tls_pair, "%s/pair", tls_dir);
    authority a = make_authority(tls_ca);
    make_pair(&a, "DNS:weir.test", tls_pair);
    free_authority(&a);
}

static void remove_tls_files(void)
{
    unlink(tls_ca);
    unlink(tls_pair);
    rmdir(tls_dir);
}

static void make_hello(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    BIO *to = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), to);
    assert_int_equal(SSL_connect(ssl), -1);
    hello_len = BIO_read(to, hello, sizeof hello);
    assert_true(hello_len > 100);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void do_not_wake(void *wake_ctx)
{
    (void)wake_ctx;
}

/* Gives a session the client's first message. Returns whether it replied. */
static bool answers_hello(weir_tls_protocol *protocol, void *session, weir_buffer *in,
                          weir_buffer *out)
{
    const weir_protocol *p = &protocol->outer;
    p->open(session, protocol, do_not_wake, NULL);
    weir_buffer_append(in, hello, (size_t)hello_len);
    weir_session_step step = p->run(session, in, out, 1 << 16, 1);
    p->close(session);
    return step.next == WEIR_SESSION_READ && weir_buffer_len(out) > 0;
}

static bool try_tls_listener(uint64_t n, bool later)
{
    loop_context context = {0};
    net_tls_server *server = NULL;
    weir_tls_protocol protocol = {0};
    net_tls_failure why;
    weir_buffer in, out;
    const net_tls_server_files files = {tls_pair, tls_pair, tls_ca};
    void *session = calloc(1, 1 << 16);
    bool answered = false;
    weir_buffer_init(&in, 1 << 20);
    weir_buffer_init(&out, 1 << 20);
    memory_fail(n, later);
    weir_status st = net_tls_server_open(&server, &files, "h2", &why);
    if (st == WEIR_OK)
        st = weir_tls_protocol_init(&protocol, server, &lines, &context, 1 << 20);
    if (st == WEIR_OK)
        answered = answers_hello(&protocol, session, &in, &out);
    bool failed = memory_stop();
    assert_true(st == WEIR_OK || st == WEIR_E_NOMEM);
    assert_int_equal(answered, !failed);
    assert_int_equal(context.open, 0);
    weir_buffer_free(&in);
    weir_buffer_free(&out);
    free(session);
    weir_tls_protocol_free(&protocol);
    net_tls_server_close(server);
    return failed;
}

static void test_tls_listener(void **unused)
{
    (void)unused;
    make_tls_files();
    make_hello();
    fail_each_allocation(try_tls_listener);
    remove_tls_files();
}

static void test_server(void **unused)
{
    (void)unused;
    fixture *f = &server_fixture;
    char path[128];
    net_tls_failure why;
    prepare(f, 2);
    make_tls_files();
    assert_int_equal(net_tls_server_open(&f->listens[0].tls,
                                         &(net_tls_server_files){tls_pair, tls_pair, NULL}, NULL,
                                         &why),
                     WEIR_OK);
    snprintf(path, sizeof path, "%s/socket", f->dir);
    f->listens[1] = (weir_listen_address){.address = path, .protocol = &lines};
    snprintf(stale_path, sizeof stale_path, "%s/stale", f->dir);
    f->listens[2] = (weir_listen_address){.address = stale_path, .protocol = &lines};
    f->options.listens_len = 3;
    f->options.begin = begin_nothing;
    f->options.end = do_nothing;
    f->options.watch = "/dev/null";
    weir_server *first = NULL; /* libuv then opens descriptors that it keeps */
    assert_int_equal(weir_server_open(&first, &f->options, f->error, sizeof f->error), WEIR_OK);
    weir_server_close(first);
    fail_each_allocation(try_server);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(stale_path, F_OK), -1);
    assert_int_equal(rmdir(f->dir), 0);
    net_tls_server_close(f->listens[0].tls);
    remove_tls_files();
}

/* ---- the worker ------------------------------------------------------------------------------ */

static int64_t steady_now(void *ctx)
{
    (void)ctx;
    return port_steady_ns();
}

static bool try_worker(uint64_t n, bool later)
{
    weir_worker *w = NULL;
    int descriptors = open_descriptors();
    memory_fail(n, later);
    weir_status st = weir_worker_open(&w, &(weir_worker_options){.now = steady_now});
    bool failed = memory_stop();
    if (failed)
        assert_true(st == WEIR_E_NOMEM || st == WEIR_E_IO);
    else
        assert_int_equal(st, WEIR_OK);
    assert_int_equal(w == NULL, failed);
    weir_worker_close(w);
    assert_int_equal(open_descriptors(), descriptors);
    return failed;
}

static port_mutex *gate;

static void wait_at_gate(void *arg)
{
    (void)arg;
    port_mutex_lock(gate);
    port_mutex_unlock(gate);
}

static void count_call(void *calls)
{
    port_add_relaxed(calls, 1);
}

/* A call that cannot be posted never runs; those before and after it do. */
static bool try_post(uint64_t n, bool later)
{
    enum { MANY = 200 };
    weir_worker *w = NULL;
    port_counter calls = {0};
    uint64_t posted = 0;
    gate = port_mutex_new();
    assert_int_equal(weir_worker_open(&w, &(weir_worker_options){.now = steady_now}), WEIR_OK);
    port_mutex_lock(gate);
    assert_int_equal(weir_worker_post(w, wait_at_gate, NULL), WEIR_OK);
    memory_fail(n, later);
    for (int i = 0; i < MANY; i++)
        posted += weir_worker_post(w, count_call, &calls) == WEIR_OK;
    bool failed = memory_stop();
    assert_int_equal(posted < MANY, failed);
    port_mutex_unlock(gate);
    weir_worker_close(w);
    port_mutex_free(gate);
    assert_int_equal(port_load_relaxed(&calls), posted);
    return failed;
}

static void test_worker(void **unused)
{
    (void)unused;
    fail_each_allocation(try_worker);
    fail_each_allocation(try_post);
}

/* ---- outgoing connections -------------------------------------------------------------------- */

typedef struct caller {
    int connected, closed;
    size_t received;
    char why[256];
} caller;

static void on_connected(void *ctx, int64_t now_ns)
{
    (void)now_ns;
    ((caller *)ctx)->connected++;
}

static void on_received(void *ctx, weir_buffer *in, int64_t now_ns)
{
    (void)now_ns;
    ((caller *)ctx)->received += weir_buffer_len(in);
    weir_buffer_consume(in, weir_buffer_len(in));
}

static void on_closed(void *ctx, const char *why, int64_t now_ns)
{
    (void)now_ns;
    caller *c = ctx;
    c->closed++;
    snprintf(c->why, sizeof c->why, "%s", why);
}

static int listener = -1;
static uint16_t listener_port;
static const char *host;
static port_tls *with_tls; /* then the server reads LARGE bytes, and answers with one */

enum { LARGE = 40000 }; /* more than a connection's buffers hold without memory */

static void listen_locally(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    listener_port = ntohs(a.sin_port);
}

/* Connects, sends one byte and receives one. Every failure is reported once: connect() returns
 * NULL, or closed() is called. */
static bool try_connection(uint64_t n, bool later)
{
    static const port_connection_events events = {on_connected, on_received, on_closed};
    uv_loop_t uv;
    net_dialer *d = NULL;
    caller c = {0};
    int server = -1;
    assert_int_equal(uv_loop_init(&uv), 0);
    errno = 0;
    memory_fail(n, later);
    weir_status st = net_dialer_open(&d, &(net_dialer_options){.uv = &uv, .now = steady_now});
    port_dialer *port = d ? net_dialer_port(d) : NULL;
    const port_endpoint to = {.host = host, .port = listener_port, .tls = with_tls};
    port_connection *connection = d ? port->calls->connect(port, &to, &events, &c) : NULL;
    while (connection && !c.connected && !c.closed)
        uv_run(&uv, UV_RUN_ONCE);
    if (c.connected && !with_tls) {
        server = accept(listener, NULL, NULL);
        assert_int_equal(send(server, "y", 1, 0), 1);
    }
    if (c.connected) {
        for (int i = 0; i < (with_tls ? LARGE : 1); i++)
            weir_buffer_append_byte(port->calls->out(connection), 'x');
        port->calls->send(connection);
        while (c.received == 0 && !c.closed)
            uv_run(&uv, UV_RUN_ONCE);
    }
    bool failed = memory_stop();
    assert_int_equal(st, d ? WEIR_OK : WEIR_E_NOMEM);
    /* Without setsockopt(), the connection works, too. */
    assert_int_equal(c.closed, connection && c.received == 0);
    assert_true(failed || c.received == 1);
    if (c.closed)
        assert_true(strstr(c.why, "memory") != NULL);
    if (server >= 0 && c.received)
        expect(server, "x");
    net_dialer_close(d);
    uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&uv), 0);
    if (server >= 0)
        close(server);
    return failed;
}

static bool try_timer(uint64_t n, bool later)
{
    uv_loop_t uv;
    net_dialer *d = NULL;
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_int_equal(net_dialer_open(&d, &(net_dialer_options){.uv = &uv, .now = steady_now}),
                     WEIR_OK);
    port_dialer *port = net_dialer_port(d);
    memory_fail(n, later);
    port_timer *t = port->calls->new_timer(port, NULL, NULL);
    bool failed = memory_stop();
    assert_int_equal(t == NULL, failed);
    net_dialer_close(d);
    uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&uv), 0);
    return failed;
}

static bool try_tls(uint64_t n, bool later)
{
    port_tls *tls = NULL;
    char error[256] = "";
    memory_fail(n, later);
    weir_status st = net_tls_open(&tls, NULL, NULL, NULL, false, error, sizeof error);
    net_tls_session *s = tls ? net_tls_session_open(tls, "redis.test") : NULL;
    bool failed = memory_stop();
    assert_int_equal(st, tls ? WEIR_OK : WEIR_E_NOMEM);
    assert_int_equal(s == NULL, failed);
    net_tls_session_close(s);
    net_tls_close(tls);
    return failed;
}

/* A host name is looked up by a thread, which may free the lookup after the connection is closed.
 */
static bool try_host(uint64_t n, bool later)
{
    int descriptors = open_descriptors();
    uint64_t blocks = port_load_relaxed(&memory.blocks);
    bool failed = try_connection(n, later);
    for (int i = 0; i < 1000000 && port_load_relaxed(&memory.blocks) != blocks; i++)
        port_yield();
    assert_int_equal(open_descriptors(), descriptors);
    return failed;
}

static void test_tls_connections(void **unused)
{
    (void)unused;
    char error[256];
    tls_server server;
    make_tls_files();
    listen_locally();
    tls_start_sink(&server, listener, tls_pair, NULL, LARGE);
    assert_int_equal(net_tls_open(&with_tls, NULL, NULL, NULL, true, error, sizeof error), WEIR_OK);
    host = "127.0.0.1";
    fail_each_allocation(try_connection);
    net_tls_close(with_tls);
    with_tls = NULL;
    tls_stop(&server);
    remove_tls_files();
}

static void test_connections(void **unused)
{
    (void)unused;
    listen_locally();
    host = "127.0.0.1";
    fail_each_allocation(try_host);
    host = NAME_OF_LOOPBACK;
    fail_each_allocation(try_host);
    fail_each_allocation(try_timer);
    fail_each_allocation(try_tls);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server),          cmocka_unit_test(test_tls_listener),
        cmocka_unit_test(test_worker),          cmocka_unit_test(test_connections),
        cmocka_unit_test(test_tls_connections),
    };
    tester = pthread_self();
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("net-memory", tests, NULL, NULL);
}
