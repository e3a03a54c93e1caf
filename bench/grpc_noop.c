/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A gRPC server that decides nothing: weir's event loop and gRPC session with ShouldRateLimit as a
 * method that does not read its request and answers a constant, the response of weir to the request
 * of bench/envoy.py. What a request costs here is what every gRPC request costs before the Rate
 * Limit Service begins.
 *
 *     grpc_noop PORT    serves on 127.0.0.1:PORT with one event loop until SIGTERM */

#include "codec/grpc/session.h"
#include "net/server.h"
#include "port/port.h"

#include <stdio.h>
#include <string.h>

/* overall_code OK; two statuses, each with OK, a limit of 2,000,000,000 a year, a remainder, and
 * the seconds until the year ends. */
#define STATUS                                                                                     \
    "\x12\x19"                                                                                     \
    "\x08\x01"                                                                                     \
    "\x12\x08\x08\x80\xa8\xd6\xb9\x07\x10\x06"                                                     \
    "\x18\xff\xa7\xd6\xb9\x07"                                                                     \
    "\x22\x05\x08\x80\x80\xda\x0a"
static const char response[] = "\x08\x01" STATUS STATUS;

static size_t answer(void *ctx, void *session_ctx, weir_grpc_call *calls, size_t n, int64_t now_ns)
{
    (void)ctx;
    (void)session_ctx;
    (void)now_ns;
    for (size_t i = 0; i < n; i++) {
        calls[i].reply_begin = weir_buffer_len(calls[i].reply);
        calls[i].reply_len = sizeof response - 1;
        weir_buffer_append(calls[i].reply, response, sizeof response - 1);
    }
    return n;
}

static const weir_grpc_method method = {
    .path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    .right = WEIR_MAY_TAKE_OTHERS,
    .answer = answer};
static const weir_grpc_options options = {.methods = &method, .methods_len = 1};

static void open_session(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    (void)ctx;
    weir_grpc_session_open(session, &options, wake, wake_ctx);
}

static void close_session(void *session)
{
    weir_grpc_session_close(session);
}

static weir_session_step run(void *session, weir_buffer *in, weir_buffer *out, size_t out_pause,
                             int64_t now_ns)
{
    return weir_grpc_session_run(session, in, out, out_pause, now_ns);
}

static weir_session_usage usage(const void *session)
{
    return weir_grpc_session_usage(session);
}

static bool poll_session(void *session, int64_t now_ns, bool stopping)
{
    return weir_grpc_session_poll(session, now_ns, stopping);
}

static const weir_protocol protocol = {.session_size = sizeof(weir_grpc_session),
                                       .open = open_session,
                                       .close = close_session,
                                       .run = run,
                                       .usage = usage,
                                       .poll = poll_session};

static int64_t now(void *ctx)
{
    (void)ctx;
    return port_steady_ns();
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: grpc_noop PORT\n");
        return 2;
    }
    char address[64], error[256];
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[1]);
    weir_server *server;
    weir_status st = weir_server_open(
        &server,
        &(weir_server_options){
            .listens = &(weir_listen_address){.address = address, .protocol = &protocol},
            .listens_len = 1,
            .loops = 1,
            .limits = {.connections = 1000, .buffers = 64 << 20, .request = 1 << 20},
            .now = now},
        error, sizeof error);
    if (st != WEIR_OK) {
        fprintf(stderr, "grpc_noop: %s\n", st == WEIR_E_IO ? error : weir_status_str(st));
        return 1;
    }
    weir_server_run(server);
    weir_server_close(server);
    return 0;
}
