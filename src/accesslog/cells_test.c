/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The cells of tables: sparklines, numbers and keys. */

#include "accesslog/cells.h"

#include <weir/weir.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define S INT64_C(1000000000)

static void expect_spark(const uint64_t *counts, size_t len, size_t step, bool utf8,
                         const char *expected)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 16);
    accesslog_cell_spark(&b, counts, len, step, accesslog_cell_spark_max(counts, len, step), utf8);
    weir_buffer_append_byte(&b, 0);
    assert_string_equal((const char *)weir_buffer_data(&b), expected);
    weir_buffer_free(&b);
}

static void check_sparklines(void **unused)
{
    (void)unused;
    static const uint64_t rising[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    static const uint64_t uneven[] = {1000, 1, 0, 124, 125, 126};
    expect_spark(rising, 9, 1, false, " .:-=+*#@");
    expect_spark(rising, 9, 1, true, " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588");
    expect_spark(rising, 9, 2, false, ".=*@+");
    expect_spark(uneven, 6, 1, false, "@. ..:");
    expect_spark((const uint64_t[]){0, 0}, 2, 1, false, "  ");
    assert_int_equal(accesslog_cell_spark_step(96, 96), 1);
    assert_int_equal(accesslog_cell_spark_step(96, 95), 2);
    assert_int_equal(accesslog_cell_spark_step(1, 20), 1);
    assert_int_equal(accesslog_cell_spark_step(0, 20), 1);
    assert_int_equal(accesslog_cell_spark_max(rising, 9, 2), 13);
}

static void expect_percent(uint64_t part, uint64_t all, const char *expected)
{
    char text[ACCESSLOG_CELL_PERCENT_MAX];
    accesslog_cell_percent(part, all, text);
    assert_string_equal(text, expected);
}

static void check_numbers(void **unused)
{
    (void)unused;
    char text[ACCESSLOG_CELL_TIME_MAX];
    expect_percent(0, 3000, "0.0%");
    expect_percent(1, 3000, "<0.1%");
    expect_percent(1, 1000, "0.1%");
    expect_percent(2, 3, "66.7%");
    expect_percent(2999, 3000, ">99.9%");
    expect_percent(3000, 3000, "100.0%");
    accesslog_cell_time(807256800 * S + S - 1, text);
    assert_string_equal(text, "1995-08-01 06:00:00 UTC");
    accesslog_cell_time(WEIR_NOW_NS_MAX, text);
    assert_string_equal(text, "2225-09-28 23:48:52 UTC");
}

static void expect_key(const char *key, size_t cols, const char *expected)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 16);
    accesslog_cell_key(&b, (weir_slice){key, strlen(key)}, cols);
    weir_buffer_append_byte(&b, 0);
    assert_string_equal((const char *)weir_buffer_data(&b), expected);
    weir_buffer_free(&b);
}

static void check_keys(void **unused)
{
    (void)unused;
    expect_key("alice", 5, "alice");
    expect_key("alice", 8, "alice   ");
    expect_key("a\033\\\377", 16, "a\\x1b\\\\\\xff     ");
    expect_key("0123456789abcdefg", 17, "0123456789abcdefg");
    expect_key("0123456789abcdefg", 16, "012345678...defg");
    expect_key("\1\1\1\1\1", 16, "\\x01\\x01...\\x01 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_sparklines),
        cmocka_unit_test(check_numbers),
        cmocka_unit_test(check_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
