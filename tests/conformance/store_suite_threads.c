/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Four threads at once: together they are admitted exactly what the policy allows. cmocka's
 * assertions work only in the main thread, so the other threads count errors. */

#include "store_suite.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WORKERS = 4, KEYS_MAX = 16 };

static const int64_t begin_ns = 1000000000;

typedef struct worker {
    pthread_barrier_t *start;
    const store_engine *engine;
    void *e;
    const weir_policy *policies;
    uint64_t seed;
    int rounds, keys;
    int64_t step_ns; /* progress of the clock in a round */
    int64_t allowed[KEYS_MAX];
    int failures;
} worker;

typedef struct policy_case {
    const char *text;
    int64_t least, most; /* units that a key may be admitted */
} policy_case;

/* Runs four threads that start together. Adds up what they were admitted. */
static void run_workers(const worker *from, void *(*work)(void *), int64_t *ret_allowed)
{
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    pthread_barrier_t start;
    assert_int_equal(pthread_barrier_init(&start, NULL, WORKERS), 0);
    for (int n = 0; n < WORKERS; n++) {
        workers[n] = *from;
        workers[n].seed = (uint64_t)n + 1;
        workers[n].start = &start;
        assert_int_equal(pthread_create(&threads[n], NULL, work, &workers[n]), 0);
    }
    for (int n = 0; n < WORKERS; n++) {
        pthread_join(threads[n], NULL);
        assert_int_equal(workers[n].failures, 0);
        for (int k = 0; k < KEYS_MAX; k++)
            ret_allowed[k] += workers[n].allowed[k];
    }
    pthread_barrier_destroy(&start);
}

/* Takes units of a random key, one by one or several at once. */
static void *take_units(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(w->start);
    for (int i = 0; i < w->rounds; i++) {
        store_request requests[4];
        char keys[4];
        size_t n = 1 + suite_random(&w->seed) % 4;
        int64_t now_ns = begin_ns + i * w->step_ns;
        for (size_t a = 0; a < n; a++) {
            keys[a] = (char)('a' + suite_random(&w->seed) % (uint32_t)w->keys);
            requests[a] =
                (store_request){.policy = w->policies, .key = &keys[a], .key_len = 1, .cost = 1};
        }
        if (n > 1)
            w->engine->batch(w->e, requests, n, now_ns);
        else
            requests[0].status =
                w->engine->check(w->e, w->policies, keys, 1, now_ns, 1, &requests[0].decision);
        for (size_t a = 0; a < n; a++) {
            w->failures += requests[a].status != WEIR_OK;
            w->allowed[keys[a] - 'a'] +=
                requests[a].status == WEIR_OK && requests[a].decision.allowed;
        }
    }
    return NULL;
}

static void run_cases(const store_engine *engine, const policy_case *cases, size_t len,
                      const worker *like)
{
    for (size_t i = 0; i < len; i++) {
        weir_policy p = suite_policy(cases[i].text);
        worker w = *like;
        int64_t allowed[KEYS_MAX] = {0};
        w.engine = engine;
        w.e = engine->open(1 << 20);
        w.policies = &p;
        run_workers(&w, take_units, allowed);
        for (int k = 0; k < w.keys; k++) {
            if (allowed[k] < cases[i].least || allowed[k] > cases[i].most)
                fail_msg("%s, key %d: %lld allowed", cases[i].text, k, (long long)allowed[k]);
        }
        engine->close(w.e);
    }
}

/* While the clock stands still, exactly the burst is admitted, for one busy key and for several. */
void suite_threads_fixed_now(void **state)
{
    static const policy_case cases[] = {
        {"gcra 1000/s burst 500", 500, 500},
        {"gcra 7/s burst 500", 500, 500},
        {"fixed-window 500/h", 500, 500},
        {"sliding-log 6/h", 6, 6},
        {"sliding-log 500/h", 500, 500},
        {"sliding-counter 500/h", 500, 500},
        {"sliding-slices 500/h slices 60", 500, 500},
        {"gcra 1/s burst 500 & fixed-window 600/h", 500, 500},
    };
    for (int keys = 1; keys <= 8; keys += 7)
        run_cases(*state, cases, sizeof cases / sizeof cases[0],
                  &(worker){.rounds = 1500, .keys = keys});
}

/* In 40 ms each policy admits its limit and what 40 ms add. */
void suite_threads_time_goes_on(void **state)
{
    static const policy_case cases[] = {
        {"gcra 1000/s burst 100", 139, 140},
        {"gcra 7/s burst 100", 100, 100},
        {"token-bucket 100 refill 1 every 1s", 100, 100},
        {"fixed-window 100/h", 100, 100},
        {"sliding-log 100/h", 100, 100},
        {"sliding-counter 100/h", 100, 100},
        {"sliding-slices 100/h slices 60", 100, 100},
        {"sliding-log 200/h & gcra 1/h burst 100", 100, 100},
    };
    run_cases(*state, cases, sizeof cases / sizeof cases[0],
              &(worker){.rounds = 4000, .keys = 8, .step_ns = 10000});
}

/* ---- all calls at once ----------------------------------------------------------------------- */

enum { CHURN_KEYS = 60000, CHURN_POLICIES = 4 };

static size_t churn_key(char *key, uint32_t number)
{
    return (size_t)snprintf(key, SUITE_KEY_MAX, "key %u", number);
}

/* All calls at once, on more keys than fit in the memory and on a few that all threads use. */
static void *churn(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(w->start);
    for (int i = 0; i < w->rounds; i++) {
        char key[SUITE_KEY_MAX];
        weir_decision d;
        uint32_t what = suite_random(&w->seed) % 16;
        bool hot = suite_random(&w->seed) % 4 == 0;
        size_t len = churn_key(key, suite_random(&w->seed) % (hot ? 8 : CHURN_KEYS));
        const weir_policy *p = &w->policies[suite_random(&w->seed) % CHURN_POLICIES];
        int64_t now_ns = begin_ns + i * w->step_ns;
        weir_status st = WEIR_OK;
        if (what == 0)
            st = w->engine->reset(w->e, p, key, len);
        else if (what < 3)
            st = w->engine->refund(w->e, p, key, len, now_ns, 1, &d);
        else
            st = w->engine->check(w->e, p, key, len, now_ns, what % 3, &d);
        w->failures += st != WEIR_OK;
    }
    return NULL;
}

/* Afterwards no key is stored twice and none is unreachable: all can be reset. */
void suite_threads_churn(void **state)
{
    const store_engine *engine = *state;
    weir_policy policies[CHURN_POLICIES] = {
        suite_policy("gcra 1/s burst 5"), suite_policy("fixed-window 50/h"),
        suite_policy("sliding-counter 5/s"), suite_policy("gcra 7/s burst 3 & sliding-log 3/s")};
    int64_t allowed[KEYS_MAX] = {0};
    worker w = {.engine = engine,
                .e = engine->open(1 << 20),
                .policies = policies,
                .rounds = 60000,
                .step_ns = 100000};
    run_workers(&w, churn, allowed);
    if (engine->stats) {
        weir_store_stats stats = engine->stats(w.e);
        assert_true(stats.keys > 0);
        assert_true(stats.memory_bytes <= stats.memory_max);
    }
    for (uint32_t n = 0; n < CHURN_KEYS; n++) {
        char key[SUITE_KEY_MAX];
        size_t len = churn_key(key, n);
        for (int i = 0; i < CHURN_POLICIES; i++)
            assert_int_equal(engine->reset(w.e, &policies[i], key, len), WEIR_OK);
    }
    if (engine->stats)
        assert_int_equal(engine->stats(w.e).keys, 0);
    engine->close(w.e);
}
