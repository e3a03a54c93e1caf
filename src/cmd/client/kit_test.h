/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_KIT_TEST_H
#define WEIR_CMD_CLIENT_KIT_TEST_H
/* Runs the client commands with a fake network (see meson.build). The clock is a fake, too: poll()
 * advances it, so that nothing waits. Define _GNU_SOURCE before you include this. */

#include "cmd/kit/commands.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORDS_MAX = 12, REPLIES_MAX = 4 };

static const int64_t ms_ns = 1000000;

/* ---- the fake network ------------------------------------------------------------------------ */

/* All zero is a server that can be reached at once and never replies. */
typedef struct network {
    const char *replies[REPLIES_MAX]; /* to the first request, the second, ...; then silence */
    bool closes;                      /* after these replies */
    size_t piece;                     /* the most bytes that a send() or recv() transfers; 0: any */
    int connect_errno[2];             /* of the first connect(), of the second */
    int late_errno;                   /* what getsockopt() reports after EINPROGRESS */
    bool never_writable;
    int socket_errno, send_errno, recv_errno, poll_errno, option_errno; /* of the first call */
    bool send_fails; /* send_errno again and again */
    int lookup;      /* what getaddrinfo() returns for a name; 0: two addresses */
    bool lookup_hangs;
    /* What happened: */
    int64_t now_ns;  /* since the test began */
    char sent[1024]; /* the words of each request, and a '|' after each of them */
    char at[256];    /* the address of the last connect() */
    int connects, lookups, requests, open;
    bool no_delay;
    int64_t timer_us;  /* what the timer was set to */
    int64_t lookup_us; /* the same, during a lookup */
    size_t part_len;   /* of a request that is not complete */
    char part[1 << 18];
    size_t reply_at; /* bytes of the current reply that were read */
} network;

static network net;

int64_t __wrap_port_steady_ns(void);
int __wrap_setitimer(enum __itimer_which which, const struct itimerval *timer,
                     struct itimerval *before);
int __wrap_socket(int family, int type, int protocol);
int __real_socket(int family, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);

int64_t __wrap_port_steady_ns(void)
{
    return INT64_C(5000000000) + net.now_ns;
}

/* Returns -1 with errno if an error is due, and forgets the error. Without one, errno changes too,
 * as the C library allows. */
static inline int fail_once(int *error)
{
    int due = *error;
    errno = due == 0 ? ENOTTY : due;
    *error = 0;
    return due == 0 ? 0 : -1;
}

int __wrap_socket(int family, int type, int protocol)
{
    assert_true(type & SOCK_NONBLOCK && type & SOCK_CLOEXEC);
    if (fail_once(&net.socket_errno) != 0)
        return -1;
    return __real_socket(family, type, protocol);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    char text[INET6_ADDRSTRLEN];
    assert_true(fd >= 0);
    if (address->sa_family == AF_UNIX) {
        snprintf(net.at, sizeof net.at, "%s", ((const struct sockaddr_un *)address)->sun_path);
    } else {
        const struct sockaddr_in *v4 = (const void *)address;
        const struct sockaddr_in6 *v6 = (const void *)address;
        bool is_v6 = address->sa_family == AF_INET6;
        assert_int_equal(len, is_v6 ? sizeof *v6 : sizeof *v4);
        inet_ntop(address->sa_family, is_v6 ? (const void *)&v6->sin6_addr : &v4->sin_addr, text,
                  sizeof text);
        snprintf(net.at, sizeof net.at, is_v6 ? "[%s]:%d" : "%s:%d", text,
                 ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
    }
    assert_in_range(net.connects, 0, 1);
    return fail_once(&net.connect_errno[net.connects++]);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    (void)fd;
    assert_true(level == SOL_SOCKET && name == SO_ERROR && *len == sizeof(int));
    if (fail_once(&net.option_errno) != 0)
        return -1;
    memcpy(value, &net.late_errno, sizeof net.late_errno);
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    (void)fd;
    net.no_delay = level == IPPROTO_TCP && name == TCP_NODELAY && len == sizeof(int) &&
                   *(const int *)value == 1;
    return 0;
}

/* The rest of the reply to the latest request. */
static inline size_t reply_left(void)
{
    const char *reply = net.requests > 0 ? net.replies[net.requests - 1] : NULL;
    return reply ? strlen(reply) - net.reply_at : 0;
}

/* A socket that is not ready never becomes ready. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    assert_int_equal(n, 1);
    assert_true(timeout_ms > 0);
    if (fail_once(&net.poll_errno) != 0)
        return -1;
    bool readable = net.requests > 0 && (reply_left() > 0 || net.closes);
    bool ready = fds->events == POLLIN ? readable : !net.never_writable;
    if (!ready)
        net.now_ns += timeout_ms * ms_ns;
    return ready;
}

/* Moves the complete requests from `part` to `sent`. */
static inline void take_requests(void)
{
    for (char *at = net.part, *end = net.part + net.part_len; at < end;) {
        char *body = at, text[sizeof net.sent] = "";
        long words = strtol(at + 1, &body, 10);
        for (long i = 0; i < words && body < end; i++) {
            long len = strtol(body + 3, &body, 10);
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%.*s", i > 0 ? " " : "", (int)len,
                     body + 2);
            body += 2 + len;
        }
        if (body + 2 > end)
            return;
        size_t used = strlen(net.sent);
        snprintf(net.sent + used, sizeof net.sent - used, "%s|", text);
        net.requests++;
        net.reply_at = 0;
        net.part_len = (size_t)(end - body - 2);
        memmove(net.part, body + 2, net.part_len);
        end = net.part + net.part_len;
    }
}

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    (void)fd;
    assert_int_equal(flags, MSG_NOSIGNAL);
    int again = net.send_errno;
    if (fail_once(&net.send_errno) != 0) {
        net.send_errno = net.send_fails ? again : 0;
        return -1;
    }
    len = net.piece > 0 && net.piece < len ? net.piece : len;
    assert_true(net.part_len + len < sizeof net.part);
    memcpy(net.part + net.part_len, bytes, len);
    net.part_len += len;
    memset(net.part + net.part_len, 0, 1);
    take_requests();
    return (ssize_t)len;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags)
{
    (void)fd;
    assert_int_equal(flags, 0);
    if (fail_once(&net.recv_errno) != 0)
        return -1;
    size_t left = reply_left();
    if (left == 0 && !net.closes) {
        errno = EAGAIN;
        return -1;
    }
    len = len < left ? len : left;
    len = net.piece > 0 && net.piece < len ? net.piece : len;
    if (len > 0)
        memcpy(bytes, net.replies[net.requests - 1] + net.reply_at, len);
    net.reply_at += len;
    return (ssize_t)len;
}

/* A name has the addresses 192.0.2.1 and 192.0.2.2. */
int __wrap_setitimer(enum __itimer_which which, const struct itimerval *timer,
                     struct itimerval *before)
{
    assert_true(which == ITIMER_REAL && !before);
    net.timer_us = timer->it_value.tv_sec * 1000000 + timer->it_value.tv_usec;
    return 0;
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret)
{
    assert_int_equal(hints->ai_socktype, SOCK_STREAM);
    if (hints->ai_flags == AI_NUMERICHOST)
        return __real_getaddrinfo(host, port, hints, ret);
    struct addrinfo numeric = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *second;
    assert_int_equal(hints->ai_flags, AI_ADDRCONFIG);
    net.lookups++;
    net.lookup_us = net.timer_us;
    if (net.lookup_hangs)
        raise(SIGALRM); /* as at the end of the timer */
    errno = EMFILE;
    if (net.lookup != 0)
        return net.lookup;
    assert_int_equal(__real_getaddrinfo("192.0.2.1", port, &numeric, ret), 0);
    assert_int_equal(__real_getaddrinfo("192.0.2.2", port, &numeric, &second), 0);
    (*ret)->ai_next = second;
    return 0;
}

/* ---- running a command ----------------------------------------------------------------------- */

static char output[1 << 16]; /* standard output and standard error of the last command */
static int output_fd, saved[2];

/* Splits a command line at blanks. 'a word' in quotes may have blanks, or be empty. */
static inline int split_words(char *line, char *argv[WORDS_MAX + 1])
{
    int n = 0;
    for (char *at = line; *at && n < WORDS_MAX; n++) {
        bool quoted = *at == '\'';
        argv[n] = at + quoted;
        char *end = argv[n] + strcspn(argv[n], quoted ? "'" : " ");
        at = end + (quoted && *end) + strspn(end + (quoted && *end), " ");
        *end = '\0';
    }
    argv[n] = NULL;
    return n;
}

/* Runs `weir LINE`. Returns the exit status. */
static inline int run(const char *line)
{
    char *argv[WORDS_MAX + 1], words[1024];
    snprintf(words, sizeof words, "%s", line);
    int free_fd = dup(0);
    close(free_fd);
    assert_int_equal(ftruncate(output_fd, 0), 0);
    lseek(output_fd, 0, SEEK_SET);
    fflush(stdout);
    dup2(output_fd, STDOUT_FILENO);
    dup2(output_fd, STDERR_FILENO);
    int status = weir_cmd_client(split_words(words, argv), argv);
    fflush(stdout);
    dup2(saved[0], STDOUT_FILENO);
    dup2(saved[1], STDERR_FILENO);
    ssize_t n = pread(output_fd, output, sizeof output - 1, 0);
    output[n > 0 ? n : 0] = '\0';
    int same_fd = dup(0); /* every socket is closed */
    assert_int_equal(same_fd, free_fd);
    close(same_fd);
    return status;
}

/* Runs `weir LINE` and checks its status and output. */
__attribute__((format(printf, 3, 4))) static inline void expect(int status, const char *text,
                                                                const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int got = run(line);
    if (got != status || strcmp(output, text) != 0)
        fail_msg("weir %s: status %d, expected %d; output:\n%sexpected:\n%s", line, got, status,
                 output, text);
}

static inline int redirect(void **unused)
{
    (void)unused;
    unsetenv("WEIR_SERVER");
    unsetenv("WEIR_PASSWORD");
    saved[0] = dup(STDOUT_FILENO);
    saved[1] = dup(STDERR_FILENO);
    output_fd = memfd_create("output", 0);
    return output_fd >= 0 ? 0 : -1;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* A network whose server has these replies. */
#define SERVER(...) (net = (network){.replies = {__VA_ARGS__}})

#define AT "weir take: 127.0.0.1:6380: " /* the beginning of an error */

#define HELLO                                                                                      \
    "%7\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$5\r\nproto\r\n:3\r\n"    \
    "$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"          \
    "$7\r\nmodules\r\n*0\r\n"

/* The reply of a decision. The arguments are string literals; `policy` has three bytes. */
#define NAMED(policy, allowed, limit, remaining, retry, reset, delay, layer)                       \
    "%8\r\n$7\r\nallowed\r\n:" allowed "\r\n$5\r\nlimit\r\n:" limit                                \
    "\r\n$9\r\nremaining\r\n:" remaining "\r\n$14\r\nretry_after_ms\r\n:" retry                    \
    "\r\n$14\r\nreset_after_ms\r\n:" reset "\r\n$8\r\ndelay_ms\r\n:" delay                         \
    "\r\n$6\r\npolicy\r\n$3\r\n" policy "\r\n$5\r\nlayer\r\n:" layer "\r\n"
#define DECISION(allowed, limit, remaining, retry, reset, delay)                                   \
    NAMED("api", allowed, limit, remaining, retry, reset, delay, "0")
/* With next_ms, of a limit of 5 that is full again in a minute. */
#define NEXT(allowed, remaining, retry, next)                                                      \
    "%9\r\n$7\r\nallowed\r\n:" allowed "\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:" remaining   \
    "\r\n$14\r\nretry_after_ms\r\n:" retry                                                         \
    "\r\n$14\r\nreset_after_ms\r\n:60000\r\n$8\r\ndelay_ms\r\n:0\r\n$7\r\nnext_ms\r\n:" next       \
    "\r\n$6\r\npolicy\r\n$3\r\napi\r\n$5\r\nlayer\r\n:0\r\n"
/* Of WEIR.CHARGE; the order of the pairs does not matter. */
#define CHARGED(allowed, limit, remaining, retry, reset, over)                                     \
    "%9\r\n$4\r\nover\r\n:" over "\r\n$7\r\nallowed\r\n:" allowed "\r\n$5\r\nlimit\r\n:" limit     \
    "\r\n$9\r\nremaining\r\n:" remaining "\r\n$14\r\nretry_after_ms\r\n:" retry                    \
    "\r\n$14\r\nreset_after_ms\r\n:" reset "\r\n$8\r\ndelay_ms\r\n:0"                              \
    "\r\n$6\r\npolicy\r\n$3\r\napi\r\n$5\r\nlayer\r\n:0\r\n"

/* Of WEIR.RESERVE.
 *  id  a string, or null */
#define RESERVED(allowed, retry, id)                                                               \
    "%9\r\n$7\r\nallowed\r\n:" allowed "\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:4"            \
    "\r\n$14\r\nretry_after_ms\r\n:" retry                                                         \
    "\r\n$14\r\nreset_after_ms\r\n:10\r\n$8\r\ndelay_ms\r\n:0\r\n$2\r\nid\r\n" id                  \
    "\r\n$6\r\npolicy\r\n$3\r\napi\r\n$5\r\nlayer\r\n:1\r\n"
#define ID "$16\r\n5f0c6d2ab9e81743"
/* Of WEIR.RENEW, or with a pair `over` before the layer of WEIR.COMMIT and CANCEL.
 *  pairs  how many */
#define ENDED(pairs, allowed, remaining, retry, reset, next, over)                                 \
    "%" pairs "\r\n$7\r\nallowed\r\n:" allowed                                                     \
    "\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:" remaining                                      \
    "\r\n$14\r\nretry_after_ms\r\n:" retry "\r\n$14\r\nreset_after_ms\r\n:" reset                  \
    "\r\n$8\r\ndelay_ms\r\n:0" next over "\r\n$5\r\nlayer\r\n:1\r\n"
#define NEXT_OF(ms) "\r\n$7\r\nnext_ms\r\n:" ms
#define OVER(units) "\r\n$4\r\nover\r\n:" units

/* A peek of a sliding counter. */
#define COUNTED                                                                                    \
    "%12\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:2\r\n"                 \
    "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:9\r\n$8\r\ndelay_ms\r\n:0\r\n"       \
    "$7\r\nnext_ms\r\n:0\r\n$6\r\npolicy\r\n$3\r\napi\r\n$5\r\nlayer\r\n:0\r\n"                    \
    "$5\r\ncount\r\n:1\r\n$8\r\nprevious\r\n:3\r\n$15\r\nwindow_start_ms\r\n:1767225600000\r\n"

#endif
