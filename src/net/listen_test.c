/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sockets that listen: their options, socket files, trials, and the addresses of clients. Wrappers
 * make system calls fail, and that of chmod() looks at a socket file that is not open to others
 * yet; see meson.build. */

#include "net/fixture_test.h"
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char dir[64];

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int descriptors; /* before the test */

static int begin(void **unused)
{
    (void)unused;
    strcpy(dir, "/tmp/weir-listen-XXXXXX");
    assert_non_null(mkdtemp(dir));
    descriptors = open_descriptors();
    return 0;
}

static int end(void **unused)
{
    (void)unused;
    assert_int_equal(open_descriptors(), descriptors);
    assert_int_equal(rmdir(dir), 0); /* no file is left */
    return 0;
}

static weir_listen_socket listen_on(const char *address, int *fds, unsigned n)
{
    weir_listen_socket l;
    char error[256] = "";
    weir_status st = weir_listen_open(&l, address, fds, n, error, sizeof error);
    assert_string_equal(error, "");
    assert_int_equal(st, WEIR_OK);
    return l;
}

static void close_all(const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* Every socket listens, does not block, and passes its options on to accepted sockets. */
static void check_sockets(const int *fds, unsigned n, bool is_tcp)
{
    for (unsigned i = 0; i < n; i++) {
        assert_true(option(fds[i], SOL_SOCKET, SO_ACCEPTCONN));
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
        if (!is_tcp)
            continue;
        assert_true(option(fds[i], IPPROTO_TCP, TCP_NODELAY));
        assert_true(option(fds[i], SOL_SOCKET, SO_KEEPALIVE));
        assert_int_equal(option(fds[i], IPPROTO_TCP, TCP_KEEPIDLE), 300);
        assert_true(option(fds[i], SOL_SOCKET, SO_REUSEADDR));
        assert_int_equal(option(fds[i], SOL_SOCKET, SO_REUSEPORT) != 0, n > 1);
    }
}

static void check_tcp(void **unused)
{
    (void)unused;
    int fds[3], one;
    weir_listen_socket l = listen_on("127.0.0.1:0", fds, 3);
    assert_true(l.is_tcp);
    assert_int_equal(strncmp(l.text, "127.0.0.1:", 10), 0);
    assert_true(atoi(l.text + 10) > 0);
    check_sockets(fds, 3, true);
    close_all(fds, 3);
    weir_listen_socket again = listen_on(l.text, &one, 1);
    assert_string_equal(again.text, l.text);
    check_sockets(&one, 1, true);
    close(one);
}

/* "[::]" accepts only IPv6. */
static void check_ip6(void **unused)
{
    (void)unused;
    int fd;
    weir_listen_socket l = listen_on("[::]:0", &fd, 1);
    assert_int_equal(strncmp(l.text, "[::]:", 5), 0);
    assert_true(option(fd, IPPROTO_IPV6, IPV6_V6ONLY));
    close(fd);
}

/* ---- socket files ---------------------------------------------------------------------------- */

static mode_t mode_before;                        /* of chmod() */
static int bind_errno, chmod_errno, unlink_errno; /* of the next call; 0: it succeeds */

static bool fails(int *error)
{
    if (*error == 0)
        return false;
    errno = *error;
    *error = 0;
    return true;
}

int __real_bind(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
    return fails(&bind_errno) ? -1 : __real_bind(fd, address, len);
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

int __wrap_unlink(const char *path)
{
    return fails(&unlink_errno) ? -1 : __real_unlink(path);
}

int __real_chmod(const char *path, mode_t mode);
int __wrap_chmod(const char *path, mode_t mode);

int __wrap_chmod(const char *path, mode_t mode)
{
    struct stat st;
    if (fails(&chmod_errno))
        return -1;
    assert_int_equal(stat(path, &st), 0);
    mode_before = st.st_mode & 0777;
    return __real_chmod(path, mode);
}

static void check_socket_file(void **unused)
{
    (void)unused;
    int fds[3];
    struct stat st;
    weir_listen_socket l = listen_on(path_of("socket"), fds, 3);
    assert_false(l.is_tcp);
    assert_string_equal(l.text, path_of("socket"));
    assert_int_equal(mode_before, 0600);
    assert_int_equal(stat(l.text, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    check_sockets(fds, 3, false);
    weir_listen_remove(&l);
    assert_int_equal(access(l.text, F_OK), -1);
    weir_listen_remove(&l); /* a repeated call does nothing */
    close_all(fds, 3);
    weir_listen_remove(&(weir_listen_socket){.is_tcp = true, .text = "/dev/null"});
    assert_int_equal(access("/dev/null", F_OK), 0);
}

/* A file that has replaced the socket file is kept, although one of both numbers may be equal. */
static void check_replaced_socket_file(void **unused)
{
    (void)unused;
    int fd;
    weir_listen_socket l = listen_on(path_of("socket"), &fd, 1), other = l;
    other.inode++;
    weir_listen_remove(&other);
    assert_int_equal(access(l.text, F_OK), 0);
    other = l;
    other.device++;
    weir_listen_remove(&other);
    assert_int_equal(access(l.text, F_OK), 0);
    weir_listen_remove(&l);
    close(fd);
}

static void expect_no_listener(const char *address, unsigned n, const char *why)
{
    int fds[4];
    weir_listen_socket l;
    char error[256], expected[256];
    assert_int_equal(weir_listen_open(&l, address, fds, n, error, sizeof error), WEIR_E_IO);
    snprintf(expected, sizeof expected, "cannot listen on %s: %s", address, why);
    assert_string_equal(error, expected);
}

/* A failure leaves neither a descriptor nor a file. */
static void check_errors(void **unused)
{
    (void)unused;
    char path[128], below[160];
    strcpy(path, path_of("socket"));
    bind_errno = EACCES;
    expect_no_listener("127.0.0.1:0", 1,
                       "permission denied: ports below 1024 need privileges; choose another");
    bind_errno = EACCES;
    expect_no_listener(path, 1, "permission denied");
    chmod_errno = EPERM;
    expect_no_listener(path, 1, "operation not permitted");
    assert_int_equal(access(path, F_OK), -1);
    snprintf(below, sizeof below, "/dev/null/socket");
    expect_no_listener(below, 1, "not a directory");

    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    int lowest = dup(0);
    close(lowest);
    for (int room = 0; room < 4; room++) {
        few.rlim_cur = (rlim_t)(lowest + room);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        expect_no_listener(path, 4, "too many open files");
        expect_no_listener("127.0.0.1:0", 4, "too many open files");
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(open_descriptors(), descriptors);
    }
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* error  NULL: none is written. */
static void expect_trial(const char *address, weir_listen_trial expected, const char *error)
{
    char got[256] = "", whole[256] = "";
    assert_int_equal(weir_listen_try(address, got, sizeof got), expected);
    if (error)
        snprintf(whole, sizeof whole, "cannot listen on %s: %s", address, error);
    assert_string_equal(got, whole);
}

static void check_trials_of_tcp(void **unused)
{
    (void)unused;
    int fd;
    weir_listen_socket l = listen_on("127.0.0.1:0", &fd, 1);
    expect_trial(l.text, WEIR_LISTEN_IN_USE, NULL);
    close(fd);
    expect_trial(l.text, WEIR_LISTEN_FREE, NULL);
    expect_trial("[::1]:0", WEIR_LISTEN_FREE, NULL);
    expect_trial("192.0.2.1:0", WEIR_LISTEN_IMPOSSIBLE,
                 "address not available: this machine does not have that address");
    expect_trial("192.0.2.1:65535", WEIR_LISTEN_IMPOSSIBLE,
                 "address not available: this machine does not have that address");
    expect_trial("127.0.0.1:x", WEIR_LISTEN_IMPOSSIBLE,
                 "expected a port from 0 to 65535 after the last ':'");
}

/* A host has at most 63 bytes, and a path at most 107. */
static void check_long_addresses(void **unused)
{
    (void)unused;
    char text[128] = "";
    memset(text, 'x', 64);
    strcpy(text + 64, ":1");
    expect_trial(
        text, WEIR_LISTEN_IMPOSSIBLE,
        "expected ADDRESS:PORT such as 127.0.0.1:6380 or [::1]:6380, or a socket path that "
        "begins with /");
    expect_trial(text + 1, WEIR_LISTEN_IMPOSSIBLE,
                 "expected localhost, an IPv4 address such as 127.0.0.1, or an IPv6 address in "
                 "brackets such as [::1], before the ':'");
    memset(text, '/', 108);
    memcpy(text, "/nowhere", 8);
    text[108] = '\0';
    expect_trial(text, WEIR_LISTEN_IMPOSSIBLE, "expected a socket path of at most 107 bytes");
    text[107] = '\0';
    text[106] = 's';
    expect_trial(text, WEIR_LISTEN_IMPOSSIBLE,
                 "no such file or directory: its directory does not exist; create it");
}

/* A Unix socket of `type` with a name. */
static int bind_to(const char *path, int type)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static int access_errno;
static int access_mode, access_flags; /* of the last call */
static char access_path[128];

int __wrap_faccessat(int at, const char *path, int mode, int flags);
int __wrap_faccessat(int at, const char *path, int mode, int flags)
{
    (void)at;
    access_mode = mode;
    access_flags = flags;
    snprintf(access_path, sizeof access_path, "%s", path);
    if (fails(&access_errno))
        return -1;
    return access(path, F_OK);
}

/* A socket of a hand-over has any path, also one that would be an address. */
static void check_packets(void **unused)
{
    (void)unused;
    static const char *const names[] = {"socket", "./socket", "127.0.0.1:0"};
    char error[256] = "", text[109];
    int fd, here = open(".", O_RDONLY | O_CLOEXEC);
    weir_listen_socket l;
    assert_int_equal(chdir(dir), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct stat st;
        assert_int_equal(weir_listen_try_packets(names[i], error, sizeof error), WEIR_LISTEN_FREE);
        assert_string_equal(access_path, ".");
        assert_int_equal(weir_listen_packets(&l, names[i], &fd, error, sizeof error), WEIR_OK);
        assert_string_equal(l.text, names[i]);
        assert_int_equal(stat(names[i], &st), 0);
        assert_true(S_ISSOCK(st.st_mode));
        assert_int_equal(weir_listen_try_packets(names[i], error, sizeof error),
                         WEIR_LISTEN_IN_USE);
        weir_listen_remove(&l);
        close(fd);
    }
    memset(text, 'x', sizeof text);
    text[108] = '\0';
    assert_int_equal(weir_listen_packets(&l, text, &fd, error, sizeof error), WEIR_E_IO);
    assert_non_null(strstr(error, ": expected a socket path of at most 107 bytes"));
    assert_int_equal(weir_listen_try_packets(text, error, sizeof error), WEIR_LISTEN_IMPOSSIBLE);
    text[107] = '\0';
    assert_int_equal(weir_listen_try_packets(text, error, sizeof error), WEIR_LISTEN_FREE);
    assert_int_equal(fchdir(here), 0);
    close(here);
}

static void check_trials_of_socket_files(void **unused)
{
    (void)unused;
    int fd;
    char path[128];
    strcpy(path, path_of("socket"));
    expect_trial(path, WEIR_LISTEN_FREE, NULL);
    assert_string_equal(access_path, dir);
    assert_int_equal(access_mode, W_OK | X_OK);
    assert_int_equal(access_flags, AT_EACCESS);
    access_errno = EACCES;
    expect_trial("/socket-of-a-test", WEIR_LISTEN_IMPOSSIBLE, "permission denied");
    assert_string_equal(access_path, "/");
    weir_listen_socket l = listen_on(path, &fd, 1);
    expect_trial(path, WEIR_LISTEN_IN_USE, NULL);
    close(fd);
    expect_trial(path, WEIR_LISTEN_FREE, NULL); /* nobody listens on it any more */
    assert_int_equal(access(path, F_OK), 0);
    weir_listen_remove(&l);
    fd = bind_to(path, SOCK_DGRAM);
    expect_trial(path, WEIR_LISTEN_IN_USE, NULL); /* another kind of socket */
    close(fd);
    unlink(path);
    write_file(path, "");
    static const char wrong[] =
        "a file that is not a socket exists at this path; move it or choose another path";
    expect_trial(path, WEIR_LISTEN_IMPOSSIBLE, wrong);
    unlink(path);
    expect_trial(path_of("nowhere/socket"), WEIR_LISTEN_IMPOSSIBLE,
                 "no such file or directory: its directory does not exist; create it");
}

/* Opening replaces a stale socket file. A full accept queue shows that a server listens. */
static void check_stale_and_busy_files(void **unused)
{
    (void)unused;
    int fd, clients[2];
    char path[128], error[256];
    strcpy(path, path_of("socket"));
    close(bind_to(path, SOCK_STREAM));
    unlink_errno = EPERM;
    expect_no_listener(path, 1, "operation not permitted");
    weir_listen_socket l = listen_on(path, &fd, 1), other;
    assert_int_equal(weir_listen_open(&other, path, clients, 1, error, sizeof error), WEIR_E_IO);
    assert_non_null(strstr(error, "another server uses it"));
    weir_listen_remove(&l);
    close(fd);
    fd = bind_to(path, SOCK_STREAM);
    assert_int_equal(listen(fd, 0), 0);
    clients[0] = connect_to(path);
    expect_trial(path, WEIR_LISTEN_IN_USE, NULL);
    close(clients[0]);
    close(fd);
    unlink(path);
}

/* ---- clients --------------------------------------------------------------------------------- */

/*  expected  NULL: the socket has no address. */
static void expect_peer(int fd, const char *expected)
{
    char text[WEIR_PEER_TEXT_MAX];
    weir_peer_address a = {.port = 7};
    assert_int_equal(weir_listen_peer(fd, &a), expected != NULL);
    if (expected) {
        weir_listen_print_peer(&a, text);
        assert_string_equal(text, expected);
    } else {
        assert_int_equal(a.port, 7);
    }
}

static void check_peers(void **unused)
{
    (void)unused;
    const char *const addresses[] = {"127.0.0.1:0", "[::1]:0", path_of("socket")};
    for (int i = 0; i < 3; i++) {
        int fd;
        char expected[64];
        struct sockaddr_in6 own; /* sin_port is at the same place */
        socklen_t len = sizeof own;
        weir_listen_socket l = listen_on(addresses[i], &fd, 1);
        int client = connect_to(l.text), accepted = accept(fd, NULL, NULL);
        assert_int_equal(getsockname(client, (struct sockaddr *)&own, &len), 0);
        if (i < 2)
            snprintf(expected, sizeof expected, "%s:%d", i == 0 ? "127.0.0.1" : "[::1]",
                     ntohs(own.sin6_port));
        expect_peer(accepted, i < 2 ? expected : NULL);
        expect_peer(fd, NULL);
        close(client);
        close(accepted);
        close(fd);
        weir_listen_remove(&l);
    }
    expect_peer(-1, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(check_tcp, begin, end),
        cmocka_unit_test_setup_teardown(check_ip6, begin, end),
        cmocka_unit_test_setup_teardown(check_socket_file, begin, end),
        cmocka_unit_test_setup_teardown(check_replaced_socket_file, begin, end),
        cmocka_unit_test_setup_teardown(check_errors, begin, end),
        cmocka_unit_test_setup_teardown(check_long_addresses, begin, end),
        cmocka_unit_test_setup_teardown(check_trials_of_tcp, begin, end),
        cmocka_unit_test_setup_teardown(check_packets, begin, end),
        cmocka_unit_test_setup_teardown(check_trials_of_socket_files, begin, end),
        cmocka_unit_test_setup_teardown(check_stale_and_busy_files, begin, end),
        cmocka_unit_test_setup_teardown(check_peers, begin, end),
    };
    return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}
