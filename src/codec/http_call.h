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
    bool key_from_header;
    int64_t now_ns;
    weir_http_response *response;
} weir_http_call;

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

/* Makes the response a JSON body that must not be cached. Returns the body. */
weir_buffer *weir_http_begin_json(weir_http_call *c);

/* Makes the response a text. */
void weir_http_put_text(weir_http_call *c, int status, const char *text);

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
