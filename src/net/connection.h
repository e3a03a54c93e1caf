/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_CONNECTION_H
#define WEIR_NET_CONNECTION_H
/* A client connection: a state machine on the thread of its event loop. */

#include "net/loop.h"

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
    weir_connection *next, **link;             /* in the loop's list */
    weir_connection *woken_next, **woken_link; /* in the loop's queue `woken`; woken_link is
                                                  NULL if it is not queued */

    weir_buffer in, out; /* kept between two events; usually empty */
    size_t held;         /* bytes of memory counted in shared->buffered */
    weir_wait wait;

    /* By uv_now(): the last input, the end of the last reply, or the opening. */
    uint64_t idle_since_ms;
    uint64_t begun_ms; /* when the request in `in` began to arrive */
    uint64_t since_ms; /* WRITE: the last progress; LINGER: the beginning */
    size_t unsent;     /* WRITE: bytes unsent at since_ms; LINGER: bytes discarded */
    weir_connection_state state;
    weir_session_next after; /* WRITE: the next step of the session */
    bool reading;            /* libuv reads from the socket */
    bool unproxied;          /* it must begin with a PROXY header, which is not complete: the
                                session is not open */
    bool peer_known;         /* `peer` is set */
    uint8_t listener;        /* its index */
    weir_peer_address peer;  /* from the PROXY header, or from the socket at the first use */
    bool refused;            /* over the limit: it gets an error and is closed */
    bool in_session;         /* between the protocol's open() and close() */
    bool woken;              /* since the session ran last */
    bool ended;              /* the client has shut down sending and may still wait for a reply */
    uint8_t last_reads;
    max_align_t session[]; /* the protocol's */
};

/* Starts to read from an accepted socket, or refuses it. Takes ownership of the socket. */
void weir_connection_open(weir_listener *listener, int fd);

/* Closes the connection if it has timed out; polls its session. */
void weir_connection_sweep(weir_connection *c, uint64_t now_ms);

/* Sends the delayed reply. The caller has removed the connection from the heap of waits. */
void weir_connection_release(weir_connection *c);

/* Runs a session whose reply is ready. The caller has removed it from the queue `woken`. */
void weir_connection_wake(weir_connection *c);

/* The loop is stopping: answers what has arrived, and closes when the replies are sent. A session
 * that is polled learns of it, and closes when it has ended. */
void weir_connection_stop(weir_connection *c);

/* Closes at once. The memory is freed later. */
void weir_connection_close(weir_connection *c);

#endif
