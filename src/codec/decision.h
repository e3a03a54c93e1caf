/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_DECISION_H
#define WEIR_CODEC_DECISION_H
/* The figures of a decision as RESP has them, by name and in order: for the daemon and for the
 * module, which must answer alike. */

#include <weir/weir.h>

/* ns 0..INT64_MAX. Pure. */
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

/* Times in milliseconds, rounded up; -1: no wait helps. Pure. */
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
