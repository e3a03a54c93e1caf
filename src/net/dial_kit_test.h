/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_DIAL_KIT_TEST_H
#define WEIR_NET_DIAL_KIT_TEST_H
/* Fixtures of the dialer's tests: a loop with a dialer, its users, and servers on real sockets.
 * Wrappers count the calls of send(), recv() and uv_poll_start(). They can make send() fail, let
 * the socket accept only a part, and provide endless input; see meson.build. */

#include "net/dial.h"

#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 10000, BEAT_MS = 20, BIG = 8 << 20 };

static const int64_t ms_ns = 1000000;

/* ---- send() and recv() ----------------------------------------------------------------------- */

ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);

static int sends, send_errno;       /* send_errno: of the next call; 0: it succeeds */
static size_t send_room = SIZE_MAX; /* bytes until the socket is full once; SIZE_MAX: no limit */

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
    sends++;
    if (send_errno != 0) {
        errno = send_errno;
        send_errno = 0;
        return -1;
    }
    if (send_room == SIZE_MAX)
        return __real_send(fd, buf, len, flags);
    if (send_room == 0) {
        send_room = SIZE_MAX;
        errno = EAGAIN;
        return -1;
    }
    ssize_t n = __real_send(fd, buf, len < send_room ? len : send_room, flags);
    send_room -= n > 0 ? (size_t)n : 0;
    return n;
}

ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);

static int recvs, full_recvs; /* full_recvs: so many calls fill their buffer with 'z' */

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
    recvs++;
    if (full_recvs == 0)
        return __real_recv(fd, buf, len, flags);
    full_recvs--;
    memset(buf, 'z', len);
    return (ssize_t)len;
}

int __real_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb fn);
int __wrap_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb fn);

static int polls; /* calls of uv_poll_start() */

int __wrap_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb fn)
{
    polls++;
    return __real_uv_poll_start(poll, events, fn);
}

/* ---- a loop with a dialer -------------------------------------------------------------------- */

typedef struct fixture {
    uv_loop_t uv;
    uv_timer_t patience;
    int beats;
    net_dialer *dialer;
    port_dialer *port;
    int64_t now_ns;
    bool real_time;
    const int *awaited; /* by run_until() */
    void (*before_send)(struct fixture *f);
    port_connection *late_connection;
    char dir[64];
} fixture;

static inline int64_t on_now(void *ctx)
{
    const fixture *f = ctx;
    return f->real_time ? port_steady_ns() : f->now_ns;
}

static inline void on_before_send(void *ctx)
{
    fixture *f = ctx;
    if (f->before_send)
        f->before_send(f);
}

/* Also ends a UV_RUN_ONCE when the awaited event has happened already. */
static inline void on_beat(uv_timer_t *timer)
{
    fixture *f = timer->data;
    if (++f->beats > PATIENCE_MS / BEAT_MS) {
        print_error("nothing more happens\n");
        abort();
    }
}

static inline int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->real_time = true;
    assert_int_equal(uv_loop_init(&f->uv), 0);
    uv_timer_init(&f->uv, &f->patience);
    f->patience.data = f;
    const net_dialer_options options = {&f->uv, f, on_now, on_before_send, f};
    assert_int_equal(net_dialer_open(&f->dialer, &options), WEIR_OK);
    f->port = net_dialer_port(f->dialer);
    strcpy(f->dir, "/tmp/weir-dial-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    char command[128];
    net_dialer_close(f->dialer);
    uv_close((uv_handle_t *)&f->patience, NULL);
    uv_run(&f->uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->uv), 0); /* all memory was freed */
    snprintf(command, sizeof command, "rm -r %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

/* Runs the loop until *what is at least `least`. */
static inline void run_until(fixture *f, const int *what, int least)
{
    uv_update_time(&f->uv);
    f->beats = 0;
    f->awaited = what;
    uv_timer_start(&f->patience, on_beat, BEAT_MS, BEAT_MS);
    while (*what < least)
        uv_run(&f->uv, UV_RUN_ONCE);
    uv_timer_stop(&f->patience);
    f->awaited = NULL;
}

/* Runs the loop until no event is ready. */
static inline void run_idle(fixture *f)
{
    for (int i = 0; i < 5; i++)
        uv_run(&f->uv, UV_RUN_NOWAIT);
}

/* ---- clients with a connection --------------------------------------------------------------- */

typedef struct caller {
    fixture *f;
    port_connection *connection;
    int ups, downs, calls; /* calls of received() */
    int received;          /* bytes received, including unread ones */
    size_t memory;         /* of `in` at the last call of received() */
    size_t leaves;         /* how many bytes received() leaves unread */
    bool closes_when_up, closes_when_received;
    char text[64]; /* the first bytes received */
    char why[256];
} caller;

static inline void on_up(void *ctx, int64_t now_ns)
{
    caller *c = ctx;
    assert_int_equal(c->downs, 0);
    assert_true(now_ns > 0);
    c->ups++;
    if (c->closes_when_up)
        c->f->port->calls->close(c->connection);
}

static inline void on_received(void *ctx, weir_buffer *in, int64_t now_ns)
{
    caller *c = ctx;
    size_t len = weir_buffer_len(in);
    assert_int_equal(c->ups, 1);
    assert_int_equal(c->downs, 0);
    assert_true(len > 0 && now_ns > 0);
    c->calls++;
    c->memory = weir_buffer_memory(in);
    if (c->received == 0)
        snprintf(c->text, sizeof c->text, "%.*s", (int)(len < 60 ? len : 60),
                 (const char *)weir_buffer_data(in));
    c->received += (int)len;
    if (c->closes_when_received) {
        c->f->port->calls->close(c->connection);
        return;
    }
    weir_buffer_consume(in, len > c->leaves ? len - c->leaves : 0);
    c->received -= (int)weir_buffer_len(in);
}

static inline void on_down(void *ctx, const char *why, int64_t now_ns)
{
    caller *c = ctx;
    assert_true(now_ns > 0);
    c->downs++;
    snprintf(c->why, sizeof c->why, "%s", why);
    if (c->f->awaited == &c->ups || c->f->awaited == &c->received)
        fail_msg("closed: %s", why);
}

static inline void call(fixture *f, caller *c, const port_endpoint *to)
{
    static const port_connection_events events = {on_up, on_received, on_down};
    c->f = f;
    c->connection = f->port->calls->connect(f->port, to, &events, c);
    assert_non_null(c->connection);
    assert_int_equal(c->ups + c->downs, 0);
}

static inline void say(caller *c, const void *bytes, size_t len)
{
    weir_buffer_append(c->f->port->calls->out(c->connection), bytes, len);
    c->f->port->calls->send(c->connection);
}

static inline void say_text(caller *c, const char *text)
{
    say(c, text, strlen(text));
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static inline int listen_tcp(uint16_t *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static inline int accept_one(int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static inline void expect_bytes(int fd, const char *text)
{
    char got[128] = {0};
    size_t len = 0;
    while (len < strlen(text)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        ssize_t n = recv(fd, got + len, strlen(text) - len, 0);
        assert_true(n > 0);
        len += (size_t)n;
    }
    assert_string_equal(got, text);
}

static inline void reply(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* An established connection, and the server's end of it. */
static inline int connect_tcp(fixture *f, caller *c)
{
    uint16_t port;
    int listener = listen_tcp(&port);
    call(f, c, &(port_endpoint){.host = "127.0.0.1", .port = port});
    run_until(f, &c->ups, 1);
    int fd = accept_one(listener);
    close(listener);
    return fd;
}

#endif
