/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_FIXTURE_TEST_H
#define WEIR_NET_FIXTURE_TEST_H
/* Fixtures of the server tests: a server on a thread, a small protocol of text lines, and clients
 * with blocking sockets and a generous timeout. */

#include "net/server.h"
#include "port/atomic.h"
#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_S = 30, LOOPS_MAX = 4, ORDER_MAX = 64 };

static const int64_t ms_ns = 1000000, s_ns = 1000000000;

static inline void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* cmocka's assertions work only in the thread of the test. The other threads count what is wrong,
 * and stop() asserts that nothing was. */
static port_counter wrong_in_threads;

static inline void expect_in_thread(bool good)
{
    port_add_relaxed(&wrong_in_threads, !good);
}

/* ---- the protocol ---------------------------------------------------------------------------- */

/* The context of a loop. */
typedef struct loop_context {
    int id;
    int order[ORDER_MAX]; /* the names of delayed replies, in the order of sending */
    int order_len;
    int open;               /* open sessions */
    int begun;              /* times that the loop has begun */
    port_counter refreshed; /* times that the loop got other limits */
} loop_context;

static inline void count_refresh(void *context)
{
    port_bump_relaxed(&((loop_context *)context)->refreshed, 1);
}

typedef struct line_session {
    loop_context *context;
    int waits_as;
} line_session;

static inline void line_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    (void)wake;
    (void)wake_ctx;
    line_session *s = session;
    s->context = ctx;
    s->waits_as = -1;
    s->context->open++;
}

static inline void line_close(void *session)
{
    ((line_session *)session)->context->open--;
}

static inline void put(weir_buffer *out, const char *text)
{
    weir_buffer_append(out, text, strlen(text));
}

/* Runs "wait MS", "until NS NAME", "big BYTES", "close" and "loop"; echoes any other line. */
static inline weir_session_step line_answer(line_session *s, const char *line, weir_buffer *out,
                                            int64_t now_ns)
{
    long long until_ns = 0;
    size_t big = 0;
    weir_session_step wait = {.next = WEIR_SESSION_WAIT};
    if (sscanf(line, "until %lld %d", &until_ns, &s->waits_as) == 2) {
        wait.until_ns = until_ns;
    } else if (sscanf(line, "wait %lld", &until_ns) == 1) {
        wait.until_ns = now_ns + until_ns * ms_ns;
    } else if (sscanf(line, "big %zu", &big) == 1) {
        if (weir_buffer_reserve(out, big + 1)) {
            memset(weir_buffer_tail(out), 'x', big);
            weir_buffer_added(out, big);
        }
        put(out, "\n");
    } else if (strcmp(line, "close") == 0) {
        put(out, "bye\n");
        return (weir_session_step){.next = WEIR_SESSION_CLOSE};
    } else if (strcmp(line, "loop") == 0) {
        char id[16];
        snprintf(id, sizeof id, "%d\n", s->context->id);
        put(out, id);
    } else {
        put(out, line);
        put(out, "\n");
    }
    if (wait.until_ns > 0) {
        put(out, "waited\n");
        return wait;
    }
    return (weir_session_step){.next = WEIR_SESSION_READ};
}

static inline weir_session_step line_run(void *session, weir_buffer *in, weir_buffer *out,
                                         size_t out_pause, int64_t now_ns)
{
    line_session *s = session;
    expect_in_thread(weir_buffer_len(out) == 0);
    if (s->waits_as >= 0 && s->context->order_len < ORDER_MAX)
        s->context->order[s->context->order_len++] = s->waits_as;
    s->waits_as = -1;
    while (weir_buffer_len(in) > 0) {
        char line[256];
        const uint8_t *bytes = weir_buffer_data(in);
        const uint8_t *lf = memchr(bytes, '\n', weir_buffer_len(in));
        if (!lf)
            break;
        size_t len = (size_t)(lf - bytes), kept = len < sizeof line ? len : sizeof line - 1;
        if (weir_buffer_len(out) > out_pause || (bytes[0] == 'w' && weir_buffer_len(out) > 0))
            return (weir_session_step){.next = WEIR_SESSION_AGAIN};
        memcpy(line, bytes, kept);
        line[kept] = '\0';
        weir_buffer_consume(in, len + 1);
        weir_session_step step = line_answer(s, line, out, now_ns);
        if (step.next != WEIR_SESSION_READ)
            return step;
    }
    return (weir_session_step){.next = WEIR_SESSION_READ};
}

static const weir_protocol lines = {.session_size = sizeof(line_session),
                                    .open = line_open,
                                    .close = line_close,
                                    .run = line_run,
                                    .refusal = "REFUSED\n",
                                    .overload = "OVERLOAD\n",
                                    .timeout = "TIMEOUT\n"};

/* ---- the server ------------------------------------------------------------------------------ */

typedef struct fixture {
    weir_server_options options;
    weir_listen_address listens[WEIR_LISTENERS_MAX];
    loop_context loop_contexts[LOOPS_MAX];
    void *contexts[LOOPS_MAX];
    weir_server *server;
    pthread_t thread;
    bool running;
    int events[2];      /* a pipe: the first letter of each event */
    char stopping[128]; /* the text of that event */
    int unreadable;     /* so many reloads fail before one succeeds */
    port_word changes;  /* a reload gives the server options.limits */
    int reloaded[2];    /* a pipe: the first letter of each reason */
    int ended[2];       /* a pipe: a byte when the server has ended */
    char dir[64];
    char error[256];
} fixture;

static inline void on_say(void *ctx, const char *event, const char *text)
{
    fixture *f = ctx;
    if (strcmp(event, "stopping") == 0)
        snprintf(f->stopping, sizeof f->stopping, "%s", text);
    expect_in_thread(text[0] != '\0' && write(f->events[1], event, 1) == 1);
}

static inline bool on_reload(void *ctx, const char *why)
{
    fixture *f = ctx;
    if (port_word_load_acquire(&f->changes) > 0) /* written by change_limits() */
        weir_server_configure(f->server, &f->options.limits);
    expect_in_thread(write(f->reloaded[1], why, 1) == 1);
    return !f->unreadable || --f->unreadable == 0;
}

static inline int64_t on_now(void *ctx)
{
    (void)ctx;
    return port_now_ns();
}

/* Prepares a server with limits that no test reaches by accident. */
static inline void prepare(fixture *f, unsigned loops)
{
    memset(f, 0, sizeof *f);
    f->listens[0] = (weir_listen_address){.address = "127.0.0.1:0", .protocol = &lines};
    for (int i = 0; i < LOOPS_MAX; i++) {
        f->loop_contexts[i].id = i;
        f->contexts[i] = &f->loop_contexts[i];
    }
    f->options = (weir_server_options){
        .listens = f->listens,
        .listens_len = 1,
        .loops = loops,
        .contexts = f->contexts,
        .limits = {.connections = 1000,
                   .buffers = (size_t)64 << 20,
                   .request = 1 << 20,
                   .drain_ns = PATIENCE_S * s_ns},
        .ctx = f,
        .now = on_now,
        .refresh = count_refresh,
        .reload = on_reload,
        .report = on_say,
    };
    assert_int_equal(pipe(f->events), 0);
    assert_int_equal(pipe(f->reloaded), 0);
    assert_int_equal(pipe(f->ended), 0);
    strcpy(f->dir, "/tmp/weir-net-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
}

static inline void open_server(fixture *f)
{
    weir_status st = weir_server_open(&f->server, &f->options, f->error, sizeof f->error);
    if (st != WEIR_OK)
        print_error("%s\n", f->error);
    assert_int_equal(st, WEIR_OK);
}

static inline void *run_server(void *ctx)
{
    fixture *f = ctx;
    sigset_t all; /* only the thread of the test receives signals */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    weir_server_run(f->server);
    expect_in_thread(write(f->ended[1], "", 1) == 1);
    return NULL;
}

static inline void run(fixture *f)
{
    assert_int_equal(pthread_create(&f->thread, NULL, run_server, f), 0);
    f->running = true;
}

static inline void start(fixture *f)
{
    open_server(f);
    run(f);
}

static inline void wait_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int ready;
    while ((ready = poll(&p, 1, PATIENCE_S * 1000)) < 0 && errno == EINTR)
        continue; /* a signal of a child, or of the test */
    assert_int_equal(ready, 1);
}

/* Waits until the server has ended on its own. */
static inline void join(fixture *f)
{
    wait_readable(f->ended[0]);
    assert_int_equal(pthread_join(f->thread, NULL), 0);
    f->running = false;
}

static inline void stop(fixture *f)
{
    if (f->running) {
        kill(getpid(), SIGTERM);
        join(f);
    }
    assert_int_equal(port_load_relaxed(&wrong_in_threads), 0);
    weir_server_stats stats = weir_server_stats_get(f->server);
    assert_int_equal(stats.connected, 0);
    assert_int_equal(stats.buffered, 0);
    weir_server_close(f->server);
    for (int i = 0; i < LOOPS_MAX; i++)
        assert_int_equal(f->loop_contexts[i].open, 0);
    for (int i = 0; i < 2; i++) {
        close(f->events[i]);
        close(f->reloaded[i]);
        close(f->ended[i]);
    }
    rmdir(f->dir);
}

/* Expects that the next reported event begins with `letter`. */
static inline void expect_event(fixture *f, char letter)
{
    char got = 0;
    wait_readable(f->events[0]);
    assert_int_equal(read(f->events[0], &got, 1), 1);
    assert_int_equal(got, letter);
}

static inline void expect_reload(fixture *f, char letter)
{
    char got = 0;
    wait_readable(f->reloaded[0]);
    assert_int_equal(read(f->reloaded[0], &got, 1), 1);
    assert_int_equal(got, letter);
}

/* Gives a running server options.limits, and waits until each loop has them. */
static inline void change_limits(fixture *f)
{
    uint64_t before[LOOPS_MAX];
    for (unsigned i = 0; i < f->options.loops; i++)
        before[i] = port_load_relaxed(&f->loop_contexts[i].refreshed);
    port_word_store_release(&f->changes, 1);
    kill(getpid(), SIGHUP);
    expect_reload(f, 'S');
    for (unsigned i = 0; i < f->options.loops; i++) {
        while (port_load_relaxed(&f->loop_contexts[i].refreshed) == before[i])
            sched_yield();
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

static inline int client_of(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const int on = 1; /* the data is already in the pipe */
    if (family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* Returns the result of connect(). */
static inline int try_connect(int fd, const char *address)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in ip4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ip6 = {.sin6_family = AF_INET6};
    if (address[0] == '/') {
        strcpy(path.sun_path, address);
        return connect(fd, (struct sockaddr *)&path, sizeof path);
    }
    in_port_t port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    if (address[0] == '[') {
        ip6.sin6_addr = in6addr_loopback;
        ip6.sin6_port = port;
        return connect(fd, (struct sockaddr *)&ip6, sizeof ip6);
    }
    ip4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ip4.sin_port = port;
    return connect(fd, (struct sockaddr *)&ip4, sizeof ip4);
}

static inline int family_of(const char *address)
{
    if (address[0] == '/')
        return AF_UNIX;
    return address[0] == '[' ? AF_INET6 : AF_INET;
}

static inline int connect_to(const char *address)
{
    int fd = client_of(family_of(address));
    assert_int_equal(try_connect(fd, address), 0);
    return fd;
}

static inline int client(const fixture *f)
{
    return connect_to(weir_server_address(f->server, 0));
}

static inline bool sent(int fd, const char *text)
{
    size_t len = strlen(text);
    return send(fd, text, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static inline void say(int fd, const char *text)
{
    assert_true(sent(fd, text));
}

/* recv() with a timeout of PATIENCE_S; -1 after the timeout. It waits in poll(), because recv()
 * with SO_RCVTIMEO fails with EINTR, without any signal, when the kernel has io_uring work for the
 * thread. libuv uses io_uring from version 1.45 on. */
static inline ssize_t receive(int fd, void *to, size_t len, int flags)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, PATIENCE_S * 1000) == 1 ? recv(fd, to, len, flags) : -1;
}

/* Expects exactly these bytes next. */
static inline void expect(int fd, const char *text)
{
    char got[256] = "";
    size_t len = strlen(text), have = 0;
    assert_true(len < sizeof got);
    while (have < len) {
        ssize_t n = receive(fd, got + have, len - have, 0);
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    assert_string_equal(got, text);
}

/* Expects the end of the stream, not a reset. */
static inline void expect_end(int fd)
{
    char byte;
    assert_int_equal(receive(fd, &byte, 1, 0), 0);
    close(fd);
}

static inline void ask(int fd, const char *text)
{
    say(fd, text);
    expect(fd, text);
}

/* Reads the reply to "big n". */
static inline void expect_big(int fd, size_t n)
{
    char got[4096];
    for (size_t left = n + 1; left > 0;) {
        ssize_t len = receive(fd, got, left < sizeof got ? left : sizeof got, 0);
        assert_true(len > 0);
        left -= (size_t)len;
        for (ssize_t i = 0; i < len; i++)
            assert_int_equal(got[i], left == 0 && i == len - 1 ? '\n' : 'x');
    }
}

/* Sends lines until the server accepts no more for some time. */
static inline void stuff(int fd, const char *line)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    char many[8192];
    size_t len = strlen(line), have = 0;
    for (; have + len <= sizeof many; have += len)
        memcpy(many + have, line, len);
    while (poll(&p, 1, 200) == 1 && !(p.revents & (POLLERR | POLLHUP))) {
        if (send(fd, many, have, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    }
}

/* Expects that the server closes the connection although the client reads nothing. */
static inline void expect_reset(int fd)
{
    struct pollfd p = {.fd = fd, .events = 0};
    assert_int_equal(poll(&p, 1, PATIENCE_S * 1000), 1);
    assert_true(p.revents & (POLLERR | POLLHUP));
    close(fd);
}

#endif
