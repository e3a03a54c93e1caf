/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_HAND_OVER_H
#define WEIR_NET_HAND_OVER_H
/* A daemon hands over to a new process: it passes its listening sockets, goes on serving until the
 * new process serves, and then stops. So no connection is refused, and if the new process fails,
 * the old one goes on serving. docs/internals/net.md describes the messages.
 *
 * The two are connected by a pair of sockets that the new process inherits, or by a Unix socket at
 * which the old process listens. */

#include "net/passed.h"

#include <uv.h>

/* ---- the old process ------------------------------------------------------------------------- */

/* Part of the options of a server. The callbacks are called on the thread that runs the server,
 * with the ctx of the server. */
typedef struct net_hand_over_options {
    /* What SIGUSR2 starts: the name or path of the program, its arguments, and NULL. NULL: SIGUSR2
     * has no effect. */
    char *const *argv;
    const char *path; /* of the Unix socket at which this process listens; NULL: none */
    /* Shares the state with the new process.
     *  ret_memory  a descriptor to be passed; -1: none.
     * Returns false, with the reason, if that is impossible. NULL: there is nothing to share. */
    bool (*prepare)(void *ctx, int *ret_memory, char *ret_error, size_t size);
    /* Both may be NULL. */
    void (*failed)(void *ctx);        /* after prepare(): this process goes on serving */
    void (*done)(void *ctx, int pid); /* the process `pid` serves, and this one stops */
} net_hand_over_options;

struct weir_server;

typedef struct net_hand_over {
    struct weir_server *server;
    void *server_ctx;
    net_hand_over_options options;
    uv_loop_t *uv;
    uv_poll_t listener, channel;
    uv_process_t child;
    uv_timer_t timer, retry;
    weir_listen_socket socket_file;
    int listen_fd, fd; /* -1: none */
    int pid;           /* of the new process */
    bool polling;      /* `channel` is open */
    bool spawned;      /* `child` is open: the process has not ended */
    bool done;         /* the new process serves */
    const char *why;   /* why the attempt has failed; NULL: the new process has ended */
} net_hand_over;

/* Initialises *h; does not listen yet. The handles belong to the loop, which closes them. */
void net_hand_over_open(net_hand_over *h, struct weir_server *server, void *server_ctx,
                        uv_loop_t *uv, const net_hand_over_options *options);

/* Listens, if there is a path.
 *  ret_error  on WEIR_E_IO the reason; `size` bytes.
 * Returns WEIR_OK or WEIR_E_IO. */
WEIR_NODISCARD weir_status net_hand_over_listen(net_hand_over *h, char *ret_error, size_t size);

/* Starts the new process. Success and failure are reported to the server as events. */
void net_hand_over_start(net_hand_over *h);

/* Ends a hand-over that has not succeeded, because this process stops. */
void net_hand_over_cancel(net_hand_over *h);

/* Stops listening and removes the socket file. Does nothing if *h does not listen, or if
 * net_hand_over_open() was not called. */
void net_hand_over_close(net_hand_over *h);

/* ---- between the files of a server ----------------------------------------------------------- */

/* server.c: reports an event; and calls fn() for each listening socket until it returns false.
 *  configured, inherits  see net_passed_add(). */
void weir_server_report(struct weir_server *s, const char *event, const char *text);
bool weir_server_each_socket(struct weir_server *s,
                             bool (*fn)(void *ctx, int fd, const char *configured, bool inherits),
                             void *ctx);

/* server.c: the new process serves; stops this one without limits.grace. */
void weir_server_hand_over(struct weir_server *s, int pid);

/* ---- the new process ------------------------------------------------------------------------- */

typedef struct net_take_over {
    int fd;     /* the connection to the old process; -1: none */
    int memory; /* the descriptor of prepare(); -1: none */
    int pid;    /* of the old process */
} net_take_over;

#define NET_TAKE_OVER_NONE ((net_take_over){.fd = -1, .memory = -1})

/* The variable that names the descriptor of the connection in a process that was started by
 * SIGUSR2. */
#define NET_TAKE_OVER_VARIABLE "WEIR_HAND_OVER"

/* Receives the sockets of the old process.
 *  path       where the old process listens; NULL: uses the connection that the variable names, and
 *             removes the variable. If it is not set either, *ret is NET_TAKE_OVER_NONE.
 *  ret_error  on WEIR_E_IO the reason; `size` bytes.
 * Returns WEIR_OK; WEIR_E_IO. */
WEIR_NODISCARD weir_status net_take_over_begin(net_take_over *ret, net_passed *passed,
                                               const char *path, char *ret_error, size_t size);

/* Tells the old process that this one serves, and waits until the old one has confirmed that, or
 * has ended. Does nothing if there is no old process. Returns false if the old process has ended
 * the hand-over: it goes on serving, and this process must end. */
WEIR_NODISCARD bool net_take_over_end(net_take_over *t);

#endif
