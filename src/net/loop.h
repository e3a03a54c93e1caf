/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_LOOP_H
#define WEIR_NET_LOOP_H
/* One loop and its thread: its listeners, its connections, its timers; and the little that all
 * loops share. */

#include "net/dial.h"
#include "net/listen.h"
#include "net/server.h"
#include "net/wait_heap.h"
#include "port/atomic.h"
#include "port/port.h"

#include <uv.h>

/* ---- what all loops share -------------------------------------------------------------------- */

typedef enum weir_stage {
    WEIR_STAGE_READY, /* listening, but nobody is served */
    WEIR_STAGE_SERVE,
    WEIR_STAGE_DRAIN, /* ends when its connections have */
    WEIR_STAGE_END
} weir_stage;

/* What is said at most once a second. */
typedef enum weir_event {
    WEIR_EVENT_REFUSED,
    WEIR_EVENT_OVERLOADED,
    WEIR_EVENT_TIMED_OUT,
    WEIR_EVENT_ACCEPT,
    WEIR_EVENT_WATCH,
    WEIR_EVENTS
} weir_event;

typedef struct weir_shared {
    weir_server_limits limits;
    int64_t drain_ns;
    void *ctx;
    int64_t (*now)(void *ctx);
    void (*say)(void *ctx, const char *event, const char *text);
    void (*begin)(void *context, port_dialer *dialer);
    void (*end)(void *context);
    port_mutex *lock; /* of the next two */
    uint64_t said_ms[WEIR_EVENTS];
    uint64_t unsaid[WEIR_EVENTS];

    /* Relaxed, all of them: nothing else is published by them. */
    port_counter connected;
    port_counter buffered;
    port_counter stage;   /* a weir_stage; written by the control loop alone, which then wakes */
    port_counter drained; /* loops that have nothing left to do; `control` is woken after it */
    uv_async_t control;
} weir_shared;

/* Says that `event` has happened, and how often it has since it was said last. Any thread. */
void weir_shared_say(weir_shared *shared, weir_event event, const char *text);

/* ---- a loop ---------------------------------------------------------------------------------- */

typedef struct weir_loop weir_loop;
typedef struct weir_connection weir_connection;

typedef struct weir_listener {
    uv_poll_t poll;
    int fd; /* -1: none */
    bool is_tcp;
    const weir_protocol *protocol;
    weir_loop *loop;
} weir_listener;

/* Written by the loop's thread alone. */
typedef struct weir_loop_stats {
    port_counter accepted, refused, overloaded, timed_out, bytes_in, bytes_out;
} weir_loop_stats;

struct weir_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t sweep;  /* looks for connections whose time is over */
    uv_timer_t resume; /* accepts again after a pause */
    uv_timer_t drain;  /* ends what a stopping server waits for */
    uv_timer_t waits_timer;
    weir_shared *shared;
    void *context;
    net_dialer *dialer; /* NULL if nobody wants one */
    bool begun;         /* between shared->begin and shared->end */
    weir_listener listeners[WEIR_LISTENERS_MAX];
    size_t listeners_len;

    weir_connection *connections;
    size_t connections_len;
    size_t refused_len; /* of them, those over the limit, which get an error and are closed */
    bool serving, stopping, reported;
    int64_t last_ns; /* when stopping: until when, by weir_loop_now() */

    /* Lent to the connection that is being served, so that one that has nothing to keep has no
     * memory for it. Empty otherwise. */
    weir_buffer in, out;

    weir_wait_heap waits; /* by weir_loop_now() */
    int64_t waits_ns;     /* what waits_timer is set to; 0: nothing */

    weir_connection *woken, **woken_end; /* in order; woken_end: where the next is put */

    weir_loop_stats stats;
    port_thread *thread;
};

/* Makes a loop that has no listener yet. Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO. On failure there
 * is nothing to free. */
WEIR_NODISCARD weir_status weir_loop_open(weir_loop **ret, weir_shared *shared, void *context);

/* Takes over a listening socket. Returns WEIR_OK or WEIR_E_IO; the socket is taken in any case. */
WEIR_NODISCARD weir_status weir_loop_listen(weir_loop *l, int fd, bool is_tcp,
                                            const weir_protocol *protocol);

/* Starts its thread. From then on it belongs to that, and goes by shared->stage when it is woken.
 * Returns WEIR_OK or WEIR_E_IO. */
WEIR_NODISCARD weir_status weir_loop_start(weir_loop *l);

/* Tells it to look at shared->stage. Any thread, until WEIR_STAGE_END was told. */
void weir_loop_wake(weir_loop *l);

/* Waits for its thread, which was told WEIR_STAGE_END or never started. */
void weir_loop_join(weir_loop *l);

/* Accepts NULL. Only after weir_loop_join(). */
void weir_loop_close(weir_loop *l);

/* ---- for its connections --------------------------------------------------------------------- */

/* One of its connections has gone. */
void weir_loop_left(weir_loop *l);

/* Has weir_connection_wake() called for it in this round, once. */
void weir_loop_woken(weir_loop *l, weir_connection *c);

/* It is not woken any more. */
void weir_loop_not_woken(weir_loop *l, weir_connection *c);

/* `one` has become one of its waits, or is none any more. */
void weir_loop_waits_changed(weir_loop *l);

/* The time that requests happen at. */
static inline int64_t weir_loop_now(const weir_loop *l)
{
    return l->shared->now(l->shared->ctx);
}

#endif
