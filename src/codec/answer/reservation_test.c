/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parsing the time-to-live of a reservation. */

#include "codec/answer/reservation.h"

#include <weir/weir.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void check_read(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t ns; /* 0: refused */
    } rows[] = {
        {"1", 1000000000},
        {"30", 30000000000},
        {"30s", 30000000000},
        {"500ms", 500000000},
        {"1ns", 1},
        {"1h30m", 5400000000000},
        {"2w", 1209600000000000},
        {"1152921504606846975ns", WEIR_SPAN_NS_MAX},
        {"1152921504606846976ns", 0},
        {"1152921505", 0},
        {"99999999999999999999999999", 0},
        {"", 0},
        {"0", 0},
        {"0s", 0},
        {"-1", 0},
        {"+1", 0},
        {" 1", 0},
        {"1 s", 0},
        {"1.5s", 0},
        {"1S", 0},
        {"s", 0},
        {"day", 0},
        {"1day", 0},
        {"1month", 0},
        {"1s&", 0},
        {"1fromfirst", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ns = 0;
        bool good = weir_ttl_read(rows[i].text, strlen(rows[i].text), &ns);
        assert_int_equal(good, rows[i].ns > 0);
        assert_int_equal(ns, rows[i].ns);
    }
    char zeros[65];
    int64_t ns = 0;
    memset(zeros, '0', sizeof zeros);
    zeros[63] = '7';
    assert_true(weir_ttl_read(zeros, 64, &ns)); /* the longest duration */
    assert_int_equal(ns, 7000000000);
    assert_false(weir_ttl_read(zeros, 65, &ns));
}

static void check_refusal(void **unused)
{
    char text[WEIR_TTL_REFUSAL_MAX];
    (void)unused;
    weir_ttl_refusal(text, "the TTL", 1);
    assert_string_equal(text, "the TTL: expected at most the lease of the policy, found 1ns");
    weir_ttl_refusal(text, "\"ttl\"", 90000000000);
    assert_string_equal(text, "\"ttl\": expected at most the lease of the policy, found 90s");
    weir_ttl_refusal(text, "the TTL", 0);
    assert_string_equal(text, "the TTL: expected a duration, because the policy has no concurrent "
                              "layer, found none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_read),
                                       cmocka_unit_test(check_refusal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
