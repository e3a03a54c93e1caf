/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_ENDPOINTS_H
#define WEIR_CODEC_HTTP_ENDPOINTS_H
/* Routing: from a request's path to the endpoint that answers it. */

#include "codec/http_message.h"

/* Whether the request may be asked at all, as far as its head can tell: 0, or the status of an
 * answer that `a` now is. It reads no query and no body.
 *  has_body  a body is there or is to come. */
int weir_http_check_head(const weir_http_options *o, const weir_http_request *r, bool has_body,
                         weir_http_response *a);

/* Answers a request that weir_http_check_head() has let through. Returns false if an engine is
 * asked about it: then it is to be called again with the same request once the turn has its answer,
 * and what is in `a` means nothing. */
bool weir_http_dispatch(const weir_http_options *o, weir_completion *completion,
                        const weir_http_request *r, int64_t now_ns, weir_http_response *a);

#endif
