/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NGINX_DAEMON_CONNECTION_H
#define WEIR_NGINX_DAEMON_CONNECTION_H
/* One connection to a daemon, and the questions on it that have no reply yet. Private to daemon.c
 * and daemon_connection.c. */

#include "daemon.h"

#include <ngx_event.h>

typedef struct weir_ngx_connection weir_ngx_connection;

struct weir_ngx_daemon {
    ngx_str_t name; /* the address as configured */
    ngx_addr_t *address;
    ngx_uint_t addresses;
    ngx_msec_t timeout, connect_timeout;
    weir_slice password; /* empty: none */
    weir_ngx_on_error on_error;

    /* Of this worker. */
    weir_ngx_connection *connection;
    ngx_uint_t connections;
    ngx_uint_t turn;    /* the connection that gets the next question */
    const char *lost;   /* the reason, logged when it became unavailable; else NULL */
    time_t warned;      /* the second in which an error or a full queue was logged */
    ngx_queue_t failed; /* questions whose done() is due */
    ngx_event_t deliver;
    ngx_connection_t stand_in; /* nginx's debug log reads ->fd of an event's data */
    ngx_log_t quiet;           /* for ngx_event_connect_peer(), which logs each failure */
};

typedef enum weir_ngx_connection_state {
    WEIR_NGX_CLOSED,     /* opened by the next question, or, if down, by the timer */
    WEIR_NGX_CONNECTING, /* connect() has not ended */
    WEIR_NGX_GREETING,   /* questions are sent, but the greeting has no reply yet */
    WEIR_NGX_READY
} weir_ngx_connection_state;

/* A question on a connection, until its reply has arrived. */
typedef struct weir_ngx_slot {
    weir_ngx_ask *ask; /* NULL once it is cancelled or its deadline has passed */
    ngx_msec_t deadline;
    size_t limits;
} weir_ngx_slot;

struct weir_ngx_connection {
    weir_ngx_daemon *daemon;
    ngx_connection_t *c; /* NULL if closed */
    weir_ngx_connection_state state;
    bool down;          /* the last attempt failed: questions fail at once */
    ngx_uint_t address; /* the index of the address in use */
    ngx_uint_t tried;   /* addresses, in this attempt to connect */
    ngx_msec_t delay;   /* before the next attempt */
    ngx_msec_t heard;   /* when bytes last arrived */

    /* A ring. Numbers count up from 0; question i is at slot[i % slots]. head <= due <= tail. */
    weir_ngx_slot *slot;
    size_t slots; /* 0 or a power of two */
    size_t head;  /* the first without a reply */
    size_t due;   /* the first whose deadline has not passed */
    size_t tail;  /* one past the last */
    size_t live;  /* slots with an ask */

    weir_buffer out;
    u_char *in;
    size_t in_len;

    ngx_event_t flush;    /* posted: sends the questions of this iteration */
    ngx_event_t deadline; /* timer: the deadline of questions, or of a silent connection */
    ngx_event_t retry;    /* timer: connects again; while connecting, the end of connect_timeout */
    ngx_connection_t stand_in;
};

/* When the configuration is read. */
void weir_ngx_connection_init(weir_ngx_connection *k, weir_ngx_daemon *d);

/* Closes the connection and frees its memory, when the configuration is freed. No question may be
 * on it. */
void weir_ngx_connection_free(weir_ngx_connection *k);

/* Queues a question, to be sent at the end of this iteration of the event loop. Returns false if
 * the queue is full or memory runs out. */
bool weir_ngx_connection_ask(weir_ngx_connection *k, weir_ngx_ask *ask,
                             const weir_ngx_ask_limit *limit, size_t limits);

/* Forgets the ask, whose reply will be dropped. */
void weir_ngx_connection_cancel(weir_ngx_connection *k, weir_ngx_ask *ask);

/* Lets done() be called later in this iteration of the event loop. `why` is not ANSWERED. */
void weir_ngx_daemon_fail(weir_ngx_daemon *d, weir_ngx_ask *ask, weir_ngx_answer why);

/* Whether a warning may be logged: once a second. */
bool weir_ngx_daemon_may_warn(weir_ngx_daemon *d);

#endif
