/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Calendar windows. A day starts where the running maximum of local time reaches its midnight: the
 * first of two midnights, the far side of a gap. The maximum never falls, so the days part time,
 * and weeks, months and years, being runs of days, do too. It must not know how a zone is
 * stored. */

#include "policy/zone.h"

#define NS_PER_S 1000000000

/* ---- dates ----------------------------------------------------------------------------------- */

/* Both are day numbers, days since 1970-01-01. */
typedef struct dates {
    int32_t first;
    int32_t next; /* after the last */
} dates;

/* The month or year around a day number. Counts from March 1st of the year 0, as then a leap day is
 * the last of its year, and a month's start is linear. (H. Hinnant, "chrono-Compatible Low-Level
 * Date Algorithms": civil_from_days.) */
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
    default:
        return (dates){day, day + 1};
    }
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The latest date that has started at t_s, `here` being the stretch around it: the date of the
 * greatest local time so far. No clock more than the range of offsets ago can have shown it. */
static int32_t latest_day(const weir_zone *zone, weir_zone_piece here, int64_t t_s)
{
    int64_t local_s = t_s + here.offset_s;
    while (here.start_s > t_s - (OFFSET_S_MAX - OFFSET_S_MIN)) {
        int64_t last_s = here.start_s - 1;
        here = weir_zone_piece_at(zone, last_s);
        if (local_s < last_s + here.offset_s)
            local_s = last_s + here.offset_s;
    }
    const int32_t year = 366; /* added and taken off, it rounds down before 1970 too */
    return (int32_t)((local_s + (int64_t)year * DAY_S) / DAY_S) - year;
}

/* The first instant with local time at or past a date's midnight; `near` is any stretch, best one
 * close by. Before midnight_s - OFFSET_S_MAX no clock can show that time. */
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
    return (weir_span){start_s < 0 ? 0 : start_s * NS_PER_S, end_s * NS_PER_S};
}
