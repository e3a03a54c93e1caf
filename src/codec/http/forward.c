/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* /v1/forward-auth: decides a request that a proxy has received and describes, before the proxy
 * forwards it. Proxies describe it in one of three ways:
 *
 *     X-Forwarded-Method, X-Forwarded-Host and X-Forwarded-Uri  (Traefik, Caddy)
 *     X-Original-Method, and X-Original-URI or X-Original-URL   (nginx)
 *     the method, the Host, and the path below /v1/forward-auth (Envoy)
 *
 * A proxy passes on the headers of its client. The first two ways may not be mixed, or the client
 * could add the headers of the other way and choose the route. */

#define _GNU_SOURCE /* memmem */

#include "codec/answer/json.h"
#include "codec/http/access_control.h"
#include "codec/http/call.h"
#include "port/assert.h"

#include <stdio.h>

typedef weir_http_call call;

/* The requests to the service for a request of a proxy. */
typedef struct plan {
    size_t n; /* 0: not limited */
    int64_t cost, keep;
    weir_slice route; /* absent: no route matched */
    weir_request requests[WEIR_ALL_MAX];
    weir_client client; /* that `requests` point to */
    size_t used;        /* bytes of `text`, which has the names and keys */
    char text[WEIR_HTTP_KEYS_ROOM + WEIR_ALL_MAX * WEIR_RULE_NAME_MAX + WEIR_ROUTE_PATH_MAX];
} plan;

typedef struct buffers {
    char host[WEIR_ROUTE_HOST_MAX], path[WEIR_PATH_ROOM], query[WEIR_HTTP_TARGET_MAX];
} buffers;

/* ---- the original request -------------------------------------------------------------------- */

static bool fail(call *c, const char *detail)
{
    weir_http_problem(c->response, 400, "%s", detail);
    return false;
}

/* Finds the parts of an URI: "/path?query" or "https://host/path?query". Without a host, *ret_host
 * stays. */
static weir_slice path_of(weir_slice uri, weir_slice *ret_host, weir_slice *ret_query)
{
    const char *at = uri.at, *end = uri.at + uri.len;
    const char *scheme = *at != '/' ? memmem(at, uri.len, "://", 3) : NULL;
    if (scheme) {
        const char *host = scheme + 3;
        at = host;
        while (at < end && *at != '/' && *at != '?' && *at != '#')
            at++;
        *ret_host = (weir_slice){host, (size_t)(at - host)};
    }
    const char *stop = at;
    while (stop < end && *stop != '?' && *stop != '#')
        stop++;
    if (stop < end && *stop == '?') {
        const char *query = stop + 1, *hash = memchr(query, '#', (size_t)(end - query));
        *ret_query = (weir_slice){query, (size_t)((hash ? hash : end) - query)};
    }
    return (weir_slice){at, (size_t)(stop - at)};
}

/* Whether the proxy sent each of these headers at most once. */
static bool are_single(call *c)
{
    static const struct {
        weir_http_header header;
        const char *name;
    } headers[] = {{WEIR_HTTP_FORWARDED_METHOD, "X-Forwarded-Method"},
                   {WEIR_HTTP_FORWARDED_HOST, "X-Forwarded-Host"},
                   {WEIR_HTTP_FORWARDED_URI, "X-Forwarded-Uri"},
                   {WEIR_HTTP_ORIGINAL_METHOD, "X-Original-Method"},
                   {WEIR_HTTP_ORIGINAL_URI, "X-Original-URI"},
                   {WEIR_HTTP_ORIGINAL_URL, "X-Original-URL"}};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        if (c->http->count[headers[i].header] < 2)
            continue;
        weir_http_problem(c->response, 400,
                          "the header %s occurs twice; configure the proxy to remove the one that "
                          "its client sent",
                          headers[i].name);
        return false;
    }
    return true;
}

/* Reads the headers that describe the original request.
 *  has_route  the route is given: the request need not be described. */
static bool read_described(call *c, bool has_route, weir_http_original *ret)
{
    const weir_slice *h = c->http->header;
    weir_slice uri = h[WEIR_HTTP_FORWARDED_URI], original = h[WEIR_HTTP_ORIGINAL_URI];
    bool forwarded = uri.len > 0;
    if (!are_single(c))
        return false;
    if (original.len == 0)
        original = h[WEIR_HTTP_ORIGINAL_URL];
    else if (h[WEIR_HTTP_ORIGINAL_URL].len > 0)
        return fail(c, "both X-Original-URI and X-Original-URL are given, expected one; "
                       "configure the proxy to remove the one that its client sent");
    if (forwarded && original.len > 0)
        return fail(c, "both X-Forwarded-Uri and X-Original-URI or X-Original-URL are given, "
                       "expected one; configure the proxy to remove the one that its client sent");
    ret->method = h[forwarded ? WEIR_HTTP_FORWARDED_METHOD : WEIR_HTTP_ORIGINAL_METHOD];
    ret->host = forwarded && h[WEIR_HTTP_FORWARDED_HOST].len > 0 ? h[WEIR_HTTP_FORWARDED_HOST]
                                                                 : c->http->host;
    uri = forwarded ? uri : original;
    if (uri.len > 0)
        ret->path = path_of(uri, &ret->host, &ret->query);
    if (!has_route && uri.len == 0)
        return fail(c, "missing X-Forwarded-Uri, X-Original-URI or X-Original-URL: let the proxy "
                       "send the path of the original request, or add route=NAME");
    if (!has_route && ret->method.len == 0)
        return fail(c, forwarded ? "missing X-Forwarded-Method beside X-Forwarded-Uri"
                                 : "missing X-Original-Method beside X-Original-URI");
    return true;
}

/* Reads the original request. Returns false with an error response. */
static bool read_original(call *c, bool has_route, buffers *b, weir_http_original *ret)
{
    size_t prefix = sizeof WEIR_HTTP_FORWARD_PATH - 1;
    weir_slice path = c->http->path;
    *ret = (weir_http_original){.call = c, .decoded = b->query};
    if (path.len > prefix) {
        ret->method = c->http->method_name;
        ret->host = c->http->host;
        ret->path = (weir_slice){path.at + prefix, path.len - prefix};
        ret->query = c->http->query;
    } else if (!read_described(c, has_route, ret)) {
        return false;
    }
    bool is_long_host = ret->host.len > WEIR_ROUTE_HOST_MAX;
    ret->host = (weir_slice){b->host, weir_host_normalise(ret->host, b->host)};
    if (is_long_host && ret->host.len == 0) {
        weir_http_problem(c->response, 400, "the host of the original request exceeds %d bytes",
                          WEIR_ROUTE_HOST_MAX);
        return false;
    }
    if (!ret->path.at)
        return true;
    static const char *const why[] = {
        [WEIR_PATH_SLASH] =
            "the path of the original request has an encoded slash (%2F) or a backslash (%5C), "
            "which servers read differently; http.encoded_slash in weir.yaml can allow it",
        [WEIR_PATH_DOT_DOT] =
            "the path of the original request has a segment \"..\", which servers "
            "resolve differently; the client must resolve it",
        [WEIR_PATH_NUL] = "the path of the original request has a NUL (%00), at which some servers "
                          "end it",
    };
    weir_slice raw = ret->path;
    ret->path.len = weir_path_normalise(raw, weir_service_slash(c->options->service), b->path);
    ret->path.at = b->path;
    if (ret->path.len > 0)
        return true;
    if (raw.len > WEIR_ROUTE_PATH_MAX)
        weir_http_problem(c->response, 414, "the path of the original request exceeds %d bytes",
                          WEIR_ROUTE_PATH_MAX);
    else
        fail(c, why[weir_path_refused(raw)]);
    return false;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Copies bytes to the plan. Returns false if they do not fit. */
static bool copy(plan *p, weir_slice from, weir_slice *ret)
{
    if (from.len > sizeof p->text - p->used)
        return false;
    char *at = p->text + p->used;
    if (from.len > 0)
        memcpy(at, from.at, from.len);
    p->used += from.len;
    *ret = (weir_slice){at, from.len};
    return true;
}

/* Copies the route to the plan. A call of the service would invalidate it. */
static void copy_route(plan *p, const weir_route *route)
{
    p->n = 0;
    p->used = 0;
    p->route = (weir_slice){NULL, 0};
    if (!route)
        return;
    bool fits = copy(p, route->name, &p->route);
    p->cost = route->cost;
    p->keep = route->keep;
    WEIR_ASSERT(route->policies_len <= WEIR_ALL_MAX);
    for (size_t i = 0; i < route->policies_len; i++) {
        p->requests[i] =
            (weir_request){.cost = route->cost, .keep = route->keep, .with_figures = true};
        fits = copy(p, route->policies[i], &p->requests[i].rule) && fits;
    }
    WEIR_ASSERT(fits);
    (void)fits;
    p->n = route->policies_len;
}

/* Makes the keys of the plan, and removes the policies that do not limit the request. A policy that
 * is absent gets a key too: its status will say so. */
static bool make_keys(plan *p, weir_http_original *original)
{
    size_t n = p->n;
    p->n = 0;
    for (size_t k = 0; k < n; k++) {
        weir_status st;
        size_t i = p->n, room = sizeof p->text - p->used;
        p->requests[i] = p->requests[k];
        room = room < WEIR_HTTP_KEYS_ROOM ? room : WEIR_HTTP_KEYS_ROOM;
        original->policy = p->requests[i].rule;
        if (!weir_http_make_key(original, "client", p->text + p->used, room, &st,
                                &p->requests[i].key))
            return false;
        if (original->is_skipped)
            continue;
        p->n++;
        if (st != WEIR_OK)
            p->requests[i].key = p->requests[i].rule;
        else
            p->used += p->requests[i].key.len;
        if (original->has_client) {
            p->client = original->client;
            p->requests[i].client = &p->client;
        }
    }
    return true;
}

/* Finds the route of the request, and the key for each of its policies. Returns false with an error
 * response. */
static bool make_plan(call *c, weir_http_original *original, plan *p)
{
    weir_slice name = c->params.text[WEIR_HTTP_P_ROUTE];
    const weir_route_request request = {original->method, original->host, original->path};
    const weir_route *route = weir_service_route(c->options->service, &request, name);
    if (!route && name.at) {
        weir_http_problem(c->response, 400,
                          "unknown route \"%.*s\"; the routes are in weir.yaml (routes)",
                          name.len < 64 ? (int)name.len : 64, name.at);
        return false;
    }
    copy_route(p, route);
    original->route = p->route;
    return make_keys(p, original);
}

/* ---- pending requests ------------------------------------------------------------------------ */
/* The repeated call must have the same requests, but routes and policies may have changed: the
 * session keeps the plan. */

static void keep_bytes(weir_buffer *b, weir_slice s)
{
    weir_buffer_append(b, &s.len, sizeof s.len);
    weir_buffer_append(b, s.at, s.len);
}

static bool keep_plan(const plan *p, weir_buffer *b)
{
    weir_buffer_append(b, &p->n, sizeof p->n);
    weir_buffer_append(b, &p->cost, sizeof p->cost);
    weir_buffer_append(b, &p->keep, sizeof p->keep);
    keep_bytes(b, p->route);
    for (size_t i = 0; i < p->n; i++) {
        keep_bytes(b, p->requests[i].rule);
        keep_bytes(b, p->requests[i].key);
    }
    return !b->failed;
}

static weir_slice kept_bytes(const uint8_t **at)
{
    weir_slice s;
    memcpy(&s.len, *at, sizeof s.len);
    s.at = (const char *)*at + sizeof s.len;
    *at += sizeof s.len + s.len;
    return s;
}

/* Without clients: the service has matched the keys. */
static void load_plan(plan *p, const weir_buffer *b)
{
    const uint8_t *at = weir_buffer_data(b);
    memcpy(&p->n, at, sizeof p->n);
    memcpy(&p->cost, at + sizeof p->n, sizeof p->cost);
    memcpy(&p->keep, at + sizeof p->n + sizeof p->cost, sizeof p->keep);
    at += sizeof p->n + sizeof p->cost + sizeof p->keep;
    p->route = kept_bytes(&at);
    for (size_t i = 0; i < p->n; i++) {
        p->requests[i] = (weir_request){.cost = p->cost, .keep = p->keep, .with_figures = true};
        p->requests[i].rule = kept_bytes(&at);
        p->requests[i].key = kept_bytes(&at);
    }
}

/* ---- the endpoint ---------------------------------------------------------------------------- */

static void put_unlimited(call *c, const plan *p)
{
    weir_buffer *b = weir_http_begin_json(c);
    weir_trace_answer(c->response->span, true);
    weir_trace_in(c->response->span, "weir.route", p->route);
    weir_buffer_printf(b, "{\"allowed\":true,\"route\":");
    if (p->route.at)
        weir_json_put_string(b, p->route.at, p->route.len);
    else
        weir_buffer_append(b, "null", 4);
    weir_buffer_append(b, "}\n", 2);
}

/* Decides the requests of the plan. Returns false if a policy is absent. */
static bool decide(call *c, plan *p)
{
    weir_all_result all;
    weir_service *s = c->options->service;
    weir_completion *completion = &c->wait->completion;
    weir_trace_in(c->response->span, "weir.route", p->route);
    if (p->n == 1)
        c->pending = !weir_service_take(s, completion, p->requests, 1, c->now_ns);
    else
        c->pending = !weir_service_take_all(s, completion, p->requests, p->n, c->now_ns, &all);
    if (c->pending)
        return true;
    bool absent = false;
    for (size_t i = 0; i < p->n; i++)
        absent |= p->requests[i].status == WEIR_E_ABSENT;
    if (p->n > 1) {
        weir_http_put_all(c, p->requests, p->n, &all);
    } else if (weir_http_succeeded(c->response, p->requests, "")) {
        weir_service_next(s, p->requests, 1, c->now_ns);
        weir_http_decision(c->response, p->requests, (int)c->params.number[WEIR_HTTP_P_DENIED],
                           NULL);
        if (p->requests[0].decision.allowed)
            c->response->delay_ns = p->requests[0].decision.delay_ns;
    }
    return !absent;
}

/* Reads the parameters. Below the endpoint's path, the query is that of the original request. */
static bool read_params(call *c, char query[static WEIR_HTTP_TARGET_MAX])
{
    weir_http_request r = *c->http;
    r.body = (weir_slice){NULL, 0};
    if (r.path.len > sizeof WEIR_HTTP_FORWARD_PATH - 1)
        r.query = (weir_slice){"", 0};
    return weir_http_params_read(
        &c->params, &r, WEIR_HTTP_BIT(WEIR_HTTP_P_DENIED) | WEIR_HTTP_BIT(WEIR_HTTP_P_ROUTE), NULL,
        query, c->response);
}

static bool check_peer(call *c)
{
    weir_address peer;
    char text[WEIR_ADDRESS_TEXT_MAX];
    if (weir_http_from_trusted(c->options, c->http))
        return true;
    bool known = weir_http_peer(c->options, c->http, &peer);
    size_t len = known ? weir_address_print(&peer, weir_address_bits(&peer), text) : 0;
    if (known)
        weir_http_problem(
            c->response, 403,
            "%.*s is not in trusted_proxies; if it is your proxy, add it in weir.yaml", (int)len,
            text);
    else
        weir_http_problem(c->response, 403,
                          "a connection to a Unix socket has no IP address, and so is not in "
                          "trusted_proxies; let the proxy connect to an address of listen.http");
    return false;
}

void weir_http_forward(weir_http_call *c)
{
    char query[WEIR_HTTP_TARGET_MAX];
    buffers b;
    weir_http_original original;
    plan p;
    bool repeated = weir_completion_len(&c->wait->completion) > 0, done = false;
    if (!read_params(c, query)) /* the same in a repeated call */
        return;
    if (repeated) {
        load_plan(&p, c->http->kept);
        decide(c, &p);
        return;
    }
    if (!check_peer(c) ||
        !read_original(c, c->params.given & WEIR_HTTP_BIT(WEIR_HTTP_P_ROUTE), &b, &original))
        return;
    /* A policy is absent if a reload has replaced the routes and the policies in between: the
     * second plan is made of the new ones. */
    size_t fields_len = c->response->fields_len; /* CORS */
    for (int tries = 0; tries < 2 && !done; tries++) {
        weir_http_response_clear(c->response); /* of the first try */
        c->response->fields_len = fields_len;
        if (!make_plan(c, &original, &p))
            return;
        for (size_t i = 0; i < p.n; i++) {
            if (!weir_http_may_use(c, &p.requests[i], ""))
                return;
        }
        if (p.n == 0) {
            put_unlimited(c, &p);
            return;
        }
        done = decide(c, &p);
    }
    if (!c->pending || weir_buffer_len(c->http->kept) > 0 || keep_plan(&p, c->http->kept))
        return;
    c->pending = false;
    weir_completion_cancel(&c->wait->completion);
    weir_http_problem(c->response, 503, "out of memory for the request");
}
