/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_SESSION_H
#define WEIR_CODEC_HTTP_SESSION_H
/* An HTTP/1.1 server session: parses requests with llhttp, dispatches each to its endpoint, and
 * serialises the responses in order. docs/http.md documents the endpoints. A session reads and
 * writes buffers; it opens no socket and reads no clock. */

#include "codec/client_address.h"
#include "codec/http_syntax.h"
#include "port/atomic.h"
#include "port/buffer.h"
#include "port/session.h"
#include "service/rls/rls.h"
#include "service/rules/answer.h"
#include "service/service.h"

#include <llhttp.h>

/* ---- limits on a request --------------------------------------------------------------------- */

#define WEIR_HTTP_TARGET_MAX 8192    /* bytes of a request target; above it 414 */
#define WEIR_HTTP_HEAD_MAX   65536   /* bytes of request line and headers; above it 431 */
#define WEIR_HTTP_VALUES_MAX 16384   /* bytes of the header lines that weir reads; above it 431 */
#define WEIR_HTTP_LINES_MAX  32      /* header lines that weir reads; above it 431 */
#define WEIR_HTTP_BODY_MAX   131072  /* bytes of a body; above it 413 */
#define WEIR_HTTP_RAW_MAX    1048576 /* bytes of a chunked body with its framing; above it 413 */
#define WEIR_HTTP_REPLY_MAX  ((size_t)8 << 20) /* bytes of a response body; above it 500 */

/* ---- options --------------------------------------------------------------------------------- */

#define WEIR_HTTP_NAME_MAX 64

/* A list of NUL-terminated strings. */
typedef struct weir_http_names {
    const char *const *at;
    size_t len;
} weir_http_names;

/* A web page, or a file that one uses. */
typedef struct weir_http_page {
    const char *name;     /* "playground.html" */
    const char *tag;      /* the entity tag, without quotes: it changes with the content */
    const uint8_t *gzip;  /* the content, compressed */
    size_t gzip_len, len; /* bytes, compressed and uncompressed */
} weir_http_page;

typedef struct weir_http_page_table {
    const weir_http_page *at;
    size_t len;
} weir_http_page_table;

typedef struct weir_http_options {
    weir_service *service;
    const char *version; /* of weir, for the metrics */
    weir_http_page_table pages;
    const char *password; /* required by every endpoint but /healthz and /readyz; NULL: none */
    /* Called for each wrong password; may be NULL. Returns true to delay the response, false to
     * send it at once and close the connection.
     *  peer  the `ctx` of the session's completion. */
    bool (*wrong_password)(void *ctx, const void *peer);
    void *wrong_password_ctx;

    weir_http_names hosts;   /* names accepted in Host without a password, besides IP addresses and
                                localhost; "*" accepts every name */
    weir_http_names origins; /* origins of web pages that may send requests (CORS); compared byte by
                                byte */

    /* Where to find the key of a request without a `key` parameter. At most one of them is set. */
    const char *key_header; /* a header name of 1..WEIR_HTTP_NAME_MAX bytes, or NULL */
    const char *key_query;  /* a query parameter that has no other meaning, or NULL */
    unsigned hops; /* for a key_header with a comma-separated list: which element is the key,
                      counted from the right; 1 is the last. 0: the whole value is the key */

    /* Who the client of a request is: see weir_http_client(). */
    weir_trusted_proxies trusted;
    weir_client_header client_kind;
    const char *client_header; /* the name of the header; NULL: none is read */
    /* Finds the address of a connection's client; NULL: it is not known.
     *  peer  the `ctx` of the session's completion.
     * Returns false if the connection has no address, such as that of a Unix socket. */
    bool (*peer_address)(const void *peer, weir_address *ret);

    /* Appends the reasons why this daemon should receive no requests now, as JSON strings separated
     * by commas. Returns false if there are none. NULL: always ready. */
    bool (*not_ready)(void *ctx, weir_buffer *out);
    void *not_ready_ctx;

    bool metrics_top; /* /metrics includes the top keys */

    int64_t started_ns;    /* of the daemon, for /v1/live */
    port_counter *streams; /* open streams of /v1/live, over all threads; NULL: not limited */
    /* Appends the daemon's own members to a tick of /v1/live, each after a comma; may be NULL. */
    void (*live)(void *ctx, int64_t now_ns, weir_buffer *out);
    void *live_ctx;

    /* Appends the daemon's own metrics to a response of /metrics; may be NULL. */
    void (*metrics)(void *ctx, weir_buffer *out);
    void *metrics_ctx;

    /* The Rate Limit Service: /json, /healthcheck, /rlconfig, /stats, and its metrics. NULL: these
     * paths are unknown. */
    weir_rls *rls;
    struct weir_rls_door *rls_door; /* of the event loop; set if `rls` is */

    /* limitador's API: /check, /report, /check_and_report, /limits, /counters, /status, and its
     * metrics. NULL: these paths are unknown. */
    struct weir_limitador_loop *limitador;
} weir_http_options;

/* The path of the endpoint that decides the requests of a proxy, and the begin of its paths. */
#define WEIR_HTTP_FORWARD_PATH "/v1/forward-auth"

/* Returns whether a query parameter of that name has a meaning of its own. Pure. */
bool weir_http_is_param(const char *name, size_t len);

/* Returns whether a header may carry the key. Headers that weir reads and headers that browsers add
 * on their own may not: any web page can make a browser send those. Names are case-insensitive.
 * Pure. */
bool weir_http_may_be_key(const char *name, size_t len);

/* ---- the session ----------------------------------------------------------------------------- */

/* The headers whose values a session stores. Those of a request that a proxy describes are stored
 * for /v1/forward-auth only. */
typedef enum weir_http_header {
    WEIR_HTTP_ACCEPT_ENCODING,
    WEIR_HTTP_AUTHORIZATION,
    WEIR_HTTP_CONTENT_TYPE,
    WEIR_HTTP_EXPECT,
    WEIR_HTTP_FETCH_SITE,
    WEIR_HTTP_FORWARDED_HOST, /* X-Forwarded-Host, and so on */
    WEIR_HTTP_FORWARDED_METHOD,
    WEIR_HTTP_FORWARDED_URI,
    WEIR_HTTP_HOST,
    WEIR_HTTP_IF_NONE_MATCH,
    WEIR_HTTP_ORIGIN,
    WEIR_HTTP_ORIGINAL_METHOD, /* X-Original-Method, and so on */
    WEIR_HTTP_ORIGINAL_URI,
    WEIR_HTTP_ORIGINAL_URL,
    WEIR_HTTP_PASSWORD,       /* X-Weir-Password */
    WEIR_HTTP_REQUEST_METHOD, /* Access-Control-Request-Method */
    WEIR_HTTP_TRANSFER_ENCODING,
    WEIR_HTTP_KEY,    /* options->key_header */
    WEIR_HTTP_CLIENT, /* options->client_header, unless it is key_header */
    WEIR_HTTP_HEADERS,
    WEIR_HTTP_NAMED = WEIR_HTTP_HEADERS /* another one, which a key template of a rule reads */
} weir_http_header;

/* A header's value, as a range of the session's `text`. */
typedef struct weir_http_value {
    uint16_t begin, len;
    uint8_t header;
    uint8_t name_len; /* of WEIR_HTTP_NAMED: the length of its name, which is before the value */
} weir_http_value;

/* Each connection has one. Its members are private, except `completion`. It must not move. */
typedef struct weir_http_session {
    const weir_http_options *options;
    llhttp_t parser;

    /* The request being received. */
    weir_buffer text;  /* its target, then the stored header values, then its body */
    size_t phase_len;  /* bytes read of its head, or of its body with framing */
    size_t target_len; /* of the target, which begins at offset 0 of `text` */
    size_t body_begin; /* offset of the body in `text` */
    unsigned lines;    /* stored header lines: value[0..lines - 1] */
    uint8_t count[WEIR_HTTP_HEADERS + 1]; /* stored lines of each header */
    unsigned joined; /* headers with several lines, joined with ", ": value[lines..] */
    weir_http_value value[WEIR_HTTP_LINES_MAX + WEIR_HTTP_LINES_MAX / 2];
    bool in_api;   /* the path begins with /v1, so that key templates may read headers */
    bool forwards; /* it begins with /v1/forward-auth */
    char name[WEIR_HTTP_NAME_MAX]; /* of the header being received */
    size_t name_len;               /* WEIR_HTTP_NAME_MAX + 1: longer than every stored header */
    weir_http_syntax syntax;       /* of the head or the trailers being received */
    bool in_trailers;              /* the last chunk has arrived */
    bool keeps_line;               /* the header line being received is stored */
    bool target_done, head_done, done;
    bool keep_alive, http11, has_body;
    bool own_host; /* as in weir_http_request */
    bool resumed;  /* the parser can continue without more input */

    /* `ready` and `ctx` belong to the session's owner, who sets them after init. Without them the
     * session can use only the local engine. A request of the Rate Limit Service uses `wait`, which
     * begins with the completion. */
    union {
        weir_completion completion;
        weir_rls_wait wait;
    };
    bool pending;       /* the request is complete and waits for an engine */
    weir_buffer kept;   /* what the endpoint needs for the repeated call */
    weir_answer answer; /* of the listener; its owner sets it after init. Zero: the defaults */

    /* The end of a response that does not fit in `out` or is delayed. */
    weir_buffer rest;
    bool rest_big; /* `rest` is freed rather than cleared once it is sent */
    bool held;     /* `rest` is delayed until until_ns */
    int64_t until_ns;

    /* After the head of GET /v1/live: sends the events. The connection then has no more requests,
     * so its input is discarded. NULL: no stream. */
    struct weir_http_live *live;

    int64_t date_s; /* the second that `date` shows */
    char date[40];
    int refused;         /* the status that refuses the request; 0: not refused */
    const char *refusal; /* why */
    bool closing;        /* the connection is closed once `rest` is sent */
    uint8_t wrong;       /* wrong passwords so far */
    uint8_t host_len;    /* of `host`; 0: none */
    char host[64];       /* the last host that check_host() accepted */
} weir_http_session;

/* Makes *s a session without a request.
 *  options  kept by reference. */
void weir_http_session_init(weir_http_session *s, const weir_http_options *options);

/* Frees what the session holds and abandons a pending request. */
void weir_http_session_close(weir_http_session *s);

/* The memory that the session holds besides itself, and whether a request is incomplete. */
weir_session_usage weir_http_session_usage(const weir_http_session *s);

/* Answers every complete request in `in`, in order, and consumes what it has read. All decisions
 * are made at now_ns. It stops when `out` has more than out_pause bytes (1 or more), at a delayed
 * response, and at a request that waits for an engine. The responses do not depend on how the input
 * was split. */
weir_session_step weir_http_session_run(weir_http_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns);

#endif
