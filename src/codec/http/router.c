/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Finds the endpoint of a request, checks what all endpoints have in common, and calls the
 * handler. */

#include "codec/answer/password.h"
#include "codec/http/access_control.h"
#include "codec/http/call.h"
#include "codec/http/pages.h"
#include "port/assert.h"

typedef weir_http_call call;
typedef weir_http_endpoint endpoint;

/* Sets of methods and parameters. GET includes HEAD. */
enum {
    GET = WEIR_HTTP_GET | WEIR_HTTP_HEAD,
    POST = WEIR_HTTP_POST,
    GET_OR_POST = GET | POST,
    NAME = WEIR_HTTP_BIT(WEIR_HTTP_P_POLICY),
    TEXT = WEIR_HTTP_BIT(WEIR_HTTP_P_LIMIT),
    KEY = WEIR_HTTP_BIT(WEIR_HTTP_P_KEY) | WEIR_HTTP_BIT(WEIR_HTTP_P_SOURCE)
};

/* ---- responses ------------------------------------------------------------------------------- */

weir_buffer *weir_http_begin_json(call *c)
{
    c->response->status = 200;
    c->response->type = "application/json";
    return c->response->body;
}

void weir_http_add_text(call *c, const char *text)
{
    weir_buffer_append(c->response->body, text, strlen(text));
}

void weir_http_put_text(call *c, int status, const char *text)
{
    c->response->status = status;
    c->response->type = "text/plain; charset=utf-8";
    weir_http_add_text(c, text);
}

/* ---- routes ---------------------------------------------------------------------------------- */

/* Whether a path is an endpoint's. */
static bool is_of(const endpoint *e, weir_slice path)
{
    size_t n = strlen(e->path);
    if (path.len < n || memcmp(path.at, e->path, n) != 0)
        return false;
    if (n > 1 && e->path[n - 1] == '/')
        return path.len > n && !memchr(path.at + n, '/', path.len - n);
    return path.len == n || (e->methods & WEIR_HTTP_BELOW && path.at[n] == '/');
}

static const endpoint *find_in(const endpoint *at, size_t n, weir_slice path)
{
    for (const endpoint *e = at; e < at + n; e++) {
        if (is_of(e, path))
            return e;
    }
    return NULL;
}

static void page(call *c)
{
    weir_http_send_page(weir_http_find_page(c->options, c->http->path), c->http, c->response);
}

static weir_http_route find_route(const weir_http_options *o, weir_slice path)
{
    static const endpoint any_page = {"a page", WEIR_MAY_ENTER, GET, 0, page, NULL};
    weir_http_route route = {.endpoint =
                                 find_in(weir_http_decisions, weir_http_decisions_len, path)};
    if (!route.endpoint)
        route.endpoint = find_in(weir_http_information, weir_http_information_len, path);
    if (!route.endpoint && weir_http_find_page(o, path))
        route.endpoint = &any_page;
    for (size_t i = 0; !route.endpoint && i < o->guests_len; i++) {
        const weir_http_guest *g = &o->guests[i];
        route.endpoint = find_in(g->at, g->len, path);
        route.app = g->app;
    }
    return route;
}

/* Returns whether a Content-Type is application/json, with or without parameters. */
static bool is_json(weir_slice type)
{
    const char *end = type.at ? memchr(type.at, ';', type.len) : NULL;
    if (end)
        type.len = (size_t)(end - type.at);
    return type.at && weir_slice_is(weir_slice_trim(type), "application/json");
}

/* The methods of an endpoint. OPTIONS lists them, and is one of them on every path. */
static const char *methods_of(const endpoint *e)
{
    unsigned methods = e->methods & GET_OR_POST;
    return methods == GET_OR_POST ? "GET, HEAD, POST, OPTIONS"
           : methods == GET       ? "GET, HEAD, OPTIONS"
           : methods == POST      ? "POST, OPTIONS"
                                  : "OPTIONS";
}

static void refuse_host(const weir_http_request *r, weir_http_response *a)
{
    weir_http_problem(a, 421,
                      "unknown host '%.*s', expected an IP address, localhost or a name listed in "
                      "http.hosts; add it there, or set a password",
                      r->host.len < 256 ? (int)r->host.len : 256, r->host.at);
}

/* Whether the Host may be that of a proxy's client. /v1/forward-auth refuses all other peers. */
static bool may_have_any_host(const weir_http_options *o, const weir_http_request *r,
                              const endpoint *e)
{
    return e && (e->methods & WEIR_HTTP_ANY_METHOD ||
                 (e->methods & WEIR_HTTP_FORWARD && weir_http_from_trusted(o, r)));
}

/* ---- rights ---------------------------------------------------------------------------------- */

/* Reads the password. X-Weir-Password wins: behind a proxy, Authorization may be the client's. A
 * user by listener or certificate gives none. */
static weir_credentials log_in(const weir_http_options *o, const weir_http_request *r,
                               int64_t now_ns, weir_login *login)
{
    weir_slice own = r->header[WEIR_HTTP_PASSWORD];
    if (login->is_fixed)
        return WEIR_CREDENTIALS_NONE;
    if (own.at)
        return weir_credentials_check_text(o->access, own, now_ns, login);
    return weir_credentials_check(o->access, r->header[WEIR_HTTP_AUTHORIZATION], now_ns, login);
}

static void refuse_login(const weir_http_options *o, weir_credentials given, weir_http_response *a)
{
    if (given == WEIR_CREDENTIALS_BUSY) {
        weir_http_problem(a, 503, "too many passwords are being checked, try again");
        weir_http_add_field(a, "Retry-After: 1\r\n");
        return;
    }
    weir_http_problem(a, 401, "%s password, expected Authorization: Bearer %sPASSWORD",
                      given == WEIR_CREDENTIALS_WRONG ? "wrong" : "missing",
                      weir_access_is_single(o->access) ? "" : "NAME:");
    /* Chrome reads one challenge in a line, and asks for a password only if it is Basic. */
    weir_http_add_field(a, "WWW-Authenticate: Bearer realm=\"weir\"\r\n");
    weir_http_add_field(a, "WWW-Authenticate: Basic realm=\"weir\"\r\n");
    a->wrong_password = given == WEIR_CREDENTIALS_WRONG;
}

static void log_denied(const weir_http_options *o, const weir_http_request *r, const weir_login *l,
                       unsigned rights)
{
    weir_access_denied(o->access, r->peer, l, rights);
}

static void refuse_right(const weir_http_options *o, const weir_http_request *r,
                         const weir_login *l, const endpoint *e, weir_http_response *a)
{
    const char *name = weir_user_name(l->user);
    unsigned plain = e->right & WEIR_MAY_TAKE_OTHERS      ? WEIR_MAY_TAKE
                     : e->right & WEIR_MAY_METRICS_OTHERS ? WEIR_MAY_METRICS
                                                          : 0;
    if (weir_user_may(l->user, plain))
        weir_http_problem(a, 403,
                          "the user \"%s\" may use only some policies or keys, and the limits of "
                          "%s are not among them",
                          name, e->path);
    else
        weir_http_problem(a, 403, "the user \"%s\" lacks the right \"%s\" for %s", name,
                          weir_right_word(e->right), e->path);
    log_denied(o, r, l, e->right);
}

bool weir_http_may_see(call *c, weir_slice policy, const char *where)
{
    const weir_user *user = weir_http_user(c);
    if (weir_user_sees(user, policy))
        return true;
    weir_http_problem(c->response, 403, "%sthe user \"%s\" may not use the policy \"%.*s\"", where,
                      weir_user_name(user), weir_http_shown(policy.len), policy.at);
    log_denied(c->options, c->http, c->login, 0);
    return false;
}

bool weir_http_check_use(call *c, const weir_request *r, const char *where)
{
    const weir_slice texts = {WEIR_COUNTS_TEXTS, sizeof WEIR_COUNTS_TEXTS - 1};
    const weir_user *user = weir_http_user(c);
    if (!weir_http_may_see(c, r->by_text ? texts : r->rule, where))
        return false;
    if (weir_user_has_key(user, r->key, r->client))
        return true;
    weir_http_problem(c->response, 403, "%sthe user \"%s\" may not use %s", where,
                      weir_user_name(user), r->key.at ? "this key" : "all keys");
    log_denied(c->options, c->http, c->login, 0);
    return false;
}

/* ---- the head -------------------------------------------------------------------------------- */

weir_http_route weir_http_route_of(const weir_http_options *o, const weir_http_request *r,
                                   const weir_login *login, bool has_body, weir_http_response *a)
{
    weir_http_route route = find_route(o, r->path);
    const endpoint *e = route.endpoint;
    bool open = e && (e->methods & WEIR_HTTP_PROBE);
    bool any = e && (e->methods & WEIR_HTTP_ANY_METHOD);
    bool may_cross = weir_http_add_cors(o, r, a) && !any; /* `any`: the preflight is the client's */
    bool locked =
        weir_access_is_limited(o->access) && !r->repeated && !(e && e->right & WEIR_MAY_ANYONE);
    route.login = *login;
    weir_credentials given = locked ? log_in(o, r, a->now_ns, &route.login) : WEIR_CREDENTIALS_NONE;
    a->right_password = given == WEIR_CREDENTIALS_RIGHT;
    if (r->full && !open) {
        weir_http_problem(a, 503, "too many connections are open");
        weir_http_add_field(a, "Retry-After: 1\r\n");
    } else if (!open && !r->own_host && !may_have_any_host(o, r, e)) {
        refuse_host(r, a);
    } else if (may_cross && e && r->method == WEIR_HTTP_OPTIONS &&
               r->header[WEIR_HTTP_REQUEST_METHOD].at) {
        weir_http_preflight(a);
    } else if (locked && (given > WEIR_CREDENTIALS_NONE ? given != WEIR_CREDENTIALS_RIGHT
                                                        : !route.login.user)) {
        refuse_login(o, given, a);
    } else if (!e && o->pages.len == 0 && weir_http_names_page(r->path)) {
        weir_http_problem(a, 404,
                          "this weir was built without its web pages; install clang, lld and "
                          "esbuild, and build it again");
    } else if (!e) {
        weir_http_problem(a, 404, "unknown path \"%.*s\"; GET / lists the endpoints",
                          weir_http_shown(r->path.len), r->path.at);
    } else if (!any && !(e->methods & r->method)) {
        if (r->method == WEIR_HTTP_OPTIONS)
            a->status = 204;
        else
            weir_http_problem(a, 405, "unsupported method for %s, expected %s", e->path,
                              methods_of(e));
        weir_http_add_field(a, "Allow: %s\r\n", methods_of(e));
    } else if (locked && !weir_user_may(route.login.user, e->right)) {
        refuse_right(o, r, &route.login, e, a);
    } else if (e->params && has_body && !is_json(r->header[WEIR_HTTP_CONTENT_TYPE])) {
        weir_slice type = r->header[WEIR_HTTP_CONTENT_TYPE];
        if (type.at)
            weir_http_problem(a, 415, "unsupported Content-Type '%.*s', expected application/json",
                              weir_http_shown(type.len), type.at);
        else
            weir_http_problem(a, 415, "missing Content-Type, expected application/json");
        weir_http_add_field(a, "Accept: application/json\r\n");
    } else {
        return route;
    }
    return (weir_http_route){.endpoint = NULL};
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* Reads the request to the service. Returns false with an error response if it is invalid. */
static bool read_request(call *c)
{
    weir_slice key;
    const char *missing = c->accepts_policy && c->accepts_limit ? WEIR_HTTP_EITHER
                          : c->accepts_policy                   ? "\"policy\""
                                                                : "\"limit\"";
    if (!weir_http_find_key(c, &key) ||
        !weir_http_params_request(&c->params, key, "", missing, &c->request, c->response))
        return false;
    c->request.client = c->has_client ? &c->client : NULL;
    return weir_http_may_use(c, &c->request, "");
}

/* Refuses a cross-site browser request, so that a page of another site cannot spend units. A page
 * cannot set the header that carries the key. A request with that header therefore comes from a
 * proxy that forwards the headers of its client, and is accepted. */
static bool refuse_other_site(call *c)
{
    if (c->key_from_template && weir_http_from_trusted(c->options, c->http))
        return false;
    if (!c->http->own_host) { /* which a trusted proxy may have only without a key */
        refuse_host(c->http, c->response);
        return true;
    }
    if (c->key_from_header || !weir_http_from_other_site(c->options, c->http))
        return false;
    weir_http_problem(
        c->response, 403,
        "cross-site request refused (Sec-Fetch-Site, Origin): add the origin to http.origins, or "
        "let your proxy remove these headers");
    return true;
}

bool weir_http_dispatch(const weir_http_options *o, weir_http_route route, weir_http_wait *wait,
                        const weir_http_request *r, int64_t now_ns, weir_http_response *a)
{
    char query[WEIR_HTTP_TARGET_MAX], keys[WEIR_HTTP_KEYS_ROOM];
    const endpoint *e = route.endpoint;
    WEIR_ASSERT(e);
    call c = {.options = o,
              .http = r,
              .app = route.app,
              .wait = wait,
              .login = r->repeated ? NULL : &route.login,
              .keys = keys,
              .now_ns = now_ns,
              .response = a,
              .accepts_policy = e->params & NAME,
              .accepts_limit = e->params & TEXT};
    if (e->params == 0) {
        if (!(e->methods & WEIR_HTTP_SAME_SITE) || !refuse_other_site(&c))
            e->run(&c);
        return !c.pending;
    }
    if (weir_http_params_read(&c.params, r, e->params, o->key_query, query, a) &&
        (!(e->params & KEY) || read_request(&c)) && !refuse_other_site(&c))
        e->run(&c);
    if (c.pending && c.key_from_template && weir_buffer_len(r->kept) == 0)
        weir_buffer_append(r->kept, c.request.key.at, c.request.key.len);
    weir_http_params_free(&c.params);
    return !c.pending;
}
