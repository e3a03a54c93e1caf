/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_SERVER_H
#define WEIR_NET_SERVER_H
/* The server: event loops on libuv, one per thread, with listeners and client connections. It moves
 * bytes, enforces the limits on clients, and shuts down gracefully. port/session.h is its interface
 * to the protocols. */

#include "net/hand_over.h"
#include "net/passed.h"
#include "port/dial.h"

#include <weir/weir.h>

/* ---- the server ------------------------------------------------------------------------------ */

#define WEIR_LOOPS_MAX 256

typedef struct weir_server_options {
    const weir_listen_address *listens; /* read by weir_server_open() only */
    size_t listens_len;                 /* 1..WEIR_LISTENERS_MAX */
    net_passed *passed;    /* sockets that listen already, for the listeners with their addresses; a
                           socket without a listener is an error. NULL: none */
    unsigned loops;        /* threads with an event loop, 1..WEIR_LOOPS_MAX */
    void *const *contexts; /* one for each loop, passed to protocol->open; NULL: all are NULL. The
                              array is read by weir_server_open() only */
    weir_server_limits limits;

    void *ctx;
    /* The current time, 0..WEIR_NOW_NS_MAX. It must not step: delayed replies depend on it.
     * Threads: any. */
    int64_t (*now)(void *ctx);

    /* The following callbacks may be NULL. */

    /* Called on each loop's thread, with its context, before it serves clients. The dialer belongs
     * to the loop; its clock is `now`. */
    void (*begin)(void *context, port_dialer *dialer);
    /* Called on each loop's thread after its last connection is closed. The dialer still works;
     * afterwards its connections and timers are closed. */
    void (*end)(void *context);
    /* Called on each loop's thread, with its context, after weir_server_configure(): the loop has
     * the new limits. */
    void (*refresh)(void *context);
    /* Called about once a second on the thread that runs the server. */
    void (*tick)(void *ctx);
    /* Called at most every beat_ns on the thread that runs the server, if each loop has handled an
     * event since the last call. */
    void (*beat)(void *ctx);
    int64_t beat_ns; /* 0: `beat` is not called */
    /* Called on the thread that runs the server.
     *  why  "SIGHUP", or "file changed" for the watched file.
     * Returns false if the file could not be read. After "file changed" it is then called again
     * soon; after "SIGHUP" it is not. */
    bool (*reload)(void *ctx, const char *why);
    /* Called on the thread that runs the server, once the loops serve. Returns false to end the
     * server at once. */
    bool (*serving)(void *ctx);
    net_hand_over_options hand_over;
    /* Reports an event for the log: "refused", "overloaded", "timed-out", "proxy-header", "accept"
     * and "watch" at most once a second each; "stopping" or "handed-over", and "stopped", once;
     * "reload-ignored" for each SIGHUP after "stopping"; "hand-over", and then "hand-over-failed"
     * or "handed-over"; "hand-over-refused". Threads: any. */
    void (*report)(void *ctx, const char *event, const char *text);
    /* Whether a proxy may report a client on a listener with proxy_protocol. NULL: as with
     * limits.any_proxy. Not called for Unix sockets. Called on a loop's thread, with its
     * context. */
    bool (*may_proxy)(void *context, const weir_peer_address *proxy);
    const char *watch; /* a file to watch for changes, or NULL. It may also be replaced by a rename,
                          or be a link into a directory that is swapped */
} weir_server_options;

typedef struct weir_server weir_server;

/* Binds the addresses and listens. Clients can connect from now on; weir_server_run() serves them.
 * SIGINT, SIGTERM, SIGHUP and SIGUSR2 are handled by the server from now on; SIGPIPE is ignored.
 * If sockets were passed, nothing listens at the path of options.hand_over until
 * weir_server_inherit().
 *  ret_error  on WEIR_E_IO the reason and what to do; `size` bytes.
 * A port that another socket listens on is an error. A stale socket file is replaced; any other
 * file at its path is an error. A socket file has the mode 0660.
 * Returns WEIR_OK; WEIR_E_IO; WEIR_E_NOMEM; WEIR_E_RANGE for an option outside its range. */
WEIR_NODISCARD weir_status weir_server_open(weir_server **ret, const weir_server_options *options,
                                            char *ret_error, size_t size);

/* The actual address of listener i: "127.0.0.1:43210". Valid until close. */
const char *weir_server_address(const weir_server *s, size_t i);

/* The process that has passed its sockets has stopped, or ends now: takes over its socket files,
 * removes those of addresses that this server does not have, and listens at the path of
 * options.hand_over. Returns WEIR_OK; WEIR_E_IO, with ret_error, if that is impossible. */
WEIR_NODISCARD weir_status weir_server_inherit(weir_server *s, char *ret_error, size_t size);

/* Watches one more file or directory, as options.watch: reload() is called with "file changed".
 * Replaces the path that was watched as number i, if it is another.
 *  i     0..WEIR_WATCHES_MAX - 1.
 *  path  copied; NULL: none.
 * Call it before weir_server_run(), or from reload(). Returns WEIR_OK or WEIR_E_NOMEM. */
#define WEIR_WATCHES_MAX 8
WEIR_NODISCARD weir_status weir_server_watch(weir_server *s, size_t i, const char *path);

/* Replaces the limits: each loop uses the new ones soon, and then calls options.refresh(). No open
 * connection is closed because of a lower limit on connections; new ones are refused until fewer
 * are open. A lower timeout applies to open connections at the next check.
 *  limits  in their ranges; `request` cannot change.
 * Call it on the thread that runs the server, after weir_server_open(). */
void weir_server_configure(weir_server *s, const weir_server_limits *limits);

/* Serves until SIGINT or SIGTERM, then shuts down gracefully. After SIGTERM it serves for grace_ns
 * more, also new clients. Then it accepts no more connections, answers the requests that have
 * arrived, and sends their replies for at most drain_ns. A reply that is delayed beyond that is
 * dropped. A second signal ends it at once. Call it once. */
void weir_server_run(weir_server *s);

/* Returns whether only local clients can connect, because limits.connections is reached.
 * Threads: any. */
bool weir_server_is_full(const weir_server *s);

/* Returns whether the server is shutting down: since the first signal, or since another process has
 * taken over. Threads: any. */
bool weir_server_stopping(const weir_server *s);

/* Returns whether another process has taken over. Threads: any. */
bool weir_server_handed_over(const weir_server *s);

/* Frees the server, which may never have run, and removes its socket files. Accepts NULL. */
void weir_server_close(weir_server *s);

/* Counters since the start. */
typedef struct weir_server_stats {
    uint64_t connected;       /* connections open now */
    uint64_t accepted;        /* without the refused ones */
    uint64_t refused;         /* because too many were open, in total or from one client */
    uint64_t refused_address; /* because one client had too many open; included in `refused` */
    uint64_t overloaded;      /* closed: out of memory for buffers, or a request was too long */
    uint64_t timed_out;       /* closed: idle, slow to send, or slow to read */
    uint64_t unproxied; /* closed: the PROXY header is missing or malformed, or its sender may not
                            report clients */
    uint64_t bytes_in, bytes_out;
    uint64_t buffered; /* bytes of buffers now; see limits.buffers */
} weir_server_stats;

/* Threads: any. */
weir_server_stats weir_server_stats_get(const weir_server *s);

#endif
