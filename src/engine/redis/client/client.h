/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_CLIENT_H
#define WEIR_ENGINE_REDIS_CLIENT_H
/* Redis and Valkey, client side: a call goes to the node that has its key, over one line a node,
 * and comes back with a reply, or with what is known of why there is none. It finds masters by
 * Cluster and by Sentinel, follows MOVED and ASK, loads what a node needs to decide, and connects
 * again with growing pauses. It knows lines and alarms (port/dial.h) and no sockets, and neither
 * policies nor what is to be done without an answer. One thread's. */

#include "port/atomic.h"
#include "port/dial.h"
#include "service/engine.h"

#include <weir/weir_redis.h>

/* What became of a call. */
typedef enum weir_redis_outcome {
    WEIR_REDIS_ANSWERED,    /* the requests have their statuses and answers */
    WEIR_REDIS_LATE,        /* its deadline is over; it may have been charged, or may yet be */
    WEIR_REDIS_BROKEN,      /* the line broke after it was sent: it may have been charged */
    WEIR_REDIS_UNREACHABLE, /* there is no line to its node, or none that is known: not charged */
    WEIR_REDIS_CROWDED,     /* too many wait already: not charged */
    WEIR_REDIS_REFUSED      /* the node says why it does not (LOADING, OOM, READONLY, NOPERM,
                               CLUSTERDOWN, ...), or what it says makes no sense: not charged */
} weir_redis_outcome;

/* One request to one node: one request, or several that are decided as one. */
typedef struct weir_redis_call {
    weir_engine_request *request; /* len of them stay with the keys and texts they point to */
    size_t len;
    bool all;
    int64_t deadline_ns;
    void (*done)(struct weir_redis_call *c, int64_t now_ns); /* once; not from within send() */

    weir_redis_outcome outcome; /* out */
    size_t blocking;            /* out, of `all` */
    const char *why;            /* out: for the log; good until done() returns */

    /* The client's own. */
    struct weir_redis_call *next, *before;           /* by deadline */
    struct weir_redis_call *wait_next, *wait_before; /* the list that it waits in; NULL: none */
    struct weir_redis_pipeline *pipeline; /* where its reply is expected; NULL: not sent */
    uint32_t number;                      /* of that reply */
    uint8_t redirects;
    bool asking, ended;
} weir_redis_call;

/* Counted by all clients of a process. Relaxed. */
typedef struct weir_redis_counts {
    port_counter sent;                           /* calls, each time that they were */
    port_counter answered;                       /* calls */
    port_counter late, broken, crowded, refused; /* calls, by outcome */
    port_counter unreachable; /* calls, and what was not even tried, by whoever counts that */
    port_counter redirected;  /* MOVED and ASK */
    port_counter reloaded;    /* functions or scripts that a node had lost */
    port_counter connected;   /* lines that are up now */
    port_counter dialed;      /* lines that were tried */
} weir_redis_counts;

/* Told of transitions, not of requests: "redis-up" (by what it decides), "redis-down" (why),
 * "redis-slots" (a Cluster's map is another), "redis-alone" (there is no Cluster, and there are
 * several URLs), "redis-master" (a Sentinel's), "redis-library" (it was loaded), "redis-refuses" (a
 * node that is up does not decide, and says why). `node` is "host:port". Any thread; it is called
 * by the client's. */
typedef struct weir_redis_log {
    void (*say)(void *ctx, const char *event, const char *node, const char *text);
    void *ctx;
} weir_redis_log;

typedef struct weir_redis_client weir_redis_client;

/* Checks all of the options, and writes *ret_error if one of them is wrong. Pure; reads no file. */
WEIR_NODISCARD weir_status weir_redis_options_check(const weir_redis_options *options,
                                                    weir_redis_error *ret_error);

/* Begins to connect.
 *  options  good, by weir_redis_options_check(); kept by reference, as all else is.
 *  tls      for URLs with rediss://; NULL if there are none.
 *  seed     for the pauses between attempts; any number.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_redis_client_open(weir_redis_client **ret,
                                                  const weir_redis_options *options,
                                                  const port_tls *tls, port_dialer *dialer,
                                                  weir_redis_counts *counts,
                                                  const weir_redis_log *log, uint64_t seed);

/* Calls that are under way come back as WEIR_REDIS_UNREACHABLE or WEIR_REDIS_BROKEN, from within
 * this. Accepts NULL. */
void weir_redis_client_close(weir_redis_client *c);

/* Sends a call, or keeps it until it can be: while its node is being found or connected to, and its
 * deadline is not over. Calls with one key are sent in order. *call stays until done() was called,
 * at its deadline at the latest. */
void weir_redis_client_send(weir_redis_client *c, weir_redis_call *call, int64_t now_ns);

/* done() is not called any more, and neither *call nor its requests are touched again. */
void weir_redis_client_abandon(weir_redis_client *c, weir_redis_call *call);

/* Whether the node that has the request's key is up, as far as is known. If it is not,
 * *ret_next_ns is when the next attempt to connect is, before which a call need not be tried; 0 if
 * one is under way. */
bool weir_redis_client_is_up(const weir_redis_client *c, const weir_engine_request *q,
                             int64_t *ret_next_ns);

/* The node that a call about this request would go to: a number that is its own as long as the
 * client knows it, 0..WEIR_REDIS_NODES_MAX - 1; WEIR_REDIS_NODES_MAX if none is known.
 *  ret_name  "host:port", or "" if none is known; good until the client is called again. */
#define WEIR_REDIS_NODES_MAX 1024
uint32_t weir_redis_client_node(const weir_redis_client *c, const weir_engine_request *q,
                                const char **ret_name);

#endif
