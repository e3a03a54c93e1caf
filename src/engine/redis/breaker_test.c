/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The circuit breaker: what opens it, when it probes, how its pauses grow. */

#include "engine/redis/breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const int64_t ms_ns = 1000000;

static void opens_after_failures_in_a_row(void **state)
{
    (void)state;
    weir_breaker b = {0};
    for (int i = 0; i < 20; i++) { /* a reply resets the count */
        for (int k = 1; k < WEIR_BREAKER_FAILURES; k++)
            assert_false(weir_breaker_record(&b, false, false, 0, 0));
        assert_false(weir_breaker_record(&b, false, true, 0, 0));
    }
    for (int k = 1; k < WEIR_BREAKER_FAILURES; k++)
        assert_false(weir_breaker_record(&b, false, false, 0, 0));
    assert_true(weir_breaker_admits(&b, 0));
    assert_true(weir_breaker_record(&b, false, false, 0, 0));
    assert_false(weir_breaker_admits(&b, 0));
    assert_int_equal(b.state, WEIR_BREAKER_OPEN);
}

static weir_breaker opened(int64_t now_ns, uint64_t random)
{
    weir_breaker b = {0};
    for (int k = 0; k < WEIR_BREAKER_FAILURES; k++)
        (void)weir_breaker_record(&b, false, false, now_ns, random);
    return b;
}

static void pauses_grow(void **state)
{
    (void)state;
    for (uint64_t random = 0; random < 1000; random++) {
        int64_t now_ns = 1000, size_ns = WEIR_BREAKER_PAUSE_NS;
        weir_breaker b = opened(now_ns, random * 1000003);
        for (int i = 0; i < 10; i++) {
            int64_t pause_ns = b.until_ns - now_ns;
            assert_in_range(pause_ns, size_ns / 2, size_ns);
            assert_false(weir_breaker_admits(&b, b.until_ns - 1));
            assert_true(weir_breaker_admits(&b, b.until_ns));
            assert_false(weir_breaker_admits(&b, b.until_ns + 1000 * ms_ns));
            now_ns = b.until_ns + 50 * ms_ns;
            assert_true(weir_breaker_record(&b, true, false, now_ns, random * 1000003));
            size_ns =
                size_ns * 2 > WEIR_BREAKER_PAUSE_NS_MAX ? WEIR_BREAKER_PAUSE_NS_MAX : size_ns * 2;
        }
    }
}

static void a_reply_closes_it(void **state)
{
    (void)state;
    weir_breaker b = opened(0, 0);
    assert_false(weir_breaker_record(&b, false, false, 0,
                                     0)); /* a request that was sent before the breaker opened */
    assert_true(weir_breaker_record(&b, false, true, 0, 0));
    assert_true(weir_breaker_admits(&b, 0));
    b = opened(0, 0);
    assert_true(weir_breaker_admits(&b, b.until_ns));
    assert_true(weir_breaker_record(&b, true, true, 0, 0));
    assert_int_equal(b.state, WEIR_BREAKER_CLOSED);
    b = opened(0, 0); /* the first pause again */
    assert_in_range(b.until_ns, WEIR_BREAKER_PAUSE_NS / 2, WEIR_BREAKER_PAUSE_NS);
}

static void a_probe_may_be_abandoned(void **state)
{
    (void)state;
    weir_breaker b = opened(0, 0);
    int64_t at_ns = b.until_ns;
    assert_true(weir_breaker_admits(&b, at_ns));
    assert_false(weir_breaker_admits(&b, at_ns));
    weir_breaker_abandon_probe(&b);
    assert_true(weir_breaker_admits(&b, at_ns));
    assert_true(weir_breaker_record(&b, true, true, at_ns, 0));
    weir_breaker_abandon_probe(&b); /* no probe is in flight */
    assert_int_equal(b.state, WEIR_BREAKER_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_after_failures_in_a_row),
        cmocka_unit_test(pauses_grow),
        cmocka_unit_test(a_reply_closes_it),
        cmocka_unit_test(a_probe_may_be_abandoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
