/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_CPU_H
#define WEIR_PORT_CPU_H
/* Instructions of the processor: AES rounds, and SIMD compares. */

#include <stdbool.h>
#include <stdint.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Marks a function that uses AES intrinsics. Call it only if port_has_aes(). Undefined where
 * the compiler has no such intrinsics. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define PORT_AES __attribute__((target("aes,sse4.1")))
#endif

/* Whether the processor has AES instructions. Any thread. */
static inline bool port_has_aes(void)
{
#ifdef PORT_AES
    unsigned a, b, c, d;
    const unsigned needed = bit_AES | bit_SSE4_1;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & needed) == needed;
#else
    return false;
#endif
}

/* Compares the four 32-bit halves of two words with `x`. Bit i of the result is set if half i is
 * equal, from the low half of `a` to the high half of `b`. */
static inline unsigned port_match4(uint64_t a, uint64_t b, uint32_t x)
{
#if defined(__SSE2__)
    __m128i halves = _mm_set_epi64x((long long)b, (long long)a);
    __m128i same = _mm_cmpeq_epi32(halves, _mm_set1_epi32((int)x));
    return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(same));
#else
    return (unsigned)((uint32_t)a == x) | (unsigned)(a >> 32 == x) << 1 |
           (unsigned)((uint32_t)b == x) << 2 | (unsigned)(b >> 32 == x) << 3;
#endif
}

#endif
