/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The conformance suite of stores, except for the tests with threads. It follows from the contracts
 * in weir.h alone, and knows no implementation. */

#include "store_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t s_ns = 1000000000;

/* Every algorithm and format, with small and large states. */
static const char *const texts[] = {
    "gcra 100/s burst 20",
    "gcra 7/m burst 5",
    "token-bucket 50 refill 10/s",
    "token-bucket 50 refill 5 every 1s",
    "leaky-bucket 10/s capacity 20",
    "leaky-queue 10/s depth 20",
    "leaky-queue 7/m depth 20 nodelay 8",
    "fixed-window 40/m",
    "fixed-window 40/day",
    "fixed-window 40/m from-first",
    "fixed-window 40/m count-denied",
    "sliding-log 5/s",
    "sliding-log 100/m",
    "sliding-log 5/s count-denied",
    "sliding-counter 40/m",
    "sliding-counter 40/m relaxed",
    "sliding-slices 40/m slices 6",
    "sliding-slices 40/m slices 60",
    "gcra 10/s burst 20 & fixed-window 100/m",
    "sliding-log 100/m & leaky-bucket 2/s capacity 30",
    "gcra 1/s burst 9 & gcra 30/m burst 7 & fixed-window 9/s & sliding-counter 50/h",
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

/* ---- helpers --------------------------------------------------------------------------------- */

uint32_t suite_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)(*seed >> 33);
}

weir_policy suite_policy(const char *text)
{
    weir_policy p;
    if (weir_policy_parse(&p, text, strlen(text), NULL, NULL) != WEIR_OK)
        fail_msg("%s: invalid policy", text);
    return p;
}

weir_decision suite_take(const store_engine *engine, void *e, const weir_policy *p, const char *key,
                         int64_t now_ns, int64_t cost)
{
    weir_decision d = {0};
    assert_int_equal(engine->check(e, p, key, strlen(key), now_ns, cost, &d), WEIR_OK);
    return d;
}

static void assert_same(const weir_decision *a, const weir_decision *b, const char *text, int step)
{
    bool same = a->limit == b->limit && a->remaining == b->remaining &&
                a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
                a->delay_ns == b->delay_ns && a->layer == b->layer && a->allowed == b->allowed &&
                a->never == b->never;
    if (!same)
        fail_msg("%s, step %d: the decisions differ", text, step);
}

/* ---- one key --------------------------------------------------------------------------------- */

static void keys_and_policies_are_apart(void **state)
{
    const store_engine *engine = *state;
    void *e = engine->open(1 << 20);
    weir_policy p = suite_policy("gcra 1/s burst 2"), same = suite_policy("gcra 60/m burst 2"),
                other = suite_policy("gcra 1/s burst 3");
    assert_true(suite_take(engine, e, &p, "a", s_ns, 2).allowed);
    assert_false(suite_take(engine, e, &p, "a", s_ns, 1).allowed);
    assert_true(suite_take(engine, e, &p, "b", s_ns, 2).allowed);
    assert_true(suite_take(engine, e, &p, "a ", s_ns, 2).allowed);
    assert_true(suite_take(engine, e, &other, "a", s_ns, 3).allowed);
    /* Another policy: another key. */
    assert_true(suite_take(engine, e, &same, "a", s_ns, 2).allowed);
    weir_decision d;
    assert_int_equal(engine->check(e, &p, "a\0b", 3, s_ns, 2, &d), WEIR_OK);
    assert_true(d.allowed);
    engine->close(e);
}

static void refund_reset_and_peek(void **state)
{
    const store_engine *engine = *state;
    void *e = engine->open(1 << 20);
    for (int i = 0; i < TEXTS; i++) {
        weir_policy p = suite_policy(texts[i]);
        weir_decision d, full = suite_take(engine, e, &p, "a", s_ns, 0);
        assert_int_equal(suite_take(engine, e, &p, "a", s_ns, 3).remaining, full.remaining - 3);
        assert_int_equal(suite_take(engine, e, &p, "a", s_ns, 0).remaining, full.remaining - 3);
        weir_status st = engine->refund(e, &p, "a", 1, s_ns, 2, &d);
        int64_t back = st == WEIR_OK ? 2 : 0;
        if (st != WEIR_OK)
            assert_int_equal(st, WEIR_E_UNSUPPORTED);
        assert_int_equal(suite_take(engine, e, &p, "a", s_ns, 0).remaining,
                         full.remaining - 3 + back);
        assert_int_equal(engine->reset(e, &p, "a", 1), WEIR_OK);
        d = suite_take(engine, e, &p, "a", s_ns, 0);
        assert_same(&d, &full, texts[i], 0);
        assert_int_equal(engine->reset(e, &p, "never seen", 10), WEIR_OK);
    }
    engine->close(e);
}

static void arguments(void **state)
{
    const store_engine *engine = *state;
    void *e = engine->open(1 << 20);
    static char key[WEIR_KEY_MAX + 1];
    weir_policy p = suite_policy("gcra 1/s");
    weir_decision d = {.limit = -7};
    assert_int_equal(engine->check(e, &p, "", 0, 0, 1, &d), WEIR_E_RANGE);
    assert_int_equal(engine->check(e, &p, key, sizeof key, 0, 1, &d), WEIR_E_RANGE);
    assert_int_equal(engine->check(e, &p, "a", 1, -1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(engine->check(e, &p, "a", 1, WEIR_NOW_NS_MAX + 1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(engine->check(e, &p, "a", 1, 0, -1, &d), WEIR_E_RANGE);
    assert_int_equal(engine->reset(e, &p, "", 0), WEIR_E_RANGE);
    assert_int_equal(d.limit, -7);
    assert_int_equal(engine->check(e, &p, key, WEIR_KEY_MAX, 0, 1, &d), WEIR_OK);
    engine->close(e);
}

static void denials_write_nothing(void **state)
{
    const store_engine *engine = *state;
    void *e = engine->open(1 << 20);
    for (int i = 0; i < TEXTS; i++) {
        if (strstr(texts[i], "count-denied"))
            continue;
        weir_policy p = suite_policy(texts[i]);
        while (suite_take(engine, e, &p, "a", s_ns, 1).allowed)
            continue;
        weir_decision before = suite_take(engine, e, &p, "a", s_ns, 1);
        weir_store_stats held = engine->stats ? engine->stats(e) : (weir_store_stats){0};
        for (int n = 0; n < 10; n++) {
            suite_take(engine, e, &p, "a", s_ns, 1);
            assert_false(suite_take(engine, e, &p, "fresh", s_ns, 1000000).allowed);
            suite_take(engine, e, &p, "fresh", s_ns, 0);
        }
        weir_decision after = suite_take(engine, e, &p, "a", s_ns, 1);
        assert_same(&after, &before, texts[i], 0);
        if (engine->stats)
            assert_int_equal(engine->stats(e).keys, held.keys);
    }
    engine->close(e);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* A clock that steps back makes no key wait longer, and gives none extra quota. */
static void earlier_time_counts_as_the_latest(void **state)
{
    const store_engine *engine = *state;
    void *e = engine->open(1 << 20);
    weir_policy p = suite_policy("gcra 1/s burst 2");
    assert_true(suite_take(engine, e, &p, "a", 100 * s_ns, 2).allowed);
    weir_decision d = suite_take(engine, e, &p, "a", 40 * s_ns, 1);
    assert_false(d.allowed);
    assert_in_range(d.retry_after_ns, s_ns, s_ns + 1000000); /* not 61 s */
    assert_true(suite_take(engine, e, &p, "a", 101 * s_ns, 1).allowed);
    engine->close(e);
}

/* If the clock jumps, a key is admitted its burst and what the total progress of the clock allows.
 * Other keys are added and removed meanwhile, so that the key is dropped whenever the store
 * considers it idle. */
static void time_that_jumps_admits_no_more(void **state)
{
    const store_engine *engine = *state;
    uint64_t seed = 5;
    for (int large = 0; large < 2; large++) {
        void *e = engine->open(1 << 20);
        weir_policy p =
            suite_policy(large ? "gcra 1000/s burst 10 & sliding-slices 50/10ms slices 50"
                               : "gcra 1000/s burst 10");
        int64_t begin_ns = 1000 * s_ns, t_ns = begin_ns, latest_ns = begin_ns, allowed = 0;
        for (int i = 0; i < 60000; i++) {
            char key[SUITE_KEY_MAX];
            t_ns += (int64_t)(suite_random(&seed) % 1800000) - 800000;
            if (t_ns < begin_ns)
                t_ns = begin_ns;
            latest_ns = t_ns > latest_ns ? t_ns : latest_ns;
            allowed += suite_take(engine, e, &p, "a", t_ns, 1).allowed;
            snprintf(key, sizeof key, "%d", i);
            suite_take(engine, e, &p, key, t_ns, 1);
        }
        assert_true(allowed <= 10 + (latest_ns - begin_ns) / 1000000);
        assert_true(allowed > 10);
        if (engine->stats)
            assert_int_equal(engine->stats(e).evicted, 0);
        engine->close(e);
    }
}

/* ---- memory and eviction --------------------------------------------------------------------- */

/* Many more keys than fit in the memory, but most of them are idle at any time. */
static void idle_keys_are_dropped(void **state)
{
    const store_engine *engine = *state;
    if (!engine->stats)
        skip();
    static const char *const kinds[] = {"gcra 1/s burst 5", "fixed-window 5/s",
                                        "sliding-counter 5/s", "sliding-log 100/s"};
    static const int keys[] = {12000, 7000, 5000, 1500};
    for (int i = 0; i < 4; i++) {
        void *e = engine->open(1 << 20);
        weir_policy p = suite_policy(kinds[i]);
        for (int n = 0; n < 10 * keys[i]; n++) {
            char key[SUITE_KEY_MAX];
            snprintf(key, sizeof key, "%d", n);
            suite_take(engine, e, &p, key, (1 + n / keys[i] * 10) * s_ns, 1);
        }
        assert_int_equal(engine->stats(e).evicted, 0);
        assert_true(engine->stats(e).memory_bytes <= engine->stats(e).memory_max);
        engine->close(e);
    }
}

/* Ten times as many keys as fit in the memory: the budget is kept, and evictions are counted. */
static void budget_holds(void **state)
{
    const store_engine *engine = *state;
    if (!engine->stats)
        skip();
    static const char *const kinds[] = {"gcra 1/h burst 100", "sliding-counter 100/h",
                                        "sliding-log 100/h", "gcra 1/h burst 9 & fixed-window 5/d"};
    for (int i = 0; i < 4; i++) {
        void *e = engine->open(1 << 20);
        weir_policy p = suite_policy(kinds[i]);
        uint64_t keys = 150000;
        for (uint64_t n = 0; n < keys; n++) {
            char key[SUITE_KEY_MAX];
            snprintf(key, sizeof key, "%llu", (unsigned long long)n);
            suite_take(engine, e, &p, key, s_ns, 1);
        }
        weir_store_stats stats = engine->stats(e);
        assert_int_equal(stats.memory_max, 1 << 20);
        assert_true(stats.memory_bytes <= stats.memory_max);
        assert_int_equal(stats.keys + stats.evicted, keys);
        assert_true(stats.evicted > 0);
        for (uint64_t n = 0; n < 1000; n++) { /* a peek or a denial evicts no key */
            char key[SUITE_KEY_MAX];
            snprintf(key, sizeof key, "peek %llu", (unsigned long long)n);
            suite_take(engine, e, &p, key, s_ns, 0);
            suite_take(engine, e, &p, key, s_ns, 101);
        }
        assert_int_equal(engine->stats(e).evicted, stats.evicted);
        engine->close(e);
    }
}

/* A key far from idle stays while there are keys closer to idle. */
static void closest_to_idle_is_evicted_first(void **state)
{
    const store_engine *engine = *state;
    if (!engine->stats)
        skip();
    enum { DEBTORS = 1000 };
    void *e = engine->open(1 << 20);
    weir_policy p = suite_policy("gcra 1/h burst 100");
    char key[SUITE_KEY_MAX];
    for (int n = 0; n < DEBTORS; n++) {
        snprintf(key, sizeof key, "debtor %d", n);
        suite_take(engine, e, &p, key, s_ns, 100);
    }
    for (int n = 0; n < 300000; n++) {
        snprintf(key, sizeof key, "%d", n);
        suite_take(engine, e, &p, key, s_ns, 1 + n % 3);
    }
    assert_true(engine->stats(e).evicted > 200000);
    for (int n = 0; n < DEBTORS; n++) {
        snprintf(key, sizeof key, "debtor %d", n);
        assert_false(suite_take(engine, e, &p, key, s_ns, 1).allowed);
    }
    engine->close(e);
}

/* ---- against the core ------------------------------------------------------------------------ */

typedef struct model { /* a private state for each key */
    uint64_t *words;
    unsigned level;
} model;

static void model_free(model *m)
{
    free(m->words);
    *m = (model){NULL, 0};
}

static void model_grow(const weir_policy *p, model *m)
{
    uint64_t *wider = calloc(weir_state_words(p, m->level + 1), sizeof *wider);
    assert_non_null(wider);
    weir_state_grow(p, m->words, m->level, wider);
    free(m->words);
    m->words = wider;
    m->level++;
}

static weir_status model_run(const weir_policy *p, model *m, int64_t now_ns, int64_t cost,
                             bool refund, weir_decision *ret)
{
    weir_status st;
    if (!m->words) {
        m->words = calloc(weir_state_words(p, 0), sizeof *m->words);
        assert_non_null(m->words);
    }
    while ((st = refund ? weir_refund(p, m->words, m->level, now_ns, cost, ret)
                        : weir_check(p, m->words, m->level, now_ns, cost, ret)) == WEIR_E_ROOM)
        model_grow(p, m);
    /* A store may rely on this: with a single layer, the decision says when the key is idle. */
    if (st == WEIR_OK && p->layers == 1)
        assert_int_equal(ret->reset_after_ns, weir_fresh_after(p, m->words, m->level, now_ns));
    return st;
}

/* Sometimes far ahead, so that keys become idle and are dropped; otherwise near, so that they stay
 * busy. */
static int64_t next_time(uint64_t *seed, int64_t t_ns)
{
    static const int64_t spans_ns[] = {1, 1000, 10000000, 300000000, 20000000000, 400000000000};
    uint32_t kind = suite_random(seed) % 64;
    int64_t span_ns = spans_ns[kind < 60 ? kind % 4 : kind % 4 + 2];
    return t_ns + (int64_t)(suite_random(seed) % 1000) * (span_ns / 1000 + 1);
}

/* The store's decisions on a few keys equal those of weir_check() on their private states. */
static void answers_equal_the_core(void **state)
{
    enum { KEYS = 5, STEPS = 4000 };
    const store_engine *engine = *state;
    void *e = engine->open(1 << 20);
    for (int i = 0; i < TEXTS; i++) {
        weir_policy p = suite_policy(texts[i]);
        model models[KEYS] = {{NULL, 0}};
        uint64_t seed = 100 + (uint64_t)i;
        int64_t t_ns = (int64_t)(i + 1) * 1000000 * s_ns;
        for (int step = 0; step < STEPS; step++) {
            uint32_t k = suite_random(&seed) % KEYS, what = suite_random(&seed) % 40;
            char key[2] = {(char)('a' + k), 0};
            int64_t cost =
                suite_random(&seed) % 8 ? suite_random(&seed) % 4 : suite_random(&seed) % 60;
            t_ns = next_time(&seed, t_ns);
            if (what == 0) {
                assert_int_equal(engine->reset(e, &p, key, 1), WEIR_OK);
                model_free(&models[k]);
                continue;
            }
            weir_decision d = {0}, want = {0};
            bool refund = what < 6;
            weir_status st = refund ? engine->refund(e, &p, key, 1, t_ns, cost, &d)
                                    : engine->check(e, &p, key, 1, t_ns, cost, &d);
            assert_int_equal(st, model_run(&p, &models[k], t_ns, cost, refund, &want));
            assert_same(&d, &want, texts[i], step);
        }
        for (int k = 0; k < KEYS; k++)
            model_free(&models[k]);
    }
    engine->close(e);
}

/* A random request: often for the key and the policy of the one before it, sometimes invalid. */
static store_request random_request(uint64_t *seed, const weir_policy policies[TEXTS],
                                    const store_request *before)
{
    static const char *const keys[] = {
        "a", "b", "c", "a key of 8 to 32 bytes", "a key of 8 to 32 bytez", "ten bytes!"};
    enum { KEYS = sizeof keys / sizeof keys[0] };
    uint32_t bad = suite_random(seed) % 100, same = suite_random(seed) % 4;
    const char *key = keys[suite_random(seed) % KEYS];
    store_request r = {.policy = &policies[suite_random(seed) % TEXTS],
                       .key = key,
                       .key_len = strlen(key),
                       .cost = bad ? (int64_t)(suite_random(seed) % 4) : -1};
    if (before && same > 0) {
        r.policy = before->policy;
        r.key = same > 1 ? before->key : key;
        r.key_len = same > 1 ? before->key_len : r.key_len;
    }
    r.key_len = bad == 1 ? 0 : r.key_len;
    return r;
}

/* A batch gives the same results as its requests one by one, also for runs of one key and for
 * invalid requests. */
static void batch_is_one_by_one(void **state)
{
    enum { MOST = 100, BATCHES = 300 };
    const store_engine *engine = *state;
    void *one = engine->open(1 << 20), *many = engine->open(0);
    weir_policy policies[TEXTS];
    for (int i = 0; i < TEXTS; i++)
        policies[i] = suite_policy(texts[i]);
    uint64_t seed = 77;
    int64_t t_ns = 1000000 * s_ns;
    for (int b = 0; b < BATCHES; b++) {
        store_request requests[MOST];
        size_t n = suite_random(&seed) % (MOST + 1);
        t_ns = next_time(&seed, t_ns);
        for (size_t i = 0; i < n; i++)
            requests[i] = random_request(&seed, policies, i > 0 ? &requests[i - 1] : NULL);
        engine->batch(many, requests, n, t_ns);
        for (size_t i = 0; i < n; i++) {
            weir_decision d;
            assert_int_equal(requests[i].status,
                             engine->check(one, requests[i].policy, requests[i].key,
                                           requests[i].key_len, t_ns, requests[i].cost, &d));
            if (requests[i].status == WEIR_OK)
                assert_same(&requests[i].decision, &d, "batch", b);
        }
    }
    engine->close(one);
    engine->close(many);
}

/* ---- running the suite ----------------------------------------------------------------------- */

int store_suite_run(const store_engine *engine)
{
    void *e = (void *)(uintptr_t)engine; /* cmocka passes it on unchanged */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(keys_and_policies_are_apart, e),
        cmocka_unit_test_prestate(refund_reset_and_peek, e),
        cmocka_unit_test_prestate(arguments, e),
        cmocka_unit_test_prestate(denials_write_nothing, e),
        cmocka_unit_test_prestate(earlier_time_counts_as_the_latest, e),
        cmocka_unit_test_prestate(time_that_jumps_admits_no_more, e),
        cmocka_unit_test_prestate(idle_keys_are_dropped, e),
        cmocka_unit_test_prestate(budget_holds, e),
        cmocka_unit_test_prestate(closest_to_idle_is_evicted_first, e),
        cmocka_unit_test_prestate(answers_equal_the_core, e),
        cmocka_unit_test_prestate(batch_is_one_by_one, e),
        cmocka_unit_test_prestate(suite_threads_fixed_now, e),
        cmocka_unit_test_prestate(suite_threads_time_goes_on, e),
        cmocka_unit_test_prestate(suite_threads_churn, e),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
