/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests what the vectors and the properties do not cover of requests that keep units: invalid
 * arguments, the fields of a peek, shares, and denials that are counted. */

#include "core/check.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void check_arguments(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("gcra 1/s burst 5");
    uint64_t state[1] = {0};
    weir_decision d = {.limit = -7};
    assert_int_equal(weir_check_keep(&p, state, 0, -1, 1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_check_keep(&p, state, 0, 0, -1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_check_keep(&p, state, 0, 0, 1, -101, &d), WEIR_E_RANGE);
    assert_int_equal(weir_peek_keep(&p, state, 0, 0, 1, -101, &d), WEIR_E_RANGE);
    assert_int_equal(weir_check_keep(&p, state, 0, 0, 1, (int64_t)WEIR_COST_MAX + 1, &d),
                     WEIR_E_RANGE);
    assert_int_equal(weir_peek_keep(&p, state, 0, 0, 1, (int64_t)WEIR_COST_MAX + 1, &d),
                     WEIR_E_RANGE);
    assert_int_equal(weir_peek_keep(&p, state, 0, -1, 1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(d.limit, -7);
    assert_int_equal(state[0], 0);
    assert_int_equal(weir_check_keep(&p, state, 0, 0, 1, WEIR_COST_MAX, &d), WEIR_OK);
    assert_true(!d.allowed && d.never && d.remaining == 0 && d.limit == 5);
    assert_int_equal(weir_peek_keep(&p, state, 0, 0, 0, WEIR_KEEP_PERCENT(100), &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 0 && d.limit == 5);
}

/* The fields of a peek describe the state as it is, less what is kept. */
static void check_peek_keep(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("fixed-window 10/s & fixed-window 40/m");
    uint64_t state[2] = {0};
    weir_decision d;
    assert_int_equal(weir_peek_keep(&p, state, 0, 0, 2, 3, &d), WEIR_OK);
    assert_true(d.allowed && d.limit == 10 && d.remaining == 7 && d.layer == 0);
    assert_int_equal(weir_peek_keep(&p, state, 0, 0, 7, 3, &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 7 && d.retry_after_ns == 0);
    assert_int_equal(weir_peek_keep(&p, state, 0, 0, 8, 3, &d), WEIR_OK);
    assert_true(!d.allowed && d.never && d.remaining == 7 && d.limit == 10);
    assert_int_equal(weir_check_keep(&p, state, 0, 0, 2, 3, &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 5 && d.layer == 0);
    assert_int_equal(weir_peek_keep(&p, state, 0, 250000000, 6, 3, &d), WEIR_OK);
    assert_true(!d.allowed && !d.never && d.remaining == 5 && d.retry_after_ns == 750000000);
    assert_int_equal(weir_peek_keep(&p, state, 0, 0, 0, 9, &d), WEIR_OK);
    assert_true(!d.allowed && d.remaining == 0 && d.retry_after_ns == 1000000000);
    assert_int_equal(weir_check(&p, state, 0, 0, 0, &d), WEIR_OK);
    assert_int_equal(d.remaining, 8);
}

/* A share is of the limit of each layer, rounded up, so another layer may be the scarcest. */
static void check_keep_share(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("fixed-window 10/s & fixed-window 12/m");
    weir_policy odd = policy_of("fixed-window 7/s");
    uint64_t state[2] = {0};
    weir_decision d;
    assert_int_equal(weir_check_keep(&p, state, 0, 0, 2, WEIR_KEEP_PERCENT(50), &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 3 && d.layer == 0);
    assert_int_equal(weir_check_keep(&p, state, 0, 0, 3, WEIR_KEEP_PERCENT(50), &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 0 && d.layer == 0);
    assert_int_equal(weir_check_keep(&p, state, 0, 1000000000, 1, WEIR_KEEP_PERCENT(50), &d),
                     WEIR_OK);
    assert_true(d.allowed && d.remaining == 0 && d.limit == 12 && d.layer == 1);
    static const struct {
        int64_t percent, remaining;
    } rows[] = {{0, 7}, {1, 6}, {14, 6}, {15, 5}, {99, 0}, {100, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t fresh = 0;
        int64_t keep = WEIR_KEEP_PERCENT(rows[i].percent);
        assert_int_equal(weir_check_keep(&odd, &fresh, 0, 0, 0, keep, &d), WEIR_OK);
        assert_int_equal(d.remaining, rows[i].remaining);
    }
}

/* A count-denied layer counts a denied cost, without what it keeps. */
static void check_keep_counts_denied(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"fixed-window 10/s count-denied",
                                        "sliding-log 10/s count-denied"};
    for (size_t i = 0; i < 2; i++) {
        weir_policy p = policy_of(texts[i]);
        uint64_t state[256] = {0};
        weir_decision d;
        assert_int_equal(weir_check_keep(&p, state, 0, 0, 3, 8, &d), WEIR_OK);
        assert_true(!d.allowed && d.never && d.remaining == 0);
        assert_int_equal(weir_check(&p, state, 0, 0, 0, &d), WEIR_OK);
        assert_int_equal(d.remaining, 7);
        assert_int_equal(weir_check_keep(&p, state, 0, 0, 0, 8, &d), WEIR_OK); /* a peek */
        assert_true(!d.allowed && d.retry_after_ns == 1000000000);
        assert_int_equal(weir_check_keep(&p, state, 0, 0, 8, 1, &d), WEIR_OK);
        assert_true(!d.allowed && d.retry_after_ns == 1000000000);
        assert_int_equal(weir_check(&p, state, 0, 0, 0, &d), WEIR_OK);
        assert_int_equal(d.remaining, 0);
    }
}

/* Several requests of a key are decided by their sum, which may be above every cost. */
static void check_peek_sum(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("gcra 1/s burst 5");
    uint64_t state[1] = {0};
    weir_decision d = {.limit = -7};
    assert_int_equal(weir_peek_sum(&p, state, 0, -1, 1, 0, &d), WEIR_E_RANGE);
    assert_int_equal(weir_peek_sum(&p, state, 0, -1, (int64_t)WEIR_COST_MAX + 1, 0, &d),
                     WEIR_E_RANGE);
    assert_int_equal(d.limit, -7);
    assert_int_equal(weir_peek_sum(&p, state, 0, 0, 4, 1, &d), WEIR_OK);
    assert_true(d.allowed && !d.never && d.remaining == 4);
    assert_int_equal(weir_peek_sum(&p, state, 0, 0, 5, 1, &d), WEIR_OK);
    assert_true(!d.allowed && d.never);
    p = policy_of("fixed-window 2147483647/d");
    assert_int_equal(weir_peek_sum(&p, state, 0, 0, WEIR_COST_MAX, 0, &d), WEIR_OK);
    assert_true(d.allowed && !d.never && d.retry_after_ns == 0);
    assert_int_equal(weir_peek_sum(&p, state, 0, 0, (int64_t)WEIR_COST_MAX + 1, 0, &d), WEIR_OK);
    assert_true(!d.allowed && d.never && d.retry_after_ns == INT64_MAX && d.delay_ns == 0);
}

/* A state that is known to be sound is decided like any other. */
static void check_sound_states(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("gcra 1/s burst 5");
    uint64_t state[1] = {0};
    weir_decision d = {.limit = -7};
    assert_int_equal(weir_check_sound(&p, state, 0, -1, 1, 0, &d), WEIR_E_RANGE);
    assert_int_equal(weir_check_sound(&p, state, 0, -1, 1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_check_sound(&p, state, 0, 0, -1, 0, &d), WEIR_E_RANGE);
    assert_int_equal(d.limit, -7);
    assert_int_equal(weir_check_sound(&p, state, 0, 0, 2, 0, &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 3);
    assert_int_equal(weir_check_sound(&p, state, 0, 0, 2, 2, &d), WEIR_OK);
    assert_true(!d.allowed && !d.never && d.retry_after_ns == 1000000000);
    assert_int_equal(weir_check_sound(&p, state, 0, 0, 2, 1, &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_arguments),  cmocka_unit_test(check_peek_keep),
        cmocka_unit_test(check_keep_share), cmocka_unit_test(check_keep_counts_denied),
        cmocka_unit_test(check_peek_sum),   cmocka_unit_test(check_sound_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
