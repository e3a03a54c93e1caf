/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Resets of all keys of a policy: of the service's store, and by an engine. */

#include "service/fake_engine_test.h"
#include "service/kit_test.h"
#include "tests/kit/kit.h"

static void take(const char *rule, const char *key, int64_t cost)
{
    weir_request request = request_of(rule, key, cost);
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
}

/* All keys of a rule, with and without an override, and no others. */
static void check_reset_policy(void **unused)
{
    (void)unused;
    static const weir_override_spec override = {.pattern = "vip*", .limit = "gcra 1/s burst 9"};
    static const char *const keys[] = {"alice", "vip-1"};
    weir_rule_spec specs[] = {spec_of("api", "gcra 1/s burst 5"),
                              spec_of("other", "gcra 1/s burst 5")};
    specs[0].overrides = &override;
    specs[0].overrides_len = 1;
    set_rules(specs, 2);
    weir_request text = {.rule = text_of("gcra 1/s burst 5"), .by_text = true};
    weir_request request = {.rule = text_of("api")};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++)
            take("api", keys[i], 2);
        if (round == 0)
            take("other", "alice", 2);
        assert_int_equal(left("api", "alice", now_ns), 3);
        assert_int_equal(left("api", "vip-1", now_ns), 7);
        assert_true(weir_service_reset_policy(service, NULL, &request, 0));
        assert_int_equal(request.status, WEIR_OK);
        assert_int_equal(left("api", "alice", now_ns), 5);
        assert_int_equal(left("api", "vip-1", now_ns), 9);
        assert_int_equal(left("other", "alice", now_ns), 3);
    }
    /* A changed rule with the same name is the same policy. */
    take("api", "alice", 2);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/s burst 6", NULL), WEIR_OK);
    take("api", "alice", 2);
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_int_equal(left("api", "alice", now_ns), 6);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/s burst 5", NULL), WEIR_OK);
    assert_int_equal(left("api", "alice", now_ns), 5);
    /* In its generation, a changed limit keeps what was used. */
    take("api", "alice", 2);
    take("api", "vip-2", 4);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/s burst 8", NULL), WEIR_OK);
    assert_int_equal(left("api", "alice", now_ns), 6);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/s burst 5", NULL), WEIR_OK);
    assert_int_equal(left("api", "alice", now_ns), 3);
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_int_equal(left("api", "alice", now_ns), 5);
    assert_int_equal(left("api", "vip-2", now_ns), 9);
    /* A policy text has states of its own. */
    weir_request one = {.rule = text.rule, .by_text = true, .key = text_of("alice"), .cost = 2};
    assert_true(weir_service_take(service, NULL, &one, 1, now_ns));
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_true(weir_service_peek(service, NULL, &one, now_ns));
    assert_int_equal(one.decision.remaining, 3);
    assert_true(weir_service_reset_policy(service, NULL, &text, 0));
    assert_int_equal(text.status, WEIR_OK);
    assert_true(weir_service_peek(service, NULL, &one, now_ns));
    assert_int_equal(one.decision.remaining, 5);
    assert_int_equal(left("other", "alice", now_ns), 3);
}

static void check_reset_policy_errors(void **unused)
{
    (void)unused;
    weir_rule_spec specs[] = {spec_of("far", "gcra 1/s"), spec_of("last", "gcra 1/s"),
                              spec_of("near", "gcra 1/s")};
    specs[0].engine = WEIR_ENGINE_REDIS;
    set_rules(specs, 3);
    weir_request request = {.rule = text_of("none")};
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_int_equal(request.status, WEIR_E_ABSENT);
    request = (weir_request){.rule = text_of("gcra 1/x"), .by_text = true};
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_int_equal(request.status, WEIR_E_SYNTAX);
    assert_int_equal(request.error.column, 8);
    request = (weir_request){.rule = text_of("far")};
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_int_equal(request.status, WEIR_E_UNSUPPORTED);
    assert_string_equal(request.why, "the policy's engine is redis, but no server is configured: "
                                     "add redis: with a url to weir.yaml");
    for (uint64_t i = 1; i < 96; i++) /* "gcra 2/s" is one of 96 */
        assert_int_equal(weir_store_reset_policy(store, i), WEIR_OK);
    request = (weir_request){.rule = text_of("gcra 2/s"), .by_text = true};
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_int_equal(request.status, WEIR_OK);
    request.rule = text_of("gcra 3/s");
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_int_equal(request.status, WEIR_E_FULL);
    assert_string_equal(request.why, "the store remembers the resets of 96 policies, and can reset "
                                     "only named ones beyond that; give the policy a name, or "
                                     "reset keys one by one");
    request = (weir_request){.rule = text_of("near")};
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_int_equal(request.status, WEIR_OK);
    request = (weir_request){.rule = text_of("last")};
    for (uint64_t i = 96; i < WEIR_RESETS_MAX - 1; i++)
        assert_int_equal(weir_store_reset_policy(store, i), WEIR_OK);
    assert_true(weir_service_reset_policy(service, NULL, &request, 0));
    assert_int_equal(request.status, WEIR_E_FULL);
    assert_string_equal(request.why, "the store remembers the resets of 192 policies, and cannot "
                                     "reset another one; reset keys one by one");
}
static int ready;

/* An engine resets by the rule's name or a text; the answer may come later. */
static void check_reset_by_an_engine(void **unused)
{
    (void)unused;
    fake_engine *engine = fake_open();
    weir_completion completion = {.ready = count_ready, .ctx = &ready};
    weir_rule_spec specs[] = {spec_of("far", "gcra 1/s"), spec_of("near", "gcra 1/s burst 5")};
    specs[0].engine = WEIR_ENGINE_REDIS;
    specs[0].shadow = true;
    set_rules(specs, 2);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &engine->engine);
    weir_request request = {.rule = text_of("far"), .cost = 7, .keep = 3};
    ready = 0;
    for (int i = 0; i < 2; i++) {
        assert_false(weir_service_reset_policy(service, &completion, &request, now_ns));
        assert_int_equal(engine->resets, i);
        fake_reply(engine, 0, now_ns);
        assert_int_equal(ready, i + 1);
        assert_int_equal(engine->resets, i + 1);
        assert_true(weir_service_reset_policy(service, &completion, &request, now_ns));
        assert_int_equal(request.status, WEIR_OK);
        request = (weir_request){.rule = text_of("gcra 1/s"), .by_text = true, .cost = 7};
        set_default_engine(WEIR_ENGINE_REDIS);
    }
    engine->immediate = true;
    assert_true(weir_service_reset_policy(service, &completion, &request, now_ns));
    assert_int_equal(request.status, WEIR_OK);
    assert_int_equal(engine->resets, 3);
    engine->status = WEIR_E_IO;
    engine->reason = "no server";
    assert_true(weir_service_reset_policy(service, &completion, &request, now_ns));
    assert_int_equal(request.status, WEIR_E_IO);
    assert_string_equal(request.why, "no server");
    assert_int_equal(service->decided, 0);
    /* A rule with the local engine does not ask it. */
    take("near", "alice", 2);
    request = (weir_request){.rule = text_of("near")};
    assert_true(weir_service_reset_policy(service, &completion, &request, now_ns));
    assert_int_equal(request.status, WEIR_OK);
    assert_int_equal(left("near", "alice", now_ns), 5);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, NULL);
    engine->engine.calls->close(&engine->engine);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_reset_policy),
        TEST(check_reset_policy_errors),
        TEST(check_reset_by_an_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
