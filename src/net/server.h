/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_SERVER_H
#define WEIR_NET_SERVER_H
/* The daemon's event loops: listeners and their connections, over libuv; one loop a thread. They
 * move bytes and keep every client within its limits; what the bytes mean is the protocol's
 * business. */

#include "port/dial.h"
#include "port/session.h"

#include <weir/weir.h>

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
