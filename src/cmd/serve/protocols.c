/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connects each protocol's sessions to the event loop, the service and the configuration. */

#include "cmd/serve/protocols.h"

#include "cmd/config/keys.h"
#include "cmd/serve/parts.h"
#include "codec/http/pages.h"
#include "codec/http/session.h"
#include "net/server.h"
#include "port/assert.h"
#include "port/port.h"

#include <stdio.h>
#include <string.h>

/* ---- for every protocol ---------------------------------------------------------------------- */

weir_session_step protocols_count_latency(weir_service *s, int64_t begun_ns, weir_session_step step)
{
    if (weir_service_has_decided(s))
        weir_service_latency(s, weir_limiter_now(weir_service_limiter(s)) - begun_ns);
    return step;
}

weir_address protocols_address(const weir_peer_address *peer)
{
    weir_address a = {.v6 = peer->v6};
    memcpy(a.bytes, peer->bytes, sizeof a.bytes);
    return a;
}

/* The HTTP sessions' callback for the address of their connection. */
static bool peer_address(const void *peer, weir_address *ret)
{
    weir_peer_address a;
    if (!weir_server_peer_address(peer, &a))
        return false;
    *ret = protocols_address(&a);
    return true;
}

/* ---- RESP ------------------------------------------------------------------------------------ */

static void resp_open_loop(protocol_loop *l)
{
    l->resp = (weir_resp_options){.service = l->service,
                                  .server = l->server,
                                  .server_ctx = l,
                                  .access = &l->access,
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

static weir_session_usage resp_usage(const void *session)
{
    return (weir_session_usage){.bytes = weir_resp_session_memory(session)};
}

static bool resp_is_new(const void *session)
{
    const weir_login *l = &((const weir_resp_session *)session)->login;
    return !l->everything && !l->user;
}

static weir_session_step resp_run(void *session, weir_buffer *in, weir_buffer *out,
                                  size_t out_pause, int64_t now_ns)
{
    const weir_resp_session *s = session;
    weir_session_step step = weir_resp_session_run(session, in, out, out_pause, now_ns);
    return protocols_count_latency(s->options->service, now_ns, step);
}

static void resp_print_example(const char *address, const char *policy)
{
    const char *colon = strrchr(address, ':');
    bool is_path = address[0] == '/';
    WEIR_ASSERT(is_path || colon);
    if (policy)
        printf("  redis-cli %s %s WEIR.TAKE %s alice\n", is_path ? "-s" : "-p",
               is_path ? address : colon + 1, policy);
    else
        printf("  redis-cli -p %s WEIR.CHECK 'gcra 100/s burst 20' alice\n"
               "  redis-cli -p %s CL.THROTTLE alice 15 30 60\n",
               colon + 1, colon + 1);
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

static void http_open_loop(protocol_loop *l)
{
    l->http = (weir_http_options){.service = l->service,
                                  .version = WEIR_VERSION,
                                  .pages = weir_web_pages,
                                  .access = &l->access,
                                  .peer_address = peer_address,
                                  .not_ready = l->not_ready,
                                  .not_ready_ctx = l,
                                  .tracer = l->tracer,
                                  .metrics = l->metrics,
                                  .metrics_ctx = l,
                                  .guests = l->guests,
                                  .guests_len = l->guests_len,
                                  .started_ns = l->started_ns,
                                  .streams = l->streams,
                                  .live = l->live,
                                  .live_ctx = l};
}

static void http_configure(protocol_loop *l)
{
    const weir_config *c = l->config;
    const config_http_key *key = &c->http_key;
    weir_http_options *o = &l->http;
    o->hosts = c->http_hosts;
    o->origins = c->http_origins;
    o->key_header = key->from == CONFIG_KEY_HEADER ? key->name : NULL;
    o->key_query = key->from == CONFIG_KEY_QUERY ? key->name : NULL;
    o->hops = key->hops;
    o->trusted = c->trusted_proxies;
    o->client_kind = config_client_kind(c);
    o->client_header = config_client_header(c);
    o->metrics_top = c->top_metrics;
}

static void http_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    const protocol_loop *l = ctx;
    weir_http_session *s = session;
    weir_http_session_init(s, &l->http);
    s->answer = &l->answers[weir_server_listener(wake_ctx)];
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
    return protocols_count_latency(s->receiver.options->service, now_ns, step);
}

static weir_session_usage http_usage(const void *session)
{
    return weir_http_session_usage(session);
}

static bool http_is_new(const void *session)
{
    return weir_http_session_is_new(session);
}

static void http_only_health(void *session)
{
    weir_http_session_only_health(session);
}

static bool http_poll(void *session, int64_t now_ns, bool stopping)
{
    return weir_http_session_poll(session, now_ns, stopping);
}

static void http_print_example(const char *address, const char *policy)
{
    bool is_path = address[0] == '/';
    if (policy)
        printf("  curl %s%s 'http://%s/v1/take?policy=%s&key=alice'\n",
               is_path ? "--unix-socket " : "-i", is_path ? address : "",
               is_path ? "localhost" : address, policy);
    else
        printf("  curl 'http://%s/v1/check?limit=gcra+100/s+burst+20&key=alice'\n", address);
    if (!is_path)
        printf("or open http://%s/playground, /guide or /dashboard in a browser\n", address);
}

#define HTTP_CLOSE "Connection: close\r\nContent-Length: 0\r\n\r\n"
#define HTTP_BUSY  "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n" HTTP_CLOSE

/* ---- gRPC ------------------------------------------------------------------------------------ */

/* For grpc.health.v1: as GET /readyz. */
static bool grpc_ready(void *ctx)
{
    protocol_loop *l = ctx;
    weir_buffer why;
    weir_buffer_init(&why, WEIR_PRINTF_MAX);
    bool ready = !l->not_ready || !l->not_ready(l, &why);
    weir_buffer_free(&why);
    return ready;
}

static void grpc_open_loop(protocol_loop *l)
{
    l->grpc.ready = grpc_ready;
    l->grpc.ready_ctx = l;
    l->grpc.access = &l->access;
    l->grpc.tracer = l->tracer;
}

static void grpc_configure(protocol_loop *l)
{
    l->grpc.max_age_ns = l->config->grpc_max_age_ns;
    l->grpc.max_age_grace_ns = l->config->grpc_max_age_grace_ns;
}

/* A gRPC session, and the service whose latency it counts. */
typedef struct grpc_session {
    weir_grpc_session session;
    weir_service *service;
} grpc_session;

static void grpc_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    protocol_loop *l = ctx;
    grpc_session *s = session;
    s->service = l->service;
    weir_grpc_session_open(&s->session, &l->grpc, wake, wake_ctx);
}

static void grpc_close(void *session)
{
    weir_grpc_session_close(&((grpc_session *)session)->session);
}

static weir_session_step grpc_run(void *session, weir_buffer *in, weir_buffer *out,
                                  size_t out_pause, int64_t now_ns)
{
    grpc_session *s = session;
    weir_session_step step = weir_grpc_session_run(&s->session, in, out, out_pause, now_ns);
    return protocols_count_latency(s->service, now_ns, step);
}

static weir_session_usage grpc_usage(const void *session)
{
    return weir_grpc_session_usage(&((const grpc_session *)session)->session);
}

static bool grpc_is_new(const void *session)
{
    return weir_grpc_session_is_new(&((const grpc_session *)session)->session);
}

static bool grpc_poll(void *session, int64_t now_ns, bool stopping)
{
    return weir_grpc_session_poll(&((grpc_session *)session)->session, now_ns, stopping);
}

static void grpc_print_example(const char *address, const char *policy)
{
    (void)policy;
    printf("  grpcurl -plaintext %s list\n", address);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const protocol_row own[PROTOCOLS_OWN] = {
    [PROTOCOL_RESP] =
        {
            .option = "port",
            .usage =
                "  --port N         serve RESP on 127.0.0.1:N instead of the addresses in FILE;\n"
                "                   0 is any free port\n",
            .session = {.session_size = sizeof(weir_resp_session),
                        .open = resp_open,
                        .close = resp_close,
                        .run = resp_run,
                        .usage = resp_usage,
                        .is_new = resp_is_new,
                        .refusal = "-ERR max number of clients reached\r\n",
                        .overload = "-ERR no memory left for the buffers of clients\r\n",
                        .timeout = "-ERR timeout: the request was not completed in time\r\n"},
            .open_loop = resp_open_loop,
            .print_example = resp_print_example,
        },
    [PROTOCOL_HTTP] =
        {
            .option = "http",
            .usage =
                "  --http N         serve HTTP on 127.0.0.1:N instead of the addresses in FILE\n",
            .alpn = "http/1.1",
            .session = {.session_size = sizeof(weir_http_session),
                        .open = http_open,
                        .close = http_close,
                        .run = http_run,
                        .usage = http_usage,
                        .is_new = http_is_new,
                        .only_health = http_only_health,
                        .poll = http_poll,
                        .refusal = HTTP_BUSY,
                        .overload = HTTP_BUSY,
                        .timeout = "HTTP/1.1 408 Request Timeout\r\n" HTTP_CLOSE},
            .open_loop = http_open_loop,
            .configure = http_configure,
            .print_example = http_print_example,
        },
    [PROTOCOL_GRPC] =
        {
            .option = "grpc",
            .usage =
                "  --grpc N         serve gRPC on 127.0.0.1:N instead of the addresses in FILE\n",
            .alpn = "h2",
            .session = {.session_size = sizeof(grpc_session),
                        .open = grpc_open,
                        .close = grpc_close,
                        .run = grpc_run,
                        .usage = grpc_usage,
                        .is_new = grpc_is_new,
                        .poll = grpc_poll},
            .open_loop = grpc_open_loop,
            .configure = grpc_configure,
            .print_example = grpc_print_example,
        },
};

const protocol_row *protocol_of(protocol_kind kind)
{
    WEIR_ASSERT(kind < PROTOCOLS_OWN || config_guest_of(kind));
    return kind < PROTOCOLS_OWN ? &own[kind] : config_guest_of(kind)->protocol_row;
}

void protocols_configure(protocol_loop *l)
{
    const weir_config *c = l->config;
    for (size_t i = 0; i < c->listens_len; i++) {
        l->answers[i] = c->listens[i].answer;
        weir_answer_merge(&l->answers[i], &c->answer);
    }
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        if (protocol_of(kind)->configure)
            protocol_of(kind)->configure(l);
    }
}

void protocols_open_loop(protocol_loop *l)
{
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        if (protocol_of(kind)->open_loop)
            protocol_of(kind)->open_loop(l);
    }
    protocols_configure(l);
}
