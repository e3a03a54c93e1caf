/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests what the vectors and the properties do not cover: invalid arguments, damaged states, and
 * arithmetic at the limits. A damaged state may give any decision that the contract allows. It must
 * not crash, overflow, or deny a key for ever. */

#include "core/check.h"
#include "core/wide.h"
#include "tests/kit/kit.h"

#include <weir/weir_zone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const policies[] = {
    "gcra 100/s burst 20",
    "gcra 3/s burst 3",
    "gcra 2147483647/3650d burst 2147483647",
    "token-bucket 500 refill 5 every 1s",
    "token-bucket 3 refill 1 every 3650d",
    "leaky-queue 7/m depth 5",
    "fixed-window 5000/h",
    "fixed-window 5/month count-denied",
    "fixed-window 5/m from-first count-denied",
    "fixed-window 2147483647/1ns",
    "sliding-log 5/m",
    "sliding-log 5/m count-denied",
    "sliding-counter 100/m",
    "sliding-counter 2147483647/3650d relaxed",
    "sliding-slices 100/h slices 60",
    "sliding-slices 100/100ns slices 7",
    "gcra 10/s burst 5 & sliding-log 9/m count-denied & fixed-window 100/day",
};
enum { POLICIES = sizeof policies / sizeof policies[0] };

static void check_arguments(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < POLICIES; i++) {
        weir_policy p = policy_of(policies[i]);
        uint64_t state[256] = {0};
        weir_decision d = {.limit = -7};
        int64_t over = -7;
        assert_in_range(weir_state_words(&p, 0), 1, 256);
        assert_int_equal(weir_check(&p, state, 0, -1, 1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_check(&p, state, 0, WEIR_NOW_NS_MAX + 1, 1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_check(&p, state, 0, 0, -1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_check(&p, state, 0, 0, (int64_t)WEIR_COST_MAX + 1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_check(&p, state, WEIR_LEVEL_MAX + 1, 0, 1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_peek(&p, state, 0, -1, 1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_peek(&p, state, 0, 0, -1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_refund(&p, state, 0, -1, 1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_refund(&p, state, 0, 0, -1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_charge(&p, state, 0, -1, 1, &d, &over), WEIR_E_RANGE);
        assert_int_equal(weir_charge(&p, state, 0, 0, -1, &d, &over), WEIR_E_RANGE);
        assert_int_equal(over, -7);
        assert_int_equal(d.limit, -7);
        assert_int_equal(weir_fresh_after(&p, state, 0, 0), 0);
        assert_int_equal(weir_fresh_after(&p, state, 0, INT64_MIN), 0);
        assert_int_equal(weir_fresh_after(&p, state, 0, INT64_MAX), 0);
        assert_int_equal(weir_check(&p, state, 0, WEIR_NOW_NS_MAX, 1, &d), WEIR_OK);
        assert_true(d.allowed);
    }
}

/* Fills the words of the state with every edge value. Every decision is within its contract. */
static void check_damaged(void **unused)
{
    (void)unused;
    static const uint64_t words[] = {0,
                                     1,
                                     2,
                                     UINT32_MAX,
                                     (uint64_t)UINT32_MAX << 32,
                                     INT64_MAX,
                                     (uint64_t)INT64_MAX + 1,
                                     UINT64_MAX,
                                     UINT64_MAX - 1,
                                     (uint64_t)WEIR_NOW_NS_MAX,
                                     (uint64_t)WEIR_NOW_NS_MAX + 1,
                                     1767225600000000000,
                                     0x0000000400000003,
                                     0x7fffffff7fffffff};
    static const int64_t times[] = {0, 1, 1767225600000000000, WEIR_NOW_NS_MAX};
    static const int64_t costs[] = {0, 1, 5, WEIR_COST_MAX};
    enum { WORDS = sizeof words / sizeof words[0] };
    for (size_t i = 0; i < POLICIES; i++) {
        weir_policy p = policy_of(policies[i]);
        for (size_t n = 0; n < WORDS * WORDS * WORDS * 16; n++) {
            uint64_t state[256];
            for (size_t w = 0; w < 256; w++)
                state[w] = w % 3 == 2 ? words[n / 16 / WORDS / WORDS % WORDS]
                                      : words[w % 3 == 0 ? n / 16 % WORDS : n / 16 / WORDS % WORDS];
            int64_t now_ns = times[n % 4], cost = costs[n / 4 % 4];
            weir_decision d;
            int64_t fresh_ns = weir_fresh_after(&p, state, 0, now_ns);
            assert_true(fresh_ns >= 0);
            weir_status st = weir_peek(&p, state, 0, now_ns, cost, &d);
            assert_true(st == WEIR_E_RANGE || (st == WEIR_OK && d.remaining >= 0));
            st = weir_check(&p, state, 0, now_ns, cost, &d);
            if (st != WEIR_OK) {
                assert_true(st == WEIR_E_RANGE || st == WEIR_E_ROOM);
                continue;
            }
            assert_true(d.remaining >= 0 && d.remaining <= d.limit);
            assert_true(d.reset_after_ns >= 0 && d.delay_ns >= 0);
            assert_true(d.allowed ? d.retry_after_ns == 0 : d.retry_after_ns > 0);
            st = weir_refund(&p, state, 0, now_ns, cost, &d);
            assert_true(st == WEIR_OK || st == WEIR_E_UNSUPPORTED || st == WEIR_E_RANGE);
        }
    }
}

/* The stored sum is used even if the counts differ from it, and no loop runs past the slices. */
static void check_damaged_slices(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("sliding-slices 100/60ns slices 6"); /* 10 ns each */
    weir_decision d;
    uint64_t low[5] = {5, 3, 50, 0x3200000032, 0x3200000032};
    assert_int_equal(weir_state_words(&p, 0), 5);
    assert_int_equal(weir_check(&p, low, 0, 65, 1, &d), WEIR_OK);
    assert_true(d.allowed);
    assert_int_equal(d.remaining, 99);
    uint64_t high[5] = {5, 200, 0, 0, 0};
    assert_int_equal(weir_check(&p, high, 0, 55, 1, &d), WEIR_OK);
    assert_false(d.allowed);
    assert_int_equal(d.retry_after_ns, 110 - 55);
    assert_int_equal(weir_refund(&p, high, 0, 55, 150, &d), WEIR_OK);
    assert_int_equal(d.remaining, 50);
}

static void check_bounds(void **unused)
{
    (void)unused;
    int64_t most = -1;
    weir_layer l = {.algorithm = WEIR_GCRA, .limit = 1, .rate = 1, .period_ns = 1};
    assert_int_equal(weir_layer_init(&l, &most), WEIR_OK);
    for (int field = 0; field < 3; field++) {
        static const int64_t high[] = {WEIR_LIMIT_MAX, WEIR_RATE_MAX, WEIR_SPAN_NS_MAX};
        for (int end = 0; end < 2; end++) {
            weir_layer bad = {.algorithm = WEIR_GCRA, .limit = 1, .rate = 1, .period_ns = 1};
            int64_t *fields[] = {&bad.limit, &bad.rate, &bad.period_ns};
            *fields[field] = end ? high[field] + 1 : 0;
            assert_int_equal(weir_layer_init(&bad, &most), WEIR_E_RANGE);
            assert_int_equal(most, 0);
            *fields[field] = end ? high[field] : 1;
            assert_int_equal(weir_layer_init(&bad, NULL), WEIR_OK);
        }
    }
    l = (weir_layer){
        .algorithm = WEIR_GCRA, .limit = 5, .rate = 1, .period_ns = 315360000000000000};
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE);
    assert_int_equal(most, 3);
    l = (weir_layer){.algorithm = (weir_algorithm)99, .limit = 5, .rate = 1, .period_ns = 1};
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE);
    l = (weir_layer){
        .algorithm = WEIR_LEAKY_QUEUE, .limit = 5, .rate = 1, .period_ns = 1, .nodelay = 5};
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE);
    assert_int_equal(most, 0);
    l.nodelay = -1;
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE);
    l.nodelay = 4;
    assert_int_equal(weir_layer_init(&l, &most), WEIR_OK);
    l.algorithm = WEIR_LEAKY_BUCKET; /* it delays no requests */
    l.nodelay = 1;
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE);
    l = (weir_layer){.algorithm = WEIR_SLIDING_SLICES, .limit = 5, .rate = 5, .period_ns = 9};
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE); /* no slices */
    l.slices = 10;
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE); /* slices shorter than 1 ns */
    l.slices = 9;
    assert_int_equal(weir_layer_init(&l, &most), WEIR_OK);
    l = (weir_layer){.algorithm = WEIR_FIXED_WINDOW, .limit = 5, .rate = 5};
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE); /* neither period nor calendar */
    l.calendar = WEIR_DAY;
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE); /* no window function */
    l.window = weir_calendar_window;
    assert_int_equal(weir_layer_init(&l, &most), WEIR_OK);
    l.period_ns = 5;
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE); /* both */
    l.calendar = (weir_calendar)99;
    assert_int_equal(weir_layer_init(&l, &most), WEIR_E_RANGE);
}

/* A log grows by levels, keeps its entries, and is never larger than its limit requires. */
static void check_log_grows(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("sliding-log 1000/m & gcra 1000/s burst 1000");
    unsigned level = 0;
    uint64_t *state = calloc(weir_state_words(&p, 0), 8);
    weir_decision d;
    for (int64_t t_ns = 1; t_ns <= 2500; t_ns++) {
        weir_status st = weir_check(&p, state, level, t_ns, 1, &d);
        if (st == WEIR_E_ROOM) {
            uint64_t *wider = calloc(weir_state_words(&p, level + 1), 8);
            weir_state_grow(&p, state, level, wider);
            free(state);
            state = wider;
            level++;
            st = weir_check(&p, state, level, t_ns, 1, &d);
        }
        assert_int_equal(st, WEIR_OK);
        assert_int_equal(d.allowed, t_ns <= 1000);
    }
    assert_int_equal(level, 8); /* 4 << 8 = 1024 */
    assert_int_equal(weir_state_words(&p, 8), weir_state_words(&p, WEIR_LEVEL_MAX));
    assert_int_equal(weir_check(&p, state, level, 60000000000 + 1, 1, &d), WEIR_OK);
    assert_true(d.allowed); /* the first charge has expired */
    free(state);
}

static void check_division(void **unused)
{
    (void)unused;
    static const uint64_t ends[] = {0,
                                    1,
                                    2,
                                    3,
                                    UINT32_MAX,
                                    (uint64_t)UINT32_MAX + 1,
                                    INT64_MAX,
                                    (uint64_t)INT64_MAX + 1,
                                    UINT64_MAX - 1,
                                    UINT64_MAX,
                                    0xffffffff00000000,
                                    0x8000000000000001,
                                    1000000007};
    enum { ENDS = sizeof ends / sizeof ends[0] };
    for (size_t i = 0; i < ENDS * ENDS * ENDS; i++) {
        weir_wide n = {ends[i % ENDS], ends[i / ENDS % ENDS]};
        uint64_t d = ends[i / ENDS / ENDS];
        if (d == 0)
            continue;
        unsigned __int128 full = (unsigned __int128)n.hi << 64 | n.lo;
        unsigned __int128 floor = full / d, ceil = floor + (full % d != 0);
        floor = floor > UINT64_MAX ? UINT64_MAX : floor;
        ceil = ceil > UINT64_MAX ? UINT64_MAX : ceil;
        assert_true(weir_wide_div_floor(n, d) == (uint64_t)floor);
        assert_true(weir_wide_div_ceil(n, d) == (uint64_t)ceil);
    }
}

static void check_status(void **unused)
{
    (void)unused;
    for (int st = WEIR_OK; st <= WEIR_E_ABSENT; st++) {
        assert_string_not_equal(weir_status_str((weir_status)st), "unknown status");
        for (int other = WEIR_OK; other < st; other++)
            assert_string_not_equal(weir_status_str((weir_status)st),
                                    weir_status_str((weir_status)other));
    }
    assert_string_equal(weir_status_str((weir_status)99), "unknown status");
}

/* weir_refund_charge() of units that were charged at charged_ns. */
static weir_status refund_charge(const weir_policy *p, uint64_t *state, int64_t charged_ns,
                                 int64_t now_ns, int64_t units, weir_decision *ret)
{
    const weir_charged of = {charged_ns, charged_ns, units};
    return weir_refund_charge(p, state, 0, &of, now_ns, units, ret);
}

/* A refund returns only the units that still count: those of an expired window are not returned. */
static void check_refund_charge(void **unused)
{
    (void)unused;
    static const struct {
        const char *policy;
        int64_t ends_ns; /* when a charge at 250 expires */
    } rows[] = {
        {"gcra 1/100ns burst 50", INT64_MAX},
        {"gcra 3/100ns burst 50", INT64_MAX},
        {"token-bucket 50 refill 1 every 100ns", INT64_MAX},
        {"fixed-window 50/100ns", 300},
        {"fixed-window 50/100ns from-first", 350},
        {"sliding-log 50/100ns", 350},
        {"sliding-counter 50/100ns", 400},
        {"sliding-slices 50/100ns slices 10", 350},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_policy p = policy_of(rows[i].policy);
        weir_decision d;
        for (int64_t now_ns = 250; now_ns <= 400; now_ns++) {
            uint64_t state[256] = {0};
            assert_int_equal(weir_check(&p, state, 0, 250, 10, &d), WEIR_OK);
            assert_int_equal(weir_check(&p, state, 0, now_ns, 20, &d), WEIR_OK);
            int64_t before = d.remaining;
            assert_int_equal(refund_charge(&p, state, 250, now_ns, 10, &d), WEIR_OK);
            if (now_ns < rows[i].ends_ns)
                assert_true(d.remaining > before);
            else
                assert_int_equal(d.remaining, before);
        }
    }
    weir_policy p = policy_of("fixed-window 50/100ns"); /* the clock steps back */
    weir_decision d;
    uint64_t state[1] = {0};
    assert_int_equal(weir_check(&p, state, 0, 250, 10, &d), WEIR_OK);
    assert_int_equal(weir_refund(&p, state, 0, 150, 10, &d), WEIR_OK);
    assert_int_equal(d.remaining, 50);
}

/* A refund removes units charged at its time or before, and never later ones. */
static void check_refund_leaves_later_charges(void **unused)
{
    (void)unused;
    static const struct {
        const char *policy;
        int64_t at_ns[3];
    } rows[] = {
        {"sliding-log 50/100ns", {210, 220, 230}},
        {"sliding-slices 50/100ns slices 10", {210, 220, 230}},
        {"sliding-counter 50/100ns", {210, 310, 320}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_policy p = policy_of(rows[i].policy);
        const int64_t *at_ns = rows[i].at_ns;
        weir_decision d, want;
        uint64_t state[256] = {0}, other[256] = {0};
        for (int k = 0; k < 3; k++) {
            assert_int_equal(weir_check(&p, state, 0, at_ns[k], 10 + k, &d), WEIR_OK);
            if (k > 0)
                assert_int_equal(weir_check(&p, other, 0, at_ns[k], 10 + k, &d), WEIR_OK);
        }
        assert_int_equal(refund_charge(&p, state, at_ns[0], at_ns[2], 10, &d), WEIR_OK);
        for (int64_t now_ns = at_ns[2]; now_ns < 600; now_ns++) {
            assert_int_equal(weir_peek(&p, state, 0, now_ns, 40, &d), WEIR_OK);
            assert_int_equal(weir_peek(&p, other, 0, now_ns, 40, &want), WEIR_OK);
            assert_int_equal(d.remaining, want.remaining);
            assert_int_equal(d.retry_after_ns, want.retry_after_ns);
            assert_int_equal(d.reset_after_ns, want.reset_after_ns);
        }
        assert_int_equal(refund_charge(&p, state, at_ns[0], at_ns[2], 10, &d), WEIR_OK);
        assert_int_equal(d.remaining, 27); /* the charge was already refunded */
    }
}

/* weir_state_time() returns the stored time of a layer if now is earlier. A bucket stores none. */
static void check_state_time(void **unused)
{
    (void)unused;
    static const struct {
        const char *policy;
        int64_t want_ns; /* the result at 195, after a charge at 250 */
    } rows[] = {
        {"gcra 1/100ns burst 50", 195},
        {"gcra 3/100ns burst 50", 195},
        {"token-bucket 50 refill 1 every 100ns", 195},
        {"fixed-window 50/100ns", 200},
        {"fixed-window 50/100ns from-first", 250},
        {"sliding-log 50/100ns", 250},
        {"sliding-counter 50/100ns", 200},
        {"sliding-slices 50/100ns slices 4", 250},
        {"sliding-counter 50/100ns & sliding-log 50/100ns & gcra 1/s burst 50", 250},
    };
    weir_decision d;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_policy p = policy_of(rows[i].policy);
        uint64_t state[256] = {0};
        assert_int_equal(weir_state_time(&p, state, 0, 195), 195);
        assert_int_equal(weir_check(&p, state, 0, 250, 10, &d), WEIR_OK);
        assert_int_equal(weir_state_time(&p, state, 0, 195), rows[i].want_ns);
        assert_int_equal(weir_state_time(&p, state, 0, 260), 260);
    }
    weir_policy log = policy_of("sliding-log 5/100ns"),
                queue = policy_of("leaky-queue 1/s depth 5");
    uint64_t damaged[256] = {(uint64_t)1 << 32, 0, 250}; /* one entry, of too many units */
    damaged[2 + 4] = UINT32_MAX;
    assert_int_equal(weir_state_time(&log, damaged, 0, 195), 195);
    assert_int_equal(refund_charge(&log, damaged, 195, 195, 1, &d), WEIR_E_RANGE);
    uint64_t unused_state[256] = {0};
    assert_int_equal(refund_charge(&queue, unused_state, 195, 195, 1, &d), WEIR_E_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_arguments),
        cmocka_unit_test(check_damaged),
        cmocka_unit_test(check_damaged_slices),
        cmocka_unit_test(check_bounds),
        cmocka_unit_test(check_log_grows),
        cmocka_unit_test(check_division),
        cmocka_unit_test(check_status),
        cmocka_unit_test(check_refund_charge),
        cmocka_unit_test(check_refund_leaves_later_charges),
        cmocka_unit_test(check_state_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
