/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_STORE_SUITE_H
#define WEIR_TESTS_STORE_SUITE_H
/* What every keeper of many keys' states must do, whatever it is made of: the suite sees it through
 * the functions below alone. */

#include <weir/weir_store.h>

typedef struct store_ask { /* one of a batch */
    const weir_policy *policy;
    const char *key;
    size_t key_len;
    int64_t cost;
    weir_status status; /* out */
    weir_decision decision;
} store_ask;

typedef struct store_engine {
    void *(*open)(size_t memory_bytes); /* 0: plenty. An engine without a budget may not look */
    void (*close)(void *e);
    weir_status (*check)(void *e, const weir_policy *p, const char *key, size_t key_len,
                         int64_t now_ns, int64_t cost, weir_decision *ret);
    weir_status (*refund)(void *e, const weir_policy *p, const char *key, size_t key_len,
                          int64_t now_ns, int64_t cost, weir_decision *ret);
    weir_status (*reset)(void *e, const weir_policy *p, const char *key, size_t key_len);
    void (*batch)(void *e, store_ask *asks, size_t n, int64_t now_ns);
    weir_store_stats (*stats)(void *e); /* NULL: the engine has no budget */
} store_engine;

/* Runs every test on the engine. Returns how many failed. */
int store_suite_run(const store_engine *engine);

/* ---- within the suite ------------------------------------------------------------------------ */

enum { SUITE_KEY_MAX = 32 };

/* Numbers that are the same in every run; *seed is the state. */
uint32_t suite_random(uint64_t *seed);

/* Fails the test if it cannot be read. */
weir_policy suite_policy(const char *text);

/* A decision that must not fail. */
weir_decision suite_take(const store_engine *engine, void *e, const weir_policy *p, const char *key,
                         int64_t now_ns, int64_t cost);

/* The tests with threads; *state is the engine. */
void suite_threads_fixed_now(void **state);
void suite_threads_time_goes_on(void **state);
void suite_threads_churn(void **state);

#endif
