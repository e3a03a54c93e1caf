/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_SESSION_H
#define WEIR_CODEC_HTTP_SESSION_H
/* An HTTP/1.1 server session: parses requests with llhttp, dispatches each to its endpoint, and
 * serialises the responses in order. docs/http.md documents the endpoints. A session reads and
 * writes buffers; it opens no socket and reads no clock. */

#include "codec/http/receive.h"
#include "port/session.h"

/* Each connection has one. Its members are private, except `completion`. It must not move. */
typedef struct weir_http_session {
    weir_http_receiver receiver;
    bool full;        /* see weir_http_session_only_health() */
    weir_login login; /* by the listener or a certificate: each request has its own password */
    bool known;       /* the client has given a right password */
    bool resumed;     /* the parser can continue without more input */

    /* `ready` and `ctx` belong to the session's owner, who sets them after init. Without them the
     * session can use only the local engine. `wait` begins with the completion. */
    union {
        weir_completion completion;
        weir_http_wait wait;
    };
    bool pending;     /* the request is complete and waits for an engine */
    weir_buffer kept; /* what the endpoint needs for the repeated call */
    const weir_answer
        *answer; /* of the listener; its owner sets it after init. NULL: the defaults */

    /* The end of a response that does not fit in `out` or is delayed. */
    weir_buffer rest;
    bool rest_big; /* `rest` is freed rather than cleared once it is sent */
    bool held;     /* `rest` is delayed until until_ns */
    int64_t until_ns;

    /* After the head of GET /v1/live: sends the events. The connection then has no more requests,
     * so its input is discarded. NULL: no stream. */
    struct weir_http_live *live;

    int64_t date_s; /* the second that `date` shows */
    char date[WEIR_HTTP_DATE_ROOM];
    bool closing;      /* the connection is closed once `rest` is sent */
    bool stopping;     /* the server stops: the next response closes the connection */
    bool idle;         /* of a stopping server: the connection is closed at the next run */
    int64_t last_ns;   /* of the last request */
    int64_t traced_ns; /* with a tracer: when the request was complete */
    uint8_t wrong;     /* wrong passwords so far */
} weir_http_session;

/* Makes *s a session without a request.
 *  options  kept by reference. */
void weir_http_session_init(weir_http_session *s, const weir_http_options *options);

/* Frees what the session holds and abandons a pending request. */
void weir_http_session_close(weir_http_session *s);

/* The memory that the session holds besides itself, and whether a request is incomplete. */
weir_session_usage weir_http_session_usage(const weir_http_session *s);

/* From now on, only health checks such as /healthz are answered, and any other request gets 503.
 * The connection closes after one request. Call it after init. */
static inline void weir_http_session_only_health(weir_http_session *s)
{
    s->full = true;
}

/* Call it about once a second, and from the first call with `stopping` on more often: the session
 * then says "Connection: close" in its next response, so that the client need not send a request
 * again. Without a request for a second, it closes. Returns whether to run it. */
bool weir_http_session_poll(weir_http_session *s, int64_t now_ns, bool stopping);

/* Whether there are users, and the client is not known to be one of them. */
static inline bool weir_http_session_is_new(const weir_http_session *s)
{
    return weir_access_is_limited(s->receiver.options->access) && !s->known && !s->login.user;
}

/* Answers every complete request in `in`, in order, and consumes what it has read. All decisions
 * are made at now_ns. It stops when `out` has more than out_pause bytes (1 or more), at a delayed
 * response, and at a request that waits for an engine. The responses do not depend on how the input
 * was split. */
weir_session_step weir_http_session_run(weir_http_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns);

#endif
