/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NGINX_DAEMON_H
#define WEIR_NGINX_DAEMON_H
/* A client of a weir daemon's RESP port on nginx's event loop. A worker never blocks: it sends the
 * questions of one iteration of its event loop with one system call, and calls back when the
 * replies arrive. It knows no HTTP requests.
 *
 * Each worker opens connections of its own at its first question, and keeps them. A connection that
 * breaks is opened again after 100 ms, and after twice as long for each further failure, up to 5 s.
 * Until the daemon has replied again, questions fail at once.
 *
 * Threads: all functions belong to the thread of the worker's event loop. */

#include "daemon_connection.h"

typedef struct weir_ngx_daemon weir_ngx_daemon;

/* What decides a request whose question failed. */
typedef enum weir_ngx_on_error {
    WEIR_NGX_ON_ERROR_OPEN,
    WEIR_NGX_ON_ERROR_CLOSED,
    WEIR_NGX_ON_ERROR_LOCAL
} weir_ngx_on_error;

/* Parses the arguments of the directive weir_daemon, from cf->args[1] on, and resolves the address:
 *
 *   ADDRESS [timeout=50ms] [connect_timeout=2s] [on_error=open] [connections=1] [password=TEXT]
 *
 *  ADDRESS          host[:port] or unix:/path; the default port is 6380
 *  timeout          how long a question may take, 1ms..60s
 *  connect_timeout  how long connecting and logging in may take, 1ms..60s
 *  connections      of each worker, 1..64
 * Returns NULL after logging the error. The result lies in cf->pool. The caller handles "off". */
weir_ngx_daemon *weir_ngx_daemon_conf(ngx_conf_t *cf);

weir_ngx_on_error weir_ngx_daemon_on_error(const weir_ngx_daemon *d);

/* ---- questions ------------------------------------------------------------------------------- */

/* One question: all of its limits are charged together, or none is. It must stay in memory until
 * done() is called or the question is cancelled. */
typedef struct weir_ngx_ask {
    weir_ngx_waiting waiting; /* first: the callbacks of a connection get its address. Private */

    /* Set by the caller. */
    void (*done)(struct weir_ngx_ask *ask);
    void *data; /* for the caller */

    /* Written before done() is called. */
    weir_ngx_answer answer;
    weir_decision decision; /* of limit `index`; delay_ns is the longest of all limits. Times are
                               whole milliseconds, rounded up; `layer` is 0 */
    size_t index;           /* denied: the limit with the longest wait; allowed: the one with the
                               least remaining */

    /* Private. */
    ngx_queue_t failed;
    unsigned is_failed : 1; /* done() will be called; `failed` is in the daemon's queue */
} weir_ngx_ask;

/* Asks a question. done() is called exactly once, but never within this call, and may ask further
 * questions. Only done() and `data` of *ask need be set.
 *  limit   copied; 1..WEIR_NGX_ASK_MAX of them
 *  log     for debugging
 * Returns NGX_OK; NGX_ERROR if there are too few or too many limits: then done() is not called. */
ngx_int_t weir_ngx_daemon_ask(weir_ngx_daemon *d, weir_ngx_ask *ask,
                              const weir_ngx_ask_limit *limit, size_t limits, ngx_log_t *log);

/* Prevents the call of done(): the reply will be dropped. The limits may be charged nevertheless.
 * Does nothing if done() was called. *ask must have been passed to weir_ngx_daemon_ask(). */
void weir_ngx_daemon_cancel(weir_ngx_ask *ask);

#endif
