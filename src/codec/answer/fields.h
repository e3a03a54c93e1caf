/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_FIELDS_H
#define WEIR_CODEC_ANSWER_FIELDS_H
/* What a response to a decision carries besides the decision: header fields in every flavour, and
 * an operator's body. For all protocols and the nginx module. docs/headers.md describes the
 * flavours. This file must not know messages, sessions or requests. */

#include "port/buffer.h"
#include "port/text.h"
#include "service/rules/answer.h"

/* ---- RateLimit ------------------------------------------------------------------------------- */

/* The values of the header fields RateLimit-Policy and RateLimit, as
 * draft-ietf-httpapi-ratelimit-headers-11 defines them. */

/* A policy's name has 1..WEIR_RATELIMIT_NAME_MAX bytes: letters, digits and - _ . : / which need no
 * escaping. A policy without a name is called "limit" (an absent or empty slice). */
#define WEIR_RATELIMIT_NAME_MAX 64

/* The room that the functions below need: always enough for any policy and decision. */
#define WEIR_RATELIMIT_ITEM_ROOM   (WEIR_RATELIMIT_NAME_MAX + 1 + WEIR_I64_MAX_LEN)
#define WEIR_RATELIMIT_FIELD_ROOM  (WEIR_RATELIMIT_ITEM_ROOM + 8 + 2 * WEIR_I64_MAX_LEN)
#define WEIR_RATELIMIT_UNIT_ROOM   21 /* ;qu="content-bytes" */
#define WEIR_RATELIMIT_POLICY_ROOM (WEIR_LAYERS_MAX * (WEIR_RATELIMIT_FIELD_ROOM + 2))

/* The functions write no NUL, and return the length. Threads: pure; the caller owns buf. */

/* Writes the name of a layer: the policy's name, with the layer's number, from 1, if the policy has
 * several layers: api-2.
 *  layer  0..policy->layers - 1.
 *  buf    WEIR_RATELIMIT_ITEM_ROOM bytes. */
size_t weir_ratelimit_item(char *buf, weir_slice name, const weir_policy *policy, uint32_t layer);

/* The number of the layers that are in RateLimit-Policy: all but a block, which has no quota. */
uint32_t weir_ratelimit_layers(const weir_policy *policy);

/* The layer that the fields show for a decision of `layer`. For a block it is the one with the
 * lowest limit, which is the limit of the decision. */
uint32_t weir_ratelimit_layer(const weir_policy *policy, uint32_t layer);

/* The window of a layer in whole seconds, rounded up; for a bucket it is the time from empty to
 * full. 0 for months and years, whose length varies. */
int64_t weir_ratelimit_window(const weir_layer *l);

/* Writes an item of RateLimit-Policy: "api-1";q=10;w=1;qu="content-bytes"
 * q is the limit, and w the window; w is left out if it is 0.
 *  layer     0..policy->layers - 1.
 *  in_bytes  the policy counts bytes: writes qu.
 *  buf       WEIR_RATELIMIT_FIELD_ROOM + WEIR_RATELIMIT_UNIT_ROOM bytes. */
size_t weir_ratelimit_policy_item(char *buf, weir_slice name, const weir_policy *policy,
                                  uint32_t layer, bool in_bytes);

/* ---- header fields --------------------------------------------------------------------------- */

/* A decision, for its header fields. */
typedef struct weir_answered {
    weir_slice name; /* of the policy; absent or empty: "limit" */
    const weir_policy *policy;
    const weir_decision *decision; /* if decision->layer >= policy->layers, the layer is unknown:
                                      fields that need it are left out */
    weir_quota_unit unit;          /* WEIR_UNIT_UNSET counts as WEIR_UNIT_REQUESTS */
    bool resets;                   /* false: waiting does not help, as on a deny list */
    int64_t next_ns;               /* none remains: the time until a cost of 1 is allowed; 0 or
                                      less: unknown; INT64_MAX: never */
    weir_slice key;                /* that was denied; only with a spread */
    int spread;                    /* of the waits of a denial: 0..100 percent */
} weir_answered;

/* Whether the quota of a decision comes back: not for a deny list, nor for a cost that the limit
 * never allows, nor if a cost of 1 never fits beside what the request keeps. */
static inline bool weir_answer_resets(const weir_answered *a)
{
    return a->resets && a->next_ns != INT64_MAX && (a->decision->allowed || !a->decision->never);
}

/* The seconds that the fields add to a time of a denial, 0 or more: weir_spread_s(). 0 for an
 * allowed request. Pure.
 *  wait_ns  0 or more. */
int64_t weir_answer_spread_s(const weir_answered *a, int64_t wait_ns);

/* A time that the fields report, in whole seconds, rounded up, with the spread. Pure.
 *  wait_ns  0 or more. */
int64_t weir_answer_wait_s(const weir_answered *a, int64_t wait_ns);

/* The reset of a decision in the fields of the drafts, as weir_answer_wait_s() reports it. Denied:
 * the time until the request is allowed. Nothing remains: the time until a cost of 1 is allowed or,
 * if that is unknown, until a bucket has a unit. Otherwise: the time until the quota is full. */
int64_t weir_ratelimit_reset(const weir_answered *a);

/* Writes the value of RateLimit, one item, for the layer that the decision describes: "api";r=3;t=2
 * r is what remains, and t is weir_ratelimit_reset(), left out if the quota does not come back.
 *  a    its layer is known.
 *  buf  WEIR_RATELIMIT_FIELD_ROOM bytes. */
size_t weir_ratelimit_value(char *buf, const weir_answered *a);

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

/* ---- bodies of denials ----------------------------------------------------------------------- */

/* The operator's template for the body of a denial: a text in which {retry_after} and other
 * placeholders are replaced. */

#define WEIR_DENIAL_BODY_MAX 16384 /* bytes of a template */

/* Checks a template. A '{' that is followed by lower-case letters or '_' and a '}' must be one that
 * weir_denial_body_placeholder() lists; every other brace stands for itself, so that JSON needs no
 * escaping. Pure.
 *  ret_at  the offset of an unknown placeholder or a NUL byte; 0 if the text is too long.
 * Returns NULL, or what is wrong; static. */
const char *weir_denial_body_check(const char *text, size_t len, size_t *ret_at);

/* The name of placeholder i, 0.., without braces; NULL after the last. Static. */
const char *weir_denial_body_placeholder(size_t i);

/* The longest body that a template can become: the policy's name replaces a name of 8 bytes. */
#define WEIR_DENIAL_BODY_ROOM (WEIR_DENIAL_BODY_MAX / 8 * WEIR_RATELIMIT_NAME_MAX)

/* Appends the body, at most WEIR_DENIAL_BODY_ROOM bytes. Times are whole seconds, rounded up, but
 * retry_after_ms; reset_at is in seconds since the epoch. Times that do not apply, because waiting
 * does not help, are 0.
 *  text  a template that weir_denial_body_check() accepts.
 *  cost  of the denied request. */
void weir_denial_body_put(weir_buffer *out, const char *text, const weir_answered *a, int64_t cost,
                          int64_t now_ns);

#endif
