/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Charges: debts, a log that grows, and blocks. The vectors have the exact fields. */

#include "core/check.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void check_charge(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"gcra 1/s burst 5", "fixed-window 5/m",
                                        "sliding-counter 5/m", "sliding-slices 5/m slices 2",
                                        "gcra 1/s burst 5 & fixed-window 9/m"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weir_policy p = policy_of(texts[i]);
        uint64_t state[16] = {0};
        weir_decision d;
        int64_t over = -1, now_ns = INT64_C(60000000000);
        assert_int_equal(weir_charge(&p, state, 0, now_ns, 5, &d, &over), WEIR_OK);
        assert_int_equal(over, 0);
        assert_true(d.allowed && d.remaining == 0 && d.retry_after_ns == 0);
        assert_in_range(weir_usage_of(&p, state, 0, now_ns).used, 128, WEIR_USED_MAX - 1);
        assert_int_equal(weir_charge(&p, state, 0, now_ns, 1, &d, &over), WEIR_OK);
        assert_true(!d.allowed && !d.never && d.remaining == 0 && d.retry_after_ns > 0);
        assert_int_equal(weir_usage_of(&p, state, 0, now_ns).used, WEIR_USED_MAX);
        assert_int_equal(weir_peek(&p, state, 0, now_ns + d.retry_after_ns - 1, 0, &d), WEIR_OK);
        assert_false(d.allowed);
    }
}

static void check_charge_of_a_log(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"sliding-log 9/m", "gcra 1/s burst 99 & sliding-log 9/m"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weir_policy p = policy_of(texts[i]);
        uint64_t state[64] = {0};
        weir_decision d;
        int64_t over = -1;
        for (int64_t t = 0; t < 4; t++)
            assert_int_equal(weir_charge(&p, state, 0, t, 1, &d, &over), WEIR_OK);
        assert_int_equal(weir_charge(&p, state, 0, 4, 1, &d, &over), WEIR_E_ROOM); /* it grows */
        assert_int_equal(weir_charge(&p, state, 0, 4, 0, &d, &over), WEIR_OK);
        assert_int_equal(d.remaining, 5);
    }
}

/* A short window has one word, which counts to less than its nanoseconds. A window of more than
 * WEIR_LIMIT_MAX nanoseconds counts any number. */
static void check_charge_of_short_windows(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t counts;
    } rows[] = {{"fixed-window 5/6ns", 5},
                {"fixed-window 5/8ns", 7},
                {"fixed-window 5/2147483647ns", INT64_C(2147483646)},
                {"fixed-window 5/2147483648ns", INT64_C(2147483647)}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_policy p = policy_of(rows[i].text);
        uint64_t state[2] = {0};
        weir_decision d;
        int64_t over = -1;
        assert_int_equal(weir_charge(&p, state, 0, 0, 2, &d, &over), WEIR_OK);
        assert_int_equal(weir_charge(&p, state, 0, 0, WEIR_COST_MAX, &d, &over), WEIR_OK);
        assert_int_equal(over, WEIR_COST_MAX - (rows[i].counts - 2));
        assert_int_equal(weir_refund(&p, state, 0, 0, rows[i].counts - 4, &d), WEIR_OK);
        assert_int_equal(d.remaining, 1);
    }
}

/* A charge begins no block, and counts in the other layers while one is running. */
static void check_charge_and_block(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("fixed-window 5/m & block 2s doubling 8s");
    uint64_t state[16] = {0};
    weir_decision d;
    int64_t over = -1;
    const int64_t now_ns = INT64_C(60000000000), s_ns = 1000000000;
    assert_int_equal(weir_charge(&p, state, 0, now_ns, 7, &d, &over), WEIR_OK);
    assert_true(!d.allowed && d.layer == 0 && d.retry_after_ns == 60 * s_ns);
    assert_int_equal(weir_refund(&p, state, 0, now_ns, 3, &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 1);
    assert_int_equal(weir_check(&p, state, 0, now_ns, 2, &d), WEIR_OK);
    assert_true(!d.allowed);
    assert_int_equal(weir_charge(&p, state, 0, now_ns + s_ns, 1, &d, &over), WEIR_OK);
    assert_true(!d.allowed && d.layer == 1 && d.retry_after_ns == s_ns);
    assert_int_equal(over, 0);
    assert_int_equal(weir_peek(&p, state, 0, now_ns + 2 * s_ns, 0, &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 0);
    assert_int_equal(weir_charge(&p, state, 0, now_ns + s_ns, WEIR_COST_MAX, &d, &over), WEIR_OK);
    assert_int_equal(over, 5);
}

/* A charge leaves a concurrent layer as it is. A policy without a rate refuses it, and an error
 * writes nothing. */
static void check_charge_and_leases(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("concurrent 5 lease 1m & gcra 1/s burst 9");
    weir_policy only = policy_of("concurrent 5 lease 1m & block 1s");
    uint64_t state[64] = {0}, before[64];
    weir_decision d = {.remaining = -1};
    int64_t over = -1;
    for (int64_t t = 0; t < 4; t++) /* the ring of leases has no entry left */
        assert_int_equal(weir_check(&p, state, 0, t, 1, &d), WEIR_OK);
    assert_int_equal(weir_charge(&p, state, 0, 9, 3, &d, &over), WEIR_OK);
    assert_true(d.allowed && d.layer == 0 && d.remaining == 1 && over == 0);
    assert_int_equal(weir_charge(&p, state, 0, 9, 5, &d, &over), WEIR_OK);
    assert_true(!d.allowed && d.layer == 1 && d.retry_after_ns == INT64_C(2999999991));
    memcpy(before, state, sizeof before);
    over = -1;
    d.remaining = -1;
    assert_int_equal(weir_charge(&p, state, 0, -1, 1, &d, &over), WEIR_E_RANGE);
    assert_int_equal(weir_charge(&p, state, 0, 9, -1, &d, &over), WEIR_E_RANGE);
    assert_int_equal(weir_charge(&p, state, 0, 9, INT64_C(1) + WEIR_COST_MAX, &d, &over),
                     WEIR_E_RANGE);
    assert_memory_equal(state, before, sizeof before);
    assert_int_equal(weir_charge(&only, state, 0, -1, 0, &d, &over), WEIR_E_RANGE);
    assert_true(over == -1 && d.remaining == -1);
    memset(state, 0, sizeof state);
    assert_int_equal(weir_charge(&only, state, 0, 9, 0, &d, &over), WEIR_E_UNSUPPORTED);
    assert_true(over == -1 && d.remaining == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_charge),
        cmocka_unit_test(check_charge_of_a_log),
        cmocka_unit_test(check_charge_of_short_windows),
        cmocka_unit_test(check_charge_and_block),
        cmocka_unit_test(check_charge_and_leases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
