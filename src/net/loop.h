/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_LOOP_H
#define WEIR_NET_LOOP_H
/* An event loop and its thread: listeners, connections and timers; and the state that all loops
 * share. Private to src/net. */

#include "net/dial.h"
#include "net/listen.h"
#include "net/queue.h"
#include "net/tls/server.h"
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
    void *ctx;
    int64_t (*now)(void *ctx);
    void (*report)(void *ctx, const char *event, const char *text);
    bool (*may_proxy)(void *context, const weir_peer_address *proxy);
    void (*begin)(void *context, port_dialer *dialer);
    void (*refresh)(void *context);
    void (*end)(void *context);
    net_admission admission;
    port_mutex *lock; /* guards the next members, up to `unreported` */
    /* The control loop replaces the limits, and then wakes the loops, which copy them. */
    weir_server_limits limits;
    uint64_t changes; /* of the limits */
    uint64_t reported_ms[WEIR_EVENTS];
    uint64_t unreported[WEIR_EVENTS];

    /* A weir_stage; the control loop writes it (release), and then wakes the loops, which read it
     * (acquire): a loop that drains may close what the control loop has read before. */
    port_word stage;

    /* All relaxed: they publish no other data. */
    port_counter connected;
    port_counter buffered;
    port_counter beat;    /* the control loop writes it, and then wakes the loops */
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
    uint8_t index; /* of its address in the options of the server */
    struct weir_listener *next;
} weir_listener;

/* The statistics of a loop. Only the loop's thread writes them. */
typedef struct weir_loop_stats {
    port_counter accepted, refused, refused_address, overloaded, timed_out, unproxied, bytes_in,
        bytes_out;
} weir_loop_stats;

/* Bytes of input and output: about a millisecond of common requests. */
#define WEIR_TURN (128 << 10)

struct weir_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t sweep;  /* looks for connections that have timed out */
    uint64_t sweep_ms; /* its interval; 0: not started */
    uv_timer_t resume; /* accepts again after a pause */
    uv_timer_t drain;  /* ends the drain */
    uv_timer_t waits_timer;
    weir_shared *shared;
    weir_server_limits limits; /* a copy of shared->limits */
    uint64_t changes;          /* shared->changes at that time */
    void *context;
    net_dialer *dialer;       /* NULL without shared->begin */
    bool begun;               /* between shared->begin and shared->end */
    weir_listener *listeners; /* a list */

    weir_connection *connections;
    size_t connections_len;
    size_t refused_len; /* connections over a limit, which get an error and are closed; included
                           in connections_len */
    net_queue refused;  /* these connections, the oldest first */
    bool serving, stopping, reported;
    int64_t last_ns; /* when stopping: the end of the drain, by weir_loop_now() */

    /* The buffers of the connection that is being served: an idle connection needs no buffers of
     * its own. `in` is cleared before each read; `out` is empty after each event. */
    weir_buffer in, out;

    weir_wait_heap waits; /* delayed replies, by weir_loop_now() */
    int64_t waits_ns;     /* when waits_timer fires; 0: not set */

    net_queue woken; /* connections whose reply is ready */

    /* Connections that have more input or output than one visit handles. An iteration of the loop
     * first visits these, in their order, for about WEIR_TURN bytes. Then it handles the events of
     * the other connections, for about as many bytes. */
    net_queue backlog;
    int64_t budget; /* what is left of WEIR_TURN; less than 0 after requests that take long */
    uv_prepare_t turn;
    uv_idle_t busy; /* active while there is a backlog: the loop does not wait for events */

    weir_loop_stats stats;
    port_counter beat; /* the last shared->beat that the loop has seen. Relaxed */
    port_thread *thread;
};

/* Makes a loop without listeners. Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO. On failure there is
 * nothing to free. */
WEIR_NODISCARD weir_status weir_loop_open(weir_loop **ret, weir_shared *shared, void *context);

/* Adds a listening socket, and takes ownership of it in any case. An address may have several.
 *  index  of the address in the options of the server, below WEIR_LISTENERS_MAX.
 * Returns WEIR_OK; WEIR_E_IO; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_loop_listen(weir_loop *l, int fd, bool is_tcp, size_t index,
                                            const weir_listen_address *address);

/* Starts the loop's thread, which owns the loop from then on and follows shared->stage. Returns
 * WEIR_OK or WEIR_E_IO. */
WEIR_NODISCARD weir_status weir_loop_start(weir_loop *l);

/* Makes the loop read shared->stage and shared->limits. Do not call it again after WEIR_STAGE_END.
 * Threads: any. */
void weir_loop_wake(weir_loop *l);

/* Joins the loop's thread after WEIR_STAGE_END. Does nothing if the thread never started. */
void weir_loop_join(weir_loop *l);

/* Frees the loop. Call it after weir_loop_join(). */
void weir_loop_close(weir_loop *l);

/* ---- used by connections --------------------------------------------------------------------- */

/* A connection of the loop was closed. */
void weir_loop_left(weir_loop *l);

/* Adds a connection to the end of `backlog`, for a weir_connection_visit(). Does nothing if it is
 * in `backlog`. */
void weir_loop_queue(weir_loop *l, weir_connection *c);

/* Updates the timer after a change of `waits`. */
void weir_loop_waits_changed(weir_loop *l);

/* The time at which requests are decided. */
static inline int64_t weir_loop_now(const weir_loop *l)
{
    return l->shared->now(l->shared->ctx);
}

/* ---- a connection ---------------------------------------------------------------------------- */

/* A state machine on the thread of its event loop. */

/* The states of a connection. */
typedef enum weir_connection_state {
    WEIR_CONNECTION_READ,    /* all input is answered, and all replies are sent */
    WEIR_CONNECTION_WRITE,   /* replies are unsent: nothing is read or answered (back-pressure) */
    WEIR_CONNECTION_WAIT,    /* a reply is delayed: a little is read, nothing is answered */
    WEIR_CONNECTION_PENDING, /* an engine is deciding: a little is read, nothing is answered */
    /* All replies are sent; input is discarded until the client closes. Closing a socket with
     * unread input would reset the connection, and the client could lose the last replies. */
    WEIR_CONNECTION_LINGER,
    WEIR_CONNECTION_CLOSED /* being freed */
} weir_connection_state;

struct weir_connection {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    uv_write_t write;
    weir_loop *loop;
    const weir_protocol *protocol;
    weir_connection *next, **link;                       /* in the loop's list */
    net_place woken_place, backlog_place, refused_place; /* in the loop's queues */

    weir_buffer in, out; /* kept between two events; usually empty */
    size_t held;         /* bytes of memory counted in shared->buffered */
    weir_wait wait;

    /* By uv_now(): the last input, the end of the last reply, or the opening. */
    uint64_t idle_since_ms;
    uint64_t opened_ms;
    uint64_t begun_ms; /* when the request in `in` began to arrive */
    uint64_t since_ms; /* WRITE: the last progress; LINGER: the beginning */
    size_t unsent;     /* WRITE: bytes unsent at since_ms; LINGER: bytes discarded */
    weir_connection_state state;
    weir_session_next after; /* WRITE: the next step of the session */
    bool reading;            /* libuv reads from the socket */
    bool unproxied;          /* it must begin with a PROXY header, which is not complete: the
                                session is not open */
    bool peer_known;         /* `peer` is set */
    const weir_listener *listener;
    weir_peer_address peer; /* from the PROXY header, or from the socket at the first use */
    bool refused;           /* over a limit: it gets an error and is closed */
    bool heard;             /* something has arrived */
    net_client client;      /* the client that this connection counts for */
    bool in_session;        /* between the protocol's open() and close() */
    bool woken;             /* since the session ran last */
    bool again;             /* the session must be run although nothing has arrived. The connection
                                is in the loop's backlog */
    bool missed;            /* it had input while it was in the backlog */
    bool ended;             /* the client has shut down sending and may still wait for a reply */
    uint8_t last_reads;
    max_align_t session[]; /* the protocol's */
};

/* Bytes of input of a connection beside a request, and of the replies to one batch. */
#define WEIR_CONNECTION_IN_MORE (144 << 10)
#define WEIR_CONNECTION_OUT_MAX (16 << 20)

/* The longest time that a connection lingers. */
#define WEIR_LINGER_MS 1000

/* The connection that contains a member, by the member's address. */
#define WEIR_CONNECTION_OF(at, member)                                                             \
    ((weir_connection *)((char *)(at)-offsetof(weir_connection, member)))

/* Starts to read from an accepted socket, or refuses it. Takes ownership of the socket. A refused
 * connection may still ask for the health of the server: see weir_protocol.only_health. */
void weir_connection_open(weir_listener *listener, int fd);

/* Closes the connection if it has timed out; polls its session. */
void weir_connection_sweep(weir_connection *c, uint64_t now_ms);

/* Sends the delayed reply. The caller has removed the connection from the heap of waits. */
void weir_connection_release(weir_connection *c);

/* Runs a session whose reply is ready. The caller has removed it from the queue `woken`. */
void weir_connection_wake(weir_connection *c);

/* Answers more of what the client has sent. The caller has removed it from the queue `backlog`. */
void weir_connection_visit(weir_connection *c);

/* The loop is stopping: answers what has arrived, and closes when the replies are sent. A session
 * that is polled learns of it, and closes when it has ended. */
void weir_connection_stop(weir_connection *c);

/* Closes at once. The memory is freed later. */
void weir_connection_close(weir_connection *c);

/* ---- between the files of a connection ------------------------------------------------------- */
/* connection.c reads, answers and sends; opening.c admits a client and begins; timeouts.c ends what
 * takes too long. */

/* Returns whether a request, or the PROXY header, has begun and is not complete. */
bool weir_connection_is_mid_request(const weir_connection *c);

/* Whether the connection waits for its next visit. */
static inline bool weir_connection_is_queued(const weir_connection *c)
{
    return net_is_queued(&c->backlog_place);
}

/* The wake callback of the session. During a write, `woken` is read later. */
void weir_connection_on_ready(void *connection);

/* Counts the memory of the connection, and closes it if that, or its request, is too large. */
void weir_connection_check_memory(weir_connection *c);

/* Starts or stops reading after an event, as the state requires. */
void weir_connection_after_event(weir_connection *c);

/* Closes: the client does not read, so TCP RST discards what is in the send buffer. */
void weir_connection_reset(weir_connection *c);

/* Sends a last message, if the socket accepts it, and lingers. No write may be in flight.
 *  text  NULL: none. */
void weir_connection_close_with(weir_connection *c, const char *text);

/* Reads the PROXY header at the front of `in`. Once it is complete, c->unproxied is false and the
 * session is open. Returns false if the connection was closed or refused. */
bool weir_connection_take_proxy_header(weir_connection *c, weir_buffer *in);

/* Runs the session without input, if it has something to do. */
void weir_connection_poll(weir_connection *c);

/* Sends the protocol's refusal, and closes. */
void weir_connection_refuse(weir_connection *c);

/* The descriptor of the socket; -1 if it is closed. */
int weir_connection_socket(const weir_connection *c);

/* Removes the connection from the counts of open connections. */
void weir_connection_uncount(weir_connection *c);

#endif
