/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_GUARD_H
#define WEIR_CODEC_HTTP_GUARD_H
/* Who may ask: clients that know the password, requests to a name that is weir's own, and web pages
 * of listed origins. */

#include "codec/http_request.h"

/* Whether an Authorization header's value holds the password: "Bearer PASSWORD", or "Basic" and any
 * user's name. How long it takes does not tell how much of a wrong one was right. */
bool weir_http_password_is(weir_slice authorization, const char *password);

/* Whether a Host (with or without a port) is an IP address, localhost or one of the names. Others
 * may be names that a web page's owner has pointed at this machine (DNS rebinding), and the browser
 * would take weir for a part of that page's site. A request without a Host is not a browser's. */
bool weir_http_is_own_host(const weir_http_options *o, weir_slice host);

/* Whether a page of another site made a browser send this, and its origin is not listed:
 * Sec-Fetch-Site or Origin says so. */
bool weir_http_from_other_site(const weir_http_options *o, const weir_http_request *r);

/* Adds the header lines of CORS (Fetch Standard, 3.2) to an answer, if any origin is listed.
 * Returns whether the request's is. */
bool weir_http_add_cors(const weir_http_options *o, const weir_http_request *r,
                        weir_http_answer *a);

/* Makes `a` the answer to a preflight request of a page that may ask. */
void weir_http_preflight(weir_http_answer *a);

#endif
