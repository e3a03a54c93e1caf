/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Candidates: they change no answer, their verdicts are those of a policy of their own, and which
 * requests are compared. Changes of shadow and candidate while threads take. */

#include "service/fake_engine_test.h"
#include "service/kit_test.h"

#include "port/memory_kit_test.h"

#include <pthread.h>
#include <stdio.h>

typedef struct candidate_find {
    const char *name;
    weir_candidate_counts counts;
    size_t seen;
} candidate_find;

static void find_candidate(void *ctx, const char *name, size_t index,
                           const weir_candidate_counts *counts)
{
    candidate_find *f = ctx;
    assert_in_range(index, NAMES_FIRST, NAMES_MAX - 1);
    if (strcmp(name, f->name) == 0) {
        f->seen++;
        f->counts = *counts;
    }
}

/* Expects the counts of a rule: both allow, both deny, only one denies. */
static void expect_counts(const char *name, uint64_t both_allow, uint64_t both_deny,
                          uint64_t only_current, uint64_t only_candidate)
{
    candidate_find f = {.name = name};
    weir_limiter_candidates(limiter, find_candidate, &f);
    assert_int_equal(f.seen, 1);
    assert_int_equal(f.counts.both_allow, both_allow);
    assert_int_equal(f.counts.both_deny, both_deny);
    assert_int_equal(f.counts.only_current_denies, only_current);
    assert_int_equal(f.counts.only_candidate_denies, only_candidate);
}

/* Expects how many requests of a rule were not compared because their keys have an override. */
static void expect_overridden(const char *name, uint64_t n)
{
    candidate_find f = {.name = name};
    weir_limiter_candidates(limiter, find_candidate, &f);
    assert_int_equal(f.seen, 1);
    assert_int_equal(f.counts.overridden, n);
}

static void expect_no_counts(const char *name)
{
    candidate_find f = {.name = name};
    weir_limiter_candidates(limiter, find_candidate, &f);
    assert_int_equal(f.seen, 0);
}

static weir_rule_spec spec_with(const char *name, const char *limit, const char *candidate)
{
    weir_rule_spec s = spec_of(name, limit);
    s.candidate = candidate;
    return s;
}

static bool take(const char *rule, const char *key, int64_t cost, int64_t at_ns)
{
    weir_request request = request_of(rule, key, cost);
    assert_true(weir_service_take(service, NULL, &request, 1, at_ns));
    assert_int_equal(request.status, WEIR_OK);
    return request.decision.allowed;
}

static weir_status set_candidate(const char *name, const char *limit)
{
    return weir_limiter_set_candidate(limiter, name, strlen(name), limit, NULL);
}

static weir_status set_shadow(const char *name, bool shadow)
{
    return weir_limiter_set_shadow(limiter, name, strlen(name), shadow);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* Random batches on a rule with a candidate, on the same rule without one, and on a rule whose
 * limit is the candidate. */
static void check_verdicts(void **unused)
{
    (void)unused;
    static const char *const limits[][2] = {
        {"gcra 10/s burst 5", "gcra 5/s burst 20"},
        {"fixed-window 7/s", "sliding-log 7/s"},
        {"leaky-queue 5/s depth 3", "token-bucket 6 refill 3 every 1s"},
        {"sliding-counter 9/s & fixed-window 90/m", "leaky-queue 4/s depth 9"},
        {"gcra 3/s burst 3", "gcra 3/s burst 3"},
    };
    uint64_t random = 7;
    for (size_t r = 0; r < sizeof limits / sizeof limits[0]; r++) {
        char names[3][16];
        for (int i = 0; i < 3; i++)
            snprintf(names[i], sizeof names[i], "%c-%zu", "abc"[i], r);
        const weir_rule_spec specs[] = {spec_with(names[0], limits[r][0], limits[r][1]),
                                        spec_of(names[1], limits[r][0]),
                                        spec_of(names[2], limits[r][1])};
        set_rules(specs, 3);
        uint64_t n[2][2] = {{0}};
        int64_t at_ns = now_ns;
        for (int step = 0; step < 300; step++) {
            enum { MOST = 9 };
            weir_request requests[3][MOST];
            size_t len = 1 + (random >> 33) % MOST;
            for (size_t i = 0; i < len; i++) {
                random = random * 6364136223846793005U + 1442695040888963407U;
                for (int k = 0; k < 3; k++)
                    requests[k][i] = request_of(names[k], random >> 40 & 1 ? "x" : "y",
                                                (int64_t)(random >> 33 & 3));
            }
            for (int k = 0; k < 3; k++)
                assert_true(weir_service_take(service, NULL, requests[k], len, at_ns));
            for (size_t i = 0; i < len; i++) {
                const weir_decision *a = &requests[0][i].decision, *b = &requests[1][i].decision;
                assert_int_equal(requests[0][i].status, requests[1][i].status);
                assert_int_equal(a->allowed, b->allowed);
                assert_int_equal(a->remaining, b->remaining);
                assert_int_equal(a->retry_after_ns, b->retry_after_ns);
                assert_int_equal(a->delay_ns, b->delay_ns);
                if (requests[0][i].cost > 0)
                    n[a->allowed][requests[2][i].decision.allowed]++;
            }
            at_ns += (int64_t)(random >> 34 & 0x1FFFFFFF);
        }
        expect_counts(names[0], n[1][1], n[0][0], n[0][1], n[1][0]);
        if (r + 1 < sizeof limits / sizeof limits[0])
            assert_true(n[0][1] + n[1][0] > 0);
        else /* the same policy: its states are not shared, or it would deny twice as much */
            assert_true(n[0][1] == 0 && n[1][0] == 0);
        assert_true(n[0][0] > 0 && n[1][1] > 0);
        expect_no_counts(names[1]);
    }
}

static void check_which_are_compared(void **unused)
{
    (void)unused;
    static const weir_override_spec override = {.pattern = "vip", .limit = "gcra 1/s burst 9"};
    static const char *const root = "root", *const evil = "evil";
    weir_rule_spec specs[] = {spec_with("a", "fixed-window 1/h", "fixed-window 3/h"),
                              spec_of("b", "fixed-window 1/h")};
    specs[0].overrides = &override;
    specs[0].allow = &root;
    specs[0].deny = &evil;
    specs[0].overrides_len = specs[0].allow_len = specs[0].deny_len = 1;
    set_rules(specs, 2);
    expect_counts("a", 0, 0, 0, 0);
    take("a", "vip", 1, now_ns);
    take("a", "root", 1, now_ns);
    take("a", "evil", 1, now_ns);
    take("a", "k", 0, now_ns);
    take("b", "k", 1, now_ns);
    left("a", "k", now_ns);
    weir_request bad = request_of("a", "", 1);
    assert_true(weir_service_take(service, NULL, &bad, 1, now_ns));
    assert_int_equal(bad.status, WEIR_E_RANGE);
    weir_request inline_policy = request_of("fixed-window 1/h", "k", 1);
    inline_policy.by_text = true;
    assert_true(weir_service_take(service, NULL, &inline_policy, 1, now_ns));
    weir_request reserved = request_of("a", "r", 1);
    uint64_t id;
    weir_service_reserve(service, &reserved, s_ns, now_ns, &id);
    assert_int_equal(reserved.status, WEIR_OK);
    expect_counts("a", 0, 0, 0, 0);
    expect_overridden("a", 1);
    take("a", "vip", 0, now_ns);
    take("a", "vip", 2, now_ns);
    expect_overridden("a", 2);
    for (int i = 0; i < 5; i++)
        take("a", "k", 1, now_ns);
    expect_overridden("a", 2);
    expect_counts("a", 1, 2, 2, 0);
    assert_int_equal(set_shadow("a", true), WEIR_OK); /* the verdict before shadow counts */
    for (int i = 0; i < 5; i++)
        assert_true(take("a", "l", 1, now_ns));
    expect_counts("a", 2, 4, 4, 0);
}

/* A refund and a reset of a key also concern its state under the candidate. */
static void check_refund_and_reset(void **unused)
{
    (void)unused;
    const weir_rule_spec specs[] = {spec_with("a", "gcra 1/h burst 1", "gcra 1/h burst 2"),
                                    spec_with("q", "gcra 1/h burst 2", "leaky-queue 1/h depth 1")};
    set_rules(specs, 2);
    weir_request request = request_of("a", "k", 1);
    for (int i = 0; i < 3; i++)
        take("a", "k", 1, now_ns);
    expect_counts("a", 1, 1, 1, 0);
    assert_true(weir_service_refund(service, NULL, &request, now_ns));
    take("a", "k", 1, now_ns);
    expect_counts("a", 2, 1, 1, 0);
    take("a", "k", 1, now_ns);
    expect_counts("a", 2, 2, 1, 0);
    assert_true(weir_service_reset(service, NULL, &request, now_ns));
    for (int i = 0; i < 3; i++)
        take("a", "k", 1, now_ns);
    expect_counts("a", 3, 3, 2, 0);
    assert_true(weir_service_reset_policy(service, NULL, &request, now_ns));
    for (int i = 0; i < 3; i++)
        take("a", "k", 1, now_ns);
    expect_counts("a", 4, 4, 3, 0);
    take("q", "k", 1, now_ns);
    request = request_of("q", "k", 1); /* the candidate has no refunds */
    assert_true(weir_service_refund(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_OK);
    assert_int_equal(request.decision.remaining, 2);
    for (int i = 0; i < 3; i++)
        take("q", "k", 1, now_ns);
    expect_counts("q", 2, 1, 0, 1);
}

/* A charge also charges the candidate. */
static void check_charge(void **unused)
{
    (void)unused;
    const weir_rule_spec spec = spec_with("a", "gcra 1/h burst 9", "gcra 1/h burst 2");
    set_rules(&spec, 1);
    weir_request request = request_of("a", "k", 2);
    assert_true(weir_service_charge(service, NULL, &request, now_ns));
    assert_int_equal(request.decision.remaining, 7);
    take("a", "k", 1, now_ns);
    expect_counts("a", 0, 0, 0, 1);
}

/* All requests of an allowed call are compared, and of a denied one only the one that denies. */
static void check_take_all(void **unused)
{
    (void)unused;
    const weir_rule_spec specs[] = {spec_with("a", "fixed-window 9/h", "fixed-window 1/h"),
                                    spec_with("b", "fixed-window 2/h", "fixed-window 9/h"),
                                    spec_of("c", "fixed-window 9/h")};
    set_rules(specs, 3);
    for (int i = 0; i < 3; i++) {
        weir_request requests[] = {request_of("c", "k", 1), request_of("a", "k", 1),
                                   request_of("b", "k", 1)};
        weir_all_result all;
        assert_true(weir_service_take_all(service, NULL, requests, 3, now_ns, &all));
        assert_int_equal(all.status, WEIR_OK);
        assert_int_equal(all.allowed, i < 2);
    }
    expect_counts("a", 1, 0, 0, 1);
    expect_counts("b", 2, 0, 1, 0);
    assert_int_equal(left("a", "k", now_ns), 7);
}

static void is_ready(void *ctx)
{
    ++*(size_t *)ctx;
}

/* A batch with policies of an engine: the answers of the others arrive later, and the candidate
 * decides once. */
static void check_mixed_engines(void **unused)
{
    (void)unused;
    fake_engine *fake = fake_open();
    size_t ready = 0;
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &fake->engine);
    weir_rule_spec specs[] = {spec_with("a", "fixed-window 1/h", "fixed-window 2/h"),
                              spec_of("r", "fixed-window 1/h")};
    specs[1].engine = WEIR_ENGINE_REDIS;
    set_rules(specs, 2);
    weir_completion completion = {.ready = is_ready, .ctx = &ready};
    weir_request requests[] = {request_of("r", "k", 1), request_of("a", "k", 1),
                               request_of("a", "k", 1)};
    assert_false(weir_service_take(service, &completion, requests, 3, now_ns));
    fake_reply(fake, 0, now_ns);
    assert_true(weir_service_take(service, &completion, requests, 3, now_ns));
    assert_true(requests[0].decision.allowed && requests[1].decision.allowed);
    assert_false(requests[2].decision.allowed);
    expect_counts("a", 1, 0, 1, 0);
    assert_int_equal(set_candidate("r", "gcra 1/s"), WEIR_E_UNSUPPORTED);
    specs[1].candidate = "gcra 1/s";
    weir_rules *rules;
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, 2), WEIR_E_UNSUPPORTED);
    set_rules(specs, 1);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, NULL);
    fake_close(&fake->engine);
}

/* ---- changes --------------------------------------------------------------------------------- */

static int changes;
static weir_rule_change last_change;

static void on_change(void *ctx, const weir_rule_change *change)
{
    static char name[32], text[64];
    (void)ctx;
    changes++;
    last_change = *change;
    snprintf(name, sizeof name, "%s", change->name);
    snprintf(text, sizeof text, "%s", change->text ? change->text : "");
    last_change.name = name;
    last_change.text = change->text ? text : NULL;
}

static bool see_rule(void *ctx, const weir_rule_view *view)
{
    weir_rule_view *ret = ctx;
    *ret = *view;
    return false; /* the first one */
}

static weir_rule_view view_of_first(void)
{
    weir_rule_view view = {.name = NULL};
    weir_service_rules(service, see_rule, &view);
    return view;
}

static void check_changes(void **unused)
{
    (void)unused;
    static const char *const root = "root";
    weir_rule_error error = {0};
    weir_rule_spec spec = spec_of("a", "fixed-window 2/h");
    spec.allow = &root;
    spec.allow_len = 1;
    set_rules(&spec, 1);
    weir_limiter_on_change(limiter, on_change, NULL);
    changes = 0;
    assert_int_equal(set_shadow("b", true), WEIR_E_ABSENT);
    assert_int_equal(set_candidate("b", "gcra 1/s"), WEIR_E_ABSENT);
    assert_int_equal(set_candidate("b", NULL), WEIR_E_ABSENT);
    assert_int_equal(set_candidate("no?name", "gcra 1/s"), WEIR_E_ABSENT);
    assert_int_equal(weir_limiter_set_candidate(limiter, "a", 1, "gcra 1/q", &error),
                     WEIR_E_SYNTAX);
    assert_int_equal(error.column, 8);
    assert_int_equal(changes, 0);

    take("a", "k", 1, now_ns);
    uint64_t generation = weir_limiter_generation(limiter);
    assert_int_equal(weir_limiter_set_shadow(limiter, "a and more", 1, true), WEIR_OK);
    assert_true(weir_limiter_generation(limiter) != generation);
    assert_int_equal(last_change.kind, WEIR_RULE_SHADOW);
    assert_string_equal(last_change.name, "a");
    assert_true(last_change.shadow);
    assert_int_equal(set_candidate("a", "fixed-window  1/h"), WEIR_OK);
    assert_int_equal(last_change.kind, WEIR_RULE_CANDIDATE);
    assert_string_equal(last_change.text, "fixed-window  1/h");
    assert_int_equal(changes, 2);
    assert_int_equal(left("a", "k", now_ns), 1); /* its state stays */
    assert_true(view_of_first().shadow);
    assert_string_equal(view_of_first().candidate, "fixed-window  1/h");
    assert_string_equal(view_of_first().limit, "fixed-window 2/h");
    assert_int_equal(view_of_first().allow, 1);
    for (int i = 0; i < 3; i++)
        assert_true(take("a", "k", 1, now_ns));
    expect_counts("a", 1, 2, 0, 0);
    assert_int_equal(counts_of("a").allowed, 2);
    assert_int_equal(counts_of("a").shadowed, 2);

    /* WEIR.POLICY SET keeps both; the candidate keeps its states. */
    assert_int_equal(weir_limiter_set_limit(limiter, "a", "fixed-window 9/h", NULL), WEIR_OK);
    assert_true(view_of_first().shadow);
    take("a", "k", 1, now_ns);
    expect_counts("a", 1, 2, 0, 1);
    assert_int_equal(set_shadow("a", false), WEIR_OK);
    assert_int_equal(set_candidate("a", NULL), WEIR_OK);
    assert_null(last_change.text);
    assert_null(view_of_first().candidate);
    take("a", "k", 1, now_ns);
    expect_counts("a", 1, 2, 0, 1); /* the counts stay */
    assert_int_equal(counts_of("a").allowed, 4);

    /* A reload returns to the configuration. */
    assert_int_equal(set_shadow("a", true), WEIR_OK);
    assert_int_equal(set_candidate("a", "gcra 1/s"), WEIR_OK);
    set_rules(&spec, 1);
    assert_false(view_of_first().shadow);
    assert_null(view_of_first().candidate);
}

/* The counters of a service that closes are kept. */
static void check_closed_service(void **unused)
{
    (void)unused;
    const weir_rule_spec spec = spec_with("a", "fixed-window 1/h", "fixed-window 2/h");
    set_rules(&spec, 1);
    for (int i = 0; i < 3; i++)
        take("a", "k", 1, now_ns);
    weir_service_close(service);
    expect_counts("a", 1, 1, 1, 0);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    take("a", "k", 1, now_ns);
    expect_counts("a", 1, 2, 1, 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool try_changes(uint64_t n, bool later)
{
    weir_rule_spec spec = spec_with("a", "gcra 1/s", "gcra 2/s");
    weir_rules *rules = NULL;
    memory_fail(n, later);
    weir_status st = weir_rules_build(&rules, store, NULL, &spec, 1);
    if (st == WEIR_OK) {
        weir_limiter_set_rules(limiter, rules);
        st = set_shadow("a", true);
    }
    if (st == WEIR_OK)
        st = set_candidate("a", "gcra 3/s");
    if (st == WEIR_OK)
        st = weir_limiter_set_limit(limiter, "a", "gcra 4/s", NULL);
    bool failed = memory_stop();
    assert_int_equal(st, failed ? WEIR_E_NOMEM : WEIR_OK);
    rules = NULL; /* leave an empty set, as before */
    assert_int_equal(weir_rules_build(&rules, store, NULL, NULL, 0), WEIR_OK);
    weir_limiter_set_rules(limiter, rules);
    weir_service_refresh(service);
    return failed;
}

static void check_memory(void **unused)
{
    (void)unused;
    set_rules(NULL, 0);
    weir_service_refresh(service);
    fail_each_remembered(try_changes); /* the store remembers the limits of a name */
}

static int setup_refusing(void **unused)
{
    (void)unused;
    const weir_store_options small = {.memory_bytes = 1 << 20, .when_full = WEIR_REFUSE};
    bool good = weir_store_open(&store, &small) == WEIR_OK &&
                weir_limiter_open(&limiter, store, NULL) == WEIR_OK &&
                weir_service_open(&service, limiter) == WEIR_OK;
    return good ? 0 : -1;
}

/* A full store refuses keys to a candidate: no request fails, each refusal is counted by the store,
 * and such a request is not compared. The states of a candidate that is removed stay. */
static void check_full_store(void **unused)
{
    (void)unused;
    enum { KEYS = 200, REFUSALS = 1000 };
    const weir_rule_spec specs[] = {spec_of("a", "gcra 9/d"), spec_of("b", "gcra 9/d")};
    char key[16];
    set_rules(specs, 2);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "%d", i);
        take("a", key, 1, now_ns);
    }
    for (int i = 0; weir_store_stats_get(store).refused < REFUSALS; i++) {
        snprintf(key, sizeof key, "%d", i);
        weir_request flood = request_of("b", key, 1);
        assert_true(weir_service_take(service, NULL, &flood, 1, now_ns));
    }
    assert_int_equal(set_candidate("a", "gcra 5/d burst 2"), WEIR_OK);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_false(take("a", key, 1, now_ns));
    }
    weir_store_stats stats = weir_store_stats_get(store);
    candidate_find f = {.name = "a"};
    weir_limiter_candidates(limiter, find_candidate, &f);
    assert_true(stats.refused > REFUSALS);
    assert_int_equal(f.counts.only_current_denies, KEYS - (stats.refused - REFUSALS));
    assert_int_equal(counts_of("a").failed, 0);
    assert_int_equal(set_candidate("a", NULL), WEIR_OK);
    assert_int_equal(weir_store_stats_get(store).keys, stats.keys);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 3, TAKES = 3000 };

static void *take_many(void *ctx)
{
    uint64_t *allowed = ctx;
    weir_service *own;
    if (weir_service_open(&own, limiter) != WEIR_OK)
        return NULL;
    for (int i = 0; i < TAKES; i++) {
        weir_request request = request_of("a", "k", 1);
        if (weir_service_take(own, NULL, &request, 1, now_ns) && request.status == WEIR_OK)
            *allowed += request.decision.allowed;
    }
    weir_service_close(own);
    return NULL;
}

/* The candidate and the shadow change while threads take: the limit's state is never lost, and each
 * request is counted. */
static void check_threads(void **unused)
{
    (void)unused;
    const weir_rule_spec spec = spec_of("a", "fixed-window 1000/h");
    pthread_t threads[THREADS];
    uint64_t allowed[THREADS] = {0}, sum = 0;
    set_rules(&spec, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, &allowed[i]), 0);
    for (uint64_t i = 0, n = 0; n < THREADS * TAKES; i++) {
        assert_int_equal(set_candidate("a", i % 3 == 0 ? "fixed-window 100/h" : NULL), WEIR_OK);
        assert_int_equal(set_shadow("a", i % 2 > 0), WEIR_OK);
        weir_counts now = counts_of("a");
        n = now.allowed + now.denied + now.shadowed;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += allowed[i];
    }
    weir_counts counts = counts_of("a");
    assert_int_equal(counts.allowed, 1000);
    assert_int_equal(counts.allowed + counts.denied + counts.shadowed, THREADS * TAKES);
    assert_int_equal(counts.allowed + counts.shadowed, sum);
    candidate_find f = {.name = "a"};
    weir_limiter_candidates(limiter, find_candidate, &f);
    assert_true(f.counts.both_allow + f.counts.only_current_denies <= 100);
    assert_true(f.counts.both_allow + f.counts.only_candidate_denies <= 1000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_verdicts),
        TEST(check_which_are_compared),
        TEST(check_refund_and_reset),
        TEST(check_charge),
        TEST(check_take_all),
        TEST(check_mixed_engines),
        TEST(check_changes),
        TEST(check_closed_service),
        TEST(check_memory),
        TEST(check_threads),
        cmocka_unit_test_setup_teardown(check_full_store, setup_refusing, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
