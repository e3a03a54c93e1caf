/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_COMMANDS_H
#define WEIR_CODEC_RESP_COMMANDS_H
/* RESP requests -> the service -> RESP replies: the commands of the daemon. No sockets: bytes in,
 * bytes out, at a time that is passed in. */

#include "codec/resp.h"
#include "port/buffer.h"
#include "port/session.h"
#include "service/service.h"

/* What the sessions of one thread have in common. */
typedef struct weir_resp_options {
    weir_service *service;
    const char *password; /* NULL: none is asked for */
    /* Called for each wrong password, with the `ctx` of the session's turn; may be NULL. Returns
     * whether the reply is to be held; if not, the connection is closed with it. */
    bool (*wrong_password)(void *ctx, const void *turn_ctx);
    void *wrong_password_ctx;
    const char *version;                     /* of weir, for HELLO and INFO */
    uint64_t sessions;                       /* opened so far */
    uint8_t words[WEIR_RESP_INLINE_LEN_MAX]; /* of the request that is being read */
    uint64_t first_id,
        id_step; /* session i has the id first_id + i * id_step: no two threads give one twice */
} weir_resp_options;

#define WEIR_RESP_NAME_MAX 64 /* bytes of what CLIENT SETNAME keeps */

/* One for each connection. */
typedef struct weir_resp_session {
    weir_resp_options *options;
    weir_resp_parser parser;
    weir_completion
        completion; /* `ready` and `ctx` belong to the session's owner. Set them after init; without
                       them only the local engine can be used */
    uint64_t id;
    int proto;          /* 2 or 3 */
    bool authenticated; /* or no password is asked for */
    bool multi;         /* MULTI was refused: nothing is done until EXEC or DISCARD */
    bool closing;       /* send what `out` holds, then close; nothing more is read */
    uint8_t wrong;      /* wrong passwords so far */
    uint8_t name_len;
    char name[WEIR_RESP_NAME_MAX];
} weir_resp_session;

/* options must outlive the session; it is of the same thread. It may not move. */
void weir_resp_session_init(weir_resp_session *s, weir_resp_options *options);

/* Gives up what is under way. */
void weir_resp_session_close(weir_resp_session *s);

/* Answers every whole request in `in`, and drops it from there. All of them are decided at now_ns,
 * those that stand in a row together. Stops early when `out` holds more than out_pause bytes. Those
 * that an engine is asked about stay in `in` until it has answered, and all behind them.
 * The reply to a wrong password is held back for WEIR_PASSWORD_DELAY_NS: it is alone in `out`, and
 * what stands behind it in `in` waits with it. */
weir_session_step weir_resp_session_run(weir_resp_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns);

#endif
