/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Finds the largest unit that fits and prints the next smaller one behind it. */

#include "cmd/duration.h"

#include <inttypes.h>
#include <stdio.h>

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
