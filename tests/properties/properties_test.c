/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the properties on fixed policies, then on seeded random ones. The environment variable
 * WEIR_SEED sets the seed, which is printed. A failure prints its policy and steps. */

#include "properties.h"

#include "port/random_kit_test.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INPUTS = 4000, BYTES = 160 };

static uint64_t seed = 20260101;

static void random_bytes(uint64_t *x, uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(next_random(x) >> 24);
}

static const char *const policies[] = {
    "gcra 100/s burst 20",
    "gcra 3/s burst 3",
    "gcra 1/s",
    "gcra 12500000000/s burst 2147483647",
    "gcra 1/155382367ns burst 7",
    "gcra 2147483647/3650d burst 2147483647",
    "token-bucket 500 refill 100/s",
    "token-bucket 500 refill 5 every 1s",
    "leaky-bucket 10/s capacity 20",
    "leaky-queue 10/s depth 20",
    "leaky-queue 7/m depth 0",
    "leaky-queue 10/s depth 20 nodelay 8",
    "leaky-queue 7/m depth 5 nodelay 4",
    "leaky-queue 12500000000/s depth 2147483646 nodelay 2147483645",
    "fixed-window 5000/h",
    "fixed-window 5/day",
    "fixed-window 5/week",
    "fixed-window 5/month count-denied",
    "fixed-window 5/year",
    "fixed-window 5/day from 06:00",
    "fixed-window 5/week from sunday",
    "fixed-window 5/month from 31",
    "fixed-window 5/year from 02-29",
    "fixed-window 5/m from-first",
    "fixed-window 5/m from-first count-denied",
    "fixed-window 2147483647/1ns",
    "sliding-log 100/m",
    "sliding-log 5/m count-denied",
    "sliding-counter 100/m",
    "sliding-counter 7/m relaxed",
    "sliding-slices 100/h slices 60",
    "sliding-slices 5/100ns slices 7",
    "gcra 10/s burst 5 & fixed-window 100/d",
    "gcra 1/s burst 1 & fixed-window 1/h",
    "sliding-counter 3/s & sliding-log 3/7s & token-bucket 3 refill 2 every 5s",
    "sliding-log 5/m count-denied & gcra 7/m burst 3 & sliding-slices 20/h slices 6",
};

static void check_fixed(void **unused)
{
    (void)unused;
    uint64_t x = 1;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        for (int round = 0; round < 20; round++) {
            uint8_t bytes[BYTES];
            input in;
            random_bytes(&x, bytes, sizeof bytes);
            assert_true(input_parse(&in, policies[i], bytes, sizeof bytes));
            assert_true(all_properties(&in));
        }
    }
}

static void check_random(bool (*property)(const input *))
{
    uint64_t x = seed;
    int held = 0;
    for (int i = 0; i < INPUTS; i++) {
        uint8_t bytes[BYTES];
        input in;
        random_bytes(&x, bytes, sizeof bytes);
        if (!input_read(&in, bytes, sizeof bytes))
            continue;
        assert_true(property(&in));
        held++;
    }
    assert_true(held > INPUTS / 2); /* most inputs must be valid */
}

#define RANDOM(property)                                                                           \
    static void check_##property(void **unused)                                                    \
    {                                                                                              \
        (void)unused;                                                                              \
        check_random(property);                                                                    \
    }

RANDOM(p1_bound)
RANDOM(p2_fields)
RANDOM(p3_denial_writes_nothing)
RANDOM(p4_clock_back_is_stricter)
RANDOM(p6_buckets_agree)
RANDOM(p7_refund_undoes)
RANDOM(p8_report_is_true)
RANDOM(p9_queue_has_two_stages)
RANDOM(p10_keep_leaves_units)
RANDOM(p11_block_ends)
RANDOM(p12_charge)

int main(void)
{
    const char *given = getenv("WEIR_SEED");
    if (given)
        seed = strtoull(given, NULL, 10);
    printf("seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_fixed),
        cmocka_unit_test(check_p1_bound),
        cmocka_unit_test(check_p2_fields),
        cmocka_unit_test(check_p3_denial_writes_nothing),
        cmocka_unit_test(check_p4_clock_back_is_stricter),
        cmocka_unit_test(check_p6_buckets_agree),
        cmocka_unit_test(check_p7_refund_undoes),
        cmocka_unit_test(check_p8_report_is_true),
        cmocka_unit_test(check_p9_queue_has_two_stages),
        cmocka_unit_test(check_p10_keep_leaves_units),
        cmocka_unit_test(check_p11_block_ends),
        cmocka_unit_test(check_p12_charge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
