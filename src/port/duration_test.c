/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Durations as texts in each style. */

#include "port/duration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

typedef struct row {
    int64_t ns;
    const char *text;
} row;

static void check(weir_duration_style style, const row *rows, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char text[WEIR_DURATION_MAX];
        assert_int_equal(weir_duration_print(text, rows[i].ns, style), strlen(rows[i].text));
        assert_string_equal(text, rows[i].text);
    }
}

static void prints_two_units(void **unused)
{
    (void)unused;
    static const row rows[] = {
        {0, "0s"},
        {1, "1ns"},
        {999, "999ns"},
        {1000, "1us"},
        {1001, "1us 1ns"},
        {999999, "999us 999ns"},
        {1000000, "1ms"},
        {1500000, "1ms 500us"},
        {1500001, "1ms 501us"},
        {999999001, "1s"},
        {S, "1s"},
        {S + 1, "1s 1ms"},
        {59 * S, "59s"},
        {59 * S + 999000000, "59s 999ms"},
        {59 * S + 999000001, "1m"},
        {90 * S, "1m 30s"},
        {3599 * S, "59m 59s"},
        {3599 * S + 1, "1h"},
        {3600 * S, "1h"},
        {3601 * S, "1h 1m"},
        {86399 * S, "1d"},
        {86400 * S, "1d"},
        {90000 * S, "1d 1h"},
        {INT64_MAX, "106751d 23h"}, /* rounding up would overflow */
    };
    check(WEIR_DURATION_SHORT, rows, sizeof rows / sizeof rows[0]);
}

static void prints_what_people_read(void **unused)
{
    (void)unused;
    static const row rows[] = {
        {0, "0 ms"},
        {1, "1 ms"},
        {999 * MS, "999 ms"},
        {999 * MS + 1, "1 s"},
        {S, "1 s"},
        {1001 * MS, "1.001 s"},
        {1001 * MS + 1, "1.002 s"},
        {1050 * MS, "1.05 s"},
        {1500 * MS, "1.5 s"},
        {10 * S, "10 s"},
        {59999 * MS, "59.999 s"},
        {60 * S, "1 m"},
        {90 * S, "1 m 30 s"},
        {90001 * MS, "1 m 31 s"},
        {3600 * S, "1 h"},
        {INT64_MAX, "106751 d 23 h"},
    };
    check(WEIR_DURATION_READ, rows, sizeof rows / sizeof rows[0]);
}

static void prints_all_units(void **unused)
{
    (void)unused;
    static const row rows[] = {
        {0, "0 s"},
        {1, "0.000001 s"},
        {4500 * MS, "4.5 s"},
        {60 * S, "1 m"},
        {60 * S + 1, "1 m 0.000001 s"},
        {3600 * S + S, "1 h 1 s"},
        {93784 * S + 500 * MS, "1 d 2 h 3 m 4.5 s"},
        {INT64_MAX, "106751 d 23 h 47 m 16.854776 s"},
    };
    check(WEIR_DURATION_LONG, rows, sizeof rows / sizeof rows[0]);
}

static void prints_one_unit(void **unused)
{
    (void)unused;
    static const row rows[] = {
        {1, "1ns"},       {1500 * MS, "1500ms"}, {90 * S, "90s"},
        {3600 * S, "1h"}, {48 * 3600 * S, "2d"}, {INT64_MAX, "9223372036854775807ns"},
    };
    check(WEIR_DURATION_WHOLE, rows, sizeof rows / sizeof rows[0]);
}

static void prints_as_go_does(void **unused)
{
    (void)unused;
    static const row rows[] = {
        {0, "0s"},
        {1, "1ms"},
        {17 * MS, "17ms"},
        {999 * MS + 1, "1s"},
        {1500 * MS, "1.5s"},
        {60 * S, "1m0s"},
        {3600 * S, "1h0m0s"},
        {90061 * S + 20 * MS, "25h1m1.02s"},
        {INT64_MAX, "2562047h47m16.855s"},
    };
    check(WEIR_DURATION_GO, rows, sizeof rows / sizeof rows[0]);
}

static void prints_as_protobuf_does(void **unused)
{
    (void)unused;
    static const row rows[] = {
        {0, "0s"},           {1, "0.000000001s"},
        {1000, "0.000001s"}, {4500 * MS, "4.500s"},
        {100 * S, "100s"},   {INT64_MAX, "9223372036.854775807s"},
    };
    check(WEIR_DURATION_PROTO, rows, sizeof rows / sizeof rows[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_two_units),  cmocka_unit_test(prints_what_people_read),
        cmocka_unit_test(prints_all_units),  cmocka_unit_test(prints_one_unit),
        cmocka_unit_test(prints_as_go_does), cmocka_unit_test(prints_as_protobuf_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
