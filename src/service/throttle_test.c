/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* CL.THROTTLE against answers of redis-cell: its own test table, its README, and its odd
 * corners. */

#include "service/throttle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const int64_t ms_ns = 1000000, s_ns = 1000000000;
static const int64_t start_ns = 1767225600000000000;

typedef struct row {
    int64_t t_ms, quantity;
    int64_t want[5]; /* limited, limit, remaining, retry_after, reset_after */
} row;

static void run(weir_throttle t, const row *rows, size_t len)
{
    uint64_t state = 0;
    for (size_t i = 0; i < len; i++) {
        weir_throttle_answer a;
        t.quantity = rows[i].quantity;
        assert_int_equal(weir_throttle_check(&t, &state, start_ns + rows[i].t_ms * ms_ns, &a),
                         WEIR_THROTTLE_OK);
        const int64_t got[5] = {a.limited, a.limit, a.remaining, a.retry_after_s, a.reset_after_s};
        for (int k = 0; k < 5; k++) {
            if (got[k] != rows[i].want[k])
                fail_msg("row %zu: got %d %lld %lld %lld %lld", i, a.limited, (long long)a.limit,
                         (long long)a.remaining, (long long)a.retry_after_s,
                         (long long)a.reset_after_s);
        }
    }
}

#define RUN(throttle, ...)                                                                         \
    do {                                                                                           \
        const row rows[] = {__VA_ARGS__};                                                          \
        run((throttle), rows, sizeof rows / sizeof rows[0]);                                       \
    } while (0)

static void check_table(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 4, .count = 1, .period_s = 1};
    RUN(t, {0, 6, {1, 5, 5, -1, 0}}, {0, 1, {0, 5, 4, -1, 1}}, {0, 1, {0, 5, 3, -1, 2}},
        {0, 1, {0, 5, 2, -1, 3}}, {0, 1, {0, 5, 1, -1, 4}}, {0, 1, {0, 5, 0, -1, 5}},
        {0, 1, {1, 5, 0, 1, 5}}, {3000, 1, {0, 5, 2, -1, 3}}, {3100, 1, {0, 5, 1, -1, 4}},
        {4000, 1, {0, 5, 1, -1, 4}}, {8000, 1, {0, 5, 4, -1, 1}}, {9500, 1, {0, 5, 4, -1, 1}},
        {9500, 0, {0, 5, 4, -1, 1}}, {9500, 2, {0, 5, 2, -1, 3}}, {9500, 5, {1, 5, 2, 3, 3}});
    t = (weir_throttle){.max_burst = 15, .count = 30, .period_s = 60};
    RUN(t, {0, 1, {0, 16, 15, -1, 2}});
    t = (weir_throttle){.max_burst = 0, .count = 1, .period_s = 2};
    RUN(t, {0, 1, {0, 1, 0, -1, 2}}, {0, 1, {1, 1, 0, 2, 2}}, {2000, 1, {0, 1, 0, -1, 2}});
}

/* A part of a second counts as one only if it has whole milliseconds. */
static void check_seconds(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 0, .count = 1000, .period_s = 1001, .quantity = 1};
    RUN(t, {0, 1, {0, 1, 0, -1, 2}}, {0, 1, {1, 1, 0, 2, 2}}, {1, 1, {1, 1, 0, 1, 1}},
        {2, 1, {1, 1, 0, 1, 1}}, {1000, 1, {1, 1, 0, 1, 1}}, {1001, 1, {0, 1, 0, -1, 2}});
    uint64_t state = (uint64_t)(start_ns + s_ns + 999999); /* 1 s and not quite a ms more */
    weir_throttle_answer a;
    assert_int_equal(weir_throttle_check(&t, &state, start_ns, &a), WEIR_THROTTLE_OK);
    assert_int_equal(a.reset_after_s, 1);
}

static void check_refund(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 4, .count = 1, .period_s = 1};
    RUN(t, {0, 5, {0, 5, 0, -1, 5}}, {0, -2, {0, 5, 2, -1, 3}}, {0, 3, {1, 5, 2, 1, 3}},
        {0, 2, {0, 5, 0, -1, 5}}, {0, -9, {0, 5, 9, -1, -4}}, {0, 5, {0, 5, 0, -1, 5}});
}

static void check_refused(void **unused)
{
    (void)unused;
    static const struct {
        weir_throttle t;
        weir_throttle_status want;
    } cases[] = {
        {{1, 0, 60, 1}, WEIR_THROTTLE_ZERO_RATE},
        {{1, 60, 0, 1}, WEIR_THROTTLE_ZERO_RATE},
        {{1, 1000000001, 1, 1}, WEIR_THROTTLE_ZERO_RATE},
        {{1, 1000000000, 1, 1}, WEIR_THROTTLE_OK},
        {{INT64_MAX, 1, 1, 1}, WEIR_THROTTLE_RANGE},
        {{INT64_MAX - 1, 1, 1, 1}, WEIR_THROTTLE_RANGE},
        {{1, 1, INT64_MAX, 1}, WEIR_THROTTLE_RANGE},
        {{1, 1, 1, INT64_MAX}, WEIR_THROTTLE_RANGE},
        {{1, 1, 1, INT64_MIN}, WEIR_THROTTLE_RANGE},
        {{1, 1, 9223372036, 9}, WEIR_THROTTLE_RANGE},
        {{INT64_MIN, 1, 1, 1}, WEIR_THROTTLE_RANGE},
        {{-5, 1, 1, 1}, WEIR_THROTTLE_OK},
        {{5, -1, 1, 1}, WEIR_THROTTLE_OK},
        {{5, INT64_MIN, 1, 1}, WEIR_THROTTLE_ZERO_RATE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t state = 0;
        weir_throttle_answer a;
        if (weir_throttle_check(&cases[i].t, &state, start_ns, &a) != cases[i].want)
            fail_msg("case %zu", i);
        assert_true(cases[i].want == WEIR_THROTTLE_OK || state == 0);
    }
}

/* Intervals below a microsecond divide by zero in redis-cell's figure, which saturates. */
static void check_tiny_interval(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 9999, .count = 10000000, .period_s = 1};
    RUN(t, {0, 1, {0, 10000, INT64_MAX, -1, 0}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_table),         cmocka_unit_test(check_seconds),
        cmocka_unit_test(check_refund),        cmocka_unit_test(check_refused),
        cmocka_unit_test(check_tiny_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
