/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_GUARD_H
#define WEIR_CODEC_HTTP_GUARD_H
/* Who may ask: those who know the password, and no web page of another site. */

#include "codec/http_request.h"

/* Whether an Authorization header's value holds the password: "Bearer PASSWORD", or "Basic" and any
 * user's name. How long it takes does not tell how much of a wrong one was right. */
bool weir_http_password_is(weir_slice authorization, const char *password);

/* Whether a page of another site made a browser send this: Sec-Fetch-Site or Origin says so. */
bool weir_http_from_other_site(const weir_http_request *r);

#endif
