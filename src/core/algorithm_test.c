/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of facts, against what each algorithm and option supports. */

#include "core/algorithm.h"

#include "core/layer.h"

#include <weir/weir_zone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
    NONE = 0,
    COUNT = WEIR_CAN_REFUND | WEIR_CAN_SHARE,
    EVEN = COUNT | WEIR_CAN_LEASE | WEIR_CAN_DRAIN_EVENLY,
    STEPS = COUNT | WEIR_CAN_LEASE,
};

static const struct {
    const char *policy;
    unsigned can;
    bool bucket;
} rows[] = {
    {"gcra 100/s burst 20", EVEN, true},
    {"token-bucket 20 refill 100/s", EVEN, true},
    {"token-bucket 500 refill 5 every 1s", STEPS, true},
    {"leaky-bucket 7/m capacity 5", EVEN, true},
    {"leaky-queue 7/m depth 5", NONE, true},
    {"fixed-window 5000/h", COUNT | WEIR_CAN_EMPTY_AT_ONCE, false},
    {"fixed-window 5/month count-denied", WEIR_CAN_EMPTY_AT_ONCE, false},
    {"sliding-log 5/m", COUNT, false},
    {"sliding-log 5/m count-denied", NONE, false},
    {"sliding-counter 100/m", COUNT, false},
    {"sliding-slices 100/h slices 60", COUNT, false},
    {"concurrent 10 lease 30s", WEIR_CAN_REFUND, false},
    {"gcra 1/s & fixed-window 5/m", COUNT, true},
    {"gcra 1/s & block 5m", WEIR_CAN_REFUND, true},
    {"block 5m doubling 1h & sliding-counter 100/m", WEIR_CAN_REFUND, false},
    {"gcra 1/s & leaky-queue 7/m depth 5", NONE, true},
};

static void check_policy_can(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_policy p;
        weir_status st = weir_policy_parse(&p, rows[i].policy, strlen(rows[i].policy), NULL, NULL);
        assert_int_equal(st, WEIR_OK);
        for (unsigned can = 1; can <= WEIR_CAN_EMPTY_AT_ONCE; can <<= 1)
            assert_int_equal(weir_policy_can(&p, can), (rows[i].can & can) != 0);
        assert_int_equal(weir_layer_is_bucket(&p.layer[0]), rows[i].bucket);
    }
}

/* weir_layer_init() never leaves a format or calendar that is not in its enum. If memory was
 * overwritten, such a layer denies and its state is not touched. */
static void check_unknown_format(void **unused)
{
    (void)unused;
    weir_layer l = {.calendar = (weir_calendar)99, .format = (weir_state_format)99};
    uint64_t state[2] = {1, 2};
    weir_decision d;
    assert_false(weir_layer_has_calendar(&l));
    assert_int_equal(weir_anchor_max(l.calendar), 0);
    assert_false(weir_layer_allows(&l, state, 0, 5, 0));
    assert_int_equal(weir_layer_time(&l, state, 0, 5), 5);
    weir_layer_check(&l, state, 0, 5, 1, true, &d);
    weir_layer_refund(&l, state, 0, NULL, 5, 1);
    assert_true(weir_layer_renew(&l, state, 0, NULL, 5, 5));
    assert_true(state[0] == 1 && state[1] == 2);
}

/* An anchor is at most the last minute, weekday, day of the month or day of a leap year. */
static void check_anchors(void **unused)
{
    (void)unused;
    static const int32_t most[] = {[WEIR_ALIGNED] = 0, [WEIR_FROM_FIRST] = 0, [WEIR_DAY] = 1439,
                                   [WEIR_WEEK] = 6,    [WEIR_MONTH] = 30,     [WEIR_YEAR] = 365};
    for (int i = WEIR_ALIGNED; i <= WEIR_YEAR; i++) {
        weir_layer l = {.algorithm = WEIR_FIXED_WINDOW, .calendar = (weir_calendar)i};
        bool calendar = i >= WEIR_DAY;
        l.limit = l.rate = 5;
        l.period_ns = calendar ? 0 : 9;
        l.window = calendar ? weir_calendar_window : NULL;
        for (l.anchor = -1; l.anchor <= most[i] + 1; l.anchor++) {
            bool good = l.anchor >= 0 && l.anchor <= most[i];
            assert_int_equal(weir_layer_init(&l, NULL), good ? WEIR_OK : WEIR_E_RANGE);
        }
    }
    weir_layer l = {.algorithm = WEIR_GCRA, .limit = 5, .rate = 5, .period_ns = 9, .anchor = 1};
    assert_int_equal(weir_layer_init(&l, NULL), WEIR_E_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_policy_can),
        cmocka_unit_test(check_unknown_format),
        cmocka_unit_test(check_anchors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
