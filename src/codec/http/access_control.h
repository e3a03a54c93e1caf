/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_ACCESS_CONTROL_H
#define WEIR_CODEC_HTTP_ACCESS_CONTROL_H
/* Access control: the Host of a request (DNS rebinding), the origin of a web page (CORS, cross-site
 * requests), and the client behind a proxy. */

#include "codec/http/message.h"

typedef enum weir_http_host {
    WEIR_HTTP_BAD_HOST, /* neither HOST nor HOST:PORT */
    WEIR_HTTP_OTHER_HOST,
    WEIR_HTTP_OWN_HOST /* an IP address, localhost, a name in options->hosts, or absent */
} weir_http_host;

/* Classifies the host of a request (RFC 9110, 7.2). This prevents DNS rebinding: the owner of a web
 * page can point a name at this machine, and a browser would then let the page read weir's
 * responses. An absent host is accepted, since every browser sends one. One trailing dot of a name
 * is ignored. Pure.
 *  host  the value of Host or the authority of the target; `at` is NULL if both are absent. */
weir_http_host weir_http_check_host(const weir_http_options *o, weir_slice host);

/* Returns whether this is a cross-site browser request from an origin that is not in
 * options->origins. It checks Sec-Fetch-Site and Origin. */
bool weir_http_from_other_site(const weir_http_options *o, const weir_http_request *r);

/* Adds the CORS headers (Fetch Standard, 3.2) to a response if options->origins is not empty.
 * Returns whether it contains the request's origin. */
bool weir_http_add_cors(const weir_http_options *o, const weir_http_request *r,
                        weir_http_response *a);

/* Makes *a the response to a CORS preflight request of an allowed origin. */
void weir_http_preflight(weir_http_response *a);

/* Finds the address of the connection's client, which may be a proxy. Returns false if the
 * connection has no address: *ret is then unchanged. */
bool weir_http_peer(const weir_http_options *o, const weir_http_request *r, weir_address *ret);

/* Whether the request comes from a proxy in options->trusted. */
bool weir_http_from_trusted(const weir_http_options *o, const weir_http_request *r);

/* Finds the address of the client: that of the connection or, if it is a trusted proxy, the address
 * that the proxies report in options->client_header; see weir_client_address(). Returns false as
 * weir_http_peer(). */
bool weir_http_client(const weir_http_options *o, const weir_http_request *r, weir_client *ret);

#endif
