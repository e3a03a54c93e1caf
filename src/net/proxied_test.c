/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Listeners whose connections begin with a PROXY header: the address of the client, and what
 * happens to connections without a valid header. */

#include "net/fixture_test.h"

#include <sys/resource.h>

#define V1 "PROXY TCP4 198.51.100.7 10.0.0.1 4711 80\r\n"
#define ME "198.51.100.7:4711"

/* ---- a protocol that tells clients who they are ---------------------------------------------- */

typedef struct who {
    loop_context *context;
    const void *connection;
} who;

static port_counter opened; /* sessions */

static void who_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    who *w = session;
    (void)wake;
    port_add_relaxed(&opened, 1);
    *w = (who){ctx, wake_ctx};
    w->context->open++;
}

static void who_close(void *session)
{
    ((who *)session)->context->open--;
}

/* Replies to each line with the line, the client and the index of the listener. */
static weir_session_step who_run(void *session, weir_buffer *in, weir_buffer *out, size_t out_pause,
                                 int64_t now_ns)
{
    const who *w = session;
    const uint8_t *lf;
    (void)out_pause;
    (void)now_ns;
    expect_in_thread(weir_buffer_len(in) > 0);
    while (weir_buffer_len(in) > 0 &&
           (lf = memchr(weir_buffer_data(in), '\n', weir_buffer_len(in)))) {
        char peer[WEIR_PEER_TEXT_MAX], text[256];
        size_t len = (size_t)(lf - weir_buffer_data(in));
        weir_server_peer(w->connection, peer);
        snprintf(text, sizeof text, "%.*s %s %zu\n", (int)len, (const char *)weir_buffer_data(in),
                 peer, weir_server_listener(w->connection));
        weir_buffer_consume(in, len + 1);
        put(out, text);
    }
    return (weir_session_step){.next = WEIR_SESSION_READ};
}

static bool who_poll(void *session, int64_t now_ns, bool stopping)
{
    (void)session;
    (void)now_ns;
    (void)stopping;
    return false;
}

static const weir_protocol whos = {.session_size = sizeof(who),
                                   .open = who_open,
                                   .close = who_close,
                                   .run = who_run,
                                   .timeout = "TIMEOUT\n"};

/* ---- scenes ---------------------------------------------------------------------------------- */

/* Listener 0 is plain; 1 wants a PROXY header. */
static void prepare_proxied(fixture *f)
{
    prepare(f, 2);
    f->listens[0].protocol = &whos;
    f->listens[1] = f->listens[0];
    f->listens[1].proxy_protocol = true;
    f->options.listens_len = 2;
}

static int proxy(const fixture *f)
{
    return connect_to(weir_server_address(f->server, 1));
}

/* "TEXT IP:PORT 0" of a socket. */
static void expect_own(int fd, const char *text, int listener)
{
    char expected[128];
    struct sockaddr_in own;
    socklen_t len = sizeof own;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &len), 0);
    snprintf(expected, sizeof expected, "%s 127.0.0.1:%d %d\n", text, ntohs(own.sin_port),
             listener);
    expect(fd, expected);
}

static void the_header_names_the_client(void **unused)
{
    static const char v2[] =
        "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\xC6\x33\x64\x07\n\0\0\1\x12\x67\0P";
    fixture f;
    (void)unused;
    prepare_proxied(&f);
    start(&f);
    int plain = client(&f), one = proxy(&f), two = proxy(&f), local = proxy(&f), none = proxy(&f);
    say(plain, "a\n");
    expect_own(plain, "a", 0);
    say(one, V1 "a\nb\n");
    expect(one, "a " ME " 1\nb " ME " 1\n");
    say(one, V1); /* only the first header is one */
    expect(one, "PROXY TCP4 198.51.100.7 10.0.0.1 4711 80\r " ME " 1\n");
    assert_int_equal(send(two, v2, sizeof v2 - 1, MSG_NOSIGNAL), sizeof v2 - 1);
    say(two, "a\n");
    expect(two, "a " ME " 1\n");
    assert_int_equal(send(local,
                          "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
                          "a\n",
                          18, MSG_NOSIGNAL),
                     18);
    expect_own(local, "a", 1);
    say(none, "PROXY UNKNOWN\r\na\n");
    expect_own(none, "a", 1);
    int fds[] = {plain, one, two, local, none};
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    assert_int_equal(weir_server_stats_get(f.server).unproxied, 0);
    stop(&f);
}

static void the_header_arrives_byte_by_byte(void **unused)
{
    static const char text[] = V1 "a\n";
    fixture f;
    (void)unused;
    prepare_proxied(&f);
    start(&f);
    int fd = proxy(&f);
    for (size_t i = 0; i < sizeof text - 1; i++)
        assert_int_equal(send(fd, text + i, 1, MSG_NOSIGNAL), 1);
    expect(fd, "a " ME " 1\n");
    close(fd);
    stop(&f);
}

static void other_beginnings_are_refused(void **unused)
{
    static const char *const bad[] = {"a\n", "PROXY TCP4 x\r\n", "\r\n\r\nx", "GET / HTTP/1.1\r\n"};
    fixture f;
    (void)unused;
    prepare_proxied(&f);
    start(&f);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int fd = proxy(&f);
        say(fd, bad[i]);
        expect_end(fd); /* without a reply */
    }
    expect_event(&f, 'p');
    assert_int_equal(weir_server_stats_get(f.server).unproxied, 4);
    int fd = proxy(&f);
    say(fd, V1 "a\n");
    expect(fd, "a " ME " 1\n");
    close(fd);
    stop(&f);
}

static bool no_proxy(void *ctx, const weir_peer_address *proxy)
{
    static const uint8_t loopback[4] = {127, 0, 0, 1};
    (void)ctx;
    expect_in_thread(!proxy->v6 && memcmp(proxy->bytes, loopback, 4) == 0 && proxy->port > 0);
    return false;
}

static void only_trusted_proxies_may_report(void **unused)
{
    fixture f;
    (void)unused;
    prepare_proxied(&f);
    f.options.may_proxy = no_proxy;
    start(&f);
    int fd = proxy(&f), plain = client(&f);
    expect_end(fd);
    expect_event(&f, 'p');
    say(plain, "a\n");
    expect_own(plain, "a", 0);
    close(plain);
    assert_int_equal(weir_server_stats_get(f.server).unproxied, 1);
    stop(&f);
}

/* With any_proxy, may_proxy() is not asked; that can change. */
static void any_proxy_may_report(void **unused)
{
    fixture f;
    (void)unused;
    prepare_proxied(&f);
    f.options.may_proxy = no_proxy;
    f.options.limits.any_proxy = true;
    start(&f);
    int fd = proxy(&f);
    say(fd, V1 "a\n");
    expect(fd, "a " ME " 1\n");
    f.options.limits.any_proxy = false;
    change_limits(&f);
    int refused = proxy(&f);
    expect_end(refused);
    say(fd, "b\n");
    expect(fd, "b " ME " 1\n");
    close(fd);
    assert_int_equal(weir_server_stats_get(f.server).unproxied, 1);
    stop(&f);
}

/* A health check that connects and resets is no error. */
static void a_reset_connection_is_not_counted(void **unused)
{
    const struct linger reset = {.l_onoff = 1};
    fixture f;
    (void)unused;
    prepare_proxied(&f);
    f.options.may_proxy = no_proxy;
    open_server(&f);
    int fd = proxy(&f), after = client(&f);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(fd);
    run(&f); /* accepts it after it was reset */
    say(after, "a\n");
    expect_own(after, "a", 0);
    close(after);
    while (weir_server_stats_get(f.server).accepted < 2)
        sched_yield();
    assert_int_equal(weir_server_stats_get(f.server).unproxied, 0);
    stop(&f);
}

/* The bytes of the header are the proxy's: a client that sends nothing after it is silent. */
static void a_slow_header_and_a_silent_client_time_out(void **unused)
{
    fixture f;
    (void)unused;
    prepare_proxied(&f);
    f.options.limits.request_ns = s_ns;
    start(&f);
    int silent = proxy(&f), half = proxy(&f), only_header = proxy(&f), done = proxy(&f);
    say(done, V1 "a\n");
    say(only_header, V1);
    say(half, "PROXY TCP4 198");
    expect(done, "a " ME " 1\n");
    expect_end(silent); /* without the protocol's text */
    expect_event(&f, 't');
    expect_end(half);
    expect_end(only_header);
    say(done, "b\n"); /* a client that has sent something may be idle */
    expect(done, "b " ME " 1\n");
    close(done);
    assert_int_equal(weir_server_stats_get(f.server).timed_out, 3);
    assert_int_equal(weir_server_stats_get(f.server).unproxied, 0);
    stop(&f);
}

/* A connection whose header is not complete has no session, and does not delay the end. */
static void a_stopping_server_does_not_wait(void **unused)
{
    weir_protocol polled = whos;
    polled.poll = who_poll;
    fixture f;
    (void)unused;
    prepare_proxied(&f);
    f.listens[1].protocol = &polled;
    f.options.limits.drain_ns = 3600 * s_ns; /* longer than the test's patience */
    uint64_t before = port_load_relaxed(&opened);
    start(&f);
    int half = proxy(&f), plain = client(&f);
    say(half, "PROXY");
    say(plain, "a\n"); /* both are accepted */
    expect_own(plain, "a", 0);
    close(plain);
    while (weir_server_stats_get(f.server).bytes_in < 7)
        sched_yield();
    assert_int_equal(port_load_relaxed(&opened), before + 1);
    stop(&f);
    close(half);
}

/* Clients that open connections and send half a header hold neither sessions nor much memory. */
static void many_half_open_connections(void **unused)
{
    enum { CLIENTS = 10000 };
    struct rlimit files;
    static int fds[CLIENTS];
    int n = 0;
    fixture f;
    (void)unused;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    int want = files.rlim_max > 2 * CLIENTS + 200 ? CLIENTS : (int)(files.rlim_max / 2) - 200;
    prepare_proxied(&f);
    f.options.limits.connections = CLIENTS + 10;
    start(&f);
    for (; n < want; n++) {
        fds[n] = proxy(&f);
        say(fds[n], "PROXY TCP4 198.51");
    }
    int good = proxy(&f);
    say(good, V1 "a\n");
    expect(good, "a " ME " 1\n");
    while (weir_server_stats_get(f.server).buffered < (uint64_t)n * 17) /* they are counted */
        sched_yield();
    for (int i = 0; i < n; i += n / 4) {
        say(fds[i], ".100.7 10.0.0.1 4711 80\r\na\n");
        expect(fds[i], "a " ME " 1\n");
    }
    assert_true(weir_server_stats_get(f.server).buffered < (uint64_t)n * 1024);
    while (n > 0)
        close(fds[--n]);
    close(good);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_names_the_client),
        cmocka_unit_test(the_header_arrives_byte_by_byte),
        cmocka_unit_test(other_beginnings_are_refused),
        cmocka_unit_test(only_trusted_proxies_may_report),
        cmocka_unit_test(any_proxy_may_report),
        cmocka_unit_test(a_reset_connection_is_not_counted),
        cmocka_unit_test(a_slow_header_and_a_silent_client_time_out),
        cmocka_unit_test(a_stopping_server_does_not_wait),
        cmocka_unit_test(many_half_open_connections),
    };
    return cmocka_run_group_tests_name("proxied", tests, NULL, NULL);
}
