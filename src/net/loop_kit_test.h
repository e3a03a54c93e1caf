/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_LOOP_KIT_TEST_H
#define WEIR_NET_LOOP_KIT_TEST_H
/* An event loop and its connections on the thread of the test, with a fake clock. accept4() is
 * wrapped, too. pass() fires each timer in the millisecond in which it is due. After every step,
 * check_world() walks all structures. */

#include "net/fixture_test.h"
#include "net/loop.h"

#include "net/timers_kit_test.h"

#include <errno.h>

static int64_t wall_ns; /* the clock of the requests */

/* ---- accept4() ------------------------------------------------------------------------------- */

int __real_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);

static int accept_errno; /* 0: accept */
static int accept_errors;
static int accepts; /* calls */

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    accepts++;
    if (accept_errors == 0)
        return __real_accept4(fd, address, len, flags);
    accept_errors--;
    errno = accept_errno;
    return -1;
}

enum { CLIENTS = 8 };

static inline uint64_t random_below(uint64_t *random, uint64_t n)
{
    *random = *random * 6364136223846793005U + 1442695040888963407U;
    return (*random >> 33) % n;
}

/* ---- a loop ---------------------------------------------------------------------------------- */

typedef struct world {
    weir_shared shared;
    weir_loop *loop;
    uv_loop_t control;
    int drained; /* wakes of the control loop */
    loop_context context;
    struct sockaddr_un address[2]; /* of the listeners */
    socklen_t address_len;
    char reports[1024]; /* since the last expect_reports() */
} world;

static inline int64_t world_now(void *ctx)
{
    (void)ctx;
    return wall_ns;
}

static inline void world_report(void *ctx, const char *event, const char *text)
{
    world *w = ctx;
    size_t len = strlen(w->reports);
    snprintf(w->reports + len, sizeof w->reports - len, "%s: %s\n", event, text);
}

static inline void expect_reports(world *w, const char *text)
{
    assert_string_equal(w->reports, text);
    w->reports[0] = '\0';
}

static inline void on_control(uv_async_t *control)
{
    ((world *)control->data)->drained++;
}

static inline void open_world(world *w, const weir_server_limits *limits,
                              const weir_protocol *protocol)
{
    memset(w, 0, sizeof *w);
    reset_timers();
    wall_ns = 1700000000 * s_ns;
    w->shared.limits = *limits;
    w->shared.ctx = w;
    w->shared.now = world_now;
    w->shared.report = world_report;
    w->shared.lock = port_mutex_new();
    assert_int_equal(uv_loop_init(&w->control), 0);
    assert_int_equal(uv_async_init(&w->control, &w->shared.control, on_control), 0);
    w->shared.control.data = w;
    assert_int_equal(weir_loop_open(&w->loop, &w->shared, &w->context), WEIR_OK);
    const weir_listen_address listen_address = {.protocol = protocol};
    for (int i = 0; i < 2; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr *address = (struct sockaddr *)&w->address[i];
        address->sa_family = AF_UNIX;
        w->address_len = sizeof w->address[i];
        assert_int_equal(bind(fd, address, sizeof address->sa_family), 0); /* chooses a name */
        assert_int_equal(getsockname(fd, address, &w->address_len), 0);
        assert_int_equal(listen(fd, 256), 0);
        assert_int_equal(weir_loop_listen(w->loop, fd, false, (size_t)i, &listen_address), WEIR_OK);
    }
}

/* Checks one connection. Returns the bytes of its buffers. */
static inline size_t check_connection(const weir_loop *l, const weir_connection *c)
{
    assert_ptr_equal(c->loop, l);
    assert_ptr_equal(*c->link, c);
    assert_true(c->state < WEIR_CONNECTION_CLOSED);
    assert_int_equal(c->wait.place != 0, c->state == WEIR_CONNECTION_WAIT);
    assert_int_equal(c->reading, uv_is_active(&c->uv.handle) && c->state != WEIR_CONNECTION_WRITE);
    bool has_session = !c->refused || c->protocol->only_health;
    assert_int_equal(c->in_session, has_session && c->state < WEIR_CONNECTION_LINGER);
    assert_int_equal(c->refused, net_is_queued(&c->refused_place));
    size_t held = weir_buffer_memory(&c->in) + weir_buffer_memory(&c->out);
    if (c->in_session && c->protocol->usage)
        held += c->protocol->usage(c->session).bytes;
    assert_int_equal(c->held, held);
    assert_true(!net_is_queued(&c->backlog_place) || c->state == WEIR_CONNECTION_READ);
    assert_true(!c->again || c->state != WEIR_CONNECTION_READ || net_is_queued(&c->backlog_place));
    return held;
}

static inline void check_world(world *w)
{
    const weir_loop *l = w->loop;
    size_t len = 0, refused = 0, waits = 0, sessions = 0, held = 0;
    for (const weir_connection *c = l->connections; c; c = c->next) {
        held += check_connection(l, c);
        len++;
        refused += c->refused;
        waits += c->wait.place != 0;
        sessions += c->in_session;
    }
    assert_int_equal(l->connections_len, len);
    assert_int_equal(l->refused_len, refused);
    assert_int_equal(l->waits.len, waits);
    assert_int_equal(port_load_relaxed(&w->shared.connected), len - refused);
    assert_int_equal(port_load_relaxed(&w->shared.buffered), held);
    assert_int_equal(w->context.open, sessions);
    assert_int_equal(weir_buffer_len(&l->out), 0);
    assert_null(l->woken.first);
    assert_null(l->backlog.first);
    assert_false(uv_is_active((const uv_handle_t *)&l->busy));
    const weir_wait *first = weir_wait_heap_first(&l->waits);
    assert_int_equal(l->waits_ns, first ? first->at_ns : 0);
    assert_true(!first || due_in(&l->waits_timer) >= 0);
    for (int i = 0; i < TIMERS_MAX; i++)
        assert_int_equal(timers[i].repeat_ms > 0, timers[i].handle == &l->sweep);
}

/* Runs the loop until no event is ready. */
static inline void step(world *w)
{
    for (int i = 0; i < 3 || w->loop->backlog.first; i++)
        uv_run(&w->loop->uv, UV_RUN_NOWAIT);
    uv_run(&w->control, UV_RUN_NOWAIT);
    check_world(w);
}

static inline void reach(world *w, weir_stage stage)
{
    port_word_store_relaxed(&w->shared.stage, stage);
    uv_async_send(&w->loop->wake);
    step(w);
}

/* Lets both clocks advance, and fires the timers in order. */
static inline void pass(world *w, uint64_t ms)
{
    uint64_t end_ms = clock_ms + ms;
    for (timer *t; (t = first_due(end_ms));) {
        wall_ns += (int64_t)(t->due_ms - clock_ms) * ms_ns;
        fire(t);
        step(w);
    }
    wall_ns += (int64_t)(end_ms - clock_ms) * ms_ns;
    clock_ms = end_ms;
}

static inline void close_world(world *w)
{
    weir_loop_close(w->loop);
    assert_int_equal(port_load_relaxed(&w->shared.connected), 0);
    assert_int_equal(port_load_relaxed(&w->shared.buffered), 0);
    assert_int_equal(w->context.open, 0);
    uv_close((uv_handle_t *)&w->shared.control, NULL);
    uv_run(&w->control, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->control), 0);
    port_mutex_free(w->shared.lock);
}

static const weir_server_limits usual = {
    .connections = 1000, .buffers = (size_t)64 << 20, .request = 1 << 20};

/* ---- clients --------------------------------------------------------------------------------- */

/* Connects to a listener, without running the loop. */
static inline int knock(const world *w, int listener)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&w->address[listener], w->address_len),
                     0);
    return fd;
}

static inline int join_world(world *w)
{
    int fd = knock(w, 0);
    step(w);
    return fd;
}

static inline void tell(world *w, int fd, const char *text)
{
    say(fd, text);
    step(w);
}

/* Expects that exactly these bytes have arrived. */
static inline void expect_now(int fd, const char *text)
{
    char got[256] = "";
    ssize_t n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    got[n > 0 ? n : 0] = '\0';
    assert_string_equal(got, text);
}

/* Returns whether the server has shut down sending. */
static inline bool has_ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static inline void delay_until(world *w, int fd, int64_t until_ns)
{
    char line[64];
    snprintf(line, sizeof line, "until %lld 0\n", (long long)until_ns);
    tell(w, fd, line);
}

#endif
