/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The server: listening, graceful shutdown, reloads. */

#include "net/fixture_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- listening ------------------------------------------------------------------------------- */

/* Expects that opening fails with this error. */
static void expect_no_server(fixture *f, const char *address, const char *expected)
{
    weir_listen_address other = {.address = address, .protocol = &lines};
    weir_server_options options = f->options;
    weir_server *server = NULL;
    char error[256] = "";
    options.listens = &other;
    options.listens_len = 1;
    assert_int_equal(weir_server_open(&server, &options, error, sizeof error), WEIR_E_IO);
    assert_null(server);
    if (!strstr(error, expected))
        assert_string_equal(error, expected);
}

static void check_bad_addresses(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"", "expected ADDRESS:PORT"},
        {"6380", "expected ADDRESS:PORT"},
        {"weir.sock", "expected ADDRESS:PORT"},
        {"127.0.0.1", "expected ADDRESS:PORT"},
        {"127.0.0.1:", "expected a port from 0 to 65535"},
        {"127.0.0.1:65536", "expected a port from 0 to 65535"},
        {"127.0.0.1:-1", "expected a port from 0 to 65535"},
        {"127.0.0.1:+1", "expected a port from 0 to 65535"},
        {"127.0.0.1: 1", "expected a port from 0 to 65535"},
        {"127.0.0.1:123456", "expected a port from 0 to 65535"},
        {"127.0.0.1:80x", "expected a port from 0 to 65535"},
        {":6380", "expected localhost, an IPv4 address"},
        {"127.0.0:6380", "expected localhost, an IPv4 address"},
        {"127.0.0.256:6380", "expected localhost, an IPv4 address"},
        {"example.com:6380", "expected localhost, an IPv4 address"},
        {"::1:6380", "expected localhost, an IPv4 address"},
        {"[::1:6380", "expected localhost, an IPv4 address"},
        {"[]:6380", "expected localhost, an IPv4 address"},
        {"[127.0.0.1]:6380", "expected localhost, an IPv4 address"},
        {"/0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"
         "89012345678901234567",
         "at most 107 bytes"},
    };
    fixture f;
    prepare(&f, 1);
    start(&f);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_no_server(&f, bad[i].text, bad[i].expected);
    stop(&f);
}

static void count_begin(void *context, port_dialer *dialer)
{
    expect_in_thread(dialer != NULL);
    ((loop_context *)context)->begun++;
}

static void check_several_listeners(void **unused)
{
    (void)unused;
    fixture f;
    char path[128];
    prepare(&f, 2);
    snprintf(path, sizeof path, "%s/socket", f.dir);
    f.listens[1] = (weir_listen_address){.address = "[::1]:0", .protocol = &lines};
    f.listens[2] = (weir_listen_address){.address = path, .protocol = &lines};
    f.listens[3] = (weir_listen_address){.address = "localhost:0", .protocol = &lines};
    f.options.listens_len = 4;
    f.options.begin = count_begin;
    start(&f);
    assert_string_equal(weir_server_address(f.server, 2), path);
    for (size_t i = 0; i < 4; i++) {
        for (int k = 0; k < 20; k++) {
            int fd = connect_to(weir_server_address(f.server, i));
            ask(fd, "hello\n");
            say(fd, "close\n");
            expect(fd, "bye\n");
            expect_end(fd);
        }
    }
    stop(&f);
    for (int i = 0; i < LOOPS_MAX; i++)
        assert_int_equal(f.loop_contexts[i].begun, i < 2); /* the number of loops */
}

static void check_a_port_in_use(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 2);
    start(&f);
    const char *taken = weir_server_address(f.server, 0);
    expect_no_server(&f, taken, "address already in use: another server uses it; stop that server");
    f.options.loops = 1;
    expect_no_server(&f, taken, "address already in use: another server uses it; stop that server");
    expect_no_server(&f, "192.0.2.1:0", "this machine does not have that address");
    int fd = client(&f);
    ask(fd, "all is well\n");
    close(fd);
    stop(&f);
    prepare(&f, 2); /* and again at once, although earlier connections are in TIME_WAIT */
    start(&f);
    stop(&f);
}

/* Opens with one option changed. All listeners have bad addresses, so WEIR_E_IO means that the
 * option is in its range. */
#define EXPECT_RANGE(member, value, in_range)                                                      \
    do {                                                                                           \
        weir_server *server = NULL;                                                                \
        weir_server_options options = f.options;                                                   \
        options.member = value;                                                                    \
        assert_int_equal(weir_server_open(&server, &options, f.error, sizeof f.error),             \
                         (in_range) ? WEIR_E_IO : WEIR_E_RANGE);                                   \
    } while (0)

static void check_out_of_range(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    for (int i = 0; i < WEIR_LISTENERS_MAX; i++)
        f.listens[i] = (weir_listen_address){.address = "no address", .protocol = &lines};
    f.options.contexts = NULL; /* there are fewer than WEIR_LOOPS_MAX */
    EXPECT_RANGE(listens_len, 0, false);
    EXPECT_RANGE(listens_len, WEIR_LISTENERS_MAX, true);
    EXPECT_RANGE(listens_len, WEIR_LISTENERS_MAX + 1, false);
    EXPECT_RANGE(loops, 0, false);
    EXPECT_RANGE(loops, WEIR_LOOPS_MAX, true);
    EXPECT_RANGE(loops, WEIR_LOOPS_MAX + 1, false);
    EXPECT_RANGE(limits.connections, 0, false);
    EXPECT_RANGE(limits.connections, 1, true);
    EXPECT_RANGE(limits.request, 0, false);
    EXPECT_RANGE(limits.request, 1, true);
    EXPECT_RANGE(limits.request, 1 << 30, true);
    EXPECT_RANGE(limits.request, (1 << 30) + 1, false);
    EXPECT_RANGE(limits.idle_ns, -1, false);
    EXPECT_RANGE(limits.request_ns, -1, false);
    EXPECT_RANGE(limits.write_ns, -1, false);
    EXPECT_RANGE(limits.grace_ns, -1, false);
    EXPECT_RANGE(limits.grace_ns, WEIR_NOW_NS_MAX / 8, true);
    EXPECT_RANGE(limits.grace_ns, WEIR_NOW_NS_MAX / 8 + 1, false);
    EXPECT_RANGE(limits.drain_ns, -1, false);
    EXPECT_RANGE(limits.drain_ns, 0, true);
    EXPECT_RANGE(limits.drain_ns, WEIR_NOW_NS_MAX / 8, true);
    EXPECT_RANGE(limits.drain_ns, WEIR_NOW_NS_MAX / 8 + 1, false);
    prepare(&f, 1);
    open_server(&f); /* a server that never runs */
    stop(&f);
}

/* The server ignores SIGPIPE: a closed pipe or socket must not end the process. */
static void check_sigpipe(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    signal(SIGPIPE, SIG_DFL);
    start(&f);
    assert_int_equal(raise(SIGPIPE), 0);
    int fd = client(&f);
    ask(fd, "still here\n");
    close(fd);
    stop(&f);
}

static void check_socket_files(void **unused)
{
    (void)unused;
    fixture f;
    char path[128];
    struct stat st;
    prepare(&f, 2);
    snprintf(path, sizeof path, "%s/socket", f.dir);

    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    expect_no_server(&f, path, "a file that is not a socket");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(unlink(path), 0);

    struct sockaddr_un stale = {.sun_family = AF_UNIX};
    strcpy(stale.sun_path, path);
    fd = client_of(AF_UNIX);
    assert_int_equal(bind(fd, (struct sockaddr *)&stale, sizeof stale), 0);
    close(fd); /* a stale socket file */

    stale.sun_path[strlen(path) - 1]++; /* a socket of another type */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&stale, sizeof stale), 0);
    expect_no_server(&f, stale.sun_path, "address already in use: another server uses it");
    assert_int_equal(unlink(stale.sun_path), 0);
    close(fd);

    f.listens[0].address = path;
    start(&f);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    expect_no_server(&f, path, "address already in use");
    fd = client(&f);
    ask(fd, "still mine\n");
    close(fd);
    stop(&f);
    assert_int_equal(stat(path, &st), -1);
    expect_no_server(&f, "/nonexistent/socket", "no such file or directory");
}

/* A socket file that has replaced that of the server is not removed. */
static void check_a_replaced_socket_file(void **unused)
{
    (void)unused;
    fixture f, other;
    char path[128];
    prepare(&f, 1);
    prepare(&other, 1);
    snprintf(path, sizeof path, "%s/socket", f.dir);
    f.listens[0].address = other.listens[0].address = path;
    open_server(&f);
    assert_int_equal(unlink(path), 0);
    open_server(&other);
    run(&other);
    stop(&f);
    int fd = connect_to(path);
    ask(fd, "hello\n");
    close(fd);
    stop(&other);
    rmdir(f.dir);
}

/* ---- shutdown -------------------------------------------------------------------------------- */

/* Requests sent before the signal are answered, even by a server that was not running yet. */
static void check_drain_answers_what_has_arrived(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 2);
    open_server(&f);
    int fds[10];
    for (int i = 0; i < 10; i++) {
        fds[i] = client(&f);
        say(fds[i], "one\ntwo\nthr");
    }
    kill(getpid(), SIGTERM);
    assert_false(weir_server_stopping(f.server));
    run(&f);
    for (int i = 0; i < 10; i++) {
        expect(fds[i], "one\ntwo\n");
        expect_end(fds[i]);
    }
    join(&f);
    assert_true(weir_server_stopping(f.server));
    expect_event(&f, 's');
    int late = client_of(AF_INET);
    assert_int_equal(try_connect(late, weir_server_address(f.server, 0)), -1);
    close(late);
    stop(&f);
}

static void check_drain_sends_output_in_flight(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 2);
    start(&f);
    int slow = client(&f), waiting = client(&f), idle = client(&f), sync = client(&f);
    ask(idle, "idle\n");
    for (int i = 0; i < 10; i++)
        say(slow, "big 1000000\n");
    say(waiting, "here\nwait 300\nlast\n");
    expect(waiting, "here\n");
    ask(sync, "sync\n");
    kill(getpid(), SIGTERM);
    expect_event(&f, 's');
    expect(waiting, "waited\nlast\n");
    expect_end(waiting);
    expect_end(idle);
    expect_end(sync);
    for (int i = 0; i < 10; i++)
        expect_big(slow, 1000000);
    expect_end(slow);
    join(&f);
    stop(&f);
}

/* A reply that is delayed beyond the drain is dropped at once, and a client that does not read is
 * waited for only until its end. */
static void check_drain_is_bounded(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.limits.drain_ns = 300 * ms_ns;
    start(&f);
    int slow = client(&f), waiting = client(&f);
    for (int i = 0; i < 10; i++)
        say(slow, "big 1000000\n");
    say(waiting, "here\nwait 60000\n");
    expect(waiting, "here\n");
    kill(getpid(), SIGINT);
    expect_end(waiting);
    join(&f);
    assert_string_equal(f.stopping, "received SIGINT with 2 open connections; a second signal "
                                    "closes all at once");
    close(slow);
    stop(&f);
}

/* After SIGTERM, new clients are served for grace_ns, and the server says that it is stopping. */
static void check_grace(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 2);
    f.options.limits.grace_ns = 3600 * s_ns + 500 * ms_ns;
    start(&f);
    int old = client(&f);
    ask(old, "old\n");
    kill(getpid(), SIGTERM);
    expect_event(&f, 's');
    assert_true(weir_server_stopping(f.server));
    for (int i = 0; i < 10; i++) {
        int new = client(&f);
        ask(new, "new\n");
        close(new);
    }
    ask(old, "old\n");
    kill(getpid(), SIGTERM); /* a second signal ends the server at once */
    expect_end(old);
    join(&f);
    assert_string_equal(f.stopping, "received SIGTERM with 1 open connections; new ones are "
                                    "accepted for 3600.500 s; a second signal closes all at once");
    stop(&f);
}

/* The grace ends by itself, and SIGINT has none. */
static void check_the_end_of_grace(void **unused)
{
    (void)unused;
    static const struct {
        int64_t grace_ns;
        int signum;
    } rows[] = {{1, SIGTERM}, {3600 * (int64_t)1000000000, SIGINT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f;
        prepare(&f, 2);
        f.options.limits.grace_ns = rows[i].grace_ns;
        start(&f);
        int fd = client(&f);
        ask(fd, "one\n");
        kill(getpid(), rows[i].signum);
        expect_end(fd);
        join(&f);
        stop(&f);
    }
}

static void check_a_second_signal(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 2);
    start(&f);
    int slow = client(&f), waiting = client(&f);
    stuff(slow, "big 1000000\n");
    say(waiting, "here\nwait 20000\n");
    expect(waiting, "here\n");
    kill(getpid(), SIGTERM);
    expect_event(&f, 's');
    kill(getpid(), SIGHUP); /* no reload any more, which is reported */
    expect_event(&f, 'r');
    kill(getpid(), SIGINT);
    expect_end(waiting);
    join(&f);
    struct pollfd reloads = {.fd = f.reloaded[0], .events = POLLIN};
    assert_int_equal(poll(&reloads, 1, 0), 0);
    assert_string_equal(f.stopping, "received SIGTERM with 2 open connections; a second signal "
                                    "closes all at once");
    close(slow);
    stop(&f);
}

/* ---- reloads --------------------------------------------------------------------------------- */

static void check_reload(void **unused)
{
    (void)unused;
    fixture f;
    char path[128], other[128];
    prepare(&f, 1);
    snprintf(path, sizeof path, "%s/weir.yaml", f.dir);
    snprintf(other, sizeof other, "%s/other", f.dir);
    write_file(path, "1");
    f.options.watch = path;
    f.unreadable = 3; /* SIGHUP is not retried; a changed file is */
    start(&f);
    kill(getpid(), SIGHUP);
    expect_reload(&f, 'S');
    write_file(path, "22"); /* as a shell's > does */
    expect_reload(&f, 'f');
    expect_reload(&f, 'f');
    write_file(other, "22"); /* as editors do */
    assert_int_equal(rename(other, path), 0);
    expect_reload(&f, 'f');
    assert_int_equal(unlink(path), 0);
    write_file(path, "4444");
    expect_reload(&f, 'f');
    write_file(other, "a neighbour"); /* no change */
    assert_int_equal(unlink(other), 0);
    struct pollfd p = {.fd = f.reloaded[0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, 300), 0);
    unlink(path);
    kill(getpid(), SIGTERM);
    expect_event(&f, 's'); /* the first event: the directory was watched */
    join(&f);
    stop(&f);
}

/* While clients are served, each loop gets other limits, which the server asks for as well. */
static void check_other_limits(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 3);
    f.options.limits.connections = 4;
    start(&f);
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = client(&f);
    for (int n = 0; n < 20; n++) {
        for (int i = 0; i < 3; i++)
            ask(fds[i], "x\n");
        assert_int_equal(weir_server_is_full(f.server), n % 2 == 1);
        f.options.limits.connections = n % 2 == 0 ? 3 : 4;
        change_limits(&f);
    }
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    f.options.limits.grace_ns = 1250 * ms_ns;
    change_limits(&f);
    kill(getpid(), SIGTERM);
    expect_event(&f, 's');
    assert_non_null(strstr(f.stopping, "accepted for 1.250 s"));
    kill(getpid(), SIGTERM);
    join(&f);
    stop(&f);
}

static void check_no_events_of_a_file(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.watch = "/nowhere/weir.yaml";
    start(&f);
    expect_event(&f, 'w');
    stop(&f);
}

static void check_no_reload(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.reload = NULL;
    start(&f);
    kill(getpid(), SIGHUP);
    stop(&f);
}

/* weir.yaml -> data/weir.yaml, data -> one: how Kubernetes mounts a ConfigMap. Only `data` is
 * swapped, in the same directory or in one that is not watched. */
static void check_reload_of_links(void **unused)
{
    (void)unused;
    static const char *const links[] = {"weir.yaml", "far/weir.yaml"};
    for (size_t i = 0; i < 2; i++) {
        fixture f;
        prepare(&f, 1);
        int dir = open(f.dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        char path[128], file[128];
        assert_int_equal(
            mkdirat(dir, "one", 0700) | mkdirat(dir, "two", 0700) | mkdirat(dir, "far", 0700), 0);
        snprintf(file, sizeof file, "%s/one/weir.yaml", f.dir);
        write_file(file, "1");
        snprintf(file, sizeof file, "%s/two/weir.yaml", f.dir);
        write_file(file, "1");
        assert_int_equal(symlinkat("one", dir, "data"), 0);
        assert_int_equal(symlinkat(i == 0 ? "data/weir.yaml" : "../data/weir.yaml", dir, links[i]),
                         0);
        snprintf(path, sizeof path, "%s/%s", f.dir, links[i]);
        f.options.watch = path;
        start(&f);
        assert_int_equal(symlinkat("two", dir, "next"), 0);
        assert_int_equal(renameat(dir, "next", dir, "data"), 0);
        expect_reload(&f, 'f');
        static const char *const files[] = {"one/weir.yaml", "two/weir.yaml", "data"};
        for (size_t k = 0; k < 3; k++)
            unlinkat(dir, files[k], 0);
        unlinkat(dir, links[i], 0);
        unlinkat(dir, "one", AT_REMOVEDIR);
        unlinkat(dir, "two", AT_REMOVEDIR);
        unlinkat(dir, "far", AT_REMOVEDIR);
        close(dir);
        stop(&f);
    }
}

/* ---- the beat -------------------------------------------------------------------------------- */

static int gate[2], beats[2];

static void wait_at_gate(void *context, port_dialer *dialer)
{
    char byte;
    (void)context, (void)dialer;
    expect_in_thread(read(gate[0], &byte, 1) == 1);
}

static void on_beat(void *ctx)
{
    expect_in_thread(ctx != NULL && write(beats[1], "", 1) == 1);
}

/* Returns whether the server has a beat within so many milliseconds. */
static bool beats_within(int ms)
{
    struct pollfd p = {.fd = beats[0], .events = POLLIN};
    char byte;
    return poll(&p, 1, ms) == 1 && read(beats[0], &byte, 1) == 1;
}

/* The beat stops while one of two loops handles no event, and goes on afterwards. */
static void check_beat(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 2);
    assert_int_equal(pipe(gate), 0);
    assert_int_equal(pipe(beats), 0);
    f.options.begin = wait_at_gate;
    f.options.beat = on_beat;
    f.options.beat_ns = ms_ns / 2; /* rounded up */
    start(&f);
    assert_true(beats_within(PATIENCE_S * 1000)); /* no loop had been asked */
    assert_int_equal(write(gate[1], "", 1), 1);
    assert_false(beats_within(50));
    assert_int_equal(write(gate[1], "", 1), 1);
    for (int i = 0; i < 3; i++)
        assert_true(beats_within(PATIENCE_S * 1000));
    stop(&f);
    f.options.begin = NULL;
    f.options.beat_ns = -1;
    assert_int_equal(weir_server_open(&f.server, &f.options, f.error, sizeof f.error),
                     WEIR_E_RANGE);
    for (int i = 0; i < 2; i++) {
        close(gate[i]);
        close(beats[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_bad_addresses),
        cmocka_unit_test(check_several_listeners),
        cmocka_unit_test(check_a_port_in_use),
        cmocka_unit_test(check_out_of_range),
        cmocka_unit_test(check_sigpipe),
        cmocka_unit_test(check_socket_files),
        cmocka_unit_test(check_a_replaced_socket_file),
        cmocka_unit_test(check_drain_answers_what_has_arrived),
        cmocka_unit_test(check_drain_sends_output_in_flight),
        cmocka_unit_test(check_drain_is_bounded),
        cmocka_unit_test(check_grace),
        cmocka_unit_test(check_the_end_of_grace),
        cmocka_unit_test(check_a_second_signal),
        cmocka_unit_test(check_reload),
        cmocka_unit_test(check_other_limits),
        cmocka_unit_test(check_no_events_of_a_file),
        cmocka_unit_test(check_no_reload),
        cmocka_unit_test(check_beat),
        cmocka_unit_test(check_reload_of_links),
    };
    return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
