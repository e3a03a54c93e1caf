/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_SESSION_H
#define WEIR_CODEC_RESP_SESSION_H
/* The daemon's RESP session, one for each connection: takes bytes of requests and writes bytes of
 * replies. Knows no sockets; the time is passed in. The commands are in daemon_commands.c. */

#include "codec/resp/resp.h"
#include "port/buffer.h"
#include "port/session.h"
#include "service/service.h"
#include "service/users/users.h"

/* What INFO reports of the server that runs the sessions. */
typedef struct weir_resp_server {
    int64_t uptime_s;
    uint64_t connections, connections_max; /* clients of every protocol */
    uint64_t rejected, rejected_address;   /* connections: because of limits; of one client */
    uint64_t accepted;                     /* connections, without the rejected ones */
} weir_resp_server;

/* Shared by the sessions of one thread. */
typedef struct weir_resp_options {
    weir_service *service;
    /* Writes *ret for INFO, on the session's thread. NULL: INFO leaves these fields out. */
    void (*server)(void *ctx, weir_resp_server *ret);
    void *server_ctx;
    weir_access *access; /* of the thread; NULL: no users. A peer is the `ctx` of the session's
                            completion */
    const char *version; /* of weir, for HELLO and INFO */
    uint64_t sessions;   /* opened so far */
    uint8_t words[WEIR_RESP_INLINE_LEN_MAX]; /* scratch memory of the parser */
    uint64_t first_id,
        id_step; /* session i has the id first_id + i * id_step, unique in all threads */
} weir_resp_options;

#define WEIR_RESP_NAME_MAX 64 /* bytes of the name that CLIENT SETNAME sets */

/* Between MULTI and EXEC. */
typedef enum weir_resp_transaction {
    WEIR_RESP_NO_TRANSACTION,
    WEIR_RESP_RUNNING, /* EXEC: the commands come from `queue` */
    WEIR_RESP_QUEUING,
    WEIR_RESP_BROKEN, /* a command was refused, so EXEC will run none */
} weir_resp_transaction;

typedef struct weir_resp_session {
    weir_resp_options *options;
    weir_resp_parser parser;
    /* `ready` and `ctx` belong to the owner of the session. Set them after init; without them only
     * the local engine can be used. */
    weir_completion completion;
    uint64_t id;
    int proto; /* 2 or 3 */
    weir_login login;
    bool closing; /* send the output, then close; no more input is parsed */
    weir_resp_transaction transaction;
    size_t queued;        /* commands */
    weir_buffer queue;    /* their requests; no memory outside a transaction */
    size_t subscriptions; /* channels and patterns */
    weir_buffer names;    /* theirs; no memory without subscriptions */
    uint8_t wrong;        /* wrong passwords so far */
    uint8_t name_len;
    char name[WEIR_RESP_NAME_MAX];
} weir_resp_session;

/* options must outlive the session, and belong to the same thread. The session must not move. */
void weir_resp_session_init(weir_resp_session *s, weir_resp_options *options);

/* Cancels requests that are in flight to an engine. */
void weir_resp_session_close(weir_resp_session *s);

/* Bytes of memory that a transaction and subscriptions hold. */
size_t weir_resp_session_memory(const weir_resp_session *s);

/* Replies to every complete request in `in`, and drops it from there. All are decided at now_ns.
 * Stops early when `out` holds more than out_pause bytes. Requests that wait for an engine stay in
 * `in` until it has replied, and so do all requests after them.
 * The reply to a wrong password is delayed by WEIR_PASSWORD_DELAY_NS. It is alone in `out`, and the
 * requests after it wait too. */
weir_session_step weir_resp_session_run(weir_resp_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns);

#endif
