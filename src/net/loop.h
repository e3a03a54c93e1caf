/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_LOOP_H
#define WEIR_NET_LOOP_H
/* An event loop and its thread: listeners, connections and timers. This file also has the state
 * that all loops share. */

#include "net/dial.h"
#include "net/listen.h"
#include "net/server.h"
#include "net/tls_protocol.h"
#include "net/wait_heap.h"
#include "port/atomic.h"
#include "port/port.h"

#include <uv.h>

/* ---- shared state ---------------------------------------------------------------------------- */

typedef enum weir_stage {
    WEIR_STAGE_READY, /* listening, not yet serving */
    WEIR_STAGE_SERVE,
    WEIR_STAGE_DRAIN, /* shutting down gracefully: ends with the last connection */
    WEIR_STAGE_END
} weir_stage;

/* Events that are reported at most once a second each. */
typedef enum weir_event {
    WEIR_EVENT_REFUSED,
    WEIR_EVENT_OVERLOADED,
    WEIR_EVENT_TIMED_OUT,
    WEIR_EVENT_PROXY_HEADER,
    WEIR_EVENT_ACCEPT,
    WEIR_EVENT_WATCH,
    WEIR_EVENTS
} weir_event;

typedef struct weir_shared {
    weir_server_limits limits;
    int64_t drain_ns;
    void *ctx;
    int64_t (*now)(void *ctx);
    void (*report)(void *ctx, const char *event, const char *text);
    bool (*may_proxy)(void *ctx, const weir_peer_address *proxy);
    void (*begin)(void *context, port_dialer *dialer);
    void (*end)(void *context);
    port_mutex *lock; /* guards the next two members */
    uint64_t reported_ms[WEIR_EVENTS];
    uint64_t unreported[WEIR_EVENTS];

    /* All relaxed: they publish no other data. */
    port_counter connected;
    port_counter buffered;
    port_counter stage;   /* a weir_stage; the control loop writes it, and then wakes the loops */
    port_counter drained; /* loops without connections; `control` is woken after each increment */
    uv_async_t control;
} weir_shared;

/* Reports an event, with its count since the last report. Threads: any. */
void weir_shared_report(weir_shared *shared, weir_event event, const char *text);

/* ---- a loop ---------------------------------------------------------------------------------- */

typedef struct weir_loop weir_loop;
typedef struct weir_connection weir_connection;

typedef struct weir_listener {
    uv_poll_t poll;
    int fd; /* -1: none */
    bool is_tcp;
    bool proxy_protocol;
    const weir_protocol *protocol; /* of its connections: that of the address, or &tls.outer */
    void *context;                 /* of protocol->open() */
    weir_tls_protocol tls;         /* all zero: plain text */
    weir_loop *loop;
} weir_listener;

/* The statistics of a loop. Only the loop's thread writes them. */
typedef struct weir_loop_stats {
    port_counter accepted, refused, overloaded, timed_out, unproxied, bytes_in, bytes_out;
} weir_loop_stats;

struct weir_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t sweep;  /* looks for connections that have timed out */
    uv_timer_t resume; /* accepts again after a pause */
    uv_timer_t drain;  /* ends the drain */
    uv_timer_t waits_timer;
    weir_shared *shared;
    void *context;
    net_dialer *dialer; /* NULL without shared->begin */
    bool begun;         /* between shared->begin and shared->end */
    weir_listener listeners[WEIR_LISTENERS_MAX];
    size_t listeners_len;

    weir_connection *connections;
    size_t connections_len;
    size_t refused_len; /* of them, those over the limit that get an error and are closed */
    bool serving, stopping, reported;
    int64_t last_ns; /* when stopping: the end of the drain, by weir_loop_now() */

    /* The buffers of the connection that is being served: an idle connection needs no buffers of
     * its own. `in` is cleared before each read; `out` is empty after each event. */
    weir_buffer in, out;

    weir_wait_heap waits; /* delayed replies, by weir_loop_now() */
    int64_t waits_ns;     /* when waits_timer fires; 0: not set */

    weir_connection *woken, **woken_end; /* a queue of connections whose reply is ready */

    weir_loop_stats stats;
    port_thread *thread;
};

/* Makes a loop without listeners. Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO. On failure there is
 * nothing to free. */
WEIR_NODISCARD weir_status weir_loop_open(weir_loop **ret, weir_shared *shared, void *context);

/* Adds a listening socket, and takes ownership of it in any case. Returns WEIR_OK; WEIR_E_IO;
 * WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_loop_listen(weir_loop *l, int fd, bool is_tcp,
                                            const weir_listen_address *address);

/* Starts the loop's thread, which owns the loop from then on and follows shared->stage. Returns
 * WEIR_OK or WEIR_E_IO. */
WEIR_NODISCARD weir_status weir_loop_start(weir_loop *l);

/* Makes the loop read shared->stage. Do not call it again after WEIR_STAGE_END. Threads: any. */
void weir_loop_wake(weir_loop *l);

/* Joins the loop's thread after WEIR_STAGE_END. Does nothing if the thread never started. */
void weir_loop_join(weir_loop *l);

/* Frees the loop. Call it after weir_loop_join(). */
void weir_loop_close(weir_loop *l);

/* ---- used by connections --------------------------------------------------------------------- */

/* A connection of the loop was closed. */
void weir_loop_left(weir_loop *l);

/* Schedules one weir_connection_wake() in this iteration of the loop. */
void weir_loop_woken(weir_loop *l, weir_connection *c);

/* Cancels weir_loop_woken(). */
void weir_loop_not_woken(weir_loop *l, weir_connection *c);

/* Updates the timer after a change of `waits`. */
void weir_loop_waits_changed(weir_loop *l);

/* The time at which requests are decided. */
static inline int64_t weir_loop_now(const weir_loop *l)
{
    return l->shared->now(l->shared->ctx);
}

#endif
