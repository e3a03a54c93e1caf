/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The lease of a charge under a whole policy: when it ends, what is left of it, and that it is
 * given back without the charges of the other layers. */

#include "core/algorithm.h"
#include "core/check.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LEVEL = 3, WORDS = 256 };

static void a_policy_may_hold(void **unused)
{
    (void)unused;
    weir_policy held = policy_of("gcra 1/s & concurrent 5 lease 1s"), none = policy_of("gcra 1/s");
    assert_ptr_equal(weir_policy_hold(&held), &held.layer[1]);
    assert_null(weir_policy_hold(&none));
}

/* When the lease of a charge ends, and what is left of it. */
static void leases_of_a_policy(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("sliding-log 9/100ns & concurrent 5 lease 100ns"), none;
    uint64_t state[WORDS] = {0};
    weir_decision d;
    weir_charged of = {1000, 1100, 2}, more = {1000, 1100, 4}, before = {1000, 1099, 2},
                 after = {1000, 1101, 2};
    assert_int_equal(weir_check(&p, state, LEVEL, 1000, 2, &d), WEIR_OK);
    assert_int_equal(weir_lease_end(&p, state, LEVEL, 1000), 1100);
    assert_int_equal(weir_lease_end(&p, state, LEVEL, 900), 1100);
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &of, 1000), 2);
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &of, 1099), 2);
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &of, 1100), 0);
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &more, 1000), 2);
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &before, 1000),
                     2); /* may be in a later one */
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &before, 1099), 0);
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &after, 1000), 0);
    of.units = 1;
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &of, 1000), 1);
    none = policy_of("sliding-log 9/100ns & gcra 5/s");
    assert_int_equal(weir_lease_end(&none, state, LEVEL, 1000), 0);
    assert_int_equal(weir_lease_held(&none, state, LEVEL, &of, 1000), 0);
    memset(state, 0xff, sizeof state); /* not sound */
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &of, 1000), 0);
}

/* What is held is given back under every policy; its rates stay charged. */
static void units_without_refunds(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("concurrent 5 lease 100ns & leaky-queue 1/s depth 9");
    uint64_t state[WORDS] = {0};
    weir_decision d;
    const weir_charged of = {1000, 1100, 4};
    assert_int_equal(weir_check(&p, state, LEVEL, 1000, 4, &d), WEIR_OK);
    assert_int_equal(d.remaining, 1);
    assert_int_equal(weir_refund_charge(&p, state, LEVEL, &of, 1001, 1, &d), WEIR_E_UNSUPPORTED);
    assert_int_equal(weir_refund_charge(&p, state, LEVEL, &of, 1001, 0, &d), WEIR_OK);
    assert_int_equal(d.remaining, 5);
    assert_int_equal(weir_lease_held(&p, state, LEVEL, &of, 1001), 0);
    assert_int_equal(weir_peek(&p, state, LEVEL, 1001, 5, &d), WEIR_OK);
    assert_true(d.allowed && d.delay_ns == 4 * INT64_C(1000000000) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_may_hold),
        cmocka_unit_test(leases_of_a_policy),
        cmocka_unit_test(units_without_refunds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
