/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Requests in flight: reservations under a concurrent layer, against a list of holders. */

#include "store/reservations.h"
#include "store/store.h"

#include "tests/kit/kit.h"
#include "tests/store/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HOLDERS = 1000 };

static const int64_t s_ns = 1000000000, start_ns = 1767225600000000000;

typedef struct fixture {
    weir_store *store;
    weir_policy policy;
    uint64_t policy_id;
} fixture;

static fixture open_with(const char *text)
{
    fixture f = {.policy = policy_of(text)};
    const weir_store_options options = {.memory_bytes = 4 << 20};
    assert_int_equal(weir_store_open(&f.store, &options), WEIR_OK);
    f.policy_id = weir_store_policy_id(f.store, &f.policy);
    return f;
}

static void close_with(fixture *f)
{
    WEIR_CHECK(weir_store_check_all(f->store, false));
    weir_store_close(f->store);
}

static weir_decision look(const fixture *f, int64_t now_ns, int64_t cost)
{
    weir_decision d;
    assert_int_equal(weir_store_peek(f->store, &f->policy, f->policy_id, "k", 1, now_ns, cost, &d),
                     WEIR_OK);
    return d;
}

static weir_status reserve(const fixture *f, int64_t now_ns, int64_t cost, int64_t ttl_ns,
                           uint64_t *ret_id)
{
    weir_decision d = {.allowed = false};
    weir_status st = weir_store_reserve(f->store, &f->policy, f->policy_id, "k", 1, now_ns, cost,
                                        ttl_ns, &d, ret_id);
    assert_true(st != WEIR_OK || d.allowed);
    return st;
}

static void ttls(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 5 lease 30s");
    uint64_t id;
    weir_decision d;
    assert_int_equal(reserve(&f, start_ns, 1, 30 * s_ns + 1, &id), WEIR_E_RANGE);
    assert_int_equal(reserve(&f, start_ns, 1, -1, &id), WEIR_E_RANGE);
    assert_int_equal(reserve(&f, start_ns, 1, 0, &id), WEIR_OK);
    assert_int_equal(look(&f, start_ns, 0).reset_after_ns, 30 * s_ns);
    assert_int_equal(weir_store_renew(f.store, id, start_ns, 30 * s_ns + 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_renew(f.store, id, start_ns, -1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_renew(f.store, id, -1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_renew(f.store, id + 1, start_ns, 1, &d), WEIR_E_ABSENT);
    assert_int_equal(weir_store_renew(f.store, id, start_ns + s_ns, 30 * s_ns, &d), WEIR_OK);
    assert_true(d.remaining == 4 && d.reset_after_ns == 30 * s_ns);
    assert_int_equal(weir_store_renew(f.store, id, start_ns + s_ns, 7, &d), WEIR_OK);
    assert_int_equal(d.reset_after_ns, 7);
    assert_int_equal(weir_store_renew(f.store, id, start_ns + s_ns + 6, 0, &d), WEIR_OK);
    assert_int_equal(d.reset_after_ns, 30 * s_ns);
    assert_int_equal(look(&f, start_ns + 31 * s_ns + 5, 0).remaining, 4);
    assert_int_equal(look(&f, start_ns + 31 * s_ns + 6, 0).remaining, 5);
    assert_int_equal(weir_store_renew(f.store, id, start_ns + 31 * s_ns + 6, 0, &d), WEIR_E_ABSENT);
    close_with(&f);
}

/* Without leases, a renewal moves only the time at which the reservation expires. */
static void other_policies_are_renewed(void **unused)
{
    (void)unused;
    fixture f = open_with("fixed-window 9/d");
    uint64_t id;
    weir_decision d;
    assert_int_equal(reserve(&f, start_ns, 4, 0, &id), WEIR_E_RANGE);
    assert_int_equal(reserve(&f, start_ns, 4, s_ns, &id), WEIR_OK);
    assert_int_equal(weir_store_renew(f.store, id, start_ns, 0, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_renew(f.store, id, start_ns + 1, 3 * s_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 5);
    assert_int_equal(look(&f, start_ns + 3 * s_ns, 0).remaining, 5);
    assert_int_equal(look(&f, start_ns + 3 * s_ns + 1, 0).remaining, 9);
    const int64_t longest_ns = WEIR_SPAN_NS_MAX, late_ns = start_ns + 4 * s_ns;
    assert_int_equal(reserve(&f, late_ns, 4, longest_ns + 1, &id), WEIR_E_RANGE);
    assert_int_equal(reserve(&f, late_ns, 4, longest_ns, &id), WEIR_OK);
    assert_int_equal(weir_store_renew(f.store, id, late_ns, longest_ns + 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_store_renew(f.store, id, late_ns, longest_ns, &d), WEIR_OK);
    close_with(&f);
}

/* A commit settles the rate and gives the slots back; a cancellation, and the end of the lease,
 * give back both. */
static void with_a_rate(void **unused)
{
    (void)unused;
    static const struct {
        const char *policy;
        int64_t actual, rate_left, over;
    } rows[] = {
        {"concurrent 5 lease 30s & fixed-window 9/d", 3, 6, 0},
        {"concurrent 5 lease 30s & fixed-window 9/d", 1, 8, 0},
        {"concurrent 5 lease 30s & fixed-window 9/d", 0, 9, 0},
        {"concurrent 5 lease 30s & fixed-window 9/d", 8, 1, 0},
        {"fixed-window 9/d & concurrent 5 lease 30s & sliding-log 9/d", 11, 0, 0},
        {"concurrent 5 lease 30s & gcra 1/1000d burst 9", 20, 0, 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f = open_with(rows[i].policy);
        uint64_t id;
        int64_t over;
        weir_decision d;
        assert_int_equal(reserve(&f, start_ns, 3, 0, &id), WEIR_OK);
        assert_int_equal(look(&f, start_ns, 0).remaining, 2);
        assert_int_equal(weir_store_commit(f.store, id, start_ns + s_ns, rows[i].actual, &d, &over),
                         WEIR_OK);
        assert_int_equal(over, rows[i].over);
        int64_t left = rows[i].rate_left < 5 ? rows[i].rate_left : 5;
        assert_int_equal(d.remaining, left);
        assert_int_equal(look(&f, start_ns + s_ns, 0).remaining, left);
        assert_int_equal(weir_store_reset(f.store, f.policy_id, "k", 1), WEIR_OK);
        assert_int_equal(reserve(&f, start_ns + s_ns, 3, 0, &id), WEIR_OK);
        assert_int_equal(look(&f, start_ns + 31 * s_ns - 1, 0).remaining, 2);
        assert_int_equal(look(&f, start_ns + 31 * s_ns, 0).remaining, 5);
        assert_int_equal(
            weir_store_check(f.store, &f.policy, f.policy_id, "k", 1, start_ns + 31 * s_ns, 5, &d),
            WEIR_OK);
        assert_true(d.allowed && d.remaining == 0); /* of the slots: 4 of the rate are left */
        assert_int_equal(look(&f, start_ns + 61 * s_ns, 0).remaining, 4);
        close_with(&f);
    }
}

/* A late commit charges the rate alone, and a lease that has ended cannot be renewed. */
static void late_commits(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 5 lease 30s & fixed-window 9/d");
    uint64_t id, other;
    int64_t over = -1;
    weir_decision d;
    assert_int_equal(reserve(&f, start_ns, 2, 0, &id), WEIR_OK);
    assert_int_equal(reserve(&f, start_ns + 30 * s_ns, 3, 0, &other), WEIR_OK);
    assert_int_equal(weir_store_renew(f.store, id, start_ns + 30 * s_ns, 0, &d), WEIR_E_ABSENT);
    assert_int_equal(look(&f, start_ns + 30 * s_ns, 0).remaining, 2);
    assert_int_equal(weir_store_commit(f.store, id, start_ns + 30 * s_ns, 5, &d, &over), WEIR_OK);
    assert_true(d.allowed && d.remaining == 1 && d.layer == 1 && over == 0);
    assert_int_equal(weir_store_commit(f.store, id, start_ns + 30 * s_ns, 5, &d, &over),
                     WEIR_E_ABSENT);
    assert_int_equal(weir_store_cancel(f.store, other, start_ns + 31 * s_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 4);
    close_with(&f);
}

/* A commit of more than was held charges nothing if there is no rate. */
static void without_a_rate(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 5 lease 30s & block 1s");
    uint64_t id;
    int64_t over = -1;
    weir_decision d;
    assert_int_equal(reserve(&f, start_ns, 3, 0, &id), WEIR_OK);
    assert_int_equal(weir_store_commit(f.store, id, start_ns, 8, &d, &over), WEIR_OK);
    assert_true(d.allowed && d.remaining == 5 && over == 0);
    assert_int_equal(
        weir_store_charge(f.store, &f.policy, f.policy_id, "k", 1, start_ns, 1, &d, &over),
        WEIR_E_UNSUPPORTED);
    close_with(&f);
}

/* A reset leaves nothing to renew or to give back. */
static void resets(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 5 lease 30s");
    uint64_t id;
    weir_decision d;
    assert_int_equal(reserve(&f, start_ns, 3, 0, &id), WEIR_OK);
    assert_int_equal(weir_store_reset(f.store, f.policy_id, "k", 1), WEIR_OK);
    assert_int_equal(weir_store_check(f.store, &f.policy, f.policy_id, "k", 1, start_ns, 3, &d),
                     WEIR_OK);
    assert_int_equal(weir_store_renew(f.store, id, start_ns, s_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 2);
    assert_int_equal(weir_store_cancel(f.store, id, start_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 2);
    close_with(&f);
}

/* ---- a thousand holders ---------------------------------------------------------------------- */

typedef struct holder {
    uint64_t id;
    int64_t ends_ns;
} holder;

static uint64_t next(uint64_t *x)
{
    *x = *x * 6364136223846793005 + 1442695040888963407;
    return *x >> 33;
}

static int64_t held_at(const holder *h, size_t len, int64_t now_ns)
{
    int64_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum += h[i].ends_ns > now_ns;
    return sum;
}

/* When a cost of 1 is allowed, after a renewal and a commit. */
static void next_units(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 1 lease 30s");
    uint64_t id;
    weir_decision d;
    int64_t over, next_ns = 77;
    assert_int_equal(reserve(&f, start_ns, 1, 0, &id), WEIR_OK);
    assert_int_equal(weir_store_renew_next(f.store, id, start_ns + s_ns, 0, &d, &next_ns), WEIR_OK);
    assert_int_equal(next_ns, 30 * s_ns);
    next_ns = 77;
    assert_int_equal(weir_store_renew_next(f.store, id + 1, start_ns, 0, &d, &next_ns),
                     WEIR_E_ABSENT);
    assert_int_equal(next_ns, 77);
    assert_int_equal(weir_store_renew_next(f.store, id, start_ns + s_ns, 0, &d, NULL), WEIR_OK);
    assert_int_equal(weir_store_commit_next(f.store, id, start_ns + s_ns, 1, &d, &over, &next_ns),
                     WEIR_OK);
    assert_int_equal(next_ns, 0);
    close_with(&f);
    f = open_with("gcra 1/s burst 2");
    assert_int_equal(reserve(&f, start_ns, 1, s_ns, &id), WEIR_OK);
    assert_int_equal(weir_store_commit_next(f.store, id, start_ns, 2, &d, &over, &next_ns),
                     WEIR_OK);
    assert_int_equal(next_ns, s_ns);
    assert_int_equal(reserve(&f, start_ns + 2 * s_ns, 1, s_ns, &id), WEIR_OK);
    assert_int_equal(weir_store_commit_next(f.store, id, start_ns + 2 * s_ns, 1, &d, &over, NULL),
                     WEIR_OK);
    next_ns = 77;
    assert_int_equal(weir_store_commit_next(f.store, id, start_ns, 1, &d, &over, &next_ns),
                     WEIR_E_ABSENT);
    assert_int_equal(next_ns, 77);
    close_with(&f);
}

/* A thousand holders take a slot each. Some renew, some give it back, and then all are killed.
 * Whatever the order, what is held follows from the leases, and nothing is held after the longest.
 */
static void killed_holders(void **unused)
{
    (void)unused;
    static holder h[HOLDERS];
    weir_decision d;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        fixture f = open_with("concurrent 1000 lease 30s");
        uint64_t x = seed;
        int64_t now_ns = start_ns;
        for (size_t i = 0; i < HOLDERS; i++) {
            int64_t ttl_ns = next(&x) % 4 ? 1 + (int64_t)(next(&x) % 30) * s_ns : 30 * s_ns;
            ttl_ns = ttl_ns < 30 * s_ns ? ttl_ns : 30 * s_ns;
            assert_int_equal(reserve(&f, now_ns, 1, ttl_ns, &h[i].id), WEIR_OK);
            h[i].ends_ns = now_ns + ttl_ns;
            now_ns += (int64_t)(next(&x) % 20) * 1000000;
        }
        for (size_t n = 0; n < HOLDERS; n++, now_ns += (int64_t)(next(&x) % 20) * 1000000) {
            holder *one = &h[next(&x) % HOLDERS];
            bool open = one->ends_ns > now_ns, known = one->ends_ns > 0, renew = next(&x) % 2;
            weir_status st = renew ? weir_store_renew(f.store, one->id, now_ns, 0, &d)
                                   : weir_store_cancel(f.store, one->id, now_ns, &d);
            assert_int_equal(st, (renew ? open : known) ? WEIR_OK : WEIR_E_ABSENT);
            if (st == WEIR_OK)
                one->ends_ns = renew ? now_ns + 30 * s_ns : 0;
            assert_int_equal(look(&f, now_ns, 0).remaining, HOLDERS - held_at(h, HOLDERS, now_ns));
        }
        assert_true(held_at(h, HOLDERS, now_ns) > 100);
        for (int64_t late = 0; late < 30; late++)
            assert_int_equal(look(&f, now_ns + late * s_ns, 0).remaining,
                             HOLDERS - held_at(h, HOLDERS, now_ns + late * s_ns));
        d = look(&f, now_ns + 30 * s_ns, 0);
        assert_true(d.remaining == HOLDERS && d.reset_after_ns == 0);
        assert_int_equal(weir_store_check(f.store, &f.policy, f.policy_id, "k", 1,
                                          now_ns + 30 * s_ns, HOLDERS, &d),
                         WEIR_OK);
        assert_true(d.allowed);
        assert_int_equal(weir_store_stats_get(f.store).reserved, 0);
        close_with(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ttls),         cmocka_unit_test(other_policies_are_renewed),
        cmocka_unit_test(with_a_rate),  cmocka_unit_test(resets),
        cmocka_unit_test(late_commits), cmocka_unit_test(without_a_rate),
        cmocka_unit_test(next_units),   cmocka_unit_test(killed_holders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
