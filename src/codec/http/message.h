/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_MESSAGE_H
#define WEIR_CODEC_HTTP_MESSAGE_H
/* HTTP messages: parsed requests, and responses with their headers. Errors are problem details (RFC
 * 9457); decisions carry RateLimit headers; bodies may be compressed. It must not know how messages
 * are parsed or sent. */

#include "codec/answer/fields.h"
#include "codec/http/options.h"

/* ---- requests -------------------------------------------------------------------------------- */

typedef enum weir_http_method {
    WEIR_HTTP_OTHER = 0, /* in no set of methods */
    WEIR_HTTP_GET = 1,
    WEIR_HTTP_HEAD = 2,
    WEIR_HTTP_POST = 4,
    WEIR_HTTP_OPTIONS = 8
} weir_http_method;

/* The headers whose values a session stores. Those of a request that a proxy describes are stored
 * for /v1/forward-auth only. */
typedef enum weir_http_header {
    WEIR_HTTP_ACCEPT,
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

/* A complete request. Its slices point into the session and are valid until it parses more
 * input. */
typedef struct weir_http_request {
    weir_http_method method;
    weir_slice method_name; /* "GET" */
    weir_slice path;
    weir_slice query;                     /* without the '?' */
    weir_slice header[WEIR_HTTP_HEADERS]; /* absent headers have a NULL `at`; several lines of one
                                             header are joined with ", " */
    weir_slice host; /* from an absolute-form target, otherwise from Host; NULL `at`: neither */
    bool repeated;   /* it waited for an engine: its rights were checked before */
    bool full;       /* only probes are answered: see weir_http_session_only_health() */
    bool own_host;   /* the host is accepted: see weir_http_check_host() */
    const uint8_t *count; /* lines of each header, by weir_http_header */
    /* The stored header lines, for weir_http_find_header(). */
    const weir_http_value *value;
    size_t values;
    const char *text;
    weir_buffer *kept; /* empty at first; kept while the request is pending */
    weir_slice body;
    const void *peer; /* for options->peer_address() */
} weir_http_request;

/* Finds a stored header of any name; ret->at is NULL if it is absent. Several lines are joined with
 * ", ". Returns whether it is present. */
bool weir_http_find_header(const weir_http_options *o, const weir_http_request *r, weir_slice name,
                           weir_slice *ret);

/* What a pending request waits with. A guest's endpoint may keep up to WEIR_HTTP_WAIT_ROOM bytes
 * from one call to the next, which begin with the completion, if it sets `cancel`. */
#define WEIR_HTTP_WAIT_ROOM 64
typedef struct weir_http_wait {
    union {
        weir_completion completion;
        uint64_t room[WEIR_HTTP_WAIT_ROOM / sizeof(uint64_t)];
    };
    void (*cancel)(struct weir_http_wait *wait); /* instead of weir_completion_cancel() */
} weir_http_wait;

/* ---- responses ------------------------------------------------------------------------------- */

#define WEIR_HTTP_HEAD_ROOM (WEIR_ANSWER_ROOM + 2048)

/* A response before it is serialised. */
typedef struct weir_http_response {
    int status;
    const char *type;                 /* of the body */
    weir_buffer *body;                /* empty at first */
    char fields[WEIR_HTTP_HEAD_ROOM]; /* additional header lines */
    size_t fields_len;
    int64_t delay_ns; /* delay the response for so long */
    bool wrong_password, right_password;
    bool endless;                /* the body ends with the connection: it has no Content-Length */
    bool has_cache_fields;       /* `fields` says how the body may be cached and sniffed */
    struct weir_http_live *live; /* sends the body after `body`; NULL: nothing does */
    const weir_answer *answer;   /* of the listener, for decisions; NULL: the defaults */
    int64_t now_ns;              /* of the decision */
    weir_trace_span *span;       /* that notes a decision; NULL: the request is not traced */
} weir_http_response;

/* Makes *a an empty response. It does not clear `fields`, which is large. */
static inline void weir_http_response_init(weir_http_response *a, weir_buffer *body)
{
    a->status = 0;
    a->type = "";
    a->body = body;
    a->fields_len = 0;
    a->delay_ns = 0;
    a->wrong_password = a->right_password = false;
    a->endless = a->has_cache_fields = false;
    a->live = NULL;
    a->answer = NULL;
    a->now_ns = 0;
    a->span = NULL;
}

/* Makes *a an empty response again. It keeps the listener's answer, the time and the span. */
static inline void weir_http_response_clear(weir_http_response *a)
{
    const weir_answer *answer = a->answer;
    int64_t now_ns = a->now_ns;
    weir_trace_span *span = a->span;
    weir_buffer_clear(a->body);
    weir_http_response_init(a, a->body);
    a->answer = answer;
    a->now_ns = now_ns;
    a->span = span;
}

/* Appends header lines. The format contains complete lines, each with its CR LF. */
__attribute__((format(printf, 2, 3))) void weir_http_add_field(weir_http_response *a,
                                                               const char *format, ...);

/* Makes *a an error response of the problem type about:blank (RFC 9457). The title is the reason
 * phrase of the status; the formatted text is the detail, cut at 511 bytes. */
__attribute__((format(printf, 3, 4))) void weir_http_problem(weir_http_response *a, int status,
                                                             const char *format, ...);

/* Members of a decision's body that only some endpoints add. */
typedef struct weir_http_more {
    const weir_request *all;     /* the request is one of several: adds its index and its key */
    size_t n;                    /* of them */
    size_t index;                /* of the request in the list */
    const weir_figures *figures; /* of a peek; NULL: none */
    const char *id;              /* of a new reservation, WEIR_HEX64_LEN characters; NULL: none */
    bool settled;                /* nothing was asked: the status is 200, whatever `allowed` is */
    bool charged;                /* adds the request's `over` */
} weir_http_more;

/* Makes *a the response to a decision, with the header fields that are configured: 200 if it is
 * allowed or settled, otherwise a denial with the configured body, or with a problem of the type
 * quota-exceeded.
 *  r              a request with the status WEIR_OK.
 *  denied_status  the status that the client wants for a denial; 0: the configured one.
 *  more           may be NULL. */
void weir_http_decision(weir_http_response *a, const weir_request *r, int denied_status,
                        const weir_http_more *more);

/* Returns whether the service handled a request. If not, *a becomes the error response.
 *  where  "", or the request's place in a list: "requests[2]: ". */
bool weir_http_succeeded(weir_http_response *a, const weir_request *r, const char *where);

/* The reason phrase of a status: "Too Many Requests" for 429. Static. */
const char *weir_http_reason(int status);

#define WEIR_HTTP_DATE_ROOM 40

/* Prints a Date, "Thu, 01 Jan 2026 00:00:00 GMT" (RFC 9110, 5.6.7), of a time in seconds since
 * 1970. Returns false, and prints nothing, for a time that no calendar has. */
bool weir_http_date(int64_t now_s, char ret[static WEIR_HTTP_DATE_ROOM]);

/* Serialises a response up to the empty line before its body. Its fields forbid to cache it and to
 * guess its type, unless it has such fields of its own.
 *  connection  value of the Connection header: "close" or "keep-alive"; NULL leaves it out.
 *  date        value of the Date header. */
void weir_http_put_head(weir_buffer *out, const weir_http_response *a, const char *connection,
                        const char *date);

/* ---- content codings (coding.c; RFC 9110, 8.4) ----------------------------------------------- */

/* Calls `is` for each element of a comma-separated list (RFC 9110, 5.6.1). Returns whether one of
 * the calls returned true.
 *  list  `at` is NULL for a header that is absent. */
bool weir_http_any_element(weir_slice list, bool (*is)(weir_slice element, const void *ctx),
                           const void *ctx);

/* Whether the client of a request accepts the coding gzip. */
bool weir_http_accepts_gzip(const weir_http_request *r);

/* Whether the client of a request for the front page names HTML, as browsers do. */
bool weir_http_accepts_html(const weir_http_request *r);

/* Compresses the body of a response if the client accepts that, and adds the header lines that say
 * so. The body stays as it is if there is no memory. */
void weir_http_compress(const weir_http_request *r, weir_http_response *a);

#endif
