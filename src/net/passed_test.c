/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sockets that the parent process has opened. The tests open them, and call the functions with the
 * variables that systemd sets. */

#include "net/fixture_test.h"
#include "net/passed.h"

#include <errno.h>
#include <fcntl.h>

enum { FIRST = 200 }; /* the descriptor of the first socket, instead of 3 */

/* Sets the variables; NULL: not set. `pid` "me" is this process. */
static void set(const char *pid, const char *fds, const char *names)
{
    char me[16];
    snprintf(me, sizeof me, "%d", getpid());
    const char *const rows[][2] = {{"LISTEN_PID", pid && strcmp(pid, "me") == 0 ? me : pid},
                                   {"LISTEN_FDS", fds},
                                   {"LISTEN_FDNAMES", names}};
    for (size_t i = 0; i < 3; i++) {
        if (rows[i][1])
            assert_int_equal(setenv(rows[i][0], rows[i][1], 1), 0);
        else
            assert_int_equal(unsetenv(rows[i][0]), 0);
    }
}

static void move(int fd, int to)
{
    assert_true(fd >= 0 && fd != to);
    assert_int_equal(dup2(fd, to), to);
    close(fd);
}

/* Listens on a free TCP port, as descriptor `at`. Returns the port. */
static int open_tcp(int at, int family)
{
    union {
        struct sockaddr any;
        struct sockaddr_in ip4;
        struct sockaddr_in6 ip6;
    } a = {.ip6 = {.sin6_family = (sa_family_t)family}};
    if (family == AF_INET6)
        a.ip6.sin6_addr = in6addr_loopback;
    else
        a.ip4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = family == AF_INET6 ? sizeof a.ip6 : sizeof a.ip4;
    int fd = socket(family, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, &a.any, len), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, &a.any, &len), 0);
    move(fd, at);
    return ntohs(a.ip4.sin_port);
}

/* Binds a Unix socket as descriptor `at`; '@' at the front of the name makes it abstract. */
static void open_unix(int at, const char *name, int type)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", name);
    if (name[0] == '@')
        a.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, type, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 16), 0);
    move(fd, at);
}

static void expect_none(void)
{
    char error[256] = "";
    net_passed p;
    assert_int_equal(net_passed_read(&p, FIRST, error, sizeof error), WEIR_OK);
    assert_int_equal(p.len, 0);
    assert_int_equal(net_passed_check(&p, error, sizeof error), WEIR_OK);
}

static void expect_error(const char *expected)
{
    char error[256] = "";
    net_passed p;
    assert_int_equal(net_passed_read(&p, FIRST, error, sizeof error), WEIR_E_IO);
    assert_string_equal(error, expected);
}

static void variables(void **unused)
{
    (void)unused;
    set(NULL, "1", NULL);
    expect_none();
    set("me", NULL, NULL);
    expect_none();
    set("1", "1", NULL); /* another process */
    expect_none();
    set("me", "0", "");
    expect_none();
    set("my", "1", NULL);
    expect_error("LISTEN_PID='my': expected the id of a process");
    set("me", "25", NULL);
    expect_error("LISTEN_FDS='25': expected a number of sockets from 0 to 24");
    set("me", "two", NULL);
    expect_error("LISTEN_FDS='two': expected a number of sockets from 0 to 24");
    set("me", "24", "a");
    expect_error("descriptor 200 ('a' of LISTEN_FDNAMES): expected a listening stream socket, TCP "
                 "or Unix");
}

static void descriptors_that_are_no_listeners(void **unused)
{
    (void)unused;
    open_unix(FIRST, "@weir-passed-datagrams", SOCK_DGRAM);
    set("me", "1", "d");
    expect_error("descriptor 200 ('d' of LISTEN_FDNAMES): expected a listening stream socket, TCP "
                 "or Unix");
    close(FIRST);
    move(socket(AF_INET, SOCK_STREAM, 0), FIRST); /* does not listen */
    set("me", "1", NULL);
    expect_error("descriptor 200 ('' of LISTEN_FDNAMES): expected a listening stream socket, TCP "
                 "or Unix");
    close(FIRST);
    open_tcp(FIRST, AF_INET);
    move(open("/dev/null", O_RDONLY), FIRST + 1);
    set("me", "2", "a:b");
    expect_error("descriptor 201 ('b' of LISTEN_FDNAMES): expected a listening stream socket, TCP "
                 "or Unix");
    close(FIRST);
    close(FIRST + 1);
}

static void sockets_are_adopted(void **unused)
{
    (void)unused;
    char error[256] = "", text[64];
    net_passed p;
    int port = open_tcp(FIRST, AF_INET), port6 = open_tcp(FIRST + 1, AF_INET6), on = 0;
    socklen_t len = sizeof on;
    open_unix(FIRST + 2, "@weir-passed", SOCK_STREAM);
    set("me", "3", "resp:weir.socket");
    assert_int_equal(net_passed_read(&p, FIRST, error, sizeof error), WEIR_OK);
    assert_int_equal(p.len, 3);
    snprintf(text, sizeof text, "127.0.0.1:%d", port);
    assert_string_equal(p.sockets[0].listening.text, text);
    assert_string_equal(p.sockets[0].name, "resp");
    assert_true(p.sockets[0].listening.is_tcp);
    snprintf(text, sizeof text, "[::1]:%d", port6);
    assert_string_equal(p.sockets[1].listening.text, text);
    assert_string_equal(p.sockets[1].name, "weir.socket");
    assert_string_equal(p.sockets[2].listening.text, "@weir-passed");
    assert_string_equal(p.sockets[2].name, "");
    assert_false(p.sockets[2].listening.is_tcp);
    for (int fd = FIRST; fd < FIRST + 3; fd++) {
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
    assert_int_equal(getsockopt(FIRST, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    assert_int_equal(on, 1);
    assert_int_equal(net_passed_check(&p, error, sizeof error), WEIR_E_IO);
    snprintf(text, sizeof text, "socket 'resp' on 127.0.0.1:%d was passed (LISTEN_FDS)", port);
    assert_memory_equal(error, text, strlen(text));
    for (int fd = FIRST; fd < FIRST + 3; fd++)
        close(fd);
}

/* A server serves the passed sockets as its listeners, with several loops, and opens the other
 * listeners itself. The socket file stays when it is closed. */
static void server_uses_them(void **unused)
{
    (void)unused;
    fixture f;
    net_passed p;
    char address[64], path[128];
    prepare(&f, 2);
    snprintf(path, sizeof path, "%s/passed", f.dir);
    snprintf(address, sizeof address, "localhost:%d", open_tcp(FIRST, AF_INET));
    open_unix(FIRST + 1, path, SOCK_STREAM);
    set("me", "2", "a:b");
    assert_int_equal(net_passed_read(&p, FIRST, f.error, sizeof f.error), WEIR_OK);
    f.listens[1] = (weir_listen_address){.address = address, .protocol = &lines};
    f.listens[2] = (weir_listen_address){.address = path, .protocol = &lines};
    f.options.listens_len = 3;
    f.options.passed = &p;
    start(&f);
    assert_string_equal(weir_server_address(f.server, 1) + 9, address + 9);
    assert_string_equal(weir_server_address(f.server, 2), path);
    for (size_t i = 0; i < 3; i++) {
        for (int k = 0; k < 10; k++) {
            int fd = connect_to(weir_server_address(f.server, i));
            ask(fd, "hello\n");
            close(fd);
        }
    }
    stop(&f);
    assert_int_equal(fcntl(FIRST, F_GETFD), -1); /* the server has closed it */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(f.dir), 0);
}

static void unused_sockets_are_errors(void **unused)
{
    (void)unused;
    fixture f;
    net_passed p;
    weir_server *server = NULL;
    char expected[200];
    prepare(&f, 1);
    int port = open_tcp(FIRST, AF_INET);
    set("me", "1", "http");
    assert_int_equal(net_passed_read(&p, FIRST, f.error, sizeof f.error), WEIR_OK);
    f.options.passed = &p;
    assert_int_equal(weir_server_open(&server, &f.options, f.error, sizeof f.error), WEIR_E_IO);
    snprintf(expected, sizeof expected,
             "socket 'http' on 127.0.0.1:%d was passed (LISTEN_FDS), but no listener has this "
             "address; add it to listen in weir.yaml, or remove it from the socket unit",
             port);
    assert_string_equal(f.error, expected);
    close(FIRST);
    f.options.passed = NULL;
    start(&f);
    stop(&f);
}

/* Sockets of a daemon that hands over: one for each of its loops. */
static void sockets_of_a_daemon(void **unused)
{
    (void)unused;
    static net_passed p;
    int fds[WEIR_SOCKETS_MAX], plain = socket(AF_INET, SOCK_STREAM, 0);
    unsigned n;
    char error[256] = "", address[64];
    weir_listen_socket l;
    weir_listen_address want = {.address = "127.0.0.1:1"};
    p.len = 0;
    assert_false(net_passed_is_from_daemon(NULL));
    assert_false(net_passed_is_from_daemon(&p));
    snprintf(address, sizeof address, "127.0.0.1:%d", open_tcp(FIRST, AF_INET));
    for (int i = 0; i < 3; i++)
        assert_true(net_passed_add(&p, dup(FIRST), "localhost:0", false));
    open_unix(FIRST + 1, "@weir-passed-by-daemon", SOCK_STREAM);
    assert_true(net_passed_add(&p, dup(FIRST + 1), "/there", true));
    assert_false(net_passed_add(&p, plain, "localhost:0", false));
    assert_int_equal(fcntl(plain, F_GETFD), -1); /* it is closed */
    assert_int_equal(p.len, 2);
    assert_true(net_passed_is_from_daemon(&p));
    assert_int_equal(net_passed_check(&p, error, sizeof error), WEIR_OK);
    assert_int_equal(net_passed_use(&p, &want, &l, fds, 2, &n, error, sizeof error), WEIR_OK);
    assert_int_equal(n, 0);
    want.address = "localhost:0"; /* as it was configured */
    assert_int_equal(net_passed_use(&p, &want, &l, fds, 2, &n, error, sizeof error), WEIR_OK);
    assert_int_equal(n, 3); /* all of them, also with fewer loops */
    assert_string_equal(l.text, address);
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
    assert_int_equal(net_passed_use(&p, &want, &l, fds, 2, &n, error, sizeof error), WEIR_OK);
    assert_int_equal(n, 0); /* they are used */
    p.len = 0;
    assert_true(net_passed_add(&p, dup(FIRST), "localhost:0", false));
    assert_true(net_passed_add(&p, dup(FIRST), "localhost:0", false));
    want.address = address; /* as it is */
    assert_int_equal(net_passed_use(&p, &want, &l, fds, 5, &n, error, sizeof error), WEIR_OK);
    assert_int_equal(n, 5);
    for (unsigned i = 0; i < n; i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
    close(FIRST);
    close(FIRST + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables),
        cmocka_unit_test(descriptors_that_are_no_listeners),
        cmocka_unit_test(sockets_are_adopted),
        cmocka_unit_test(server_uses_them),
        cmocka_unit_test(unused_sockets_are_errors),
        cmocka_unit_test(sockets_of_a_daemon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
