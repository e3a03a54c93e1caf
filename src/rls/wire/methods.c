/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The methods of the Rate Limit Service for gRPC sessions: decode the requests that have arrived
 * together, let the service decide them as one batch, encode the responses. */

#include "rls/wire/message.h"

#include "port/assert.h"

enum { BATCH_MAX = 64 }; /* requests that one call of the service is given */

enum method { SHOULD_RATE_LIMIT, CHECK_RATE_LIMIT, REPORT, METHODS };

/* The memory of a session. Each method has a weir_rls_wait of its own, because two methods may wait
 * for an engine at the same time. */
typedef struct app {
    weir_rls_wait wait[METHODS];
} app;

const size_t weir_rls_app_size = sizeof(app);

void weir_rls_app_open(void *ctx, void *memory, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    app *a = memory;
    (void)ctx;
    for (int i = 0; i < METHODS; i++) {
        a->wait[i].completion.ready = wake;
        a->wait[i].completion.ctx = wake_ctx;
    }
}

void weir_rls_app_close(void *ctx, void *memory)
{
    app *a = memory;
    (void)ctx;
    for (int i = 0; i < METHODS; i++)
        weir_rls_wait_cancel(&a->wait[i]);
}

/* Makes a call's answer. */
static void answer_call(weir_grpc_call *call, const weir_rls_response *response)
{
    switch (response->failure) {
    case WEIR_RLS_ANSWERED:
        call->reply_begin = weir_buffer_len(call->reply);
        weir_rls_encode(response, call->reply);
        call->reply_len = weir_buffer_len(call->reply) - call->reply_begin;
        return;
    case WEIR_RLS_REFUSED:
        call->status = WEIR_GRPC_UNKNOWN;
        break;
    case WEIR_RLS_UNAVAILABLE:
        call->status = WEIR_GRPC_UNAVAILABLE;
        break;
    }
    call->why = response->why;
}

void weir_rls_trace(weir_trace_span *span, const weir_rls_request *request,
                    const weir_rls_response *response)
{
    if (response->failure != WEIR_RLS_ANSWERED || response->code == WEIR_RLS_UNKNOWN ||
        request->verb == WEIR_RLS_REPORT)
        return;
    weir_trace_answer(span, response->code == WEIR_RLS_OK);
    weir_trace_in(span, "weir.domain", request->domain);
}

static void refuse_call(weir_grpc_call *call, const char *error)
{
    bool full = error == WEIR_RLS_ARENA_FULL;
    call->status = full ? WEIR_GRPC_RESOURCE_EXHAUSTED : WEIR_GRPC_INTERNAL;
    call->why = error;
}

/* Decodes the first calls, until one is invalid or the arena is full. Returns their number, and
 * sets *ret_error to what is wrong with the next one. */
static size_t decode_calls(weir_rls_arena *arena, weir_rls_verb verb, const weir_grpc_call *calls,
                           size_t n, weir_rls_request *requests, const char **ret_error)
{
    *ret_error = NULL;
    for (size_t i = 0; i < n; i++) {
        *ret_error = weir_rls_decode(arena, calls[i].message, &requests[i]);
        if (*ret_error)
            return i;
        requests[i].verb = verb;
    }
    return n;
}

static size_t answer(weir_rls_door *door, enum method method, weir_rls_verb verb, app *a,
                     weir_grpc_call *calls, size_t n, int64_t now_ns)
{
    weir_rls_request requests[BATCH_MAX];
    weir_rls_response responses[BATCH_MAX];
    const char *error;
    WEIR_ASSERT(n > 0);
    door->arena.len = 0;
    n = decode_calls(&door->arena, verb, calls, n < BATCH_MAX ? n : BATCH_MAX, requests, &error);
    if (n == 0) {
        refuse_call(&calls[0], error);
        return 1;
    }
    size_t decided = weir_rls_decide(door->loop, &a->wait[method], requests, n, responses, now_ns);
    for (size_t i = 0; i < decided; i++) {
        answer_call(&calls[i], &responses[i]);
        weir_rls_trace(calls[i].span, &requests[i], &responses[i]);
    }
    return decided;
}

static size_t should_rate_limit(void *ctx, void *memory, weir_grpc_call *calls, size_t n,
                                int64_t now_ns)
{
    return answer(ctx, SHOULD_RATE_LIMIT, WEIR_RLS_CHECK_AND_REPORT, memory, calls, n, now_ns);
}

static size_t check_rate_limit(void *ctx, void *memory, weir_grpc_call *calls, size_t n,
                               int64_t now_ns)
{
    return answer(ctx, CHECK_RATE_LIMIT, WEIR_RLS_CHECK, memory, calls, n, now_ns);
}

static size_t report(void *ctx, void *memory, weir_grpc_call *calls, size_t n, int64_t now_ns)
{
    return answer(ctx, REPORT, WEIR_RLS_REPORT, memory, calls, n, now_ns);
}

const weir_grpc_method weir_rls_methods[] = {
    {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", WEIR_MAY_TAKE_OTHERS,
     should_rate_limit},
    {"/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit", WEIR_MAY_TAKE_OTHERS,
     check_rate_limit},
    {"/kuadrant.service.ratelimit.v1.RateLimitService/Report", WEIR_MAY_TAKE_OTHERS, report},
};
const size_t weir_rls_methods_len = METHODS;
