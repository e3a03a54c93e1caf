/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Lookups and sockets that fail, in a network that is fake: what is logged, what is tried again and
 * when, and what is lost. Nothing stays allocated, open or locked. */

#define _GNU_SOURCE

#include "rls/daemon/statsd.h"

#include "port/port.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

#define SECOND_NS INT64_C(1000000000)

/* ---- the network ----------------------------------------------------------------------------- */

enum { FAKE_FD = 0 }; /* the least descriptor */

/* What the calls do next, and what they were called with. */
static struct {
    /* Names. */
    bool no_threads;
    void (*thread)(void *arg); /* of the lookup in progress; NULL: none */
    void *thread_arg;
    int lookup_error;       /* EAI_* */
    uint32_t host;          /* of the result */
    int lookups, addresses; /* calls for names, and results not freed */
    int socktype;
    bool locked;

    /* Sockets. 0: no error. */
    int socket_error, connect_error, poll_timeout, getsockopt_error, so_error;
    int type, opened, closed;
    struct sockaddr_in peer;

    /* Bytes. */
    int recv_error, send_error;
    bool send_again; /* send_error happens once */
    ssize_t recv_len;
    size_t send_max; /* 0: no limit */
    int sends;
    char sent[4096];
} net;

int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret);
void __wrap_freeaddrinfo(struct addrinfo *found);
bool __wrap_port_thread_run(void (*fn)(void *arg), void *arg);
void __wrap_port_mutex_lock(port_mutex *m);
void __wrap_port_mutex_unlock(port_mutex *m);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
ssize_t __wrap_recv(int fd, void *to, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
int __wrap_close(int fd);
int __real_close(int fd);

static int result_of(int error)
{
    errno = error;
    return error ? -1 : 0;
}

static bool is_numeric(const char *name)
{
    return name[0] >= '0' && name[0] <= '9';
}

int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret)
{
    static struct sockaddr_in address;
    static struct addrinfo found;
    bool quick = hints->ai_flags == (AI_NUMERICSERV | AI_NUMERICHOST);
    assert_true(quick || hints->ai_flags == AI_NUMERICSERV);
    assert_false(net.locked);
    assert_string_equal(service, "8125");
    net.socktype = hints->ai_socktype;
    net.lookups += !quick;
    if (quick && !is_numeric(name))
        return EAI_NONAME;
    if (net.lookup_error)
        return net.lookup_error;
    address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(8125), .sin_addr.s_addr = htonl(net.host)};
    found = (struct addrinfo){.ai_addr = (struct sockaddr *)&address, .ai_addrlen = sizeof address};
    net.addresses++;
    *ret = &found;
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
    assert_non_null(found);
    net.addresses--;
}

bool __wrap_port_thread_run(void (*fn)(void *arg), void *arg)
{
    assert_null(net.thread);
    if (net.no_threads)
        return false;
    net.thread = fn;
    net.thread_arg = arg;
    return true;
}

void __wrap_port_mutex_lock(port_mutex *m)
{
    assert_non_null(m);
    assert_false(net.locked);
    net.locked = true;
}

void __wrap_port_mutex_unlock(port_mutex *m)
{
    assert_non_null(m);
    assert_true(net.locked);
    net.locked = false;
}

int __wrap_socket(int domain, int type, int protocol)
{
    assert_int_equal(domain, AF_INET);
    assert_int_equal(protocol, 0);
    net.type = type;
    net.opened += net.socket_error == 0;
    return net.socket_error ? result_of(net.socket_error) : FAKE_FD;
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
    assert_int_equal(fd, FAKE_FD);
    assert_int_equal(len, sizeof net.peer);
    memcpy(&net.peer, to, len);
    return result_of(net.connect_error);
}

int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
    assert_true(n == 1 && ms == 0 && p->fd == FAKE_FD && p->events == POLLOUT);
    p->revents = net.poll_timeout ? 0 : POLLOUT;
    return !net.poll_timeout;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    assert_true(fd == FAKE_FD && level == SOL_SOCKET && name == SO_ERROR && *len == sizeof(int));
    if (net.getsockopt_error == 0)
        *(int *)value = net.so_error;
    return result_of(net.getsockopt_error);
}

ssize_t __wrap_recv(int fd, void *to, size_t len, int flags)
{
    assert_true(fd == FAKE_FD && flags == MSG_DONTWAIT);
    memset(to, 'x', len);
    return net.recv_error ? result_of(net.recv_error) : net.recv_len;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    assert_true(fd == FAKE_FD && flags == (MSG_NOSIGNAL | MSG_DONTWAIT) && len > 0);
    int error = net.send_error;
    net.sends++;
    if (net.send_again)
        net.send_error = 0;
    if (error)
        return result_of(error);
    if (net.send_max > 0 && len > net.send_max)
        len = net.send_max;
    strncat(net.sent, bytes, len);
    return (ssize_t)len;
}

int __wrap_close(int fd)
{
    if (fd > 2)
        return __real_close(fd);
    assert_int_equal(fd, FAKE_FD);
    net.closed++;
    assert_true(net.closed <= net.opened);
    return 0;
}

/* The lookup in progress ends. */
static void finish_lookup(void)
{
    void (*thread)(void *arg) = net.thread;
    assert_non_null(thread);
    net.thread = NULL;
    thread(net.thread_arg);
}

/* ---- the sender ------------------------------------------------------------------------------ */

static weir_rls_stat stats[64];
static size_t stats_len;

void weir_rls_each_stat(weir_rls *r, void (*fn)(void *ctx, const weir_rls_stat *stat), void *ctx)
{
    assert_ptr_equal(r, stats);
    for (size_t i = 0; i < stats_len; i++)
        fn(ctx, &stats[i]);
}

static int log_pipe[2];
static log_target target;
static statsd *sender;
static char host[256];
static uint64_t blocks;

static int set_up(void **unused)
{
    (void)unused;
    memset(&net, 0, sizeof net);
    net.recv_error = EAGAIN;
    net.host = INADDR_LOOPBACK;
    stats[0] = (weir_rls_stat){.name = "a", .value = 0};
    stats_len = 1;
    if (pipe2(log_pipe, O_NONBLOCK) != 0)
        return -1;
    target = (log_target){.fd = log_pipe[1]};
    blocks = port_load_relaxed(&memory.blocks);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    statsd_close(sender);
    sender = NULL;
    if (net.thread)
        finish_lookup();
    assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
    assert_int_equal(net.closed, net.opened);
    assert_int_equal(net.addresses, 0);
    assert_false(net.locked);
    close(log_pipe[0]);
    close(log_pipe[1]);
    return 0;
}

static void open_sender(const char *address)
{
    statsd_options o = {.flush_ns = 10 * SECOND_NS, .rls = (weir_rls *)stats, .log = &target};
    assert_true(statsd_address_read(address, &o.address));
    snprintf(host, sizeof host, "%s", o.address.host);
    sender = statsd_open(&o);
    assert_non_null(sender);
}

static void tick(int64_t s)
{
    statsd_tick(sender, s * SECOND_NS);
}

/* Expects that one line was logged since the last call.
 *  text    NULL: no line.
 *  reason  NULL: the line says that a failure has ended. */
static void expect_log(const char *text, const char *reason)
{
    char found[WEIR_LOG_LINE_MAX + 1], expected[WEIR_LOG_LINE_MAX + 1] = " ";
    ssize_t n = read(log_pipe[0], found, WEIR_LOG_LINE_MAX);
    found[n > 0 ? n : 0] = '\0';
    if (text)
        expected[log_line(false, 0, reason ? WEIR_LOG_WARNING : WEIR_LOG_INFO, "statsd",
                          LOG(log_text("host", host), log_integer("port", 8125),
                              log_text("text", text), log_text("reason", reason)),
                          expected)] = '\0';
    const char *line = strchr(found, ' ');
    assert_string_equal(line ? line : " ", strchr(expected, ' '));
}

static void expect_sent(const char *lines, uint64_t sent, uint64_t dropped)
{
    assert_string_equal(net.sent, lines);
    net.sent[0] = '\0';
    assert_int_equal(statsd_count(sender).sent, sent);
    assert_int_equal(statsd_count(sender).dropped, dropped);
}

/* A sender that is connected over TCP, at second 0. */
static void open_connected(void)
{
    open_sender("tcp://127.0.0.1:8125");
    tick(0);
    tick(1);
    expect_log(NULL, NULL);
}

/* Another value of the only counter. */
static void count(uint64_t value)
{
    stats[0].value = value;
}

/* ---- lookups --------------------------------------------------------------------------------- */

static void an_address_is_not_looked_up(void **unused)
{
    (void)unused;
    open_sender("udp://127.0.0.1:8125");
    tick(0);
    assert_int_equal(net.lookups, 0);
    assert_int_equal(net.socktype, SOCK_DGRAM);
    assert_int_equal(net.type, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_int_equal(net.peer.sin_port, htons(8125));
    assert_int_equal(net.peer.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    count(3);
    tick(10);
    expect_sent("a:3|c\n", 1, 0);
    expect_log(NULL, NULL);
}

/* A name is looked up in a thread, and again every minute. Another address gets another socket over
 * UDP; a TCP connection stays. */
static void a_name_is_looked_up_again(void **unused)
{
    static const char *const addresses[] = {"udp://statsd:8125", "tcp://statsd:8125"};
    (void)unused;
    for (int tcp = 0; tcp < 2; tcp++) {
        memset(&net, 0, sizeof net);
        net.recv_error = EAGAIN;
        net.host = INADDR_LOOPBACK;
        open_sender(addresses[tcp]);
        tick(0);
        tick(1); /* the lookup is not done */
        assert_int_equal(net.opened, 0);
        finish_lookup();
        tick(2);
        assert_int_equal(net.lookups, 1);
        assert_int_equal(net.socktype, tcp ? SOCK_STREAM : SOCK_DGRAM);
        assert_int_equal(net.opened, 1);
        tick(59);
        assert_null(net.thread);
        tick(60);
        finish_lookup();
        tick(61); /* the same address */
        tick(119);
        assert_int_equal(net.lookups, 2);
        assert_int_equal(net.opened, 1);
        tick(120);
        net.host = INADDR_LOOPBACK + 1;
        finish_lookup();
        tick(121);
        assert_int_equal(net.lookups, 3);
        assert_int_equal(net.opened, tcp ? 1 : 2);
        assert_int_equal(net.closed, tcp ? 0 : 1);
        assert_int_equal(net.peer.sin_addr.s_addr, htonl(INADDR_LOOPBACK + !tcp));
        statsd_close(sender);
        sender = NULL;
        assert_int_equal(net.closed, net.opened);
    }
}

static void a_failed_lookup_is_repeated(void **unused)
{
    (void)unused;
    open_sender("udp://statsd:8125");
    net.lookup_error = EAI_NONAME;
    tick(0);
    finish_lookup();
    tick(1);
    expect_log("cannot look up the host", gai_strerror(EAI_NONAME));
    tick(3);
    assert_null(net.thread);
    tick(4);
    finish_lookup();
    tick(5); /* a failure is logged once */
    expect_log(NULL, NULL);
    assert_int_equal(net.opened, 0);
    net.lookup_error = 0;
    tick(8);
    finish_lookup();
    tick(9);
    count(1);
    tick(10);
    expect_sent("a:1|c\n", 1, 0);
    expect_log("statistics are sent again", NULL);
}

/* Without a thread, the next attempt is three seconds later. */
static void a_lookup_needs_a_thread(void **unused)
{
    (void)unused;
    open_sender("udp://statsd:8125");
    net.no_threads = true;
    tick(0);
    net.no_threads = false;
    tick(2);
    assert_null(net.thread);
    tick(3);
    finish_lookup();
    tick(4);
    assert_int_equal(net.opened, 1);
}

/* At the end, a lookup in progress is left to its thread; another one is freed. */
static void a_lookup_is_abandoned(void **unused)
{
    (void)unused;
    for (int done = 0; done < 2; done++) {
        open_sender("udp://statsd:8125");
        tick(0);
        if (done)
            finish_lookup();
        statsd_close(sender);
        sender = NULL;
        if (!done)
            finish_lookup();
        assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

/* Each way to fail is logged, and the next attempt begins three seconds after this one. */
static void a_failed_connection_is_repeated(void **unused)
{
    static const struct {
        int *fails, error, reason;
        int64_t at_s; /* 0: the attempt fails at once */
    } rows[] = {
        {&net.socket_error, EMFILE, EMFILE, 0},
        {&net.connect_error, ENETUNREACH, ENETUNREACH, 0},
        {&net.so_error, ECONNREFUSED, ECONNREFUSED, 1},
        {&net.getsockopt_error, EBADF, EBADF, 1},
        {&net.poll_timeout, 1, ETIMEDOUT, 3},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool timeout = rows[i].at_s == 3;
        memset(&net, 0, sizeof net);
        net.recv_error = EAGAIN;
        net.connect_error = rows[i].at_s > 0 ? EINPROGRESS : 0;
        *rows[i].fails = rows[i].error;
        open_sender("tcp://127.0.0.1:8125");
        tick(0);
        for (int64_t at_s = 1; at_s <= rows[i].at_s; at_s++) {
            expect_log(NULL, NULL);
            tick(at_s);
        }
        expect_log("cannot connect", strerror(rows[i].reason));
        int opened = net.opened;
        assert_int_equal(net.closed, opened);
        *rows[i].fails = net.connect_error = 0;
        if (!timeout)
            tick(2);
        assert_int_equal(net.opened, opened);
        tick(timeout ? 4 : 3);
        assert_int_equal(net.opened, opened + 1);
        expect_log("statistics are sent again", NULL);
        statsd_close(sender);
        sender = NULL;
        assert_int_equal(net.closed, net.opened);
    }
}

/* A connection in progress is waited for, for three seconds. */
static void a_connection_takes_its_time(void **unused)
{
    (void)unused;
    net.connect_error = EINPROGRESS;
    net.poll_timeout = 1;
    open_sender("tcp://127.0.0.1:8125");
    count(2);
    tick(0);
    tick(1);
    tick(2);
    net.poll_timeout = 0;
    tick(3); /* ready, if late */
    expect_log(NULL, NULL);
    assert_int_equal(net.opened, 1);
    tick(10);
    expect_sent("a:2|c\n", 1, 0);
}

/* A failed connection makes the name be looked up at once: it may have another address now. */
static void a_failed_connection_looks_the_name_up(void **unused)
{
    (void)unused;
    for (int later = 0; later < 2; later++) {
        memset(&net, 0, sizeof net);
        net.recv_error = EAGAIN;
        net.connect_error = later ? EINPROGRESS : ENETUNREACH;
        net.so_error = ECONNREFUSED;
        open_sender("tcp://statsd:8125");
        tick(0);
        finish_lookup();
        tick(1);
        if (later)
            tick(2);
        expect_log("cannot connect", strerror(later ? ECONNREFUSED : ENETUNREACH));
        tick(2 + later);
        finish_lookup();
        assert_int_equal(net.lookups, 2);
        statsd_close(sender);
        sender = NULL;
    }
}

/* What the server sends is ignored; its end and errors close the connection. */
static void a_connection_ends(void **unused)
{
    static const struct {
        int error;
        ssize_t len;
        bool ends;
    } rows[] = {{EAGAIN, 0, false}, {EINTR, 0, false},     {0, 1, false},
                {0, 512, false},    {ECONNRESET, 0, true}, {0, 0, true}};
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_connected();
        net.recv_error = rows[i].error;
        net.recv_len = rows[i].len;
        int closed = net.closed;
        tick(2);
        assert_int_equal(net.closed, closed + rows[i].ends);
        expect_log(rows[i].ends ? "the connection is closed" : NULL,
                   rows[i].error ? strerror(rows[i].error) : "by the server");
        net.recv_error = EAGAIN;
        statsd_close(sender);
        sender = NULL;
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

/* What a TCP socket does not take is sent later. Until then, increments add up. */
static void a_full_socket_is_waited_for(void **unused)
{
    (void)unused;
    open_connected();
    count(5);
    net.send_error = EAGAIN;
    tick(10);
    expect_sent("", 0, 0);
    count(6);
    tick(20);
    expect_sent("", 0, 0);
    net.send_error = EINTR;
    net.send_again = true;
    net.send_max = 5;
    net.sends = 0;
    tick(21); /* the first line, in two parts, and then the rest */
    expect_sent("a:5|c\na:1|c\n", 2, 0);
    assert_int_equal(net.sends, 5);
    expect_log(NULL, NULL);
}

/* A connection that breaks loses the lines that it has not sent. */
static void a_broken_connection_loses_lines(void **unused)
{
    (void)unused;
    open_connected();
    stats[1] = (weir_rls_stat){.name = "b", .value = 7};
    stats_len = 2;
    count(5);
    net.send_error = EAGAIN;
    tick(10);
    net.send_error = EPIPE;
    tick(11);
    expect_sent("", 0, 2);
    assert_int_equal(net.closed, 1);
    assert_int_equal(net.sends, 2);
    expect_log("the connection is closed", strerror(EPIPE));
    net.send_error = 0;
    count(9);
    tick(12);
    tick(20);
    expect_sent("a:4|c\n", 1, 2);
    expect_log("statistics are sent again", NULL);
    net.send_error = EAGAIN;
    count(10);
    tick(30);
    statsd_close(sender); /* what is waiting is not sent twice */
    sender = NULL;
    assert_string_equal(net.sent, "");
}

static void a_datagram_may_fail(void **unused)
{
    (void)unused;
    open_sender("udp://127.0.0.1:8125");
    tick(0);
    count(1);
    net.send_error = ECONNREFUSED;
    tick(10);
    expect_sent("", 0, 1);
    expect_log("cannot send", strerror(ECONNREFUSED));
    count(2);
    tick(20);
    expect_sent("", 0, 2);
    expect_log(NULL, NULL);
    net.send_error = 0;
    count(4);
    tick(30);
    expect_sent("a:2|c\n", 1, 2);
    expect_log("statistics are sent again", NULL);
    count(5);
    tick(40);
    expect_log(NULL, NULL);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A counter that cannot be kept is not sent, since the increment would be sent again later. */
static void counters_that_cannot_be_kept_are_not_sent(void **unused)
{
    static char names[40][32];
    char expected[256] = "";
    (void)unused;
    open_sender("udp://127.0.0.1:8125");
    tick(0);
    for (size_t i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "n%02zu_______________________", i);
        stats[i] = (weir_rls_stat){.name = names[i], .value = 1};
    }
    stats_len = 40;
    memory_fail(1, false); /* 512 bytes hold 14 counters of 8 + 27 bytes */
    tick(10);
    assert_true(memory_stop());
    assert_int_equal(statsd_count(sender).sent, 14);
    net.sent[0] = '\0';
    tick(20); /* the others are known now, but what was sent of them is not */
    assert_string_equal(net.sent, "");
    stats[13].value = stats[14].value = 3;
    tick(30);
    snprintf(expected, sizeof expected, "%s:2|c\n%s:2|c\n", names[13], names[14]);
    assert_string_equal(net.sent, expected);
}

/* Lines that do not fit in memory are lost over TCP. */
static void lines_that_do_not_fit_are_lost(void **unused)
{
    (void)unused;
    open_connected();
    count(1);
    memory_fail(1, false); /* the first one is for the value */
    tick(10);
    assert_true(memory_stop());
    expect_sent("", 0, 1);
    count(2);
    tick(20);
    expect_sent("a:1|c\n", 1, 1);
}

static bool open_and_tick(uint64_t n, bool later)
{
    statsd_options o = {.flush_ns = SECOND_NS, .rls = (weir_rls *)stats};
    (void)statsd_address_read("tcp://127.0.0.1:8125", &o.address);
    memory_fail(n, later);
    statsd *s = statsd_open(&o);
    for (int64_t i = 0; s && i < 5; i++)
        statsd_tick(s, i * SECOND_NS);
    statsd_close(s);
    return memory_stop();
}

static void memory_may_be_exhausted(void **unused)
{
    (void)unused;
    count(1);
    fail_each_allocation(open_and_tick);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_address_is_not_looked_up),
        TEST(a_name_is_looked_up_again),
        TEST(a_failed_lookup_is_repeated),
        TEST(a_lookup_needs_a_thread),
        TEST(a_lookup_is_abandoned),
        TEST(a_failed_connection_is_repeated),
        TEST(a_connection_takes_its_time),
        TEST(a_failed_connection_looks_the_name_up),
        TEST(a_connection_ends),
        TEST(a_full_socket_is_waited_for),
        TEST(a_broken_connection_loses_lines),
        TEST(a_datagram_may_fail),
        TEST(counters_that_cannot_be_kept_are_not_sent),
        TEST(lines_that_do_not_fit_are_lost),
        TEST(memory_may_be_exhausted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
