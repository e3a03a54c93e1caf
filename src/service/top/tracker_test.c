/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The tracker of top keys: how many requests it samples, and for what each sample counts. The tests
 * see the sampling interval of a stream as the units that one sample adds to its list. */

#include "service/top/tracker.h"

#include "service/kit_test.h"

enum { MANY_POLICIES = 100 };

/* A tracker with one key in each list. All requests are for the key "k". */
typedef struct tracked {
    weir_top_shared shared;
    weir_top_tracker *tracker;
    int64_t lefts[MANY_POLICIES][COUNT_FAILED];
    int64_t at_ns;
} tracked;

static void tracked_open(tracked *t)
{
    *t = (tracked){.shared = {.keys = 1, .bytes_max = 1 << 20}, .at_ns = now_ns};
    t->tracker = weir_top_tracker_open(&t->shared, MANY_POLICIES);
    assert_non_null(t->tracker);
    weir_top_tracker_tick(t->tracker, now_ns);
}

/* Returns whether the request was sampled. */
static bool tracked_take(tracked *t, size_t policy, int which, int64_t cost)
{
    int64_t *left = &t->lefts[policy][which];
    *left -= cost;
    if (*left > 0)
        return false;
    weir_top_tracker_hit(t->tracker, policy, which, t->lefts[policy], text_of("k"), cost, t->at_ns);
    assert_true(*left > 0);
    return true;
}

static void tracked_tick(tracked *t, int64_t elapsed_ns)
{
    weir_top_tracker_tick(t->tracker, t->at_ns += elapsed_ns);
}

/* Reads the list of a policy. Returns its coarsest sampling. */
static int64_t tracked_read(const tracked *t, size_t policy, weir_top_of of, uint64_t *ret_cost,
                            uint64_t *ret_requests)
{
    weir_space_saving *list;
    weir_top_accuracy accuracy = {.sampling = 1, .complete = true};
    assert_true(weir_top_tracker_read(t->tracker, policy, of, &list, &accuracy));
    assert_true(accuracy.complete);
    *ret_cost = list ? list->cost : 0;
    *ret_requests = list ? list->key[0].requests : 0;
    weir_space_saving_free(list);
    return accuracy.sampling;
}

/* Takes one unit after another until one is sampled. Returns the units that it stands for. */
static uint64_t next_sample(tracked *t, size_t policy)
{
    uint64_t before, after, requests;
    (void)tracked_read(t, policy, WEIR_TOP_ALLOWED, &before, &requests);
    for (int n = 1; !tracked_take(t, policy, COUNT_ALLOWED, 1); n++)
        assert_true(n < 32); /* two intervals of the coarsest sampling in these tests */
    (void)tracked_read(t, policy, WEIR_TOP_ALLOWED, &after, &requests);
    return after - before;
}

/* Returns how many samples follow until one stands for more units. */
static unsigned samples_until_coarser(tracked *t, size_t policy)
{
    uint64_t cost, requests;
    int64_t first = tracked_read(t, policy, WEIR_TOP_ALLOWED, &cost, &requests);
    for (unsigned n = 0;; n++) {
        (void)next_sample(t, policy);
        if (tracked_read(t, policy, WEIR_TOP_ALLOWED, &cost, &requests) > first)
            return n;
    }
}

/* The streams with samples in the last second share 1024 samples a second, but each has at least
 * 16. A stream that uses up its share counts as one that used half of it. */
static void check_budget(void **unused)
{
    (void)unused;
    static const struct {
        int active;
        unsigned share;
    } each[] = {{0, 1024}, {1, 1024}, {2, 512}, {3, 341}, {60, 17}, {64, 16}, {65, 16}, {100, 16}};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        tracked t;
        tracked_open(&t);
        for (int k = 0; k < each[i].active; k++)
            assert_true(tracked_take(&t, (size_t)k, k % 2 ? COUNT_DENY_LISTED : COUNT_ALLOWED, 1));
        tracked_tick(&t, s_ns);
        assert_int_equal(samples_until_coarser(&t, 0), each[i].share);
        assert_int_equal(samples_until_coarser(&t, 0), each[i].share - each[i].share / 2);
        weir_top_tracker_close(t.tracker);
        assert_int_equal(port_load_relaxed(&t.shared.bytes), 0);
    }
}

/* An interval is halved as often as needed for a quarter of the share of 1024 samples, and in an
 * idle stream until every request is counted. */
static void check_refinement(void **unused)
{
    (void)unused;
    static const struct {
        int samples;
        int64_t elapsed_ns;
        uint64_t units;
    } each[] = {{256, 0, 8}, {255, 0, 4}, {128, 0, 4}, {127, 0, 2}, {64, 0, 2},
                {63, 0, 1},  {256, 2, 8}, {256, 3, 1}, {0, 0, 1}};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        tracked t;
        tracked_open(&t);
        for (int k = 0; k < 3; k++)
            (void)samples_until_coarser(&t, 0);
        tracked_tick(&t, s_ns); /* half of the share was used: no change */
        assert_int_equal(t.lefts[0][COUNT_DENIED], 1);
        for (int k = 0; k < each[i].samples; k++)
            assert_int_equal(next_sample(&t, 0), 8);
        tracked_tick(&t, each[i].elapsed_ns < 3 ? each[i].elapsed_ns * s_ns : 2 * s_ns + 1);
        assert_int_equal(next_sample(&t, 0), each[i].units);
        weir_top_tracker_close(t.tracker);
    }
}

/* A sample stands for whole requests of its cost: the nearest number, but at least one. */
static void check_sampled_requests(void **unused)
{
    (void)unused;
    tracked t;
    tracked_open(&t);
    for (int k = 0; k < 4; k++)
        (void)samples_until_coarser(&t, 0);
    for (uint64_t cost = 1; cost <= 40; cost++) {
        uint64_t before[2], after[2];
        (void)tracked_read(&t, 0, WEIR_TOP_ALLOWED, &before[0], &before[1]);
        for (int n = 1; !tracked_take(&t, 0, COUNT_ALLOWED, (int64_t)cost); n++)
            assert_true(n < 32);
        (void)tracked_read(&t, 0, WEIR_TOP_ALLOWED, &after[0], &after[1]);
        uint64_t units = after[0] - before[0], requests = after[1] - before[1];
        assert_true(units >= 16 && units % 16 == 0);
        assert_true(requests >= 1);
        assert_true(requests * cost <= units + cost / 2 || requests == 1);
        assert_true(2 * (requests + 1) * cost > 2 * units + cost);
    }
    weir_top_tracker_close(t.tracker);
}

/* The sampling interval that is reported is halved each minute, as the costs are. Other streams of
 * the policy do not change it. */
static void check_reported_sampling(void **unused)
{
    (void)unused;
    uint64_t cost, requests;
    tracked t;
    tracked_open(&t);
    for (int k = 0; k < 4; k++)
        (void)samples_until_coarser(&t, 0);
    assert_true(tracked_take(&t, 0, COUNT_DENIED, 1));
    assert_int_equal(tracked_read(&t, 0, WEIR_TOP_ALLOWED, &cost, &requests), 16);
    assert_int_equal(tracked_read(&t, 0, WEIR_TOP_DENIED, &cost, &requests), 1);
    assert_int_equal(cost, 1);
    assert_int_equal(tracked_read(&t, 1, WEIR_TOP_ALLOWED, &cost, &requests), 1);
    static const int64_t minutes[] = {0, 1, 0, 2, 5};
    static const int64_t sampling[] = {16, 8, 8, 2, 1};
    for (size_t i = 0; i < 5; i++) {
        tracked_tick(&t, minutes[i] * WEIR_TOP_HALF_NS);
        assert_int_equal(tracked_read(&t, 0, WEIR_TOP_ALLOWED, &cost, &requests), sampling[i]);
        (void)next_sample(&t, 0);
        assert_int_equal(tracked_read(&t, 0, WEIR_TOP_ALLOWED, &cost, &requests), sampling[i]);
    }
    weir_top_tracker_close(t.tracker);
}

/* Marsaglia's xorshift generator with the shifts 13, 7 and 17. */
static void check_random_numbers(void **unused)
{
    (void)unused;
    static const uint64_t expected[] = {UINT64_C(0x40822041), UINT64_C(0x100041060C011441)};
    uint64_t state = 1;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_sampler_random(&state), expected[i]);
        assert_int_equal(state, expected[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_budget),           cmocka_unit_test(check_refinement),
        cmocka_unit_test(check_sampled_requests), cmocka_unit_test(check_reported_sampling),
        cmocka_unit_test(check_random_numbers),
    };
    return cmocka_run_group_tests_name("tracker", tests, NULL, NULL);
}
