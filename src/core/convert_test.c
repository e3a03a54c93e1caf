/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Damaged and extreme states under a limit that changes. The test `limit-changes` compares all
 * others with the model. */

#include "core/check.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const int64_t now_ns = 1767225600000000000;

/* The backlog of a bucket of two words, in its ticks, is at most 36.5 years. */
static void a_damaged_bucket_owes_no_more_than_it_may(void **unused)
{
    (void)unused;
    weir_policy from = policy_of("gcra 3/s burst 3"), to = policy_of("gcra 7/s burst 3");
    const uint64_t damaged[2] = {UINT64_MAX, UINT64_MAX};
    uint64_t state[2];
    assert_int_equal(weir_state_convert(&from, damaged, 0, &to, now_ns, state, 0), WEIR_OK);
    weir_decision d;
    assert_int_equal(weir_peek(&to, state, 0, now_ns, 0, &d), WEIR_OK);
    assert_true(!d.allowed && d.reset_after_ns == WEIR_SPAN_NS_MAX);
}

static void a_slower_rate_owes_no_more_than_it_may(void **unused)
{
    (void)unused;
    weir_policy from = policy_of("gcra 1000000000/s burst 2000000000");
    weir_policy to = policy_of("gcra 1/1s burst 1");
    const uint64_t used = (uint64_t)now_ns + 2000000000;
    uint64_t state;
    assert_int_equal(weir_state_convert(&from, &used, 0, &to, now_ns, &state, 0), WEIR_OK);
    assert_int_equal(state, now_ns + WEIR_SPAN_NS_MAX);
    const uint64_t latest = INT64_MAX;
    assert_int_equal(weir_state_convert(&to, &latest, 0, &from, now_ns, &state, 0), WEIR_OK);
    assert_int_equal(state, now_ns + (INT64_MAX - now_ns) / 1000000000 + 1);
    assert_int_equal(weir_state_convert(&from, &latest, 0, &to, now_ns, &state, 0), WEIR_OK);
    assert_int_equal(state, now_ns + WEIR_SPAN_NS_MAX);
}

static void a_negative_tat_was_never_charged(void **unused)
{
    (void)unused;
    weir_policy from = policy_of("gcra 1/s burst 3"), to = policy_of("gcra 2/s burst 3");
    const uint64_t damaged = (uint64_t)INT64_MAX + 1;
    uint64_t state = 1;
    assert_int_equal(weir_state_convert(&from, &damaged, 0, &to, now_ns, &state, 0), WEIR_OK);
    assert_int_equal(state, 0);
}

static void a_damaged_log_is_refused(void **unused)
{
    (void)unused;
    weir_policy from = policy_of("sliding-log 9/m"), to = policy_of("sliding-log 8/m");
    uint64_t damaged[64] = {UINT64_MAX}, state[64];
    assert_true(weir_state_words(&from, 0) <= 64 && weir_state_words(&to, 0) <= 64);
    assert_int_equal(weir_state_convert(&from, damaged, 0, &to, now_ns, state, 0), WEIR_E_RANGE);
}

/* Whatever was there before. */
static void all_words_are_written(void **unused)
{
    (void)unused;
    static const char *const texts[][2] = {{"concurrent 9 lease 1h", "concurrent 8 lease 1h"},
                                           {"sliding-log 9/h", "sliding-log 8/h"}};
    enum { WORDS = 64 };
    for (size_t k = 0; k < 2; k++) {
        weir_policy from = policy_of(texts[k][0]), to = policy_of(texts[k][1]);
        uint64_t state[WORDS] = {0}, clear[WORDS] = {0}, used[WORDS];
        weir_decision d;
        size_t words = weir_state_words(&to, 0);
        assert_true(weir_state_words(&from, 0) <= WORDS && words <= WORDS);
        assert_int_equal(weir_check(&from, state, 0, now_ns, 1, &d), WEIR_OK);
        memset(used, 0xff, sizeof used);
        assert_int_equal(weir_state_convert(&from, state, 0, &to, now_ns, clear, 0), WEIR_OK);
        assert_int_equal(weir_state_convert(&from, state, 0, &to, now_ns, used, 0), WEIR_OK);
        assert_memory_equal(used, clear, words * sizeof used[0]);
        assert_true(words == WORDS || used[words] == UINT64_MAX);
    }
}

/* Forty units at different times, as leases or in a log, need a larger state than the new one. */
static void a_state_that_does_not_fit(void **unused)
{
    (void)unused;
    static const char *const texts[][2] = {{"concurrent 40 lease 1h", "concurrent 41 lease 1h"},
                                           {"sliding-log 40/h", "sliding-log 41/h"}};
    enum { LEVEL = 5, WORDS = 128 };
    for (size_t k = 0; k < 2; k++) {
        weir_policy from = policy_of(texts[k][0]), to = policy_of(texts[k][1]);
        uint64_t state[WORDS] = {0}, moved[WORDS];
        const int64_t later_ns = now_ns + 40;
        weir_decision d;
        assert_true(weir_state_words(&to, LEVEL) <= WORDS);
        for (int i = 0; i < 40; i++)
            assert_int_equal(weir_check(&from, state, LEVEL, now_ns + i, 1, &d), WEIR_OK);
        assert_int_equal(weir_state_convert(&from, state, LEVEL, &to, later_ns, moved, 0),
                         WEIR_E_ROOM);
        assert_int_equal(weir_state_convert(&from, state, LEVEL, &to, later_ns, moved, LEVEL),
                         WEIR_OK);
        assert_int_equal(weir_peek(&to, moved, LEVEL, later_ns, 0, &d), WEIR_OK);
        assert_int_equal(d.remaining, 1);
    }
}

/* A log whose limit is lowered and raised again keeps all units. Those that are not apart under the
 * low limit end with the last of them. */
static void a_log_is_lowered_and_raised(void **unused)
{
    (void)unused;
    weir_policy high = policy_of("sliding-log 10/1us"), low = policy_of("sliding-log 4/1us");
    uint64_t state[64] = {0}, lowered[64] = {0}, raised[64] = {0};
    weir_decision d;
    assert_true(weir_state_words(&high, 2) <= 64);
    for (int64_t t = 0; t < 9; t++)
        assert_int_equal(weir_check(&high, state, 2, now_ns + t, 1, &d), WEIR_OK);
    const int64_t later_ns = now_ns + 9;
    assert_int_equal(weir_state_convert(&high, state, 2, &low, later_ns, lowered, 2), WEIR_OK);
    assert_int_equal(lowered[0] >> 32, 4); /* 6 units, and three of one */
    assert_int_equal(weir_check(&low, lowered, 2, later_ns, 1, &d), WEIR_OK);
    assert_true(!d.allowed && d.remaining == 0);
    assert_int_equal(d.retry_after_ns, 1000 + 5 - 9);
    assert_int_equal(d.reset_after_ns, 1000 + 8 - 9);
    assert_int_equal(weir_state_convert(&low, lowered, 2, &high, later_ns, raised, 2), WEIR_OK);
    assert_int_equal(weir_check(&high, raised, 2, later_ns, 1, &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 0);
    assert_int_equal(weir_peek(&high, raised, 2, now_ns + 1004, 0, &d), WEIR_OK);
    assert_int_equal(d.remaining, 0);
    assert_int_equal(weir_peek(&high, raised, 2, now_ns + 1005, 0, &d), WEIR_OK);
    assert_int_equal(d.remaining, 6);
    assert_int_equal(weir_check(&low, lowered, 2, now_ns + 1005, 1, &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 0);
}

/* Each layer has its own words, also if their number changes. */
static void layers_are_converted_one_by_one(void **unused)
{
    (void)unused;
    weir_policy from = policy_of("gcra 1/s burst 9 & gcra 3/s burst 9 & fixed-window 9/h");
    weir_policy to = policy_of("gcra 3/s burst 9 & gcra 1/s burst 9 & fixed-window 8/h");
    uint64_t state[8] = {0}, moved[8] = {0};
    weir_decision d;
    assert_int_equal(weir_state_words(&from, 0), 4);
    assert_int_equal(weir_check(&from, state, 0, now_ns, 6, &d), WEIR_OK);
    state[4] = 7; /* behind the state */
    assert_int_equal(weir_state_convert(&from, state, 0, &to, now_ns, moved, 0), WEIR_OK);
    assert_int_equal(moved[0], 0); /* two words, in thirds of a nanosecond */
    assert_int_equal(moved[1], 3 * (now_ns + 2000000000));
    assert_int_equal(moved[2], now_ns + 6000000000);
    assert_int_equal(moved[3], state[3]);
    assert_int_equal(moved[4], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_bucket_owes_no_more_than_it_may),
        cmocka_unit_test(a_slower_rate_owes_no_more_than_it_may),
        cmocka_unit_test(a_negative_tat_was_never_charged),
        cmocka_unit_test(a_damaged_log_is_refused),
        cmocka_unit_test(all_words_are_written),
        cmocka_unit_test(a_state_that_does_not_fit),
        cmocka_unit_test(a_log_is_lowered_and_raised),
        cmocka_unit_test(layers_are_converted_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
