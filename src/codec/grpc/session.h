/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_GRPC_SESSION_H
#define WEIR_CODEC_GRPC_SESSION_H
/* A gRPC server session over HTTP/2, on libnghttp2: prior knowledge (h2c), or after ALPN "h2". All
 * requests that one run() completes are answered in one call for each method, in batches. A session
 * reads and writes buffers; it opens no socket and reads no clock. */

#include "codec/grpc/method.h"
#include "port/session.h"

/* ---- options ------------------------------------------------------------------------------- */

/* The application behind the sessions of an event loop. */
typedef struct weir_grpc_options {
    const weir_grpc_method *methods;
    size_t methods_len;
    void *ctx; /* the first argument of answer() */

    /* The memory of the application in each session, zeroed before open(). May be 0. */
    size_t app_size;
    void (*open)(void *ctx, void *app, void (*wake)(void *wake_ctx), void *wake_ctx); /* or NULL */
    void (*close)(void *ctx, void *app);                                              /* or NULL */

    /* A serialised google.protobuf.FileDescriptorSet of all services, for server reflection; len 0:
     * no reflection. */
    weir_slice descriptors;

    /* grpc.health.v1: whether the server can take requests. NULL: always. */
    bool (*ready)(void *ready_ctx);
    void *ready_ctx;

    weir_access *access; /* of the thread; NULL: no users. A peer is the wake_ctx of the session */

    const weir_tracer *tracer; /* of the thread; NULL: there are no spans */

    int64_t max_age_ns;       /* of a connection, then GOAWAY; +-10 %; 0: no limit */
    int64_t max_age_grace_ns; /* for the requests in flight after that */
} weir_grpc_options;

/* ---- the session ----------------------------------------------------------------------------- */

/* Each connection has one. Its members are private. */
typedef struct weir_grpc_session {
    struct weir_grpc_connection *connection; /* NULL if memory was exhausted: closes at once */
} weir_grpc_session;

/* As weir_protocol.open(), close(), run(), usage().
 *  options  kept by reference. */
void weir_grpc_session_open(weir_grpc_session *s, const weir_grpc_options *options,
                            void (*wake)(void *wake_ctx), void *wake_ctx);
void weir_grpc_session_close(weir_grpc_session *s);
weir_session_step weir_grpc_session_run(weir_grpc_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns);
weir_session_usage weir_grpc_session_usage(const weir_grpc_session *s);

/* Whether there are users, and the client is not known to be one of them. */
bool weir_grpc_session_is_new(const weir_grpc_session *s);

/* As weir_protocol.poll(). */
bool weir_grpc_session_poll(weir_grpc_session *s, int64_t now_ns, bool stopping);

#endif
