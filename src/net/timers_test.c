/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The timers of outgoing connections, of the dialer's users, of the watched file and of the server,
 * with a fake clock: each fires in the millisecond in which it is due, and not before. */

#include "net/fixture_test.h"

#include "net/dial.h"
#include "net/timers_kit_test.h"
#include "net/watch.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/stat.h>

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

static void pass(uv_loop_t *uv, uint64_t ms)
{
    uint64_t end_ms = clock_ms + ms;
    for (timer *t; (t = first_due(end_ms));) {
        fire(t);
        for (int i = 0; i < 3; i++)
            uv_run(uv, UV_RUN_NOWAIT);
    }
    clock_ms = end_ms;
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
    pass(&w->uv, 0);
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
        pass(&w.uv, 999);
        assert_int_equal(timers_set, 3);
        pass(&w.uv, 1);
        assert_int_equal(w.closed, 0);
        if (answers) {
            while (!w.connected)
                uv_run(&w.uv, UV_RUN_ONCE);
            assert_int_equal(only_due(), -1);
        } else {
            assert_int_equal(only_due(), 4000);
            pass(&w.uv, 3999);
            assert_int_equal(w.closed, 0);
            pass(&w.uv, 1);
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
    pass(&w.uv, 4999);
    assert_int_equal(w.closed, 0);
    pass(&w.uv, 1);
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
    pass(&w.uv, 2999);
    assert_int_equal(w.closed, 0);
    pass(&w.uv, 1);
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
    pass(&w.uv, 5);
    assert_int_equal(calls, 0);
    assert_int_equal(only_due(), 3);
    pass(&w.uv, 3);
    assert_int_equal(calls, 1);
    assert_int_equal(only_due(), -1);
    c->set_timer(t, 0); /* in the past: soon */
    assert_int_equal(only_due(), 0);
    assert_int_equal(calls, 1);
    pass(&w.uv, 0);
    assert_int_equal(calls, 2);
    c->set_timer(t, c->now(w.port) + ms_ns);
    c->set_timer(t, INT64_MAX);
    pass(&w.uv, 10000);
    assert_int_equal(calls, 2);
    assert_int_equal(only_due(), -1);
    c->free_timer(t);
    close_dialer(&w);
}

/* ---- the watched file ------------------------------------------------------------------------ */

typedef struct watched {
    int changes;
    bool unreadable;
} watched;

static bool on_changed(void *ctx)
{
    watched *f = ctx;
    f->changes++;
    return !f->unreadable;
}

static void close_watch(weir_watch *w, uv_loop_t *uv)
{
    uv_close((uv_handle_t *)&w->events, NULL);
    uv_close((uv_handle_t *)&w->poll, NULL);
    uv_close((uv_handle_t *)&w->debounce, NULL);
    uv_run(uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(uv), 0);
}

/* Events within 100 ms are one change. A file that could not be read is tried again within 2 s. */
static void test_watch(void **unused)
{
    (void)unused;
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    char dir[] = "/tmp/weir-watch-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/weir.yaml", dir);
    write_file(path, "1");
    reset_timers();
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_true(weir_watch_start(&w, &uv, path, on_changed, &f));
    assert_int_equal(due_in(&w.poll), 2000);
    assert_int_equal(timer_of(&w.poll)->repeat_ms, 2000);
    pass(&uv, 10000);
    assert_int_equal(f.changes, 0);
    write_file(path, "22");
    uv_run(&uv, UV_RUN_NOWAIT);
    assert_int_equal(due_in(&w.debounce), 100);
    assert_int_equal(timer_of(&w.debounce)->repeat_ms, 0);
    pass(&uv, 99);
    write_file(path, "333");
    uv_run(&uv, UV_RUN_NOWAIT);
    assert_int_equal(f.changes, 0);
    f.unreadable = true;
    pass(&uv, 1);
    assert_int_equal(f.changes, 1);
    f.unreadable = false;
    pass(&uv, 2100); /* without an event */
    assert_int_equal(f.changes, 2);
    pass(&uv, 10000);
    assert_int_equal(f.changes, 2);
    assert_int_equal(unlink(path), 0);
    pass(&uv, 10000);
    assert_int_equal(f.changes, 2);
    write_file(path, "4444");
    pass(&uv, 2100);
    assert_int_equal(f.changes, 3);
    close_watch(&w, &uv);
    unlink(path);
    rmdir(dir);
}

/* The file is also polled. The paths: in a directory that does not exist, so that there are no
 * events; without a slash; and in the root directory. */
static void test_watch_by_polling(void **unused)
{
    (void)unused;
    static char long_path[9000];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[0] = long_path[8000] = '/';
    const struct {
        const char *path;
        bool has_events;
    } rows[] = {{"/nowhere/weir.yaml", false},
                {long_path, false},
                {"weir-no-such-file", true},
                {"/no-such-file", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uv_loop_t uv;
        weir_watch w;
        watched f = {0};
        reset_timers();
        assert_int_equal(uv_loop_init(&uv), 0);
        assert_int_equal(weir_watch_start(&w, &uv, rows[i].path, on_changed, &f),
                         rows[i].has_events);
        assert_int_equal(due_in(&w.poll), 2000);
        w.seen.size++; /* as if it had been another file */
        pass(&uv, 2100);
        assert_int_equal(f.changes, 0); /* there is no file */
        w.path = "/dev/null";
        pass(&uv, 1999);
        assert_int_equal(f.changes, 0);
        pass(&uv, 101);
        assert_int_equal(f.changes, 1);
        close_watch(&w, &uv);
    }
}

static void in_directory(const char *dir, const char *name, const char *text)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (text)
        write_file(path, text);
    else
        assert_int_equal(unlink(path), 0);
}

/* Each change in a directory is one change, with its events or by polling: a file that is added,
 * rewritten, renamed or removed, also below. Names that begin with '.' are no change. */
static void test_watch_directory(void **unused)
{
    (void)unused;
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    char dir[] = "/tmp/weir-watch-XXXXXX", sub[64], from[96], to[96];
    assert_non_null(mkdtemp(dir));
    snprintf(sub, sizeof sub, "%s/sub", dir);
    snprintf(from, sizeof from, "%s/a", dir);
    snprintf(to, sizeof to, "%s/b", dir);
    assert_int_equal(mkdir(sub, 0700), 0);
    in_directory(dir, "a", "1");
    reset_timers();
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_true(weir_watch_start(&w, &uv, dir, on_changed, &f));
    pass(&uv, 10000);
    assert_int_equal(f.changes, 0);
    in_directory(dir, "a", "22");
    uv_run(&uv, UV_RUN_NOWAIT);
    pass(&uv, 100); /* by an event */
    assert_int_equal(f.changes, 1);
    in_directory(dir, "new", "1");
    pass(&uv, 2100);
    assert_int_equal(f.changes, 2);
    assert_int_equal(rename(from, to), 0);
    pass(&uv, 2100);
    assert_int_equal(f.changes, 3);
    in_directory(sub, "below", "1");
    pass(&uv, 2100);
    assert_int_equal(f.changes, 4);
    in_directory(sub, "below", "22");
    pass(&uv, 2100);
    assert_int_equal(f.changes, 5);
    in_directory(dir, ".hidden", "1");
    pass(&uv, 10000);
    assert_int_equal(f.changes, 5);
    f.unreadable = true;
    in_directory(dir, "new", NULL);
    pass(&uv, 2100);
    assert_int_equal(f.changes, 6);
    f.unreadable = false;
    pass(&uv, 2100); /* again, because it was not accepted */
    assert_int_equal(f.changes, 7);
    pass(&uv, 10000);
    assert_int_equal(f.changes, 7);
    in_directory(sub, "below", NULL);
    in_directory(dir, "b", NULL);
    pass(&uv, 2100);
    assert_int_equal(f.changes, 8); /* without files is a version too */
    in_directory(dir, ".hidden", NULL);
    close_watch(&w, &uv);
    rmdir(sub);
    rmdir(dir);
}

/* A link to a directory that is swapped, and a link in the directory to a file behind it, are
 * changes; events of the new directory are seen. */
static void test_watch_swapped_directory(void **unused)
{
    (void)unused;
    char dir[] = "/tmp/weir-watch-XXXXXX", one[64], two[64], current[64], next[64];
    assert_non_null(mkdtemp(dir));
    snprintf(one, sizeof one, "%s/one", dir);
    snprintf(two, sizeof two, "%s/two", dir);
    snprintf(current, sizeof current, "%s/current", dir);
    snprintf(next, sizeof next, "%s/next", dir);
    assert_int_equal(mkdir(one, 0700) | mkdir(two, 0700), 0);
    in_directory(one, "a", "1");
    in_directory(two, "a", "1");
    assert_int_equal(symlink("one", current), 0);
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    reset_timers();
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_true(weir_watch_start(&w, &uv, current, on_changed, &f));
    assert_int_equal(symlink("two", next), 0);
    assert_int_equal(rename(next, current), 0);
    pass(&uv, 2100);
    assert_int_equal(f.changes, 1);
    in_directory(two, "a", "22");
    uv_run(&uv, UV_RUN_NOWAIT);
    pass(&uv, 100);
    assert_int_equal(f.changes, 2);
    pass(&uv, 10000);
    assert_int_equal(f.changes, 2);
    assert_true(weir_watch_move(&w, one));
    pass(&uv, 10000);
    assert_int_equal(f.changes, 2); /* another path is no change */
    in_directory(one, "a", "22");
    pass(&uv, 2100);
    assert_int_equal(f.changes, 3);
    weir_watch_stop(&w);
    in_directory(one, "a", "333");
    pass(&uv, 10000);
    assert_int_equal(f.changes, 3);
    close_watch(&w, &uv);
    in_directory(one, "a", NULL);
    in_directory(two, "a", NULL);
    unlink(current);
    rmdir(one);
    rmdir(two);
    rmdir(dir);
}

/* Each of the five fields of a file's state tells two versions apart. */
static void test_versions_of_a_file(void **unused)
{
    (void)unused;
    for (int field = 0; field < 6; field++) {
        uv_loop_t uv;
        weir_watch w;
        watched f = {0};
        reset_timers();
        assert_int_equal(uv_loop_init(&uv), 0);
        assert_true(weir_watch_start(&w, &uv, "/dev/null", on_changed, &f));
        uint64_t *const unsigned_fields[] = {&w.seen.device, &w.seen.inode, &w.seen.size};
        if (field < 3)
            ++*unsigned_fields[field];
        else if (field < 5)
            ++*(field == 3 ? &w.seen.seconds : &w.seen.nanoseconds);
        pass(&uv, 2100);
        assert_int_equal(f.changes, field < 5);
        pass(&uv, 10000);
        assert_int_equal(f.changes, field < 5);
        close_watch(&w, &uv);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_to_connect),
        cmocka_unit_test(test_time_after_a_slow_lookup),
        cmocka_unit_test(test_time_of_a_lookup),
        cmocka_unit_test(test_time_of_a_handshake),
        cmocka_unit_test(test_unreachable_address),
        cmocka_unit_test(test_user_timers),
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_watch_by_polling),
        cmocka_unit_test(test_watch_directory),
        cmocka_unit_test(test_watch_swapped_directory),
        cmocka_unit_test(test_versions_of_a_file),
        cmocka_unit_test(test_server_ticks),
    };
    hang = port_mutex_new();
    return cmocka_run_group_tests_name("timers", tests, NULL, NULL);
}
