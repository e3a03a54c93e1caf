/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_TRACE_H
#define WEIR_CODEC_ANSWER_TRACE_H
/* The span of a decision, for distributed tracing: what a protocol notes of a request whose client
 * traces it. It must not know how spans are sent. */

#include "service/service.h"

/* The span of the caller (W3C Trace Context). */
typedef struct weir_trace_parent {
    uint8_t trace_id[16], span_id[8];
} weir_trace_parent;

/* Reads the value of the header `traceparent`. Returns whether it is valid and has the flag
 * `sampled`; if not, *ret may be anything. Source: W3C Trace Context, 3.2 and 4. */
bool weir_trace_parent_read(weir_slice text, weir_trace_parent *ret);

typedef struct weir_trace_span {
    weir_trace_parent parent;
    int64_t begun_ns;   /* when the request arrived, by the clock of decisions */
    const char *method; /* of HTTP, static; NULL: gRPC */
    const char *name;   /* of the endpoint or the method, static */
    int status;         /* of HTTP or gRPC */

    /* Set by the functions below. */
    bool allowed;
    const char *reason;                        /* static; NULL: nothing was decided */
    char policy[WEIR_RULE_NAME_MAX + 1];       /* "": unknown */
    const char *context;                       /* what `context_name` is, static: "weir.route" */
    char context_name[WEIR_RULE_NAME_MAX + 1]; /* "": none. Longer names are cut */
} weir_trace_span;

/* What receives the spans of a thread. */
typedef struct weir_tracer {
    void (*end)(void *ctx,
                const weir_trace_span *span); /* the request is answered; copies the span */
    void *ctx;
} weir_tracer;

/* Makes *s a span without a decision. The caller sets method, name and status. */
void weir_trace_begin(weir_trace_span *s, const weir_trace_parent *parent, int64_t begun_ns);

/* Notes the decision of a request with the status WEIR_OK. */
void weir_trace_decide(weir_trace_span *s, const weir_request *r);

/* Note a decision by other limits than a policy, and where it was made, such as a route. They
 * accept NULL.
 *  context  as in weir_trace_span. */
void weir_trace_answer(weir_trace_span *s, bool allowed);
void weir_trace_in(weir_trace_span *s, const char *context, weir_slice name);

#endif
