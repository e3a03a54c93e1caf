/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Calendar windows: days, weeks, months and years of a time zone. A window starts where the running
 * maximum of local time first reaches its date and time of day. If the clock shows that time twice,
 * the window starts at the first one. If it skips the time, the window starts at the end of the
 * gap. The maximum never decreases, so every instant is in exactly one window. This file does not
 * depend on how a zone is stored. */

#include "core/algorithm.h"
#include "policy/zone.h"
#include "port/assert.h"

#define NS_PER_S INT64_C(1000000000)

/* ---- dates ----------------------------------------------------------------------------------- */

/* A range of dates, as days since 1970-01-01. */
typedef struct dates {
    int32_t first;
    int32_t next; /* the date after the last */
} dates;

/* Returns the month that contains a day, counted from January of the year 0. The calculation counts
 * days from March 1st of the year 0: a leap day is then the last day of its year, and the start of
 * a month is a linear function. Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms",
 * civil_from_days. */
static uint32_t month_of(int32_t day)
{
    uint32_t since = (uint32_t)(day + 719468);
    uint32_t in_era = since % 146097;
    uint32_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    uint32_t in_year = in_era - (365 * year + year / 4 - year / 100);
    return (since / 146097 * 400 + year) * 12 + 2 + (5 * in_year + 2) / 153;
}

/* Returns the date on which the window of a month begins. */
static int32_t month_first(uint32_t month, int32_t anchor)
{
    uint32_t year = month / 12, in_year = month % 12 + 1;
    bool leap = weir_year_leap(year);
    int32_t last = weir_month_days(leap, in_year) - 1;
    return weir_year_start(year) + weir_month_start(leap, in_year) +
           (anchor < last ? anchor : last);
}

/* Returns the date on which the window of a year begins. Without a leap day, the anchor of the leap
 * day means the day before, and so do later anchors. */
static int32_t year_first(uint32_t year, int32_t anchor)
{
    const int32_t leap_day = 59;
    return weir_year_start(year) + anchor - (anchor >= leap_day && !weir_year_leap(year));
}

static dates dates_around(weir_calendar unit, int32_t anchor, int32_t day)
{
    int32_t first = day, next = day + 1;
    uint32_t n;
    switch (unit) {
    case WEIR_WEEK:
        first = day - (day + 3 - anchor + 7 * 1000) % 7; /* 1970-01-01 was a Thursday */
        next = first + 7;
        break;
    case WEIR_MONTH:
        n = month_of(day);
        n -= day < month_first(n, anchor);
        first = month_first(n, anchor);
        next = month_first(n + 1, anchor);
        break;
    case WEIR_YEAR:
        n = month_of(day) / 12;
        n -= day < year_first(n, anchor);
        first = year_first(n, anchor);
        next = year_first(n + 1, anchor);
        break;
    case WEIR_DAY:
    case WEIR_ALIGNED:
    case WEIR_FROM_FIRST:
        break;
    }
    return (dates){first, next};
}

/* Returns the time of day at which windows begin. */
static int32_t begin_s(weir_calendar unit, int32_t anchor)
{
    return unit == WEIR_WEEK || unit == WEIR_MONTH || unit == WEIR_YEAR ? 0 : anchor * 60;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Returns the latest date whose `time_s` the greatest local time up to t_s has reached: the latest
 * date that has started. `here` is the piece that contains t_s. Only pieces within the range of
 * offsets before t_s can matter. */
static int32_t latest_day(const weir_zone *zone, weir_zone_piece here, int32_t time_s, int64_t t_s)
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
    return (int32_t)((local_s - time_s + (int64_t)year * DAY_S) / DAY_S) - year;
}

/* Returns the first instant at which the local time is at or after local_s. That cannot be before
 * local_s - OFFSET_S_MAX. `near` is any piece; one close to that time is faster. */
static int64_t first_at(const weir_zone *zone, weir_zone_piece near, int64_t local_s)
{
    int64_t from_s = local_s - OFFSET_S_MAX;
    if (from_s < near.start_s || from_s >= near.end_s)
        near = weir_zone_piece_at(zone, from_s);
    while (local_s - near.offset_s >= near.end_s)
        near = weir_zone_piece_at(zone, near.end_s);
    int64_t t_s = local_s - near.offset_s;
    return t_s > near.start_s ? t_s : near.start_s;
}

_Static_assert(WEIR_NOW_NS_MAX <= INT64_MAX - 370 * DAY_S * NS_PER_S,
               "a window that contains now ends within a year and two days");

weir_span weir_calendar_window(const weir_zone *zone, weir_calendar unit, int32_t anchor,
                               int64_t t_ns)
{
    WEIR_ASSERT(0 <= anchor && anchor <= weir_anchor_max(unit));
    int64_t now_ns = t_ns < 0 ? 0 : t_ns > WEIR_NOW_NS_MAX ? WEIR_NOW_NS_MAX : t_ns;
    int64_t t_s = now_ns / NS_PER_S;
    int32_t time_s = begin_s(unit, anchor);
    weir_zone_piece here = weir_zone_piece_at(zone, t_s);
    dates d = dates_around(unit, anchor, latest_day(zone, here, time_s, t_s));
    int64_t start_s = first_at(zone, here, (int64_t)d.first * DAY_S + time_s);
    int64_t end_s = first_at(zone, here, (int64_t)d.next * DAY_S + time_s);
    WEIR_ASSERT(start_s <= t_s && t_s < end_s);
    return (weir_span){start_s < 0 ? 0 : start_s * NS_PER_S, end_s * NS_PER_S};
}
