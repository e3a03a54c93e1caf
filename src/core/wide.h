/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_WIDE_H
#define WEIR_CORE_WIDE_H
/* 128-bit unsigned integer arithmetic, in two 64-bit halves, for exact rates. It must not use
 * __int128 or the overflow builtins, because these compile to library calls on wasm32. */

#include <stdbool.h>
#include <stdint.h>

typedef struct weir_wide { /* hi * 2^64 + lo */
    uint64_t hi;
    uint64_t lo;
} weir_wide;

/*@ // C11's rules for unsigned integers (6.3.1.3, 6.5.7), which Frama-C does not provide. Assumed.
  @ axiomatic words {
  @     axiom carry: \forall integer x; 0x10000000000000000 <= x < 2 * 0x10000000000000000 ==>
  @         (uint64_t)x == x - 0x10000000000000000;
  @     axiom borrow: \forall integer x; -0x10000000000000000 <= x < 0 ==>
  @         (uint64_t)x == x + 0x10000000000000000;
  @     axiom low_half: \forall integer x; 0 <= x ==> (uint32_t)x == x % 0x100000000;
  @     axiom high_half: \forall integer x; 0 <= x ==> (x >> 32) == x / 0x100000000;
  @     axiom shift: \forall integer x; 0 <= x ==> (x << 32) == x * 0x100000000;
  @ }
  @
  @ logic integer wide_of(integer hi, integer lo) = hi * 0x10000000000000000 + lo;
  @ logic integer wide(weir_wide w) = wide_of(w.hi, w.lo);
  @ predicate wide_holds(integer x) = 0 <= x < 0x10000000000000000 * 0x10000000000000000;
  @
  @ lemma square: \forall integer x, y; 0 <= x <= 0xffffffff && 0 <= y <= 0xffffffff ==>
  @     0 <= x * y <= 0xffffffff * 0xffffffff;
  @ lemma scale: \forall integer x, y, d; 0 <= x <= y && d >= 0 ==> 0 <= x * d <= y * d; */

/* Returns a + b, modulo 2^128. */
/*@ assigns \nothing;
  @ ensures wide_holds(wide(a) + wide(b)) ==> wide(\result) == wide(a) + wide(b); */
static inline weir_wide weir_wide_add(weir_wide a, weir_wide b)
{
    uint64_t lo = a.lo + b.lo;
    return (weir_wide){a.hi + b.hi + (lo < a.lo), lo};
}

/* Returns a - b, modulo 2^128. */
/*@ assigns \nothing;
  @ ensures wide_holds(wide(a) - wide(b)) ==> wide(\result) == wide(a) - wide(b); */
static inline weir_wide weir_wide_sub(weir_wide a, weir_wide b)
{
    return (weir_wide){a.hi - b.hi - (a.lo < b.lo), a.lo - b.lo};
}

/*@ assigns \nothing;
  @ ensures \result <==> wide(a) < wide(b); */
static inline bool weir_wide_less(weir_wide a, weir_wide b)
{
    return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}

/* Returns a * b, which fits in 64 bits. */
/*@ assigns \nothing;
  @ ensures \result == a * b <= 0xffffffff * 0xffffffff; */
static inline uint64_t weir_word_mul(uint32_t a, uint32_t b)
{
    return (uint64_t)a * b;
}

/* Returns a * b. It cannot overflow. */
/*@ assigns \nothing;
  @ ensures wide(\result) == a * b; */
static inline weir_wide weir_wide_mul(uint64_t a, uint64_t b)
{
    uint32_t a_lo = (uint32_t)a, a_hi = (uint32_t)(a >> 32);
    uint32_t b_lo = (uint32_t)b, b_hi = (uint32_t)(b >> 32);
    //@ assert a == a_hi * 0x100000000 + a_lo && b == b_hi * 0x100000000 + b_lo;
    uint64_t low = weir_word_mul(a_lo, b_lo);
    uint64_t mid = weir_word_mul(a_hi, b_lo) + (low >> 32);
    uint64_t mid2 = weir_word_mul(a_lo, b_hi) + (uint32_t)mid;
    uint64_t high = weir_word_mul(a_hi, b_hi) + (mid >> 32) + (mid2 >> 32);
    /*@ assert a * b == a_hi * b_hi * 0x10000000000000000 +
      @     (a_hi * b_lo + a_lo * b_hi) * 0x100000000 + a_lo * b_lo; */
    return (weir_wide){high, ((uint64_t)(uint32_t)mid2 << 32) + (uint32_t)low};
}

/* Returns floor(n / d), or UINT64_MAX if that does not fit. d >= 1. */
/*@ requires d >= 1;
  @ assigns \nothing;
  @ ensures wide(n) >= d * 0x10000000000000000 ==> \result == UINT64_MAX;
  @ ensures wide(n) < d * 0x10000000000000000 ==> \result * d <= wide(n) < (\result + 1) * d; */
uint64_t weir_wide_div_floor(weir_wide n, uint64_t d);

/* Returns ceil(n / d), or UINT64_MAX if that does not fit. d >= 1. */
/*@ requires d >= 1;
  @ assigns \nothing;
  @ ensures wide(n) > d * UINT64_MAX ==> \result == UINT64_MAX;
  @ ensures wide(n) <= d * UINT64_MAX ==> (\result - 1) * d < wide(n) <= \result * d; */
uint64_t weir_wide_div_ceil(weir_wide n, uint64_t d);

/* Returns `ns` as an int64_t, or INT64_MAX if it does not fit. */
/*@ assigns \nothing;
  @ ensures \result == \min(ns, INT64_MAX); */
static inline int64_t weir_ns_clamp(uint64_t ns)
{
    return ns < (uint64_t)INT64_MAX ? (int64_t)ns : INT64_MAX;
}

/* Returns a + b, or INT64_MAX if that does not fit. a, b >= 0. */
/*@ requires a >= 0 && b >= 0;
  @ assigns \nothing;
  @ ensures \result == \min(a + b, INT64_MAX); */
static inline int64_t weir_ns_add(int64_t a, int64_t b)
{
    return weir_ns_clamp((uint64_t)a + (uint64_t)b);
}

#endif
