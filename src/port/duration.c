/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Durations as texts. */

#include "port/duration.h"

#include "port/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DAY, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND, NANOSECOND };

typedef struct unit_of_time {
    const char *name;
    uint64_t ns;
} unit_of_time;

static const unit_of_time units[] = {
    {"d", 86400000000000}, {"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000},
    {"ms", 1000000},       {"us", 1000},         {"ns", 1},          {"ns", 1}};

static uint64_t ns_of(unsigned unit)
{
    uint64_t ns = units[unit].ns;
    WEIR_ASSERT(unit <= NANOSECOND + 1 && ns > 0);
    return ns;
}

/* Writes seconds. Zeros at the end are left out, `step` at a time, and the point if no digit
 * follows. Returns the end. */
static char *put_seconds(char *at, uint64_t ns, unsigned step)
{
    char *end = at + sprintf(at, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
    while (end[-1] != '.' && strspn(end - step, "0") == step) {
        end -= step;
        *end = '\0';
    }
    end -= end[-1] == '.';
    return end;
}

static uint64_t round_up(uint64_t ns, uint64_t unit_ns)
{
    return ns + (unit_ns - ns % unit_ns) % unit_ns;
}

/* Writes `n` of a unit. Returns the end. */
static char *put(char *at, const char *before, uint64_t n, const char *gap, unsigned unit)
{
    return at + sprintf(at, "%s%" PRIu64 "%s%s", before, n, gap, units[unit].name);
}

/* Writes the largest unit and the next smaller one. */
static char *put_two(char *at, uint64_t ns, const char *gap)
{
    unsigned i = DAY;
    while (ns > 0 ? ns < ns_of(i) : i < SECOND)
        i++;
    uint64_t rounded = round_up(ns, ns_of(i + 1));
    if (rounded > INT64_MAX)
        rounded = ns;
    if (i > DAY && rounded >= ns_of(i - 1)) /* 59m 59.5s is 1h */
        i--;
    at = put(at, "", rounded / ns_of(i), gap, i);
    uint64_t next = rounded % ns_of(i) / ns_of(i + 1);
    return next > 0 ? put(at, " ", next, gap, i + 1) : at;
}

static char *put_long(char *at, uint64_t ns)
{
    const char *before = "";
    for (unsigned i = DAY; i < SECOND; i++) {
        if (ns < ns_of(i))
            continue;
        at = put(at, before, ns / ns_of(i), " ", i);
        ns %= ns_of(i);
        before = " ";
    }
    if (ns == 0 && *before != '\0')
        return at;
    return stpcpy(put_seconds(stpcpy(at, before), ns, 1), " s");
}

static char *put_go(char *at, uint64_t ns)
{
    if (ns > 0 && ns < ns_of(SECOND))
        return put(at, "", ns / ns_of(MILLISECOND), "", MILLISECOND);
    if (ns >= ns_of(HOUR))
        at = put(at, "", ns / ns_of(HOUR), "", HOUR);
    if (ns >= ns_of(MINUTE))
        at = put(at, "", ns % ns_of(HOUR) / ns_of(MINUTE), "", MINUTE);
    return stpcpy(put_seconds(at, ns % ns_of(MINUTE), 1), "s");
}

static char *put_read(char *at, uint64_t ns)
{
    if (ns < ns_of(SECOND))
        return put(at, "", ns / ns_of(MILLISECOND), " ", MILLISECOND);
    return ns < ns_of(MINUTE) ? stpcpy(put_seconds(at, ns, 1), " s") : put_two(at, ns, " ");
}

size_t weir_duration_print(char ret[static WEIR_DURATION_MAX], int64_t ns,
                           weir_duration_style style)
{
    uint64_t n = (uint64_t)ns;
    unsigned unit = DAY;
    char *end = ret;
    WEIR_ASSERT(ns >= 0);
    switch (style) {
    case WEIR_DURATION_SHORT:
        end = put_two(ret, n, "");
        break;
    case WEIR_DURATION_READ:
        end = put_read(ret, round_up(n, ns_of(MILLISECOND)));
        break;
    case WEIR_DURATION_LONG:
        end = put_long(ret, round_up(n, ns_of(MICROSECOND)));
        break;
    case WEIR_DURATION_WHOLE:
        while (n % ns_of(unit) != 0)
            unit++;
        end = put(ret, "", n / ns_of(unit), "", unit);
        break;
    case WEIR_DURATION_GO:
        end = put_go(ret, round_up(n, ns_of(MILLISECOND)));
        break;
    case WEIR_DURATION_PROTO:
        end = stpcpy(put_seconds(ret, n, 3), "s");
        break;
    }
    return (size_t)(end - ret);
}
