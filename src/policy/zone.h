/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_POLICY_ZONE_H
#define WEIR_POLICY_ZONE_H
/* Time zones as pieces of constant offset between clock changes, and the Gregorian calendar as day
 * numbers. tzif.c validates with these functions, and calendar.c computes windows with them. Clocks
 * change on whole seconds, so time is in seconds since the epoch here. */

#include <weir/weir_zone.h>

#define DAY_S 86400

/* RFC 9636, 3.2: seconds east of UTC, -24:59:59 .. 25:59:59. */
#define OFFSET_S_MIN (-89999)
#define OFFSET_S_MAX 93599

/* The years 2 to 9998: the range in which a yearly rule can be evaluated. */
#define RULE_S_MIN (-62104060800)
#define RULE_S_MAX 253370764799

/* A piece of time, start_s <= t < end_s, with one offset. Adjacent pieces may have equal offsets.
 */
typedef struct weir_zone_piece {
    int64_t start_s; /* INT64_MIN: unbounded */
    int64_t end_s;   /* INT64_MAX: unbounded */
    int32_t offset_s;
} weir_zone_piece;

/* The parts of a TZif data block. */
#define WEIR_ZONE_TYPE_SIZE 6

static inline uint32_t weir_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Returns the time of the listed change i < times_count. */
static inline int64_t weir_zone_time(const weir_zone *zone, uint32_t i)
{
    const uint8_t *p = zone->times + (size_t)i * zone->time_size;
    if (zone->time_size == 4)
        return (int32_t)weir_be32(p);
    return (int64_t)((uint64_t)weir_be32(p) << 32 | weir_be32(p + 4));
}

static inline int32_t weir_zone_type_offset(const weir_zone *zone, uint32_t type)
{
    return (int32_t)weir_be32(zone->types + (size_t)type * WEIR_ZONE_TYPE_SIZE);
}

/* Returns the time of tail->change[which] in a year 1..9999. Threads: pure. */
int64_t weir_zone_change(const weir_zone_tail *tail, int which, uint32_t year);

/* Returns the piece that contains t_s, RULE_S_MIN..RULE_S_MAX, by the yearly rule alone.
 * weir_zone_read() ensures that the two changes of the rule alternate. Threads: pure. */
weir_zone_piece weir_zone_yearly(const weir_zone_tail *tail, int64_t t_s);

/* Returns the piece that contains t_s, RULE_S_MIN..RULE_S_MAX. zone NULL is UTC. Threads: pure. */
weir_zone_piece weir_zone_piece_at(const weir_zone *zone, int64_t t_s);

static inline bool weir_year_leap(uint32_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Returns the days from 1970-01-01 to January 1st of a year 1..10000. */
static inline int32_t weir_year_start(uint32_t year)
{
    uint32_t y = year - 1;
    return (int32_t)(y * 365 + y / 4 - y / 100 + y / 400) - 719162;
}

/* Returns the days in a month 1..12. */
static inline int32_t weir_month_days(bool leap, uint32_t month)
{
    return month == 2 ? 28 + leap : 30 + (int32_t)((month + month / 8) & 1);
}

/* Returns the days in a year before the 1st of a month 1..12. */
static inline int32_t weir_month_start(bool leap, uint32_t month)
{
    int32_t thirties = (int32_t)(30 * (month - 1) + (month + (month > 8)) / 2);
    return month < 3 ? thirties
                     : thirties - 2 + leap; /* corrects for February, counted as 30 days */
}

#endif
