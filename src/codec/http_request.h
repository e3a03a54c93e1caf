/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_REQUEST_H
#define WEIR_CODEC_HTTP_REQUEST_H
/* A whole request, between the parts of the HTTP codec: http.c makes it from bytes, http_answer.c
 * answers it. */

#include "codec/http.h"
#include "codec/http_reply.h"

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

/* Whether the request may be asked at all, as far as its head can tell: 0, or the status of an
 * answer that `a` now is. It reads no query and no body.
 *  has_body  a body is there or is to come. */
int weir_http_check_head(const weir_http_options *o, const weir_http_request *r, bool has_body,
                         weir_http_answer *a);

/* Answers a request that weir_http_check_head() has let through. Returns false if an engine is
 * asked about it: then it is to be called again with the same request once the turn has its answer,
 * and what is in `a` means nothing. */
bool weir_http_answer_request(const weir_http_options *o, weir_completion *completion,
                              const weir_http_request *r, int64_t now_ns, weir_http_answer *a);

/* `text` without the blanks and tabs around it. */
weir_slice weir_http_trim(weir_slice text);

/* Whether `text` is `word`, the case of ASCII letters aside. */
bool weir_http_is(weir_slice text, const char *word);

#endif
