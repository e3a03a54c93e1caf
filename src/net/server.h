/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_SERVER_H
#define WEIR_NET_SERVER_H
/* The daemon's event loops: listeners and their connections, over libuv; one loop a thread. They
 * move bytes and keep every client within its limits; what the bytes mean is the protocol's
 * business. */

#include "port/dial.h"

#include <weir/weir.h>

/* ---- protocols ------------------------------------------------------------------------------- */

/* What a session wants next. */
typedef enum weir_next {
    WEIR_NEXT_READ,  /* it has answered all it has; more bytes, please */
    WEIR_NEXT_AGAIN, /* it stopped because `out` was full: send it, then call again */
    WEIR_NEXT_WAIT,  /* send nothing of `out` before until_ns, then send it and call again. Who has
                        to be answered before that is answered by an AGAIN first */
    WEIR_NEXT_ASK,   /* the next answer is under way: send `out`, and call again when it has called
                        `wake`. Its request may stay in `in`. A stopping server waits for it as it
                        does for clients */
    WEIR_NEXT_CLOSE  /* send `out`, then close; run is not called again */
} weir_next;

typedef struct weir_step {
    weir_next next;
    int64_t
        until_ns; /* WEIR_NEXT_WAIT only; of the clock that now_ns is of. If it is not later than
                         now_ns there is no wait */
} weir_step;

/* What a session holds by itself. */
typedef struct weir_holding {
    size_t bytes; /* of memory */
    bool midway;  /* a request has begun and not ended */
} weir_holding;

/* What is spoken on a listener. A session is one connection's; all calls for it come from one
 * thread, that of its loop. */
typedef struct weir_protocol {
    const char *name;    /* for the log and the metrics: "resp" */
    size_t session_size; /* bytes of a session, zeroed before open */

    /* ctx is options->contexts[i] of the loop i that the connection belongs to. After a
     * WEIR_NEXT_ASK, wake(wake_ctx) has run called again: soon, never from within it; with all
     * others that are woken in one round of the loop, and what they then ask travels together. By
     * the loop's thread, at any time until the session is closed, also when nothing waits for it:
     * then nothing happens. It needs options->begin. */
    void (*open)(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx);
    void (*close)(void *session); /* gives back what the session holds; may be NULL */

    /* Answers every whole request in `in`, and drops it from there; all of them happen at now_ns.
     * A request that is not whole yet stays in `in`: the limits on its size and time go by that,
     * and by `held`.
     *  in   what has arrived and was not dropped before, at the same place or another: a session
     *       keeps offsets, not pointers.
     *  out  empty at the call. Stop when it holds more than out_pause bytes. It is the loop's, and
     *       whatever is in it afterwards is sent. */
    weir_step (*run)(void *session, weir_buffer *in, weir_buffer *out, size_t out_pause,
                     int64_t now_ns);

    /* For a session that takes bytes from `in` before a request is whole. NULL: it does not. */
    weir_holding (*held)(const void *session);

    /* Sent, unless it would stand in the middle of a reply, before a connection is closed
     * because ... NULL: nothing is sent. */
    const char *refusal;  /* there are too many connections */
    const char *overload; /* no more memory may be used for buffers, or its request is too long */
    const char *timeout;  /* a request was not completed in time */
} weir_protocol;

/* ---- the server ------------------------------------------------------------------------------ */

#define WEIR_LISTENERS_MAX 16
#define WEIR_LOOPS_MAX     256

typedef struct weir_listen {
    const char
        *address; /* "127.0.0.1:6380", "localhost:6380" (which is the same), "[::1]:0", or the
                            path of a socket file, which begins with '/'. Port 0: any free one.
                            "[::]:6380" takes IPv6 alone */
    const weir_protocol *protocol; /* kept by reference */
} weir_listen;

/* Each is a bound on what clients can take; docs/internals/net.md says what happens at it. */
typedef struct weir_server_limits {
    int connections; /* 1.., over all loops and listeners; one more is refused */
    size_t buffers;  /* bytes, over all loops, of the memory that connections and sessions hold for
                        what was read and not answered and what was answered and not sent */
    size_t request; /* 1..2^30 bytes that one request may have. A backstop: the protocol's own bound
                        should be smaller, for it can say more */
    int64_t idle_ns;    /* a connection that sends nothing for so long is closed; 0: never */
    int64_t request_ns; /* from the first byte of a request to its last; 0: for ever */
    int64_t write_ns;   /* without progress in sending, for a client that does not read; 0: for
                           ever */
} weir_server_limits;

typedef struct weir_server_options {
    const weir_listen *listens; /* 1..WEIR_LISTENERS_MAX of them; read by weir_server_open() only */
    size_t listens_len;
    unsigned loops;        /* 1..WEIR_LOOPS_MAX, a thread each */
    void *const *contexts; /* one a loop, handed to protocol->open; NULL: all are NULL. The array is
                              read by weir_server_open() only */
    weir_server_limits limits;
    int64_t drain_ns; /* how long a stopping server waits for clients to read their replies */

    void *ctx;
    int64_t (*now)(void *ctx); /* the time, 0..WEIR_NOW_NS_MAX. One that does not step, or replies
                                  that wait do so too long or too short. Any thread */

    /* Each may be NULL. */
    void (*begin)(void *context, port_dialer *dialer); /* by each loop's thread, with its context,
                         before it serves. The dialer is the loop's, and its clock is `now` */
    void (*end)(void *context); /* by the same, after its last connection is gone. The dialer is
                         still there; what is left of lines and alarms afterwards is dropped */
    void (*tick)(void *ctx);    /* by the thread that runs the server, about once a second */
    bool (*reload)(void *ctx, const char *why); /* by the thread that runs the server: on "SIGHUP",
                                                   and when the watched "file changed". False: the
                                                   file could not be read, ask again soon */
    void (*say)(void *ctx, const char *event, const char *text); /* for the log, by any thread. Each
                          event at most once a second: "refused", "overloaded", "timed-out",
                          "accept", "watch"; and once each "stopping", "stopped" */
    const char *watch; /* a file to watch, NULL: none. Seen also if it is replaced by a rename, or
                          is a link into a directory that is swapped */
} weir_server_options;

typedef struct weir_server weir_server;

/* Binds and listens, so that from here on clients are not refused; nobody is served yet. From here
 * on SIGINT, SIGTERM and SIGHUP are the server's, and SIGPIPE is ignored.
 *  ret_error  written on WEIR_E_IO: what went wrong and what to do; `size` bytes of room.
 * A port that any other socket listens on is an error, though the loops share one among them. A
 * socket file that nobody listens on is replaced; any other file there is not. Its mode is 0660.
 * Returns WEIR_OK; WEIR_E_IO; WEIR_E_NOMEM; WEIR_E_RANGE for a number outside its range in
 * options. */
WEIR_NODISCARD weir_status weir_server_open(weir_server **ret, const weir_server_options *options,
                                            char *ret_error, size_t size);

/* Where listener i really listens: "127.0.0.1:43210". Good until close. */
const char *weir_server_address(const weir_server *s, size_t i);

/* Serves until SIGINT or SIGTERM; to be called once. Then accepts nothing more, answers what has
 * arrived, sends the replies that are under way for at most drain_ns, closes, and returns. A reply
 * that waits for a time beyond that is dropped. A second signal ends it at once. */
void weir_server_run(weir_server *s);

/* Whether a signal has told it to stop. Any thread. */
bool weir_server_stopping(const weir_server *s);

/* Accepts NULL, and a server that never ran. Removes the socket files it made, if they are still
 * its own. */
void weir_server_close(weir_server *s);

#define WEIR_PEER_TEXT_MAX 64

/* Prints the address of a client: "192.0.2.7:51234", "[2001:db8::7]:51234", "unix", or "unknown" if
 * the connection is gone.
 *  wake_ctx  what the protocol's `open` was given for the client's session.
 * By the thread of its loop, until the session is closed. */
void weir_server_peer(const void *wake_ctx, char ret[static WEIR_PEER_TEXT_MAX]);

/* Counted since the start. Any thread. */
typedef struct weir_server_stats {
    uint64_t connected;  /* now */
    uint64_t accepted;   /* those refused are not among them */
    uint64_t refused;    /* too many connections */
    uint64_t overloaded; /* closed: no memory for buffers, or too long a request */
    uint64_t timed_out;  /* closed: idle, slow to send, or slow to read */
    uint64_t bytes_in, bytes_out;
    uint64_t buffered; /* bytes of memory that connections hold now; see limits.buffers */
} weir_server_stats;

weir_server_stats weir_server_stats_get(const weir_server *s);

#endif
