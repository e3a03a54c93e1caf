/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Finds the largest unit that fits and prints the next smaller one behind it. */

#include "cmd/kit/units.h"

#include "port/assert.h"
#include "port/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Writes a duration with `gap` between each number and its unit. */
static void put_duration(int64_t ns, const char *gap, char *ret)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"d", INT64_C(86400000000000)},
                 {"h", INT64_C(3600000000000)},
                 {"m", INT64_C(60000000000)},
                 {"s", 1000000000},
                 {"ms", 1000000},
                 {"us", 1000},
                 {"ns", 1},
                 {"ns", 1}};
    size_t i = 0;
    WEIR_ASSERT(ns >= 0);
    while (ns < units[i].ns && i < 6)
        i++;
    int64_t rest = ns % units[i + 1].ns;
    if (rest > 0 && ns <= INT64_MAX - (units[i + 1].ns - rest))
        ns += units[i + 1].ns - rest;
    if (i > 0 && ns >= units[i - 1].ns) /* rounded up to the larger unit: 59m 59.5s becomes 1h */
        i--;
    int len =
        snprintf(ret, DURATION_TEXT_MAX, "%" PRId64 "%s%s", ns / units[i].ns, gap, units[i].name);
    int64_t next = ns % units[i].ns / units[i + 1].ns;
    if (next > 0)
        snprintf(ret + len, (size_t)(DURATION_TEXT_MAX - len), " %" PRId64 "%s%s", next, gap,
                 units[i + 1].name);
}

void duration_text(int64_t ns, char *ret)
{
    put_duration(ns, "", ret);
}

void duration_ms_text(int64_t ms, char *ret)
{
    if (ms < 1000) {
        snprintf(ret, DURATION_TEXT_MAX, "%" PRId64 " ms", ms);
    } else if (ms < 60000) {
        int len = snprintf(ret, DURATION_TEXT_MAX, "%" PRId64 ".%03" PRId64, ms / 1000, ms % 1000);
        while (ret[len - 1] == '0')
            len--;
        len -= ret[len - 1] == '.';
        snprintf(ret + len, (size_t)(DURATION_TEXT_MAX - len), " s");
    } else {
        put_duration(ms < INT64_MAX / 1000000 ? ms * 1000000 : INT64_MAX, " ", ret);
    }
}

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

void duration_exact_text(int64_t ns, char *buf, size_t size)
{
    static const struct {
        int64_t ns;
        const char *name;
    } units[] = {{86400000000000, "d"}, {3600000000000, "h"}, {60000000000, "m"}, {1000000000, "s"},
                 {1000000, "ms"},       {1000, "us"},         {1, "ns"}};
    size_t i = 0;
    while (ns % units[i].ns != 0)
        i++;
    snprintf(buf, size, "%" PRId64 "%s", ns / units[i].ns, units[i].name);
}
