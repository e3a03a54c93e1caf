/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_CALL_H
#define WEIR_CODEC_HTTP_CALL_H
/* A request on its way to an endpoint, for the files that implement endpoints. Each such file has a
 * function that finds the endpoint of a path; http_endpoints.c calls them in turn. */

#include "codec/http_message.h"
#include "codec/http_params.h"

typedef struct weir_http_call {
    const weir_http_options *options;
    const weir_http_request *http;
    weir_rls_wait *wait;
    bool pending; /* the request waits for an engine: there is no response yet */
    weir_http_params params;
    weir_request request;
    bool accepts_policy, accepts_limit; /* parameters of the endpoint */
    bool key_from_header, key_from_template;
    char *keys; /* WEIR_HTTP_KEYS_ROOM bytes for keys that are made from templates */
    int64_t now_ns;
    weir_http_response *response;
} weir_http_call;

#define WEIR_HTTP_KEYS_ROOM 16384

/* Flags beside the methods of an endpoint. */
#define WEIR_HTTP_PROBE 0x100U /* answers without a password, whatever the host */
#define WEIR_HTTP_SAME_SITE                                                                        \
    0x200U /* refuses pages of other sites, although it reads no parameter */

typedef struct weir_http_endpoint {
    const char *path;
    unsigned methods; /* a set of weir_http_method, and flags */
    unsigned params;  /* WEIR_HTTP_BIT() of each accepted parameter; 0: none is read, and the body
                         may have any Content-Type */
    void (*run)(weir_http_call *c); /* the handler: makes the response or sets `pending` */
} weir_http_endpoint;

#define WEIR_HTTP_ANY_METHOD 0x400U
#define WEIR_HTTP_FORWARD                                                                          \
    0x800U /* the request describes one that a proxy received: its Host, Origin and other headers  \
              are those of the proxy's client */

/* Makes the response a JSON body that must not be cached. Returns the body. */
weir_buffer *weir_http_begin_json(weir_http_call *c);

/* Makes the response a text. */
void weir_http_put_text(weir_http_call *c, int status, const char *text);

/* ---- keys (http_key.c) ---------------------------------------------------------------------- */

/* The request that the variables of a key template describe. */
typedef struct weir_http_original {
    weir_http_call *call;
    weir_slice method, host, path, route; /* normalised; empty: unknown */
    weir_slice policy;
    bool found; /* output: a variable has a value */
    char address[WEIR_ADDRESS_TEXT_MAX];
} weir_http_original;

/* Makes the key of a request for a policy at buf, as weir_service_make_key() does. Returns false
 * with an error response if the key is empty or does not fit.
 *  preset      as there.
 *  ret_status  the status of weir_service_make_key(), if it is not WEIR_OK; *ret is then absent. */
bool weir_http_make_key(weir_http_original *of, const char *preset, char *buf, size_t size,
                        weir_status *ret_status, weir_slice *ret);

/* Finds the key of a request: a parameter, or from the key template of the policy, or options->
 * key_header. Returns false with an error response. */
bool weir_http_find_key(weir_http_call *c, weir_slice *ret);

/* ---- tables ---------------------------------------------------------------------------------- */

/* The same as weir_http_decision() for requests that were decided together; also if the call has
 * failed. */
void weir_http_put_all(weir_http_call *c, weir_request *requests, size_t n,
                       const weir_all_result *all);

/* /v1/forward-auth and the paths below, in http_forward.c. Returns NULL for other paths. */
const weir_http_endpoint *weir_http_forward_find(weir_slice path);

/* The endpoints of the Rate Limit Service in rls_http.c. Returns NULL if the path is none of them,
 * or the service is not configured. */
const weir_http_endpoint *weir_rls_http_find(const weir_http_options *o, weir_slice path);

/* The same for the endpoints of limitador's API, in limitador_http.c. */
const weir_http_endpoint *weir_limitador_http_find(const weir_http_options *o, weir_slice path);

/* The lines of GET / that describe these endpoints. */
extern const char weir_rls_http_help[], weir_limitador_http_help[];

/* Whether the Rate Limit Service has limits; GET / then lists its endpoints, and /metrics has its
 * statistics. */
bool weir_rls_http_has_limits(const weir_http_options *o);

#endif
