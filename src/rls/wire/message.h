/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_WIRE_MESSAGE_H
#define WEIR_RLS_WIRE_MESSAGE_H
/* The messages of the Rate Limit Service as protobuf and as JSON (proto3 JSON mapping), and its
 * methods for the gRPC sessions. */

#include "codec/answer/fields.h"
#include "codec/grpc/session.h"
#include "rls/rls.h"

/* ---- messages -------------------------------------------------------------------------------- */

/* Memory for decoded requests, of a fixed size: it does not move. */
typedef struct weir_rls_arena {
    uint8_t *bytes;
    size_t len, capacity;
} weir_rls_arena;

/* Returns false if memory is exhausted. */
bool weir_rls_arena_open(weir_rls_arena *a);
void weir_rls_arena_close(weir_rls_arena *a);

/* Returns `n` bytes that are aligned for any type, until the arena is reset; NULL if it is full. */
void *weir_rls_arena_take(weir_rls_arena *a, size_t n);

/* The descriptors of a request that are decoded: one more than the service accepts, so that it
 * refuses the request. */
#define WEIR_RLS_DESCRIPTORS_KEPT (WEIR_RLS_DESCRIPTORS_MAX + 1)

/* Decodes a RateLimitRequest. Unknown fields are skipped.
 *  ret  its slices and arrays point into `message` and the arena; valid until the arena is reset
 *       (len = 0).
 * Returns NULL, or what is wrong: a static string. A full arena is WEIR_RLS_ARENA_FULL. */
extern const char WEIR_RLS_ARENA_FULL[];
const char *weir_rls_decode(weir_rls_arena *a, weir_slice message, weir_rls_request *ret);

/* Lists the header fields of a response.
 *  ret  WEIR_RLS_FIELDS_MAX fields.
 *  buf  WEIR_ANSWER_ROOM bytes, for values.
 * Returns the number of fields. Pure. */
#define WEIR_RLS_FIELDS_MAX (WEIR_RLS_HEADERS_MAX + WEIR_ANSWER_FIELDS_MAX)
size_t weir_rls_fields(const weir_rls_response *r, weir_answer_field *ret, char *buf);

/* Appends a RateLimitResponse. */
void weir_rls_encode(const weir_rls_response *response, weir_buffer *out);

/* Appends a google.protobuf.Struct as a field of bytes, and any value in JSON.
 *  tag  the first byte of the field. */
void weir_rls_put_struct(weir_buffer *out, uint8_t tag, const weir_rls_value *map);
void weir_rls_put_value_json(weir_buffer *out, const weir_rls_value *v);

/* The same in JSON. Unknown members are errors, as in the reference.
 *  ret_error  written if the result is false. */
bool weir_rls_decode_json(weir_rls_arena *a, weir_slice body, weir_rls_request *ret,
                          char ret_error[static 256]);
void weir_rls_encode_json(const weir_rls_response *response, weir_buffer *out);

/* ---- methods --------------------------------------------------------------------------------- */

/* What the sessions of an event loop share: the ctx of weir_grpc_options. */
typedef struct weir_rls_door {
    weir_rls *rls;
    weir_rls_loop *loop;
    weir_rls_arena arena;
} weir_rls_door;

/* The methods: ShouldRateLimit, and Kuadrant's CheckRateLimit and Report. */
extern const weir_grpc_method weir_rls_methods[];
extern const size_t weir_rls_methods_len;

/* Notes a decision in the span of its request. A report is no decision. Accepts NULL. */
void weir_rls_trace(weir_trace_span *span, const weir_rls_request *request,
                    const weir_rls_response *response);

/* For weir_grpc_options.app_size, open and close: the session's weir_rls_wait. */
extern const size_t weir_rls_app_size;
void weir_rls_app_open(void *ctx, void *app, void (*wake)(void *wake_ctx), void *wake_ctx);
void weir_rls_app_close(void *ctx, void *app);

/* The descriptors of all services of weir, for server reflection. */
extern const weir_slice weir_rls_file_descriptors;

#endif
