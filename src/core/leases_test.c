/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Leases: times at which they end, what is given back and renewed, and damaged states. The vectors
 * cover takes and refunds. */

#include "core/algorithm.h"
#include "core/check.h"
#include "core/leases_kit_test.h"
#include "core/windows.h"

#include <string.h>

/* A lease ends at its exact nanosecond. A shorter one ends before one that began earlier. */
static void leases_end(void **unused)
{
    (void)unused;
    key k = key_of("concurrent 3 lease 100ns");
    assert_int_equal(take(&k, 1000, 1, 100).reset_after_ns, 100);
    weir_decision d = take(&k, 1010, 2, 30);
    assert_true(d.allowed && d.remaining == 0 && d.reset_after_ns == 90);
    d = take(&k, 1010, 2, 100);
    assert_true(!d.allowed && !d.never && d.retry_after_ns == 30 && d.reset_after_ns == 90);
    d = take(&k, 1010, 3, 100);
    assert_true(!d.allowed && d.retry_after_ns == 90);
    d = take(&k, 1010, 4, 100);
    assert_true(!d.allowed && d.never && d.retry_after_ns == INT64_MAX);
    assert_int_equal(left(&k, 1039), 0);
    assert_int_equal(left(&k, 1040), 2);
    assert_int_equal(left(&k, 1099), 2);
    assert_int_equal(left(&k, 1100), 3);
    assert_int_equal(weir_fresh_after(&k.policy, k.state, LEVEL, 1010), 90);
}

/* Only units with the same end are given back. */
static void units_are_given_back(void **unused)
{
    (void)unused;
    key k = key_of("concurrent 9 lease 100ns");
    take(&k, 1000, 2, 50);
    take(&k, 1000, 3, 50); /* shares an entry */
    take(&k, 1000, 4, 100);
    assert_int_equal(release(&k, 1049, 5, 1000).remaining, 0);
    assert_int_equal(release(&k, 1051, 5, 1000).remaining, 0);
    assert_int_equal(release(&k, 1050, 2, 1000).remaining, 2);
    assert_int_equal(release(&k, 1100, 9, 1000).remaining, 6); /* 4 of them are held */
    assert_int_equal(release(&k, 1050, 3, 1049).remaining, 9);
    assert_int_equal(k.state[0] >> 32, 0);
    take(&k, 1060, 3, 100);
    assert_int_equal(release(&k, 1160, 3, 1160).remaining, 9); /* it has ended */
}

/* A refund without a lease gives back the units that end first. */
static void refunds_begin_with_the_first(void **unused)
{
    (void)unused;
    weir_decision d;
    key k = key_of("concurrent 9 lease 100ns");
    take(&k, 1000, 3, 100);
    take(&k, 1020, 3, 100);
    assert_int_equal(weir_refund(&k.policy, k.state, LEVEL, 1020, 4, &d), WEIR_OK);
    assert_true(d.remaining == 7 && d.reset_after_ns == 100);
    assert_int_equal(release(&k, 1100, 3, 1020).remaining, 7);
    assert_int_equal(release(&k, 1120, 3, 1020).remaining, 9);
    assert_int_equal(weir_refund(&k.policy, k.state, LEVEL, 1020, 1, &d), WEIR_OK);
    assert_int_equal(d.remaining, 9);
}

static void leases_are_renewed(void **unused)
{
    (void)unused;
    key k = key_of("concurrent 9 lease 100ns");
    take(&k, 1000, 5, 100);
    assert_int_equal(renew(&k, 1100, 2, 100, 1099).remaining, 4); /* the entry is split */
    assert_int_equal(left(&k, 1100), 7);
    assert_int_equal(left(&k, 1199), 9);
    key copy = k;
    assert_int_equal(renew(&copy, 1199, 2, 1, 1150).remaining, 7); /* shorter */
    assert_int_equal(left(&copy, 1151), 9);
    copy = k;
    assert_int_equal(renew(&copy, 1199, 2, 100, 1199).remaining, 9); /* it has ended */
    assert_int_equal(left(&copy, 1199), 9);
    copy = k;
    assert_int_equal(renew(&copy, 1200, 2, 100, 1150).remaining, 7); /* no lease ends so late */
    assert_int_equal(left(&copy, 1199), 9);
    assert_int_equal(renew(&k, 1198, 2, 100, 1150).remaining, 7); /* it may be in a later one */
    assert_int_equal(left(&k, 1249), 7);
    assert_int_equal(left(&k, 1250), 9);
}

/* If the clock steps back, an ended lease counts again, and no lease ends earlier because of it. */
static void the_clock_steps_back(void **unused)
{
    (void)unused;
    key k = key_of("concurrent 3 lease 100ns");
    take(&k, 1000, 1, 100);
    assert_int_equal(left(&k, 1100), 3);
    assert_int_equal(left(&k, 1099), 2);
    assert_int_equal(weir_state_time(&k.policy, k.state, LEVEL, 999), 1000);
    assert_int_equal(weir_state_time(&k.policy, k.state, LEVEL, 1001), 1001);
    assert_int_equal(take(&k, 900, 1, 100).reset_after_ns, 200);
    assert_int_equal(take(&k, 900, 1, 20).retry_after_ns, 0);
    assert_int_equal(left(&k, 1019), 0);
    assert_int_equal(left(&k, 1020), 1);
}

/* A state grows if it has no entry left, unless the new units share one. */
static void states_grow(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("concurrent 100 lease 100ns");
    weir_layer *l = &p.layer[0];
    uint64_t state[WORDS] = {0}, wider[WORDS], before[WORDS];
    weir_decision d;
    int64_t until_ns;
    for (int64_t t = 1000; t < 1004; t++)
        assert_int_equal(weir_check(&p, state, 0, t, 2, &d), WEIR_OK);
    memcpy(before, state, sizeof before);
    assert_true(weir_leases_full(l, state, 0, 1004, 1));
    assert_false(weir_leases_full(l, state, 0, 1004, 0));
    assert_false(weir_leases_full(l, state, 0, 1003, 1));
    assert_int_equal(weir_check(&p, state, 0, 1004, 1, &d), WEIR_E_ROOM);
    l->den = 97; /* ends with the first one, before the last */
    assert_int_equal(weir_check(&p, state, 0, 1003, 1, &d), WEIR_OK);
    assert_int_equal(d.remaining, 91);
    memcpy(state, before, sizeof before);
    l->den = 50;
    assert_int_equal(weir_check(&p, state, 0, 1003, 1, &d), WEIR_E_ROOM);
    assert_memory_equal(state, before, sizeof before);
    l->den = 100;
    const weir_charged one = {1001, 1101, 1}, two = {1001, 1101, 2};
    assert_int_equal(weir_renew(&p, state, 0, &one, 100, 1050, &d, &until_ns), WEIR_E_ROOM);
    assert_memory_equal(state, before, sizeof before);
    weir_state_grow(&p, state, 0, wider);
    assert_int_equal(weir_renew(&p, wider, 1, &one, 100, 1050, &d, &until_ns), WEIR_OK);
    assert_int_equal(d.remaining, 92);
    assert_int_equal(weir_renew(&p, state, 0, &one, 50, 1052, &d, &until_ns), WEIR_OK);
    assert_int_equal(until_ns, 1102); /* shares an entry */
    memcpy(state, before, sizeof before);
    assert_int_equal(weir_renew(&p, state, 0, &two, 100, 1050, &d, &until_ns), WEIR_OK);
    assert_int_equal(state[0] >> 32, 4);                              /* moves its entry */
    assert_int_equal(weir_check(&p, state, 0, 1100, 1, &d), WEIR_OK); /* one lease has ended */
    assert_int_equal(d.remaining, 93);
}

static void damage_is_found(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("concurrent 3 lease 1m");
    uint64_t state[WORDS] = {0};
    weir_decision d;
    assert_int_equal(weir_check(&p, state, 0, WEIR_NOW_NS_MAX, 3, &d), WEIR_OK);
    assert_true(weir_leases_sound(&p.layer[0], state, 0));
    assert_int_equal(state[WEIR_LOG_STAMPS], WEIR_NOW_NS_MAX + 60000000000);
    state[WEIR_LOG_STAMPS]++;
    assert_false(weir_leases_sound(&p.layer[0], state, 0));
    assert_int_equal(weir_check(&p, state, 0, 5, 1, &d), WEIR_E_RANGE);
    state[WEIR_LOG_STAMPS] = 7;
    assert_true(weir_leases_sound(&p.layer[0], state, 0));
    state[WEIR_LOG_STAMPS + 3] = WEIR_LIMIT_MAX;
    assert_true(weir_leases_sound(&p.layer[0], state, 0));
    state[WEIR_LOG_STAMPS + 3] = (uint64_t)WEIR_LIMIT_MAX + 1; /* more than any limit */
    assert_false(weir_leases_sound(&p.layer[0], state, 0));
    state[WEIR_LOG_STAMPS + 3] = 3;
    state[0] = UINT64_C(1) << 32 | 3; /* a head behind the ring */
    assert_false(weir_leases_sound(&p.layer[0], state, 0));
    state[0] = UINT64_C(4) << 32;
    assert_false(weir_leases_sound(&p.layer[0], state, 0));
}

/* ---- against a list of holders --------------------------------------------------------------- */

static int64_t held(const key *k, int64_t now_ns)
{
    int64_t sum = 0;
    for (size_t i = 0; i < k->len; i++)
        sum += k->held[i].ends_ns > now_ns ? k->held[i].units : 0;
    return sum;
}

static void step(key *k, uint64_t *x, int64_t now_ns)
{
    size_t i = k->len > 0 ? next(x) % k->len : 0;
    int64_t ttl_ns = 1 + (int64_t)(next(x) % 100), cost = 1 + (int64_t)(next(x) % 3);
    holder *h = &k->held[i];
    switch (next(x) % 4) {
    case 0:
        if (k->len > 0) {
            release(k, h->ends_ns, h->units, now_ns);
            *h = k->held[--k->len];
        }
        break;
    case 1:
        if (k->len > 0 && h->ends_ns > now_ns) {
            renew(k, h->ends_ns, h->units, ttl_ns, now_ns);
            h->ends_ns = weir_state_time(&k->policy, k->state, LEVEL, now_ns) + ttl_ns;
        }
        break;
    default:
        if (k->len < HOLDERS && take(k, now_ns, cost, ttl_ns).allowed)
            k->held[k->len++] = (holder){now_ns + ttl_ns, cost};
    }
}

static void random_holders(void **unused)
{
    (void)unused;
    uint64_t x = 20260101;
    for (int run = 0; run < 200; run++) {
        key k = key_of(run % 2 ? "concurrent 20 lease 100ns" : "concurrent 3 lease 100ns");
        int64_t now_ns = 1000;
        for (int i = 0; i < 300; i++) {
            now_ns += (int64_t)(next(&x) % 12);
            step(&k, &x, now_ns);
            for (int64_t later_ns = 0; later_ns <= 100; later_ns += 10)
                assert_int_equal(left(&k, now_ns + later_ns),
                                 k.policy.layer[0].limit - held(&k, now_ns + later_ns));
            assert_true(weir_state_sound(&k.policy, k.state, LEVEL));
        }
    }
}

/* Only a new entry may need a larger ring: not a peek, not a lease that has ended already, and not
 * one in a ring that has an entry for each unit. */
static void rings_that_are_not_full(void **unused)
{
    (void)unused;
    key k = key_of("concurrent 5 lease 100ns");
    weir_layer *l = &k.policy.layer[0];
    const weir_charged of = {0, 0, 0};
    weir_decision d;
    int64_t ends_ns;
    for (int i = 0; i < 5; i++)
        (void)take(&k, i, 1, 100);
    assert_false(weir_leases_full(l, k.state, LEVEL, 5, 1));
    assert_false(weir_leases_full(l, k.state, LEVEL, 5, 0));
    assert_false(weir_leases_allows(l, k.state, LEVEL, 5, 1));
    assert_int_equal(weir_renew(&k.policy, k.state, LEVEL, &of, 1, -1, &d, &ends_ns), WEIR_E_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_end),
        cmocka_unit_test(units_are_given_back),
        cmocka_unit_test(refunds_begin_with_the_first),
        cmocka_unit_test(leases_are_renewed),
        cmocka_unit_test(the_clock_steps_back),
        cmocka_unit_test(states_grow),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(random_holders),
        cmocka_unit_test(rings_that_are_not_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
