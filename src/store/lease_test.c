/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Leases without a record: what is held, renewed and given back, also under a limit that changes,
 * and against a list of holders. */

#include "store/lease.h"

#include "store/iterate.h"
#include "store/take_many.h"
#include "tests/kit/kit.h"
#include "tests/store/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

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

static weir_store_request request(const fixture *f, int64_t cost)
{
    return (weir_store_request){
        .policy = &f->policy, .policy_id = f->policy_id, .key = "k", .key_len = 1, .cost = cost};
}

/* Takes units, and returns when their lease ends. */
static int64_t take(const fixture *f, int64_t now_ns, int64_t cost)
{
    weir_store_request r = request(f, cost);
    int64_t ends_ns = -1;
    assert_int_equal(weir_store_take_lease(f->store, &r, now_ns, &ends_ns), WEIR_OK);
    assert_int_equal(r.status, WEIR_OK);
    assert_int_equal(ends_ns > 0, r.decision.allowed && cost > 0);
    return ends_ns;
}

static weir_status renew(const fixture *f, int64_t now_ns, int64_t cost, int64_t *ends_ns)
{
    const weir_store_request r = request(f, cost);
    return weir_store_renew_lease(f->store, &r, now_ns, ends_ns);
}

static weir_status give_back(const fixture *f, int64_t now_ns, int64_t cost, int64_t ends_ns)
{
    const weir_store_request r = request(f, cost);
    return weir_store_return_lease(f->store, &r, now_ns, ends_ns);
}

static weir_decision look(const fixture *f, int64_t now_ns)
{
    weir_decision d;
    assert_int_equal(weir_store_peek(f->store, &f->policy, f->policy_id, "k", 1, now_ns, 0, &d),
                     WEIR_OK);
    return d;
}

static void one_lease(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 3 lease 30s");
    assert_int_equal(take(&f, start_ns, 0), 0);
    int64_t ends_ns = take(&f, start_ns, 2);
    assert_int_equal(ends_ns, start_ns + 30 * s_ns);
    assert_int_equal(take(&f, start_ns + 1, 2), 0);
    assert_int_equal(look(&f, start_ns + 1).remaining, 1);
    assert_int_equal(renew(&f, start_ns + s_ns, 2, &ends_ns), WEIR_OK);
    assert_int_equal(ends_ns, start_ns + 31 * s_ns);
    assert_int_equal(look(&f, start_ns + 31 * s_ns - 1).remaining, 1);
    assert_int_equal(renew(&f, start_ns + 31 * s_ns - 1, 2, &ends_ns), WEIR_OK);
    assert_int_equal(ends_ns, start_ns + 61 * s_ns - 1);
    assert_int_equal(give_back(&f, start_ns + 61 * s_ns - 2, 2, ends_ns), WEIR_OK);
    assert_int_equal(look(&f, start_ns + 61 * s_ns - 2).remaining, 3);
    assert_int_equal(give_back(&f, start_ns + 61 * s_ns - 2, 2, ends_ns), WEIR_E_ABSENT);
    assert_int_equal(weir_store_stats_get(f.store).reserved, 0);
    close_with(&f);
}

/* Of a lease that has ended, or whose key was reset, there is nothing to renew or to give back. */
static void leases_that_are_gone(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 3 lease 30s");
    int64_t ends_ns = take(&f, start_ns, 1), other_ns = take(&f, start_ns + 1, 1);
    int64_t before_ns = ends_ns;
    assert_int_equal(renew(&f, ends_ns, 1, &ends_ns), WEIR_E_ABSENT);
    assert_int_equal(ends_ns, before_ns);
    assert_int_equal(give_back(&f, ends_ns, 1, ends_ns), WEIR_E_ABSENT);
    assert_int_equal(look(&f, ends_ns).remaining, 2);
    assert_int_equal(weir_store_reset(f.store, f.policy_id, "k", 1), WEIR_OK);
    assert_int_equal(renew(&f, start_ns, 1, &other_ns), WEIR_E_ABSENT);
    assert_int_equal(give_back(&f, start_ns, 1, other_ns), WEIR_E_ABSENT);
    assert_int_equal(look(&f, start_ns).remaining, 3);
    close_with(&f);
}

static void bad_arguments(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 3 lease 30s");
    weir_store_request r = request(&f, 1);
    int64_t ends_ns = 77;
    assert_int_equal(weir_store_take_lease(f.store, &r, -1, &ends_ns), WEIR_E_RANGE);
    r.key_len = 0;
    assert_int_equal(weir_store_take_lease(f.store, &r, start_ns, &ends_ns), WEIR_E_RANGE);
    assert_int_equal(r.status, WEIR_E_RANGE);
    assert_int_equal(ends_ns, 77);
    assert_int_equal(renew(&f, -1, 1, &ends_ns), WEIR_E_RANGE);
    assert_int_equal(give_back(&f, -1, 1, ends_ns), WEIR_E_RANGE);
    fixture none = open_with("gcra 1/s burst 5");
    r = request(&none, 1);
    assert_int_equal(weir_store_take_lease(none.store, &r, start_ns, &ends_ns), WEIR_OK);
    assert_true(ends_ns == 0 && r.decision.remaining == 4);
    ends_ns = start_ns + s_ns;
    assert_int_equal(renew(&none, start_ns, 1, &ends_ns), WEIR_E_ABSENT);
    assert_int_equal(give_back(&none, start_ns, 1, ends_ns), WEIR_E_ABSENT);
    assert_int_equal(look(&none, start_ns).remaining, 4);
    close_with(&none);
    close_with(&f);
}

/* The rates stay charged, also those that cannot be refunded. */
static void with_a_rate(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "concurrent 4 lease 30s & fixed-window 9/d",
        "fixed-window 9/d & concurrent 4 lease 30s",
        "concurrent 4 lease 30s & sliding-log 9/d",
        "concurrent 4 lease 30s & gcra 9/d burst 9",
        "concurrent 4 lease 30s & leaky-queue 9/d depth 8",
        "concurrent 4 lease 30s & fixed-window 9/d count-denied",
        "concurrent 4 lease 30s & sliding-log 9/d count-denied",
        "sliding-counter 9/d & concurrent 4 lease 30s & sliding-slices 9/d slices 24",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fixture f = open_with(texts[i]);
        int64_t first_ns = take(&f, start_ns, 3), second_ns;
        assert_int_equal(look(&f, start_ns).remaining, 1);
        assert_int_equal(give_back(&f, start_ns, 3, first_ns), WEIR_OK);
        assert_int_equal(look(&f, start_ns).remaining, 4);
        first_ns = take(&f, start_ns, 2);
        second_ns = take(&f, start_ns + s_ns, 2);
        assert_int_equal(renew(&f, start_ns + 2 * s_ns, 2, &first_ns), WEIR_OK);
        assert_int_equal(first_ns, start_ns + 32 * s_ns);
        assert_int_equal(give_back(&f, start_ns + 2 * s_ns, 2, second_ns), WEIR_OK);
        assert_int_equal(look(&f, start_ns + 2 * s_ns).remaining, 2);
        assert_int_equal(give_back(&f, start_ns + 2 * s_ns, 2, first_ns), WEIR_OK);
        assert_int_equal(look(&f, start_ns + 2 * s_ns).remaining, 2); /* 7 of the rate are used */
        close_with(&f);
    }
}

/* What a request keeps for others, and a denial that is counted, are as in weir_store_check(). */
static void decisions(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 4 lease 30s & fixed-window 5/d count-denied");
    weir_store_request r = request(&f, 3);
    int64_t ends_ns;
    r.keep = 2;
    assert_int_equal(weir_store_take_lease(f.store, &r, start_ns, &ends_ns), WEIR_OK);
    assert_true(!r.decision.allowed && ends_ns == 0);
    assert_int_equal(look(&f, start_ns).remaining, 2); /* counted */
    r.cost = 1;
    r.keep = 1;
    assert_int_equal(weir_store_take_lease(f.store, &r, start_ns, &ends_ns), WEIR_OK);
    assert_true(r.decision.allowed && r.decision.remaining == 0);
    assert_int_equal(ends_ns, start_ns + 30 * s_ns);
    close_with(&f);
}

/* A transaction says what its requests hold: all, or nothing. */
static void transactions(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 4 lease 30s"), g = open_with("gcra 1/s burst 2");
    weir_store *stores[] = {f.store, g.store, f.store};
    weir_store_request r[] = {request(&f, 1), request(&g, 1), request(&f, 2)};
    int64_t ends_ns[3] = {1, 1, 1};
    size_t blocking;
    assert_int_equal(weir_stores_take_many(stores, r, 3, start_ns, &blocking, ends_ns), WEIR_OK);
    assert_int_equal(blocking, 3);
    assert_int_equal(ends_ns[0], start_ns + 30 * s_ns);
    assert_int_equal(ends_ns[1], 0);
    assert_int_equal(ends_ns[2], start_ns + 30 * s_ns);
    assert_int_equal(look(&f, start_ns).remaining, 1);
    assert_int_equal(give_back(&f, start_ns, 1, ends_ns[0]), WEIR_OK);
    assert_int_equal(look(&f, start_ns).remaining, 2);
    assert_int_equal(weir_stores_take_many(stores, r, 3, start_ns, &blocking, ends_ns), WEIR_OK);
    assert_int_equal(blocking, 2);
    assert_true(ends_ns[0] == 0 && ends_ns[1] == 0 && ends_ns[2] == 0);
    r[1].key_len = 0;
    ends_ns[0] = 1;
    assert_int_equal(weir_stores_take_many(stores, r, 3, start_ns, &blocking, ends_ns),
                     WEIR_E_RANGE);
    assert_int_equal(ends_ns[0], 1);
    close_with(&f);
    close_with(&g);
}

/* Makes `text` the limit of a name. */
static fixture limit_of(weir_store *s, const char *text)
{
    fixture f = {.store = s, .policy = policy_of(text)};
    f.policy_id = weir_store_named_id(s, &f.policy, "n", 1);
    assert_int_equal(weir_store_note_limit(s, f.policy_id, &f.policy, "n", 1), WEIR_OK);
    return f;
}

/* A holder of the former limit renews and gives back what is now under the new one. It does not
 * move the state back: a lower limit would drop what others hold. */
static void the_limit_changes(void **unused)
{
    (void)unused;
    static const char *const texts[][2] = {
        {"concurrent 5 lease 30s", "concurrent 10 lease 30s"},
        {"concurrent 1 lease 30s", "concurrent 2 lease 30s"}, /* small states */
        {"concurrent 2 lease 30s", "concurrent 4 lease 30s"}, /* a small one becomes large */
        {"gcra 9/s burst 99 & concurrent 5 lease 30s",
         "gcra 5/s burst 99 & concurrent 10 lease 30s"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fixture f = open_with("concurrent 1 lease 1s");
        (void)take(&f, start_ns, 1); /* of another limit: a store that has a key */
        fixture old = limit_of(f.store, texts[i][0]);
        int64_t n = old.policy.layer[old.policy.layers - 1].limit, t = start_ns;
        int64_t first_ns = take(&old, t, 1), second_ns = n > 1 ? take(&old, t + 1, n - 1) : 0;
        fixture new = limit_of(f.store, texts[i][1]);
        weir_store_keep(f.store);
        int64_t third_ns = take(&new, t + s_ns, n);
        assert_true(third_ns > 0);
        assert_int_equal(look(&new, t + s_ns).remaining, 0);
        assert_int_equal(renew(&old, t + 2 * s_ns, 1, &first_ns), WEIR_OK);
        assert_int_equal(first_ns, t + 32 * s_ns);
        assert_int_equal(look(&new, t + 2 * s_ns).remaining, 0);
        if (n > 1)
            assert_int_equal(give_back(&old, t + 2 * s_ns, n - 1, second_ns), WEIR_OK);
        assert_int_equal(look(&new, t + 2 * s_ns).remaining, n - 1);
        assert_int_equal(give_back(&old, t + 2 * s_ns, 1, first_ns), WEIR_OK);
        assert_int_equal(give_back(&old, t + 2 * s_ns, 1, first_ns), WEIR_E_ABSENT);
        assert_int_equal(look(&new, t + 2 * s_ns).remaining, n);
        assert_int_equal(give_back(&new, t + 2 * s_ns, n, third_ns), WEIR_OK);
        assert_int_equal(give_back(&old, t + 2 * s_ns, 1, third_ns), WEIR_E_ABSENT);
        close_with(&f);
    }
}

/* A lease is found under each limit of the family, also behind one that has no state. */
static void the_limit_changes_twice(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 1 lease 1s");
    (void)take(&f, start_ns, 1); /* of another limit: a store that has a key */
    fixture old = limit_of(f.store, "concurrent 5 lease 30s");
    (void)limit_of(f.store, "concurrent 7 lease 30s");
    fixture new = limit_of(f.store, "concurrent 9 lease 30s");
    weir_store_keep(f.store);
    int64_t ends_ns = take(&old, start_ns, 3);
    assert_int_equal(renew(&new, start_ns + 1, 3, &ends_ns), WEIR_OK);
    assert_int_equal(ends_ns, start_ns + 1 + 30 * s_ns);
    assert_int_equal(give_back(&new, start_ns + 1, 2, ends_ns), WEIR_OK);
    assert_int_equal(look(&old, start_ns + 1).remaining, 4);
    close_with(&f);
}

/* After a reset of all keys, what is given back belongs to the former generation. */
static void generations(void **unused)
{
    (void)unused;
    fixture f = open_with("concurrent 2 lease 30s");
    int64_t ends_ns = take(&f, start_ns, 2);
    fixture now = f;
    assert_int_equal(weir_store_reset_policy(f.store, 7), WEIR_OK);
    now.policy_id = weir_store_current_id(f.store, f.policy_id, 7);
    assert_int_equal(take(&now, start_ns, 1), ends_ns);
    assert_int_equal(give_back(&f, start_ns, 2, ends_ns), WEIR_OK);
    assert_int_equal(look(&now, start_ns).remaining, 1);
    assert_int_equal(give_back(&now, start_ns, 1, ends_ns), WEIR_OK);
    close_with(&f);
}

static uint64_t next(uint64_t *x)
{
    *x = *x * 6364136223846793005 + 1442695040888963407;
    return *x >> 33;
}

/* Many holders that come, renew, go, or are killed: what is held follows from a list of them. */
static void random_holders(void **unused)
{
    (void)unused;
    enum { HOLDERS = 200, STEPS = 20000 };
    static struct {
        int64_t ends_ns, units;
    } h[HOLDERS];
    fixture f = open_with("concurrent 250 lease 30s & sliding-counter 1000000/d");
    int64_t now_ns = start_ns;
    uint64_t x = 7;
    for (size_t step = 0; step < STEPS; step++) {
        size_t i = next(&x) % HOLDERS;
        int64_t held = 0, free;
        now_ns += (int64_t)(next(&x) % 100) * 1000000;
        for (size_t j = 0; j < HOLDERS; j++)
            held += h[j].ends_ns > now_ns ? h[j].units : 0;
        free = 250 - held;
        bool open = h[i].ends_ns > now_ns;
        assert_int_equal(look(&f, now_ns).remaining, free);
        switch (next(&x) % 4) {
        case 0:
        case 1:
            if (open)
                break; /* it is killed with what it holds, unless it is chosen again in time */
            h[i].units = 1 + (int64_t)(next(&x) % 3);
            h[i].ends_ns = take(&f, now_ns, h[i].units);
            assert_int_equal(h[i].ends_ns, h[i].units <= free ? now_ns + 30 * s_ns : 0);
            break;
        case 2:
            assert_int_equal(renew(&f, now_ns, h[i].units, &h[i].ends_ns),
                             open ? WEIR_OK : WEIR_E_ABSENT);
            assert_true(!open || h[i].ends_ns == now_ns + 30 * s_ns);
            break;
        default:
            assert_int_equal(give_back(&f, now_ns, h[i].units, h[i].ends_ns),
                             open ? WEIR_OK : WEIR_E_ABSENT);
            h[i].ends_ns = 0;
        }
    }
    close_with(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_lease),         cmocka_unit_test(leases_that_are_gone),
        cmocka_unit_test(bad_arguments),     cmocka_unit_test(with_a_rate),
        cmocka_unit_test(decisions),         cmocka_unit_test(transactions),
        cmocka_unit_test(the_limit_changes), cmocka_unit_test(the_limit_changes_twice),
        cmocka_unit_test(generations),       cmocka_unit_test(random_holders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
