/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_SESSION_H
#define WEIR_CODEC_HTTP_SESSION_H
/* HTTP/1.1, server side: the bytes of a connection -> requests -> the service -> answers.
 * docs/http.md says what may be asked. No sockets: bytes in, bytes out, at a time that is passed
 * in. */

#include "codec/http_syntax.h"
#include "port/buffer.h"
#include "port/session.h"
#include "service/service.h"

#include <llhttp.h>

/* ---- what one client may send ---------------------------------------------------------------- */

#define WEIR_HTTP_TARGET_MAX 8192    /* bytes of a request target; else 414 */
#define WEIR_HTTP_HEAD_MAX   16384   /* of a head, up to its empty line; else 431 */
#define WEIR_HTTP_LINES_MAX  32      /* header lines of the kinds weir reads; else 431 */
#define WEIR_HTTP_BODY_MAX   131072  /* of a body; else 413 */
#define WEIR_HTTP_RAW_MAX    1048576 /* of a body in chunks, all that frames it included */
#define WEIR_HTTP_REPLY_MAX  ((size_t)8 << 20) /* of an answer, which is 500 if it does not fit */

/* ---- a connection ---------------------------------------------------------------------------- */

#define WEIR_HTTP_NAME_MAX 64

/* Texts that end with a NUL. */
typedef struct weir_http_names {
    const char *const *at;
    size_t len;
} weir_http_names;

typedef struct weir_http_options {
    weir_service *service;
    const char *version;  /* of weir, for the metrics */
    const char *password; /* asked for by everything but /healthz and /readyz; NULL: none is */
    /* Called for each wrong password, with the `ctx` of the session's turn; may be NULL. Returns
     * whether the reply is to be held; if not, the connection is closed with it. */
    bool (*wrong_password)(void *ctx, const void *turn_ctx);
    void *wrong_password_ctx;

    weir_http_names hosts;   /* Host names that are served without a password, beside addresses and
                                localhost; "*": all are */
    weir_http_names origins; /* web pages that may ask; compared byte by byte */

    /* Where the key is when a request has no parameter `key`; at most one of the two is given. */
    const char *key_header; /* a header, 1..WEIR_HTTP_NAME_MAX bytes; NULL: none */
    const char *key_query;  /* a query parameter, no other parameter's name; NULL: none */
    unsigned hops; /* of a header that is a list: which element, from the right, 1 is the last.
                      0: the whole value is the key */

    /* Adds the reasons why this daemon should get no requests now, as JSON strings with commas
     * between them; returns whether there are any. NULL: there never are. */
    bool (*not_ready)(void *ctx, weir_buffer *out);
    void *not_ready_ctx;

    bool metrics_top; /* /metrics names the keys that weigh most */

    /* Adds metrics of whoever moves the bytes to an answer of /metrics; NULL: there are none. */
    void (*metrics)(void *ctx, weir_buffer *out);
    void *metrics_ctx;
} weir_http_options;

/* Whether a query parameter of that name has a meaning of its own. Pure. */
bool weir_http_is_param(const char *name, size_t len);

/* Whether a header of that name, in any case, can carry the key: not if it has a meaning of its own
 * here, or if browsers send it by themselves, for then any page could have it sent. Pure. */
bool weir_http_may_be_key(const char *name, size_t len);

/* The headers whose values are kept. */
typedef enum weir_http_header {
    WEIR_HTTP_AUTHORIZATION,
    WEIR_HTTP_CONTENT_TYPE,
    WEIR_HTTP_EXPECT,
    WEIR_HTTP_FETCH_SITE,
    WEIR_HTTP_HOST,
    WEIR_HTTP_ORIGIN,
    WEIR_HTTP_REQUEST_METHOD, /* Access-Control-Request-Method */
    WEIR_HTTP_TRANSFER_ENCODING,
    WEIR_HTTP_KEY, /* options->key_header */
    WEIR_HTTP_HEADERS
} weir_http_header;

/* A header's value, as a place in the session's text. */
typedef struct weir_http_value {
    uint16_t begin, len;
    uint8_t header;
} weir_http_value;

/* One for each connection; private. It may not move. */
typedef struct weir_http_session {
    const weir_http_options *options;
    llhttp_t parser;

    /* The request that is arriving. */
    weir_buffer text;  /* its target, the values of its header lines, its body */
    size_t phase_len;  /* bytes of its head, or of its body as it is framed, that were read */
    size_t target_len; /* the target is at the front of the text ... */
    size_t body_begin; /* ... and the body at its end */
    unsigned lines;    /* header lines that are kept ... */
    uint8_t count[WEIR_HTTP_HEADERS]; /* ... of each header */
    unsigned joined;                  /* headers that have several of them, joined behind */
    weir_http_value value[WEIR_HTTP_LINES_MAX + WEIR_HTTP_HEADERS];
    char name[WEIR_HTTP_NAME_MAX]; /* of the header that is arriving */
    size_t name_len;               /* NAME_MAX + 1: too long to be one of ours */
    weir_http_syntax framing;      /* of the head or the trailers that are arriving */
    bool in_trailers;              /* the last chunk has come */
    bool keeps_line;               /* the line that is arriving is one of ours */
    bool target_done, head_done, done;
    bool keep_alive, http11, has_body;
    bool own_host; /* as in weir_http_request */
    bool resumed;  /* the parser may go on without another byte */

    weir_completion
        completion; /* `ready` and `ctx` belong to the session's owner. Set them after init; without
                       them only the local engine can be used */
    bool asks;      /* the request is whole, and an engine is asked about it */

    /* The end of an answer, as long as it does not fit in `out` or is held back. */
    weir_buffer rest;
    bool rest_big;
    bool held; /* until until_ns */
    int64_t until_ns;

    int64_t date_s; /* the second that `date` says */
    char date[40];
    int refused;         /* a status: the request is answered with it and nothing more is read */
    const char *refusal; /* why */
    bool closing;        /* once `rest` has been sent */
    uint8_t wrong;       /* wrong passwords so far */
    uint8_t host_len;
    char host[64]; /* the last host that set own_host; host_len 0: none */
} weir_http_session;

/* `options` are kept by reference. */
void weir_http_session_init(weir_http_session *s, const weir_http_options *options);

/* Gives back what the session holds, and gives up what is under way. */
void weir_http_session_close(weir_http_session *s);

/* The memory that the session holds besides itself, and whether a request is incomplete. */
weir_session_usage weir_http_session_usage(const weir_http_session *s);

/* Answers every whole request in `in`, in order, and takes from there all that it has read. They
 * are decided at now_ns. It stops when `out` holds more than out_pause bytes (1 or more), and where
 * an answer must wait, or an engine be waited for. However the bytes are cut, the answers are the
 * same. */
weir_session_step weir_http_session_run(weir_http_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns);

#endif
