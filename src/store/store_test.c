/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The store: keys apart, states that grow and are dropped, a budget that holds, time that never
 * goes back, and four threads that together are admitted no more than the policy says. */

#include <weir/weir_store.h>

#include "store/siphash.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t s_ns = 1000000000;

static weir_policy policy_of(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return p;
}

static weir_store *store_of(size_t memory_bytes)
{
    static const uint8_t secret[16] = "0123456789abcde";
    weir_store *s = NULL;
    weir_store_options options = {memory_bytes, secret};
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    return s;
}

static weir_decision take(weir_store *s, const weir_policy *p, const char *key, int64_t now_ns,
                          int64_t cost)
{
    weir_decision d = {0};
    assert_int_equal(
        weir_store_check(s, p, weir_store_policy_id(s, p), key, strlen(key), now_ns, cost, &d),
        WEIR_OK);
    return d;
}

static void check_siphash(void **unused)
{
    (void)unused;
    /* SipHash-1-3 of 0, 1, .. n-1 under the key 00 01 .. 0f; computed with an independent
     * program. */
    static const struct {
        size_t len;
        uint64_t hash;
    } known[] = {
        {0, 0xabac0158050fc4dc},  {1, 0xc9f49bf37d57ca93},  {7, 0xd3927d989bb11140},
        {8, 0x369095118d299a8e},  {9, 0x25a48eb36c063de4},  {15, 0xd320d86d2a519956},
        {16, 0xcc4fdd1a7d908b66}, {31, 0x2370dd1f8c21d1bc}, {63, 0x9d199062b7bbb3a8},
    };
    const weir_secret secret = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    uint8_t bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_true(weir_siphash(secret, bytes, known[i].len) == known[i].hash);
}

static void check_keys_apart(void **unused)
{
    (void)unused;
    weir_store *s = store_of(0);
    weir_policy p = policy_of("gcra 1/s burst 2"), same = policy_of("gcra 60/m burst 2"),
                other = policy_of("gcra 1/s burst 3");
    assert_true(take(s, &p, "a", s_ns, 2).allowed);
    assert_false(take(s, &p, "a", s_ns, 1).allowed);
    assert_true(take(s, &p, "b", s_ns, 2).allowed);
    assert_true(take(s, &p, "a ", s_ns, 2).allowed);
    assert_true(take(s, &other, "a", s_ns, 3).allowed);
    assert_true(take(s, &same, "a", s_ns, 2).allowed); /* another text, so other keys */
    assert_int_equal(weir_store_stats_get(s).keys, 5);
    weir_store_close(s);
}

static void check_refund_and_reset(void **unused)
{
    (void)unused;
    weir_store *s = store_of(0);
    weir_policy p = policy_of("gcra 1/s burst 5"), queue = policy_of("leaky-queue 1/s depth 5");
    uint64_t id = weir_store_policy_id(s, &p), queue_id = weir_store_policy_id(s, &queue);
    weir_decision d;
    take(s, &p, "a", s_ns, 5);
    assert_int_equal(weir_store_refund(s, &p, id, "a", 1, s_ns, 2, &d), WEIR_OK);
    assert_int_equal(d.remaining, 2);
    assert_int_equal(weir_store_reset(s, id, "a", 1), WEIR_OK);
    assert_int_equal(take(s, &p, "a", s_ns, 0).remaining, 5);
    assert_int_equal(weir_store_reset(s, id, "never seen", 10), WEIR_OK);
    assert_int_equal(weir_store_refund(s, &queue, queue_id, "a", 1, s_ns, 2, &d),
                     WEIR_E_UNSUPPORTED);
    weir_store_close(s);
}

static void check_arguments(void **unused)
{
    (void)unused;
    static char long_key[WEIR_KEY_MAX + 1];
    weir_store *s = NULL;
    weir_store_options small = {1000, NULL};
    assert_int_equal(weir_store_open(&s, &small), WEIR_E_RANGE);
    assert_null(s);
    weir_store_close(NULL);
    assert_int_equal(weir_store_open(&s, NULL), WEIR_OK);
    weir_policy p = policy_of("gcra 1/s");
    weir_decision d = {.limit = -7};
    assert_int_equal(weir_store_check(s, &p, 1, "", 0, 0, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_check(s, &p, 1, long_key, sizeof long_key, 0, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_check(s, &p, 1, "a", 1, -1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_check(s, &p, 1, "a", 1, WEIR_NOW_NS_MAX + 1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_check(s, &p, 1, "a", 1, 0, -1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_reset(s, 1, "", 0), WEIR_E_RANGE);
    assert_int_equal(d.limit, -7);
    assert_int_equal(weir_store_stats_get(s).keys, 0);
    assert_int_equal(weir_store_check(s, &p, 1, long_key, WEIR_KEY_MAX, 0, 1, &d), WEIR_OK);
    weir_store_close(s);
}

/* A peek and a denial keep nothing; what is fresh again is dropped as others come. */
static void check_fresh_is_dropped(void **unused)
{
    (void)unused;
    weir_store *s = store_of(0);
    weir_policy p = policy_of("gcra 1/s burst 5");
    assert_true(take(s, &p, "peek", s_ns, 0).allowed);
    assert_false(take(s, &p, "too much", s_ns, 6).allowed);
    assert_int_equal(weir_store_stats_get(s).keys, 0);
    char key[16];
    for (int i = 0; i < 10000; i++) {
        snprintf(key, sizeof key, "key %d", i);
        take(s, &p, key, s_ns, 1);
    }
    assert_int_equal(weir_store_stats_get(s).keys, 10000);
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "other %d", i);
        take(s, &p, key, 100 * s_ns, 1);
    }
    assert_true(weir_store_stats_get(s).keys < 21000);
    assert_int_equal(weir_store_stats_get(s).evicted, 0);
    weir_store_close(s);
}

/* The clock of a store stands still while the caller's is behind. */
static void check_time_never_goes_back(void **unused)
{
    (void)unused;
    weir_store *s = store_of(0);
    weir_policy p = policy_of("gcra 1/s burst 2");
    assert_true(take(s, &p, "a", 100 * s_ns, 2).allowed);
    weir_decision d = take(s, &p, "a", 40 * s_ns, 1);
    assert_false(d.allowed);
    assert_int_equal(d.retry_after_ns, s_ns); /* and not 61 s */
    assert_true(take(s, &p, "a", 101 * s_ns, 1).allowed);
    weir_store_close(s);
}

/* Beyond the budget the keys closest to fresh go first, which is counted, and memory holds. */
static void check_budget(void **unused)
{
    (void)unused;
    weir_store *s = store_of(1 << 20);
    weir_policy p = policy_of("gcra 1/h burst 100");
    char key[16];
    take(s, &p, "debtor", s_ns, 100);
    for (int i = 0; i < 100000; i++) {
        snprintf(key, sizeof key, "%d", i);
        take(s, &p, key, s_ns, 1);
    }
    weir_store_stats stats = weir_store_stats_get(s);
    assert_true(stats.evicted > 50000);
    assert_int_equal(stats.keys, 100001 - stats.evicted);
    assert_true(stats.memory_bytes < (2 << 20));
    assert_false(take(s, &p, "debtor", s_ns, 1).allowed);
    for (int i = 0; i < 1000; i++) { /* a peek or a denial evicts nobody */
        snprintf(key, sizeof key, "peek %d", i);
        take(s, &p, key, s_ns, 0);
        take(s, &p, key, s_ns, 101);
    }
    assert_int_equal(weir_store_stats_get(s).evicted, stats.evicted);
    weir_store_close(s);
}

/* A log that outgrows the memory is refused without being charged, and the others go on. */
static void check_log_too_large(void **unused)
{
    (void)unused;
    weir_store *s = store_of(1 << 20);
    weir_policy log = policy_of("sliding-log 1000000/h");
    uint64_t id = weir_store_policy_id(s, &log);
    weir_decision d;
    weir_status st = WEIR_OK;
    int64_t t_ns = s_ns, charged = 0;
    while ((st = weir_store_check(s, &log, id, "a", 1, t_ns++, 1, &d)) == WEIR_OK && d.allowed)
        charged++;
    assert_int_equal(st, WEIR_E_NOMEM);
    assert_true(charged >= 32768);
    uint64_t memory = weir_store_stats_get(s).memory_bytes;
    assert_int_equal(take(s, &log, "a", t_ns, 0).remaining, 1000000 - charged);
    assert_true(take(s, &log, "b", t_ns, 1).allowed);
    assert_int_equal(weir_store_reset(s, id, "b", 1), WEIR_OK);
    assert_int_equal(weir_store_stats_get(s).memory_bytes, memory);
    assert_int_equal(weir_store_reset(s, id, "a", 1), WEIR_OK);
    assert_true(weir_store_stats_get(s).memory_bytes < 64 * 1024); /* growing left nothing behind */
    weir_store_close(s);
}

/* Large states are admitted whichever shards they fall into: others make room. */
static void check_large_states(void **unused)
{
    (void)unused;
    weir_store *s = store_of(1 << 20);
    weir_policy p = policy_of("sliding-slices 9/h slices 60000"); /* 240 KB: four fit */
    char key[16];
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_true(take(s, &p, key, s_ns, 1).allowed);
    }
    assert_int_equal(weir_store_stats_get(s).keys, 4);
    assert_int_equal(weir_store_stats_get(s).evicted, 196);
    weir_store_close(s);
}

typedef struct worker {
    pthread_barrier_t *start;
    weir_store *store;
    const weir_policy *policy;
    unsigned seed;
    int64_t allowed[8];
} worker;

enum { WORKERS = 4, ROUNDS = 40000, KEYS = 8 };

static void *work(void *arg)
{
    worker *w = arg;
    uint64_t id = weir_store_policy_id(w->store, w->policy);
    uint32_t x = w->seed;
    pthread_barrier_wait(w->start); /* or the first would have used all before the last begins */
    for (int i = 0; i < ROUNDS; i++) {
        x = x * 1664525 + 1013904223;
        char key = (char)('a' + (x >> 16) % KEYS);
        weir_decision d;
        if (weir_store_check(w->store, w->policy, id, &key, 1, s_ns + i * 1000, 1, &d) == WEIR_OK)
            w->allowed[key - 'a'] += d.allowed;
    }
    return NULL;
}

/* Over 40 ms each policy admits its limit and what 40 ms add, whoever asks. */
static void check_threads(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t most, least;
    } cases[] = {
        {"gcra 1000/s burst 100", 140, 139},
        {"gcra 7/s burst 100", 100, 100},
        {"token-bucket 100 refill 1 every 1s", 100, 100},
        {"fixed-window 100/h", 100, 100},
        {"sliding-log 100/h", 100, 100},
        {"sliding-counter 100/h", 100, 100},
        {"sliding-slices 100/h slices 60", 100, 100},
        {"sliding-log 200/h & gcra 1/h burst 100", 100, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_store *s = store_of(0);
        weir_policy p = policy_of(cases[i].text);
        pthread_t threads[WORKERS];
        worker workers[WORKERS];
        pthread_barrier_t barrier;
        assert_int_equal(pthread_barrier_init(&barrier, NULL, WORKERS), 0);
        for (unsigned n = 0; n < WORKERS; n++) {
            workers[n] = (worker){.start = &barrier, .store = s, .policy = &p, .seed = n};
            assert_int_equal(pthread_create(&threads[n], NULL, work, &workers[n]), 0);
        }
        int64_t allowed[KEYS] = {0};
        for (int n = 0; n < WORKERS; n++) {
            pthread_join(threads[n], NULL);
            for (int k = 0; k < KEYS; k++)
                allowed[k] += workers[n].allowed[k];
        }
        for (int k = 0; k < KEYS; k++)
            assert_in_range(allowed[k], cases[i].least, cases[i].most);
        pthread_barrier_destroy(&barrier);
        weir_store_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_siphash),          cmocka_unit_test(check_keys_apart),
        cmocka_unit_test(check_refund_and_reset), cmocka_unit_test(check_arguments),
        cmocka_unit_test(check_fresh_is_dropped), cmocka_unit_test(check_time_never_goes_back),
        cmocka_unit_test(check_budget),           cmocka_unit_test(check_log_too_large),
        cmocka_unit_test(check_large_states),     cmocka_unit_test(check_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
