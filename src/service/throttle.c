/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* CL.THROTTLE. Two computations use double because redis-cell does, and its truncation shows in the
 * answer. weir's own policies never run this code. */

#include "service/throttle.h"

#include "port/assert.h"
#include "port/text.h"

const char *weir_throttle_status_text(weir_throttle_status st)
{
    switch (st) {
    case WEIR_THROTTLE_ZERO_RATE:
        return "Zero rates are not supported";
    case WEIR_THROTTLE_NEGATIVE_LIMIT:
        return "max_burst is less than -1, expected -1 or more";
    default:
        return "The rate, burst or quantity does not fit in 64 bits of nanoseconds";
    }
}

bool weir_throttle_number(const char *bytes, size_t len, int64_t *ret)
{
    bool minus = len > 0 && bytes[0] == '-';
    size_t sign = minus || (len > 0 && bytes[0] == '+');
    uint64_t v;
    if (!weir_decimal_read(bytes + sign, len - sign, (uint64_t)INT64_MAX + minus, &v))
        return false;
    *ret = minus ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

static const int64_t ns_per_s = 1000000000;

/* Converts as Rust's cast from f64 to i64: truncates, saturates, and maps NaN to 0. */
static int64_t to_i64(double x)
{
    if (x >= 9223372036854775807.0)
        return INT64_MAX;
    if (x <= -9223372036854775808.0)
        return INT64_MIN;
    return x == x ? (int64_t)x : 0;
}

/* Seconds, rounded up if the fraction is 1 ms or more. */
static int64_t seconds(int64_t ns)
{
    return ns / ns_per_s + (ns % ns_per_s / 1000000 > 0);
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

typedef struct rate {
    int64_t interval_ns;  /* the time for one unit */
    int64_t tolerance_ns; /* interval * limit */
    int64_t increment_ns; /* interval * quantity */
    int64_t limit;
} rate;

static weir_throttle_status rate_of(const weir_throttle *t, rate *ret)
{
    int64_t period_ns;
    if (t->count == 0 || t->period_s == 0)
        return WEIR_THROTTLE_ZERO_RATE;
    if (__builtin_mul_overflow(t->period_s, ns_per_s, &period_ns) ||
        __builtin_add_overflow(t->max_burst, 1, &ret->limit))
        return WEIR_THROTTLE_RANGE;
    if (ret->limit < 0)
        return WEIR_THROTTLE_NEGATIVE_LIMIT;
    ret->interval_ns = to_i64((double)period_ns / (double)t->count);
    if (ret->interval_ns == 0)
        return WEIR_THROTTLE_ZERO_RATE;
    if (__builtin_mul_overflow(ret->interval_ns, ret->limit, &ret->tolerance_ns) ||
        __builtin_mul_overflow(ret->interval_ns, t->quantity, &ret->increment_ns))
        return WEIR_THROTTLE_RANGE;
    return WEIR_THROTTLE_OK;
}

/* redis-cell divides whole microseconds. Its result exceeds the limit if the interval is not a
 * whole number of microseconds, and is infinite if the interval is below 1 us. So intervals below 1
 * us are divided in ns here, and the result is clamped to 0..limit. */
static int64_t remaining(const rate *r, int64_t ttl_ns)
{
    int64_t next_ns;
    WEIR_ASSERT(r->interval_ns != 0 && r->limit >= 0);
    if (__builtin_sub_overflow(r->tolerance_ns, ttl_ns, &next_ns) || next_ns <= -r->interval_ns)
        return 0;
    int64_t grain_ns = r->interval_ns / 1000 != 0 ? 1000 : 1;
    int64_t next = next_ns / grain_ns, interval = r->interval_ns / grain_ns;
    int64_t units = to_i64((double)next / (double)interval);
    return units < 0 ? 0 : units < r->limit ? units : r->limit;
}

weir_throttle_status weir_throttle_check(const weir_throttle *t, uint64_t *state, int64_t now_ns,
                                         weir_throttle_answer *ret)
{
    rate r;
    weir_throttle_status st = rate_of(t, &r);
    if (st != WEIR_THROTTLE_OK)
        return st;
    /* With redis-cell, Redis has expired a TAT in the past, so the key starts from now. */
    int64_t tat_ns = max64((int64_t)*state, now_ns);
    int64_t new_ns, allow_at_ns, ahead_ns;
    if (__builtin_add_overflow(tat_ns, r.increment_ns, &new_ns) ||
        __builtin_sub_overflow(new_ns, r.tolerance_ns, &allow_at_ns) ||
        __builtin_sub_overflow(now_ns, allow_at_ns, &ahead_ns) || ahead_ns == INT64_MIN)
        return WEIR_THROTTLE_RANGE;
    weir_throttle_answer a = {.limited = ahead_ns < 0, .limit = r.limit, .retry_after_s = -1};
    new_ns = max64(new_ns, now_ns); /* a refund restores the full quota at most */
    int64_t ttl_ns = (a.limited ? tat_ns : new_ns) - now_ns;
    if (!a.limited && new_ns != tat_ns)
        *state = (uint64_t)new_ns;
    else if (a.limited && r.increment_ns <= r.tolerance_ns)
        a.retry_after_s = seconds(-ahead_ns);
    a.reset_after_s = seconds(ttl_ns);
    a.remaining = remaining(&r, ttl_ns);
    WEIR_ASSERT(a.remaining >= 0 && a.remaining <= a.limit && ttl_ns >= 0);
    *ret = a;
    return WEIR_THROTTLE_OK;
}
