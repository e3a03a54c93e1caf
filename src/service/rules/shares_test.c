/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Texts of a keep and of a spread, and what a spread adds to a wait. */

#include "service/rules/keep.h"
#include "service/rules/spread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static weir_slice slice(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

static void keeps(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t want;
    } rows[] = {{"0", 0},
                {"1", 1},
                {"2147483647", WEIR_COST_MAX},
                {"0%", 0},
                {"1%", WEIR_KEEP_PERCENT(1)},
                {"100%", WEIR_KEEP_PERCENT(100)}};
    static const char *const bad[] = {"", "%", "-1", "-1%", "101%", "2147483648", "1.5", "1 %"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t keep = 77;
        assert_true(weir_keep_read(slice(rows[i].text), &keep));
        assert_int_equal(keep, rows[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t keep = 77;
        assert_false(weir_keep_read(slice(bad[i]), &keep));
        assert_int_equal(keep, 77);
    }
}

static void spreads(void **unused)
{
    (void)unused;
    static const char *const good[] = {"0%", "9%", "100%"}, *const bad[] = {"",    "%",    "5",
                                                                            "-1%", "101%", "1.5%"};
    static const int want[] = {0, 9, 100};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int percent = 77;
        assert_true(weir_spread_read(slice(good[i]), &percent));
        assert_int_equal(percent, want[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int percent = 77;
        assert_false(weir_spread_read(slice(bad[i]), &percent));
        assert_int_equal(percent, 77);
    }
}

/* The seconds from 0 to the rounded-up share, each for about equally many keys. */
static void seconds_of_a_spread(void **unused)
{
    (void)unused;
    static const struct {
        int percent;
        int64_t wait_s, most_s;
    } rows[] = {{10, 0, 0}, {0, 100, 0}, {10, 30, 3}, {10, 31, 4}, {1, 1, 1}, {100, 7, 7}};
    enum { KEYS = 4000 };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int count[8] = {0};
        for (int key = 0; key < KEYS; key++) {
            const weir_slice of = {(const char *)&key, sizeof key};
            int64_t s = weir_spread_s(rows[i].percent, slice("api"), of, rows[i].wait_s);
            assert_in_range(s, 0, rows[i].most_s);
            count[s]++;
        }
        int64_t each = KEYS / (rows[i].most_s + 1);
        for (int64_t s = 0; s <= rows[i].most_s; s++)
            assert_in_range(count[s], each * 4 / 5, each * 6 / 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps),
        cmocka_unit_test(spreads),
        cmocka_unit_test(seconds_of_a_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
