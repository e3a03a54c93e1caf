/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The figures of a peek: of the layer that the decision names, of named and inline policies. */

#include "service/kit_test.h"

static void expect_figures(weir_request *r, int64_t count, int64_t previous, int64_t start_ns)
{
    assert_true(weir_service_peek(service, NULL, r, now_ns));
    weir_service_figures(service, r, now_ns);
    assert_int_equal(r->figures.count, count);
    assert_int_equal(r->figures.previous, previous);
    assert_int_equal(r->figures.start_ns, start_ns);
}

/* What a list decides has no figures. */
static void check_figures(void **unused)
{
    (void)unused;
    static const char *const listed[] = {"vip"};
    weir_rule_spec specs[] = {spec_of("api", "fixed-window 9/h & sliding-counter 5/m"),
                              spec_of("log", "sliding-log 5/m")};
    specs[0].allow = listed;
    specs[0].allow_len = 1;
    set_rules(specs, 2);
    weir_request taken[] = {request_of("api", "alice", 3), request_of("log", "alice", 2)};
    assert_true(weir_service_take(service, NULL, taken, 2, now_ns));
    weir_request r = {.rule = text_of("api"), .key = text_of("alice"), .cost = 1};
    expect_figures(&r, 3, 0, now_ns - now_ns % (60 * s_ns));
    r.cost = 7; /* both layers deny; the wait for the sliding counter never ends */
    expect_figures(&r, 3, 0, now_ns - now_ns % (60 * s_ns));
    r.key = text_of("vip");
    expect_figures(&r, -1, -1, -1);
    r = (weir_request){.rule = text_of("log"), .key = text_of("alice"), .cost = 1};
    expect_figures(&r, 2, -1, -1);
    r.rule = text_of("none");
    expect_figures(&r, -1, -1, -1);
    r = (weir_request){.rule = text_of("fixed-window 5/h"), .by_text = true, .key = text_of("a")};
    expect_figures(&r, 0, -1, now_ns - now_ns % (3600 * s_ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(check_figures, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
