/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_WIDE_H
#define WEIR_CORE_WIDE_H
/* 128-bit unsigned arithmetic in two 64-bit halves: just what exact rates need. It must not use __int128 or the
 * overflow builtins, which turn into library calls on wasm32; and nothing here knows what is being counted. */

#include <stdbool.h>
#include <stdint.h>

typedef struct weir_wide { /* hi * 2^64 + lo */
    uint64_t hi;
    uint64_t lo;
} weir_wide;

/*@ logic integer wide(weir_wide w) = w.hi * 18446744073709551616 + w.lo; */

/* a + b, modulo 2^128. */
static inline weir_wide weir_wide_add(weir_wide a, weir_wide b)
{
    uint64_t lo = a.lo + b.lo;
    return (weir_wide){a.hi + b.hi + (lo < a.lo), lo};
}

/* a - b, modulo 2^128. */
static inline weir_wide weir_wide_sub(weir_wide a, weir_wide b)
{
    return (weir_wide){a.hi - b.hi - (a.lo < b.lo), a.lo - b.lo};
}

static inline bool weir_wide_less(weir_wide a, weir_wide b)
{
    return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}

/* a * b; cannot overflow. */
/*@ assigns \nothing;
  @ ensures wide(\result) == a * b; */
static inline weir_wide weir_wide_mul(uint64_t a, uint64_t b)
{
    uint64_t a_lo = (uint32_t)a, a_hi = a >> 32;
    uint64_t b_lo = (uint32_t)b, b_hi = b >> 32;
    uint64_t low = a_lo * b_lo;
    uint64_t mid = a_hi * b_lo + (low >> 32);
    uint64_t mid2 = a_lo * b_hi + (uint32_t)mid;
    return (weir_wide){a_hi * b_hi + (mid >> 32) + (mid2 >> 32), mid2 << 32 | (uint32_t)low};
}

/* floor(n / d), or UINT64_MAX if that does not fit. d >= 1. */
uint64_t weir_wide_div_floor(weir_wide n, uint64_t d);

/* ceil(n / d), or UINT64_MAX if that does not fit. d >= 1. */
uint64_t weir_wide_div_ceil(weir_wide n, uint64_t d);

/* `ns` as a figure to hand out: what does not fit in int64 is the largest int64. */
static inline int64_t weir_ns_clamp(uint64_t ns)
{
    return ns < (uint64_t)INT64_MAX ? (int64_t)ns : INT64_MAX;
}

/* a + b, or the largest int64. a, b >= 0. */
static inline int64_t weir_ns_add(int64_t a, int64_t b)
{
    return weir_ns_clamp((uint64_t)a + (uint64_t)b);
}

#endif
