/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The HTTP endpoints of the Rate Limit Service, as the reference service has them: requests in
 * JSON, a health check, the active limits, and statistics. */

#include "rls/wire/http.h"

#include "rls/wire/metrics.h"

enum { GET = WEIR_HTTP_GET | WEIR_HTTP_HEAD, POST = WEIR_HTTP_POST };

static void bad_request(weir_http_call *c)
{
    weir_http_put_text(c, 400, "Bad Request\n");
}

static void put_response(weir_http_call *c, const weir_rls_request *request,
                         const weir_rls_response *r)
{
    weir_rls_trace(c->response->span, request, r);
    switch (r->failure) {
    case WEIR_RLS_ANSWERED:
        weir_rls_encode_json(r, weir_http_begin_json(c));
        c->response->status = r->code == WEIR_RLS_OK           ? 200
                              : r->code == WEIR_RLS_OVER_LIMIT ? 429
                                                               : 500;
        return;
    case WEIR_RLS_REFUSED:
        bad_request(c);
        return;
    case WEIR_RLS_UNAVAILABLE:
        weir_http_put_text(c, 500, "Internal Server Error\n");
        return;
    }
}

_Static_assert(sizeof(weir_rls_wait) <= WEIR_HTTP_WAIT_ROOM, "a wait fits in that of a session");

static void cancel(weir_http_wait *wait)
{
    weir_rls_wait_cancel((weir_rls_wait *)wait);
}

static void json(weir_http_call *c)
{
    weir_rls_door *door = c->app;
    weir_rls_wait *wait = (weir_rls_wait *)c->wait;
    weir_rls_request request;
    weir_rls_response response;
    char error[256];
    door->arena.len = 0;
    if (!weir_rls_decode_json(&door->arena, c->http->body, &request, error))
        bad_request(c);
    else if (weir_rls_decide(door->loop, wait, &request, 1, &response, c->now_ns) == 1)
        put_response(c, &request, &response);
    else
        c->pending = true;
    c->wait->cancel = c->pending ? cancel : NULL;
}

static void healthcheck(weir_http_call *c)
{
    const weir_http_options *o = c->options;
    weir_buffer reasons;
    weir_buffer_init(&reasons, 1 << 16);
    bool ready = !o->not_ready || !o->not_ready(o->not_ready_ctx, &reasons);
    weir_buffer_free(&reasons);
    weir_http_put_text(c, ready ? 200 : 500, ready ? "OK" : "not ready; GET /readyz says why\n");
}

static void rlconfig(weir_http_call *c)
{
    const weir_rls_door *door = c->app;
    const weir_rls_config *config = weir_rls_loop_config(door->loop);
    weir_http_put_text(c, 200, "");
    if (config)
        weir_rls_config_print(config, c->response->body);
}

static void stats(weir_http_call *c)
{
    const weir_rls_door *door = c->app;
    weir_http_put_text(c, 200, "");
    weir_rls_stats_put(c->response->body, door->rls);
}

static bool has_limits(void *app)
{
    const weir_rls_door *door = app;
    return weir_rls_has_limits(door->rls);
}

static void put_metrics(void *app, weir_buffer *out)
{
    const weir_rls_door *door = app;
    weir_rls_metrics_put(out, door->rls);
}

weir_http_guest weir_rls_http(weir_rls_door *door)
{
    static const weir_http_endpoint endpoints[] = {
        {"/json", WEIR_MAY_TAKE_OTHERS, POST | WEIR_HTTP_SAME_SITE, 0, json,
         "a RateLimitRequest of Envoy in JSON: decides it (POST)"},
        {"/healthcheck", WEIR_MAY_ANYONE, GET | WEIR_HTTP_PROBE, 0, healthcheck,
         "answers 200 if the daemon can take requests; if not, 500"},
        {"/rlconfig", WEIR_MAY_METRICS_OTHERS, GET | WEIR_HTTP_SAME_SITE, 0, rlconfig,
         "lists the limits of Envoy's rate limit service"},
        {"/stats", WEIR_MAY_METRICS_OTHERS, GET | WEIR_HTTP_SAME_SITE, 0, stats,
         "its statistics, under the names of envoyproxy/ratelimit"},
    };
    return (weir_http_guest){endpoints, sizeof endpoints / sizeof endpoints[0], door, has_limits,
                             put_metrics};
}
