/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The history: its steps and their counts, a reload, the hour, the clock, and more names than it
 * has room for. */

#include "service/kit_test.h"

#include <stdio.h>

enum { ALLOWED = WEIR_HISTORY_ALLOWED, DENIED = WEIR_HISTORY_DENIED };

typedef struct find {
    const char *name; /* NULL: all names together */
    bool seen;
    size_t series;
    weir_history_series at;
    uint32_t count[WEIR_HISTORY_STEPS][WEIR_HISTORY_GROUPS]; /* oldest first */
} find;

static void find_series(void *ctx, const weir_history_series *s)
{
    find *f = ctx;
    f->series++;
    assert_in_range(s->len, 1, WEIR_HISTORY_STEPS);
    if (s->name ? !f->name || strcmp(s->name, f->name) != 0 : f->name != NULL)
        return;
    assert_false(f->seen);
    f->seen = true;
    f->at = *s;
    for (size_t i = 0; i < s->len; i++)
        memcpy(f->count[i], s->count[(s->first + (int64_t)i) % WEIR_HISTORY_STEPS],
               sizeof f->count[i]);
}

static find find_at(const char *name, int64_t at_ns)
{
    find f = {.name = name};
    weir_limiter_history(limiter, at_ns, find_series, &f);
    return f;
}

static void take(const char *rule, const char *key, int n)
{
    for (int i = 0; i < n; i++) {
        weir_request request = request_of(rule, key, 1);
        assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    }
}

/* Lets seconds pass, with a tick at the end of each. */
static int64_t ticks(int64_t from_ns, int seconds)
{
    for (int i = 1; i <= seconds; i++)
        weir_limiter_history_tick(limiter, from_ns + i * s_ns);
    return from_ns + seconds * s_ns;
}

static void expect(const find *f, size_t i, uint32_t allowed, uint32_t denied, uint32_t shadowed,
                   uint32_t failed)
{
    assert_true(f->seen && i < f->at.len);
    const uint32_t expected[WEIR_HISTORY_GROUPS] = {allowed, denied, shadowed, failed};
    assert_memory_equal(f->count[i], expected, sizeof expected);
}

static void check_steps(void **unused)
{
    (void)unused;
    static const char *const root = "root", *const evil = "evil";
    weir_rule_spec specs[] = {spec_of("a", "fixed-window 2/h"), spec_of("b", "fixed-window 1/h")};
    specs[0].allow = &root;
    specs[0].deny = &evil;
    specs[0].allow_len = specs[0].deny_len = 1;
    specs[1].shadow = true;
    set_rules(specs, 2);
    weir_limiter_history_tick(limiter, now_ns);
    take("a", "k", 5);
    take("a", "root", 1);
    take("a", "evil", 1);
    int64_t at_ns = ticks(now_ns, 9);
    find f = find_at("a", at_ns); /* the current step has what happened so far */
    assert_int_equal(f.at.len, 1);
    assert_int_equal(f.at.first_ns, now_ns);
    expect(&f, 0, 3, 4, 0, 0);
    take("b", "k", 3);
    take("absent", "k", 2);
    at_ns = ticks(at_ns, 1);
    take("a", "k", 1);
    f = find_at("a", at_ns);
    assert_int_equal(f.at.len, 2);
    expect(&f, 0, 3, 4, 0, 0); /* requests after a tick are in the next step, and once */
    expect(&f, 1, 0, 1, 0, 0);
    f = find_at("b", at_ns + s_ns);
    expect(&f, 0, 1, 0, 2, 0);
    f = find_at(NULL, at_ns + 2 * s_ns);
    expect(&f, 0, 4, 4, 2, 2);
    expect(&f, 1, 0, 1, 0, 0);
    assert_int_equal(f.series, 4); /* all, a, b and (others) */
    f = find_at(WEIR_COUNTS_OTHERS, at_ns + 2 * s_ns);
    expect(&f, 0, 0, 0, 0, 2);
}

/* A reload and the end of a service lose nothing; a policy that was removed stays. */
static void check_reload(void **unused)
{
    (void)unused;
    const weir_rule_spec old[] = {spec_of("a", "fixed-window 2/h"), spec_of("b", "gcra 1/h")};
    const weir_rule_spec new[] = {spec_of("c", "gcra 1/h"), spec_of("a", "fixed-window 9/h")};
    set_rules(old, 2);
    weir_limiter_history_tick(limiter, now_ns);
    take("a", "k", 3);
    take("b", "k", 1);
    int64_t at_ns = ticks(now_ns, 10);
    set_rules(new, 2);
    weir_service_close(service);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    take("a", "k", 4);
    take("c", "k", 1);
    at_ns = ticks(at_ns, 10);
    find f = find_at("a", at_ns);
    assert_int_equal(f.at.len, 3);
    expect(&f, 0, 2, 1, 0, 0);
    expect(&f, 1, 4, 0, 0, 0);
    expect(&f, 2, 0, 0, 0, 0);
    f = find_at("b", at_ns);
    expect(&f, 0, 1, 0, 0, 0);
    f = find_at("c", at_ns);
    expect(&f, 0, 0, 0, 0, 0);
    expect(&f, 1, 1, 0, 0, 0);
}

/* An hour is kept, also if the ticks stop for longer. */
static void check_hour(void **unused)
{
    (void)unused;
    const weir_rule_spec spec = spec_of("a", "fixed-window 1000/h");
    set_rules(&spec, 1);
    weir_limiter_history_tick(limiter, now_ns);
    for (int i = 0; i < WEIR_HISTORY_STEPS + 40; i++) {
        take("a", "k", i + 1 == 50 ? 7 : 1);
        weir_limiter_history_tick(limiter, now_ns + (i + 1) * WEIR_HISTORY_STEP_NS);
    }
    int64_t at_ns = now_ns + (WEIR_HISTORY_STEPS + 40) * WEIR_HISTORY_STEP_NS;
    find f = find_at("a", at_ns);
    assert_int_equal(f.at.len, WEIR_HISTORY_STEPS);
    assert_int_equal(f.at.first_ns, now_ns + 41 * WEIR_HISTORY_STEP_NS);
    for (size_t i = 0; i + 1 < f.at.len; i++)
        expect(&f, i, i == 8 ? 7 : 1, 0, 0, 0);
    expect(&f, f.at.len - 1, 0, 0, 0, 0);
    take("a", "k", 3); /* before the gap */
    at_ns += 30 * WEIR_HISTORY_STEP_NS;
    f = find_at("a", at_ns);
    expect(&f, f.at.len - 31, 3, 0, 0, 0);
    expect(&f, f.at.len - 30, 0, 0, 0, 0);
    at_ns += 1000 * WEIR_HISTORY_STEP_NS;
    f = find_at(NULL, at_ns);
    assert_int_equal(f.at.len, WEIR_HISTORY_STEPS);
    for (size_t i = 0; i < f.at.len; i++)
        expect(&f, i, 0, 0, 0, 0);
}

/* A clock that goes back makes the current step longer. */
static void check_clock_goes_back(void **unused)
{
    (void)unused;
    const weir_rule_spec spec = spec_of("a", "fixed-window 1000/h");
    set_rules(&spec, 1);
    weir_limiter_history_tick(limiter, now_ns);
    weir_limiter_history_tick(limiter, now_ns + 25 * s_ns);
    take("a", "k", 1);
    weir_limiter_history_tick(limiter, now_ns - 100 * s_ns);
    find f = find_at("a", now_ns - 90 * s_ns);
    assert_int_equal(f.at.len, 3);
    expect(&f, 2, 1, 0, 0, 0);
    take("a", "k", 1);
    f = find_at("a", now_ns + 30 * s_ns);
    assert_int_equal(f.at.len, 4);
    expect(&f, 2, 2, 0, 0, 0);
}

/* Of more names than there are series, the busiest ones have one. */
static void check_many_names(void **unused)
{
    (void)unused;
    enum { MANY = WEIR_HISTORY_NAMES + 2 };
    weir_rule_spec specs[MANY];
    char names[MANY][8];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "p%d", i);
        specs[i] = spec_of(names[i], "fixed-window 1000000/h");
    }
    set_rules(specs, MANY);
    weir_limiter_history_tick(limiter, now_ns);
    for (int i = 0; i < WEIR_HISTORY_NAMES; i++)
        take(names[i], "k", i == 9 ? 3 : 5);
    int64_t at_ns = ticks(now_ns, 10);
    take(names[MANY - 1], "k", 7);
    take(names[MANY - 2], "k", 2); /* not twice as many as the least busy one */
    at_ns = ticks(at_ns, 10);
    assert_false(find_at(names[MANY - 2], at_ns).seen);
    assert_false(find_at("p9", at_ns).seen);
    assert_true(find_at("p8", at_ns).seen);
    take(names[MANY - 1], "k", 4);
    find f = find_at(names[MANY - 1], at_ns);
    assert_int_equal(f.at.len, 1); /* the series begins after the step that brought it */
    expect(&f, 0, 4, 0, 0, 0);
    f = find_at(NULL, at_ns);
    assert_int_equal(f.series, 1 + WEIR_HISTORY_NAMES);
    expect(&f, 1, 9, 0, 0, 0);
    expect(&f, 2, 4, 0, 0, 0);
    /* Requests of the past count less and less, also few of them. */
    for (int i = 0; i < 300; i++)
        at_ns = ticks(at_ns, 10);
    take("p9", "k", 1);
    at_ns = ticks(at_ns, 10);
    take("p9", "k", 2);
    take(names[MANY - 1], "k", 1);
    f = find_at("p9", at_ns);
    expect(&f, f.at.len - 1, 2, 0, 0, 0);
}

#define HISTORY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(check_steps),      HISTORY_TEST(check_reload),
        HISTORY_TEST(check_hour),       HISTORY_TEST(check_clock_goes_back),
        HISTORY_TEST(check_many_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
