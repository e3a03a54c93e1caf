/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The offset of a time zone at any instant: by the listed changes, and after the last one by the
 * yearly rule. weir_zone_read() has validated the zone, so nothing is validated here. */

#include "policy/zone.h"

#include "port/assert.h"

/* Returns the number of listed changes at or before t_s. */
static uint32_t changes_until(const weir_zone *zone, int64_t t_s)
{
    uint32_t low = 0;
    uint32_t high = zone->times_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (weir_zone_time(zone, mid) <= t_s)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Returns the day of a rule in a year, in days since 1970-01-01. */
static int32_t rule_day(const weir_zone_rule *rule, uint32_t year)
{
    bool leap = weir_year_leap(year);
    int32_t day = weir_year_start(year);
    if (rule->form == 'N')
        return day + rule->day;
    if (rule->form == 'J') /* J60 is March 1st in every year */
        return day + rule->day - 1 + (leap && rule->day >= 60);
    day += weir_month_start(leap, rule->month);
    /* 1970-01-01 was a Thursday. The multiple of 7 keeps the sum positive from the year 1 on. */
    uint32_t weekday = (uint32_t)(day + 4 + 7 * 103000) % 7;
    int32_t ahead = (int32_t)((rule->day + 7 - weekday) % 7) + 7 * (rule->week - 1);
    return day + (ahead < weir_month_days(leap, rule->month) ? ahead : ahead - 7);
}

int64_t weir_zone_change(const weir_zone_tail *tail, int which, uint32_t year)
{
    const weir_zone_rule *rule = &tail->change[which];
    WEIR_ASSERT(which == 0 || which == 1);
    int32_t offset_s = which == 0 ? tail->base_s : tail->other_s;
    return (int64_t)rule_day(rule, year) * DAY_S + rule->time_s - offset_s;
}

weir_zone_piece weir_zone_yearly(const weir_zone_tail *tail, int64_t t_s)
{
    /* An estimate by the mean Gregorian year. It is off by two years at most; the loops correct it.
     */
    uint32_t year = (uint32_t)((uint64_t)(t_s - RULE_S_MIN) / 31556952) + 2;
    int64_t from_s = weir_zone_change(tail, 0, year);
    int64_t next_s = weir_zone_change(tail, 0, year + 1);
    while (t_s < from_s) {
        next_s = from_s;
        from_s = weir_zone_change(tail, 0, --year);
    }
    while (next_s <= t_s) {
        from_s = next_s;
        next_s = weir_zone_change(tail, 0, ++year + 1);
    }
    WEIR_ASSERT(from_s <= t_s && t_s < next_s);
    int64_t back_s = weir_zone_change(tail, 1, year);
    if (t_s < back_s)
        return (weir_zone_piece){from_s, back_s, tail->other_s};
    return (weir_zone_piece){back_s, next_s, tail->base_s};
}

weir_zone_piece weir_zone_piece_at(const weir_zone *zone, int64_t t_s)
{
    weir_zone_piece ret = {INT64_MIN, INT64_MAX, 0};
    if (!zone)
        return ret;
    uint32_t i = changes_until(zone, t_s);
    if (i == zone->times_count && zone->tail.course == WEIR_ZONE_YEARLY)
        ret = weir_zone_yearly(&zone->tail, t_s);
    else if (i == zone->times_count && zone->tail.course == WEIR_ZONE_FIXED)
        ret.offset_s = zone->tail.base_s;
    else
        ret.offset_s = weir_zone_type_offset(zone, i > 0 ? zone->indices[i - 1] : 0);
    if (i > 0 && ret.start_s < weir_zone_time(zone, i - 1))
        ret.start_s = weir_zone_time(zone, i - 1);
    if (i < zone->times_count)
        ret.end_s = weir_zone_time(zone, i);
    return ret;
}
