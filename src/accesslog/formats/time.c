/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Converts calendar dates to nanoseconds. strptime() and mktime() are not used: they are slow,
 * accept invalid dates, and depend on the local time zone. */

#include "accesslog/formats/time.h"

#include "port/text.h"

#include <stdbool.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)

/* Reads two digits. Returns 2^30, which no range check accepts, for anything else. */
static inline unsigned two(const char *at)
{
    unsigned a = (unsigned char)at[0] - (unsigned)'0', b = (unsigned char)at[1] - (unsigned)'0';
    return a > 9 || b > 9 ? 1u << 30 : a * 10 + b;
}

static inline unsigned four(const char *at)
{
    unsigned a = two(at), b = two(at + 2);
    return a > 99 || b > 99 ? 1u << 30 : a * 100 + b;
}

typedef struct civil {
    unsigned year, month, day, hour, minute, second;
    int64_t fraction_ns;
    int64_t east_s; /* offset from UTC, positive to the east */
} civil;

static inline unsigned days_in(unsigned year, unsigned month)
{
    if (month == 2)
        return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* Returns WEIR_E_SYNTAX for an invalid date, WEIR_E_RANGE for one outside 0..WEIR_NOW_NS_MAX. */
static weir_status civil_to_ns(const civil *c, int64_t *ret)
{
    if (c->year > 9999 || c->month < 1 || c->month > 12 || c->day < 1 ||
        (c->day > 28 && c->day > days_in(c->year, c->month)) || c->hour > 23 || c->minute > 59 ||
        c->second > 60)
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

/* Reads the digits of a fraction. Returns their end, or NULL if there are none. */
static const char *read_digits(const char *at, const char *end, int64_t *ret_ns)
{
    const char *begin = at;
    int64_t unit_ns = NS_PER_S / 10;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        *ret_ns += (*at - '0') * unit_ns;
        unit_ns /= 10;
    }
    return at > begin ? at : NULL;
}

/* Reads an optional fraction like ".123". Returns its end, or NULL for a '.' without digits. */
static inline const char *read_fraction(const char *at, const char *end, int64_t *ret_ns)
{
    *ret_ns = 0;
    return at == end || *at != '.' ? at : read_digits(at + 1, end, ret_ns);
}

/* Reads a zone like "-0400" or "-04:00"; `minutes` points to its last two digits. */
static inline bool read_zone(const char *sign, const char *minutes, int64_t *ret_east_s)
{
    unsigned h = two(sign + 1), m = two(minutes);
    if ((*sign != '+' && *sign != '-') || h > 23 || m > 59)
        return false;
    *ret_east_s = (*sign == '-' ? -1 : 1) * (int64_t)(h * 3600 + m * 60);
    return true;
}

#define LETTERS(a, b, c) ((unsigned)(a) << 16 | (unsigned)(b) << 8 | (unsigned)(c))

static unsigned month_of(const char *at)
{
    switch (LETTERS((unsigned char)at[0], (unsigned char)at[1], (unsigned char)at[2])) {
    case LETTERS('J', 'a', 'n'):
        return 1;
    case LETTERS('F', 'e', 'b'):
        return 2;
    case LETTERS('M', 'a', 'r'):
        return 3;
    case LETTERS('A', 'p', 'r'):
        return 4;
    case LETTERS('M', 'a', 'y'):
        return 5;
    case LETTERS('J', 'u', 'n'):
        return 6;
    case LETTERS('J', 'u', 'l'):
        return 7;
    case LETTERS('A', 'u', 'g'):
        return 8;
    case LETTERS('S', 'e', 'p'):
        return 9;
    case LETTERS('O', 'c', 't'):
        return 10;
    case LETTERS('N', 'o', 'v'):
        return 11;
    case LETTERS('D', 'e', 'c'):
        return 12;
    default:
        return 0;
    }
}

/* Reads "01/Aug/1995:02:00:04", also with a fraction. Returns its end, or NULL. */
static inline const char *read_clf_date(const char *at, const char *end, civil *ret)
{
    if (end - at < 20 || at[2] != '/' || at[6] != '/' || at[11] != ':' || at[14] != ':' ||
        at[17] != ':')
        return NULL;
    *ret = (civil){.year = four(at + 7),
                   .month = month_of(at + 3),
                   .day = two(at),
                   .hour = two(at + 12),
                   .minute = two(at + 15),
                   .second = two(at + 18)};
    return read_fraction(at + 20, end, &ret->fraction_ns);
}

/* Reads the same and a zone, like " -0400". Returns its end, or NULL. */
static inline const char *read_clf(const char *at, const char *end, civil *ret)
{
    const char *zone = read_clf_date(at, end, ret);
    if (!zone || end - zone < 6 || zone[0] != ' ')
        return NULL;
    if (memcmp(zone + 1, "+0000", 5) != 0 && !read_zone(zone + 1, zone + 4, &ret->east_s))
        return NULL; /* the comparison is faster for the most frequent zone */
    return zone + 6;
}

weir_status weir_logtime_clf(const char *at, const char *end, int64_t *ret, const char **ret_after)
{
    civil c;
    const char *after = at < end && *at == '[' ? read_clf(at + 1, end, &c) : NULL;
    if (!after || after == end || *after != ']')
        return WEIR_E_SYNTAX;
    *ret_after = after + 1;
    return civil_to_ns(&c, ret);
}

weir_status weir_logtime_local(const char *at, const char *end, int64_t *ret)
{
    civil c = {0};
    if (read_clf_date(at, end, &c) != end)
        return WEIR_E_SYNTAX;
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
    bool colon = end - zone == 6 && zone[3] == ':';
    if (!utc && ((!colon && end - zone != 5) || !read_zone(zone, zone + 3 + colon, &c.east_s)))
        return WEIR_E_SYNTAX;
    return civil_to_ns(&c, ret);
}

/* ---- numbers and any time -------------------------------------------------------------------- */

#define US_NS INT64_C(1000)
#define MS_NS INT64_C(1000000)

const char weir_logtime_expected[] =
    "t_ns, whole nanoseconds since 1970, or a time like 2026-01-02T03:04:05.678Z";

const weir_logtime_name weir_logtime_names[] = {
    {"t_ns", 1},         {"time_ns", 1},     {"timestamp_ns", 1},
    {"t_us", US_NS},     {"time_us", US_NS}, {"timestamp_us", US_NS},
    {"t_ms", MS_NS},     {"time_ms", MS_NS}, {"timestamp_ms", MS_NS},
    {"msec", NS_PER_S},  {"ts", 0},          {"StartUTC", 0},
    {"time", 0},         {"timestamp", 0},   {"@timestamp", 0},
    {"time_iso8601", 0}, {"time_local", 0},  {"datetime", 0},
    {"start_time", 0},   {NULL, 0},
};

int64_t weir_logtime_unit(const char *name)
{
    static const weir_logtime_name ends[] = {{"_ns", 1}, {"_us", US_NS}, {"_ms", MS_NS}};
    size_t len = strlen(name);
    for (const weir_logtime_name *t = weir_logtime_names; t->name; t++)
        if (strcmp(t->name, name) == 0)
            return t->unit_ns;
    for (int i = 0; i < 3; i++)
        if (len > 3 && strcmp(name + len - 3, ends[i].name) == 0)
            return ends[i].unit_ns;
    return 0;
}

/* The unit of a number that does not name it. A time in seconds is below 10^10 (until 2286), and in
 * milliseconds above 10^11 (since 1973). */
static int64_t unit_of(uint64_t whole)
{
    static const uint64_t limits[] = {100000000000, 100000000000000, 100000000000000000};
    static const int64_t units_ns[] = {NS_PER_S, MS_NS, US_NS};
    for (int i = 0; i < 3; i++)
        if (whole < limits[i])
            return units_ns[i];
    return 1;
}

weir_status weir_logtime_number(const char *at, const char *end, int64_t unit_ns, int64_t *ret)
{
    uint64_t whole;
    size_t digits = weir_digits_read(at, (size_t)(end - at), &whole);
    int64_t fraction_ns = 0;
    at += digits;
    if (digits == 0 || digits > 19)
        return WEIR_E_SYNTAX;
    if (unit_ns == 0)
        unit_ns = unit_of(whole);
    if (unit_ns == 1 ? at != end : read_fraction(at, end, &fraction_ns) != end)
        return WEIR_E_SYNTAX;
    if (whole > (uint64_t)(WEIR_NOW_NS_MAX / unit_ns))
        return WEIR_E_RANGE;
    int64_t t_ns = (int64_t)whole * unit_ns + fraction_ns / (NS_PER_S / unit_ns);
    if (t_ns > WEIR_NOW_NS_MAX)
        return WEIR_E_RANGE;
    *ret = t_ns;
    return WEIR_OK;
}

weir_status weir_logtime_any(const char *at, const char *end, int64_t unit_ns, int64_t *ret)
{
    civil c = {0};
    if (unit_ns == 0 && end - at > 5 && at[4] == '-')
        return weir_logtime_rfc3339(at, end, ret);
    if (unit_ns > 0 || at == end || !memchr(at, '/', (size_t)(end - at)))
        return weir_logtime_number(at, end, unit_ns, ret);
    bool brackets = *at == '[' && end[-1] == ']';
    if (read_clf(at + brackets, end - brackets, &c) != end - brackets)
        return WEIR_E_SYNTAX;
    return civil_to_ns(&c, ret);
}
