/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Keys keep what they used when a limit changes: by a reload, WEIR.POLICY SET, or another
 * override. */

#include "service/kit_test.h"
#include "store/iterate.h"

#include <stdio.h>

static void charge(const char *rule, const char *key, int64_t cost)
{
    weir_request request = request_of(rule, key, cost);
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    assert_int_equal(request.status, WEIR_OK);
    assert_true(request.decision.allowed);
}

static void set_limit(const char *name, const char *limit)
{
    weir_rule_spec spec = spec_of(name, limit);
    set_rules(&spec, 1);
    weir_service_refresh(service);
}

static void reloads(void **unused)
{
    (void)unused;
    set_limit("q", "fixed-window 1000/month");
    charge("q", "acme", 900);
    set_limit("q", "fixed-window 2000/month");
    assert_int_equal(left("q", "acme", now_ns), 1100);
    set_limit("q", "fixed-window 950/month");
    assert_int_equal(left("q", "acme", now_ns), 50);
    set_limit("q", "fixed-window 950/month & gcra 1/s burst 5");
    assert_int_equal(left("q", "acme", now_ns), 5);
    set_limit("q", "fixed-window 800/month");
    assert_int_equal(left("q", "acme", now_ns), 0);
    assert_int_equal(weir_limiter_set_limit(limiter, "q", "fixed-window 1000/month", NULL),
                     WEIR_OK);
    weir_service_refresh(service);
    charge("q", "acme", 100);
    assert_int_equal(left("q", "acme", now_ns), 0);
    assert_int_equal(left("q", "other", now_ns), 1000);
}

/* An override starts to match, changes, and ceases to match. */
static void overrides(void **unused)
{
    (void)unused;
    weir_rule_spec spec = spec_of("q", "token-bucket 100 refill 100/d");
    weir_override_spec override = {.pattern = "acme", .limit = "token-bucket 400 refill 100/d"};
    set_rules(&spec, 1);
    weir_service_refresh(service);
    charge("q", "acme", 60);
    charge("q", "other", 10);
    spec.overrides = &override;
    spec.overrides_len = 1;
    set_rules(&spec, 1);
    weir_service_refresh(service);
    assert_int_equal(left("q", "acme", now_ns), 340);
    charge("q", "acme", 20);
    override.limit = "token-bucket 500 refill 1000/d";
    set_rules(&spec, 1);
    weir_service_refresh(service);
    assert_int_equal(left("q", "acme", now_ns), 420);
    spec.overrides_len = 0;
    set_rules(&spec, 1);
    weir_service_refresh(service);
    assert_int_equal(left("q", "acme", now_ns), 20);
    assert_int_equal(left("q", "other", now_ns), 90);
}

static char seen[512];

static void note(void *ctx, const weir_limit_change *c)
{
    (void)ctx;
    size_t len = strlen(seen);
    snprintf(seen + len, sizeof seen - len, "%s: %s, %s: %s\n", c->name, c->from, c->to,
             c->kept ? "kept" : "reset");
}

/* The engines redis and hybrid have the same states, and the local one has others. */
static void comparison(void **unused)
{
    (void)unused;
    weir_rules *rules;
    weir_rule_spec old[] = {spec_of("a", "gcra 1/s"), spec_of("b", "gcra 1/s"),
                            spec_of("c", "gcra 1/s"), spec_of("d", "gcra 1/s"),
                            spec_of("e", "gcra 1/s"), spec_of("g", "gcra 1/s"),
                            spec_of("h", "gcra 1/s")};
    weir_rule_spec new[] = {spec_of("a", "gcra  1/s"), spec_of("b", "gcra 2/s"),
                            spec_of("c", "gcra 1/m"),  spec_of("d", "gcra 2/s"),
                            spec_of("f", "gcra 2/s"),  spec_of("g", "gcra 2/s"),
                            spec_of("h", "gcra 2/s")};
    new[3].engine = old[5].engine = new[5].engine = old[6].engine = WEIR_ENGINE_REDIS;
    new[5].engine = WEIR_ENGINE_HYBRID;
    set_rules(old, 7);
    assert_int_equal(weir_rules_build(&rules, store, NULL, new, 7), WEIR_OK);
    seen[0] = '\0';
    weir_limiter_compare(limiter, rules, note, NULL);
    assert_string_equal(seen, "b: gcra 1/s burst 1, gcra 2/s burst 1: kept\n"
                              "c: gcra 1/s burst 1, gcra 1/m burst 1: reset\n"
                              "d: gcra 1/s burst 1, gcra 2/s burst 1: reset\n"
                              "g: gcra 1/s burst 1, gcra 2/s burst 1: kept\n"
                              "h: gcra 1/s burst 1, gcra 2/s burst 1: reset\n");
    weir_rules_discard(rules);
}

/* The log does not say `kept` of a limit that the store has no space to remember. */
static void too_many_limits(void **unused)
{
    (void)unused;
    weir_rules *rules;
    weir_rule_spec spec = spec_of("a", "fixed-window 10/d");
    set_rules(&spec, 1);
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, "gcra 1/s", 8, NULL, NULL), WEIR_OK);
    for (uint64_t id = 1; id <= 5000; id++)
        weir_store_note_policy(store, id, &p);
    spec.limit = "fixed-window 20/d";
    assert_int_equal(weir_rules_build(&rules, store, NULL, &spec, 1), WEIR_OK);
    seen[0] = '\0';
    weir_limiter_compare(limiter, rules, note, NULL);
    assert_string_equal(seen, "a: fixed-window 10/d, fixed-window 20/d: reset\n");
    weir_rules_discard(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reloads, setup, teardown),
        cmocka_unit_test_setup_teardown(overrides, setup, teardown),
        cmocka_unit_test_setup_teardown(comparison, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_limits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
