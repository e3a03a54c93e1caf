/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_GRPC_METHOD_H
#define WEIR_CODEC_GRPC_METHOD_H
/* The methods of an application, which a session calls, and the limits on their requests. */

#include "codec/answer/trace.h"
#include "port/buffer.h"
#include "port/text.h"
#include "service/users/users.h"

/* ---- limits ---------------------------------------------------------------------------------- */

#define WEIR_GRPC_MESSAGE_MAX 65536 /* bytes of a request message; above it RESOURCE_EXHAUSTED */
#define WEIR_GRPC_HEAD_MAX    16384 /* bytes of a header list, as SETTINGS says; then 431 */
#define WEIR_GRPC_STREAMS_MAX 1024  /* concurrent streams of a connection; then REFUSED_STREAM */

/* ---- methods --------------------------------------------------------------------------------- */

typedef enum weir_grpc_status { /* https://grpc.github.io/grpc/core/md_doc_statuscodes.html */
                                WEIR_GRPC_OK = 0,
                                WEIR_GRPC_UNKNOWN = 2,
                                WEIR_GRPC_INVALID_ARGUMENT = 3,
                                WEIR_GRPC_DEADLINE_EXCEEDED = 4,
                                WEIR_GRPC_NOT_FOUND = 5,
                                WEIR_GRPC_PERMISSION_DENIED = 7,
                                WEIR_GRPC_RESOURCE_EXHAUSTED = 8,
                                WEIR_GRPC_UNIMPLEMENTED = 12,
                                WEIR_GRPC_INTERNAL = 13,
                                WEIR_GRPC_UNAVAILABLE = 14,
                                WEIR_GRPC_UNAUTHENTICATED = 16
} weir_grpc_status;

/* A complete unary request and its answer. */
typedef struct weir_grpc_call {
    weir_slice message; /* the request message, without its prefix */
    /* Where to append the response message: one buffer for all calls, with the replies to earlier
     * ones. Set by the session. */
    weir_buffer *reply;
    weir_trace_span *span; /* that notes a decision; NULL: the request is not traced */
    /* Outputs, zero at first. */
    weir_grpc_status status;
    const char *why; /* grpc-message, unless OK: a static string; percent-encoded when sent */
    size_t reply_begin, reply_len; /* on WEIR_GRPC_OK: what was appended; reply_begin is
                                      weir_buffer_len(reply) before */
} weir_grpc_call;

/* A method of a service. Streaming methods belong to the session itself: Watch and reflection. */
typedef struct weir_grpc_method {
    const char *path; /* "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" */
    weir_right right; /* a set of them: see weir_right */

    /* Answers the first of n calls of this method (1 or more), in order.
     *  app  the application's memory in the session; see weir_grpc_options.app_size.
     * Returns how many are answered; 0 if an engine is pending. Then wake() is called once the same
     * calls can be repeated. The session repeats them first, and more may follow them. Their
     * messages may have moved. */
    size_t (*answer)(void *ctx, void *app, weir_grpc_call *calls, size_t n, int64_t now_ns);
} weir_grpc_method;

#endif
