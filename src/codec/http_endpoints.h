/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_ENDPOINTS_H
#define WEIR_CODEC_HTTP_ENDPOINTS_H
/* Routing: dispatches a request to the endpoint of its path. */

#include "codec/http_message.h"

/* Checks the head of a request: host, password, path, method, Content-Type. It reads no query and
 * no body.
 *  has_body  the request has a body, which may still be in transit.
 * Returns 0 to continue, or the status of the response that *a has become. */
int weir_http_check_head(const weir_http_options *o, const weir_http_request *r, bool has_body,
                         weir_http_response *a);

/* Makes *a the response to a request that weir_http_check_head() accepted. Returns false if the
 * request waits for an engine: *a is then undefined. Call it again with the same request after the
 * `ready` callback of wait->completion. */
bool weir_http_dispatch(const weir_http_options *o, weir_rls_wait *wait, const weir_http_request *r,
                        int64_t now_ns, weir_http_response *a);

#endif
