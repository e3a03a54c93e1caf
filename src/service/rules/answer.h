/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_ANSWER_H
#define WEIR_SERVICE_RULES_ANSWER_H
/* What a response to a decision carries, as a configuration chooses it: which header fields, and
 * the waits, the status and the body of a denial. A rule, a listener and the configuration as a
 * whole may each have an answer; each unset member is taken from the next of them.
 * codec/answer/fields.c writes the fields, and denial_body.c the body. */

#include "port/text.h"

#include <weir/weir.h>

/* Sets of header fields; each flavour is a bit. docs/headers.md describes them. */
typedef enum weir_header_flavour {
    WEIR_HEADERS_IETF = 1,        /* RateLimit-Policy, RateLimit: draft 11 */
    WEIR_HEADERS_IETF_03 = 2,     /* RateLimit-Limit, -Remaining, -Reset: drafts 3 to 6 */
    WEIR_HEADERS_X_RATELIMIT = 4, /* X-RateLimit-Limit, -Remaining, -Reset in seconds from now */
    WEIR_HEADERS_GITHUB = 8,      /* the same, Reset in seconds since the epoch; -Used, -Resource */
    WEIR_HEADERS_OPENAI = 16,     /* x-ratelimit-limit-requests and so on; durations as 6m0s */
    WEIR_HEADERS_NONE = 32,       /* only Retry-After */
    WEIR_HEADERS_IETF_07 = 64,    /* RateLimit-Policy, and RateLimit with all numbers: draft 7 */
} weir_header_flavour;

#define WEIR_HEADERS_DEFAULT (WEIR_HEADERS_IETF | WEIR_HEADERS_X_RATELIMIT)

/* What a policy counts: the qu parameter of RateLimit-Policy, and the suffix of OpenAI's fields. */
typedef enum weir_quota_unit {
    WEIR_UNIT_UNSET,
    WEIR_UNIT_REQUESTS, /* the default */
    WEIR_UNIT_TOKENS,
    WEIR_UNIT_BYTES
} weir_quota_unit;

typedef struct weir_answer {
    unsigned headers; /* a set of weir_header_flavour; 0: unset */
    weir_quota_unit unit;
    int retry_spread;        /* percent plus 1, 1..101; 0: unset. The default is 0% */
    int denied_status;       /* 400..599; 0: unset. The default is 429 */
    const char *denied_type; /* Content-Type of the body; NULL: unset */
    const char *denied_body; /* a template; NULL: unset, problem details (RFC 9457) */
} weir_answer;

/* The percentage by which the waits of a denial are spread.
 *  own, next  where it is set; each may be NULL. */
static inline int weir_answer_spread(const weir_answer *own, const weir_answer *next)
{
    int spread = own && own->retry_spread > 0 ? own->retry_spread : next ? next->retry_spread : 0;
    return spread > 0 ? spread - 1 : 0;
}

#endif
