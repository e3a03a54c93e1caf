/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Addresses, passwords, timeouts, failures of the network, and servers that are no daemon. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/client/connection.h"
#include "cmd/client/kit_test.h"
#include "port/port.h"

#include <sys/wait.h>

/* ---- other servers --------------------------------------------------------------------------- */

#define NOT_RESP AT "expected a reply in RESP3, found another protocol; is this a weir daemon?\n"
#define IS_HTTP                                                                                    \
    AT "expected a RESP server, found an HTTP server; use the address of listen.resp, port 6380 "  \
       "by default\n"

static void check_other_servers(void **unused)
{
    (void)unused;
    static const char *const bad[] = {"%8\n",       "$5\r\nabcdeXX", ":1x\r\n", "?\r\n",
                                      "*16384\r\n", "$99999999\r\n", "#x\r\n",  "HTTPS"};
    const char *take = "take api a";
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        SERVER(HELLO, bad[i]);
        expect(1, NOT_RESP, "%s", take);
        SERVER(bad[i]);
        expect(1, NOT_RESP, "%s", take);
        assert_int_equal(net.now_ns, 0); /* without waiting for more bytes */
    }
    for (size_t piece = 0; piece < 2; piece++) {
        SERVER("HTTP/1.1 400 Bad Request\r\n\r\n");
        net.piece = piece;
        expect(1, IS_HTTP, "%s", take);
        SERVER("HTTP");
        net.piece = piece;
        net.closes = true;
        expect(1, NOT_RESP, "%s", take);
    }
    SERVER("+OK\r\n");
    expect(1, NOT_RESP, "%s", take);
    SERVER("-\x1b[31mred\r\n");
    expect(1, AT "?[31mred\n", "%s", take);
}

/* ---- the password ---------------------------------------------------------------------------- */

static void check_passwords(void **unused)
{
    (void)unused;
    const char *reset = "reset api a";
    setenv("WEIR_PASSWORD", "open sesame", 1);
    SERVER(HELLO, "+OK\r\n");
    expect(0, "reset\n", "%s", reset);
    assert_string_equal(net.sent, "HELLO 3 AUTH default open sesame|WEIR.RESET api a|");
    SERVER("-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    expect(1, "weir reset: 127.0.0.1:6380: the password in WEIR_PASSWORD is wrong\n", "%s", reset);
    assert_string_equal(net.sent, "HELLO 3 AUTH default open sesame|");
    setenv("WEIR_PASSWORD", "", 1);
    SERVER("-NOAUTH HELLO must be called with the client already authenticated\r\n");
    expect(1,
           "weir reset: 127.0.0.1:6380: the daemon requires a password: set WEIR_PASSWORD, or "
           "use --password-file\n",
           "%s", reset);
    assert_string_equal(net.sent, "HELLO 3|");
    unsetenv("WEIR_PASSWORD");
    SERVER("-NOAUTH\r\n");
    expect(1, "weir reset: 127.0.0.1:6380: NOAUTH\n", "%s", reset);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* --password-file, --user, and both in the server's URL. */
static void check_users(void **unused)
{
    (void)unused;
    char path[] = "/tmp/weir-password-XXXXXX", line[300];
    close(mkstemp(path));
    const char *wrong = "-WRONGPASS \r\n";
    setenv("WEIR_PASSWORD", "of the environment", 1);
    static const char *const texts[] = {"s3cret", "s3cret\nmore\n", "s3cret\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_file(path, texts[i]);
        SERVER(HELLO, "+OK\r\n");
        expect(0, "reset\n", "reset --password-file %s --user ops api a", path);
        assert_string_equal(net.sent, "HELLO 3 AUTH ops s3cret|WEIR.RESET api a|");
    }
    SERVER(wrong);
    snprintf(line, sizeof line, "weir take: 127.0.0.1:6380: the password in %s is wrong\n", path);
    expect(1, line, "take --password-file %s api a", path);
    SERVER(wrong);
    expect(1, AT "user 'ops' is unknown, or the password in WEIR_PASSWORD is wrong\n",
           "take --user ops api a");
    assert_string_equal(net.sent, "HELLO 3 AUTH ops of the environment|");
    setenv("WEIR_SERVER", "redis://web:pw@127.0.0.1", 1);
    SERVER(wrong);
    expect(1, AT "user 'web' is unknown, or the password in the server's URL is wrong\n",
           "take api a");
    assert_string_equal(net.sent, "HELLO 3 AUTH web pw|");
    unsetenv("WEIR_SERVER");

    write_file(path, "\ns3cret");
    snprintf(line, sizeof line, "weir take: --password-file: the first line of %s is empty\n",
             path);
    expect(1, line, "take --password-file %s api a", path);
    unlink(path);
    snprintf(line, sizeof line,
             "weir take: --password-file: cannot read %s: No such file or directory\n", path);
    expect(1, line, "take --password-file %s api a", path);
    expect(2, "weir take: --password-file: expected the path of a file, found ''\n",
           "take --password-file '' api a");
    expect(2, "weir take: --user: expected the name of a user, found ''\n", "take --user '' api a");
    unsetenv("WEIR_PASSWORD");
}

/* ---- the server's address -------------------------------------------------------------------- */

static void expect_at(const char *server, const char *at)
{
    SERVER(HELLO, "+OK\r\n");
    expect(0, "reset\n", "reset --server %s api a", server);
    assert_string_equal(net.at, at);
    assert_int_equal(net.no_delay, !strchr(net.at, '/'));
    assert_int_equal(net.lookups, 0);
}

static void check_addresses(void **unused)
{
    (void)unused;
    static const char *const bad[] = {
        ":",    "0",   ":0",   "65536",    ":65536",        "123456", "000001",
        "a:",   "a:x", "a:0",  "a:65536",  "a:99999999999", "[::1",   "[::1]x",
        "[]:1", "[]",  "a:1 ", "[::1]x:1", "a:-1"};
    expect_at("7000", "127.0.0.1:7000");
    expect_at(":7000", "127.0.0.1:7000");
    expect_at("1", "127.0.0.1:1");
    expect_at("65535", "127.0.0.1:65535");
    expect_at("10.0.0.5", "10.0.0.5:6380");
    expect_at("10.0.0.5:1", "10.0.0.5:1");
    expect_at("10.0.0.5:65535", "10.0.0.5:65535");
    expect_at("[::1]:7000", "[::1]:7000");
    expect_at("[::1]", "[::1]:6380");
    expect_at("::1", "[::1]:6380");
    expect_at("/run/weir.sock", "/run/weir.sock");
    expect_at("./1", "./1");
    char text[400], path[110];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        SERVER(HELLO);
        snprintf(
            text, sizeof text,
            "weir take: '%s': expected HOST:PORT, PORT, HOST or [IPV6]:PORT, with a PORT of 1 "
            "to 65535, a URL such as rediss://HOST:PORT, or the path of a socket, with a '/'\n",
            bad[i]);
        expect(2, text, "take --server '%s' api a", bad[i]);
        assert_int_equal(net.connects, 0);
    }
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[107] = '\0';
    expect_at(path, path);
    path[107] = 'x';
    path[108] = '\0';
    snprintf(text, sizeof text,
             "weir take: %s: expected a socket path of at most 107 bytes, found 108\n", path);
    expect(2, text, "take --server %s api a", path);
}

static void check_urls(void **unused)
{
    (void)unused;
    expect_at("redis://10.0.0.5", "10.0.0.5:6380");
    expect_at("redis://[::1]:7/0", "[::1]:7");
    expect_at("unix:///run/weir.sock", "/run/weir.sock");
    expect(2,
           "weir take: the server begins with http://, expected redis://, rediss:// (TLS), "
           "unix://, or HOST:PORT\n",
           "take --server http://h:1 api a");
    expect_at("a//b", "a//b");
    expect_at("://b", "://b");
}

/* The option, the variable, the default. */
static void check_precedence(void **unused)
{
    (void)unused;
    setenv("WEIR_SERVER", "10.0.0.5:7", 1);
    SERVER(HELLO, "+OK\r\n");
    expect(0, "reset\n", "reset api a");
    assert_string_equal(net.at, "10.0.0.5:7");
    expect_at("10.0.0.6:8", "10.0.0.6:8");
    setenv("WEIR_SERVER", "", 1);
    SERVER(HELLO, "+OK\r\n");
    expect(0, "reset\n", "reset api a");
    assert_string_equal(net.at, "127.0.0.1:6380");
    unsetenv("WEIR_SERVER");
}

static void check_host_names(void **unused)
{
    (void)unused;
    const char *reset = "reset --server h.example --timeout 999999ms api a";
    SERVER(HELLO, "+OK\r\n");
    expect(0, "reset\n", "%s", reset);
    assert_string_equal(net.at, "192.0.2.1:6380");
    assert_int_equal(net.lookup_us, 999999001);
    struct sigaction action;
    assert_int_equal(net.timer_us, 0); /* it is off after the lookup */
    sigaction(SIGALRM, NULL, &action);
    assert_true(action.sa_handler == SIG_DFL);
    SERVER(HELLO, "+OK\r\n");
    net.connect_errno[0] = ECONNREFUSED; /* the first address */
    expect(0, "reset\n", "%s", reset);
    assert_string_equal(net.at, "192.0.2.2:6380");
    SERVER(HELLO);
    net.connect_errno[0] = net.connect_errno[1] = ECONNREFUSED;
    expect(1,
           "weir reset: cannot connect to h.example: Connection refused; start a daemon with `weir "
           "serve`, or set its address with --server or WEIR_SERVER\n",
           "%s", reset);
    SERVER(HELLO);
    net.lookup = EAI_AGAIN;
    expect(1,
           "weir reset: h.example: cannot resolve the host: Temporary failure in name resolution\n",
           "%s", reset);
    SERVER(HELLO);
    net.lookup = EAI_SYSTEM;
    expect(1, "weir reset: h.example: cannot resolve the host: Too many open files\n", "%s", reset);
    char longest[256 + 1], line[300];
    memset(longest, 'h', sizeof longest);
    longest[255] = '\0';
    SERVER(HELLO, "+OK\r\n");
    expect(0, "reset\n", "reset --server %s api a", longest);
    longest[255] = 'h';
    longest[256] = '\0';
    snprintf(line, sizeof line, "reset --server %s api a", longest);
    assert_int_equal(run(line), 2);
}

/* A name server that does not answer: the alarm ends the process. */
static void check_slow_lookup(void **unused)
{
    (void)unused;
    SERVER(HELLO);
    net.lookup_hangs = true;
    pid_t child = fork();
    if (child == 0)
        _exit(100 + run("reset --server h.example api a"));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    ssize_t n = pread(output_fd, output, sizeof output - 1, 0);
    output[n > 0 ? n : 0] = '\0';
    assert_string_equal(output, "weir: timeout: the server's name was not resolved; --timeout sets "
                                "how long to wait\n");
    assert_int_equal(ftruncate(output_fd, 0), 0);
    lseek(output_fd, 0, SEEK_SET);
}

/* ---- failures of the network ----------------------------------------------------------------- */

#define HINT                                                                                       \
    "; start a daemon with `weir serve`, or set its address with --server or "                     \
    "WEIR_SERVER\n"
#define UNREACHABLE "weir take: cannot connect to 127.0.0.1:6380: "
#define LATE(what)  AT "timeout: " what "; --timeout sets how long to wait"

/* Fails with the text after `timeout` on the fake clock. */
static void expect_timeout(const char *timeout, int64_t ms, const char *text)
{
    expect(1, text, "take --timeout %s api a", timeout);
    assert_in_range(net.now_ns, ms * ms_ns, (ms + 2) * ms_ns);
}

static void check_timeouts(void **unused)
{
    (void)unused;
    SERVER(HELLO, "%8\r\n$7\r\nallo");
    expect_timeout("300ms", 300, LATE("no reply") "\n");
    SERVER(HELLO);
    expect_timeout("1ms", 1, LATE("no reply") "\n");
    SERVER(NULL);
    expect_timeout("86400s", 86400000, LATE("no reply") "\n");
    SERVER(NULL);
    expect(1, LATE("no reply") "\n", "take api a");
    assert_in_range(net.now_ns, 5000 * ms_ns, 5002 * ms_ns); /* the default */
    SERVER("HTTP");
    expect_timeout("9ms", 9, NOT_RESP);
    SERVER(HELLO);
    net.connect_errno[0] = EINPROGRESS;
    net.never_writable = true;
    expect_timeout("2s", 2000, LATE("not connected") HINT);
    SERVER(HELLO);
    net.send_errno = EAGAIN;
    net.send_fails = net.never_writable = true;
    expect_timeout("86400000ms", 86400000, LATE("the request was not sent") "\n");
}

static void check_connect_errors(void **unused)
{
    (void)unused;
    const char *take = "take api a";
    static const char yes[] = DECISION("1", "5", "5", "0", "0", "0");
    static const int later[] = {EINPROGRESS, EINTR};
    for (size_t i = 0; i < 2; i++) {
        SERVER(HELLO, yes);
        net.connect_errno[0] = later[i];
        expect(0, "allowed  5 of 5 remaining, full\n", "%s", take);
        SERVER(HELLO, yes);
        net.connect_errno[0] = later[i];
        net.late_errno = ECONNREFUSED;
        expect(1, UNREACHABLE "Connection refused" HINT, "%s", take);
        SERVER(HELLO, yes);
        net.connect_errno[0] = later[i];
        net.option_errno = ENOBUFS;
        expect(1, UNREACHABLE "No buffer space available" HINT, "%s", take);
    }
    SERVER(HELLO, yes);
    net.connect_errno[0] = EINPROGRESS;
    net.poll_errno = ENOMEM;
    expect(1, UNREACHABLE "Cannot allocate memory" HINT, "%s", take);
    SERVER(HELLO, yes);
    net.connect_errno[0] = EINPROGRESS;
    net.poll_errno = EINTR;
    expect(0, "allowed  5 of 5 remaining, full\n", "%s", take);
    SERVER(HELLO, yes);
    net.connect_errno[0] = ENETUNREACH;
    expect(1, UNREACHABLE "Network is unreachable" HINT, "%s", take);
    SERVER(HELLO, yes);
    net.socket_errno = EMFILE;
    expect(1, "weir take: cannot create a socket: Too many open files\n", "%s", take);
}

static void check_send_and_receive_errors(void **unused)
{
    (void)unused;
    const char *take = "take api a";
    static const char yes[] = DECISION("1", "5", "5", "0", "0", "0"),
                      text[] = "allowed  5 of 5 remaining, full\n";
    static const int harmless[] = {EAGAIN, EINTR};
    static const char lost[] = AT "connection lost: No buffer space available\n";
    for (size_t i = 0; i < 2; i++) {
        SERVER(HELLO, yes);
        net.send_errno = net.recv_errno = harmless[i];
        expect(0, text, "%s", take);
    }
    SERVER(HELLO, yes);
    net.send_errno = ENOBUFS;
    expect(1, lost, "%s", take);
    SERVER(HELLO, yes);
    net.recv_errno = ENOBUFS;
    expect(1, lost, "%s", take);
    SERVER(HELLO, yes);
    net.send_errno = EAGAIN;
    net.poll_errno = ENOBUFS;
    expect(1, lost, "%s", take);
    SERVER(HELLO);
    net.closes = true;
    expect(1, AT "the server closed the connection without a reply\n", "%s", take);
}

/* Servers that expect TLS close the connection, or send an alert. */
static void check_servers_with_tls(void **unused)
{
    (void)unused;
    SERVER(NULL);
    net.closes = true;
    expect(1, AT "the server closed the connection without a reply; if it expects TLS, use --tls\n",
           "take api a");
    SERVER(NULL);
    net.closes = true;
    expect(1, "weir take: ./weir.sock: the server closed the connection without a reply\n",
           "take --server ./weir.sock api a");
    SERVER("\x15\x03\x03");
    expect(1, AT "the server expects TLS; use --tls\n", "take api a");
    SERVER("\x15\x03");
    expect(1, AT "the server expects TLS; use --tls\n", "take api a");
    static const char *const other[] = {"\x15", "\x15\x02\x03", "\x14\x03\x03"};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        SERVER(other[i]);
        expect(1, NOT_RESP, "take api a");
    }
}

/* A server that rejects a connection may close it before it has read the request. */
static void check_rejected_connections(void **unused)
{
    (void)unused;
    static const int broken[] = {EPIPE, ECONNRESET};
    for (size_t i = 0; i < 2; i++) {
        SERVER("-ERR max number of clients reached\r\n");
        net.requests = 1; /* the reply is there before the request */
        net.send_errno = broken[i];
        expect(1, AT "ERR max number of clients reached\n", "take api a");
    }
}

/* ---- untrusted text -------------------------------------------------------------------------- */

/* A sequence is copied whole or not at all. */
static void check_printable_text(void **unused)
{
    (void)unused;
    static const char text[] = "a\t\xc3\xa9\xff\xc2\x9f~"; /* "é", an invalid byte, U+009F */
    static const char *const expected[] = {
        "", "a", "a?", "a?", "a?\xc3\xa9", "a?\xc3\xa9?", "a?\xc3\xa9?\?", "a?\xc3\xa9?\?~"};
    for (size_t size = 1; size < 16; size++) {
        char copy[17];
        memset(copy, '#', sizeof copy);
        weir_text_escape_to(copy, size, text, sizeof text - 1, WEIR_MASKED);
        assert_string_equal(copy, expected[size < 8 ? size - 1 : 7]);
        assert_int_equal(copy[size], '#');
    }
    static const char hidden[] = "a\xe2\x80\xae z\xe2\x80\x8b"; /* U+202E, U+200B */
    char copy[17];
    weir_text_escape_to(copy, sizeof copy, hidden, sizeof hidden - 1, WEIR_MASKED);
    assert_string_equal(copy, "a? z?");
}

/* ---- without waiting, and again -------------------------------------------------------------- */

static const weir_slice ping[] = {{"PING", 4}, {"me", 2}};

/* A reply that arrives byte by byte is waiting until its last byte, and nothing polls. */
static void check_read(void **unused)
{
    (void)unused;
    static client c;
    SERVER(HELLO, "$2\r\nme\r\n", NULL, "+A\r\n");
    assert_int_equal(client_open(&c, &(client_login){.server = "7000"}, 1000 * ms_ns), CLIENT_OK);
    net.piece = 1;
    client_set_timeout(&c, 3000 * ms_ns);
    assert_int_equal(c.deadline_ns, port_steady_ns() + 3000 * ms_ns);
    assert_int_equal(client_send(&c, ping, 2), CLIENT_OK);
    for (int i = 0; i < 7; i++)
        assert_int_equal(client_read(&c), CLIENT_WAITING);
    assert_int_equal(client_read(&c), CLIENT_OK);
    assert_int_equal(c.reply.value[0].len, 2);
    assert_memory_equal(c.reply.value[0].text, "me", 2);
    assert_int_equal(client_send(&c, ping, 1), CLIENT_OK); /* the reply before is dropped once */
    assert_int_equal(client_send(&c, ping, 1), CLIENT_OK);
    while (client_read(&c) == CLIENT_WAITING)
        ;
    assert_memory_equal(c.reply.value[0].text, "A", 1);
    assert_int_equal(net.now_ns, 0);
    assert_string_equal(net.sent, "HELLO 3|PING me|PING|PING|");
    net.recv_errno = ECONNRESET;
    assert_int_equal(client_read(&c), CLIENT_FAILED);
    assert_string_equal(c.error, "127.0.0.1:7000: connection lost: Connection reset by peer");
    net.closes = true;
    assert_int_equal(client_read(&c), CLIENT_FAILED);
    assert_string_equal(c.error,
                        "127.0.0.1:7000: the server closed the connection without a reply");
    client_close(&c);
}

/* The second connection goes to the same address without a lookup, and forgets half a reply. */
static void check_reopen(void **unused)
{
    (void)unused;
    static client c;
    SERVER(HELLO, "$9\r\nhalf", HELLO, "+OK\r\n");
    int free_fd = dup(0);
    close(free_fd);
    const client_login login = {.server = "example.org:7000", .password = "secret"},
                       local = {.server = "/run/weir.sock"};
    assert_int_equal(client_open(&c, &login, 1000 * ms_ns), CLIENT_OK);
    assert_int_equal(net.lookups, 1);
    assert_int_equal(client_send(&c, ping, 1), CLIENT_OK);
    assert_int_equal(client_read(&c), CLIENT_WAITING);
    net.no_delay = false;
    snprintf(net.at, sizeof net.at, "nowhere");
    net.now_ns += 5000 * ms_ns; /* long after the first deadline */
    assert_int_equal(client_reopen(&c, 1000 * ms_ns), CLIENT_OK);
    assert_int_equal(c.fd, free_fd); /* the first socket is closed */
    assert_string_equal(net.at, "192.0.2.1:7000");
    assert_int_equal(net.lookups, 1);
    assert_true(net.no_delay);
    assert_int_equal(client_request(&c, ping, 2), CLIENT_OK);
    assert_int_equal(c.reply.value[0].type, WEIR_RESP_SIMPLE);
    assert_string_equal(net.sent, "HELLO 3 AUTH default secret|PING|"
                                  "HELLO 3 AUTH default secret|PING me|");
    client_close(&c);
    SERVER(HELLO);
    net.connect_errno[1] = ECONNREFUSED;
    assert_int_equal(client_open(&c, &local, 1000 * ms_ns), CLIENT_OK);
    assert_int_equal(client_reopen(&c, 1000 * ms_ns), CLIENT_UNREACHABLE);
    assert_string_equal(net.at, "/run/weir.sock");
    assert_false(net.no_delay);
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_read),
        cmocka_unit_test(check_reopen),
        cmocka_unit_test(check_printable_text),
        cmocka_unit_test(check_other_servers),
        cmocka_unit_test(check_passwords),
        cmocka_unit_test(check_users),
        cmocka_unit_test(check_addresses),
        cmocka_unit_test(check_urls),
        cmocka_unit_test(check_precedence),
        cmocka_unit_test(check_host_names),
        cmocka_unit_test(check_slow_lookup),
        cmocka_unit_test(check_timeouts),
        cmocka_unit_test(check_connect_errors),
        cmocka_unit_test(check_send_and_receive_errors),
        cmocka_unit_test(check_rejected_connections),
        cmocka_unit_test(check_servers_with_tls),
    };
    return cmocka_run_group_tests(tests, redirect, NULL);
}
