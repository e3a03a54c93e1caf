/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_NODE_H
#define WEIR_ENGINE_REDIS_NODE_H
/* A node is one server and the connection to it. It connects, and reconnects with exponential
 * backoff; it pipelines requests, and matches replies to them. The functions in
 * weir_redis_node_events decide what to do about its replies and its state. */

#include "codec/resp/reply_reader.h"
#include "engine/redis/client/calls.h"
#include "engine/redis/client/wire.h"

#define WEIR_REDIS_WHY_MAX 160
#define WEIR_REDIS_MS      ((int64_t)1000000)

#define WEIR_REDIS_IS_REPLICA "the server is a replica, but weir needs a master"

enum {
    WEIR_REDIS_NODE_NAME_MAX = 256 + 10 /* "host:port", with a NUL */
};

typedef struct weir_redis_node weir_redis_node;

/* The callbacks of a node. `lost`, `is_wanted` and `serves` must not call functions of the node. */
typedef struct weir_redis_node_events {
    /* The connection was established: send the handshake. */
    void (*connected)(weir_redis_node *n, int64_t now_ns);
    /* One value of a reply to anything but a call. The reply ends with v->last. */
    void (*reply)(weir_redis_node *n, weir_redis_expects expects, const weir_resp_value *v,
                  int64_t now_ns);
    /* An error reply to a call. The call has left the pipeline, and has to be ended or sent. */
    void (*error)(weir_redis_node *n, weir_redis_call *call, weir_slice text, int64_t now_ns);
    /* The connection was closed: the requests that were sent over it get no reply. */
    void (*lost)(weir_redis_node *n);
    /* The node came up, or failed: calls that wait for it have to be routed again. */
    void (*changed)(weir_redis_node *n, int64_t now_ns);
    /* The backoff pause has ended. */
    void (*backoff_ended)(weir_redis_node *n, int64_t now_ns);
    /* Whether there should be a connection. */
    bool (*is_wanted)(const weir_redis_node *n);
    /* Whether calls go to this node: then it has to be a master. */
    bool (*serves)(const weir_redis_node *n);
    /* Whether calls for a hash slot go to this node. */
    bool (*serves_slot)(const weir_redis_node *n, uint32_t slot);
} weir_redis_node_events;

/* What all nodes of a client share. */
typedef struct weir_redis_context {
    const weir_redis_node_events *events;
    const weir_redis_options *options;
    const port_tls *tls;
    port_dialer *dialer;
    weir_redis_counts *counts;
    weir_redis_log log;
    uint64_t random;
    const char *prefix;
    size_t prefix_len;
    size_t in_flight_max;
    char user[WEIR_REDIS_SECRET_MAX], password[WEIR_REDIS_SECRET_MAX]; /* "": none */
    bool has_password;
    bool uses_tls;
    bool closing;
    weir_redis_bounds bounds[WEIR_REDIS_ZONES];
    weir_redis_calls calls;
} weir_redis_context;

typedef enum weir_redis_node_state {
    WEIR_REDIS_IDLE,    /* no connection, and none wanted */
    WEIR_REDIS_BACKOFF, /* no connection before next_ns */
    WEIR_REDIS_CONNECTING,
    WEIR_REDIS_HANDSHAKE, /* or the connection is being retired */
    WEIR_REDIS_UP
} weir_redis_node_state;

/* State of the handshake; see handshake.c. */
typedef struct weir_redis_handshake {
    unsigned left;   /* replies that it still waits for */
    bool has_module; /* the server has the command WEIR.ASK */
    bool has_decided;
    unsigned loads;  /* how often it was sent functions or a script */
    int64_t version; /* of the functions library, or one of the constants in handshake.c */
    char problem[WEIR_REDIS_WHY_MAX]; /* its first error; "" */
} weir_redis_handshake;

struct weir_redis_node {
    weir_redis_context *context;
    uint16_t at;             /* the node's number */
    bool is_seed;            /* one of the URLs: never removed */
    bool is_sentinel;        /* it gets no calls */
    bool lacks_master;       /* a Sentinel that did not know the master when it was last asked */
    bool in_map, was_in_map; /* it serves slots of the Cluster: now, and in the latest map */
    bool is_replica;         /* by its own ROLE */
    char host[WEIR_REDIS_HOST_MAX];
    uint16_t port;
    char name[WEIR_REDIS_NODE_NAME_MAX];
    uint32_t database;

    weir_redis_node_state state;
    port_connection *connection;
    uint32_t connections; /* established so far: distinguishes one from the next */
    port_timer *timer;
    weir_buffer *out; /* of the connection */
    int64_t used_ns;  /* when the latest call was sent */
    weir_redis_pipeline pipeline;
    weir_resp_stream stream;
    int64_t field[WEIR_REDIS_FIELDS_MAX]; /* of the reply that is being read */
    size_t fields;
    weir_redis_call waiting;           /* a list: calls that wait for the connection */
    unsigned failures;                 /* since the connection last worked */
    int64_t next_ns;                   /* BACKOFF: when to connect again */
    int64_t since_ns;                  /* when the state began */
    uint32_t skip;                     /* see port_endpoint */
    unsigned refusals;                 /* calls in a row that the server refused */
    int64_t retired_ns;                /* when a connection was last retired; 0: never */
    char retiring[WEIR_REDIS_WHY_MAX]; /* why the connection is being retired; "": it is not */
    bool is_doubted; /* it refused several calls in a row, and has not answered one since */

    weir_redis_handshake handshake;
    weir_redis_by by;             /* valid when UP */
    char sha[WEIR_REDIS_SHA_LEN]; /* of the script, once one server has loaded it */
    bool sends_time;              /* the server refuses TIME to functions or scripts */
    bool omits_figures;           /* the server's module does not know FIGURES */
    bool logged_time;

    char logged[WEIR_REDIS_WHY_MAX]; /* the latest reason in the log for being down */
    bool logged_down, logged_up;
    weir_redis_by logged_by;
    int64_t logged_ns;         /* when a reason for being down was last logged; 0: never */
    int64_t logged_before_ns;  /* when the one before that was */
    int64_t logged_refuses_ns; /* when an error reply to a call was last logged; 0: never */
};

/* NULL: no memory. */
weir_redis_node *weir_redis_node_new(weir_redis_context *x, const char *host, uint16_t port);
/* Frees a node, whose calls have ended. */
void weir_redis_node_free(weir_redis_node *n);

void weir_redis_node_connect(weir_redis_node *n, int64_t now_ns);
/* The handshake has succeeded. */
void weir_redis_node_up(weir_redis_node *n, int64_t now_ns);
/* Goes from UP back to HANDSHAKE over the same connection. Calls wait meanwhile. */
void weir_redis_node_renegotiate(weir_redis_node *n, int64_t now_ns);
/* Closes the connection, if there is one, and pauses. Calls that were sent end as
 * WEIR_REDIS_CONNECTION_LOST; calls that wait are routed again.
 *  why  for the log. */
void weir_redis_node_fail(weir_redis_node *n, const char *why, int64_t now_ns);
/* Retires the connection, because the server replies but does not decide. New calls wait. Once the
 * replies to earlier calls have arrived, or after a short time, the connection is closed, and the
 * name is looked up again. Does nothing if the node is not up, or if its connection was retired
 * within the last second.
 *  why  the server's error. */
void weir_redis_node_retire(weir_redis_node *n, const char *why, int64_t now_ns);
/* Counts a call that the server refused, for a reason that does not depend on the call. After
 * several in a row the connection is retired, and the node counts as down until it has answered a
 * call, or has refused none for a while. */
void weir_redis_node_refused(weir_redis_node *n, const char *why, int64_t now_ns);
/* Closes a connection that is not needed any more, with no calls in its pipeline. */
void weir_redis_node_disconnect(weir_redis_node *n, int64_t now_ns);
/* If there is no connection, ends the backoff early, and forgets earlier failures. */
void weir_redis_node_end_backoff(weir_redis_node *n, int64_t now_ns);

/* Sends a call over a connection that is up. False: the connection has too much to send; then
 * nothing was sent. */
bool weir_redis_node_send(weir_redis_node *n, weir_redis_call *call, int64_t now_ns);
/* Begins a request of `words` words that is not a call; weir_redis_node_word() adds each. False: no
 * memory; then nothing is sent, and the connection is closed soon. */
bool weir_redis_node_request(weir_redis_node *n, weir_redis_expects expects, size_t words,
                             int64_t now_ns);
void weir_redis_node_word(weir_redis_node *n, const char *word);
void weir_redis_node_bulk(weir_redis_node *n, const char *bytes, size_t len);

void weir_redis_node_log(const weir_redis_node *n, const char *event, const char *text);
void weir_redis_node_log_up(weir_redis_node *n); /* unless it was logged before */
/* Copies a server's text for a log line: control characters become spaces. What it writes is not
 * empty. Returns ret. */
const char *weir_redis_copy_text(char *ret, size_t size, const char *text, size_t len);

/* ---- the handshake (handshake.c) ------------------------------------------------------------- */

/* The handshake: the requests over a new connection before its first call. They log in, find out
 * whether the server is a master, and choose how it decides: by the module, by functions or by a
 * script. If necessary, they load weir's functions or script into the server. */

enum {
    WEIR_REDIS_LIBRARY_VERSION = 6 /* the least that `FCALL weir_version 0` has to return */
};

/* Sends the handshake over a new connection. It ends with weir_redis_node_up() or
 * weir_redis_node_fail(). */
void weir_redis_handshake_begin(weir_redis_node *n, int64_t now_ns);

/* The server has lost its functions or its script: chooses again over the same connection, and
 * loads them again. */
void weir_redis_handshake_repeat(weir_redis_node *n, int64_t now_ns);

/* Takes one value of a reply to a handshake request. */
void weir_redis_handshake_receive(weir_redis_node *n, weir_redis_expects expects,
                                  const weir_resp_value *v, int64_t now_ns);

/* modules/lua/weir.lua, embedded by the build: as a library of functions, and as a script for
 * servers that have no functions. tools/embed-lua makes them. */
extern const char weir_lua_functions[];
extern const size_t weir_lua_functions_len;
extern const char weir_lua_script[];
extern const size_t weir_lua_script_len;

#endif
