/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Atomic takes: all or nothing, with lists, shadow and counters, and by many threads. */

#include "service/kit_test.h"

#include <pthread.h>
#include <stdio.h>

static const char *const trusted[] = {"trusted"}, *const evil[] = {"evil"};

static void set_three(void)
{
    weir_rule_spec specs[] = {
        spec_of("user", "fixed-window 5/h"), spec_of("tenant", "fixed-window 8/h"),
        spec_of("whole", "gcra 1/s burst 100"), spec_of("look", "fixed-window 3/h"),
        spec_of("queue", "leaky-queue 1/s depth 5")};
    specs[0].allow = trusted;
    specs[0].deny = evil;
    specs[0].allow_len = specs[0].deny_len = 1;
    specs[3].shadow = true;
    specs[3].allow = trusted;
    specs[3].allow_len = 1;
    set_rules(specs, 5);
}

static weir_all_result take_all(weir_request *requests, size_t n)
{
    weir_all_result all;
    assert_true(weir_service_take_all(service, NULL, requests, n, now_ns, &all));
    assert_int_equal(all.status, WEIR_OK);
    return all;
}

static void check_all_or_none(void **unused)
{
    (void)unused;
    set_three();
    weir_request requests[] = {request_of("user", "a", 3), request_of("tenant", "t", 3),
                               request_of("whole", "w", 3)};
    weir_all_result all = take_all(requests, 3);
    assert_true(all.allowed);
    assert_int_equal(all.index, 0); /* it has the least remaining */
    assert_int_equal(requests[0].decision.remaining, 2);
    assert_int_equal(requests[1].decision.remaining, 5);
    assert_int_equal(requests[2].decision.remaining, 97);
    all = take_all(requests, 3);
    assert_false(all.allowed);
    assert_int_equal(all.index, 0);
    assert_false(requests[0].decision.allowed);
    assert_true(requests[1].decision.allowed);
    assert_int_equal(left("user", "a", now_ns), 2);
    assert_int_equal(left("tenant", "t", now_ns), 5);
    assert_int_equal(left("whole", "w", now_ns), 97);
    requests[0] = request_of("user", "b", 5);
    requests[1].cost = 5;
    assert_true(take_all(requests, 3).allowed);
    requests[0] = request_of("user", "c", 1);
    requests[1].cost = 1;
    all = take_all(requests, 3);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1); /* the tenant has no quota left */
    assert_int_equal(left("user", "c", now_ns), 5);
    weir_counts c = counts_of("user");
    assert_int_equal(c.allowed, 2);
    assert_int_equal(c.denied, 1);
    c = counts_of("tenant");
    assert_int_equal(c.allowed, 2);
    assert_int_equal(c.denied, 1);
    c = counts_of("whole");
    assert_int_equal(c.allowed, 2);
    assert_int_equal(c.denied, 0);
}

static void check_keep(void **unused)
{
    (void)unused;
    set_three();
    weir_request requests[] = {request_of("user", "a", 3), request_of("tenant", "t", 3)};
    requests[0].keep = 3;
    weir_all_result all = take_all(requests, 2);
    assert_false(all.allowed);
    assert_int_equal(all.index, 0);
    assert_true(requests[0].decision.never);
    requests[0].keep = WEIR_KEEP_PERCENT(40);
    all = take_all(requests, 2);
    assert_true(all.allowed);
    assert_int_equal(requests[0].decision.remaining, 0);
    assert_int_equal(requests[1].decision.remaining, 5);
    assert_int_equal(left("user", "a", now_ns), 2);
}

/* Among requests with equal remaining quota or equal waits, the latest reset represents all. */
static void check_ties(void **unused)
{
    (void)unused;
    weir_rule_spec specs[] = {spec_of("soon", "gcra 1/s"), spec_of("late", "fixed-window 1/h"),
                              spec_of("sooner", "gcra 2/s")};
    set_rules(specs, 3);
    weir_request requests[] = {request_of("soon", "k", 1), request_of("late", "k", 1),
                               request_of("sooner", "k", 1)};
    weir_all_result all = take_all(requests, 3);
    assert_true(all.allowed);
    assert_int_equal(all.index, 1);
    for (int i = 0; i < 3; i++)
        requests[i].cost = 2; /* never allowed by any */
    all = take_all(requests, 3);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1);
    requests[1] = request_of("soon", "k", 1);
    requests[0] = request_of("sooner", "k", 1);
    assert_int_equal(take_all(requests, 2).index, 1);
    requests[2] = request_of("sooner", "k", 1); /* two are above the limit */
    assert_int_equal(take_all(requests, 3).index, 2);
}

/* The same key twice is charged the sum. A cost of 0 is a peek. A single request is a take. */
static void check_same_key(void **unused)
{
    (void)unused;
    set_three();
    weir_request requests[] = {request_of("user", "a", 3), request_of("user", "a", 3)};
    assert_false(take_all(requests, 2).allowed);
    assert_int_equal(left("user", "a", now_ns), 5);
    assert_true(requests[1].decision.never); /* 6 are above the limit */
    assert_int_equal(requests[1].decision.remaining, 5);
    assert_true(requests[0].decision.allowed && requests[0].decision.remaining == 5);
    requests[1].cost = 2;
    assert_true(take_all(requests, 2).allowed);
    assert_int_equal(left("user", "a", now_ns), 0);
    requests[0].cost = requests[1].cost = 0;
    assert_true(take_all(requests, 2).allowed);
    assert_int_equal(counts_of("user").allowed, 2); /* peeks are not counted */
    requests[0] = request_of("user", "b", 1);
    assert_true(take_all(requests, 1).allowed);
    assert_int_equal(left("user", "b", now_ns), 4);
    requests[0] = (weir_request){
        .rule = text_of("gcra 1/s burst 9"), .by_text = true, .key = text_of("x"), .cost = 2};
    assert_true(take_all(requests, 1).allowed);
    assert_int_equal(requests[0].decision.remaining, 7);
    for (int i = 0; i < 2; i++)
        requests[i] = (weir_request){.rule = text_of("fixed-window 2147483647/h"),
                                     .by_text = true,
                                     .key = text_of("x"),
                                     .cost = WEIR_COST_MAX - (i == 0)};
    requests[1].cost = 1; /* the sum is the limit */
    assert_true(take_all(requests, 2).allowed);
    requests[0].key = requests[1].key = text_of("y");
    requests[1].cost = 2; /* the sum is no cost */
    assert_false(take_all(requests, 2).allowed);
    assert_true(requests[1].decision.never);
    assert_int_equal(requests[1].decision.remaining, WEIR_COST_MAX);
}

/* A denial of several tells the wait until the sum fits, not until the last request does. It does
 * not tell the wait after the denial was counted, since it was not. */
static void check_wait_for_sum(void **unused)
{
    (void)unused;
    weir_rule_spec specs[] = {spec_of("a", "gcra 1/s burst 5"),
                              spec_of("c", "sliding-log 5/m count-denied")};
    set_rules(specs, 2);
    weir_request requests[] = {request_of("a", "k", 4), request_of("a", "k", 2),
                               request_of("a", "k", 0)};
    assert_true(take_all(requests, 1).allowed);
    requests[0].cost = 2; /* 1 is left */
    weir_all_result all = take_all(requests, 3);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1);
    assert_int_equal(requests[0].decision.retry_after_ns, 1000000000);
    assert_int_equal(requests[1].decision.retry_after_ns, 3000000000);
    assert_int_equal(requests[1].decision.remaining, 1);
    assert_int_equal(requests[2].decision.retry_after_ns, 3000000000);
    requests[0] = request_of("c", "k", 2);
    assert_true(take_all(requests, 1).allowed);
    const int64_t later_ns = now_ns + 30000000000;
    assert_true(weir_service_take_all(service, NULL, requests, 1, later_ns, &all));
    assert_true(all.allowed);
    requests[0].cost = 3;
    assert_true(weir_service_take_all(service, NULL, requests, 1, later_ns, &all));
    assert_false(all.allowed);
    assert_int_equal(requests[0].decision.retry_after_ns, 30000000000);
    assert_int_equal(requests[0].decision.remaining, 1);
}

static void check_lists(void **unused)
{
    (void)unused;
    set_three();
    weir_request requests[] = {request_of("user", "trusted", 1000), request_of("tenant", "t", 8)};
    weir_all_result all = take_all(requests, 2);
    assert_true(all.allowed);
    assert_int_equal(all.index, 1); /* the other one is on a list */
    assert_int_equal(requests[0].reason, WEIR_BY_ALLOW_LIST);
    all = take_all(requests, 2);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1);
    assert_int_equal(counts_of("user").allow_listed, 1);
    requests[1] = request_of("look", "trusted", 1000);
    all = take_all(requests, 2); /* no request is counted */
    assert_true(all.allowed);
    assert_int_equal(all.index, 0);

    weir_request denied[] = {request_of("tenant", "u", 2), request_of("user", "evil", 0),
                             request_of("look", "u", 1)};
    all = take_all(denied, 3);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1);
    assert_int_equal(denied[1].reason, WEIR_BY_DENY_LIST);
    assert_true(denied[1].decision.never);
    assert_true(denied[0].decision.allowed); /* alone it is allowed */
    assert_int_equal(denied[0].decision.remaining, 8);
    assert_int_equal(left("look", "u", now_ns), 3);
    denied[1].cost = 1;
    take_all(denied, 3);
    assert_int_equal(counts_of("user").deny_listed, 1); /* one of the two was a peek */
    assert_int_equal(counts_of("tenant").allowed, 1);
}

/* A rule in shadow denies nothing, and counts only requests that passed. */
static void check_shadow(void **unused)
{
    (void)unused;
    set_three();
    weir_request requests[] = {request_of("look", "a", 2), request_of("user", "a", 2)};
    weir_all_result all = take_all(requests, 2);
    assert_true(all.allowed);
    assert_int_equal(all.index, 1); /* the rule in shadow has less, but does not count */
    assert_int_equal(left("look", "a", now_ns), 1);
    assert_true(take_all(requests, 2).allowed);
    assert_int_equal(requests[0].reason, WEIR_BY_SHADOW);
    assert_int_equal(left("look", "a", now_ns), 1); /* its limit allows no 2 units */
    assert_int_equal(left("user", "a", now_ns), 1);
    requests[0].cost = 1;
    all = take_all(requests, 2);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1);
    assert_int_equal(left("look", "a", now_ns), 1); /* the whole was denied */
    weir_counts c = counts_of("look");
    assert_int_equal(c.allowed, 1);
    assert_int_equal(c.shadowed, 1);
    assert_int_equal(c.denied, 0);
    assert_true(take_all(requests, 1).allowed); /* only a rule in shadow */
    assert_int_equal(left("look", "a", now_ns), 0);
    weir_request last[] = {request_of("user", "b", 1), request_of("look", "a", 1)};
    assert_true(take_all(last, 2).allowed);
    assert_true(last[1].decision.allowed);
    assert_int_equal(last[1].reason, WEIR_BY_SHADOW);
}

static void check_delay(void **unused)
{
    (void)unused;
    set_three();
    weir_request requests[] = {request_of("queue", "a", 1), request_of("queue", "b", 2),
                               request_of("user", "a", 1)};
    assert_int_equal(take_all(requests, 3).delay_ns, 0);
    assert_int_equal(take_all(requests, 3).delay_ns, 2 * s_ns);
    requests[2].cost = 6;
    weir_all_result all = take_all(requests, 3);
    assert_false(all.allowed);
    assert_int_equal(all.delay_ns, 0);
}

static void check_failures(void **unused)
{
    (void)unused;
    set_three();
    weir_all_result all;
    weir_request requests[] = {request_of("user", "a", 1), request_of("nobody", "a", 1),
                               request_of("user", "", 1)};
    assert_true(weir_service_take_all(service, NULL, requests, 3, now_ns, &all));
    assert_int_equal(all.status, WEIR_E_ABSENT);
    assert_int_equal(requests[0].status, WEIR_OK);
    assert_int_equal(requests[1].status, WEIR_E_ABSENT);
    assert_int_equal(requests[2].status, WEIR_E_RANGE);
    requests[1] = (weir_request){.rule = text_of("gcra 1/x"), .by_text = true, .key = text_of("a")};
    assert_true(weir_service_take_all(service, NULL, requests, 2, now_ns, &all));
    assert_int_equal(all.status, WEIR_E_SYNTAX);
    assert_true(requests[1].error.column > 0);
    assert_int_equal(left("user", "a", now_ns), 5);
    assert_true(weir_service_take_all(service, NULL, requests, 0, now_ns, &all));
    assert_int_equal(all.status, WEIR_E_RANGE);
    assert_true(weir_service_take_all(service, NULL, requests, WEIR_ALL_MAX + 1, now_ns, &all));
    assert_int_equal(all.status, WEIR_E_RANGE);
    /* The store refuses the time. */
    requests[1] = request_of("look", "a", 1);
    assert_true(weir_service_take_all(service, NULL, requests, 2, -1, &all));
    assert_int_equal(all.status, WEIR_E_RANGE);
    assert_int_equal(requests[0].status, WEIR_E_RANGE);
    assert_int_equal(left("look", "a", now_ns), 3);
    assert_int_equal(counts_of("user").failed, 2);
    assert_int_equal(counts_of("user").allowed + counts_of("user").denied, 0); /* undecided */
    assert_int_equal(counts_of("look").failed, 0);
    assert_int_equal(counts_of(WEIR_COUNTS_OTHERS).failed, 1);
    assert_int_equal(counts_of(WEIR_COUNTS_TEXTS).failed, 1);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum {
    THREADS = 4,
    ROUNDS = 3000,
    USERS = 3,
    USER_MAX = 2000,
    TENANT_MAX = 3500,
    WHOLE_MAX = 5000
};

typedef struct worker {
    int64_t charged[2][USERS]; /* allowed units, by tenant and user */
    unsigned number;
    int failures;
} worker;

/* Users of two tenants under one total limit, with requests in random order. */
static void *take_at_random(void *arg)
{
    worker *w = arg;
    weir_service *own;
    if (weir_service_open(&own, limiter) != WEIR_OK) {
        w->failures++;
        return NULL;
    }
    uint64_t seed = w->number;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        unsigned tenant = seed >> 40 & 1, user = (unsigned)(seed >> 44) % USERS;
        unsigned completion = (unsigned)(seed >> 50) % 3;
        char user_key[16], tenant_key[16];
        int64_t cost = (int64_t)(seed >> 55 & 3);
        snprintf(user_key, sizeof user_key, "%u/%u", tenant, user);
        snprintf(tenant_key, sizeof tenant_key, "%u", tenant);
        weir_request requests[3];
        requests[completion] = request_of("user", user_key, cost);
        requests[(completion + 1) % 3] = request_of("tenant", tenant_key, cost);
        requests[(completion + 2) % 3] = request_of("whole", "all", cost);
        weir_all_result all;
        bool good =
            weir_service_take_all(own, NULL, requests, 3, now_ns, &all) && all.status == WEIR_OK;
        w->failures += !good;
        if (good && all.allowed)
            w->charged[tenant][user] += cost;
    }
    weir_service_close(own);
    return NULL;
}

/* Peeks at both tenants and the total, again and again: the sum of the tenants equals the total. */
static void *watch(void *arg)
{
    int *bad = arg;
    weir_service *own;
    if (weir_service_open(&own, limiter) != WEIR_OK) {
        *bad = 1;
        return NULL;
    }
    for (int i = 0; i < ROUNDS; i++) {
        weir_request requests[3] = {request_of("whole", "all", 0), request_of("tenant", "0", 0),
                                    request_of("tenant", "1", 0)};
        weir_all_result all;
        *bad +=
            !weir_service_take_all(own, NULL, requests, 3, now_ns, &all) || all.status != WEIR_OK;
        *bad += WHOLE_MAX - requests[0].decision.remaining !=
                2 * TENANT_MAX - requests[1].decision.remaining - requests[2].decision.remaining;
    }
    weir_service_close(own);
    return NULL;
}

static void check_threads(void **unused)
{
    (void)unused;
    char limit[3][64];
    snprintf(limit[0], sizeof limit[0], "fixed-window %d/h", USER_MAX);
    snprintf(limit[1], sizeof limit[1], "fixed-window %d/h", TENANT_MAX);
    snprintf(limit[2], sizeof limit[2], "fixed-window %d/h", WHOLE_MAX);
    const weir_rule_spec specs[] = {spec_of("user", limit[0]), spec_of("tenant", limit[1]),
                                    spec_of("whole", limit[2])};
    set_rules(specs, 3);
    worker workers[THREADS] = {0};
    pthread_t threads[THREADS], watcher;
    int bad = 0;
    assert_int_equal(pthread_create(&watcher, NULL, watch, &bad), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, take_at_random, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    pthread_join(watcher, NULL);
    assert_int_equal(bad, 0);
    int64_t whole = 0;
    for (int tenant = 0; tenant < 2; tenant++) {
        int64_t sum = 0;
        char key[16];
        for (int user = 0; user < USERS; user++) {
            int64_t charged = 0;
            for (int i = 0; i < THREADS; i++)
                charged += workers[i].charged[tenant][user];
            snprintf(key, sizeof key, "%d/%d", tenant, user);
            assert_int_equal(left("user", key, now_ns), USER_MAX - charged);
            sum += charged;
        }
        snprintf(key, sizeof key, "%d", tenant);
        assert_int_equal(left("tenant", key, now_ns), TENANT_MAX - sum);
        whole += sum;
    }
    assert_int_equal(left("whole", "all", now_ns), WHOLE_MAX - whole);
    assert_true(whole > WHOLE_MAX - 3); /* the limit was reached */
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_keep),         TEST(check_all_or_none), TEST(check_same_key),
        TEST(check_wait_for_sum), TEST(check_ties),        TEST(check_lists),
        TEST(check_shadow),       TEST(check_delay),       TEST(check_failures),
        TEST(check_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
