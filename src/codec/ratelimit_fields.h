/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RATELIMIT_FIELDS_H
#define WEIR_CODEC_RATELIMIT_FIELDS_H
/* The values of the header fields RateLimit-Policy and RateLimit, as
 * draft-ietf-httpapi-ratelimit-headers-11 defines them. The HTTP API and the nginx module both use
 * them, so their fields are equal. This file must not know messages, sessions or requests. */

#include "port/text.h"

#include <weir/weir.h>

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

/* Writes the value of RateLimit, one item, for the layer that the decision describes: "api";r=3;t=2
 * r is what remains. t is the time until the quota is full, in whole seconds, rounded up.
 *  d       a decision on `policy`.
 *  resets  false leaves t out: the quota does not come back, as on a deny list.
 *  buf     WEIR_RATELIMIT_FIELD_ROOM bytes. */
size_t weir_ratelimit_value(char *buf, weir_slice name, const weir_policy *policy,
                            const weir_decision *d, bool resets);

#endif
