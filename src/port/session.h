/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_SESSION_H
#define WEIR_PORT_SESSION_H
/* The interface between a protocol and the event loop that runs its connections. src/codec
 * implements sessions, src/net calls them, and neither includes the other. */

#include "port/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the event loop must do after a session has run. Every reply in `out` is sent, except where
 * WEIR_SESSION_WAIT delays it. */
typedef enum weir_session_next {
    WEIR_SESSION_READ,    /* send `out`; call again when more bytes have arrived */
    WEIR_SESSION_AGAIN,   /* send `out`, then call again; the session stopped because `out` is full
                             or must be flushed first */
    WEIR_SESSION_WAIT,    /* hold `out` until until_ns, then send it and call again. Flush earlier
                             replies with AGAIN before returning WAIT. With an empty `out`, the
                             session only pauses: nobody waits for a reply, so a server that stops
                             closes the connection at once */
    WEIR_SESSION_PENDING, /* the next reply is pending: send `out`, and call again after the session
                             has called its `wake` callback. Earlier calls return PENDING again */
    WEIR_SESSION_CLOSE    /* send `out`, then close; the session is not run again */
} weir_session_next;

typedef struct weir_session_step {
    weir_session_next next;
    uint32_t work;    /* of this run, besides its input and output: as long as handling so many
                         bytes takes */
    int64_t until_ns; /* WEIR_SESSION_WAIT only, on the clock of now_ns. No wait if <= now_ns */
} weir_session_step;

/* What a session holds besides its input buffer. */
typedef struct weir_session_usage {
    size_t bytes;     /* of memory */
    bool mid_request; /* a request has begun and is not complete */
} weir_session_usage;

/* A protocol, as a table of functions on its sessions. Each connection has one session. All calls
 * for a session come from the thread of its event loop. */
typedef struct weir_protocol {
    size_t session_size; /* bytes of a session; they are zeroed before open() */

    /* Begins a session.
     *  ctx   the context of the connection's event loop.
     *  wake  wake(wake_ctx) schedules another run() after WEIR_SESSION_PENDING. It never calls
     *        run() itself, so sessions that are woken in one iteration of the loop run together and
     *        their requests to an engine are sent in one batch. Call it on the loop's thread, at
     *        any time until close(). It does nothing if the session is not pending. */
    void (*open)(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx);
    void (*close)(void *session); /* frees what the session holds; may be NULL */

    /* Handles every complete request in `in` and consumes it. All of them happen at now_ns. An
     * incomplete request stays in `in`. The event loop checks the length of `in` and usage() to
     * limit a request's memory and time.
     *  in   the bytes received and not consumed. The buffer may move between calls, so a session
     *       keeps offsets, not pointers.
     *  out  empty at the call; belongs to the loop. The session stops when `out` has more than
     *       out_pause bytes. */
    weir_session_step (*run)(void *session, weir_buffer *in, weir_buffer *out, size_t out_pause,
                             int64_t now_ns);

    /* For a session that consumes bytes before a request is complete; otherwise NULL. */
    weir_session_usage (*usage)(const void *session);

    /* Whether the client has not yet sent its first byte, or the password that it needs. Such a
     * connection is closed after the time that a request may take. NULL: only connections that have
     * received nothing are. */
    bool (*is_new)(const void *session);

    /* Called after open() for a connection that exceeds a limit on connections. The session answers
     * one health check, refuses any other request, and closes. NULL: such a connection has no
     * session, and gets `refusal`. */
    void (*only_health)(void *session);

    /* Called about once a second, and at once when the server begins to stop. Returns whether run()
     * must be called although nothing has arrived. A stopping server waits, for at most drain_ns,
     * until run() of such a session returns WEIR_SESSION_CLOSE. NULL: run() is called for input
     * only, and a stopping server closes the connection itself. */
    bool (*poll)(void *session, int64_t now_ns, bool stopping);

    /* Sent before a connection is closed, unless a reply is half sent. NULL sends nothing. */
    const char *refusal;  /* too many connections are open */
    const char *overload; /* no memory for buffers is left, or the request is too long */
    const char *timeout;  /* the request was not completed in time */
} weir_protocol;

#endif
