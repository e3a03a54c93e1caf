/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sizes of memory. */

#include "cmd/kit/units.h"

#include "port/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool size_read(const char *text, int64_t *ret)
{
    uint64_t n;
    size_t digits = weir_digits_read(text, strlen(text), &n);
    const char *at = text + digits;
    unsigned shift = !*at ? 0 : *at == 'k' ? 10 : *at == 'm' ? 20 : *at == 'g' ? 30 : 64;
    if (digits == 0 || shift == 64 || at[shift > 0] != '\0' || n > (uint64_t)INT64_MAX >> shift)
        return false;
    *ret = (int64_t)(n << shift);
    return true;
}

char *size_text(uint64_t bytes, char *buf, size_t size)
{
    static const char units[] = "kmg";
    int shift = 0;
    while (shift < 30 && bytes > 0 && bytes % ((uint64_t)1024 << shift) == 0)
        shift += 10;
    snprintf(buf, size, "%" PRIu64 "%.*s", bytes >> shift, shift > 0,
             &units[shift > 0 ? shift / 10 - 1 : 0]);
    return buf;
}
