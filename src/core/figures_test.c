/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The figures of every format, of each layer, at the edges of windows and if the clock steps back.
 * A property test compares them with decisions. */

#include "core/figures.h"

#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS_NS    INT64_C(1000000)
#define S_NS     INT64_C(1000000000)
#define START_NS (INT64_C(1800000000) * S_NS) /* the start of a minute */
#define NONE     WEIR_NO_FIGURE

enum { LEVEL = 2, WORDS = 64 };

typedef struct key {
    weir_policy policy;
    uint64_t state[WORDS];
} key;

static key key_of(const char *text)
{
    key k = {.policy = policy_of(text)};
    assert_true(weir_state_words(&k.policy, LEVEL) <= WORDS);
    return k;
}

static void take(key *k, int64_t now_ns, int64_t cost)
{
    weir_decision d;
    assert_int_equal(weir_check(&k->policy, k->state, LEVEL, now_ns, cost, &d), WEIR_OK);
}

static void expect(const key *k, uint32_t layer, int64_t now_ns, int64_t count, int64_t previous,
                   int64_t start_ns)
{
    weir_figures f;
    assert_true(weir_figures_of(&k->policy, k->state, LEVEL, now_ns, layer, &f));
    assert_int_equal(f.count, count);
    assert_int_equal(f.previous, previous);
    assert_int_equal(f.start_ns, start_ns);
}

static void check_window(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"fixed-window 9/m", "fixed-window 9/6ns"};
    key k = key_of(texts[0]);
    expect(&k, 0, START_NS + 1, 0, NONE, START_NS);
    take(&k, START_NS + 1, 4);
    expect(&k, 0, START_NS + 1, 4, NONE, START_NS);
    expect(&k, 0, START_NS + 60 * S_NS - 1, 4, NONE, START_NS);
    expect(&k, 0, START_NS + 60 * S_NS, 0, NONE, START_NS + 60 * S_NS);
    expect(&k, 0, START_NS - 1, 4, NONE, START_NS); /* the clock has stepped back */
    k = key_of(texts[1]);
    take(&k, START_NS + 3, 9);
    expect(&k, 0, START_NS + 4, 9, NONE, START_NS);
}

static void check_from_first(void **unused)
{
    (void)unused;
    key k = key_of("fixed-window 9/m from-first");
    expect(&k, 0, START_NS + 7, 0, NONE, NONE);
    take(&k, START_NS + 7, 2);
    expect(&k, 0, START_NS + 7 + 60 * S_NS - 1, 2, NONE, START_NS + 7);
    expect(&k, 0, START_NS + 7 + 60 * S_NS, 0, NONE, NONE);
}

static void check_counter(void **unused)
{
    (void)unused;
    key k = key_of("sliding-counter 9/m");
    expect(&k, 0, START_NS + 5, 0, 0, START_NS);
    take(&k, START_NS + 5, 4);
    expect(&k, 0, START_NS + 6, 4, 0, START_NS);
    take(&k, START_NS + 90 * S_NS, 3);
    expect(&k, 0, START_NS + 90 * S_NS, 3, 4, START_NS + 60 * S_NS);
    expect(&k, 0, START_NS + 120 * S_NS, 0, 3, START_NS + 120 * S_NS);
    expect(&k, 0, START_NS + 180 * S_NS, 0, 0, START_NS + 180 * S_NS);
    expect(&k, 0, START_NS, 3, 4, START_NS + 60 * S_NS); /* the clock has stepped back */
}

static void check_log_slices_leases(void **unused)
{
    (void)unused;
    key k = key_of("sliding-log 9/m");
    take(&k, START_NS, 4);
    take(&k, START_NS + 1, 2);
    expect(&k, 0, START_NS + 60 * S_NS - 1, 6, NONE, NONE);
    expect(&k, 0, START_NS + 60 * S_NS, 2, NONE, NONE);
    k = key_of("sliding-slices 9/m slices 6");
    take(&k, START_NS, 4);
    take(&k, START_NS + 10 * S_NS, 1);
    expect(&k, 0, START_NS + 10 * S_NS, 5, NONE, NONE);
    expect(&k, 0, START_NS + 60 * S_NS, 1, NONE, NONE);
    k = key_of("concurrent 9 lease 1m");
    expect(&k, 0, START_NS, 0, NONE, NONE);
    take(&k, START_NS, 4);
    expect(&k, 0, START_NS + 60 * S_NS - 1, 4, NONE, NONE);
    expect(&k, 0, START_NS + 60 * S_NS, 0, NONE, NONE);
}

static void check_without(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"gcra 1/s burst 5", "token-bucket 3 refill 1/s",
                                        "token-bucket 3 refill 2 every 1s", "gcra 7/s burst 3",
                                        "leaky-queue 1/s depth 4"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        key k = key_of(texts[i]);
        take(&k, START_NS, 2);
        expect(&k, 0, START_NS, NONE, NONE, NONE);
    }
}

static void check_layers(void **unused)
{
    (void)unused;
    key k = key_of("gcra 9/s burst 9 & sliding-log 9/m & sliding-counter 8/m & block 1m");
    take(&k, START_NS, 3);
    expect(&k, 0, START_NS, NONE, NONE, NONE);
    expect(&k, 1, START_NS, 3, NONE, NONE);
    expect(&k, 2, START_NS, 3, 0, START_NS);
    expect(&k, 3, START_NS, NONE, NONE, NONE);
}

static void check_damaged(void **unused)
{
    (void)unused;
    key k = key_of("fixed-window 5/m & sliding-log 9/m");
    weir_figures f = {1, 2, 3};
    k.state[1] = UINT64_MAX; /* more entries than there are */
    assert_false(weir_figures_of(&k.policy, k.state, LEVEL, START_NS, 0, &f));
    assert_int_equal(f.count, NONE);
    assert_int_equal(f.previous, NONE);
    assert_int_equal(f.start_ns, NONE);
}

static void expect_list(weir_figures f, const char *want)
{
    weir_figure list[WEIR_FIGURES_MAX];
    char got[128] = "";
    size_t n = weir_figures_list(&f, list);
    for (size_t i = 0; i < n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s=%lld ", list[i].name,
                 (long long)list[i].value);
    assert_string_equal(got, want);
}

static void check_list(void **unused)
{
    (void)unused;
    expect_list(WEIR_NO_FIGURES, "");
    expect_list((weir_figures){0, NONE, NONE}, "count=0 ");
    expect_list((weir_figures){7, NONE, 0}, "count=7 window_start_ms=0 ");
    expect_list((weir_figures){0, 0, 2 * MS_NS - 1}, "count=0 previous=0 window_start_ms=1 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_window),  cmocka_unit_test(check_from_first),
        cmocka_unit_test(check_counter), cmocka_unit_test(check_log_slices_leases),
        cmocka_unit_test(check_without), cmocka_unit_test(check_layers),
        cmocka_unit_test(check_damaged), cmocka_unit_test(check_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
