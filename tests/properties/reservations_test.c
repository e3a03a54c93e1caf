/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Property: a canceled reservation has no effect on later decisions. Two keys of one store get the
 * same charges, and one of them also gets reservations. Once all reservations are canceled, both
 * keys must decide alike, for any order of the calls and any clock skew between threads within the
 * millisecond that the store allows.
 *
 * The environment variable WEIR_SEED sets the seed, which is printed. */

#include "properties.h"

#include "core/algorithm.h"
#include "port/random_kit_test.h"
#include "tests/store/check.h"

#include <weir/weir_store.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RUNS = 3000, OPS = 16, LINES = 96 };

static const int64_t ms_ns = 1000000;
static uint64_t seed = 20260101;

/* ---- two keys -------------------------------------------------------------------------------- */

typedef struct open_one {
    uint64_t id;
    int64_t cost;
} open_one;

typedef struct run {
    const weir_policy *policy;
    uint64_t policy_id, x;
    weir_store *store;
    bool takes_between;  /* both keys are charged during the run, not only at the start */
    bool steady;         /* all threads read the same time */
    int64_t clock_ns;    /* the latest time so far */
    int64_t step_max_ns; /* the largest step of the clock */
    open_one open[OPS];
    size_t opened, reserved;
    char line[LINES][80]; /* the calls so far, for a failure */
    size_t lines;
} run;

static int64_t below(run *r, int64_t n)
{
    return (int64_t)(next_random(&r->x) % (uint64_t)n);
}

static void note(run *r, const char *what, const char *key, int64_t t_ns, int64_t cost, bool done)
{
    if (r->lines < LINES)
        snprintf(r->line[r->lines++], sizeof r->line[0], "%s %s %" PRId64 " at %" PRId64 "%s", what,
                 key, cost, t_ns, done ? "" : ": denied");
}

/* Advances the clock. Returns the time that a thread reads: up to a millisecond behind. */
static int64_t tick(run *r)
{
    static const int64_t parts[] = {1, 2, 7, 1000, 1000000};
    int64_t most_ns = r->step_max_ns / parts[below(r, 5)];
    if (below(r, 2) && most_ns > 0 && r->clock_ns <= WEIR_NOW_NS_MAX - 2 * most_ns)
        r->clock_ns += below(r, most_ns + 1);
    return r->steady ? r->clock_ns : r->clock_ns - below(r, ms_ns);
}

static int64_t cost_of(run *r)
{
    int64_t limit = r->policy->layer[0].limit;
    return below(r, 4) ? below(r, 4) : below(r, limit < 1000 ? limit + 1 : 1000);
}

static bool take(run *r, const char *key, int64_t t_ns, int64_t cost)
{
    weir_decision d;
    assert_int_equal(
        weir_store_check(r->store, r->policy, r->policy_id, key, strlen(key), t_ns, cost, &d),
        WEIR_OK);
    note(r, "check", key, t_ns, cost, d.allowed);
    return d.allowed;
}

/* Charges both keys or neither: the key with reservations may have less remaining. */
static void take_both(run *r)
{
    int64_t t_ns = tick(r), cost = cost_of(r);
    if (take(r, "reserved", t_ns, cost))
        assert_true(take(r, "twin", t_ns, cost));
}

/* Returns false if the policy does not support reservations. */
static bool reserve(run *r)
{
    open_one *o = &r->open[r->opened];
    int64_t t_ns = tick(r);
    o->cost = cost_of(r);
    int64_t ttl_ns = below(r, 4) ? WEIR_SPAN_NS_MAX : 1 + below(r, r->step_max_ns + ms_ns);
    const weir_layer *hold = weir_policy_hold(r->policy);
    if (hold && ttl_ns > hold->period_ns)
        ttl_ns = hold->period_ns;
    weir_decision d;
    weir_status st = weir_store_reserve(r->store, r->policy, r->policy_id, "reserved", 8, t_ns,
                                        o->cost, ttl_ns, &d, &o->id);
    if (st == WEIR_E_UNSUPPORTED)
        return false;
    assert_int_equal(st, WEIR_OK);
    note(r, "reserve", "reserved", t_ns, o->cost, d.allowed);
    r->opened += d.allowed;
    r->reserved += d.allowed && o->cost > 0;
    return true;
}

static void cancel(run *r)
{
    size_t i = (size_t)below(r, (int64_t)r->opened);
    int64_t t_ns = tick(r);
    weir_decision d;
    weir_status st = weir_store_cancel(r->store, r->open[i].id, t_ns, &d);
    assert_true(st == WEIR_OK || st == WEIR_E_ABSENT); /* it may have expired */
    note(r, "cancel", "reserved", t_ns, r->open[i].cost, true);
    r->open[i] = r->open[--r->opened];
}

static weir_decision look(const run *r, const char *key, int64_t t_ns)
{
    weir_decision d;
    assert_int_equal(
        weir_store_peek(r->store, r->policy, r->policy_id, key, strlen(key), t_ns, 0, &d), WEIR_OK);
    return d;
}

static void print_figures(const char *key, const weir_decision *d)
{
    fprintf(stderr,
            "    %s: allowed %d remaining %" PRId64 " retry %" PRId64 " reset %" PRId64
            " layer %u\n",
            key, d->allowed, d->remaining, d->retry_after_ns, d->reset_after_ns, d->layer);
}

/* Returns whether both keys decide alike from the latest time on. */
static bool decide_alike(const run *r)
{
    int64_t later_ns[] = {0, 1, r->step_max_ns / 3, r->step_max_ns, 2 * r->step_max_ns};
    for (size_t i = 0; i < sizeof later_ns / sizeof later_ns[0]; i++) {
        int64_t t_ns = r->clock_ns + later_ns[i];
        if (t_ns > WEIR_NOW_NS_MAX)
            break;
        weir_decision a = look(r, "reserved", t_ns), b = look(r, "twin", t_ns);
        if (a.allowed == b.allowed && a.remaining == b.remaining && a.layer == b.layer &&
            a.reset_after_ns == b.reset_after_ns && a.retry_after_ns == b.retry_after_ns)
            continue;
        char text[WEIR_POLICY_TEXT_MAX];
        weir_policy_print(r->policy, text, sizeof text);
        fprintf(stderr, "'%s': at %" PRId64 "\n", text, t_ns);
        print_figures("reserved", &a);
        print_figures("twin", &b);
        for (size_t k = 0; k < r->lines; k++)
            fprintf(stderr, "    %s\n", r->line[k]);
        return false;
    }
    return true;
}

/* ---- the property ---------------------------------------------------------------------------- */

static int64_t longest_ns(const weir_policy *p)
{
    int64_t longest = 1;
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        int64_t period_ns = l->period_ns > 0 ? l->period_ns : INT64_C(86400000000000);
        longest = period_ns > longest ? period_ns : longest;
    }
    return longest;
}

static void do_one(run *r)
{
    if (r->takes_between && below(r, 3) == 0)
        take_both(r);
    else if (r->opened > 0 && below(r, 3) == 0)
        cancel(r);
    else if (below(r, 4) == 0)
        take(r, "other", tick(r), 1); /* advances the store's time */
    else
        reserve(r);
}

/* Returns whether the property holds. Adds the number of reservations to *ret_reserved. */
static bool has_no_effect(const weir_policy *p, uint64_t x, bool takes_between,
                          size_t *ret_reserved)
{
    static const int64_t starts[] = {2000000, 1767225600000000000, 7258118400000000000};
    run r = {.policy = p,
             .x = x,
             .takes_between = takes_between,
             .steady = true,
             .step_max_ns = longest_ns(p)};
    const weir_store_options options = {.memory_bytes = 4 << 20};
    r.clock_ns = starts[below(&r, 3)];
    assert_int_equal(weir_store_open(&r.store, &options), WEIR_OK);
    r.policy_id = weir_store_policy_id(r.store, p);
    for (int64_t i = below(&r, 4); i > 0; i--)
        take_both(&r);
    r.steady = takes_between;
    bool good = true;
    if (reserve(&r)) {
        for (int i = 1; i < OPS; i++)
            do_one(&r);
        while (r.opened > 0)
            cancel(&r);
        r.clock_ns +=
            r.clock_ns <
            WEIR_NOW_NS_MAX; /* a reservation that expires at the last instant has expired */
        good = decide_alike(&r);
    }
    *ret_reserved += r.reserved;
    if (x % 32 == 0)
        WEIR_CHECK(weir_store_check_all(r.store, false));
    weir_store_close(r.store);
    return good;
}

/* Returns whether every layer refunds exactly the reserved charge. A bucket does not store what has
 * drained, and a reservation may have started the window of a from-first layer. */
static bool is_exact(const weir_policy *p)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (weir_layer_is_bucket(&p->layer[i]) || p->layer[i].calendar == WEIR_FROM_FIRST)
            return false;
    }
    return true;
}

static const char *const policies[] = {
    "gcra 100/s burst 20",
    "gcra 3/s burst 30",
    "token-bucket 50 refill 5 every 1ms",
    "leaky-bucket 10/s capacity 20",
    "fixed-window 100/h",
    "fixed-window 100/1ms",
    "fixed-window 100/day",
    "fixed-window 100/month from 31",
    "fixed-window 100/h from-first",
    "fixed-window 100/1ms from-first",
    "fixed-window 2147483647/1ns",
    "sliding-log 100/2ms",
    "sliding-log 1000/m",
    "sliding-counter 100/1ms",
    "sliding-counter 100/m relaxed",
    "sliding-slices 100/2ms slices 7",
    "sliding-slices 100/h slices 60",
    "gcra 10/s burst 50 & fixed-window 100/1ms from-first & sliding-counter 100/1ms",
    "sliding-log 100/2ms & fixed-window 60/1ms & sliding-slices 80/3ms slices 2",
    "concurrent 100 lease 2ms",
    "concurrent 1000 lease 1m",
    "fixed-window 100/1ms & concurrent 60 lease 1h",
};

static void check_fixed(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        weir_policy p;
        size_t reserved = 0;
        assert_int_equal(weir_policy_parse(&p, policies[i], strlen(policies[i]), NULL, NULL),
                         WEIR_OK);
        for (uint64_t x = 1; x <= 100; x++) {
            assert_true(has_no_effect(&p, x, false, &reserved));
            assert_true(!is_exact(&p) || has_no_effect(&p, x, true, &reserved));
        }
        assert_true(reserved > 100); /* the runs must contain reservations */
    }
}

static void check_random(void **unused)
{
    (void)unused;
    uint64_t x = seed;
    size_t reserved = 0;
    for (int i = 0; i < RUNS; i++) {
        uint8_t bytes[64];
        input in;
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)(next_random(&x) >> 24);
        /* A denial that is due to a reservation blocks the key: cancelling lifts no block. */
        if (!input_read(&in, bytes, sizeof bytes) || weir_policy_blocks(&in.policy))
            continue;
        assert_true(has_no_effect(&in.policy, next_random(&x), false, &reserved));
        if (is_exact(&in.policy))
            assert_true(has_no_effect(&in.policy, next_random(&x), true, &reserved));
    }
    assert_true(reserved > RUNS);
}

/* The clock of one thread is half a millisecond behind that of another. Both reservations are in
 * the window that the first of them started. */
static void check_example(void **unused)
{
    (void)unused;
    static const char text[] = "fixed-window 100/h from-first";
    const int64_t t_ns = 1767225600000000000;
    const weir_store_options options = {.memory_bytes = 4 << 20};
    weir_policy p;
    weir_decision d;
    weir_store *s;
    uint64_t first, second;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    uint64_t id = weir_store_policy_id(s, &p);
    assert_int_equal(weir_store_check(s, &p, id, "other", 5, t_ns - 900000, 5, &d), WEIR_OK);
    assert_int_equal(weir_store_reserve(s, &p, id, "k", 1, t_ns, 10, WEIR_SPAN_NS_MAX, &d, &first),
                     WEIR_OK);
    assert_int_equal(
        weir_store_reserve(s, &p, id, "k", 1, t_ns - 500000, 7, WEIR_SPAN_NS_MAX, &d, &second),
        WEIR_OK);
    assert_int_equal(d.remaining, 83);
    assert_int_equal(weir_store_cancel(s, first, t_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 93);
    assert_int_equal(weir_store_cancel(s, second, t_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 100);
    weir_store_close(s);
}

int main(void)
{
    const char *given = getenv("WEIR_SEED");
    if (given)
        seed = strtoull(given, NULL, 10);
    printf("seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_example),
        cmocka_unit_test(check_fixed),
        cmocka_unit_test(check_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
