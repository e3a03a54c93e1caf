/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NGINX_DAEMON_CONNECTION_H
#define WEIR_NGINX_DAEMON_CONNECTION_H
/* One connection to a daemon, and the questions on it that have no reply yet. A question is a
 * request to the daemon, such as WEIR.CHECK; in this module, a request is one of nginx. The
 * connection reports replies and failures to its owner through callbacks, and knows neither the
 * configuration nor requests. */

/* Before all headers of the system: it defines _GNU_SOURCE. */
#include <ngx_config.h>

#include <ngx_core.h>
#include <ngx_event.h>

#include "daemon_wire.h"

typedef struct weir_ngx_connection weir_ngx_connection;

typedef enum weir_ngx_answer {
    WEIR_NGX_ANSWERED,    /* with a decision */
    WEIR_NGX_ASK_TIMEOUT, /* no reply in time; the limits may have been charged */
    WEIR_NGX_ASK_LOST,    /* the connection broke meanwhile; the limits may have been charged */
    WEIR_NGX_ASK_DOWN,    /* there is no connection */
    WEIR_NGX_ASK_FULL,    /* too many questions wait, or the question is too long */
    WEIR_NGX_ASK_REFUSED  /* the daemon replied with an error, which was logged */
} weir_ngx_answer;

/* A question on a connection, in memory of the owner. */
typedef struct weir_ngx_waiting {
    weir_ngx_connection *connection; /* NULL unless a reply is awaited */
    size_t number;                   /* on that connection */
} weir_ngx_waiting;

/* A daemon, as all connections to it see it. */
typedef struct weir_ngx_peer {
    ngx_str_t name; /* the address as configured */
    ngx_addr_t *address;
    ngx_uint_t addresses;
    ngx_msec_t timeout, connect_timeout;
    weir_slice password; /* empty: none */

    /* Called once for each question, unless it is cancelled. */

    /* A reply has arrived; NULL: it is an error, which was logged. May ask and cancel questions. */
    void (*on_reply)(weir_ngx_waiting *question, const weir_ngx_reply *reply);

    /* There will be no reply. `why` is TIMEOUT, LOST or DOWN. Must not ask or cancel questions. */
    void (*on_fail)(struct weir_ngx_peer *peer, weir_ngx_waiting *question, weir_ngx_answer why);

    /* Whether an error reply may be logged now. */
    bool (*may_warn)(struct weir_ngx_peer *peer);

    /* Of this worker; private to the connections. */
    const char *lost; /* the reason, logged when it became unavailable; else NULL */
    ngx_log_t quiet;  /* for ngx_event_connect_peer(), which logs each failure */
} weir_ngx_peer;

typedef enum weir_ngx_connection_state {
    WEIR_NGX_CLOSED,     /* opened by the next question, or, if down, by the timer */
    WEIR_NGX_CONNECTING, /* connect() has not ended */
    WEIR_NGX_GREETING,   /* questions are sent, but the greeting has no reply yet */
    WEIR_NGX_READY
} weir_ngx_connection_state;

/* A question on a connection, until its reply has arrived. */
typedef struct weir_ngx_slot {
    weir_ngx_waiting *question; /* NULL once it is cancelled or its deadline has passed */
    ngx_msec_t deadline;
    size_t limits;
} weir_ngx_slot;

struct weir_ngx_connection {
    weir_ngx_peer *peer;
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
    size_t live;  /* slots with a question */

    weir_buffer out;
    u_char *in;
    size_t in_len;

    ngx_event_t flush;    /* posted: sends the questions of this iteration */
    ngx_event_t deadline; /* timer: the deadline of questions, or of a silent connection */
    ngx_event_t retry;    /* timer: connects again; while connecting, the end of connect_timeout */
    ngx_connection_t stand_in;
};

/* When the configuration is read. */
void weir_ngx_connection_init(weir_ngx_connection *k, weir_ngx_peer *peer);

/* Closes the connection and frees its memory, when the configuration is freed. No question may be
 * on it. */
void weir_ngx_connection_free(weir_ngx_connection *k);

/* Queues a question, to be sent at the end of this iteration of the event loop. Returns false if
 * the queue is full or memory runs out. */
bool weir_ngx_connection_ask(weir_ngx_connection *k, weir_ngx_waiting *question,
                             const weir_ngx_ask_limit *limit, size_t limits);

/* Cancels a question whose reply is awaited; the reply will be dropped. */
void weir_ngx_connection_cancel(weir_ngx_waiting *question);

#endif
