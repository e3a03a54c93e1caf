/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_STORE_SUITE_H
#define WEIR_TESTS_STORE_SUITE_H
/* The conformance suite of stores: what every store of many keys must do. The suite calls a store
 * through the functions below only. */

#include <weir/weir_store.h>

typedef struct store_request { /* one request of a batch */
    const weir_policy *policy;
    const char *key;
    size_t key_len;
    int64_t cost;
    weir_status status; /* output */
    weir_decision decision;
} store_request;

typedef struct store_engine {
    void *(*open)(size_t memory_bytes); /* 0: enough. A store without a budget may ignore it */
    void (*close)(void *e);
    weir_status (*check)(void *e, const weir_policy *p, const char *key, size_t key_len,
                         int64_t now_ns, int64_t cost, weir_decision *ret);
    weir_status (*refund)(void *e, const weir_policy *p, const char *key, size_t key_len,
                          int64_t now_ns, int64_t cost, weir_decision *ret);
    weir_status (*reset)(void *e, const weir_policy *p, const char *key, size_t key_len);
    void (*batch)(void *e, store_request *requests, size_t n, int64_t now_ns);
    weir_store_stats (*stats)(void *e); /* NULL: the store has no budget */
} store_engine;

/* Runs every test on a store. Returns the number of failures. */
int store_suite_run(const store_engine *engine);

/* ---- helpers --------------------------------------------------------------------------------- */

enum { SUITE_KEY_MAX = 32 };

/* Random numbers, the same in every run. *seed is the state. */
uint32_t suite_random(uint64_t *seed);

/* Fails the test if the text is invalid. */
weir_policy suite_policy(const char *text);

/* A decision, which must not fail. */
weir_decision suite_take(const store_engine *engine, void *e, const weir_policy *p, const char *key,
                         int64_t now_ns, int64_t cost);

/* The tests with threads. *state is the store. */
void suite_threads_fixed_now(void **state);
void suite_threads_time_goes_on(void **state);
void suite_threads_churn(void **state);

#endif
