/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests the anchors of calendar windows in policy texts: their canonical form, their errors, and
 * what the report says of them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/weir_zone.h>

static const weir_zone *any_zone(void *ctx, const char *name, size_t len)
{
    weir_zone *zone = ctx;
    *zone = (weir_zone){0};
    memcpy(zone->name, name, len);
    return zone;
}

static weir_status parse(weir_policy *ret, const char *text, weir_policy_error *ret_error)
{
    static weir_zone zone;
    const weir_zones zones = {.find = any_zone, .ctx = &zone};
    return weir_policy_parse(ret, text, strlen(text), &zones, ret_error);
}

static const struct {
    const char *text, *canonical; /* after "fixed-window 5/" */
    int32_t anchor;
} good[] = {
    {"day", "day", 0},
    {"day from 00:00", "day", 0},
    {"day from 00:01", "day from 00:01", 1},
    {"day from 06:00", "day from 06:00", 360},
    {"day from 09:59", "day from 09:59", 599},
    {"day from 10:09", "day from 10:09", 609},
    {"day from 23:59", "day from 23:59", 1439},
    {"week from monday", "week", 0},
    {"week from tuesday", "week from tuesday", 1},
    {"week from wednesday", "week from wednesday", 2},
    {"week from thursday", "week from thursday", 3},
    {"week from friday", "week from friday", 4},
    {"week from saturday", "week from saturday", 5},
    {"week from sunday&gcra 1/s", "week from sunday & gcra 1/s burst 1", 6},
    {"month from 1", "month", 0},
    {"month from 02", "month from 2", 1},
    {"month from 31", "month from 31", 30},
    {"year from 01-01", "year", 0},
    {"year from 01-02", "year from 01-02", 1},
    {"year from 01-31", "year from 01-31", 30},
    {"year from 02-01", "year from 02-01", 31},
    {"year from 02-29", "year from 02-29", 59},
    {"year from 03-01", "year from 03-01", 60},
    {"year from 10-09", "year from 10-09", 282},
    {"year from 11-30", "year from 11-30", 334},
    {"year from 12-01", "year from 12-01", 335},
    {"year from 12-31", "year from 12-31", 365},
    {"month from 17 tz Asia/Tokyo count-denied", "month from 17 tz Asia/Tokyo count-denied", 16},
    {"month count-denied tz Asia/Tokyo from 17", "month from 17 tz Asia/Tokyo count-denied", 16},
    {"month tz Asia/Tokyo from 17 count-denied", "month from 17 tz Asia/Tokyo count-denied", 16},
};

static void check_canonical(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[120], printed[120], again[120];
        weir_policy p;
        snprintf(text, sizeof text, "fixed-window 5/%s", good[i].text);
        assert_int_equal(parse(&p, text, NULL), WEIR_OK);
        assert_int_equal(p.layer[0].anchor, good[i].anchor);
        weir_policy_print(&p, printed, sizeof printed);
        snprintf(text, sizeof text, "fixed-window 5/%s", good[i].canonical);
        assert_string_equal(printed, text);
        assert_int_equal(parse(&p, printed, NULL), WEIR_OK);
        weir_policy_print(&p, again, sizeof again);
        assert_string_equal(again, printed);
    }
}

/* All days of a leap year, and no other pairs of numbers, are dates. */
static void check_dates(void **unused)
{
    (void)unused;
    int32_t next = 0;
    for (int month = 0; month <= 99; month++) {
        for (int day = 0; day <= 99; day++) {
            char text[40], printed[40];
            weir_policy p;
            snprintf(text, sizeof text, "fixed-window 5/year from %02d-%02d", month, day);
            static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
            bool is = month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1];
            assert_int_equal(parse(&p, text, NULL), is ? WEIR_OK : WEIR_E_SYNTAX);
            if (!is)
                continue;
            assert_int_equal(p.layer[0].anchor, next++);
            weir_policy_print(&p, printed, sizeof printed);
            assert_string_equal(printed, next == 1 ? "fixed-window 5/year" : text);
        }
    }
    assert_int_equal(next, 366);
}

#define TIME      "expected a time of day, from 00:00 to 23:59"
#define WEEKDAY   "expected a day of the week, from monday to sunday"
#define MONTH_DAY "expected a day of the month, from 1 to 31"
#define DATE      "expected a month and a day, from 01-01 to 12-31"
#define LENGTH                                                                                     \
    "found 'from', expected from-first, or day, week, month or year before from, as in 100/month " \
    "from 17"

static const struct {
    const char *text;
    weir_status status;
    uint32_t column;
    const char *error;
} bad[] = {
    {"fixed-window 5/day from 00:00 from 00:00", WEIR_E_SYNTAX, 31,
     "found 'from', expected from START, tz ZONE or count-denied, each once, '&' or the end"},
    {"fixed-window 5/24h from 06:00", WEIR_E_SYNTAX, 20, LENGTH},
    {"fixed-window 5/24h from-first from 06:00", WEIR_E_SYNTAX, 31, LENGTH},
    {"fixed-window 5/month from-first", WEIR_E_SYNTAX, 22,
     "found 'from-first', expected a length such as 24h with from-first"},
    {"sliding-log 5/h from 06:00", WEIR_E_SYNTAX, 17,
     "found 'from', expected count-denied, '&' or the end"},
    {"fixed-window 5/day from 24:00", WEIR_E_SYNTAX, 25, "found '24:00', " TIME},
    {"fixed-window 5/day from 23:60", WEIR_E_SYNTAX, 25, "found '23:60', " TIME},
    {"fixed-window 5/day from 6:00", WEIR_E_SYNTAX, 25, "found '6:00', " TIME},
    {"fixed-window 5/day from 06-00", WEIR_E_SYNTAX, 25, "found '06-00', " TIME},
    {"fixed-window 5/day from 06:0", WEIR_E_SYNTAX, 25, "found '06:0', " TIME},
    {"fixed-window 5/day from a0:00", WEIR_E_SYNTAX, 25, "found 'a0:00', " TIME},
    {"fixed-window 5/day from 0a:00", WEIR_E_SYNTAX, 25, "found '0a:00', " TIME},
    {"fixed-window 5/day from 06:a0", WEIR_E_SYNTAX, 25, "found '06:a0', " TIME},
    {"fixed-window 5/day from 06:0a", WEIR_E_SYNTAX, 25, "found '06:0a', " TIME},
    {"fixed-window 5/day from 06:0/", WEIR_E_SYNTAX, 25, "found '06:0/', " TIME},
    {"fixed-window 5/day from 06:0:", WEIR_E_SYNTAX, 25, "found '06:0:', " TIME},
    {"fixed-window 5/day from 6am", WEIR_E_SYNTAX, 25, "found '6am', " TIME},
    {"fixed-window 5/day from sunday", WEIR_E_SYNTAX, 25, "found 'sunday', " TIME},
    {"fixed-window 5/day from", WEIR_E_SYNTAX, 24, "found the end, " TIME},
    {"fixed-window 5/day from 06:000", WEIR_E_SYNTAX, 30,
     "found '0', expected a space, '&' or the end"},
    {"fixed-window 5/week from 3", WEIR_E_SYNTAX, 26, "found '3', " WEEKDAY},
    {"fixed-window 5/week from Sunday", WEIR_E_SYNTAX, 26, "found 'Sunday', " WEEKDAY},
    {"fixed-window 5/week from sun", WEIR_E_SYNTAX, 26, "found 'sun', " WEEKDAY},
    {"fixed-window 5/week from mondays", WEIR_E_SYNTAX, 26, "found 'mondays', " WEEKDAY},
    {"fixed-window 5/month from 0", WEIR_E_RANGE, 27, "found '0', " MONTH_DAY},
    {"fixed-window 5/month from 32", WEIR_E_RANGE, 27, "found '32', " MONTH_DAY},
    {"fixed-window 5/month from sunday", WEIR_E_SYNTAX, 27, "found 'sunday', " MONTH_DAY},
    {"fixed-window 5/month from 17th", WEIR_E_SYNTAX, 29,
     "found 'th', expected a space, '&' or the end"},
    {"fixed-window 5/year from 13-01", WEIR_E_SYNTAX, 26, "found '13-01', " DATE},
    {"fixed-window 5/year from 00-01", WEIR_E_SYNTAX, 26, "found '00-01', " DATE},
    {"fixed-window 5/year from 04:01", WEIR_E_SYNTAX, 26, "found '04:01', " DATE},
    {"fixed-window 5/year from 17", WEIR_E_SYNTAX, 26, "found '17', " DATE},
    {"fixed-window 5/year from 04-31", WEIR_E_SYNTAX, 26,
     "found '04-31', expected a day from 04-01 to 04-30"},
    {"fixed-window 5/year from 02-30", WEIR_E_SYNTAX, 26,
     "found '02-30', expected a day from 02-01 to 02-29"},
    {"fixed-window 5/year from 12-00", WEIR_E_SYNTAX, 26,
     "found '12-00', expected a day from 12-01 to 12-31"},
};

static void check_errors(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        weir_policy p = {.layers = 77};
        weir_policy_error e;
        assert_int_equal(parse(&p, bad[i].text, &e), bad[i].status);
        assert_string_equal(e.text, bad[i].error);
        assert_int_equal(e.column, bad[i].column);
        assert_int_equal(p.layers, 77);
    }
}

/* The report says where windows begin, also in a month that lacks the day. */
static void check_report(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"month", "month of UTC\n"},
        {"month from 2", "month of UTC, beginning on day 2\n"},
        {"month from 28", "month of UTC, beginning on day 28\n"},
        {"month from 29", "month of UTC, beginning on day 29 or the month's last day\n"},
        {"month from 31", "month of UTC, beginning on day 31 or the month's last day\n"},
        {"year from 02-28", "year of UTC, beginning on 02-28\n"},
        {"year from 02-29", "year of UTC, beginning on 02-29 or the month's last day\n"},
        {"year from 03-01", "year of UTC, beginning on 03-01\n"},
        {"year from 01-29", "year of UTC, beginning on 01-29\n"},
        {"day from 00:28", "day of UTC, beginning at 00:28\n"},
        {"day from 00:59", "day of UTC, beginning at 00:59\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[80], want[240], report[WEIR_POLICY_REPORT_MAX];
        weir_policy p;
        snprintf(text, sizeof text, "fixed-window 7/%s", rows[i][0]);
        snprintf(want, sizeof want, "%s\n  sustained   7 every calendar %s  at once     7\n", text,
                 rows[i][1]);
        assert_int_equal(parse(&p, text, NULL), WEIR_OK);
        weir_policy_report(&p, report, sizeof report);
        assert_memory_equal(report, want, strlen(want));
    }
    char report[WEIR_POLICY_REPORT_MAX];
    weir_policy p;
    assert_int_equal(parse(&p, "fixed-window 7/week tz Europe/Berlin from sunday", NULL), WEIR_OK);
    weir_policy_report(&p, report, sizeof report);
    assert_string_equal(
        report,
        "fixed-window 7/week from sunday tz Europe/Berlin\n"
        "  sustained   7 every calendar week of Europe/Berlin, beginning on sunday\n"
        "  at once     7\n"
        "  one window  7 at most\n"
        "  worst case  21 within the longest window's length: before, in and after a short window\n"
        "state         8 bytes a key\n");
}

/* The longest report fits in WEIR_POLICY_REPORT_MAX. */
static void check_report_size(void **unused)
{
    (void)unused;
    static const char longest[] = "fixed-window 2147483647/month from 31 count-denied tz "
                                  "Aaaaaaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaaaa";
    char text[WEIR_POLICY_TEXT_MAX] = "", report[WEIR_POLICY_REPORT_MAX];
    for (int i = 0; i < WEIR_LAYERS_MAX; i++) {
        strcat(text, i ? "&" : "");
        strcat(text, longest);
    }
    weir_policy p;
    assert_int_equal(parse(&p, text, NULL), WEIR_OK);
    assert_true(weir_policy_report(&p, report, sizeof report) < sizeof report - 1);
    assert_non_null(strstr(report, "state         64 bytes a key\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_canonical),   cmocka_unit_test(check_dates),
        cmocka_unit_test(check_errors),      cmocka_unit_test(check_report),
        cmocka_unit_test(check_report_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
