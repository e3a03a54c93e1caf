/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Calendar windows: days, weeks, months and years of a time zone. A day starts where the running
 * maximum of local time first reaches midnight. If the clock shows midnight twice, the day starts
 * at the first one. If it skips midnight, the day starts at the end of the gap. The maximum never
 * decreases, so every instant is in exactly one day, and in one week, month and year of days. This
 * file does not depend on how a zone is stored. */

#include "policy/zone.h"

#include "port/assert.h"

#define NS_PER_S 1000000000

/* ---- dates ----------------------------------------------------------------------------------- */

/* A range of dates, as days since 1970-01-01. */
typedef struct dates {
    int32_t first;
    int32_t next; /* the date after the last */
} dates;

/* Returns the month or year that contains a day. The calculation counts from March 1st of the year
 * 0: a leap day is then the last day of its year, and the start of a month is a linear function.
 * Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days. */
static dates month_or_year(int32_t day, bool year_wanted)
{
    uint32_t since = (uint32_t)(day + 719468);
    uint32_t in_era = since % 146097;
    uint32_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    uint32_t in_year = in_era - (365 * year + year / 4 - year / 100);
    uint32_t march_month = (5 * in_year + 2) / 153; /* 0 = March */
    year += since / 146097 * 400 + (march_month >= 10);
    if (year_wanted)
        return (dates){weir_year_start(year), weir_year_start(year + 1)};
    int32_t first = day - (int32_t)(in_year - (153 * march_month + 2) / 5);
    uint32_t month = march_month < 10 ? march_month + 3 : march_month - 9;
    return (dates){first, first + weir_month_days(weir_year_leap(year), month)};
}

static dates dates_around(weir_calendar unit, int32_t day)
{
    int32_t monday;
    switch (unit) {
    case WEIR_WEEK:
        monday = day - (day + 3 + 7 * 1000) % 7; /* 1970-01-01 was a Thursday */
        return (dates){monday, monday + 7};
    case WEIR_MONTH:
        return month_or_year(day, false);
    case WEIR_YEAR:
        return month_or_year(day, true);
    case WEIR_DAY:
    case WEIR_ALIGNED:
    case WEIR_FROM_FIRST:
        break;
    }
    return (dates){day, day + 1};
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Returns the date of the greatest local time up to t_s: the latest date that has started. `here`
 * is the piece that contains t_s. Only pieces within the range of offsets before t_s can matter. */
static int32_t latest_day(const weir_zone *zone, weir_zone_piece here, int64_t t_s)
{
    int64_t local_s = t_s + here.offset_s;
    while (here.start_s > t_s - (OFFSET_S_MAX - OFFSET_S_MIN)) {
        int64_t last_s = here.start_s - 1;
        here = weir_zone_piece_at(zone, last_s);
        if (local_s < last_s + here.offset_s)
            local_s = last_s + here.offset_s;
    }
    const int32_t year =
        366; /* added and subtracted, so that the division rounds down before 1970 */
    return (int32_t)((local_s + (int64_t)year * DAY_S) / DAY_S) - year;
}

/* Returns the first instant at which the local time is at or after midnight of a date. That cannot
 * be before midnight_s - OFFSET_S_MAX. `near` is any piece; one close to the date is faster. */
static int64_t day_start(const weir_zone *zone, weir_zone_piece near, int32_t day)
{
    int64_t midnight_s = (int64_t)day * DAY_S;
    int64_t from_s = midnight_s - OFFSET_S_MAX;
    if (from_s < near.start_s || from_s >= near.end_s)
        near = weir_zone_piece_at(zone, from_s);
    while (midnight_s - near.offset_s >= near.end_s)
        near = weir_zone_piece_at(zone, near.end_s);
    int64_t t_s = midnight_s - near.offset_s;
    return t_s > near.start_s ? t_s : near.start_s;
}

weir_span weir_calendar_window(const weir_zone *zone, weir_calendar unit, int64_t t_ns)
{
    int64_t now_ns = t_ns < 0 ? 0 : t_ns > WEIR_NOW_NS_MAX ? WEIR_NOW_NS_MAX : t_ns;
    int64_t t_s = now_ns / NS_PER_S;
    weir_zone_piece here = weir_zone_piece_at(zone, t_s);
    dates d = dates_around(unit, latest_day(zone, here, t_s));
    int64_t start_s = day_start(zone, here, d.first);
    int64_t end_s = day_start(zone, here, d.next);
    WEIR_ASSERT(start_s <= t_s && t_s < end_s);
    return (weir_span){start_s < 0 ? 0 : start_s * NS_PER_S, end_s * NS_PER_S};
}
