/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* An event loop accepts connections, enforces their timeouts, sends delayed replies in time, and
 * follows the stages of the server. It must not know what a connection reads or writes. */

#define _GNU_SOURCE /* accept4 */

#include "net/loop.h"

#include "port/assert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_MAX = 64, /* accepted at once, before connections are served */
    PAUSE_MS = 100,   /* before accepting again, when descriptors are exhausted */
    SWEEP_MS = 1000,  /* between checks of timeouts; less if a timeout is short */
    SWEEP_MS_MIN = 10,
    SWEEP_STOPPING_MS = 50,
    IN_SIZE = 96 << 10,
    OUT_SIZE = 16 << 20,
};

/* ---- reports --------------------------------------------------------------------------------- */

void weir_shared_report(weir_shared *shared, weir_event event, const char *text)
{
    static const char *const names[WEIR_EVENTS] = {"refused",      "overloaded", "timed-out",
                                                   "proxy-header", "accept",     "watch"};
    if (!shared->report)
        return;
    uint64_t now_ms = uv_hrtime() / 1000000;
    port_mutex_lock(shared->lock);
    uint64_t times = ++shared->unreported[event];
    bool due = shared->reported_ms[event] == 0 || now_ms - shared->reported_ms[event] >= 1000;
    if (due) {
        shared->reported_ms[event] = now_ms;
        shared->unreported[event] = 0;
    }
    port_mutex_unlock(shared->lock);
    if (!due)
        return;
    char line[256];
    if (times > 1)
        snprintf(line, sizeof line, "%s (%llu times)", text, (unsigned long long)times);
    else
        snprintf(line, sizeof line, "%s", text);
    shared->report(shared->ctx, names[event], line);
}

/* ---- accepting ------------------------------------------------------------------------------- */

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void listeners_start(weir_loop *l)
{
    for (weir_listener *listener = l->listeners; listener; listener = listener->next)
        uv_poll_start(&listener->poll, UV_READABLE, on_acceptable);
}

static void on_resume(uv_timer_t *timer)
{
    listeners_start(timer->data);
}

static void pause_accepting(weir_loop *l, int err)
{
    char text[160];
    snprintf(text, sizeof text, "cannot accept connections: %s; trying again in %d ms",
             uv_strerror(uv_translate_sys_error(err)), PAUSE_MS);
    weir_shared_report(l->shared, WEIR_EVENT_ACCEPT, text);
    for (weir_listener *listener = l->listeners; listener; listener = listener->next)
        uv_poll_stop(&listener->poll);
    uv_timer_start(&l->resume, on_resume, PAUSE_MS, 0);
}

/* Any other error of accept() concerns a client that has disconnected. */
static bool is_shortage(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

static void accept_some(weir_listener *listener)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            weir_connection_open(listener, fd);
            continue;
        }
        if (errno == EAGAIN)
            break;
        if (is_shortage(errno)) {
            pause_accepting(listener->loop, errno);
            break;
        }
    }
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    weir_loop *l = poll->loop->data;
    accept_some(poll->data);
    if (status < 0) /* the socket is broken: poll it again later */
        pause_accepting(l, ENOBUFS);
}

static void listeners_close(weir_loop *l)
{
    for (weir_listener *listener = l->listeners; listener; listener = listener->next) {
        if (!uv_is_closing((uv_handle_t *)&listener->poll))
            uv_close((uv_handle_t *)&listener->poll, NULL);
        if (listener->fd >= 0)
            close(listener->fd);
        listener->fd = -1;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void release_waits(weir_loop *l)
{
    int64_t now_ns = weir_loop_now(l);
    l->waits_ns = 0;
    for (weir_wait *w; (w = weir_wait_heap_first(&l->waits)) && w->at_ns <= now_ns;) {
        weir_wait_heap_remove(&l->waits, w);
        weir_connection_release(WEIR_CONNECTION_OF(w, wait));
    }
    weir_loop_waits_changed(l);
}

static void on_waits(uv_timer_t *timer)
{
    release_waits(timer->data);
}

/* Checks for timeouts, and for delayed replies that are due: libuv timers stand still while the
 * machine sleeps, but the clock of the delays does not. */
static void on_sweep(uv_timer_t *timer)
{
    weir_loop *l = timer->data;
    if (weir_wait_heap_first(&l->waits))
        release_waits(l);
    uint64_t now_ms = uv_now(&l->uv);
    for (weir_connection *c = l->connections, *next; c; c = next) {
        next = c->next;
        weir_connection_sweep(c, now_ms);
    }
}

/* The interval of the checks: a quarter of the shortest timeout. */
static uint64_t sweep_ms(const weir_server_limits *limits)
{
    const int64_t limit_ns[] = {limits->idle_ns, limits->request_ns, limits->write_ns};
    int64_t ms = SWEEP_MS;
    for (size_t i = 0; i < sizeof limit_ns / sizeof limit_ns[0]; i++) {
        if (limit_ns[i] > 0 && limit_ns[i] / 4000000 < ms)
            ms = limit_ns[i] / 4000000;
    }
    return ms < SWEEP_MS_MIN ? SWEEP_MS_MIN : (uint64_t)ms;
}

void weir_loop_waits_changed(weir_loop *l)
{
    const weir_wait *first = weir_wait_heap_first(&l->waits);
    int64_t at_ns = first ? first->at_ns : 0;
    if (at_ns == l->waits_ns)
        return;
    l->waits_ns = at_ns;
    if (!first) {
        uv_timer_stop(&l->waits_timer);
        return;
    }
    int64_t left_ns = at_ns - weir_loop_now(l);
    uv_timer_start(&l->waits_timer, on_waits,
                   left_ns > 0 ? ((uint64_t)left_ns + 999999) / 1000000 : 0, 0);
}

/* ---- connections whose reply is ready -------------------------------------------------------- */

static void wake_connections(void *ctx)
{
    weir_loop *l = ctx;
    for (net_place *p; (p = l->woken.first);) {
        net_queue_remove(&l->woken, p);
        weir_connection_wake(WEIR_CONNECTION_OF(p, woken_place));
    }
}

/* ---- the iterations of the loop -------------------------------------------------------------- */

static void on_busy(uv_idle_t *busy)
{
    (void)busy;
}

void weir_loop_queue(weir_loop *l, weir_connection *c)
{
    net_queue_add(&l->backlog, &c->backlog_place);
    uv_idle_start(&l->busy, on_busy);
}

/* Begins an iteration of the loop: serves the backlog. Events follow. */
static void on_turn(uv_prepare_t *turn)
{
    weir_loop *l = turn->data;
    l->budget = WEIR_TURN;
    for (net_place *p; l->budget > 0 && (p = l->backlog.first);) {
        net_queue_remove(&l->backlog, p);
        weir_connection_visit(WEIR_CONNECTION_OF(p, backlog_place));
    }
    l->budget = WEIR_TURN;
    if (!l->backlog.first)
        uv_idle_stop(&l->busy);
}

/* ---- the stages ------------------------------------------------------------------------------ */

static void close_connections(weir_loop *l)
{
    while (l->connections)
        weir_connection_close(l->connections);
}

static void on_drain_over(uv_timer_t *timer)
{
    close_connections(timer->data);
}

void weir_loop_left(weir_loop *l)
{
    if (!l->stopping || l->connections || l->reported)
        return;
    l->reported = true;
    port_add_relaxed(&l->shared->drained, 1);
    uv_async_send(&l->shared->control);
}

static void drain(weir_loop *l)
{
    WEIR_ASSERT(!l->stopping && !l->reported);
    /* Clients in the accept queue are connected and may have sent requests: serve them, too. */
    for (weir_listener *listener = l->listeners; listener; listener = listener->next)
        accept_some(listener);
    listeners_close(l);
    uv_timer_stop(&l->resume);
    int64_t drain_ns = l->limits.drain_ns;
    l->stopping = true;
    l->last_ns = weir_loop_now(l) + drain_ns;
    uv_timer_start(&l->drain, on_drain_over, ((uint64_t)drain_ns + 999999) / 1000000, 0);
    uv_timer_start(&l->sweep, on_sweep, SWEEP_STOPPING_MS, SWEEP_STOPPING_MS);
    for (weir_connection *c = l->connections, *next; c; c = next) {
        next = c->next;
        weir_connection_stop(c);
    }
    weir_loop_left(l);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void end(weir_loop *l)
{
    close_connections(l);
    listeners_close(l);
    if (l->begun && l->shared->end)
        l->shared->end(l->context);
    l->begun = false;
    net_dialer_close(l->dialer);
    l->dialer = NULL;
    uv_walk(&l->uv, close_handle, NULL);
}

/* Starts the checks. If their interval is as before, the next one stays due. */
static void sweep_regularly(weir_loop *l)
{
    uint64_t ms = sweep_ms(&l->limits);
    if (l->sweep_ms != ms)
        uv_timer_start(&l->sweep, on_sweep, ms, ms);
    l->sweep_ms = ms;
}

/* Takes over the limits if they have changed. */
static void refresh(weir_loop *l)
{
    weir_shared *shared = l->shared;
    port_mutex_lock(shared->lock);
    bool changed = l->changes != shared->changes;
    l->changes = shared->changes;
    l->limits = shared->limits;
    port_mutex_unlock(shared->lock);
    if (changed && l->serving && !l->stopping)
        sweep_regularly(l);
    if (changed && shared->refresh)
        shared->refresh(l->context);
}

static void on_wake(uv_async_t *wake)
{
    weir_loop *l = wake->data;
    refresh(l);
    port_bump_relaxed(&l->beat, port_load_relaxed(&l->shared->beat) - port_load_relaxed(&l->beat));
    weir_stage stage = (weir_stage)port_word_load_acquire(&l->shared->stage);
    if (stage == WEIR_STAGE_SERVE && !l->serving) {
        l->serving = true;
        sweep_regularly(l);
        listeners_start(l);
    } else if (stage == WEIR_STAGE_DRAIN && !l->stopping) {
        drain(l);
    } else if (stage == WEIR_STAGE_END) {
        end(l);
    }
}

/* ---- open and close -------------------------------------------------------------------------- */

weir_status weir_loop_open(weir_loop **ret, weir_shared *shared, void *context)
{
    weir_loop *l = port_zalloc(1, sizeof *l);
    if (!l)
        return WEIR_E_NOMEM;
    if (uv_loop_init(&l->uv) != 0) {
        port_free(l);
        return WEIR_E_IO;
    }
    l->uv.data = l->wake.data = l;
    l->shared = shared;
    l->limits = shared->limits;
    l->context = context;
    net_queue_init(&l->woken);
    net_queue_init(&l->backlog);
    net_queue_init(&l->refused);
    weir_buffer_init(&l->in, IN_SIZE);
    weir_buffer_init(&l->out, OUT_SIZE);
    uv_timer_t *timers[] = {&l->sweep, &l->resume, &l->drain, &l->waits_timer};
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(&l->uv, timers[i]);
        timers[i]->data = l;
    }
    uv_idle_init(&l->uv, &l->busy);
    uv_prepare_init(&l->uv, &l->turn);
    l->turn.data = l;
    uv_prepare_start(&l->turn, on_turn);
    const net_dialer_options dialer = {&l->uv, shared->ctx, shared->now, wake_connections, l};
    weir_status st = uv_async_init(&l->uv, &l->wake, on_wake) == 0 ? WEIR_OK : WEIR_E_IO;
    if (st == WEIR_OK && shared->begin)
        st = net_dialer_open(&l->dialer, &dialer);
    if (st != WEIR_OK) {
        weir_loop_close(l);
        return st;
    }
    *ret = l;
    return WEIR_OK;
}

static weir_status wrap_in_tls(weir_listener *listener, struct net_tls_server *server)
{
    const weir_loop *l = listener->loop;
    weir_status st = weir_tls_protocol_init(&listener->tls, server, listener->protocol, l->context,
                                            l->limits.request);
    listener->protocol = &listener->tls.outer;
    listener->context = &listener->tls;
    return st;
}

weir_status weir_loop_listen(weir_loop *l, int fd, bool is_tcp, size_t index,
                             const weir_listen_address *address)
{
    WEIR_ASSERT(index < WEIR_LISTENERS_MAX && !l->serving);
    weir_listener *listener = port_zalloc(1, sizeof *listener);
    weir_status st = listener ? WEIR_OK : WEIR_E_NOMEM;
    if (listener)
        *listener = (weir_listener){.fd = fd,
                                    .is_tcp = is_tcp,
                                    .proxy_protocol = address->proxy_protocol,
                                    .protocol = address->protocol,
                                    .context = l->context,
                                    .loop = l,
                                    .index = (uint8_t)index};
    if (listener && address->tls)
        st = wrap_in_tls(listener, address->tls);
    if (st == WEIR_OK && uv_poll_init(&l->uv, &listener->poll, fd) != 0)
        st = WEIR_E_IO;
    if (st != WEIR_OK) {
        if (listener)
            weir_tls_protocol_free(&listener->tls);
        port_free(listener);
        close(fd);
        return st;
    }
    listener->poll.data = listener;
    weir_listener **last = &l->listeners;
    while (*last)
        last = &(*last)->next;
    *last = listener;
    return WEIR_OK;
}

static void run(void *arg)
{
    weir_loop *l = arg;
    if (l->dialer) {
        l->begun = true;
        l->shared->begin(l->context, net_dialer_port(l->dialer));
    }
    uv_run(&l->uv, UV_RUN_DEFAULT);
}

weir_status weir_loop_start(weir_loop *l)
{
    WEIR_ASSERT(!l->thread);
    l->thread = port_thread_start(run, l);
    return l->thread ? WEIR_OK : WEIR_E_IO;
}

void weir_loop_wake(weir_loop *l)
{
    if (l->thread)
        uv_async_send(&l->wake);
}

void weir_loop_join(weir_loop *l)
{
    port_thread_join(l->thread);
    l->thread = NULL;
}

void weir_loop_close(weir_loop *l)
{
    end(l); /* for a loop that never started */
    uv_run(&l->uv, UV_RUN_DEFAULT);
    WEIR_ASSERT(l->connections_len == 0 && l->refused_len == 0 && l->waits.len == 0);
    WEIR_ASSERT(!l->woken.first && !l->backlog.first);
    int err = uv_loop_close(&l->uv);
    WEIR_ASSERT(err == 0); /* no handle is open */
    (void)err;
    while (l->listeners) {
        weir_listener *listener = l->listeners;
        l->listeners = listener->next;
        weir_tls_protocol_free(&listener->tls);
        port_free(listener);
    }
    weir_wait_heap_free(&l->waits);
    weir_buffer_free(&l->in);
    weir_buffer_free(&l->out);
    port_free(l);
}
