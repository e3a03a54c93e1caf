/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* CL.THROTTLE against answers of redis-cell: its test table, its README, and its edge cases. */

#include "service/throttle.h"

#include "port/random_kit_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    t = (weir_throttle){.max_burst = INT64_MAX - 1, .count = 1000000000, .period_s = 1};
    RUN(t, {0, 1, {0, INT64_MAX, INT64_MAX, -1, 0}}); /* beyond the precision of a double */
    t = (weir_throttle){.max_burst = 1, .count = -1, .period_s = 60}; /* nothing is ever free */
    RUN(t, {0, 1, {1, 2, 0, -1, 0}});
}

/* A fraction of a second is rounded up only if it is 1 ms or more. */
static void check_seconds(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 0, .count = 1000, .period_s = 1001, .quantity = 1};
    RUN(t, {0, 1, {0, 1, 0, -1, 2}}, {0, 1, {1, 1, 0, 2, 2}}, {1, 1, {1, 1, 0, 1, 1}},
        {2, 1, {1, 1, 0, 1, 1}}, {1000, 1, {1, 1, 0, 1, 1}}, {1001, 1, {0, 1, 0, -1, 2}});
    uint64_t state = (uint64_t)(start_ns + s_ns + 999999); /* 1 s and just below 1 ms */
    weir_throttle_answer a;
    assert_int_equal(weir_throttle_check(&t, &state, start_ns, &a), WEIR_THROTTLE_OK);
    assert_int_equal(a.reset_after_s, 1);
}

static void check_refund(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 4, .count = 1, .period_s = 1};
    RUN(t, {0, 5, {0, 5, 0, -1, 5}}, {0, -2, {0, 5, 2, -1, 3}}, {0, 3, {1, 5, 2, 1, 3}},
        {0, 2, {0, 5, 0, -1, 5}});
}

/* Deliberately different from redis-cell, which answers 9 of 5 and a reset 4 s ago: a refund
 * restores the full quota at most. */
static void check_refund_beyond_full(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 4, .count = 1, .period_s = 1};
    RUN(t, {0, -3, {0, 5, 5, -1, 0}}, {0, 5, {0, 5, 0, -1, 5}}, {0, -9, {0, 5, 5, -1, 0}},
        {0, 6, {1, 5, 5, -1, 0}}, {0, 5, {0, 5, 0, -1, 5}}, {9000, -1, {0, 5, 5, -1, 0}});
}

/* With redis-cell, Redis has expired the key. */
/* Nothing is stored for a key with its full quota. */
static void check_full_quota_is_not_written(void **unused)
{
    (void)unused;
    for (int64_t quantity = -2; quantity <= 0; quantity++) {
        const weir_throttle t = {.max_burst = 4, .count = 1, .period_s = 1, .quantity = quantity};
        uint64_t state = 0;
        weir_throttle_answer a;
        assert_int_equal(weir_throttle_check(&t, &state, start_ns, &a), WEIR_THROTTLE_OK);
        assert_int_equal(state, 0);
        assert_int_equal(a.remaining, 5);
    }
}

static void check_tat_in_the_past(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 2, .count = 1, .period_s = 1};
    RUN(t, {0, 1, {0, 3, 2, -1, 1}}, {2200, 4, {1, 3, 3, -1, 0}}, {62200, 4, {1, 3, 3, -1, 0}},
        {62200, 3, {0, 3, 0, -1, 3}});
}

static void check_bad_numbers(void **unused)
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
        {{INT64_MIN, 1, 1, 1}, WEIR_THROTTLE_NEGATIVE_LIMIT},
        {{-1, 1, 1, 1}, WEIR_THROTTLE_OK},
        {{-2, 1, 1, 1}, WEIR_THROTTLE_NEGATIVE_LIMIT},
        {{-5, 1, 1, 1}, WEIR_THROTTLE_NEGATIVE_LIMIT},
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

/* redis-cell divides by whole microseconds: by 0 if the interval is shorter. */
static void check_tiny_interval(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 9999, .count = 10000000, .period_s = 1};
    RUN(t, {0, 1, {0, 10000, 9999, -1, 0}}, {0, 9999, {0, 10000, 0, -1, 1}});
    t = (weir_throttle){.max_burst = 999, .count = 1000000000 / 1999, .period_s = 1};
    RUN(t,
        {0,
         0,
         {0, 1000, 1000, -1, 0}}); /* redis-cell truncates 1999 ns to 1 us, and would answer 1999 */
}

static void reads(const char *text, bool good, int64_t number)
{
    int64_t got = 77;
    assert_int_equal(weir_throttle_number(text, strlen(text), &got), good);
    assert_int_equal(got, good ? number : 77);
}

static void check_numbers(void **unused)
{
    (void)unused;
    reads("0", true, 0);
    reads("15", true, 15);
    reads("+15", true, 15);
    reads("-15", true, -15);
    reads("9223372036854775807", true, INT64_MAX);
    reads("9223372036854775808", false, 0);
    reads("-9223372036854775808", true, INT64_MIN);
    reads("-9223372036854775809", false, 0);
    reads("", false, 0);
    reads("-", false, 0);
    reads("+", false, 0);
    reads("+-1", false, 0);
    reads("1x", false, 0);
}

/* ---- the property ---------------------------------------------------------------------------- */

/* A random number: mostly small, of either sign, sometimes any. */
static int64_t number(uint64_t *x)
{
    static const int64_t edges[] = {INT64_MIN,
                                    INT64_MIN + 1,
                                    -1999,
                                    -2,
                                    -1,
                                    0,
                                    1,
                                    2,
                                    60,
                                    999999999,
                                    1000000001,
                                    1999999999,
                                    2000,
                                    9223372036,
                                    9223372037,
                                    INT64_MAX / 2,
                                    INT64_MAX - 1,
                                    INT64_MAX};
    uint64_t how = next_random(x) % 16;
    if (how == 0)
        return (int64_t)next_random(x);
    if (how < 4)
        return edges[next_random(x) % (sizeof edges / sizeof edges[0])];
    return (int64_t)(next_random(x) % 64) - (how == 4 ? 32 : 0);
}

/* A random time: mostly a little later than the last, sometimes much earlier or later. */
static int64_t move(uint64_t *x, int64_t now_ns)
{
    uint64_t how = next_random(x) % 32;
    if (how == 0)
        return (int64_t)(next_random(x) % ((uint64_t)WEIR_NOW_NS_MAX + 1));
    int64_t by_ns = (int64_t)(next_random(x) >> (24 + next_random(x) % 40));
    int64_t to_ns = how < 4 ? now_ns - by_ns : now_ns + by_ns;
    return to_ns < 0 || to_ns > WEIR_NOW_NS_MAX ? now_ns : to_ns;
}

/* For any request and any state: remaining is within 0..limit, and a TAT in the past equals the
 * full quota. */
static bool holds(const weir_throttle *t, uint64_t *state, int64_t now_ns)
{
    uint64_t before = *state, fresh = 0;
    weir_throttle_answer a, b;
    weir_throttle_status st = weir_throttle_check(t, state, now_ns, &a);
    if (st != WEIR_THROTTLE_OK)
        return *state == before;
    bool good = a.limit >= 0 && a.remaining >= 0 && a.remaining <= a.limit &&
                a.reset_after_s >= 0 && a.retry_after_s >= -1 &&
                (a.limited || a.retry_after_s == -1) &&
                (*state == before || (!a.limited && (int64_t)*state >= now_ns));
    if (!good || (int64_t)before > now_ns)
        return good;
    return weir_throttle_check(t, &fresh, now_ns, &b) == WEIR_THROTTLE_OK &&
           a.limited == b.limited && a.remaining == b.remaining &&
           a.retry_after_s == b.retry_after_s && a.reset_after_s == b.reset_after_s;
}

static void check_answers_stay_in_bounds(void **unused)
{
    (void)unused;
    enum { RUNS = 20000, STEPS = 20 };
    uint64_t x = 20260101;
    int decided = 0;
    for (int i = 0; i < RUNS; i++) {
        uint64_t state = 0;
        int64_t now_ns = start_ns;
        weir_throttle t = {number(&x), number(&x), number(&x), 1};
        for (int k = 0; k < STEPS; k++) {
            if (next_random(&x) % 8 == 0) /* the same key with another rate */
                t = (weir_throttle){number(&x), number(&x), number(&x), 1};
            t.quantity = number(&x);
            now_ns = move(&x, now_ns);
            uint64_t before = state;
            if (!holds(&t, &state, now_ns))
                fail_msg("max_burst %lld count %lld period %lld quantity %lld: TAT %lld now %lld",
                         (long long)t.max_burst, (long long)t.count, (long long)t.period_s,
                         (long long)t.quantity, (long long)before, (long long)now_ns);
            decided += state != before;
        }
    }
    assert_true(decided > RUNS); /* enough of the numbers were valid */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_table),
        cmocka_unit_test(check_seconds),
        cmocka_unit_test(check_refund),
        cmocka_unit_test(check_refund_beyond_full),
        cmocka_unit_test(check_full_quota_is_not_written),
        cmocka_unit_test(check_tat_in_the_past),
        cmocka_unit_test(check_bad_numbers),
        cmocka_unit_test(check_tiny_interval),
        cmocka_unit_test(check_numbers),
        cmocka_unit_test(check_answers_stay_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
