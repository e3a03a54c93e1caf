/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The timers of outgoing connections, of the dialer's users and of the server, with a fake
 * clock: each fires in the millisecond in which it is due, and not before. */

#include "net/fixture_test.h"

#include "net/dial.h"
#include "net/timers_kit_test.h"

#include <fcntl.h>
#include <netdb.h>

/* ---- lookups --------------------------------------------------------------------------------- */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);

void __real_freeaddrinfo(struct addrinfo *found);
void __wrap_freeaddrinfo(struct addrinfo *found);

static port_mutex *hang;         /* lookups wait for it */
static port_counter found_lists; /* not freed yet */

/* The addresses of two.example are 127.0.0.1 and 127.0.0.2. The first one of unreachable.example
 * cannot be connected to at all. */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret)
{
    port_mutex_lock(hang);
    port_mutex_unlock(hang);
    bool unreachable = strcmp(host, "unreachable.example") == 0;
    int err = __real_getaddrinfo(unreachable ? "255.255.255.255" : "127.0.0.1", port, hints, ret);
    if (err == 0 && unreachable)
        err = __real_getaddrinfo("127.0.0.1", port, hints, &(*ret)->ai_next);
    if (err == 0 && strcmp(host, "two.example") == 0)
        err = __real_getaddrinfo("127.0.0.2", port, hints, &(*ret)->ai_next);
    port_add_relaxed(&found_lists, err == 0);
    return err;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
    port_sub_relaxed(&found_lists, 1);
    __real_freeaddrinfo(found);
}

/* ---- a dialer -------------------------------------------------------------------------------- */

typedef struct dial_world {
    uv_loop_t uv;
    net_dialer *dialer;
    port_dialer *port;
    int connected, closed;
    char why[256];
} dial_world;

static int64_t fake_now(void *ctx)
{
    (void)ctx;
    return (int64_t)clock_ms * ms_ns;
}

static void open_dialer(dial_world *w)
{
    memset(w, 0, sizeof *w);
    reset_timers();
    assert_int_equal(uv_loop_init(&w->uv), 0);
    const net_dialer_options options = {.uv = &w->uv, .now = fake_now};
    assert_int_equal(net_dialer_open(&w->dialer, &options), WEIR_OK);
    w->port = net_dialer_port(w->dialer);
}

static void close_dialer(dial_world *w)
{
    net_dialer_close(w->dialer);
    uv_run(&w->uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->uv), 0);
}

static void on_connected(void *ctx, int64_t now_ns)
{
    (void)now_ns;
    ((dial_world *)ctx)->connected++;
}

static void on_received(void *ctx, weir_buffer *in, int64_t now_ns)
{
    (void)ctx;
    (void)now_ns;
    weir_buffer_clear(in);
}

static void on_closed(void *ctx, const char *why, int64_t now_ns)
{
    (void)now_ns;
    dial_world *w = ctx;
    w->closed++;
    snprintf(w->why, sizeof w->why, "%s", why);
}

/* The milliseconds until the only timer is due; -1 if none is set. */
static int64_t only_due(void)
{
    const timer *only = NULL;
    for (int i = 0; i < TIMERS_MAX; i++) {
        assert_true(!timers[i].handle || !only);
        only = timers[i].handle ? &timers[i] : only;
    }
    assert_true(!only || only->repeat_ms == 0);
    return only ? (int64_t)(only->due_ms - clock_ms) : -1;
}

static void dial(dial_world *w, const port_endpoint *to)
{
    static const port_connection_events events = {on_connected, on_received, on_closed};
    assert_non_null(w->port->calls->connect(w->port, to, &events, w));
    assert_int_equal(w->connected + w->closed, 0);
    assert_int_equal(only_due(), 0);
    let_pass(&w->uv, 0);
}

/* Runs the loop until timers were set `sets` times. */
static void run_until_set(dial_world *w, int sets)
{
    while (timers_set < sets)
        uv_run(&w->uv, UV_RUN_ONCE);
}

/* A listener on 127.0.0.`last`. Its accept queue is full if it does not answer. */
typedef struct silent {
    int listener, filler;
} silent;

/* Returns false if the port is taken. */
static bool try_listen(int last, bool answers, uint16_t *port, silent *ret)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(0x7F000000 + (uint32_t)last),
                            .sin_port = htons(*port)};
    socklen_t len = sizeof a;
    silent s = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1};
    if (bind(s.listener, (struct sockaddr *)&a, sizeof a) != 0) {
        close(s.listener);
        return false;
    }
    assert_int_equal(listen(s.listener, answers ? 8 : 0), 0);
    assert_int_equal(getsockname(s.listener, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    if (!answers) {
        s.filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(s.filler, (struct sockaddr *)&a, sizeof a), 0);
    }
    *ret = s;
    return true;
}

static silent listen_on_one(bool answers, uint16_t *port)
{
    silent s;
    *port = 0;
    assert_true(try_listen(1, answers, port, &s));
    return s;
}

static void close_silent(silent s)
{
    close(s.listener);
    if (s.filler >= 0)
        close(s.filler);
}

/* Listens on 127.0.0.1, where nothing answers, and on the same port of 127.0.0.2. */
static void listen_on_two(silent *first, silent *second, bool second_answers, uint16_t *port)
{
    for (int tries = 0; tries < 100; tries++) {
        *first = listen_on_one(false, port);
        if (try_listen(2, second_answers, port, second))
            return;
        close_silent(*first); /* another process has the port */
    }
    fail_msg("no port is free on both addresses");
}

/* Of five seconds to connect, the first address has one, and the last address has the rest. */
static void test_time_to_connect(void **unused)
{
    (void)unused;
    for (int answers = 0; answers <= 1; answers++) {
        dial_world w;
        uint16_t port = 0;
        silent first, second;
        listen_on_two(&first, &second, answers, &port);
        open_dialer(&w);
        port_mutex_lock(hang);
        dial(&w, &(port_endpoint){.host = "two.example", .port = port});
        assert_int_equal(timers_set, 2);
        assert_int_equal(only_due(), 5000);
        port_mutex_unlock(hang);
        run_until_set(&w, 3);
        assert_int_equal(only_due(), 1000);
        let_pass(&w.uv, 999);
        assert_int_equal(timers_set, 3);
        let_pass(&w.uv, 1);
        assert_int_equal(w.closed, 0);
        if (answers) {
            while (!w.connected)
                uv_run(&w.uv, UV_RUN_ONCE);
            assert_int_equal(only_due(), -1);
        } else {
            assert_int_equal(only_due(), 4000);
            let_pass(&w.uv, 3999);
            assert_int_equal(w.closed, 0);
            let_pass(&w.uv, 1);
            assert_string_equal(w.why, "connect timed out (tried 2 addresses)");
        }
        assert_int_equal(w.connected + w.closed, 1);
        close_dialer(&w);
        assert_int_equal(port_load_relaxed(&found_lists), 0);
        close_silent(first);
        close_silent(second);
    }
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* An address that fails at once is followed by the next one. */
static void test_unreachable_address(void **unused)
{
    (void)unused;
    int descriptors = open_descriptors();
    for (int answers = 0; answers < 2; answers++) {
        dial_world w;
        uint16_t port = 0;
        silent second = listen_on_one(answers, &port);
        open_dialer(&w);
        dial(&w, &(port_endpoint){.host = "unreachable.example", .port = port});
        if (answers) {
            while (!w.connected)
                uv_run(&w.uv, UV_RUN_ONCE);
        } else {
            run_until_set(&w, 3);
            assert_int_equal(only_due(), 5000); /* the last address */
        }
        close_dialer(&w);
        close_silent(second);
    }
    assert_int_equal(open_descriptors(), descriptors);
}

/* A slow lookup leaves less time to connect. */
static void test_time_after_a_slow_lookup(void **unused)
{
    (void)unused;
    static const int64_t rows[][2] = {{3999, 1000}, {4000, 1000}, {4001, 999}, {6000, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dial_world w;
        uint16_t port = 0;
        silent first, second;
        listen_on_two(&first, &second, false, &port);
        open_dialer(&w);
        port_mutex_lock(hang);
        dial(&w, &(port_endpoint){.host = "two.example", .port = port});
        clock_ms += (uint64_t)rows[i][0];
        port_mutex_unlock(hang);
        run_until_set(&w, 3);
        assert_int_equal(only_due(), rows[i][1]);
        close_dialer(&w);
        close_silent(first);
        close_silent(second);
    }
}

static void test_time_of_a_lookup(void **unused)
{
    (void)unused;
    dial_world w;
    port_mutex_lock(hang);
    open_dialer(&w);
    dial(&w, &(port_endpoint){.host = "hangs.example", .port = 1});
    let_pass(&w.uv, 4999);
    assert_int_equal(w.closed, 0);
    let_pass(&w.uv, 1);
    assert_string_equal(w.why, "host name lookup timed out");
    assert_int_equal(w.closed, 1);
    close_dialer(&w);
    port_mutex_unlock(hang); /* the thread of the lookup ends */
}

/* The time includes the TLS handshake. */
static void test_time_of_a_handshake(void **unused)
{
    (void)unused;
    dial_world w;
    uint16_t port = 0;
    port_tls *tls = NULL;
    char error[256];
    silent server = listen_on_one(true, &port);
    assert_int_equal(net_tls_open(&tls, NULL, NULL, NULL, true, error, sizeof error), WEIR_OK);
    open_dialer(&w);
    dial(&w, &(port_endpoint){.host = "127.0.0.1", .port = port, .tls = tls});
    assert_int_equal(only_due(), 5000);
    clock_ms += 2000;
    run_until_set(&w, 3); /* connected; the server never answers the handshake */
    assert_int_equal(only_due(), 3000);
    let_pass(&w.uv, 2999);
    assert_int_equal(w.closed, 0);
    let_pass(&w.uv, 1);
    assert_string_equal(w.why, "TLS handshake timed out");
    assert_int_equal(w.connected, 0);
    close_dialer(&w);
    close_silent(server);
    net_tls_close(tls);
}

/* ---- timers of the dialer's users ------------------------------------------------------------ */

static void count(void *ctx, int64_t now_ns)
{
    assert_int_equal(now_ns, fake_now(NULL));
    ++*(int *)ctx;
}

static void test_user_timers(void **unused)
{
    (void)unused;
    dial_world w;
    int calls = 0;
    open_dialer(&w);
    const port_dialer_calls *c = w.port->calls;
    port_timer *t = c->new_timer(w.port, count, &calls);
    int64_t now_ns = c->now(w.port);
    c->set_timer(t, now_ns + 5 * ms_ns + 1); /* rounded up */
    assert_int_equal(only_due(), 6);
    c->set_timer(t, now_ns + 5 * ms_ns);
    assert_int_equal(only_due(), 5);
    assert_int_equal(timers_set, 2);
    /* A later time leaves libuv's timer as it is. It is set again when it fires early. */
    c->set_timer(t, now_ns + 9 * ms_ns);
    c->set_timer(t, now_ns + 8 * ms_ns);
    assert_int_equal(timers_set, 2);
    let_pass(&w.uv, 5);
    assert_int_equal(calls, 0);
    assert_int_equal(only_due(), 3);
    let_pass(&w.uv, 3);
    assert_int_equal(calls, 1);
    assert_int_equal(only_due(), -1);
    c->set_timer(t, 0); /* in the past: soon */
    assert_int_equal(only_due(), 0);
    assert_int_equal(calls, 1);
    let_pass(&w.uv, 0);
    assert_int_equal(calls, 2);
    c->set_timer(t, c->now(w.port) + ms_ns);
    c->set_timer(t, INT64_MAX);
    let_pass(&w.uv, 10000);
    assert_int_equal(calls, 2);
    assert_int_equal(only_due(), -1);
    c->free_timer(t);
    close_dialer(&w);
}

/* ---- the server ------------------------------------------------------------------------------ */

static int ticks;

static void on_tick(void *ctx)
{
    (void)ctx;
    ticks++;
}

static void test_server_ticks(void **unused)
{
    (void)unused;
    for (int ticking = 0; ticking <= 1; ticking++) {
        fixture f;
        prepare(&f, 1);
        f.options.tick = ticking ? on_tick : NULL;
        reset_timers();
        open_server(&f); /* its loops set no timers before it runs */
        assert_int_equal(timers_set, ticking);
        assert_null(first_due(clock_ms + 999));
        timer *tick = first_due(clock_ms + 1000);
        assert_int_equal(tick != NULL, ticking);
        if (tick) {
            assert_int_equal(tick->repeat_ms, 1000);
            fire(tick);
            assert_int_equal(ticks, 1);
        }
        stop(&f);
    }
}

/* Lets 2.1 s pass, and expects so many reloads since the last call. */
static void expect_reloads(fixture *f, int expected)
{
    uint64_t end_ms = clock_ms + 2100;
    struct pollfd reloads = {.fd = f->reloaded[0], .events = POLLIN};
    char why;
    for (timer *t; (t = first_due(end_ms));)
        fire(t);
    clock_ms = end_ms;
    for (; poll(&reloads, 1, 0) == 1; expected--) {
        assert_int_equal(read(f->reloaded[0], &why, 1), 1);
        assert_int_equal(why, 'f');
    }
    assert_int_equal(expected, 0);
}

/* Each further path is watched until it is replaced, or removed. */
static void test_server_watches(void **unused)
{
    (void)unused;
    enum { A, B, C, PATHS };
    enum { LAST = WEIR_WATCHES_MAX - 1 };
    fixture f;
    char paths[PATHS][64];
    prepare(&f, 1);
    for (int i = 0; i < PATHS; i++) {
        snprintf(paths[i], sizeof paths[i], "%.50s/%d", f.dir, i);
        write_file(paths[i], "1");
    }
    reset_timers();
    open_server(&f);
    assert_int_equal(weir_server_watch(f.server, LAST, NULL), WEIR_OK); /* was none */
    assert_int_equal(timers_set, 0);
    assert_int_equal(weir_server_watch(f.server, 0, paths[A]), WEIR_OK);
    assert_int_equal(weir_server_watch(f.server, LAST, paths[B]), WEIR_OK);
    assert_int_equal(timers_set, 2);
    assert_int_equal(weir_server_watch(f.server, 0, paths[A]), WEIR_OK); /* as before */
    assert_int_equal(timers_set, 2);
    expect_reloads(&f, 0);
    static const struct {
        int number, path; /* to watch; PATHS: none */
        int reloads[PATHS];
    } steps[] = {
        {0, A, {1, 1, 0}},        {0, C, {0, 1, 1}}, {LAST, PATHS, {0, 0, 1}},
        {LAST, PATHS, {0, 0, 1}}, {1, A, {1, 0, 1}}, {0, PATHS, {1, 0, 0}},
        {LAST, B, {1, 1, 0}},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const char *path = steps[i].path < PATHS ? paths[steps[i].path] : NULL;
        assert_int_equal(weir_server_watch(f.server, (size_t)steps[i].number, path), WEIR_OK);
        for (int k = 0; k < PATHS; k++) {
            write_file(paths[k], i % 2 ? "1" : "22");
            expect_reloads(&f, steps[i].reloads[k]);
        }
    }
    for (int i = 0; i < PATHS; i++)
        unlink(paths[i]);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_to_connect),     cmocka_unit_test(test_time_after_a_slow_lookup),
        cmocka_unit_test(test_time_of_a_lookup),    cmocka_unit_test(test_time_of_a_handshake),
        cmocka_unit_test(test_unreachable_address), cmocka_unit_test(test_user_timers),
        cmocka_unit_test(test_server_ticks),        cmocka_unit_test(test_server_watches),
    };
    hang = port_mutex_new();
    return cmocka_run_group_tests_name("timers", tests, NULL, NULL);
}
