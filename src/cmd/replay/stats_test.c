/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of the statistics: series over time beside a list of all times, lock-outs, peaks.
 * replay_report_test.py compares whole reports with a model. */

#include "cmd/replay/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S   INT64_C(1000000000)
#define DAY (86400 * S)

/* ---- series ---------------------------------------------------------------------------------- */

enum { TIMES = 3000 };

/* Times that add up to the span or more, mostly in groups. */
static void random_times(int64_t *ret, int64_t first_ns, int64_t span_ns)
{
    int64_t now_ns = first_ns;
    for (int i = 0; i < TIMES; i++) {
        ret[i] = now_ns;
        if (rand() % 4 == 0)
            now_ns += (int64_t)(((double)rand() / RAND_MAX) * 8 * (double)span_ns / TIMES);
    }
}

/* Compares the series of the first n times, of which it has every `every`th, with a count. */
static void expect_series(const replay_series *s, const replay_timeline *t, const int64_t *times,
                          int n, int every)
{
    uint64_t expected[REPLAY_BUCKETS_MAX] = {0}, found[REPLAY_BUCKETS_MAX];
    int64_t width_ns = replay_timeline_width_ns(t), start_ns = replay_timeline_start_ns(t);
    assert_true(t->len >= 1 && t->len <= REPLAY_BUCKETS_MAX);
    assert_int_equal(start_ns % width_ns, 0);
    assert_true(start_ns <= times[0] && times[0] - start_ns < width_ns);
    assert_int_equal((times[n - 1] - start_ns) / width_ns, t->len - 1);
    for (int i = 0; i < n; i += every)
        expected[(times[i] - start_ns) / width_ns]++;
    assert_true(replay_series_read(s, t, found));
    assert_memory_equal(found, expected, sizeof found);
}

static void check_series(void **unused)
{
    (void)unused;
    static int64_t times[TIMES];
    static const int64_t firsts[] = {0, 1, 807256800 * S + 17, WEIR_NOW_NS_MAX / 2};
    srand(1);
    for (int64_t span_ns = 10; span_ns < WEIR_NOW_NS_MAX / 16; span_ns *= 7) {
        replay_timeline t = {0};
        replay_series all = {0}, few = {0}, one = {0};
        random_times(times, firsts[rand() % 4], span_ns);
        for (int i = 0; i < TIMES; i++) {
            replay_timeline_move(&t, times[i]);
            replay_series_add(&all, &t);
            if (i % 500 == 0)
                replay_series_add(&few, &t);
            if (i == 0)
                replay_series_add(&one, &t);
            if (rand() % 50 == 0) {
                expect_series(&all, &t, times, i + 1, 1);
                expect_series(&few, &t, times, i + 1, 500);
                expect_series(&one, &t, times, i + 1, TIMES);
            }
        }
        expect_series(&all, &t, times, TIMES, 1);
        expect_series(&few, &t, times, TIMES, 500);
        replay_timeline_close(&t);
    }
}

/* The widths are such as people read on a clock: a day has 96 buckets of 15 minutes. */
static void check_widths(void **unused)
{
    (void)unused;
    static const struct {
        int64_t last_ns, width_ns;
        size_t len;
    } cases[] = {{0, 1000000, 1},
                 {95999999, 1000000, 96},
                 {96000000, 5000000, 20},
                 {DAY - 1, 900 * S, 96},
                 {DAY, 1800 * S, 49},
                 {30 * DAY, DAY / 2, 61},
                 {WEIR_NOW_NS_MAX, 1024 * DAY, 92}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        replay_timeline t = {0};
        assert_int_equal(replay_timeline_width_ns(&t), 0);
        replay_timeline_move(&t, 0);
        replay_timeline_move(&t, cases[i].last_ns);
        assert_int_equal(replay_timeline_width_ns(&t), cases[i].width_ns);
        assert_int_equal(t.len, cases[i].len);
    }
}

/* When as many series are dense as may be, the next ones are lost, and those with few entries are
 * not. */
static void check_lost_series(void **unused)
{
    (void)unused;
    replay_timeline t = {.dense = REPLAY_DENSE_MAX};
    replay_series many = {0}, few = {0}, opened = {0};
    uint64_t counts[REPLAY_BUCKETS_MAX], zeros[REPLAY_BUCKETS_MAX] = {0};
    assert_true(replay_series_open(&opened, &t));
    for (int i = 0; i < 2 * REPLAY_SPARSE_MAX; i++) {
        replay_timeline_move(&t, i * S);
        replay_series_add(&many, &t);
        replay_series_add(&opened, &t);
        if (i < REPLAY_SPARSE_MAX)
            replay_series_add(&few, &t);
    }
    assert_false(replay_series_read(&many, &t, counts));
    assert_memory_equal(counts, zeros, sizeof counts);
    assert_true(replay_series_read(&few, &t, counts));
    assert_true(replay_series_read(&opened, &t, counts));
    replay_timeline_close(&t);
}

/* ---- keys and policies ----------------------------------------------------------------------- */

typedef struct scene {
    replay_stats stats;
    replay_counts counts;
    replay_key *key;
    replay_denials denials;
    int64_t wait_ns; /* of the next denied request */
} scene;

static void open_scene(scene *ret, const char *text)
{
    weir_policy policy;
    *ret = (scene){.key = calloc(1, sizeof(replay_key) + sizeof(replay_tally))};
    assert_int_equal(weir_policy_parse(&policy, text, strlen(text), NULL, NULL), WEIR_OK);
    assert_int_equal(replay_stats_open(&ret->stats), WEIR_OK);
    assert_int_equal(replay_counts_open(&ret->counts, &ret->stats, &policy), WEIR_OK);
}

static void close_scene(scene *s)
{
    replay_stats_close(&s->stats);
    free(s->key);
}

/* A request of the key. `by` decided it. */
static void see(scene *s, int64_t now_ns, int64_t cost, bool denied, const weir_policy *by)
{
    replay_stats_request(&s->stats, now_ns, cost);
    replay_stats_key(&s->stats, s->key, cost);
    if (denied)
        s->key->policy[0].denials = &s->denials;
    const replay_outcome outcome = {
        .denied = denied, .policy = by, .cost = cost, .wait_ns = denied ? s->wait_ns : 0};
    replay_counts_add(&s->counts, &s->stats, s->key, &s->key->policy[0], &outcome);
}

static void deny(scene *s, int64_t now_ns, int64_t wait_ns)
{
    static const weir_policy any;
    s->wait_ns = wait_ns;
    see(s, now_ns, 1, true, &any);
}

static void expect_lockout(const scene *s, int64_t ns, int64_t from_ns)
{
    int64_t found_ns, found_from_ns;
    replay_lockout(&s->denials, &found_ns, &found_from_ns);
    assert_int_equal(found_ns, ns);
    assert_int_equal(found_from_ns, from_ns);
}

static void check_lockouts(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, "gcra 1/s burst 1");
    see(&s, 10, 1, false, NULL);
    deny(&s, 20, 0);
    expect_lockout(&s, 0, 20);
    deny(&s, 25, 5);
    expect_lockout(&s, 10, 20);
    see(&s, 1000, 1, false, NULL); /* it could have been allowed at 30 */
    expect_lockout(&s, 10, 20);
    deny(&s, 1040, 10); /* equal: the first one stays */
    expect_lockout(&s, 10, 20);
    deny(&s, 1050, 1);
    expect_lockout(&s, 11, 1040);
    deny(&s, 1051, 2);
    see(&s, 1052, 0, false, NULL); /* a smaller cost is allowed before */
    expect_lockout(&s, 13, 1040);
    deny(&s, 1060, 100);
    deny(&s, 1061, 1); /* the latest end counts */
    expect_lockout(&s, 100, 1060);
    deny(&s, 1062, INT64_MAX);
    deny(&s, 1063, 0);
    expect_lockout(&s, INT64_MAX - 1060, 1060);
    assert_int_equal(s.denials.count, 9);
    assert_int_equal(s.denials.first_ns, 20);
    assert_int_equal(s.denials.last_ns, 1063);
    close_scene(&s);
}

/* A deny list neither begins a lock-out nor ends one. */
static void check_deny_list(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, "gcra 1/s burst 1");
    see(&s, 10, 1, true, NULL);
    expect_lockout(&s, 0, -1);
    see(&s, 15, 1, false, NULL);
    expect_lockout(&s, 0, -1);
    deny(&s, 20, 5);
    see(&s, 22, 1, true, NULL);
    expect_lockout(&s, 5, 20);
    deny(&s, 23, 10);
    expect_lockout(&s, 13, 20);
    see(&s, 40, 1, false, NULL);
    see(&s, 50, 1, true, NULL);
    expect_lockout(&s, 13, 20);
    assert_int_equal(s.denials.count, 5);
    close_scene(&s);
}

static void check_peaks(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, "gcra 1/s burst 1");
    see(&s, 59 * S, 3, false, NULL);
    see(&s, 59 * S + 1, 2, false, NULL);
    see(&s, 60 * S, 4, false, NULL); /* another second, another minute */
    see(&s, 3600 * S, 1, false, NULL);
    assert_int_equal(s.key->peak[REPLAY_SECOND], 5);
    assert_int_equal(s.key->peak[REPLAY_MINUTE], 5);
    assert_int_equal(s.key->peak[REPLAY_HOUR], 9);
    see(&s, 3600 * S, INT64_MAX, false, NULL); /* sums end at the largest number */
    assert_int_equal(s.key->peak[REPLAY_HOUR], INT64_MAX);
    assert_int_equal(s.stats.cost, INT64_MAX);
    close_scene(&s);
}

static void expect_window(const char *text, int64_t window_ns, int64_t limit)
{
    scene s;
    open_scene(&s, text);
    assert_int_equal(s.counts.window_ns, window_ns);
    assert_int_equal(s.counts.limit, limit);
    close_scene(&s);
}

static void check_windows(void **unused)
{
    (void)unused;
    expect_window("gcra 100/m burst 20", 60 * S, 100);
    expect_window("fixed-window 9/week", 7 * DAY, 9);
    expect_window("fixed-window 9/year", 365 * DAY, 9);
    expect_window("gcra 3/s & sliding-log 40/h & fixed-window 50/h", 3600 * S, 40);
    expect_window("gcra 3/s & fixed-window 40/month & gcra 9/h", 28 * DAY, 40);
}

/* Never above the units of any interval as long as the window. */
static void check_admitted(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"gcra 5/8s burst 1", "gcra 1/3ns burst 1",
                                        "gcra 9/15ns burst 1", "fixed-window 7/h"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        weir_policy policy;
        scene s;
        int64_t times[400];
        uint64_t most = 0;
        open_scene(&s, texts[k]);
        assert_int_equal(weir_policy_parse(&policy, texts[k], strlen(texts[k]), NULL, NULL),
                         WEIR_OK);
        int64_t window_ns = s.counts.window_ns, now_ns = 5;
        for (int i = 0; i < 400; i++) {
            now_ns += rand() % (window_ns / 3 + 2);
            times[i] = now_ns;
            see(&s, now_ns, 2, false, &policy);
        }
        for (int i = 0; i < 400; i++) {
            uint64_t units = 0;
            for (int j = i; j < 400 && times[j] - times[i] < window_ns; j++)
                units += 2;
            most = units > most ? units : most;
        }
        assert_true(s.counts.peak.units <= most && s.counts.peak.units * 2 >= most);
        assert_true(s.counts.peak.key == s.key);
        close_scene(&s);
    }
}

/* Keys with another limit, keys on a list and denied requests do not count. */
static void check_admitted_of_others(void **unused)
{
    (void)unused;
    static const char own[] = "gcra 5/s burst 1", other[] = "gcra 6/s burst 1";
    weir_policy mine, others;
    scene s;
    open_scene(&s, own);
    assert_int_equal(weir_policy_parse(&mine, own, strlen(own), NULL, NULL), WEIR_OK);
    assert_int_equal(weir_policy_parse(&others, other, strlen(other), NULL, NULL), WEIR_OK);
    see(&s, S, 5, false, &others);
    see(&s, S, 6, false, NULL);
    see(&s, S, 7, true, &mine);
    assert_int_equal(s.counts.peak.units, 0);
    see(&s, S + 1, 2, false, &mine);
    see(&s, S + 2, 1, false, &mine);
    assert_int_equal(s.counts.peak.units, 3);
    assert_int_equal(s.counts.peak.at_ns, S + 2);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_series),
        cmocka_unit_test(check_widths),
        cmocka_unit_test(check_lost_series),
        cmocka_unit_test(check_lockouts),
        cmocka_unit_test(check_deny_list),
        cmocka_unit_test(check_peaks),
        cmocka_unit_test(check_windows),
        cmocka_unit_test(check_admitted),
        cmocka_unit_test(check_admitted_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
