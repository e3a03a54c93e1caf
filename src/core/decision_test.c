/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The fields of a decision, and the decision for an idle key. */

#include "core/decision.h"

#include "core/check.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The full quota is that of the layer with the lowest limit, the first of equal ones. */
static void check_full_quota(void **state)
{
    static const struct {
        const char *text;
        int64_t limit;
        uint32_t layer;
    } rows[] = {{"fixed-window 5/s & fixed-window 3/m", 3, 1},
                {"fixed-window 3/s & fixed-window 5/m", 3, 0},
                {"fixed-window 3/s & fixed-window 3/m", 3, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_policy p = policy_of(rows[i].text);
        weir_decision d = weir_full_quota(&p);
        assert_true(d.allowed);
        assert_int_equal(d.limit, rows[i].limit);
        assert_int_equal(d.remaining, rows[i].limit);
        assert_int_equal(d.layer, rows[i].layer);
    }
}

/* Times are rounded up to the unit, and -1 stands for `never`. */
static void check_fields(void **state)
{
    weir_decision d = {.limit = 5, .remaining = 4, .retry_after_ns = 1, .reset_after_ns = 2000000};
    int64_t f[WEIR_DECISION_FIELDS];
    (void)state;
    weir_decision_get_fields(&d, 1000000, f);
    assert_int_equal(f[WEIR_FIELD_RETRY_AFTER], 1);
    assert_int_equal(f[WEIR_FIELD_RESET_AFTER], 2);
    d.never = true;
    weir_decision_get_fields(&d, 1000000, f);
    assert_int_equal(f[WEIR_FIELD_RETRY_AFTER], -1);
}

/* weir_decision_of_fields() restores the decision from its fields; a retry_after of -1 is
 * `never`. */
static void check_of_fields(void **state)
{
    static const weir_decision from[] = {
        {.allowed = true,
         .limit = 5,
         .remaining = 4,
         .reset_after_ns = 2000000,
         .delay_ns = 3000000},
        {.limit = 7, .retry_after_ns = 1000000, .reset_after_ns = 2000000},
        {.limit = 7, .never = true, .retry_after_ns = INT64_MAX}};
    (void)state;
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        int64_t f[WEIR_DECISION_FIELDS];
        weir_decision_get_fields(&from[i], 1000000, f);
        weir_decision d = weir_decision_of_fields(f, 1000000);
        assert_int_equal(d.allowed, from[i].allowed);
        assert_int_equal(d.never, from[i].never);
        assert_int_equal(d.layer, 0);
        assert_int_equal(d.limit, from[i].limit);
        assert_int_equal(d.remaining, from[i].remaining);
        assert_int_equal(d.retry_after_ns, from[i].retry_after_ns);
        assert_int_equal(d.reset_after_ns, from[i].reset_after_ns);
        assert_int_equal(d.delay_ns, from[i].delay_ns);
    }
    for (int64_t ms = INT64_MAX / 1000000; ms <= INT64_MAX / 1000000 + 1; ms++) {
        const int64_t f[WEIR_DECISION_FIELDS] = {[WEIR_FIELD_RESET_AFTER] = ms};
        assert_int_equal(weir_decision_of_fields(f, 1000000).reset_after_ns,
                         ms == INT64_MAX / 1000000 ? ms * 1000000 : INT64_MAX);
    }
}

static void check_next_units(void **unused)
{
    (void)unused;
    assert_int_equal(weir_next_units(INT64_MAX, 1000000), -1);
    assert_int_equal(weir_next_units(0, 1000000), 0);
    assert_int_equal(weir_next_units(1000001, 1000000), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_full_quota),
        cmocka_unit_test(check_fields),
        cmocka_unit_test(check_of_fields),
        cmocka_unit_test(check_next_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
