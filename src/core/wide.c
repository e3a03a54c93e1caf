/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Division of a 128-bit by a 64-bit integer: long division in base 2^32 (Knuth, The Art of Computer
 * Programming 4.3.1, algorithm D, with a two-digit divisor). It must not compile to library calls.
 */

#include "core/wide.h"

#include "port/assert.h"

/* Returns the number of leading zero bits of `d`. */
static unsigned leading_zeros(uint64_t d)
{
    WEIR_ASSERT(d >= 1);
    unsigned n = 0;
    for (unsigned step = 32; step > 0; step /= 2) {
        if (d >> (64 - step) == 0) {
            d <<= step;
            n += step;
        }
    }
    return n;
}

/* Returns one digit of the quotient, floor((rem * 2^32 + next) / d), and leaves the remainder in
 * *rem. The first estimate is at most 2 too large. */
static uint64_t next_digit(uint64_t *rem, uint64_t next, uint64_t d)
{
    WEIR_ASSERT(*rem < d && d >> 63 == 1 && next >> 32 == 0);
    uint64_t d_hi = d >> 32, d_lo = (uint32_t)d;
    uint64_t q = *rem / d_hi;
    uint64_t r = *rem - q * d_hi;
    while (q >> 32 != 0 || q * d_lo > (r << 32 | next)) {
        q--;
        r += d_hi;
        if (r >> 32 != 0)
            break;
    }
    *rem = (*rem << 32 | next) - q * d; /* wraps */
    WEIR_ASSERT(*rem < d);
    return q;
}

/* Returns floor(n / d) and sets *ret_rem to the remainder. */
static uint64_t divide(weir_wide n, uint64_t d, uint64_t *ret_rem)
{
    WEIR_ASSERT(n.hi < d);
    if (n.hi == 0) {
        *ret_rem = n.lo % d;
        return n.lo / d;
    }
    unsigned shift = leading_zeros(d);
    uint64_t rem = shift == 0 ? n.hi : n.hi << shift | n.lo >> (64 - shift);
    uint64_t lo = n.lo << shift;
    d <<= shift;
    uint64_t q_hi = next_digit(&rem, lo >> 32, d);
    uint64_t q_lo = next_digit(&rem, (uint32_t)lo, d);
    *ret_rem = rem >> shift;
    return q_hi << 32 | q_lo;
}

uint64_t weir_wide_div_floor(weir_wide n, uint64_t d)
{
    uint64_t rem;
    return n.hi >= d ? UINT64_MAX : divide(n, d, &rem);
}

uint64_t weir_wide_div_ceil(weir_wide n, uint64_t d)
{
    if (n.hi >= d)
        return UINT64_MAX;
    uint64_t rem;
    uint64_t q = divide(n, d, &rem);
    return q + (rem != 0 && q != UINT64_MAX);
}
