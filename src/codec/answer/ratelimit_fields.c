/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Both fields are lists of structured fields (RFC 9651): each item is a quoted name with
 * parameters. The nginx module compiles this file without the rest of the codec. */

#include "codec/answer/fields.h"

#include "core/algorithm.h"
#include "core/check.h"
#include "core/units.h"
#include "port/assert.h"
#include "service/rules/spread.h"

#include <string.h>

#define SECOND_NS INT64_C(1000000000)

/* An integer of a structured field has at most 15 digits (RFC 9651, 3.3.1). */
_Static_assert(INT64_MAX / SECOND_NS < INT64_C(999999999999999), "a time fits a structured field");

/* Copies a string literal: the compiler computes its length. Evaluates to the end of the copy. */
#define put(at, text) ((char *)memcpy(at, text, sizeof(text) - 1) + sizeof(text) - 1)

static char *put_number(char *at, int64_t v)
{
    return at + weir_i64_print(at, v);
}

/* The length of a layer's window or, for a bucket, the time from empty to full; 0 for months,
 * years and held units. */
static unsigned __int128 window_ns(const weir_layer *l)
{
    switch (l->calendar) {
    case WEIR_DAY:
        return (unsigned __int128)86400 * SECOND_NS;
    case WEIR_WEEK:
        return (unsigned __int128)604800 * SECOND_NS;
    case WEIR_MONTH:
    case WEIR_YEAR:
        return 0;
    case WEIR_ALIGNED:
    case WEIR_FROM_FIRST:
        break;
    }
    if (weir_layer_holds(l))
        return 0;
    if (!weir_layer_is_bucket(l))
        return (unsigned __int128)l->period_ns;
    unsigned __int128 limit = (unsigned __int128)l->limit, rate = (unsigned __int128)l->rate;
    if (l->stepped)
        return (limit + rate - 1) / rate * (unsigned __int128)l->period_ns;
    return (limit * (unsigned __int128)l->period_ns + rate - 1) / rate;
}

uint32_t weir_ratelimit_layers(const weir_policy *policy)
{
    return policy->layers - weir_policy_blocks(policy);
}

uint32_t weir_ratelimit_layer(const weir_policy *policy, uint32_t layer)
{
    return weir_layer_is_block(&policy->layer[layer]) ? weir_full_quota(policy).layer : layer;
}

static char *put_item(char *at, weir_slice name, const weir_policy *policy, uint32_t layer)
{
    WEIR_ASSERT(layer < policy->layers && name.len <= WEIR_RATELIMIT_NAME_MAX);
    if (name.len == 0) {
        at = put(at, "limit");
    } else {
        memcpy(at, name.at, name.len);
        at += name.len;
    }
    if (weir_ratelimit_layers(policy) > 1) {
        *at++ = '-';
        at = put_number(at, (int64_t)weir_ratelimit_layer(policy, layer) + 1);
    }
    return at;
}

size_t weir_ratelimit_item(char *buf, weir_slice name, const weir_policy *policy, uint32_t layer)
{
    return (size_t)(put_item(buf, name, policy, layer) - buf);
}

int64_t weir_ratelimit_window(const weir_layer *l)
{
    return (int64_t)((window_ns(l) + SECOND_NS - 1) / SECOND_NS);
}

size_t weir_ratelimit_policy_item(char *buf, weir_slice name, const weir_policy *policy,
                                  uint32_t layer, bool in_bytes)
{
    const weir_layer *l = &policy->layer[layer];
    char *at = buf;
    *at++ = '"';
    at = put_item(at, name, policy, layer);
    at = put_number(put(at, "\";q="), l->limit);
    int64_t window_s = weir_ratelimit_window(l);
    if (window_s > 0)
        at = put_number(put(at, ";w="), window_s);
    if (weir_layer_holds(l))
        at = put(at, ";qu=\"concurrent-requests\"");
    else if (in_bytes)
        at = put(at, ";qu=\"content-bytes\"");
    return (size_t)(at - buf);
}

/* How long a bucket takes to earn all units but the last, rounded down. */
static unsigned __int128 all_but_one_ns(const weir_layer *l)
{
    unsigned __int128 period_ns = (unsigned __int128)l->period_ns;
    unsigned __int128 others = (unsigned __int128)l->limit - 1, rate = (unsigned __int128)l->rate;
    return l->stepped ? others / rate * period_ns : others * period_ns / rate;
}

int64_t weir_answer_spread_s(const weir_answered *a, int64_t wait_ns)
{
    if (a->decision->allowed)
        return 0;
    return weir_spread_s(a->spread, a->name, a->key, weir_s_ceil(wait_ns));
}

int64_t weir_answer_wait_s(const weir_answered *a, int64_t wait_ns)
{
    return weir_s_ceil(wait_ns) + weir_answer_spread_s(a, wait_ns);
}

int64_t weir_ratelimit_reset(const weir_answered *a)
{
    const weir_decision *d = a->decision;
    int64_t after_ns = d->reset_after_ns;
    if (!d->allowed)
        return weir_answer_wait_s(a, d->retry_after_ns < after_ns ? d->retry_after_ns : after_ns);
    if (d->remaining > 0)
        return weir_s_ceil(after_ns);
    if (a->next_ns > 0)
        return weir_s_ceil(a->next_ns);
    if (d->layer >= a->policy->layers)
        return weir_s_ceil(after_ns);
    const weir_layer *l = &a->policy->layer[d->layer];
    if (weir_layer_is_bucket(l) && all_but_one_ns(l) < (unsigned __int128)after_ns)
        after_ns -= (int64_t)all_but_one_ns(l);
    return weir_s_ceil(after_ns);
}

size_t weir_ratelimit_value(char *buf, const weir_answered *a)
{
    char *at = buf;
    *at++ = '"';
    at = put_item(at, a->name, a->policy, a->decision->layer);
    at = put_number(put(at, "\";r="), a->decision->remaining);
    if (weir_answer_resets(a))
        at = put_number(put(at, ";t="), weir_ratelimit_reset(a));
    return (size_t)(at - buf);
}
