/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_DECISION_H
#define WEIR_CODEC_DECISION_H
/* The fields of a decision in replies: names, order and units. The daemon and the Redis module both
 * use them, so their replies are equal. */

#include <weir/weir.h>

/* Converts a time, 0..INT64_MAX, to milliseconds or seconds. It rounds up: a client that waits for
 * a rounded-down time would be denied again. Pure. */
static inline int64_t weir_ms_ceil(int64_t ns)
{
    return ns / 1000000 + (ns % 1000000 > 0);
}

static inline int64_t weir_s_ceil(int64_t ns)
{
    return ns / 1000000000 + (ns % 1000000000 > 0);
}

enum { WEIR_DECISION_FIELDS = 6 };

static const char *const weir_decision_field_names[WEIR_DECISION_FIELDS] = {
    "allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"};

/* Writes the values of weir_decision_field_names. Times are in milliseconds, rounded up;
 * retry_after_ms is -1 if waiting does not help. Pure. */
static inline void weir_decision_fields_ms(const weir_decision *d,
                                           int64_t ret[WEIR_DECISION_FIELDS])
{
    ret[0] = d->allowed;
    ret[1] = d->limit;
    ret[2] = d->remaining;
    ret[3] = d->never ? -1 : weir_ms_ceil(d->retry_after_ns);
    ret[4] = weir_ms_ceil(d->reset_after_ns);
    ret[5] = weir_ms_ceil(d->delay_ns);
}

#endif
