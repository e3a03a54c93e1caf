/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Converts calendar dates to nanoseconds. strptime() and mktime() are not used: they are slow,
 * accept invalid dates, and depend on the local time zone. */

#include "codec/logtime.h"

#include <stdbool.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)

/* Reads two digits. Returns 2^30, which no range check accepts, for anything else. */
static unsigned two(const char *at)
{
    unsigned a = (unsigned char)at[0] - (unsigned)'0', b = (unsigned char)at[1] - (unsigned)'0';
    return a > 9 || b > 9 ? 1u << 30 : a * 10 + b;
}

static unsigned four(const char *at)
{
    unsigned a = two(at), b = two(at + 2);
    return a > 99 || b > 99 ? 1u << 30 : a * 100 + b;
}

typedef struct civil {
    unsigned year, month, day, hour, minute, second;
    int64_t fraction_ns;
    int64_t east_s; /* offset from UTC, positive to the east */
} civil;

static unsigned days_in(unsigned year, unsigned month)
{
    if (month == 2)
        return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* Returns WEIR_E_SYNTAX for an invalid date, WEIR_E_RANGE for one outside 0..WEIR_NOW_NS_MAX. */
static weir_status civil_to_ns(const civil *c, int64_t *ret)
{
    if (c->year > 9999 || c->month < 1 || c->month > 12 || c->day < 1 ||
        c->day > days_in(c->year, c->month) || c->hour > 23 || c->minute > 59 || c->second > 60)
        return WEIR_E_SYNTAX;
    if (c->year < 1969 || c->year > 2226) /* one year more on each side, for the zone */
        return WEIR_E_RANGE;
    /* Count years from March, so that a leap day is the last day of a year. There are 719468 days
     * from 0000-03-01 to 1970-01-01. */
    unsigned y = c->month > 2 ? c->year : c->year - 1;
    unsigned m = c->month > 2 ? c->month - 3 : c->month + 9;
    int64_t days = (int64_t)(y * 365 + y / 4 - y / 100 + y / 400) - 719468;
    days += (153 * m + 2) / 5 + c->day - 1;
    int64_t s = days * 86400 + c->hour * 3600 + c->minute * 60 + c->second - c->east_s;
    int64_t t_ns = s * NS_PER_S + c->fraction_ns; /* below 2226-12-32, 8.2e18: fits */
    if (t_ns < 0 || t_ns > WEIR_NOW_NS_MAX)
        return WEIR_E_RANGE;
    *ret = t_ns;
    return WEIR_OK;
}

/* Reads an optional fraction like ".123". Returns its end, or NULL for a '.' without digits. */
static const char *read_fraction(const char *at, const char *end, int64_t *ret_ns)
{
    *ret_ns = 0;
    if (at == end || *at != '.')
        return at;
    const char *begin = ++at;
    int64_t unit_ns = NS_PER_S / 10;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        *ret_ns += (*at - '0') * unit_ns;
        unit_ns /= 10;
    }
    return at > begin ? at : NULL;
}

/* Reads a zone like "-0400" or "-04:00"; `minutes` points to its last two digits. */
static bool read_zone(const char *sign, const char *minutes, int64_t *ret_east_s)
{
    unsigned h = two(sign + 1), m = two(minutes);
    if ((*sign != '+' && *sign != '-') || h > 23 || m > 59)
        return false;
    *ret_east_s = (*sign == '-' ? -1 : 1) * (int64_t)(h * 3600 + m * 60);
    return true;
}

static unsigned month_of(const char *at)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (unsigned i = 0; i < 12; i++)
        if (memcmp(at, &names[3 * i], 3) == 0)
            return i + 1;
    return 0;
}

weir_status weir_logtime_clf(const char *at, const char *end, int64_t *ret, const char **ret_after)
{
    if (end - at < 28 || at[0] != '[' || at[3] != '/' || at[7] != '/' || at[12] != ':' ||
        at[15] != ':' || at[18] != ':')
        return WEIR_E_SYNTAX;
    civil c = {.year = four(at + 8),
               .month = month_of(at + 4),
               .day = two(at + 1),
               .hour = two(at + 13),
               .minute = two(at + 16),
               .second = two(at + 19)};
    const char *zone = read_fraction(at + 21, end, &c.fraction_ns);
    if (!zone || end - zone < 7 || zone[0] != ' ' || zone[6] != ']' ||
        !read_zone(zone + 1, zone + 4, &c.east_s))
        return WEIR_E_SYNTAX;
    *ret_after = zone + 7;
    return civil_to_ns(&c, ret);
}

weir_status weir_logtime_rfc3339(const char *at, const char *end, int64_t *ret)
{
    if (end - at < 20 || at[4] != '-' || at[7] != '-' || !memchr("Tt ", at[10], 3) ||
        at[13] != ':' || at[16] != ':')
        return WEIR_E_SYNTAX;
    civil c = {.year = four(at),
               .month = two(at + 5),
               .day = two(at + 8),
               .hour = two(at + 11),
               .minute = two(at + 14),
               .second = two(at + 17)};
    const char *zone = read_fraction(at + 19, end, &c.fraction_ns);
    if (!zone || zone == end)
        return WEIR_E_SYNTAX;
    bool utc = end - zone == 1 && (*zone == 'Z' || *zone == 'z');
    if (!utc && (end - zone != 6 || zone[3] != ':' || !read_zone(zone, zone + 4, &c.east_s)))
        return WEIR_E_SYNTAX;
    return civil_to_ns(&c, ret);
}
