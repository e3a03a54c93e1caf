/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_NGINX_CONTEXT_H
#define WEIR_MODULES_NGINX_CONTEXT_H
/* The context of a request: what the module has decided on it, for the variables, the headers and
 * the body of a denial. */

#include "module.h"

#include "port/text.h"

/* What a limit decided. */
typedef struct weir_ngx_outcome {
    weir_ngx_limit *limit; /* NULL: no limit was checked */
    weir_decision decision;
    int64_t cost;
    int64_t next_ns; /* the time until a cost of 1 is allowed, or WEIR_NEXT_UNKNOWN */
    weir_slice key;  /* absent if the request was denied because of an error */
} weir_ngx_outcome;

/* The decision on a main request. It is made once, and kept over internal redirects. */
typedef struct weir_ngx_ctx {
    weir_ngx_status status;
    weir_ngx_outcome shown; /* for the variables */
    bool by_error;          /* neither the store nor the daemon decided: `shown` has no numbers */
    int64_t delay_ns;
    int64_t now_ns;     /* the time of the decision */
    ngx_uint_t headers; /* a set of weir_header_flavour, of the location that decided */
    int retry_spread;   /* of the waits of a denial, in percent; of that location */
    const struct weir_ngx_denied_body *denied_body; /* of that location */
    size_t enforced_max, enforced_len;              /* the room; the decisions, 0: none */
    size_t enforced_shown;       /* the one that denies, or has the least remaining */
    weir_ngx_outcome enforced[]; /* for the headers: no shadow limits */
} weir_ngx_ctx;

/* Makes the context of a main request, with room for n enforced limits. Returns NULL if memory is
 * exhausted. */
weir_ngx_ctx *weir_ngx_ctx_new(ngx_http_request_t *main, size_t n);

/* The decision on r's main request; NULL if there is none yet. */
weir_ngx_ctx *weir_ngx_ctx_of(ngx_http_request_t *r);

/* Keeps a decision for the variables, if it ranks first. */
void weir_ngx_ctx_show(weir_ngx_ctx *ctx, weir_ngx_status status, const weir_ngx_outcome *outcome);

/* Keeps the decision of an enforced limit for the headers, unless it is unknown: its limit is 0.
 *  shown  it is the one that denies, or has the least remaining. */
void weir_ngx_ctx_keep(weir_ngx_ctx *ctx, const weir_ngx_outcome *outcome, bool shown);

/* answer.c: the seconds of Retry-After, for the decision that variables show. */
int64_t weir_ngx_retry_after_s(const weir_ngx_ctx *ctx);

/* answer.c: sends the body of a denial, if the location that decided has one.
 *  status  of the denial.
 * Returns the argument of ngx_http_finalize_request(): without a body it is the status. */
ngx_int_t weir_ngx_deny(ngx_http_request_t *r, const weir_ngx_ctx *ctx, ngx_int_t status);

#endif
