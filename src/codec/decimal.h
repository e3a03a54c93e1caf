/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_DECIMAL_H
#define WEIR_CODEC_DECIMAL_H
/* Decimal digits, written where they are to be: a number that is made elsewhere and copied costs
 * more than its digits. */

#include <stdint.h>

/* How many digits `v` has, 1..20. Pure. */
static inline unsigned weir_decimal_len(uint64_t v)
{
    unsigned n = 1;
    for (; v >= 1000; v /= 1000)
        n += 3;
    return n + (v >= 10) + (v >= 100);
}

/* Writes the digits of `v` so that they end before `end`; returns where they begin. */
static inline uint8_t *weir_decimal_before(uint8_t *end, uint64_t v)
{
    for (; v >= 10; v /= 10)
        *--end = (uint8_t)('0' + v % 10);
    *--end = (uint8_t)('0' + v);
    return end;
}

#endif
