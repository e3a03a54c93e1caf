/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_CLIENT_H
#define WEIR_ENGINE_REDIS_CLIENT_H
/* The client of Redis and Valkey. It sends a call to the node that serves its key, over one
 * connection to each node, and ends it with a reply or with the reason for having none. It finds
 * masters through a Cluster or through Sentinels, follows MOVED and ASK, loads weir's functions or
 * script into servers, and reconnects with exponential backoff.
 *
 * It uses connections and timers through port/dial.h, and knows no sockets. It knows neither
 * policies nor on_error. A client belongs to one thread. */

#include "port/atomic.h"
#include "port/dial.h"
#include "service/engine.h"

#include <weir/weir_redis.h>

/* ---- options (options.c) --------------------------------------------------------------------- */

#define WEIR_REDIS_HOST_MAX     256 /* bytes of a host or of a socket's path, with a NUL */
#define WEIR_REDIS_SECRET_MAX   512 /* bytes of a user or a password, with a NUL */
#define WEIR_REDIS_PORT_DEFAULT 6379
#define WEIR_SENTINEL_PORT      26379

/* The defaults of weir_redis_options. */
#define WEIR_REDIS_PREFIX_DEFAULT           "weir:"
#define WEIR_REDIS_DEADLINE_NS_DEFAULT      ((int64_t)50000000)
#define WEIR_REDIS_IN_FLIGHT_DEFAULT        16384
#define WEIR_REDIS_DENY_CACHE_BYTES_DEFAULT (1 << 20)

typedef struct weir_redis_url {
    char host[WEIR_REDIS_HOST_MAX]; /* a name, or an address without brackets, or the path of a
                                       socket file, which begins with '/' */
    uint16_t port;                  /* 0: the URL has none */
    bool tls;
    bool has_password;
    char user[WEIR_REDIS_SECRET_MAX]; /* "": none */
    char password[WEIR_REDIS_SECRET_MAX];
    uint32_t database;
} weir_redis_url;

/* Parses a URL such as "redis://user:password@host:port/database".
 *  ret        written on WEIR_OK only.
 *  ret_error  may be NULL; written on failure. Never contains a part of the URL.
 * Returns WEIR_OK or WEIR_E_SYNTAX. Pure. */
WEIR_NODISCARD weir_status weir_redis_url_read(const char *text, weir_redis_url *ret,
                                               weir_redis_error *ret_error);

/* Checks all options. Reads no file.
 *  ret_error  written unless WEIR_OK.
 * Returns WEIR_OK; WEIR_E_SYNTAX for a URL; WEIR_E_RANGE. Pure. */
WEIR_NODISCARD weir_status weir_redis_options_check(const weir_redis_options *options,
                                                    weir_redis_error *ret_error);

/* ---- resets of all keys of a policy (resets.c) ----------------------------------------------- */

/* A reset of all keys of a policy gives it a random token, which is a part of the names of its keys
 * in Redis from then on. So the states of before are never used again, in every slot of a Cluster
 * at once. The tokens are the fields of one hash in Redis, PREFIX#resets. Clients read it when they
 * have connected, before any call, and then every second. */

#define WEIR_REDIS_RESETS_MAX   1024 /* policies; one more cannot be reset */
#define WEIR_REDIS_RESETS_SLOTS 2048

typedef struct weir_redis_reset_slot {
    port_word policy; /* a hash of its name; of its text if it has none. 0: free */
    port_word token;  /* 0: none */
} weir_redis_reset_slot;

/* The tokens that the clients of a process know. All zero at first. Any thread. */
typedef struct weir_redis_resets {
    port_word known;      /* 1: a client has read them, or may not */
    port_counter refused; /* 1: the server refuses to show them, so nothing can be reset */
    port_word version;    /* increases with each change */
    port_counter used;    /* slots */
    /* Open addressing. Policies are never removed. */
    weir_redis_reset_slot slot[WEIR_REDIS_RESETS_SLOTS];
} weir_redis_resets;

/* The token of a request's policy; 0: none.
 *  r  may be NULL. */
uint64_t weir_redis_resets_token(const weir_redis_resets *r, const weir_engine_request *q);

/* Whether all keys of a request's policy can be reset. If not, *ret_why is the reason. */
bool weir_redis_resets_can(const weir_redis_resets *r, const weir_engine_request *q,
                           const char **ret_why);

/* ---- calls ----------------------------------------------------------------------------------- */

/* How a call ended. */
typedef enum weir_redis_outcome {
    WEIR_REDIS_ANSWERED, /* the requests have their statuses and answers */
    WEIR_REDIS_TIMEOUT,  /* no reply before the deadline: charged, not charged, or charged later */
    WEIR_REDIS_CONNECTION_LOST, /* before the reply: it may have been charged */
    WEIR_REDIS_UNREACHABLE,     /* no connection to the node: not charged */
    WEIR_REDIS_OVERLOADED,      /* too many calls are in flight: not charged */
    WEIR_REDIS_REFUSED /* an error reply (LOADING, OOM, READONLY, NOPERM, ...): not charged */
} weir_redis_outcome;

/* One request, or several that are decided as one. */
typedef struct weir_redis_call {
    weir_engine_request *request; /* `len` of them; valid until the call ends */
    size_t len;
    bool all;       /* several that are decided as one */
    uint64_t token; /* of a reset of all keys: random, not 0 */
    int64_t deadline_ns;
    void (*done)(struct weir_redis_call *c, int64_t now_ns); /* once; never from within send() */

    weir_redis_outcome outcome; /* output */
    size_t blocking;            /* output, if `all`: see weir_store_take_many() */
    const char *why;            /* output, for the log; valid until done() returns */

    /* Private to the client. */
    struct weir_redis_call *next, *before;           /* by deadline */
    struct weir_redis_call *wait_next, *wait_before; /* the list that it waits in; NULL: none */
    struct weir_redis_pipeline *pipeline; /* where its reply is expected; NULL: not sent */
    uint32_t number;                      /* of that reply */
    uint8_t redirects;
    bool asking, ended;
    bool figures; /* it was sent with FIGURES */
} weir_redis_call;

/* The statistics of all clients of a process. Relaxed counters. */
typedef struct weir_redis_counts {
    port_counter sent; /* calls, each time that they were sent */
    /* Calls, by outcome. `unreachable` includes requests for which the engine sent no call. */
    port_counter answered, timeout, lost, unreachable, overloaded, refused;
    port_counter redirected;   /* MOVED and ASK */
    port_counter reloaded;     /* functions or scripts that a server had lost */
    port_counter connected;    /* connections that are up now */
    port_counter attempts;     /* to connect */
    weir_redis_resets *resets; /* NULL: none are read or made */
} weir_redis_counts;

/* Receives log events; requests are not logged. The events, and their `text`:
 *
 *   redis-up       "the module", "functions", "a script" or "a Sentinel"
 *   redis-down     the reason
 *   redis-slots    the slot map of a Cluster has changed: the numbers of masters and slots
 *   redis-alone    several URLs were given, but the server is not in Cluster mode: a message
 *   redis-master   a Sentinel has named another master: the master's name in the Sentinels
 *   redis-library  functions or a script were loaded: a message
 *   redis-clock    the server refuses TIME, so calls carry the dialer's time: the error
 *   redis-refuses  the node is up, but replies to calls with an error: the error
 *
 * `node` is "host:port". The client's thread calls write(). */
typedef struct weir_redis_log {
    void (*write)(void *ctx, const char *event, const char *node, const char *text);
    void *ctx;
} weir_redis_log;

typedef struct weir_redis_client weir_redis_client;

/* Opens a client, which connects in the background.
 *  options  checked by weir_redis_options_check(); referenced, as are tls, dialer and counts.
 *  tls      for rediss:// URLs; NULL if there are none.
 *  seed     any number, for the jitter of backoff.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_redis_client_open(weir_redis_client **ret,
                                                  const weir_redis_options *options,
                                                  const port_tls *tls, port_dialer *dialer,
                                                  weir_redis_counts *counts,
                                                  const weir_redis_log *log, uint64_t seed);

/* Ends all calls in flight as WEIR_REDIS_UNREACHABLE or WEIR_REDIS_CONNECTION_LOST, and frees the
 * client. Accepts NULL. */
void weir_redis_client_close(weir_redis_client *c);

/* Sends a call. It waits while its node is being found or connected to. Calls with the same key are
 * sent in order. *call must stay valid until done(), which is called at the deadline at the latest.
 */
void weir_redis_client_send(weir_redis_client *c, weir_redis_call *call, int64_t now_ns);

/* Abandons a call: done() is not called, and neither *call nor its requests are used again. */
void weir_redis_client_abandon(weir_redis_client *c, weir_redis_call *call);

/* Whether the node that serves the request's key is up.
 *  ret_next_ns  written if it is not: when the client next tries to connect; 0 if it tries now. A
 *               call before that time would fail. */
bool weir_redis_client_is_up(const weir_redis_client *c, const weir_engine_request *q,
                             int64_t *ret_next_ns);

#define WEIR_REDIS_NODES_MAX 1024

/* The number of the node that serves the request's key, 0..WEIR_REDIS_NODES_MAX - 1. A node keeps
 * its number. WEIR_REDIS_NODES_MAX: the node is not known.
 *  ret_name  "host:port", or "" if the node is not known; valid until the next call of a function
 *            of the client. */
uint32_t weir_redis_client_node(const weir_redis_client *c, const weir_engine_request *q,
                                const char **ret_name);

#endif
