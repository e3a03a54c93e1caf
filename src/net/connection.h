/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_CONNECTION_H
#define WEIR_NET_CONNECTION_H
/* One client. All of it happens on the thread of its loop. */

#include "net/loop.h"

/* What a connection does at the moment. */
typedef enum weir_doing {
    WEIR_DOING_READ,   /* all that arrived is answered and sent */
    WEIR_DOING_WRITE,  /* the client has not taken its replies; nothing is read or answered */
    WEIR_DOING_WAIT,   /* a reply is held until its time; a little is read, nothing is answered */
    WEIR_DOING_ASK,    /* an answer is under way; a little is read, nothing is answered */
    WEIR_DOING_LINGER, /* all is sent; what still arrives is thrown away until the client closes,
                          for if it were left unread the system would reset the connection, and the
                          client could lose the last replies */
    WEIR_DOING_CLOSE   /* no more */
} weir_doing;

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
    weir_connection *woken_next, **woken_link; /* in the loop's list of those that were woken;
                                                  woken_link is NULL if it is not there */

    weir_buffer in, out; /* what is kept from one event to the next; seldom anything */
    size_t held;         /* bytes of memory, as counted in shared->buffered */
    weir_wait wait;

    uint64_t heard_ms; /* by uv_now(): when the client sent last, or its turn to send came */
    uint64_t begun_ms; /* when what is in `in` began to arrive, if there is anything */
    uint64_t since_ms; /* in a write: when there was progress last; in a linger: when it began */
    size_t unsent; /* in a write: bytes that were left at since_ms; in a linger: bytes that came */
    weir_doing doing;
    weir_session_next after; /* a write: what the session wanted next */
    bool reading;            /* libuv reads for it */
    bool refused;            /* over the limit: it gets an error and is closed */
    bool in_session;         /* between the protocol's open and close */
    bool woken;              /* since the session was called last */
    bool ended;              /* the client sends no more, and still waits for an answer */
    uint8_t last_reads;
    max_align_t session[]; /* the protocol's */
};

/* Takes over a socket that was accepted, and begins to read, or refuses it. */
void weir_connection_open(weir_listener *listener, int fd);

/* Closes it if its time is over. */
void weir_connection_sweep(weir_connection *c, uint64_t now_ms);

/* The time of its reply has come, and it has been taken out of the waits. */
void weir_connection_release(weir_connection *c);

/* It was woken, and has been taken out of the loop's list of those. */
void weir_connection_wake(weir_connection *c);

/* Its loop stops: answers what has arrived, and goes when that is sent. */
void weir_connection_stop(weir_connection *c);

/* Closes it as it is. It may be called again; the memory goes later. */
void weir_connection_close(weir_connection *c);

#endif
