/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_MESSAGE_H
#define WEIR_CODEC_HTTP_MESSAGE_H
/* Answers: problems, and decisions with their rate limit fields. It must not know how a request
 * came. */

#include "codec/http_session.h"

/* ---- requests -------------------------------------------------------------------------------- */

typedef enum weir_http_method {
    WEIR_HTTP_GET = 1,
    WEIR_HTTP_HEAD = 2,
    WEIR_HTTP_POST = 4,
    WEIR_HTTP_OPTIONS = 8,
    WEIR_HTTP_OTHER = 16
} weir_http_method;

/* The bytes belong to the session and are good until it reads on. */
typedef struct weir_http_request {
    weir_http_method method;
    weir_slice path;
    weir_slice query;                     /* without its '?' */
    weir_slice header[WEIR_HTTP_HEADERS]; /* `at` is NULL if there is none; else lines of one name
                                            are joined with ", " */
    weir_slice host; /* that of an absolute-form target, else the value of Host; `at` is NULL if
                        there is neither */
    bool own_host;   /* the host is weir's own, or there is a password */
    weir_slice body;
} weir_http_request;

/* `text` without the blanks and tabs around it. */
weir_slice weir_http_trim(weir_slice text);

/* Whether `text` is `word`, the case of ASCII letters aside. */
bool weir_http_is(weir_slice text, const char *word);

/* ---- responses ------------------------------------------------------------------------------- */

#define WEIR_HTTP_HEAD_ROOM 3072 /* 8 layers with names of 64 bytes are about 1 KiB */

/* An answer on its way to its bytes. */
typedef struct weir_http_response {
    int status;
    const char *type;                 /* of the body */
    weir_buffer *body;                /* empty to begin with */
    char fields[WEIR_HTTP_HEAD_ROOM]; /* further header lines */
    size_t fields_len;
    int64_t delay_ns; /* hold it so long */
    bool wrong_password;
} weir_http_response;

/* Makes `a` an answer without anything yet. Not all of it is written: it is large. */
static inline void weir_http_response_init(weir_http_response *a, weir_buffer *body)
{
    a->status = 0;
    a->type = "";
    a->body = body;
    a->fields_len = 0;
    a->delay_ns = 0;
    a->wrong_password = false;
}

/* Adds "name: value" lines, each with its CR LF. */
__attribute__((format(printf, 2, 3))) void weir_http_add_field(weir_http_response *a,
                                                               const char *format, ...);

/* Makes `a` a problem (RFC 9457) that has no type of its own: its title is the status' reason, its
 * detail what is printed, of which at most 511 bytes are kept. */
__attribute__((format(printf, 3, 4))) void weir_http_problem(weir_http_response *a, int status,
                                                             const char *format, ...);

/* What some decisions have beside the figures. */
typedef struct weir_http_more {
    bool of_all;    /* the ask is one of several ... */
    size_t index;   /* ... and which */
    const char *id; /* of the reservation that was made, WEIR_HEX64_LEN characters; NULL: none */
} weir_http_more;

/* Makes `a` the answer to a decision: 200, or denied_status and a problem of the type
 * quota-exceeded.
 *  ask   one that was answered with WEIR_OK.
 *  more  NULL: there is no more. */
void weir_http_decision(weir_http_response *a, const weir_request *ask, int denied_status,
                        const weir_http_more *more);

/* Whether the service could do what it was asked; if not, `a` becomes the problem.
 *  where  "" or which of several asks it is: "requests[2]: ". */
bool weir_http_was_done(weir_http_response *a, const weir_request *ask, const char *where);

/* "Too Many Requests" for 429. */
const char *weir_http_reason(int status);

/* Adds an answer's status line and its header lines with the empty one; its body is to follow.
 *  connection  "close", "keep-alive", or NULL for no such line.
 *  date        when it was made, as RFC 9110 has it. */
void weir_http_put_head(weir_buffer *out, const weir_http_response *a, const char *connection,
                        const char *date);

#endif
