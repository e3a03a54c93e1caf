/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_KEPT_KIT_TEST_H
#define WEIR_STORE_KEPT_KIT_TEST_H
/* A kit for the tests of limits that change: limits of a name, and a store with a key. */

#include "store/kept.h"

#include "store/iterate.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const int64_t s_ns = 1000000000, start_ns = 1767225600000000000;

typedef struct limit {
    weir_policy policy;
    uint64_t id;
} limit;

static inline weir_policy parse(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return p;
}

/* Makes `text` a limit of a name. If the store has a partition of that name, its keys are there. */
static inline limit limit_of(const weir_store *s, const char *name, const char *text)
{
    limit l = {.policy = parse(text)};
    l.id = weir_store_named_id(s, &l.policy, name, strlen(name));
    l.id = weir_store_partition_id(s, l.id, name);
    assert_int_equal(weir_store_note_limit(s, l.id, &l.policy, name, strlen(name)), WEIR_OK);
    return l;
}

/* A store with a key, so that a change of limits matters. */
static inline weir_store *store_with_key(const char *file)
{
    weir_store *s;
    weir_decision d;
    const weir_store_options o = {.file = file, .memory_bytes = (size_t)16 << 20};
    assert_int_equal(weir_store_open(&s, &o), WEIR_OK);
    weir_policy p = parse("fixed-window 1/year");
    assert_int_equal(
        weir_store_check(s, &p, weir_store_policy_id(s, &p), "other", 5, start_ns, 1, &d), WEIR_OK);
    return s;
}

static inline weir_decision take(weir_store *s, const limit *l, const char *key, int64_t now_ns,
                                 int64_t cost)
{
    weir_decision d;
    assert_int_equal(weir_store_check(s, &l->policy, l->id, key, strlen(key), now_ns, cost, &d),
                     WEIR_OK);
    return d;
}

static inline int64_t left(weir_store *s, const limit *l, int64_t now_ns)
{
    weir_decision d;
    assert_int_equal(weir_store_peek(s, &l->policy, l->id, "k", 1, now_ns, 0, &d), WEIR_OK);
    return d.remaining;
}

static inline uint64_t keys_of(weir_store *s)
{
    return weir_store_stats_get(s).keys;
}

#endif
