/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_CALL_H
#define WEIR_CODEC_HTTP_CALL_H
/* Endpoints, the routes to them, and a request on its way to one. For the files that implement
 * endpoints. */

#include "codec/http/message.h"
#include "codec/http/params.h"

typedef struct weir_http_call {
    const weir_http_options *options;
    const weir_http_request *http;
    void *app; /* of the endpoint's guest */
    weir_http_wait *wait;
    bool pending; /* the request waits for an engine: there is no response yet */
    weir_http_params params;
    weir_request request;
    bool accepts_policy, accepts_limit; /* parameters of the endpoint */
    bool key_from_header, key_from_template;
    bool has_client; /* the template has $client */
    weir_client client;
    const weir_login *login; /* whose policies and keys bound the request; NULL: nothing does */
    char *keys;              /* WEIR_HTTP_KEYS_ROOM bytes for keys that are made from templates */
    int64_t now_ns;
    weir_http_response *response;
} weir_http_call;

#define WEIR_HTTP_KEYS_ROOM 16384

/* Flags beside the methods of an endpoint. */
#define WEIR_HTTP_PROBE 0x100U /* answers whatever the host */
#define WEIR_HTTP_SAME_SITE                                                                        \
    0x200U /* refuses pages of other sites, although it reads no parameter */

#define WEIR_HTTP_ANY_METHOD 0x400U
#define WEIR_HTTP_FORWARD                                                                          \
    0x800U /* the request describes one that a proxy received: its Host, Origin and other headers  \
              are those of the proxy's client */
#define WEIR_HTTP_BELOW 0x1000U /* of the paths below as well */

typedef struct weir_http_endpoint {
    const char *path; /* with a '/' at its end: of this path and one more segment */
    weir_right right; /* a set of them: see weir_right */
    unsigned methods; /* a set of weir_http_method, and flags */
    unsigned params;  /* WEIR_HTTP_BIT() of each accepted parameter; 0: none is read, and the body
                         may have any Content-Type */
    void (*run)(weir_http_call *c); /* the handler: makes the response or sets `pending` */
    const char *help; /* the text after the path on GET /, or with a '/' the whole line; NULL: the
                         page does not list the endpoint */
} weir_http_endpoint;

/* The endpoints and metrics of a service that weir has besides its own. Any thread may call
 * is_shown() and put_metrics(). */
typedef struct weir_http_guest {
    const weir_http_endpoint *at;
    size_t len;
    void *app; /* for call->app */
    /* Whether GET / lists the endpoints and /metrics has the metrics; NULL: always. */
    bool (*is_shown)(void *app);
    void (*put_metrics)(void *app, weir_buffer *out);
} weir_http_guest;

/* ---- routes (router.c) ----------------------------------------------------------------------- */

/* Where a request goes. */
typedef struct weir_http_route {
    const weir_http_endpoint *endpoint; /* NULL: the request is refused */
    void *app;                          /* of the endpoint's guest; NULL: it has none */
    weir_login login;
} weir_http_route;

/* Finds the endpoint of a request, and checks its head: host, password, path, method, Content-Type,
 * rights. It reads no query and no body. If it refuses the request, *a becomes the response.
 *  login     of the session; that of the request begins with it.
 *  has_body  the request has a body, which may still be in transit. */
weir_http_route weir_http_route_of(const weir_http_options *o, const weir_http_request *r,
                                   const weir_login *login, bool has_body, weir_http_response *a);

/* Makes *a the response to a request with an endpoint. Returns false if the request waits for an
 * engine: *a is then undefined. Call it again with the same request after the `ready` callback of
 * wait->completion. */
bool weir_http_dispatch(const weir_http_options *o, weir_http_route route, weir_http_wait *wait,
                        const weir_http_request *r, int64_t now_ns, weir_http_response *a);

/* The user whose policies and keys bound a call; NULL: none does. */
static inline const weir_user *weir_http_user(const weir_http_call *c)
{
    return c->login ? weir_login_bounds(c->login) : NULL;
}

/* Whether the user may use a policy, or the policy and the key of a request. If not, they make the
 * response 403. A call that is repeated for an engine was checked before.
 *  where  "", or the prefix of errors: "requests[2]: ". */
bool weir_http_may_see(weir_http_call *c, weir_slice policy, const char *where);
bool weir_http_check_use(weir_http_call *c, const weir_request *r, const char *where);
static inline bool weir_http_may_use(weir_http_call *c, const weir_request *r, const char *where)
{
    return !weir_http_user(c) || weir_http_check_use(c, r, where);
}

/* ---- responses ------------------------------------------------------------------------------- */

/* Makes the response a JSON body. Returns the body. */
weir_buffer *weir_http_begin_json(weir_http_call *c);

/* Makes the response a text, and appends to it. */
void weir_http_put_text(weir_http_call *c, int status, const char *text);
void weir_http_add_text(weir_http_call *c, const char *text);

/* The bytes of a client's text that a message shows, for "%.*s". */
static inline int weir_http_shown(size_t len)
{
    return len < WEIR_RULE_NAME_MAX ? (int)len : WEIR_RULE_NAME_MAX;
}

/* ---- keys (key.c) ---------------------------------------------------------------------------- */

/* The request that the variables of a key template describe. */
typedef struct weir_http_original {
    weir_http_call *call;
    weir_slice method, host, path, route; /* normalised; empty: unknown */
    weir_slice query;                     /* as it came */
    weir_slice policy;
    char *decoded; /* room for values of the query: WEIR_HTTP_TARGET_MAX bytes, if there is one */
    size_t decoded_len;    /* bytes of it that are used */
    bool is_long;          /* output: a value does not fit */
    const char *ambiguous; /* output: what occurs several times, with different values */
    bool is_skipped;       /* output: the policy does not limit the request */
    bool found;            /* output: a variable has a value */
    bool has_client;       /* output: the key has the address of `client` */
    weir_client client;
    char address[WEIR_ADDRESS_TEXT_MAX];
} weir_http_original;

/* Makes the key of a request for a policy at buf, as weir_service_make_key() does, or as `no_key`
 * of the policy says. Returns false with an error response if there is none or it does not fit.
 *  preset      as there.
 *  ret_status  the status of weir_service_make_key(), if it is not WEIR_OK; *ret is then absent. */
bool weir_http_make_key(weir_http_original *of, const char *preset, char *buf, size_t size,
                        weir_status *ret_status, weir_slice *ret);

/* Finds the key of a request: a parameter, or from the key template of the policy, or options->
 * key_header. Returns false with an error response. */
bool weir_http_find_key(weir_http_call *c, weir_slice *ret);

/* ---- handlers -------------------------------------------------------------------------------- */

/* The same as weir_http_decision() for requests that were decided together; also if the call has
 * failed. */
void weir_http_put_all(weir_http_call *c, weir_request *requests, size_t n,
                       const weir_all_result *all);

/* weir's own endpoints: those that decide (endpoints.c) and those about the daemon
 * (information.c). */
extern const weir_http_endpoint weir_http_decisions[], weir_http_information[];
extern const size_t weir_http_decisions_len, weir_http_information_len;

/* docs/openapi.yaml, without a NUL at its end. */
extern const char weir_openapi[];
extern const size_t weir_openapi_len;

/* The handler of /v1/forward-auth and the paths below, in forward.c. */
void weir_http_forward(weir_http_call *c);

#endif
