/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_FIELDS_H
#define WEIR_CODEC_ANSWER_FIELDS_H
/* The header fields that a response to a decision carries, in every flavour, for all protocols: the
 * HTTP API, the Rate Limit Service of Envoy, SPOE and the nginx module. docs/headers.md describes
 * the flavours. This file must not know messages, sessions or requests. */

#include "codec/ratelimit_fields.h"
#include "service/rules/answer.h"

/* A decision, for its header fields. */
typedef struct weir_answered {
    weir_slice name; /* of the policy; absent or empty: "limit" */
    const weir_policy *policy;
    const weir_decision *decision; /* if decision->layer >= policy->layers, the layer is unknown:
                                      fields that need it are left out */
    weir_quota_unit unit;          /* WEIR_UNIT_UNSET counts as WEIR_UNIT_REQUESTS */
    bool resets;                   /* false: waiting does not help, as on a deny list */
} weir_answered;

#define WEIR_ANSWERED_MAX      16   /* decisions of an answer: WEIR_ALL_MAX of the service */
#define WEIR_ANSWER_FIELDS_MAX 20   /* header fields of an answer */
#define WEIR_ANSWER_ROOM       8192 /* bytes of its header lines, always enough */

/* The longest RateLimit-Policy, in bytes, because proxies limit the head of a response to 4 or
 * 8 KiB. Policies that do not fit are left out; the shown one comes first. */
#define WEIR_ANSWER_POLICY_MAX 2048

typedef struct weir_answer_field {
    const char *name; /* as it is sent by HTTP/1.1, static: "RateLimit-Policy" */
    weir_slice value;
} weir_answer_field;

/* Writes the header fields of a response.
 *  headers  a set of flavours, not 0. Of several flavours, each field name occurs once.
 *  a        n decisions, 1..WEIR_ANSWERED_MAX, that were made together; each flavour has its own
 *           rule for which of them it shows. a[shown] is the one that represents all.
 *  now_ns   the time of the decision, for fields with a date.
 *  ret      WEIR_ANSWER_FIELDS_MAX fields; their values are in buf.
 *  buf      WEIR_ANSWER_ROOM bytes.
 * Returns the number of fields. The last is Retry-After, if the shown decision is a denial and
 * waiting helps. Pure. */
size_t weir_answer_fields(unsigned headers, const weir_answered *a, size_t n, size_t shown,
                          int64_t now_ns, weir_answer_field *ret, char *buf);

/* Writes the same fields as lines of HTTP/1.1, each with its CR LF. Returns the length, which is 0
 * without fields. Pure.
 *  buf  WEIR_ANSWER_ROOM bytes. */
size_t weir_answer_lines(unsigned headers, const weir_answered *a, size_t n, size_t shown,
                         int64_t now_ns, char *buf);

/* Fills the unset members of an answer from the next one: a policy's answer from its listener's,
 * and that from the configuration's.
 *  next  may be NULL. */
void weir_answer_merge(weir_answer *a, const weir_answer *next);

/* Reads the name of a flavour, such as "ietf-03". Returns 0 if there is none of that name. */
unsigned weir_answer_flavour(const char *name, size_t len);

/* The name of flavour i, 0.., in the order of their bits; NULL after the last. Static. */
const char *weir_answer_flavour_name(size_t i);

/* Whether a set can be sent: `none` stands alone, and no two flavours give a field of one name
 * different meanings. Returns NULL, or what is wrong; static. */
const char *weir_answer_check(unsigned headers);

#endif
