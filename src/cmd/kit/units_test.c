/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Durations as texts of at most two units, rounded up. */

#include "cmd/kit/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const int64_t s_ns = 1000000000;

static void check_nanoseconds(void **unused)
{
    (void)unused;
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        {0, "0ns"},
        {1, "1ns"},
        {999, "999ns"},
        {1000, "1us"},
        {1001, "1us 1ns"},
        {999999, "999us 999ns"},
        {1000000, "1ms"},
        {1500000, "1ms 500us"},
        {1500001, "1ms 501us"},
        {999999001, "1s"},
        {s_ns, "1s"},
        {s_ns + 1, "1s 1ms"},
        {59 * s_ns, "59s"},
        {59 * s_ns + 999000000, "59s 999ms"},
        {59 * s_ns + 999000001, "1m"},
        {90 * s_ns, "1m 30s"},
        {3599 * s_ns, "59m 59s"},
        {3599 * s_ns + 1, "1h"},
        {3600 * s_ns, "1h"},
        {3601 * s_ns, "1h 1m"},
        {86399 * s_ns, "1d"},
        {86400 * s_ns, "1d"},
        {90000 * s_ns, "1d 1h"},
        {INT64_MAX, "106751d 23h"}, /* rounding up would overflow */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[DURATION_TEXT_MAX];
        duration_text(rows[i].ns, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void check_milliseconds(void **unused)
{
    (void)unused;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "0 ms"},
        {999, "999 ms"},
        {1000, "1 s"},
        {1001, "1.001 s"},
        {1050, "1.05 s"},
        {1500, "1.5 s"},
        {10000, "10 s"},
        {59999, "59.999 s"},
        {60000, "1 m"},
        {90000, "1 m 30 s"},
        {90001, "1 m 31 s"},
        {3600000, "1 h"},
        {INT64_C(9223372036853), "106751 d 23 h"},
        {INT64_C(9223372036854), "106751 d 23 h"},
        {INT64_MAX, "106751 d 23 h"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[DURATION_TEXT_MAX];
        duration_ms_text(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_nanoseconds),
                                       cmocka_unit_test(check_milliseconds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
