/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connects each protocol's sessions to the event loop, the service and the configuration. */

#include "cmd/protocols.h"

#include "cmd/auth_failures.h"
#include "cmd/config/config.h"
#include "cmd/web_pages.h"
#include "net/server.h"
#include "port/assert.h"
#include "port/port.h"

#include <stdio.h>
#include <string.h>

/* ---- for every protocol ---------------------------------------------------------------------- */

/* Records how long the decisions of one run took. The clock is read only if there were any. */
static weir_session_step count_latency(weir_service *s, int64_t begun_ns, weir_session_step step)
{
    if (weir_service_has_decided(s))
        weir_service_latency(s, weir_limiter_now(weir_service_limiter(s)) - begun_ns);
    return step;
}

/* The sessions' callback for a wrong password.
 *  peer  the connection that sent it. */
static bool wrong_password(void *ctx, const void *peer)
{
    const protocol_login *login = ctx;
    char text[WEIR_PEER_TEXT_MAX];
    weir_server_peer(peer, text);
    return auth_failures_add(login->failures, login->kind, text, port_steady_ns());
}

static const char *password_of(const protocol_loop *l)
{
    return l->config->password;
}

/* ---- RESP ------------------------------------------------------------------------------------ */

static void resp_open_loop(protocol_loop *l)
{
    l->resp = (weir_resp_options){.service = l->service,
                                  .server = l->server,
                                  .server_ctx = l,
                                  .password = password_of(l),
                                  .wrong_password = wrong_password,
                                  .wrong_password_ctx = &l->login[PROTOCOL_RESP],
                                  .version = WEIR_VERSION,
                                  .first_id = l->i + 1,
                                  .id_step = l->loops};
}

static void resp_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    protocol_loop *l = ctx;
    weir_resp_session *s = session;
    weir_resp_session_init(s, &l->resp);
    s->completion.ready = wake;
    s->completion.ctx = wake_ctx;
}

static void resp_close(void *session)
{
    weir_resp_session_close(session);
}

static weir_session_step resp_run(void *session, weir_buffer *in, weir_buffer *out,
                                  size_t out_pause, int64_t now_ns)
{
    const weir_resp_session *s = session;
    weir_session_step step = weir_resp_session_run(session, in, out, out_pause, now_ns);
    return count_latency(s->options->service, now_ns, step);
}

static void resp_print_example(const char *address)
{
    const char *colon = strrchr(address, ':'); /* without a file, no address is a path */
    WEIR_ASSERT(colon);
    printf("  redis-cli -p %s WEIR.CHECK 'gcra 100/s burst 20' alice\n"
           "  redis-cli -p %s CL.THROTTLE alice 15 30 60\n",
           colon + 1, colon + 1);
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

static void http_open_loop(protocol_loop *l)
{
    const weir_config *c = l->config;
    const config_http_key *key = &c->http_key;
    l->http = (weir_http_options){.service = l->service,
                                  .version = WEIR_VERSION,
                                  .pages = weir_web_pages,
                                  .password = password_of(l),
                                  .wrong_password = wrong_password,
                                  .wrong_password_ctx = &l->login[PROTOCOL_HTTP],
                                  .hosts = c->http_hosts,
                                  .origins = c->http_origins,
                                  .key_header = key->from == CONFIG_KEY_HEADER ? key->name : NULL,
                                  .key_query = key->from == CONFIG_KEY_QUERY ? key->name : NULL,
                                  .hops = key->hops,
                                  .not_ready = l->not_ready,
                                  .not_ready_ctx = l,
                                  .metrics_top = c->top_metrics,
                                  .metrics = l->metrics,
                                  .metrics_ctx = l,
                                  .started_ns = l->started_ns,
                                  .streams = l->streams,
                                  .live = l->live,
                                  .live_ctx = l};
}

static void http_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    const protocol_loop *l = ctx;
    weir_http_session *s = session;
    weir_http_session_init(s, &l->http);
    s->completion.ready = wake;
    s->completion.ctx = wake_ctx;
}

static void http_close(void *session)
{
    weir_http_session_close(session);
}

static weir_session_step http_run(void *session, weir_buffer *in, weir_buffer *out,
                                  size_t out_pause, int64_t now_ns)
{
    const weir_http_session *s = session;
    weir_session_step step = weir_http_session_run(session, in, out, out_pause, now_ns);
    return count_latency(s->options->service, now_ns, step);
}

static weir_session_usage http_usage(const void *session)
{
    return weir_http_session_usage(session);
}

static void http_print_example(const char *address)
{
    printf("  curl 'http://%s/v1/check?limit=gcra+100/s+burst+20&key=alice'\n", address);
}

#define HTTP_CLOSE "Connection: close\r\nContent-Length: 0\r\n\r\n"
#define HTTP_BUSY  "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n" HTTP_CLOSE

/* ---- the table ------------------------------------------------------------------------------- */

/* Without a size, so that a missing row conflicts with the declaration. */
const protocol_row protocols[] = {
    [PROTOCOL_RESP] =
        {
            .name = "resp",
            .option = "port",
            .usage =
                "  --port N         serve RESP on 127.0.0.1:N, not on the addresses of FILE; 0 "
                "is any free port\n",
            .default_address = "127.0.0.1:6380",
            .session = {.session_size = sizeof(weir_resp_session),
                        .open = resp_open,
                        .close = resp_close,
                        .run = resp_run,
                        .refusal = "-ERR max number of clients reached\r\n",
                        .overload = "-ERR no memory left for the buffers of clients\r\n",
                        .timeout = "-ERR timeout: the request was not completed in time\r\n"},
            .open_loop = resp_open_loop,
            .print_example = resp_print_example,
        },
    [PROTOCOL_HTTP] =
        {
            .name = "http",
            .option = "http",
            .usage = "  --http N         serve HTTP on 127.0.0.1:N, not on the addresses of FILE\n",
            .alpn = "http/1.1",
            .default_address = "127.0.0.1:8080",
            .session = {.session_size = sizeof(weir_http_session),
                        .open = http_open,
                        .close = http_close,
                        .run = http_run,
                        .usage = http_usage,
                        .refusal = HTTP_BUSY,
                        .overload = HTTP_BUSY,
                        .timeout = "HTTP/1.1 408 Request Timeout\r\n" HTTP_CLOSE},
            .open_loop = http_open_loop,
            .print_example = http_print_example,
        },
};

void protocols_open_loop(protocol_loop *l)
{
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++) {
        l->login[kind] = (protocol_login){l->failures, kind};
        protocols[kind].open_loop(l);
    }
}
