/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The text of an anchor, where a calendar window begins: 06:00, sunday, 17 or 04-01. */

#include "core/algorithm.h"
#include "policy/scan.h"
#include "policy/zone.h"
#include "port/assert.h"

static const char *const weekdays[] = {"monday", "tuesday",  "wednesday", "thursday",
                                       "friday", "saturday", "sunday"};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static uint32_t two_digits(const char *c)
{
    return (uint32_t)(c[0] - '0') * 10 + (uint32_t)(c[1] - '0');
}

/* Consumes two numbers of two digits each, as in "06:30". Returns whether they were next. */
static bool scan_pair(weir_scan *s, char between, uint32_t *ret_first, uint32_t *ret_second)
{
    const char *c = s->text + s->at;
    if (s->len - s->at < 5 || !is_digit(c[0]) || !is_digit(c[1]) || c[2] != between ||
        !is_digit(c[3]) || !is_digit(c[4]))
        return false;
    *ret_first = two_digits(c);
    *ret_second = two_digits(c + 3);
    s->at += 5;
    return true;
}

static weir_status scan_time(weir_scan *s, int32_t *ret)
{
    size_t from = s->at;
    uint32_t hour, minute;
    if (!scan_pair(s, ':', &hour, &minute) || hour > 23 || minute > 59)
        return weir_scan_unexpected(s, from, "a time of day, from 00:00 to 23:59");
    *ret = (int32_t)(hour * 60 + minute);
    return WEIR_OK;
}

static weir_status scan_weekday(weir_scan *s, int32_t *ret)
{
    int32_t i = 0;
    while (i < 7 && !weir_scan_keyword(s, weekdays[i]))
        i++;
    if (i == 7)
        return weir_scan_unexpected(s, s->at, "a day of the week, from monday to sunday");
    *ret = i;
    return WEIR_OK;
}

static weir_status scan_month_day(weir_scan *s, int32_t *ret)
{
    int64_t day = 0;
    weir_status st = weir_scan_number(s, "a day of the month", 1, 31, &day);
    if (st == WEIR_OK)
        *ret = (int32_t)day - 1;
    return st;
}

static void write_pair(weir_writer *t, uint32_t first, char between, uint32_t second)
{
    weir_write_str(t, first < 10 ? "0" : "");
    weir_write_u64(t, first);
    weir_write_char(t, between);
    weir_write_str(t, second < 10 ? "0" : "");
    weir_write_u64(t, second);
}

/* Reports a day that its month does not have, such as 04-31. */
static weir_status refuse_day(weir_scan *s, size_t from, uint32_t month)
{
    char expected[40];
    weir_writer t = weir_writer_init(expected, sizeof expected);
    weir_write_str(&t, "a day from ");
    write_pair(&t, month, '-', 1);
    weir_write_str(&t, " to ");
    write_pair(&t, month, '-', (uint32_t)weir_month_days(true, month));
    return weir_scan_unexpected(s, from, expected);
}

static weir_status scan_date(weir_scan *s, int32_t *ret)
{
    size_t from = s->at;
    uint32_t month, day;
    if (!scan_pair(s, '-', &month, &day) || month < 1 || month > 12)
        return weir_scan_unexpected(s, from, "a month and a day, from 01-01 to 12-31");
    if (day < 1 || (int32_t)day > weir_month_days(true, month))
        return refuse_day(s, from, month);
    *ret = weir_month_start(true, month) + (int32_t)day - 1;
    return WEIR_OK;
}

weir_status weir_anchor_scan(weir_scan *s, weir_calendar unit, int32_t *ret)
{
    return unit == WEIR_DAY     ? scan_time(s, ret)
           : unit == WEIR_WEEK  ? scan_weekday(s, ret)
           : unit == WEIR_MONTH ? scan_month_day(s, ret)
                                : scan_date(s, ret);
}

void weir_anchor_write(weir_writer *t, weir_calendar unit, int32_t anchor)
{
    uint32_t n = (uint32_t)anchor, month = 12;
    WEIR_ASSERT(0 <= anchor && anchor <= weir_anchor_max(unit));
    if (unit == WEIR_DAY) {
        write_pair(t, n / 60, ':', n % 60);
    } else if (unit == WEIR_WEEK) {
        weir_write_str(t, weekdays[n]);
    } else if (unit == WEIR_MONTH) {
        weir_write_u64(t, n + 1);
    } else {
        while (weir_month_start(true, month) > anchor)
            month--;
        write_pair(t, month, '-', n + 1 - (uint32_t)weir_month_start(true, month));
    }
}
