/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_ACCESS_H
#define WEIR_CODEC_HTTP_ACCESS_H
/* Who may ask: clients that know the password, requests to a name that is weir's own, and web pages
 * of listed origins. */

#include "codec/http_message.h"

typedef enum weir_http_password {
    WEIR_HTTP_NO_PASSWORD, /* no header, an empty one, or another scheme than Bearer and Basic */
    WEIR_HTTP_WRONG_PASSWORD,
    WEIR_HTTP_RIGHT_PASSWORD
} weir_http_password;

/* Compares the password with that of an Authorization header: "Bearer PASSWORD", or "Basic" with
 * any user name. The time does not depend on how much of a wrong password is right. Pure.
 *  authorization  the header's value; `at` is NULL if there is none. */
weir_http_password weir_http_check_password(weir_slice authorization, const char *password);

typedef enum weir_http_host {
    WEIR_HTTP_BAD_HOST, /* not of the form HOST or HOST:PORT */
    WEIR_HTTP_OTHER_HOST,
    WEIR_HTTP_OWN_HOST /* an IP address, localhost, one of the names, or no host at all */
} weir_http_host;

/* Classifies the host of a request (RFC 9110, 7.2). Another host may be a name that the owner of a
 * web page has pointed at this machine (DNS rebinding), and the browser would treat weir as a part
 * of that page's site. No browser leaves the host out. One trailing dot of a name is ignored. Pure.
 *  host  the value of Host or the authority of the target; `at` is NULL if there is neither. */
weir_http_host weir_http_check_host(const weir_http_options *o, weir_slice host);

/* Whether a page of another site made a browser send this, and its origin is not listed:
 * Sec-Fetch-Site or Origin says so. */
bool weir_http_from_other_site(const weir_http_options *o, const weir_http_request *r);

/* Adds the header lines of CORS (Fetch Standard, 3.2) to an answer, if any origin is listed.
 * Returns whether the request's is. */
bool weir_http_add_cors(const weir_http_options *o, const weir_http_request *r,
                        weir_http_response *a);

/* Makes `a` the answer to a preflight request of a page that may ask. */
void weir_http_preflight(weir_http_response *a);

#endif
