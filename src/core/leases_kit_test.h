/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_LEASES_KIT_TEST_H
#define WEIR_CORE_LEASES_KIT_TEST_H
/* A key of a policy with one concurrent layer, and those who hold its units. */

#include "core/check.h"
#include "core/leases.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { LEVEL = 3, WORDS = 64, HOLDERS = 24 };

typedef struct holder {
    int64_t ends_ns, units;
} holder;

typedef struct key {
    weir_policy policy;
    uint64_t state[WORDS];
    holder held[HOLDERS];
    size_t len;
} key;

static inline key key_of(const char *text)
{
    key k = {.policy = policy_of(text)};
    assert_true(weir_state_words(&k.policy, LEVEL) <= WORDS);
    return k;
}

static inline weir_decision take(key *k, int64_t now_ns, int64_t cost, int64_t lease_ns)
{
    weir_policy with = k->policy;
    weir_decision d;
    with.layer[0].den = (uint64_t)lease_ns;
    assert_int_equal(weir_check(&with, k->state, LEVEL, now_ns, cost, &d), WEIR_OK);
    return d;
}

static inline int64_t left(const key *k, int64_t now_ns)
{
    weir_decision d;
    assert_int_equal(weir_peek(&k->policy, k->state, LEVEL, now_ns, 0, &d), WEIR_OK);
    return d.remaining;
}

static inline weir_decision release(key *k, int64_t ends_ns, int64_t units, int64_t now_ns)
{
    weir_decision d;
    const weir_charged of = {0, ends_ns, units};
    assert_int_equal(weir_refund_charge(&k->policy, k->state, LEVEL, &of, now_ns, 0, &d), WEIR_OK);
    return d;
}

static inline weir_decision renew(key *k, int64_t ends_ns, int64_t units, int64_t ttl_ns,
                                  int64_t now_ns)
{
    weir_decision d;
    int64_t until_ns;
    const weir_charged of = {0, ends_ns, units};
    assert_int_equal(weir_renew(&k->policy, k->state, LEVEL, &of, ttl_ns, now_ns, &d, &until_ns),
                     WEIR_OK);
    assert_int_equal(until_ns, weir_state_time(&k->policy, k->state, LEVEL, now_ns) + ttl_ns);
    return d;
}

static inline uint64_t next(uint64_t *x)
{
    *x = *x * 6364136223846793005 + 1442695040888963407;
    return *x >> 33;
}

#endif
