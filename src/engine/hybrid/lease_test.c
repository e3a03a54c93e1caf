/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The arithmetic of leases. */

#include "engine/hybrid/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const int64_t ms = 1000000, t0 = 1767225600000000000;

static weir_lease_plan plan_of(const char *text, int64_t count)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return weir_lease_plan_of(&p, count, 100 * ms, 1000 * ms);
}

static void plan_is(const char *text, weir_lease_kind kind, int64_t cap, int64_t window_ns)
{
    weir_lease_plan p = plan_of(text, 1000);
    assert_int_equal(p.kind, kind);
    assert_int_equal(p.cap, cap);
    assert_int_equal(p.window_ns, window_ns);
}

static void test_plans(void **unused)
{
    (void)unused;
    const int64_t day = 72000000 * ms;
    plan_is("fixed-window 160/s", WEIR_LEASE_POSTPAID, 10, 1000 * ms);
    plan_is("fixed-window 160/s from-first", WEIR_LEASE_POSTPAID, 10, 1000 * ms);
    plan_is("fixed-window 160/day", WEIR_LEASE_POSTPAID, 10, day);
    plan_is("fixed-window 160/800ms", WEIR_LEASE_POSTPAID, 10, 800 * ms);
    plan_is("fixed-window 160/799ms", WEIR_LEASE_POSTPAID, 10,
            0); /* charged in Redis, never dropped */
    plan_is("fixed-window 160/s & fixed-window 1600/m", WEIR_LEASE_POSTPAID, 10, 0);
    plan_is("sliding-log 16/s", WEIR_LEASE_POSTPAID, 1, 0);
    plan_is("sliding-log 15/s", WEIR_LEASE_NONE, 0, 0);
    plan_is("sliding-log 100/s count-denied", WEIR_LEASE_NONE, 0, 0);
    plan_is("sliding-counter 2000000000/s", WEIR_LEASE_POSTPAID, 1000, 0);
    plan_is("sliding-slices 160/s slices 4", WEIR_LEASE_POSTPAID, 10, 0);
    plan_is("gcra 100/s burst 160", WEIR_LEASE_PREPAID, 40, 0);
    plan_is("gcra 100/s burst 4", WEIR_LEASE_PREPAID, 1, 0);
    plan_is("gcra 100/s burst 3", WEIR_LEASE_NONE, 0, 0);
    plan_is("token-bucket 320 refill 1/s", WEIR_LEASE_PREPAID, 80, 0);
    plan_is("leaky-bucket 100/s capacity 160", WEIR_LEASE_PREPAID, 40, 0);
    plan_is("leaky-queue 100/s depth 160", WEIR_LEASE_NONE, 0, 0);
    plan_is("gcra 9/s burst 160 & gcra 1/s burst 320", WEIR_LEASE_PREPAID, 40, 0);
    plan_is("gcra 9/s burst 320 & fixed-window 160/s", WEIR_LEASE_POSTPAID, 10, 0);
    plan_is("gcra 9/s burst 320 & leaky-queue 9/s depth 160", WEIR_LEASE_NONE, 0, 0);
    assert_int_equal(plan_of("gcra 9/s burst 320 & fixed-window 160/s", 3).cap, 3);
    /* The pause before the next sync: the bucket must not overflow meanwhile. */
    assert_int_equal(plan_of("gcra 100/s burst 160", 1000).hold_ns, 100 * ms);
    assert_int_equal(plan_of("gcra 100/s burst 20", 1000).hold_ns, 50 * ms);
    assert_int_equal(plan_of("gcra 100/s burst 20 & gcra 1000/s burst 40", 1000).hold_ns, 5 * ms);
    assert_int_equal(plan_of("token-bucket 320 refill 9 every 1ms", 1000).hold_ns, 0);
}

static weir_decision left(int64_t remaining, int64_t reset_after_ns)
{
    return (weir_decision){
        .limit = 160, .remaining = remaining, .reset_after_ns = reset_after_ns, .allowed = true};
}

static weir_decision denied(int64_t retry_ns, int64_t remaining)
{
    return (weir_decision){.limit = 160,
                           .remaining = remaining,
                           .retry_after_ns = retry_ns,
                           .reset_after_ns = retry_ns};
}

static void learn(weir_lease *s, const weir_lease_plan *p, weir_decision d, int64_t sent_ns,
                  int64_t now_ns)
{
    weir_lease_update(s, p, &d, 1, sent_ns, now_ns);
}

/* An empty lease admits nothing. After a reply it admits a part of what remains for a while. */
static void test_postpaid(void **unused)
{
    (void)unused;
    weir_lease_plan p = plan_of("sliding-log 160/s", 1000);
    weir_lease s = {0};
    assert_false(weir_lease_take(&s, t0, 1));
    learn(&s, &p, left(160, 0), t0, t0 + ms);
    assert_int_equal(s.floor, -10);
    assert_false(weir_lease_take(&s, t0, 11));
    assert_true(weir_lease_take(&s, t0, 4));
    assert_false(weir_lease_is_low(&s));
    assert_true(weir_lease_take(&s, t0 + 200 * ms - 1, 1));
    assert_true(weir_lease_is_low(&s));
    assert_int_equal(weir_lease_wanted(&s, &p), 5);
    assert_false(weir_lease_take(&s, t0 + 200 * ms, 1)); /* no longer valid */
    learn(&s, &p, left(47, 0), t0, t0);                  /* a sixteenth of 47 */
    assert_int_equal(s.floor, -2);
    assert_false(weir_lease_take(&s, t0, 1));
    assert_int_equal(weir_lease_granted(&s, &p, s.epoch, 5, 4), 1);
    assert_true(weir_lease_take(&s, t0, 1));
    assert_int_equal(weir_lease_wanted(&s, &p), 2);
    assert_int_equal(weir_lease_granted(&s, &p, s.epoch, 2, 1), 0); /* counted before */
    assert_int_equal(weir_lease_granted(&s, &p, s.epoch, 1, 1), 0);
    assert_int_equal(s.balance, 0);
    assert_int_equal(weir_lease_wanted(&s, &p), 0);
}

static void test_windows(void **unused)
{
    (void)unused;
    weir_lease_plan p = plan_of("fixed-window 160/s", 1000);
    weir_lease s = {0};
    learn(&s, &p, left(160, 0), t0, t0 + ms); /* full quota: the end of the window is not known */
    assert_false(weir_lease_take(&s, t0 + ms, 1));
    learn(&s, &p, left(160, 100 * ms), t0, t0 + 3 * ms);
    assert_true(weir_lease_take(&s, t0 + 100 * ms - 1001, 3));
    assert_false(weir_lease_take(&s, t0 + 100 * ms - 1000, 1));
    weir_lease_roll_window(&s, t0 + 103 * ms - 1);
    assert_int_equal(s.balance, -3);
    learn(&s, &p, left(160, 98 * ms), t0 + ms, t0 + 3 * ms); /* the same window, more precisely */
    assert_int_equal(s.end_ns_min, t0 + 100 * ms - 1000);
    assert_int_equal(s.end_ns_max, t0 + 101 * ms);
    learn(&s, &p, left(160, 99 * ms), t0 + 2 * ms, t0 + 2 * ms);
    assert_int_equal(s.end_ns_min, t0 + 101 * ms - 1000);
    assert_int_equal(s.end_ns_max, t0 + 101 * ms);
    assert_int_equal(s.valid_to_ns, s.end_ns_min);
    uint32_t epoch = s.epoch;
    weir_lease_roll_window(&s, t0 + 101 * ms);
    assert_int_equal(s.balance, 0);
    assert_int_equal(weir_lease_granted(&s, &p, epoch, 3, 3),
                     0); /* a sync of the previous window */
    assert_int_equal(s.balance, 0);

    learn(&s, &p, left(160, 990 * ms), t0 + 101 * ms, t0 + 103 * ms);
    assert_int_equal(s.end_ns_min, t0 + 1091 * ms - 1000);
    assert_int_equal(s.end_ns_max, t0 + 1093 * ms);
    assert_true(weir_lease_take(&s, t0 + 103 * ms, 2));
    learn(&s, &p, left(160, 10 * ms), t0 + 80 * ms, t0 + 104 * ms); /* overtaken by another reply */
    assert_int_equal(s.balance, -2);
    assert_int_equal(s.valid_to_ns, 0);
    assert_false(weir_lease_take(&s, t0 + 104 * ms, 1));
    learn(&s, &p, left(160, 995 * ms), t0 + 1101 * ms,
          t0 + 1102 * ms); /* a reply about the next window */
    assert_int_equal(s.balance, 0);
    learn(&s, &p, left(160, 1), t0 + 1102 * ms,
          t0 + 1902 * ms); /* too slow: it may be about either window */
    assert_false(weir_lease_take(&s, t0 + 1902 * ms, 1));
}

static void test_edges_of_windows(void **unused)
{
    (void)unused;
    weir_lease_plan p = plan_of("fixed-window 160/s", 1000);
    weir_lease s = {0};
    learn(&s, &p, left(160, 500 * ms), t0, t0 + 250 * ms); /* a quarter of the window is in time */
    assert_int_equal(s.valid_to_ns, t0 + 200 * ms);
    assert_int_equal(s.end_ns_max, t0 + 750 * ms);
    learn(&s, &p, left(160, 500 * ms), t0, t0 + 250 * ms + 1);
    assert_int_equal(s.valid_to_ns, 0);
    /* A reply that says that the window ends at end_ns_min, the earliest possible time. */
    s.end_ns_min = t0 + 100 * ms;
    s.end_ns_max = t0 + 101 * ms;
    learn(&s, &p, left(160, 90 * ms), t0 + 9 * ms, t0 + 10 * ms);
    assert_int_equal(s.valid_to_ns, t0 + 100 * ms);
    assert_int_equal(s.end_ns_max, t0 + 100 * ms);
    /* The debt of a window is forgotten when the window ends. */
    assert_true(weir_lease_take(&s, t0 + 10 * ms, 5));
    assert_int_equal(weir_lease_granted(&s, &p, s.epoch, 5, 2), 3);
    assert_int_equal(s.debt, 3);
    weir_lease_roll_window(&s, t0 + 100 * ms);
    assert_int_equal(s.debt, 0);
    assert_int_equal(s.balance, 0);
}

static void test_prepaid(void **unused)
{
    (void)unused;
    weir_lease_plan p = plan_of("gcra 1000/s burst 160", 1000);
    weir_lease s = {0};
    assert_true(weir_lease_is_low(&s));
    assert_int_equal(weir_lease_wanted(&s, &p), 1);
    assert_int_equal(weir_lease_granted(&s, &p, s.epoch, 1, 1), 0);
    learn(&s, &p, left(159, ms), t0, t0);
    assert_false(weir_lease_take(&s, t0, 2));
    assert_true(weir_lease_take(&s, t0, 1));
    assert_int_equal(weir_lease_wanted(&s, &p), 5);
    (void)weir_lease_granted(&s, &p, s.epoch, 5, 5);
    s.used = 400;
    assert_int_equal(weir_lease_wanted(&s, &p), 35); /* 40 in all */
    assert_int_equal(weir_lease_end_interval(&s, &p, t0), 0);
    assert_int_equal(s.rate, 400);
    assert_int_equal(s.low, 40 / 8);
    assert_int_equal(weir_lease_end_interval(&s, &p, t0), 0);
    assert_int_equal(s.rate, 200); /* it decays */
    s.syncing = true;
    assert_int_equal(weir_lease_end_interval(&s, &p, t0 + 1000 * ms), 0);
    s.syncing = false;
    assert_int_equal(weir_lease_end_interval(&s, &p, t0 + 1000 * ms), 5);
    assert_int_equal(s.balance, 0);
    assert_true(weir_lease_is_idle(&s, &p, t0 + 1000 * ms));
    s.balance = 1;
    assert_false(weir_lease_is_idle(&s, &p, t0 + 1000 * ms));
    assert_int_equal(weir_lease_end_interval(&s, &p, t0 + 1000 * ms), 1);
    learn(&s, &p, denied(ms, 0), t0, t0);
    assert_false(weir_lease_is_low(&s)); /* exhausted: no sync in advance */
}

static void test_decisions_of_denials(void **unused)
{
    (void)unused;
    weir_lease_plan p = plan_of("gcra 7/3ms burst 160", 1000);
    weir_lease s = {0};
    weir_decision d;
    assert_int_equal(p.hold_ns, 17142858); /* 40 units */
    learn(&s, &p, denied(300, 0), t0, t0);
    assert_true(weir_lease_denies(&s, &p, t0 + p.hold_ns - 1, 1));
    assert_false(weir_lease_denies(&s, &p, t0 + p.hold_ns, 1));
    p.hold_ns = 0;
    learn(&s, &p, denied(300, 0), t0, t0);
    assert_true(s.exhausted);
    assert_true(weir_lease_denies(&s, &p, t0 + 299, 1));
    assert_false(weir_lease_denies(&s, &p, t0 + 300, 1));
    weir_lease_decision(&s, &p, t0 + 100, 1, false, &d);
    assert_int_equal(d.retry_after_ns, 200);
    assert_int_equal(d.reset_after_ns, 200);
    s.layer = 3;
    s.remaining = 1;
    s.balance = -2; /* more was admitted than remained */
    weir_lease_decision(&s, &p, t0 + 100, 2, false, &d);
    assert_int_equal(d.layer, 3);
    assert_int_equal(d.remaining, 0);
    s.balance = 0;
    assert_int_equal(d.retry_after_ns, 200 + 428572); /* 3 ms / 7, rounded up */
    assert_false(d.allowed);

    weir_decision large = denied(300, 3);
    p.hold_ns = 1000; /* only for an exhausted key */
    weir_lease_update(&s, &p, &large, 5, t0, t0);
    assert_int_equal(s.retry_at_ns, t0 + 300);
    assert_false(s.exhausted);
    assert_false(weir_lease_denies(&s, &p, t0, 4));
    assert_true(weir_lease_denies(&s, &p, t0, 5));
    assert_true(weir_lease_denies(&s, &p, t0, 160));
    assert_false(weir_lease_denies(&s, &p, t0, 161)); /* never, and not later */
    large.never = true;
    large.remaining = 0;
    weir_lease_update(&s, &p, &large, 161, t0, t0);
    assert_int_equal(s.remaining, 3); /* a cost above the limit changes nothing */
    weir_lease_invalidate(&s, false);
    assert_false(weir_lease_denies(&s, &p, t0, 5));
    learn(&s, &p, denied(300, 0), t0, t0);
    learn(&s, &p, left(1, 0), t0, t0);
    assert_false(weir_lease_denies(&s, &p, t0, 5));
    learn(&s, &p, denied(300, 0), t0, t0);
    weir_lease_invalidate(&s, false);
    assert_false(s.exhausted);
}

static void test_invalidation(void **unused)
{
    (void)unused;
    weir_lease_plan p = plan_of("sliding-log 160/s", 1000);
    weir_lease s = {0};
    learn(&s, &p, left(160, 0), t0, t0);
    assert_true(weir_lease_take(&s, t0, 3));
    uint32_t epoch = s.epoch;
    weir_lease_invalidate(&s, false);
    assert_int_equal(s.balance, -3); /* a refund does not discard the debt */
    assert_false(weir_lease_take(&s, t0, 1));
    weir_lease_invalidate(&s, true);
    assert_int_equal(s.balance, 0);
    assert_int_equal(weir_lease_granted(&s, &p, epoch, 3, 3), 0);
    assert_int_equal(s.balance, 0);
}

/* What only the first reply, or only the other kind of lease, would show. */
static void test_edges(void **unused)
{
    (void)unused;
    weir_lease_plan window = plan_of("fixed-window 160/s", 1000);
    weir_lease_plan postpaid = plan_of("sliding-log 160/s", 1000);
    weir_lease_plan prepaid = plan_of("gcra 1000/s burst 160", 1000);
    weir_lease s = {.balance = -2};
    learn(&s, &window, left(160, 500 * ms), t0, t0);
    assert_int_equal(s.epoch, 0); /* the first reply ends no window */
    assert_int_equal(s.balance, -2);

    s = (weir_lease){0};
    learn(&s, &postpaid, denied(0, 0), t0, t0);
    assert_int_equal(s.retry_at_ns, t0); /* it does not hold back */
    assert_int_equal(s.deny_until_ns, t0);
    assert_int_equal(weir_lease_granted(&s, &postpaid, 0, 2, 2), 0);
    assert_int_equal(s.debt, 0);
    assert_int_equal(weir_lease_end_interval(&s, &postpaid, t0 + 1000 * ms), 0);
    assert_int_equal(s.balance, 2); /* only a prepaid lease gives units back */

    s = (weir_lease){.balance = 1};
    assert_int_equal(weir_lease_wanted(&s, &prepaid), 0);
    s.balance = 0;
    s.used = 1;
    assert_int_equal(weir_lease_end_interval(&s, &prepaid, t0), 0);
    assert_int_equal(s.used, 0);
    assert_int_equal(s.used_at_ns, t0);
    assert_false(weir_lease_is_idle(&s, &prepaid, t0 + 1000 * ms - 1));
    assert_true(weir_lease_is_idle(&s, &prepaid, t0 + 1000 * ms));
    s.syncing = true;
    assert_false(weir_lease_is_idle(&s, &prepaid, t0 + 1000 * ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),        cmocka_unit_test(test_postpaid),
        cmocka_unit_test(test_windows),      cmocka_unit_test(test_edges_of_windows),
        cmocka_unit_test(test_prepaid),      cmocka_unit_test(test_decisions_of_denials),
        cmocka_unit_test(test_invalidation), cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
