/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests calendar windows: special days of real zones, random zones against a slow model, and every
 * zone of the system's tzdata against the C library. */

#define _DEFAULT_SOURCE /* tm_gmtoff, setenv, localtime_r, d_type */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/algorithm.h"
#include "policy/zone.h"

#ifndef WEIR_ZONEINFO_DIR
#define WEIR_ZONEINFO_DIR "/usr/share/zoneinfo"
#endif

#define NS INT64_C(1000000000)

static uint8_t file_bytes[65536];

static bool load(weir_zone *ret, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", WEIR_ZONEINFO_DIR, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    size_t len = fread(file_bytes, 1, sizeof file_bytes, f);
    fclose(f);
    if (len < 4 || memcmp(file_bytes, "TZif", 4) != 0)
        return false;
    if (weir_zone_read(ret, name, strlen(name), file_bytes, len) != WEIR_OK)
        fail_msg("rejected %s", name);
    return true;
}

/* Parses "2023-11-05 04:00" or "... 04:00:30" as UTC, in seconds. */
static int64_t utc(const char *text)
{
    unsigned y, mo, d, h, mi, s = 0;
    assert_true(sscanf(text, "%u-%u-%u %u:%u:%u", &y, &mo, &d, &h, &mi, &s) >= 5);
    int32_t day = weir_year_start(y) + weir_month_start(weir_year_leap(y), mo) + (int32_t)d - 1;
    return (int64_t)day * DAY_S + h * 3600 + mi * 60 + s;
}

/* ---- windows calculated by hand -------------------------------------------------------------- */

typedef struct known {
    const char *zone;
    weir_calendar unit;
    const char *from, *to; /* the window, UTC */
    int32_t anchor;
} known;

enum { TUESDAY = 1, SATURDAY = 5, SUNDAY = 6 }; /* anchors of weeks */

/* The anchors of a year: the days of a leap year before each month. */
enum { FEB = 31, MAR = 60, APR = 91, DEC = 335 };

static const known awkward[] = {
    /* The clock shows midnight twice: the day starts at the first. */
    {"America/Havana", WEIR_DAY, "2023-11-05 04:00", "2023-11-06 05:00", 0},
    /* The clock goes from 24:00 back to 23:00: it shows midnight once, an hour later. */
    {"America/Sao_Paulo", WEIR_DAY, "2018-02-17 02:00", "2018-02-18 03:00", 0},
    {"Asia/Gaza", WEIR_DAY, "2008-08-27 21:00", "2008-08-28 22:00", 0},
    /* The clock skips midnight: the day starts at the clock change. */
    {"America/Sao_Paulo", WEIR_DAY, "2018-11-04 03:00", "2018-11-05 02:00", 0},
    {"Asia/Beirut", WEIR_DAY, "2022-03-26 22:00", "2022-03-27 21:00", 0},
    {"Asia/Gaza", WEIR_DAY, "2015-03-27 22:00", "2015-03-28 21:00", 0},
    {"Asia/Tehran", WEIR_DAY, "2022-03-21 20:30", "2022-03-22 19:30", 0},
    /* The zone crossed the date line and skipped a date, here the last one of a year. */
    {"Pacific/Apia", WEIR_DAY, "2011-12-29 10:00", "2011-12-30 10:00", 0},
    {"Pacific/Apia", WEIR_DAY, "2011-12-30 10:00", "2011-12-31 10:00", 0},
    {"Pacific/Apia", WEIR_WEEK, "2011-12-26 10:00", "2012-01-01 10:00", 0},
    {"Pacific/Apia", WEIR_YEAR, "2011-01-01 10:00", "2011-12-31 10:00", 0},
    {"Pacific/Kiritimati", WEIR_DAY, "1994-12-31 10:00", "1995-01-01 10:00", 0},
    {"Pacific/Kiritimati", WEIR_MONTH, "1994-12-01 10:00", "1994-12-31 10:00", 0},
    {"Pacific/Kiritimati", WEIR_YEAR, "1994-12-31 10:00", "1995-12-31 10:00", 0},
    /* The clock goes back across midnight: the new day has begun and continues. */
    {"America/St_Johns", WEIR_DAY, "2010-11-07 02:30", "2010-11-08 03:30", 0},
    {"Antarctica/Casey", WEIR_DAY, "2010-03-04 13:00", "2010-03-05 16:00", 0},
    /* Offsets that are not whole minutes, and a zone of the southern hemisphere. */
    {"Africa/Monrovia", WEIR_DAY, "1971-06-01 00:44:30", "1971-06-02 00:44:30", 0},
    {"Africa/Monrovia", WEIR_DAY, "1972-01-06 00:44:30", "1972-01-07 00:44:30", 0},
    {"Australia/Lord_Howe", WEIR_MONTH, "2023-03-31 13:00", "2023-04-30 13:30", 0},
    /* Months, leap days, weeks, years. */
    {"Europe/Berlin", WEIR_MONTH, "2024-01-31 23:00", "2024-02-29 23:00", 0},
    {"Europe/Berlin", WEIR_MONTH, "2024-02-29 23:00", "2024-03-31 22:00", 0},
    {"Europe/Berlin", WEIR_DAY, "2024-02-28 23:00", "2024-02-29 23:00", 0},
    {"Europe/Berlin", WEIR_WEEK, "2024-03-24 23:00", "2024-03-31 22:00", 0},
    {"Europe/Berlin", WEIR_YEAR, "2023-12-31 23:00", "2024-12-31 23:00", 0},
    {NULL, WEIR_DAY, "2000-02-29 00:00", "2000-03-01 00:00", 0},
    {NULL, WEIR_WEEK, "1999-12-27 00:00", "2000-01-03 00:00", 0},
    {NULL, WEIR_MONTH, "2100-02-01 00:00", "2100-03-01 00:00", 0},
    {NULL, WEIR_YEAR, "2225-01-01 00:00", "2226-01-01 00:00", 0},
    /* Times after the last listed change: the footer applies. */
    {"America/New_York", WEIR_DAY, "2200-03-09 05:00", "2200-03-10 04:00", 0},
    {"America/New_York", WEIR_DAY, "2200-11-02 04:00", "2200-11-03 05:00", 0},
    {"America/New_York", WEIR_MONTH, "2200-07-01 04:00", "2200-08-01 04:00", 0},
    {"Australia/Sydney", WEIR_YEAR, "2199-12-31 13:00", "2200-12-31 13:00", 0},
    {"Australia/Sydney", WEIR_DAY, "2200-04-05 13:00", "2200-04-06 14:00", 0},
    {"America/Havana", WEIR_DAY, "2200-11-02 04:00", "2200-11-03 05:00", 0},
    {"Europe/Dublin", WEIR_MONTH, "2225-03-01 00:00", "2225-03-31 23:00", 0},
    /* Days with an anchor. */
    {NULL, WEIR_DAY, "2024-02-29 06:00", "2024-03-01 06:00", 6 * 60},
    {NULL, WEIR_DAY, "2024-02-28 23:59", "2024-02-29 23:59", 1439},
    {NULL, WEIR_DAY, "2024-02-28 00:01", "2024-02-29 00:01", 1},
    {"Europe/Berlin", WEIR_DAY, "2024-03-30 05:00", "2024-03-31 04:00", 6 * 60},
    {"Europe/Berlin", WEIR_DAY, "2024-10-26 04:00", "2024-10-27 05:00", 6 * 60},
    /* The clock skips 02:30: the day starts at 03:00. It shows 02:30 twice: at the first. */
    {"Europe/Berlin", WEIR_DAY, "2024-03-30 01:30", "2024-03-31 01:00", 150},
    {"Europe/Berlin", WEIR_DAY, "2024-03-31 01:00", "2024-04-01 00:30", 150},
    {"Europe/Berlin", WEIR_DAY, "2024-10-27 00:30", "2024-10-28 01:30", 150},
    /* 02:00 is skipped, and 03:00 is the first time after it. 03:00 exists twice. */
    {"Europe/Berlin", WEIR_DAY, "2024-03-31 01:00", "2024-04-01 00:00", 120},
    {"Europe/Berlin", WEIR_DAY, "2024-03-31 01:00", "2024-04-01 01:00", 180},
    {"Europe/Berlin", WEIR_DAY, "2024-10-27 02:00", "2024-10-28 02:00", 180},
    /* The clock goes from 24:00 back to 23:00: 23:30 of February 17th came an hour earlier. */
    {"America/Sao_Paulo", WEIR_DAY, "2018-02-18 01:30", "2018-02-19 02:30", 1410},
    {"America/Sao_Paulo", WEIR_DAY, "2018-02-17 01:30", "2018-02-18 01:30", 1410},
    /* December 30th was skipped: its 06:00 is the clock change, and 06:00 of the 31st follows. */
    {"Pacific/Apia", WEIR_DAY, "2011-12-29 16:00", "2011-12-30 10:00", 6 * 60},
    {"Pacific/Apia", WEIR_DAY, "2011-12-30 10:00", "2011-12-30 16:00", 6 * 60},
    {"Pacific/Apia", WEIR_DAY, "2011-12-30 16:00", "2011-12-31 16:00", 6 * 60},
    /* Weeks with an anchor. */
    {NULL, WEIR_WEEK, "2023-12-31 00:00", "2024-01-07 00:00", SUNDAY},
    {NULL, WEIR_WEEK, "2024-01-02 00:00", "2024-01-09 00:00", TUESDAY},
    {"America/New_York", WEIR_WEEK, "2025-03-09 05:00", "2025-03-16 04:00", SUNDAY},
    {"America/New_York", WEIR_WEEK, "2025-11-02 04:00", "2025-11-09 05:00", SUNDAY},
    {"Pacific/Apia", WEIR_WEEK, "2011-12-24 10:00", "2011-12-30 10:00", SATURDAY},
    {"Pacific/Apia", WEIR_WEEK, "2011-12-30 10:00", "2012-01-06 10:00", SATURDAY},
    /* Months with an anchor. A month that lacks the day uses its last one. */
    {NULL, WEIR_MONTH, "2024-01-17 00:00", "2024-02-17 00:00", 16},
    {NULL, WEIR_MONTH, "2023-12-17 00:00", "2024-01-17 00:00", 16},
    {NULL, WEIR_MONTH, "2024-02-02 00:00", "2024-03-02 00:00", 1},
    {NULL, WEIR_MONTH, "2023-01-31 00:00", "2023-02-28 00:00", 30},
    {NULL, WEIR_MONTH, "2023-02-28 00:00", "2023-03-31 00:00", 30},
    {NULL, WEIR_MONTH, "2024-02-29 00:00", "2024-03-31 00:00", 30},
    {NULL, WEIR_MONTH, "2024-03-31 00:00", "2024-04-30 00:00", 30},
    {NULL, WEIR_MONTH, "2024-04-30 00:00", "2024-05-31 00:00", 30},
    {NULL, WEIR_MONTH, "2023-01-30 00:00", "2023-02-28 00:00", 29},
    {NULL, WEIR_MONTH, "2024-02-29 00:00", "2024-03-30 00:00", 29},
    {NULL, WEIR_MONTH, "2024-04-30 00:00", "2024-05-30 00:00", 29},
    {NULL, WEIR_MONTH, "2023-02-28 00:00", "2023-03-29 00:00", 28},
    {NULL, WEIR_MONTH, "2024-02-29 00:00", "2024-03-29 00:00", 28},
    {NULL, WEIR_MONTH, "2023-02-28 00:00", "2023-03-28 00:00", 27},
    {NULL, WEIR_MONTH, "2100-02-28 00:00", "2100-03-29 00:00", 28},
    {"Europe/Berlin", WEIR_MONTH, "2024-03-16 23:00", "2024-04-16 22:00", 16},
    {"Pacific/Apia", WEIR_MONTH, "2011-11-30 10:00", "2011-12-30 10:00", 29},
    {"Pacific/Apia", WEIR_MONTH, "2011-12-30 10:00", "2012-01-29 10:00", 29},
    {"Pacific/Apia", WEIR_MONTH, "2011-12-30 10:00", "2012-01-30 10:00", 30},
    /* Years with an anchor. February 29th is the 28th in other years. */
    {NULL, WEIR_YEAR, "2023-04-01 00:00", "2024-04-01 00:00", APR},
    {NULL, WEIR_YEAR, "2024-04-01 00:00", "2025-04-01 00:00", APR},
    {NULL, WEIR_YEAR, "2023-02-28 00:00", "2024-02-28 00:00", FEB + 27},
    {NULL, WEIR_YEAR, "2023-02-28 00:00", "2024-02-29 00:00", FEB + 28},
    {NULL, WEIR_YEAR, "2024-02-29 00:00", "2025-02-28 00:00", FEB + 28},
    {NULL, WEIR_YEAR, "2099-02-28 00:00", "2100-02-28 00:00", FEB + 28},
    {NULL, WEIR_YEAR, "2023-03-01 00:00", "2024-03-01 00:00", MAR},
    {NULL, WEIR_YEAR, "2024-03-01 00:00", "2025-03-01 00:00", MAR},
    {NULL, WEIR_YEAR, "2024-12-31 00:00", "2025-12-31 00:00", DEC + 30},
    {NULL, WEIR_YEAR, "2025-01-02 00:00", "2026-01-02 00:00", 1},
    {"Australia/Sydney", WEIR_YEAR, "2023-06-30 14:00", "2024-06-30 14:00", 182},
};

static void windows_by_hand(void **state)
{
    weir_zone z;
    (void)state;
    if (!load(&z, "UTC")) {
        print_message("skipped: no tzdata\n");
        skip();
    }
    for (size_t i = 0; i < sizeof awkward / sizeof awkward[0]; i++) {
        const known *k = &awkward[i];
        int64_t from_ns = utc(k->from) * NS, to_ns = utc(k->to) * NS;
        const int64_t inside[] = {from_ns, from_ns + 1, from_ns + 5400 * NS,
                                  from_ns + (to_ns - from_ns) / 2, to_ns - 1};
        if (k->zone)
            assert_true(load(&z, k->zone));
        const weir_zone *zone = k->zone ? &z : NULL;
        for (size_t j = 0; j < sizeof inside / sizeof inside[0]; j++) {
            weir_span w = weir_calendar_window(zone, k->unit, k->anchor, inside[j]);
            if (w.start_ns != from_ns || w.end_ns != to_ns)
                fail_msg("%s %s anchor %d: from %+lld s, to %+lld s", k->zone, k->from,
                         (int)k->anchor, (long long)(w.start_ns - from_ns) / NS,
                         (long long)(w.end_ns - to_ns) / NS);
        }
        assert_int_equal(weir_calendar_window(zone, k->unit, k->anchor, from_ns - 1).end_ns,
                         from_ns);
        if (to_ns <= WEIR_NOW_NS_MAX)
            assert_int_equal(weir_calendar_window(zone, k->unit, k->anchor, to_ns).start_ns, to_ns);
    }
}

static void assert_anchored(const weir_zone *z, weir_calendar unit, int32_t anchor, int64_t t_ns,
                            int64_t start_ns, int64_t end_ns)
{
    weir_span w = weir_calendar_window(z, unit, anchor, t_ns);
    assert_int_equal(w.start_ns, start_ns);
    assert_int_equal(w.end_ns, end_ns);
}

static void assert_window(const weir_zone *z, weir_calendar unit, int64_t t_ns, int64_t start_ns,
                          int64_t end_ns)
{
    assert_anchored(z, unit, 0, t_ns, start_ns, end_ns);
}

static void epoch_and_bounds(void **state)
{
    weir_zone z;
    (void)state;
    int64_t last_ns = utc("2226-01-01 00:00") * NS;
    assert_window(NULL, WEIR_DAY, 0, 0, DAY_S * NS);
    assert_window(NULL, WEIR_WEEK, 0, 0, 4 * DAY_S * NS); /* a Thursday */
    assert_window(NULL, WEIR_MONTH, 0, 0, 31 * DAY_S * NS);
    assert_window(NULL, WEIR_YEAR, 0, 0, 365 * DAY_S * NS);
    assert_window(NULL, WEIR_DAY, -1, 0, DAY_S * NS);
    assert_window(NULL, WEIR_DAY, INT64_MIN, 0, DAY_S * NS);
    assert_window(NULL, WEIR_ALIGNED, 0, 0, DAY_S * NS);
    assert_window(NULL, WEIR_YEAR, WEIR_NOW_NS_MAX, last_ns - 365 * DAY_S * NS, last_ns);
    assert_window(NULL, WEIR_YEAR, INT64_MAX, last_ns - 365 * DAY_S * NS, last_ns);
    assert_anchored(NULL, WEIR_DAY, 6 * 60, 0, 0, 6 * 3600 * NS);
    assert_anchored(NULL, WEIR_WEEK, SUNDAY, 0, 0, 3 * DAY_S * NS);
    assert_anchored(NULL, WEIR_MONTH, 16, 0, 0, 16 * DAY_S * NS);
    assert_anchored(NULL, WEIR_YEAR, APR, 0, 0, 90 * DAY_S * NS);
    assert_anchored(NULL, WEIR_YEAR, DEC + 30, WEIR_NOW_NS_MAX, last_ns - 366 * DAY_S * NS,
                    last_ns - DAY_S * NS);
    assert_anchored(NULL, WEIR_YEAR, 0, WEIR_NOW_NS_MAX, last_ns - 365 * DAY_S * NS, last_ns);
    assert_int_equal(weir_calendar_window(NULL, WEIR_YEAR, 270, WEIR_NOW_NS_MAX).end_ns,
                     utc("2226-09-27 00:00") * NS);
    if (!load(&z, "Etc/GMT+12")) {
        print_message("skipped: no tzdata\n");
        skip();
    }
    int64_t noon_ns = 12 * 3600 * NS; /* 1969 ends at this time UTC */
    for (int unit = WEIR_DAY; unit <= WEIR_YEAR; unit++)
        if (unit != WEIR_WEEK)
            assert_window(&z, (weir_calendar)unit, 0, 0, noon_ns);
    assert_window(&z, WEIR_WEEK, 0, 0, 4 * DAY_S * NS + noon_ns);
    assert_window(&z, WEIR_DAY, noon_ns, noon_ns, noon_ns + DAY_S * NS);
    assert_true(load(&z, "Etc/GMT-14"));
    assert_window(&z, WEIR_DAY, 0, 0, 10 * 3600 * NS);
    assert_window(&z, WEIR_YEAR, 0, 0, (364 * DAY_S + 10 * 3600) * NS);
}

/* ---- random zones against a model ------------------------------------------------------------ */

typedef struct model { /* offset_s[i] from times[i - 1] to times[i] */
    int count;
    int64_t times[40];
    int32_t offset_s[41];
} model;

static uint64_t seed;

static int64_t random_in(int64_t min, int64_t max)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return min + (int64_t)((seed >> 20) % (uint64_t)(max - min + 1));
}

/* The definition: the first instant whose local time is `time_s` after midnight or later. */
static int64_t model_start(const model *m, int32_t day, int32_t time_s)
{
    int64_t local_s = (int64_t)day * DAY_S + time_s;
    for (int i = 0;; i++) {
        int64_t t_s = local_s - m->offset_s[i];
        if (i > 0 && t_s < m->times[i - 1])
            t_s = m->times[i - 1];
        if (i == m->count || t_s < m->times[i])
            return t_s;
    }
}

static bool unit_starts(weir_calendar unit, int32_t anchor, int32_t day)
{
    time_t t = (time_t)day * DAY_S, tomorrow_t = t + DAY_S;
    struct tm tm, tomorrow;
    gmtime_r(&t, &tm);
    gmtime_r(&tomorrow_t, &tomorrow);
    bool leap = weir_year_leap((uint32_t)tm.tm_year + 1900), last = tomorrow.tm_mday == 1;
    int32_t in_year = tm.tm_yday + (!leap && tm.tm_mon >= 2); /* as in a leap year */
    switch (unit) {
    case WEIR_WEEK:
        return tm.tm_wday == (anchor + 1) % 7;
    case WEIR_MONTH:
        return tm.tm_mday == anchor + 1 || (last && tm.tm_mday < anchor + 1);
    case WEIR_YEAR:
        return in_year == anchor || (!leap && in_year == FEB + 27 && anchor == FEB + 28);
    default:
        return true;
    }
}

static weir_span model_window(const model *m, weir_calendar unit, int32_t anchor, int64_t t_s)
{
    int32_t first = (int32_t)(t_s / DAY_S) + 3, next, time_s = unit == WEIR_DAY ? anchor * 60 : 0;
    while (model_start(m, first, time_s) > t_s)
        first--;
    next = first + 1;
    while (!unit_starts(unit, anchor, first))
        first--;
    while (!unit_starts(unit, anchor, next))
        next++;
    int64_t start_s = model_start(m, first, time_s);
    return (weir_span){(start_s < 0 ? 0 : start_s) * NS, model_start(m, next, time_s) * NS};
}

/* Encodes the model as a TZif file of version 1, with one type for each piece. */
static void model_zone(const model *m, weir_zone *ret)
{
    uint8_t *p = file_bytes;
    const uint32_t fields[] = {0, 0, 0, (uint32_t)m->count, (uint32_t)m->count + 1, 1};
    memset(p, 0, 44);
    memcpy(p, "TZif", 4);
    p += 20;
    for (int i = 0; i < 6; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            *p++ = (uint8_t)(fields[i] >> shift);
    for (int i = 0; i < m->count; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            *p++ = (uint8_t)((uint32_t)m->times[i] >> shift);
    for (int i = 0; i < m->count; i++)
        *p++ = (uint8_t)(i + 1);
    for (int i = 0; i <= m->count; i++, *p++ = 0, *p++ = 0)
        for (int shift = 24; shift >= 0; shift -= 8)
            *p++ = (uint8_t)((uint32_t)m->offset_s[i] >> shift);
    *p++ = 0;
    assert_int_equal(weir_zone_read(ret, "M", 1, file_bytes, (size_t)(p - file_bytes)), WEIR_OK);
}

/* Makes clock changes that are seconds to days apart. Their offsets are random multiples of a
 * random step, which is 1 s to a day. */
static void random_model(model *m, int64_t from_s)
{
    static const int32_t steps[] = {1, 60, 1800, 3600, 86399};
    int32_t step = steps[random_in(0, 4)];
    int64_t gap_s = (int64_t)1 << random_in(3, 20);
    m->count = (int)random_in(0, 40);
    for (int i = 0; i <= m->count; i++) {
        m->offset_s[i] = (int32_t)random_in(OFFSET_S_MIN / step, OFFSET_S_MAX / step) * step;
        from_s += step * random_in(1, gap_s / step + 1);
        if (i < m->count)
            m->times[i] = from_s;
    }
}

static void random_zones(void **state)
{
    (void)state;
    for (seed = 1; seed < (uint64_t)3000 << 32; seed = ((seed >> 32) + 1) << 32) {
        uint64_t run = seed;
        int64_t from_s = random_in(0, 3) == 0 ? -5 * DAY_S : random_in(0, 1 << 30) / 3600 * 3600;
        model m;
        weir_zone z;
        random_model(&m, from_s);
        model_zone(&m, &z);
        for (int i = 0; i < 60; i++) {
            int64_t near_s = m.count > 0 ? m.times[random_in(0, m.count - 1)] : from_s;
            int64_t t_s = near_s + random_in(-1, 1) * random_in(0, 1 << random_in(0, 24));
            t_s = t_s < 0 ? -t_s : t_s;
            weir_calendar unit = (weir_calendar)random_in(WEIR_DAY, WEIR_YEAR);
            int32_t anchor = (int32_t)random_in(0, weir_anchor_max(unit)) * (i % 4 != 0);
            weir_span want = model_window(&m, unit, anchor, t_s);
            weir_span got = weir_calendar_window(&z, unit, anchor, t_s * NS + random_in(0, NS - 1));
            if (got.start_ns != want.start_ns || got.end_ns != want.end_ns)
                fail_msg("seed %llu, unit %d, anchor %d, t %lld", (unsigned long long)run,
                         (int)unit, (int)anchor, (long long)t_s);
        }
        seed = run;
    }
}

/* ---- every zone against the C library -------------------------------------------------------- */

/* Returns the local date of the zone TZ in days since 1970-01-01, and its offset. */
static int64_t libc_day(int64_t t_s, int64_t *ret_offset_s)
{
    struct tm tm;
    time_t t = (time_t)t_s;
    assert_non_null(localtime_r(&t, &tm));
    *ret_offset_s = tm.tm_gmtoff;
    int64_t local_s = t_s + tm.tm_gmtoff;
    return (local_s - (((local_s % DAY_S) + DAY_S) % DAY_S)) / DAY_S;
}

/* Checks that no instant in the 26 hours before start_s has the date `day`. Samples densely near
 * it. */
static void check_first(const char *name, int64_t start_s, int64_t day)
{
    int64_t offset_s;
    for (int64_t back_s = 1; back_s < 26 * 3600; back_s += back_s < 3 * 3600 ? 60 : 900)
        if (libc_day(start_s - back_s, &offset_s) >= day)
            fail_msg("%s: %lld could start %lld s earlier", name, (long long)start_s,
                     (long long)back_s);
}

/* Compares each day between two instants with the C library, and the weeks, months and years with
 * the days. */
static void check_zone(const weir_zone *z, const char *name, int64_t t_s, int64_t end_s)
{
    weir_span span[4]; /* day, week, month, year */
    int64_t offset_s, before_s, seen_s = 0;
    for (int u = 0; u < 4; u++)
        span[u] = weir_calendar_window(z, (weir_calendar)(WEIR_DAY + u), 0, t_s * NS);
    while (span[0].end_ns < end_s * NS) {
        int64_t start_s = span[0].end_ns / NS;
        int64_t day = libc_day(start_s, &offset_s);
        if (libc_day(start_s - 1, &before_s) >= day)
            fail_msg("%s: %lld is not the start of a day", name, (long long)start_s);
        if (offset_s != seen_s || before_s != seen_s)
            check_first(name, start_s, day);
        seen_s = offset_s;
        for (int u = 0; u < 4; u++) {
            weir_calendar unit = (weir_calendar)(WEIR_DAY + u);
            weir_span w = weir_calendar_window(z, unit, 0, start_s * NS);
            if (unit_starts(unit, 0, (int32_t)day)) {
                assert_int_equal(w.start_ns, start_s * NS);
                assert_int_equal(w.start_ns, span[u].end_ns);
            } else {
                assert_int_equal(w.start_ns, span[u].start_ns);
                assert_int_equal(w.end_ns, span[u].end_ns);
            }
            span[u] = w;
        }
    }
}

static int check_dir(const char *dir)
{
    char path[512];
    int zones = 0;
    snprintf(path, sizeof path, "%s/%s", WEIR_ZONEINFO_DIR, dir);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char name[300];
        weir_zone z;
        snprintf(name, sizeof name, "%s%s%s", dir, *dir ? "/" : "", e->d_name);
        if (e->d_name[0] == '.' || !strcmp(name, "right") || !strcmp(name, "posix") ||
            e->d_type == DT_LNK) /* a link may be a zone too */
            continue;
        zones += check_dir(name); /* 0 if it is a file */
        if (load(&z, name)) {
            snprintf(path, sizeof path, ":%s/%s", WEIR_ZONEINFO_DIR, name);
            setenv("TZ", path, 1);
            tzset();
            check_zone(&z, name, utc("2020-01-01 00:00"), utc("2038-01-03 00:00"));
            check_zone(&z, name, utc("2199-12-25 00:00"), utc("2201-01-10 00:00"));
            zones++;
        }
    }
    if (d)
        closedir(d);
    return zones;
}

static void libc_agrees(void **state)
{
    (void)state;
    int zones = check_dir("");
    if (zones == 0) {
        print_message("skipped: no tzdata\n");
        skip();
    }
    print_message("%d zones\n", zones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_by_hand),
        cmocka_unit_test(epoch_and_bounds),
        cmocka_unit_test(random_zones),
        cmocka_unit_test(libc_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
