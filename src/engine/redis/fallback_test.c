/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* on_error, verb by verb. `local` agrees with the store. */

#include "engine/redis/fallback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t us_ns = 1000, ms_ns = 1000000, s_ns = 1000000000;
static const int64_t start_ns = 1767225600000000000;
static const char why[] = "because";

typedef struct bench {
    weir_store *store;
    weir_policy policy;
    weir_fallback fallback;
} bench;

static void begin(bench *b, const char *policy, weir_on_error on_error)
{
    const weir_store_options in = {.memory_bytes = 2 << 20};
    assert_int_equal(weir_store_open(&b->store, &in), WEIR_OK);
    assert_int_equal(weir_policy_parse(&b->policy, policy, strlen(policy), NULL, NULL), WEIR_OK);
    weir_fallback_init(&b->fallback, b->store, on_error);
}

/* Its outputs are not those of any answer. */
static weir_engine_request request(const bench *b, weir_verb verb, const char *key, int64_t cost)
{
    return (weir_engine_request){.verb = verb,
                                 .policy = &b->policy,
                                 .key = {key, strlen(key)},
                                 .policy_id = weir_store_policy_id(b->store, &b->policy),
                                 .cost = cost,
                                 .status = WEIR_E_BUSY,
                                 .reason = "not answered",
                                 .granted = 99,
                                 .throttle_status = WEIR_THROTTLE_ZERO_RATE};
}

static weir_on_error answer(const bench *b, weir_engine_request *q)
{
    weir_on_error by = weir_fallback_answer(&b->fallback, q, start_ns, 300 * ms_ns + 1, why);
    assert_int_equal(q->by_error, by != WEIR_ON_ERROR_REPORT);
    assert_ptr_equal(q->reason, by == WEIR_ON_ERROR_REPORT ? why : NULL);
    if (by != WEIR_ON_ERROR_REPORT)
        assert_int_not_equal(q->granted, 99);
    return by;
}

static weir_decision fresh_by_core(const weir_policy *p, int64_t cost)
{
    uint64_t words[64] = {0};
    weir_decision d;
    assert_true(weir_state_words(p, 0) <= 64);
    assert_int_equal(weir_peek(p, words, 0, start_ns, cost, &d), WEIR_OK);
    return d;
}

static void open_shows_the_full_quota(void **state)
{
    (void)state;
    static const char *const policies[] = {
        "gcra 7/s burst 50", "leaky-queue 5/s depth 4", "fixed-window 9/s", "sliding-log 9/s",
        "gcra 7/s burst 50 & fixed-window 30/m & gcra 1/s burst 30"};
    for (size_t k = 0; k < sizeof policies / sizeof *policies; k++) {
        bench b;
        begin(&b, policies[k], WEIR_ON_ERROR_OPEN);
        for (int64_t cost = 0; cost < 60; cost++) {
            weir_engine_request q =
                request(&b, cost % 2 ? WEIR_VERB_TAKE : WEIR_VERB_PEEK, "a", cost);
            weir_decision want = fresh_by_core(&b.policy, cost);
            assert_int_equal(answer(&b, &q), WEIR_ON_ERROR_OPEN);
            assert_int_equal(q.status, WEIR_OK);
            assert_true(q.by_error);
            assert_int_equal(q.decision.allowed, want.allowed);
            assert_int_equal(q.decision.never, want.never);
            assert_int_equal(q.decision.limit, want.limit);
            assert_int_equal(q.decision.remaining, want.remaining);
            assert_int_equal(q.decision.retry_after_ns, want.retry_after_ns);
            assert_int_equal(q.decision.reset_after_ns, 0);
            if (want.allowed)
                assert_int_equal(q.decision.layer, want.layer);
        }
        weir_engine_request q = request(&b, WEIR_VERB_GRANT, "a", 1000);
        (void)answer(&b, &q);
        assert_int_equal(q.granted, q.decision.limit);
        assert_true(q.decision.allowed);
        weir_store_close(b.store);
    }
}

static void closed_shows_the_wait(void **state)
{
    (void)state;
    bench b;
    begin(&b, "gcra 7/s burst 50", WEIR_ON_ERROR_CLOSED);
    static const weir_verb verbs[] = {WEIR_VERB_TAKE, WEIR_VERB_PEEK, WEIR_VERB_GRANT};
    for (size_t i = 0; i < 3; i++) {
        weir_engine_request q = request(&b, verbs[i], "a", 1);
        q.granted = 9;
        assert_int_equal(answer(&b, &q), WEIR_ON_ERROR_CLOSED);
        assert_int_equal(q.status, WEIR_OK);
        assert_true(q.by_error);
        assert_false(q.decision.allowed);
        assert_int_equal(q.granted, 0);
        assert_int_equal(q.decision.retry_after_ns, 300 * ms_ns + us_ns);
        assert_int_equal(q.decision.remaining, 0);
        assert_int_equal(q.decision.limit, 50);
    }
    weir_engine_request q = request(&b, WEIR_VERB_TAKE, "a", 51);
    (void)answer(&b, &q);
    assert_true(q.decision.never);
    assert_int_equal(q.decision.retry_after_ns, INT64_MAX);
    weir_store_close(b.store);
    begin(&b, "gcra 1/s", WEIR_ON_ERROR_CLOSED); /* a grant needs one unit */
    q = request(&b, WEIR_VERB_GRANT, "a", 9);
    (void)answer(&b, &q);
    assert_false(q.decision.never);
    weir_store_close(b.store);
}

static void local_is_the_store(void **state)
{
    (void)state;
    bench b;
    begin(&b, "gcra 1/s burst 5", WEIR_ON_ERROR_LOCAL);
    weir_engine_request q = request(&b, WEIR_VERB_TAKE, "a", 4);
    assert_int_equal(answer(&b, &q), WEIR_ON_ERROR_LOCAL);
    assert_true(q.by_error && q.decision.allowed);
    assert_int_equal(q.decision.remaining, 1);
    q = request(&b, WEIR_VERB_PEEK, "a", 2);
    (void)answer(&b, &q);
    assert_false(q.decision.allowed);
    q = request(&b, WEIR_VERB_REFUND, "a", 2);
    (void)answer(&b, &q);
    assert_int_equal(q.status, WEIR_OK);
    assert_int_equal(q.decision.remaining, 3);
    q = request(&b, WEIR_VERB_GRANT, "a", 2);
    (void)answer(&b, &q);
    assert_int_equal(q.granted, 2);
    assert_true(q.decision.allowed);
    q = request(&b, WEIR_VERB_GRANT, "a", 2);
    (void)answer(&b, &q);
    assert_int_equal(q.granted, 1);
    assert_false(q.decision.allowed);
    q = request(&b, WEIR_VERB_GRANT, "a", 2);
    (void)answer(&b, &q);
    assert_int_equal(q.granted, 0);
    q = request(&b, WEIR_VERB_RESET, "a", 0);
    (void)answer(&b, &q);
    assert_int_equal(q.status, WEIR_OK);
    assert_int_equal(q.decision.remaining, 5);
    q = request(&b, WEIR_VERB_CHARGE, "a", 7);
    (void)answer(&b, &q);
    assert_int_equal(q.status, WEIR_OK);
    assert_int_equal(q.granted, 7);
    assert_false(q.decision.allowed);
    q = request(&b, WEIR_VERB_CHARGE, "a", WEIR_COST_MAX);
    (void)answer(&b, &q);
    assert_int_equal(q.granted, 1152921504 - 7); /* the debt is at its bound */
    static const weir_verb verbs[] = {WEIR_VERB_TAKE,  WEIR_VERB_PEEK,  WEIR_VERB_REFUND,
                                      WEIR_VERB_RESET, WEIR_VERB_GRANT, WEIR_VERB_THROTTLE};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        q = request(&b, verbs[i], "", 1); /* the store refuses an empty key */
        (void)answer(&b, &q);
        assert_int_equal(q.status, WEIR_E_RANGE);
        assert_int_equal(q.granted, 0);
    }
    assert_int_equal(q.throttle_status, WEIR_THROTTLE_OK); /* of the last one */
    weir_store_close(b.store);
}

static void changes_fail_unless_local(void **state)
{
    (void)state;
    static const weir_on_error hows[] = {WEIR_ON_ERROR_OPEN, WEIR_ON_ERROR_CLOSED,
                                         WEIR_ON_ERROR_REPORT};
    for (size_t i = 0; i < 3; i++) {
        bench b;
        begin(&b, "gcra 1/s burst 5", hows[i]);
        static const weir_verb verbs[] = {WEIR_VERB_REFUND, WEIR_VERB_RESET, WEIR_VERB_CHARGE};
        for (size_t k = 0; k < 3; k++) {
            weir_engine_request q = request(&b, verbs[k], "a", 1);
            assert_int_equal(answer(&b, &q), WEIR_ON_ERROR_REPORT);
            assert_int_equal(q.status, WEIR_E_IO);
            assert_string_equal(q.reason, why);
            assert_false(q.by_error);
        }
        weir_store_close(b.store);
    }
}

/* The on_error of a request takes precedence. Without a store nothing is local. */
static void a_request_may_override_on_error(void **state)
{
    (void)state;
    bench b;
    begin(&b, "gcra 1/s burst 5", WEIR_ON_ERROR_CLOSED);
    weir_engine_request q = request(&b, WEIR_VERB_TAKE, "a", 1);
    q.on_error = WEIR_ON_ERROR_OPEN;
    assert_int_equal(answer(&b, &q), WEIR_ON_ERROR_OPEN);
    q.on_error = WEIR_ON_ERROR_REPORT;
    assert_int_equal(answer(&b, &q), WEIR_ON_ERROR_REPORT);
    assert_int_equal(q.status, WEIR_E_IO);
    weir_fallback_init(&b.fallback, NULL, WEIR_ON_ERROR_LOCAL);
    q.on_error = WEIR_ON_ERROR_DEFAULT;
    assert_int_equal(answer(&b, &q), WEIR_ON_ERROR_REPORT);
    assert_int_equal(q.status, WEIR_E_IO);
    weir_store_close(b.store);
}

static void cl_throttle(void **state)
{
    (void)state;
    bench b;
    begin(&b, "gcra 1/s burst 5", WEIR_ON_ERROR_OPEN);
    weir_engine_request q = request(&b, WEIR_VERB_THROTTLE, "a", 0);
    q.throttle = (weir_throttle){.max_burst = 15, .count = 30, .period_s = 60, .quantity = 3};
    (void)answer(&b, &q);
    assert_int_equal(q.status, WEIR_OK);
    assert_false(q.answer.limited);
    assert_int_equal(q.answer.limit, 16);
    assert_int_equal(q.answer.remaining, 16);
    q.throttle.quantity = 17; /* above the limit */
    (void)answer(&b, &q);
    assert_true(q.answer.limited);
    assert_int_equal(q.answer.retry_after_s, -1);
    q.throttle.count = 0;
    (void)answer(&b, &q);
    assert_int_equal(q.status, WEIR_E_RANGE);
    assert_int_equal(q.throttle_status, WEIR_THROTTLE_ZERO_RATE);

    q.throttle = (weir_throttle){.max_burst = 15, .count = 30, .period_s = 60, .quantity = 3};
    q.on_error = WEIR_ON_ERROR_CLOSED;
    (void)weir_fallback_answer(&b.fallback, &q, start_ns, s_ns + 1, why);
    assert_true(q.answer.limited);
    assert_int_equal(q.answer.retry_after_s, 2);
    assert_int_equal(q.answer.reset_after_s, 2);
    assert_int_equal(q.answer.remaining, 0);
    (void)weir_fallback_answer(&b.fallback, &q, start_ns, s_ns, why);
    assert_int_equal(q.answer.retry_after_s, 1);

    /* The states of a service have the same id. */
    weir_policy p;
    uint64_t id;
    assert_int_equal(weir_throttle_states(b.store, &p, &id), WEIR_OK);
    assert_int_equal(b.fallback.throttle_id, id);
    q.on_error = WEIR_ON_ERROR_LOCAL;
    (void)answer(&b, &q);
    assert_int_equal(q.answer.remaining, 13);
    (void)answer(&b, &q);
    assert_int_equal(q.answer.remaining, 10);
    weir_store_close(b.store);
}

static void the_strictest_on_error_applies(void **state)
{
    (void)state;
    bench b;
    begin(&b, "gcra 1/s burst 5", WEIR_ON_ERROR_OPEN);
    weir_engine_request q[2] = {request(&b, WEIR_VERB_TAKE, "a", 3),
                                request(&b, WEIR_VERB_TAKE, "a", 3)};
    weir_engine_batch r = {.request = q, .len = 2, .all = true};
    assert_int_equal(weir_fallback_answer_all(&b.fallback, &r, start_ns, s_ns, why),
                     WEIR_ON_ERROR_OPEN);
    assert_int_equal(r.blocking, 2);
    assert_true(q[0].decision.allowed && q[1].decision.allowed && q[1].by_error);

    /* One is local: all are, and the costs of a key are added. */
    q[1].on_error = WEIR_ON_ERROR_LOCAL;
    assert_int_equal(weir_fallback_answer_all(&b.fallback, &r, start_ns, s_ns, why),
                     WEIR_ON_ERROR_LOCAL);
    assert_int_equal(r.blocking, 1);
    assert_false(q[1].decision.allowed);
    assert_int_equal(q[1].on_error, WEIR_ON_ERROR_LOCAL);
    assert_int_equal(q[0].on_error, WEIR_ON_ERROR_DEFAULT);
    q[1].cost = 2;
    (void)weir_fallback_answer_all(&b.fallback, &r, start_ns, s_ns, why);
    assert_int_equal(r.blocking, 2);
    assert_int_equal(q[1].decision.remaining, 0);

    /* One is closed: all are. */
    q[0].on_error = WEIR_ON_ERROR_CLOSED;
    assert_int_equal(weir_fallback_answer_all(&b.fallback, &r, start_ns, s_ns, why),
                     WEIR_ON_ERROR_CLOSED);
    assert_int_equal(r.blocking, 0);
    assert_false(q[0].decision.allowed || q[1].decision.allowed);
    q[1].cost = 6; /* above the limit: it denies for ever */
    (void)weir_fallback_answer_all(&b.fallback, &r, start_ns, s_ns, why);
    assert_int_equal(r.blocking, 1);

    q[0].on_error = WEIR_ON_ERROR_REPORT;
    assert_int_equal(weir_fallback_answer_all(&b.fallback, &r, start_ns, s_ns, why),
                     WEIR_ON_ERROR_REPORT);
    assert_int_equal(q[0].status, WEIR_E_IO);
    assert_int_equal(q[1].status, WEIR_E_IO);
    weir_store_close(b.store);
}

/* In either order, and with all outputs written. */
static void the_stricter_of_two_applies(void **state)
{
    (void)state;
    static const weir_on_error rank[] = {WEIR_ON_ERROR_OPEN, WEIR_ON_ERROR_LOCAL,
                                         WEIR_ON_ERROR_CLOSED, WEIR_ON_ERROR_REPORT};
    bench b;
    begin(&b, "gcra 1/s burst 5", WEIR_ON_ERROR_OPEN);
    for (int i = 0; i < 16; i++) {
        int first = i / 4, second = i % 4, most = first > second ? first : second;
        weir_engine_request q[2] = {request(&b, WEIR_VERB_TAKE, "a", 0),
                                    request(&b, WEIR_VERB_TAKE, "b", 0)};
        weir_engine_batch r = {.request = q, .len = 2, .all = true, .blocking = 7};
        q[0].on_error = rank[first];
        q[1].on_error = rank[second];
        assert_int_equal(weir_fallback_answer_all(&b.fallback, &r, start_ns, s_ns, why),
                         rank[most]);
        assert_int_equal(r.blocking, most == 2 ? 0 : 2);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(q[k].status, most == 3 ? WEIR_E_IO : WEIR_OK);
            assert_int_equal(q[k].by_error, most < 3);
            assert_ptr_equal(q[k].reason, most == 3 ? why : NULL);
        }
    }
    weir_store_close(b.store);
}

/* A cost above the limit denies all. */
static void open_denies_a_cost_above_the_limit(void **state)
{
    (void)state;
    bench b;
    begin(&b, "gcra 1/s burst 5", WEIR_ON_ERROR_OPEN);
    weir_engine_request q[2] = {request(&b, WEIR_VERB_TAKE, "a", 3),
                                request(&b, WEIR_VERB_TAKE, "b", 6)};
    weir_engine_batch r = {.request = q, .len = 2, .all = true};
    (void)weir_fallback_answer_all(&b.fallback, &r, start_ns, s_ns, why);
    assert_int_equal(r.blocking, 1);
    assert_true(q[1].decision.never);
    weir_store_close(b.store);
}

/* The first layer that can never allow the cost is named, as the core does. */
static void the_layer_that_never_allows_is_named(void **state)
{
    (void)state;
    bench b;
    begin(&b, "gcra 1/s burst 9 & fixed-window 7/m & fixed-window 5/h", WEIR_ON_ERROR_OPEN);
    for (int64_t cost = 6; cost <= 10; cost++) {
        weir_engine_request q = request(&b, WEIR_VERB_TAKE, "a", cost);
        weir_decision core = fresh_by_core(&b.policy, cost);
        (void)answer(&b, &q);
        assert_true(q.decision.never && core.never);
        assert_int_equal(q.decision.layer, core.layer);
        assert_int_equal(q.decision.limit, core.limit);
        assert_int_equal(q.decision.remaining, core.remaining);
    }
    weir_store_close(b.store);
}

/* What a request keeps counts, with and without the store. */
static void keep_counts(void **state)
{
    (void)state;
    static const int64_t keeps[] = {0, 1, 3, 7, WEIR_KEEP_PERCENT(50), WEIR_KEEP_PERCENT(100)};
    static const weir_on_error by[] = {WEIR_ON_ERROR_OPEN, WEIR_ON_ERROR_LOCAL,
                                       WEIR_ON_ERROR_CLOSED};
    for (size_t i = 0; i < sizeof keeps / sizeof keeps[0] * 3; i++) {
        bench b;
        uint64_t words[64] = {0};
        weir_decision core;
        begin(&b, "fixed-window 12/m & gcra 1/s burst 7", by[i % 3]);
        for (int64_t cost = 0; cost < 9; cost++) {
            weir_engine_request q = request(&b, WEIR_VERB_PEEK, "a", cost);
            q.keep = keeps[i / 3];
            (void)answer(&b, &q);
            assert_int_equal(weir_peek_keep(&b.policy, words, 0, start_ns, cost, q.keep, &core),
                             WEIR_OK);
            assert_int_equal(q.decision.never, core.never);
            assert_int_equal(q.decision.allowed, core.allowed && i % 3 < 2);
            assert_int_equal(q.decision.remaining, i % 3 < 2 ? core.remaining : 0);
            if (core.allowed)
                assert_int_equal(q.decision.limit, core.limit);
        }
        weir_engine_request all = request(&b, WEIR_VERB_TAKE, "a", 7);
        all.keep = keeps[i / 3];
        weir_engine_batch r = {.request = &all, .len = 1, .all = true};
        (void)weir_fallback_answer_all(&b.fallback, &r, start_ns, s_ns, why);
        assert_int_equal(all.decision.allowed, i < 2);
        weir_engine_request one = request(&b, WEIR_VERB_TAKE, "b", 7);
        one.keep = keeps[i / 3];
        (void)answer(&b, &one);
        assert_int_equal(one.decision.allowed, i < 2);
        weir_store_close(b.store);
    }
}

/* Without a store, LOCAL is REPORT, also for several requests as one. */
static void local_needs_a_store(void **state)
{
    (void)state;
    bench b;
    begin(&b, "gcra 1/s burst 9", WEIR_ON_ERROR_LOCAL);
    b.fallback.store = NULL;
    weir_engine_request q[2] = {request(&b, WEIR_VERB_TAKE, "a", 1),
                                request(&b, WEIR_VERB_TAKE, "b", 1)};
    weir_engine_batch r = {.request = q, .len = 2, .all = true};
    assert_int_equal(answer(&b, &q[0]), WEIR_ON_ERROR_REPORT);
    assert_int_equal(weir_fallback_answer_all(&b.fallback, &r, start_ns, ms_ns, why),
                     WEIR_ON_ERROR_REPORT);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(q[i].status, WEIR_E_IO);
        assert_string_equal(q[i].reason, why);
        assert_false(q[i].by_error);
    }
    assert_int_equal(r.blocking, 2);
    weir_store_close(b.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_shows_the_full_quota),
        cmocka_unit_test(closed_shows_the_wait),
        cmocka_unit_test(local_is_the_store),
        cmocka_unit_test(changes_fail_unless_local),
        cmocka_unit_test(a_request_may_override_on_error),
        cmocka_unit_test(cl_throttle),
        cmocka_unit_test(the_layer_that_never_allows_is_named),
        cmocka_unit_test(keep_counts),
        cmocka_unit_test(local_needs_a_store),
        cmocka_unit_test(the_strictest_on_error_applies),
        cmocka_unit_test(the_stricter_of_two_applies),
        cmocka_unit_test(open_denies_a_cost_above_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
