/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opens the sockets and the event loops. The thread that runs the server runs the control loop: it
 * handles signals, watches the configuration file, and moves the other loops through the stages of
 * the server. It must not know what happens on a connection. */

#include "net/server.h"

#include "net/loop.h"
#include "net/watch.h"
#include "port/assert.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int signums[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR2};
enum { SIGNALS = sizeof signums / sizeof signums[0], TICK_MS = 1000 };

struct weir_server {
    weir_shared shared;
    uv_loop_t uv; /* the control loop */
    bool uv_open;
    uv_signal_t signals[SIGNALS];
    uv_timer_t tick_timer, beat_timer, grace_timer;
    port_counter stopping; /* 1 after the first signal to stop: `stage` changes after the grace */
    void (*tick)(void *ctx);
    void (*beat)(void *ctx);
    int64_t beat_ns;
    weir_watch watches[1 + WEIR_WATCHES_MAX]; /* the first one is options.watch */
    char *watched[1 + WEIR_WATCHES_MAX];      /* their paths; NULL: not watched */
    bool watching[1 + WEIR_WATCHES_MAX];      /* their handles are open */
    bool (*reload)(void *ctx, const char *why);
    bool (*serving)(void *ctx);
    net_hand_over hand_over;
    port_counter handed_over; /* 1 after another process has taken over */
    net_passed *passed;       /* NULL: none */

    weir_listen_socket listening[WEIR_LISTENERS_MAX];
    char configured[WEIR_LISTENERS_MAX][WEIR_LISTEN_ADDRESS_MAX]; /* their addresses */
    size_t listening_len;
    weir_loop *loops[WEIR_LOOPS_MAX];
    unsigned loops_len;
};

/* ---- the limits ------------------------------------------------------------------------------ */

static bool limits_in_range(const weir_server_limits *l)
{
    return l->connections >= 1 && l->per_address >= 0 && l->request >= 1 &&
           l->request <= (size_t)1 << 30 && l->idle_ns >= 0 && l->request_ns >= 0 &&
           l->write_ns >= 0 && l->grace_ns >= 0 && l->grace_ns <= WEIR_NOW_NS_MAX / 8 &&
           l->drain_ns >= 0 && l->drain_ns <= WEIR_NOW_NS_MAX / 8;
}

static void wake_loops(weir_server *s)
{
    for (unsigned i = 0; i < s->loops_len; i++)
        weir_loop_wake(s->loops[i]);
}

void weir_server_configure(weir_server *s, const weir_server_limits *limits)
{
    WEIR_ASSERT(limits_in_range(limits) && limits->request == s->shared.limits.request);
    port_mutex_lock(s->shared.lock);
    s->shared.limits = *limits;
    s->shared.changes++;
    port_mutex_unlock(s->shared.lock);
    wake_loops(s);
}

/* ---- the stages ------------------------------------------------------------------------------ */

static weir_stage stage_of(weir_server *s)
{
    return (weir_stage)port_word_load_relaxed(&s->shared.stage);
}

/* Moves to a later stage and wakes the loops. A repeated call does nothing, since after the last
 * stage the loops may be freed. */
static void set_stage(weir_server *s, weir_stage stage)
{
    weir_stage now = stage_of(s);
    if (now >= stage)
        return;
    WEIR_ASSERT(now < stage);
    port_word_store_release(&s->shared.stage, (uint64_t)stage);
    wake_loops(s);
}

/* Ends weir_server_run(). */
static void end(weir_server *s)
{
    set_stage(s, WEIR_STAGE_END);
    uv_stop(&s->uv);
}

void weir_server_report(weir_server *s, const char *event, const char *text)
{
    if (s->shared.report)
        s->shared.report(s->shared.ctx, event, text);
}

/*  grace_ms  how long new connections are accepted; 0: they are not. */
static void report_stopping(weir_server *s, int signum, uint64_t grace_ms)
{
    char text[192], grace[64] = "";
    if (grace_ms > 0)
        snprintf(grace, sizeof grace, "; new ones are accepted for %llu.%03u s",
                 (unsigned long long)grace_ms / 1000, (unsigned)(grace_ms % 1000));
    snprintf(text, sizeof text,
             "received %s with %llu open connections%s; a second signal closes all at once",
             signum == SIGINT ? "SIGINT" : "SIGTERM",
             (unsigned long long)port_load_relaxed(&s->shared.connected), grace);
    weir_server_report(s, "stopping", text);
}

static bool reload(weir_server *s, const char *why)
{
    return !s->reload || weir_server_stopping(s) || s->reload(s->shared.ctx, why);
}

static void on_grace_over(uv_timer_t *grace_timer)
{
    set_stage(grace_timer->data, WEIR_STAGE_DRAIN);
}

/* A person who presses Ctrl-C (SIGINT) waits for no load balancer. */
static void begin_to_stop(weir_server *s, int signum)
{
    uint64_t grace_ms =
        signum == SIGINT ? 0 : ((uint64_t)s->shared.limits.grace_ns + 999999) / 1000000;
    port_bump_relaxed(&s->stopping, 1);
    net_hand_over_cancel(&s->hand_over);
    report_stopping(s, signum, grace_ms);
    if (grace_ms > 0)
        uv_timer_start(&s->grace_timer, on_grace_over, grace_ms, 0);
    else
        set_stage(s, WEIR_STAGE_DRAIN);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    weir_server *s = handle->data;
    if (signum == SIGHUP && weir_server_stopping(s)) {
        weir_server_report(s, "reload-ignored", "received SIGHUP, but weir is stopping");
    } else if (signum == SIGHUP) {
        reload(s, "SIGHUP");
    } else if (signum == SIGUSR2) {
        net_hand_over_start(&s->hand_over);
    } else if (!weir_server_stopping(s)) {
        begin_to_stop(s, signum);
    } else {
        end(s);
    }
}

void weir_server_hand_over(weir_server *s, int pid)
{
    char text[128];
    for (size_t i = 0; i < s->listening_len; i++)
        s->listening[i].inode = 0; /* the socket files are those of the new process */
    port_bump_relaxed(&s->handed_over, 1);
    port_bump_relaxed(&s->stopping, 1);
    if (s->hand_over.options.done)
        s->hand_over.options.done(s->shared.ctx, pid);
    snprintf(text, sizeof text, "process %d serves; closing %llu open connections", pid,
             (unsigned long long)port_load_relaxed(&s->shared.connected));
    weir_server_report(s, "handed-over", text);
    set_stage(s, WEIR_STAGE_DRAIN);
}

static bool each_socket_of(weir_server *s, size_t i,
                           bool (*fn)(void *ctx, int fd, const char *configured, bool inherits),
                           void *ctx)
{
    const weir_listen_socket *listening = &s->listening[i];
    bool inherits = listening->inode != 0 || listening->inherits;
    for (unsigned k = 0; k < s->loops_len; k++) {
        /* The loops do not change them before the drain. */
        for (const weir_listener *at = s->loops[k]->listeners; at; at = at->next) {
            if (at->index == i && !fn(ctx, at->fd, s->configured[i], inherits))
                return false;
        }
    }
    return true;
}

bool weir_server_each_socket(weir_server *s,
                             bool (*fn)(void *ctx, int fd, const char *configured, bool inherits),
                             void *ctx)
{
    for (size_t i = 0; i < s->listening_len; i++) {
        if (!each_socket_of(s, i, fn, ctx))
            return false;
    }
    return true;
}

weir_status weir_server_inherit(weir_server *s, char *ret_error, size_t size)
{
    for (size_t i = 0; i < s->listening_len; i++)
        weir_listen_inherit(&s->listening[i]);
    if (s->passed)
        net_passed_close(s->passed, true);
    return net_hand_over_listen(&s->hand_over, ret_error, size);
}

static bool on_changed(void *ctx)
{
    return reload(ctx, "file changed");
}

static void on_tick(uv_timer_t *tick_timer)
{
    weir_server *s = tick_timer->data;
    s->tick(s->shared.ctx);
}

/* Whether each loop has seen the last beat. */
static bool loops_answer(const weir_server *s)
{
    uint64_t beat = port_load_relaxed(&s->shared.beat);
    for (unsigned i = 0; i < s->loops_len; i++) {
        if (port_load_relaxed(&s->loops[i]->beat) != beat)
            return false;
    }
    return true;
}

static void on_beat(uv_timer_t *beat_timer)
{
    weir_server *s = beat_timer->data;
    if (stage_of(s) == WEIR_STAGE_END || !loops_answer(s))
        return;
    s->beat(s->shared.ctx);
    port_bump_relaxed(&s->shared.beat, 1);
    for (unsigned i = 0; i < s->loops_len; i++)
        weir_loop_wake(s->loops[i]);
}

static void on_drained(uv_async_t *control)
{
    weir_server *s = control->data;
    WEIR_ASSERT(port_load_relaxed(&s->shared.drained) <= s->loops_len);
    if (port_load_relaxed(&s->shared.drained) == s->loops_len)
        end(s);
}

void weir_server_run(weir_server *s)
{
    WEIR_ASSERT(stage_of(s) == WEIR_STAGE_READY);
    set_stage(s, WEIR_STAGE_SERVE);
    if (s->serving && !s->serving(s->shared.ctx))
        set_stage(s, WEIR_STAGE_END);
    else
        uv_run(&s->uv, UV_RUN_DEFAULT);
    for (unsigned i = 0; i < s->loops_len; i++)
        weir_loop_join(s->loops[i]);
    weir_server_report(s, "stopped", "all connections are closed");
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool in_range(const weir_server_options *o)
{
    return o->listens_len >= 1 && o->listens_len <= WEIR_LISTENERS_MAX && o->loops >= 1 &&
           o->loops <= WEIR_LOOPS_MAX && o->beat_ns >= 0 && limits_in_range(&o->limits);
}

/* Watches a path as number i of s->watches. */
static weir_status watch(weir_server *s, size_t i, const char *path)
{
    size_t len = strlen(path);
    char *copy = port_zalloc(1, len + 1);
    if (!copy)
        return WEIR_E_NOMEM;
    memcpy(copy, path, len);
    weir_watch *w = &s->watches[i];
    bool events = s->watching[i] ? weir_watch_move(w, copy)
                                 : weir_watch_start(w, &s->uv, copy, on_changed, s);
    s->watching[i] = true;
    port_free(s->watched[i]);
    s->watched[i] = copy;
    if (!events)
        weir_shared_report(&s->shared, WEIR_EVENT_WATCH,
                           "cannot watch the directory of the configuration file (inotify); the "
                           "file is checked every two seconds");
    return WEIR_OK;
}

weir_status weir_server_watch(weir_server *s, size_t i, const char *path)
{
    WEIR_ASSERT(i < WEIR_WATCHES_MAX);
    const char *before = s->watched[i + 1];
    if (path && (!before || strcmp(before, path) != 0))
        return watch(s, i + 1, path);
    if (!path && before) {
        weir_watch_stop(&s->watches[i + 1]);
        port_free(s->watched[i + 1]);
        s->watched[i + 1] = NULL;
    }
    return WEIR_OK;
}

static weir_status open_control(weir_server *s, const weir_server_options *o)
{
    s->uv_open = uv_loop_init(&s->uv) == 0;
    if (!s->uv_open || uv_async_init(&s->uv, &s->shared.control, on_drained) != 0)
        return WEIR_E_IO;
    s->shared.control.data = s;
    for (size_t i = 0; i < SIGNALS; i++) {
        s->signals[i].data = s;
        if (uv_signal_init(&s->uv, &s->signals[i]) != 0 ||
            uv_signal_start(&s->signals[i], on_signal, signums[i]) != 0)
            return WEIR_E_IO;
    }
    signal(SIGPIPE, SIG_IGN);
    uv_timer_init(&s->uv, &s->grace_timer);
    s->grace_timer.data = s;
    if (s->beat_ns > 0) {
        uint64_t ms = ((uint64_t)s->beat_ns + 999999) / 1000000;
        uv_timer_init(&s->uv, &s->beat_timer);
        s->beat_timer.data = s;
        uv_timer_start(&s->beat_timer, on_beat, ms, ms);
    }
    if (s->tick) {
        uv_timer_init(&s->uv, &s->tick_timer);
        s->tick_timer.data = s;
        uv_timer_start(&s->tick_timer, on_tick, TICK_MS, TICK_MS);
    }
    net_hand_over_open(&s->hand_over, s, o->ctx, &s->uv, &o->hand_over);
    return o->watch ? watch(s, 0, o->watch) : WEIR_OK;
}

static weir_status open_loops(weir_server *s, const weir_server_options *o)
{
    for (unsigned i = 0; i < o->loops; i++) {
        void *context = o->contexts ? o->contexts[i] : NULL;
        weir_status st = weir_loop_open(&s->loops[i], &s->shared, context);
        if (st != WEIR_OK)
            return st;
        s->loops_len++;
    }
    return WEIR_OK;
}

/* A process with more loops may have passed more sockets than this one has loops. */
static weir_status open_listener(weir_server *s, const weir_listen_address *listen, char *ret_error,
                                 size_t size)
{
    static_assert(WEIR_SOCKETS_MAX == WEIR_LOOPS_MAX, "a listener has a socket for each loop");
    int fds[WEIR_SOCKETS_MAX];
    size_t index = s->listening_len;
    weir_listen_socket *listening = &s->listening[index];
    unsigned len = 0;
    weir_status st = WEIR_OK;
    if (s->passed)
        st = net_passed_use(s->passed, listen, listening, fds, s->loops_len, &len, ret_error, size);
    if (st == WEIR_OK && len == 0) {
        len = s->loops_len;
        st = weir_listen_open(listening, listen->address, fds, len, ret_error, size);
    }
    if (st != WEIR_OK)
        return st;
    s->listening_len++;
    snprintf(s->configured[index], WEIR_LISTEN_ADDRESS_MAX, "%s", listen->address);
    for (unsigned i = 0; i < len; i++) {
        if (st == WEIR_OK)
            st = weir_loop_listen(s->loops[i % s->loops_len], fds[i], listening->is_tcp, index,
                                  listen);
        else
            close(fds[i]);
    }
    return st;
}

static weir_status start_loops(weir_server *s)
{
    for (unsigned i = 0; i < s->loops_len; i++) {
        if (weir_loop_start(s->loops[i]) != WEIR_OK)
            return WEIR_E_IO;
    }
    return WEIR_OK;
}

weir_status weir_server_open(weir_server **ret, const weir_server_options *options, char *ret_error,
                             size_t size)
{
    if (!in_range(options))
        return WEIR_E_RANGE;
    weir_server *s = port_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_E_NOMEM;
    snprintf(ret_error, size,
             "out of file descriptors, threads or memory; raise the limits of the process");
    s->shared.limits = options->limits;
    s->shared.ctx = options->ctx;
    s->shared.now = options->now;
    s->shared.report = options->report;
    s->shared.may_proxy = options->may_proxy;
    s->shared.begin = options->begin;
    s->shared.refresh = options->refresh;
    s->shared.end = options->end;
    s->tick = options->tick;
    s->beat = options->beat;
    s->beat_ns = options->beat_ns;
    s->reload = options->reload;
    s->serving = options->serving;
    s->passed = options->passed;
    s->shared.lock = port_mutex_new();
    weir_status st = s->shared.lock ? WEIR_OK : WEIR_E_NOMEM;
    if (st == WEIR_OK)
        st = net_admission_open(&s->shared.admission);
    if (st == WEIR_OK)
        st = open_control(s, options);
    if (st == WEIR_OK)
        st = open_loops(s, options);
    for (size_t i = 0; i < options->listens_len && st == WEIR_OK; i++)
        st = open_listener(s, &options->listens[i], ret_error, size);
    if (st == WEIR_OK && options->passed)
        st = net_passed_check(options->passed, ret_error, size);
    if (st == WEIR_OK && !net_passed_is_from_daemon(options->passed))
        st = net_hand_over_listen(&s->hand_over, ret_error, size);
    if (st == WEIR_OK)
        st = start_loops(s);
    if (st == WEIR_OK) {
        *ret = s;
        return WEIR_OK;
    }
    weir_server_close(s);
    return st;
}

bool weir_server_is_full(const weir_server *s)
{
    port_mutex_lock(s->shared.lock);
    int places = s->shared.limits.connections;
    port_mutex_unlock(s->shared.lock);
    places -= 2 * net_admission_reserved(places);
    return port_load_relaxed(&s->shared.connected) >= (uint64_t)places;
}

bool weir_server_stopping(const weir_server *s)
{
    return port_load_relaxed(&s->stopping) > 0;
}

bool weir_server_handed_over(const weir_server *s)
{
    return port_load_relaxed(&s->handed_over) > 0;
}

const char *weir_server_address(const weir_server *s, size_t i)
{
    return s->listening[i].text;
}

/* ---- closing --------------------------------------------------------------------------------- */

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void weir_server_close(weir_server *s)
{
    if (!s)
        return;
    set_stage(s, WEIR_STAGE_END); /* for a server that never ran */
    for (unsigned i = 0; i < s->loops_len; i++) {
        weir_loop_join(s->loops[i]);
        weir_loop_close(s->loops[i]);
    }
    for (size_t i = 0; i < s->listening_len; i++)
        weir_listen_remove(&s->listening[i]);
    if (s->uv_open) {
        net_hand_over_close(&s->hand_over);
        uv_walk(&s->uv, close_handle, NULL);
        uv_run(&s->uv, UV_RUN_DEFAULT);
        uv_loop_close(&s->uv);
    }
    net_admission_close(&s->shared.admission);
    port_mutex_free(s->shared.lock);
    for (size_t i = 0; i < sizeof s->watched / sizeof s->watched[0]; i++)
        port_free(s->watched[i]);
    port_free(s);
}

/* ---- counts ---------------------------------------------------------------------------------- */

weir_server_stats weir_server_stats_get(const weir_server *s)
{
    weir_server_stats sum = {.connected = port_load_relaxed(&s->shared.connected),
                             .buffered = port_load_relaxed(&s->shared.buffered)};
    for (unsigned i = 0; i < s->loops_len; i++) {
        const weir_loop_stats *stats = &s->loops[i]->stats;
        sum.accepted += port_load_relaxed(&stats->accepted);
        sum.refused += port_load_relaxed(&stats->refused);
        sum.refused_address += port_load_relaxed(&stats->refused_address);
        sum.overloaded += port_load_relaxed(&stats->overloaded);
        sum.timed_out += port_load_relaxed(&stats->timed_out);
        sum.unproxied += port_load_relaxed(&stats->unproxied);
        sum.bytes_in += port_load_relaxed(&stats->bytes_in);
        sum.bytes_out += port_load_relaxed(&stats->bytes_out);
    }
    return sum;
}
