/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_MATCH_H
#define WEIR_PORT_MATCH_H
/* Four compares at once, where the processor has them. */

#include <stdint.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Which of the four 32-bit halves of two words, from the low one of `a` on, are `x`: bit i. */
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
