/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_OPTIONS_H
#define WEIR_CODEC_HTTP_OPTIONS_H
/* The options of an HTTP server, which its sessions share, and the limits on a request. */

#include "codec/answer/client_address.h"
#include "codec/answer/trace.h"
#include "port/atomic.h"
#include "port/buffer.h"
#include "service/rules/answer.h"
#include "service/service.h"
#include "service/users/users.h"

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
    const char *tag;      /* of the content, at most 70 bytes: its entity tags begin with it */
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
    weir_access *access; /* of the thread; NULL: no users. A peer is the `ctx` of the session's
                            completion */

    weir_http_names hosts;   /* names accepted in Host without users, besides IP addresses and
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

    const weir_tracer *tracer; /* of the thread; NULL: there are no spans */

    int64_t started_ns;    /* of the daemon, for /v1/live */
    port_counter *streams; /* open streams of /v1/live, over all threads; NULL: not limited */
    /* Appends the daemon's own members to a tick of /v1/live, each after a comma; may be NULL. */
    void (*live)(void *ctx, int64_t now_ns, weir_buffer *out);
    void *live_ctx;

    /* Appends the daemon's own metrics to a response of /metrics; may be NULL. */
    void (*metrics)(void *ctx, weir_buffer *out);
    void *metrics_ctx;

    /* Endpoints of other services, such as Envoy's. They come after weir's own and the pages. */
    const struct weir_http_guest *guests;
    size_t guests_len;
} weir_http_options;

/* Appends the metrics of GET /metrics without the top keys. Threads: any.
 *  user  who sees only some policies; NULL sees all. */
void weir_http_put_metrics(const weir_http_options *o, const weir_user *user, weir_buffer *out);

/* The path of the endpoint that decides the requests of a proxy, and the begin of its paths. */
#define WEIR_HTTP_FORWARD_PATH "/v1/forward-auth"

/* Returns whether a query parameter of that name has a meaning of its own. Pure. */
bool weir_http_is_param(const char *name, size_t len);

/* Returns whether a header may carry the key. Headers that weir reads and headers that browsers add
 * on their own may not: any web page can make a browser send those. Names are case-insensitive.
 * Pure. */
bool weir_http_may_be_key(const char *name, size_t len);

#endif
