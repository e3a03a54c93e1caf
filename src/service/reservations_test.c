/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reservations and charges of a service, with lists, shadow and counters. */

#include "service/kit_test.h"

static const char *const trusted[] = {"trusted"}, *const evil[] = {"evil"};

static void set_two(void)
{
    weir_rule_spec specs[] = {spec_of("tokens", "fixed-window 100/h"),
                              spec_of("look", "fixed-window 100/h"),
                              spec_of("queue", "leaky-queue 1/s depth 5")};
    specs[0].allow = trusted;
    specs[0].deny = evil;
    specs[0].allow_len = specs[0].deny_len = 1;
    specs[1].shadow = true;
    set_rules(specs, 3);
}

static weir_request reserve(const char *rule, const char *key, int64_t cost, uint64_t *ret_id)
{
    weir_request request = request_of(rule, key, cost);
    weir_service_reserve(service, &request, 30 * s_ns, now_ns, ret_id);
    return request;
}

static int64_t commit(uint64_t id, int64_t actual, int64_t at_ns, int64_t *ret_over)
{
    weir_decision d;
    assert_int_equal(weir_service_commit(service, id, actual, at_ns, &d, ret_over, NULL), WEIR_OK);
    assert_true(d.allowed || d.remaining == 0); /* or in debt */
    return d.remaining;
}

static void check_commit(void **unused)
{
    (void)unused;
    set_two();
    uint64_t id = 0;
    int64_t over = -1;
    weir_decision d;
    weir_request request = reserve("tokens", "a", 60, &id);
    assert_int_equal(request.status, WEIR_OK);
    assert_true(request.decision.allowed);
    assert_int_equal(request.decision.remaining, 40);
    assert_true(id != WEIR_ID_NONE);
    assert_int_equal(commit(id, 25, now_ns + s_ns, &over), 75);
    assert_int_equal(over, 0);
    assert_int_equal(weir_service_commit(service, id, 0, now_ns + s_ns, &d, &over, NULL),
                     WEIR_E_ABSENT);
    assert_int_equal(weir_service_commit(service, id, -1, now_ns, &d, &over, NULL), WEIR_E_RANGE);
    assert_int_equal(
        weir_service_commit(service, id, (int64_t)WEIR_COST_MAX + 1, now_ns, &d, &over, NULL),
        WEIR_E_RANGE);
    reserve("tokens", "a", 70, &id);
    assert_int_equal(commit(id, 80, now_ns + s_ns, &over), 0);
    assert_int_equal(over, 0); /* the key is in debt */
    assert_false(reserve("tokens", "a", 1, &id).decision.allowed);
    weir_counts c = counts_of("tokens");
    assert_int_equal(c.allowed, 2);
    assert_int_equal(c.denied, 1);
    assert_int_equal(reserve("nobody", "a", 1, &id).status, WEIR_E_ABSENT);
    assert_int_equal(reserve("queue", "a", 1, &id).status, WEIR_E_UNSUPPORTED);
    assert_int_equal(reserve("tokens", "", 1, &id).status, WEIR_E_RANGE);
    request = request_of("tokens", "b", 1);
    weir_service_reserve(service, &request, 0, now_ns, &id);
    assert_int_equal(request.status, WEIR_E_RANGE);
    weir_service_reserve(service, &request, WEIR_SPAN_NS_MAX + 1, now_ns, &id);
    assert_int_equal(request.status, WEIR_E_RANGE);
}

/* Any operation finds the units of a reservation at the time at which it expires. */
static void check_expiry(void **unused)
{
    (void)unused;
    set_two();
    int64_t at_ns = now_ns;
    for (int how = 0; how < 6; how++) {
        static const char *const keys[] = {"0", "1", "2", "3", "4", "5"};
        int64_t end_ns = at_ns + 30 * s_ns;
        uint64_t id, other;
        weir_all_result all;
        weir_request request = request_of("tokens", keys[how], 100);
        weir_service_reserve(service, &request, end_ns - at_ns, at_ns, &id);
        assert_true(request.decision.allowed);
        assert_int_equal(left("tokens", keys[how], end_ns - 1), 0);
        if (how == 0)
            assert_true(weir_service_take(service, NULL, &request, 1, end_ns));
        else if (how == 1)
            assert_true(weir_service_peek(service, NULL, &request, end_ns));
        else if (how == 2)
            assert_true(weir_service_take_all(service, NULL, &request, 1, end_ns, &all));
        else if (how == 3)
            weir_service_reserve(service, &request, s_ns, end_ns, &other);
        else if (how == 4)
            request.decision.allowed = left("tokens", keys[how], end_ns) == 100;
        request.cost = 0;
        if (how == 5) /* a refund of 0 units returns a decision */
            assert_true(weir_service_refund(service, NULL, &request, end_ns));
        assert_int_equal(request.status, WEIR_OK);
        assert_true(request.decision.allowed);
        if (how == 5)
            assert_int_equal(request.decision.remaining, 100);
        at_ns = end_ns;
    }
}

static void check_lists(void **unused)
{
    (void)unused;
    set_two();
    uint64_t id = 7;
    int64_t over = -1;
    weir_request request = reserve("tokens", "trusted", 1000, &id);
    assert_true(request.decision.allowed);
    assert_int_equal(request.reason, WEIR_BY_ALLOW_LIST);
    assert_int_equal(id, WEIR_ID_NONE);
    assert_int_equal(commit(id, 5000, now_ns, &over), WEIR_LIMIT_MAX);
    assert_int_equal(over, 0);
    id = 7;
    request = reserve("tokens", "evil", 1, &id);
    assert_false(request.decision.allowed);
    assert_int_equal(id, 7); /* not written */
    assert_int_equal(request.reason, WEIR_BY_DENY_LIST);
    assert_int_equal(counts_of("tokens").allow_listed, 1);
    assert_int_equal(counts_of("tokens").deny_listed, 1);
}

static void check_shadow(void **unused)
{
    (void)unused;
    set_two();
    uint64_t id = 0, beyond = 0;
    int64_t over = -1;
    assert_int_equal(reserve("look", "a", 80, &id).reason, WEIR_BY_LIMIT);
    weir_request request = reserve("look", "a", 50, &beyond);
    assert_true(request.decision.allowed);
    assert_int_equal(request.reason, WEIR_BY_SHADOW);
    assert_true(beyond != WEIR_ID_NONE && beyond != id);
    assert_int_equal(commit(beyond, 30, now_ns, &over), 0); /* 10 more than the limit */
    assert_int_equal(over, 0);
    assert_int_equal(commit(id, 0, now_ns, &over), 70);
    assert_int_equal(counts_of("look").shadowed, 1);
    assert_int_equal(reserve("look", "full", 100, &id).reason, WEIR_BY_LIMIT);
    assert_int_equal(reserve("look", "full", 1, &beyond).reason, WEIR_BY_SHADOW);
    assert_true(beyond != WEIR_ID_NONE); /* of 0 units */
    assert_int_equal(commit(beyond, 3, now_ns, &over), 0);
    assert_int_equal(over, 0);
}

/* A reservation is a decision, and the latency of decisions is recorded together. */
static void check_latency(void **unused)
{
    (void)unused;
    uint64_t id;
    set_two();
    (void)reserve("tokens", "a", 1, &id);
    (void)reserve("nobody", "a", 1, &id);
    assert_true(weir_service_has_decided(service));
    weir_service_latency(service, 5);
    assert_false(weir_service_has_decided(service));
    assert_int_equal(weir_limiter_latency(limiter).sum_ns, 10);
}

/* A charge is nobody's request: it is not counted, and a key on a list is not charged. */
static void check_charge(void **unused)
{
    (void)unused;
    static const char *const keys[] = {"vip", "bad"};
    weir_rule_spec specs[] = {spec_of("api", "gcra 1/s burst 5"),
                              spec_of("log", "gcra 1/s burst 5")};
    specs[0].allow = &keys[0];
    specs[0].deny = &keys[1];
    specs[0].allow_len = specs[0].deny_len = 1;
    specs[1].shadow = true;
    set_rules(specs, 2);
    weir_request request = {.rule = text_of("api"), .key = text_of("alice"), .cost = 7, .over = 3};
    assert_true(weir_service_charge(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_OK);
    assert_false(request.decision.allowed);
    assert_int_equal(request.decision.retry_after_ns, 2 * s_ns);
    assert_int_equal(request.over, 0);
    assert_int_equal(left("api", "alice", now_ns), 0);
    request.key = text_of("vip");
    assert_true(weir_service_charge(service, NULL, &request, now_ns));
    assert_true(request.decision.allowed);
    assert_int_equal(request.decision.remaining, 5);
    assert_int_equal(request.over, 0);
    request.key = text_of("bad");
    assert_true(weir_service_charge(service, NULL, &request, now_ns));
    assert_false(request.decision.allowed);
    assert_true(request.decision.never);
    request.rule = text_of("log"); /* in shadow, which allows what it denies */
    assert_true(weir_service_charge(service, NULL, &request, now_ns));
    assert_true(request.decision.allowed);
    assert_int_equal(request.reason, WEIR_BY_SHADOW);
    assert_int_equal(left("log", "bad", now_ns), 0);
    request.cost = -1;
    assert_true(weir_service_charge(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_E_RANGE);
    assert_int_equal(counts_of("log").denied, 0);
    assert_int_equal(counts_of("log").allowed, 0);
    assert_int_equal(counts_of("api").denied, 0); /* a cost of 0 is not counted either */
}

/* A debt ends with the generation of its policy's states. */
static void check_debt_is_reset(void **unused)
{
    (void)unused;
    set_two();
    weir_request request = request_of("tokens", "alice", 150), policy = {.rule = text_of("tokens")};
    assert_true(weir_service_charge(service, NULL, &request, now_ns));
    assert_false(request.decision.allowed);
    assert_true(weir_service_reset_policy(service, NULL, &policy, now_ns));
    assert_int_equal(policy.status, WEIR_OK);
    assert_int_equal(left("tokens", "alice", now_ns), 100);
    request.cost = 40;
    assert_true(weir_service_charge(service, NULL, &request, now_ns));
    assert_int_equal(request.decision.remaining, 60);
    assert_int_equal(left("tokens", "alice", now_ns), 60);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_commit),  TEST(check_expiry), TEST(check_lists),         TEST(check_shadow),
        TEST(check_latency), TEST(check_charge), TEST(check_debt_is_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
