/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_NGINX_DECIDE_H
#define WEIR_MODULES_NGINX_DECIDE_H
/* Decides on a request by the limits of its location, and counts and logs the outcome. */

#include "context.h"

/* The limits to check for a request, with keys and costs. The keys lie in the request's pool. */
typedef struct weir_ngx_question {
    size_t len;
    weir_ngx_limit *limits[WEIR_TAKE_MANY_MAX];
    weir_store_request requests[WEIR_TAKE_MANY_MAX];
    int64_t next_ns[WEIR_TAKE_MANY_MAX]; /* of the outcomes */
    int64_t ends_ns[WEIR_TAKE_MANY_MAX]; /* when the leases of the requests end; 0: none is held */
} weir_ngx_question;

/* Whether a line of this kind may be logged for a request: see lines.h. */
bool weir_ngx_may_log(ngx_http_request_t *r, weir_ngx_limit *limit, weir_ngx_line line,
                      ngx_uint_t level);

/* Counts a request: what a limit decided, or WEIR_NGX_FAILED. */
static inline void weir_ngx_count(const weir_ngx_limit *limit, weir_ngx_status counter)
{
    (void)ngx_atomic_fetch_add(&limit->counts->of[counter], 1);
}

/* Subtracts what the limit's delay= leaves out of a delay. The result is at least 0. */
int64_t weir_ngx_delay(const weir_ngx_limit *limit, int64_t delay_ns);

/* Counts and logs what a limit decided, and keeps it for the variables if it ranks first. */
void weir_ngx_note(ngx_http_request_t *r, weir_ngx_ctx *ctx, const weir_ngx_outcome *outcome);

/* The outcome of limit i of a decided question. */
weir_ngx_outcome weir_ngx_outcome_of(const weir_ngx_question *q, size_t i);

/* Asks the stores: all limits are charged together, or none is. Counts, logs and notes the outcome.
 *  q  may be empty.
 * Returns NGX_DECLINED if the request may pass; otherwise the status of its response. */
ngx_int_t weir_ngx_enforce(ngx_http_request_t *r, weir_ngx_ctx *ctx, weir_ngx_question *q);

/* Does the same with decisions that q->requests already has.
 * A decision whose limit is 0 is unknown, and not in the headers.
 *  blocking  the index of the limit that denies; q->len: all allow the request. */
ngx_int_t weir_ngx_apply(ngx_http_request_t *r, weir_ngx_ctx *ctx, const weir_ngx_question *q,
                         size_t blocking);

/* Denies or allows a request on which neither a store nor the daemon could decide.
 *  limit  its name and its status are used
 * Returns as weir_ngx_enforce(). */
ngx_int_t weir_ngx_by_error(weir_ngx_ctx *ctx, weir_ngx_limit *limit, bool deny);

/* Asks the stores about each limit alone. The limits are shadow limits: they deny nothing. */
void weir_ngx_shadow(ngx_http_request_t *r, weir_ngx_ctx *ctx, const weir_ngx_question *q);

/* Asks the daemon of the location instead. Later it calls weir_ngx_resume(), but never from within
 * this call. Returns NGX_OK; NGX_ERROR if memory is exhausted. */
ngx_int_t weir_ngx_ask_daemon(ngx_http_request_t *r, weir_ngx_ctx *ctx, weir_ngx_daemon *daemon,
                              const weir_ngx_question *enforced, const weir_ngx_question *shadows);

/* ---- leases (lease.c) ------------------------------------------------------------------------ */

/* Keeps what the requests of a question hold until r's main request ends. Returns false if memory
 * is exhausted: all of it was given back then. */
bool weir_ngx_keep_leases(ngx_http_request_t *r, const weir_ngx_question *q);

/* ---- waiting (wait.c) ------------------------------------------------------------------------ */

/* Lets a request wait until it is resumed. Write events do nothing meanwhile. If the client closes
 * the connection, the request ends, and its charge stays. Returns false if nginx cannot wait. */
bool weir_ngx_wait(ngx_http_request_t *r);

/* Holds a request for a delay above 0. Then its phases continue. Returns what the phase handler
 * returns: NGX_AGAIN, or the status of an error. */
ngx_int_t weir_ngx_hold(ngx_http_request_t *r, int64_t delay_ns);

/* Continues with a request that waited for weir_ngx_ask_daemon().
 *  rc  as from weir_ngx_enforce() */
void weir_ngx_resume(ngx_http_request_t *r, weir_ngx_ctx *ctx, ngx_int_t rc);

#endif
