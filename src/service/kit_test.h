/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_KIT_TEST_H
#define WEIR_SERVICE_KIT_TEST_H
/* The fixture of this directory's tests: a store, a limiter and a service with rules. */

#include "service/service.h"
#include "service/service_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const int64_t now_ns = 1767225600000000000, s_ns = 1000000000;

static weir_store *store;
static weir_limiter *limiter;
static __attribute__((unused)) weir_service *service;

static inline int setup(void **unused)
{
    (void)unused;
    bool good = weir_store_open(&store, NULL) == WEIR_OK &&
                weir_limiter_open(&limiter, store, NULL) == WEIR_OK &&
                weir_service_open(&service, limiter) == WEIR_OK;
    return good ? 0 : -1;
}

static inline int teardown(void **unused)
{
    (void)unused;
    weir_service_close(service);
    weir_limiter_close(limiter);
    weir_store_close(store);
    return 0;
}

static inline weir_slice text_of(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

static inline weir_request request_of(const char *rule, const char *key, int64_t cost)
{
    return (weir_request){.rule = text_of(rule), .key = text_of(key), .cost = cost};
}

static inline void set_rules(const weir_rule_spec *specs, size_t n)
{
    weir_rules *rules;
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, n), WEIR_OK);
    weir_limiter_set_rules(limiter, rules);
}

/* Changes the default engine and keeps the rules. */
static inline void set_default_engine(weir_engine_kind engine)
{
    weir_rules *rules = limiter->rules;
    rules->refs++;
    weir_limiter_configure(limiter, rules, engine);
}

static inline weir_rule_spec spec_of(const char *name, const char *limit)
{
    weir_rule_spec s = WEIR_RULE_SPEC_DEFAULT;
    s.name = name;
    s.limit = limit;
    return s;
}

/* The remaining quota of a key. */
static inline int64_t left(const char *rule, const char *key, int64_t at_ns)
{
    weir_request request = request_of(rule, key, 0);
    assert_true(weir_service_peek(service, NULL, &request, at_ns));
    assert_int_equal(request.status, WEIR_OK);
    return request.decision.remaining;
}

typedef struct counts_find {
    const char *name;
    weir_counts counts;
    bool seen;
} counts_find;

static inline void find_counts(void *ctx, const char *name, const weir_counts *counts)
{
    counts_find *f = ctx;
    if (strcmp(name, f->name) == 0) {
        assert_false(f->seen);
        f->seen = true;
        f->counts = *counts;
    }
}

static inline weir_counts counts_of(const char *name)
{
    counts_find f = {.name = name};
    weir_limiter_counts(limiter, find_counts, &f);
    assert_true(f.seen);
    return f.counts;
}

#endif
