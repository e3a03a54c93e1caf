/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decisions: statuses, overall codes, headers, and how they change over time. */

#include "kit_test.h"

/* The codes of consecutive requests of one hit. */
static void a_limit_denies_what_is_over_it(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {
        {.key = "k", .has_limit = true, .requests_per_unit = 2, .unit = WEIR_RLS_MINUTE}};
    activate_one(&(weir_rls_options){0}, specs, 1);
    for (int i = 1; i <= 4; i++) {
        weir_rls_status s = ask("d", "k=v", 0, now_ns + 10 * s_ns + 1);
        assert_int_equal(s.code, i <= 2 ? WEIR_RLS_OK : WEIR_RLS_OVER_LIMIT);
        assert_true(s.has_limit);
        assert_int_equal(s.requests_per_unit, 2);
        assert_int_equal(s.unit, WEIR_RLS_MINUTE);
        assert_int_equal(s.remaining, i <= 2 ? 2 - i : 0);
        assert_int_equal(s.reset_ns, 50 * s_ns);
    }
    assert_int_equal(ask("d", "k=w", 0, now_ns).remaining, 1); /* another value, another count */
    assert_int_equal(ask("d", "k=v", 0, now_ns + 60 * s_ns).remaining, 1); /* another window */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_limit_denies_what_is_over_it, rls_setup, rls_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
