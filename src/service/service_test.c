/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The service: rules with overrides, lists and shadow; changes of rules in use; counters. */

#include "service/kit_test.h"

#include <pthread.h>
#include <stdio.h>

static weir_request take(const char *rule, const char *key, int64_t cost)
{
    weir_request request = {.rule = text_of(rule), .key = text_of(key), .cost = cost};
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    return request;
}

static void check_rules(void **unused)
{
    (void)unused;
    static const weir_override_spec overrides[] = {{.pattern = "big", .limit = "gcra 1/s burst 9"}};
    static const char *const allow[] = {"10.0.0.0/8"}, *const deny[] = {"evil"};
    weir_rule_spec specs[] = {spec_of("api", "gcra 1/s burst 2"), spec_of("look", "gcra 1/s"),
                              spec_of("queue", "leaky-queue 1/s depth 1 & fixed-window 9/h")};
    specs[0].overrides = overrides;
    specs[0].overrides_len = 1;
    specs[0].allow = allow;
    specs[0].allow_len = 1;
    specs[0].deny = deny;
    specs[0].deny_len = 1;
    specs[1].shadow = true;
    specs[2].allow = allow;
    specs[2].allow_len = 1;
    set_rules(specs, 3);

    assert_int_equal(take("api", "alice", 2).decision.remaining, 0);
    weir_request a = take("api", "alice", 1);
    assert_int_equal(a.status, WEIR_OK);
    assert_false(a.decision.allowed);
    assert_int_equal(a.decision.retry_after_ns, s_ns);
    assert_int_equal(take("api", "big", 1).decision.remaining, 8);

    a = take("api", "10.1.1.1", 1000);
    assert_true(a.decision.allowed);
    assert_int_equal(a.reason, WEIR_BY_ALLOW_LIST);
    assert_int_equal(a.decision.limit, 2);
    assert_int_equal(a.decision.remaining, 2);
    a = take("queue", "10.1.1.1", 1); /* the decision of the layer with the lowest limit */
    assert_int_equal(a.decision.limit, 2);
    assert_int_equal(a.decision.layer, 0);

    a = take("api", "evil", 1);
    assert_false(a.decision.allowed);
    assert_true(a.decision.never);
    assert_int_equal(a.reason, WEIR_BY_DENY_LIST);
    assert_int_equal(a.decision.remaining, 0);

    assert_int_equal(take("look", "alice", 1).reason, WEIR_BY_LIMIT);
    a = take("look", "alice", 1);
    assert_true(a.decision.allowed);
    assert_int_equal(a.reason, WEIR_BY_SHADOW);
    assert_int_equal(a.decision.retry_after_ns, 0);

    assert_int_equal(take("nobody", "alice", 1).status, WEIR_E_ABSENT);
    assert_int_equal(take("api", "", 1).status, WEIR_E_RANGE);
    assert_int_equal(take("api", "alice", -1).status, WEIR_E_RANGE);
    /* A list does not allow an invalid request. */
    assert_int_equal(take("api", "10.1.1.1", -1).status, WEIR_E_RANGE);
}

static void check_peek_refund_reset(void **unused)
{
    (void)unused;
    const weir_rule_spec specs[] = {spec_of("api", "gcra 1/s burst 5"),
                                    spec_of("queue", "leaky-queue 1/s depth 5")};
    set_rules(specs, 2);
    take("api", "alice", 3);
    weir_request request = {.rule = text_of("api"), .key = text_of("alice"), .cost = 2};
    assert_true(weir_service_peek(service, NULL, &request, now_ns));
    assert_true(request.decision.allowed);
    assert_int_equal(request.decision.remaining, 2);
    request.cost = 4;
    assert_true(weir_service_peek(service, NULL, &request, now_ns));
    assert_false(request.decision.allowed);
    assert_int_equal(request.decision.retry_after_ns, 2 * s_ns);
    assert_int_equal(request.decision.remaining, 2);
    assert_true(
        weir_service_refund(service, NULL, &request, now_ns)); /* refunds 4 after 3 were taken */
    assert_int_equal(request.decision.remaining, 5);
    take("api", "alice", 5);
    assert_true(weir_service_reset(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_OK);
    assert_int_equal(take("api", "alice", 1).decision.remaining, 4);
    request.rule = text_of("queue");
    assert_true(weir_service_refund(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_E_UNSUPPORTED);
    request.rule = text_of("none");
    assert_true(weir_service_reset(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_E_ABSENT);
    assert_true(weir_service_peek(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_E_ABSENT);
}

/* The addresses of a network are one key in any spelling, also for a reset. */
static void check_addresses(void **unused)
{
    (void)unused;
    const weir_rule_spec spec = spec_of("api", "gcra 1/s burst 3");
    set_rules(&spec, 1);
    assert_int_equal(take("api", "2001:db8::1", 1).decision.remaining, 2);
    assert_int_equal(take("api", "2001:DB8:0:0:ffff::", 1).decision.remaining, 1);
    assert_int_equal(take("api", "2001:db8::/64", 1).decision.remaining, 0);
    assert_int_equal(take("api", "2001:db8:0:1::1", 1).decision.remaining, 2);
    assert_int_equal(take("api", "1.2.3.4", 1).decision.remaining, 2);
    assert_int_equal(take("api", "::ffff:1.2.3.4", 1).decision.remaining, 1);
    assert_int_equal(take("api", "::ffff:102:304", 1).decision.remaining, 0);
}

/* A batch equals single calls, with any mix of rules, keys and inline policies. */
static void check_batch(void **unused)
{
    (void)unused;
    static const char *const denied[] = {"bad"};
    weir_rule_spec specs[] = {spec_of("a", "gcra 1/s burst 3"), spec_of("b", "gcra 1/s burst 3")};
    specs[1].deny = denied;
    specs[1].deny_len = 1;
    set_rules(specs, 2);
    weir_request requests[WEIR_BATCH_MAX];
    for (int i = 0; i < WEIR_BATCH_MAX; i++) {
        static const char *const rules[] = {"a", "b", "none", "gcra 1/s burst 3", "b", "gcra 1/"};
        static const char *const keys[] = {"k", "k", "k", "k", "bad", "k"};
        requests[i] = (weir_request){.rule = text_of(rules[i % 6]),
                                     .key = text_of(keys[i % 6]),
                                     .by_text = i % 6 == 3 || i % 6 == 5,
                                     .cost = 1};
    }
    assert_true(weir_service_take(service, NULL, requests, WEIR_BATCH_MAX, now_ns));
    for (int i = 0; i < WEIR_BATCH_MAX; i++) {
        const weir_request *request = &requests[i];
        switch (i % 6) {
        case 2:
            assert_int_equal(request->status, WEIR_E_ABSENT);
            break;
        case 4:
            assert_int_equal(request->reason, WEIR_BY_DENY_LIST);
            break;
        case 5:
            assert_int_equal(request->status, WEIR_E_SYNTAX);
            assert_int_equal(request->error.column, 8);
            break;
        default:
            assert_int_equal(request->status, WEIR_OK);
            assert_int_equal(request->decision.allowed, i / 6 < 3);
            assert_int_equal(request->decision.remaining, i / 6 < 3 ? 2 - i / 6 : 0);
        }
    }
    assert_true(weir_service_take(service, NULL, requests, 0, now_ns));
}

/* One batch with more inline policies than a set of the cache holds. */
static void check_many_inline_policies(void **unused)
{
    (void)unused;
    static char texts[64][WEIR_BATCH_MAX][40];
    for (int round = 0; round < 64; round++) {
        weir_request requests[WEIR_BATCH_MAX];
        for (int i = 0; i < WEIR_BATCH_MAX; i++) {
            int limit = 1 + round * WEIR_BATCH_MAX + i;
            snprintf(texts[round][i], sizeof texts[0][0], "fixed-window %d/d", limit);
            requests[i] = (weir_request){
                .rule = text_of(texts[round][i]), .key = text_of("k"), .by_text = true, .cost = 1};
        }
        assert_true(weir_service_take(service, NULL, requests, WEIR_BATCH_MAX, now_ns));
        for (int i = 0; i < WEIR_BATCH_MAX; i++) {
            assert_int_equal(requests[i].status, WEIR_OK);
            assert_int_equal(requests[i].decision.limit, 1 + round * WEIR_BATCH_MAX + i);
            assert_int_equal(requests[i].policy->layer[0].limit, requests[i].decision.limit);
        }
    }
}

/* Keys keep their state unless the policy text changed. */
static void check_changes_of_rules(void **unused)
{
    (void)unused;
    weir_rule_spec specs[] = {spec_of("a", "gcra 1/s burst 3"), spec_of("b", "gcra 1/s burst 3")};
    set_rules(specs, 2);
    take("a", "k", 3);
    take("b", "k", 3);
    specs[0].limit = "gcra 60/m burst 03"; /* the same policy in another spelling */
    specs[1].limit = "gcra 1/s   burst 3";
    set_rules(specs, 2);
    assert_true(take("a", "k", 1).decision.allowed);
    assert_false(take("b", "k", 1).decision.allowed);
    weir_rule_error e;
    assert_int_equal(weir_limiter_set_limit(limiter, "c", "gcra 1/s", &e), WEIR_OK);
    assert_true(take("c", "k", 1).decision.allowed);
    assert_int_equal(weir_limiter_set_limit(limiter, "c", "gcra", &e), WEIR_E_SYNTAX);
    assert_false(take("c", "k", 1).decision.allowed); /* its state is kept */
    assert_int_equal(weir_limiter_drop_rule(limiter, "c", 1), WEIR_OK);
    assert_int_equal(weir_limiter_drop_rule(limiter, "c", 1), WEIR_E_ABSENT);
    assert_int_equal(take("c", "k", 1).status, WEIR_E_ABSENT);
    assert_false(take("b", "k", 1).decision.allowed);
    assert_int_equal(weir_limiter_set_limit(limiter, "c", "gcra 1/s", &e), WEIR_OK);
    assert_false(take("c", "k", 1).decision.allowed); /* the rule returns with its states */
}

static void check_counts(void **unused)
{
    (void)unused;
    static const char *const allow[] = {"vip"}, *const deny[] = {"evil"};
    weir_rule_spec specs[] = {spec_of("a", "gcra 1/s burst 2"), spec_of("s", "gcra 1/s")};
    specs[0].allow = allow;
    specs[0].allow_len = 1;
    specs[0].deny = deny;
    specs[0].deny_len = 1;
    specs[1].shadow = true;
    set_rules(specs, 2);
    for (int i = 0; i < 5; i++)
        take("a", "k", 1);
    take("a", "k", 0); /* a peek */
    take("a", "vip", 1);
    take("a", "evil", 1);
    take("a", "", 1);
    take("s", "k", 1);
    take("s", "k", 1);
    take("none", "k", 1);
    weir_counts a = counts_of("a"), s = counts_of("s");
    assert_int_equal(a.allowed, 2);
    assert_int_equal(a.denied, 3);
    assert_int_equal(a.allow_listed, 1);
    assert_int_equal(a.deny_listed, 1);
    assert_int_equal(a.failed, 1);
    assert_int_equal(s.allowed, 1);
    assert_int_equal(s.shadowed, 1);
    assert_int_equal(counts_of(WEIR_COUNTS_OTHERS).failed, 1);

    weir_request request = {
        .rule = text_of("gcra 1/s"), .by_text = true, .key = text_of("k"), .cost = 1};
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    request.rule = text_of("gcra");
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    assert_int_equal(counts_of(WEIR_COUNTS_TEXTS).allowed, 1);
    assert_int_equal(counts_of(WEIR_COUNTS_TEXTS).failed, 1);

    weir_throttle t = {.max_burst = 0, .count = 1, .period_s = 60, .quantity = 1};
    weir_throttle_result answer;
    for (int i = 0; i < 2; i++)
        assert_true(weir_service_throttle(service, NULL, &t, text_of("k"), now_ns, &answer));
    assert_int_equal(counts_of(WEIR_COUNTS_THROTTLE).allowed, 1);
    assert_int_equal(counts_of(WEIR_COUNTS_THROTTLE).denied, 1);

    /* Counts outlive their service and their rule. */
    weir_latency before = weir_limiter_latency(limiter);
    assert_int_equal(before.count[0], 0);
    weir_service_latency(service, 128);
    uint64_t decided = weir_limiter_latency(limiter).count[0];
    assert_true(decided > 10);
    weir_service_latency(service, 128); /* nothing to record twice */
    static const int64_t elapsed_ns[] = {129, INT64_MAX, -5};
    for (int i = 0; i < 3; i++) {
        take("s", "k", 1);
        weir_service_latency(service, elapsed_ns[i]);
    }
    weir_service_close(service);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    set_rules(specs + 1, 1);
    take("s", "k", 1);
    assert_int_equal(counts_of("a").denied, 3);
    assert_int_equal(counts_of("s").shadowed, 5);
    weir_latency l = weir_limiter_latency(limiter);
    assert_int_equal(l.count[0], decided + 1);
    assert_int_equal(l.count[1], 1);
    assert_int_equal(l.count[WEIR_LATENCY_BUCKETS - 1], 1);
}

static bool explains(weir_buffer *out, const char *want)
{
    weir_buffer_append_byte(out, 0);
    bool same = strcmp((const char *)weir_buffer_data(out), want) == 0;
    if (!same)
        print_error("%s", (const char *)weir_buffer_data(out));
    weir_buffer_clear(out);
    return same;
}

static void check_explain(void **unused)
{
    (void)unused;
    static const weir_override_spec overrides[] = {
        {.pattern = "trial-*", .limit = "gcra 1/s burst 1"}};
    static const char *const deny[] = {"evil"};
    weir_rule_spec specs[] = {spec_of("api", "token-bucket 500 refill 100/s & sliding-log 3/1d"),
                              spec_of("look", "gcra 1/s")};
    specs[0].overrides = overrides;
    specs[0].overrides_len = 1;
    specs[0].deny = deny;
    specs[0].deny_len = 1;
    specs[1].shadow = true;
    set_rules(specs, 2);
    weir_buffer out;
    weir_buffer_init(&out, 1 << 16);
    weir_request request = {.rule = text_of("api"), .key = text_of("alice")};
    assert_true(weir_service_explain(service, NULL, &request, now_ns, &out));
    assert_true(explains(&out, "policy   api\n"
                               "key      alice\n"
                               "limit    token-bucket 500 refill 100/s & sliding-log 3/d\n"
                               "state    3 of 3 free under sliding-log 3/d; full\n"
                               "next     now\n"));
    take("api", "alice", 3);
    assert_true(weir_service_explain(service, NULL, &request, now_ns + 1, &out));
    assert_true(explains(&out, "policy   api\n"
                               "key      alice\n"
                               "limit    token-bucket 500 refill 100/s & sliding-log 3/d\n"
                               "state    0 of 3 free under sliding-log 3/d; full again in 1 d\n"
                               "next     in 1 d, at 2026-01-02 00:00:00.000 UTC\n"));
    request.key = text_of("trial-\n");
    take("api", "trial-\n", 1);
    assert_true(weir_service_explain(service, NULL, &request, now_ns + 1500000, &out));
    assert_true(explains(&out, "policy   api\n"
                               "key      trial-\\x0a\n"
                               "limit    gcra 1/s burst 1\n"
                               "         because of the override trial-*\n"
                               "state    0 of 1 free; full again in 0.9985 s\n"
                               "next     in 0.9985 s, at 2026-01-01 00:00:01.000 UTC\n"));
    request.key = text_of("evil");
    assert_true(weir_service_explain(service, NULL, &request, now_ns, &out));
    assert_true(explains(&out, "policy   api\n"
                               "key      evil\n"
                               "limit    token-bucket 500 refill 100/s & sliding-log 3/d\n"
                               "list     on the deny list: always denied\n"));
    take("look", "k", 1);
    request = (weir_request){.rule = text_of("look"), .key = text_of("k")};
    assert_true(weir_service_explain(service, NULL, &request, now_ns, &out));
    assert_true(explains(&out,
                         "policy   look, in shadow mode: it denies no requests\n"
                         "key      k\n"
                         "limit    gcra 1/s burst 1\n"
                         "state    0 of 1 free; full again in 1 s\n"
                         "next     now, because the policy is in shadow mode; its limit would "
                         "deny the request\n"));
    request.rule = text_of("none");
    assert_true(weir_service_explain(service, NULL, &request, now_ns, &out));
    assert_int_equal(request.status, WEIR_E_ABSENT);
    assert_int_equal(weir_buffer_len(&out), 0);
    weir_buffer_free(&out);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, TAKES = 20000, BURST = 1000 };

static void *take_many(void *ctx)
{
    uint64_t *allowed = ctx;
    weir_service *own;
    if (weir_service_open(&own, limiter) != WEIR_OK)
        return NULL;
    for (int i = 0; i < TAKES; i += 4) {
        weir_request requests[4];
        for (int k = 0; k < 4; k++)
            requests[k] = (weir_request){.rule = text_of("hot"), .key = text_of("k"), .cost = 1};
        assert_true(weir_service_take(own, NULL, requests, 4, now_ns));
        for (int k = 0; k < 4; k++)
            *allowed += requests[k].status == WEIR_OK && requests[k].decision.allowed;
    }
    weir_service_close(own);
    return NULL;
}

/* Rules are replaced while threads take: no request is allowed twice, and no state is lost. */
static void check_threads(void **unused)
{
    (void)unused;
    char limit[64];
    snprintf(limit, sizeof limit, "gcra 1/s burst %d", BURST);
    const weir_rule_spec specs[] = {spec_of("hot", limit), spec_of("cold", "gcra 1/s")};
    set_rules(specs, 2);
    pthread_t threads[THREADS];
    uint64_t allowed[THREADS] = {0}, sum = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, &allowed[i]), 0);
    for (int i = 0; i < 200; i++) {
        set_rules(specs, 1 + (size_t)i % 2);
        counts_of("hot");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += allowed[i];
    }
    assert_int_equal(sum, BURST);
    weir_counts c = counts_of("hot");
    assert_int_equal(c.allowed, BURST);
    assert_int_equal(c.allowed + c.denied, THREADS * TAKES);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_rules),
        TEST(check_peek_refund_reset),
        TEST(check_addresses),
        TEST(check_batch),
        TEST(check_many_inline_policies),
        TEST(check_changes_of_rules),
        TEST(check_counts),
        TEST(check_explain),
        TEST(check_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
