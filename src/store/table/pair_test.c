/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Entries of policies of two layers: which fit, how they are encoded, and that they decide as
 * weir_check() does. */

#include "store/table/pack.h"

#include "core/algorithm.h"
#include "core/decision_kit_test.h"
#include "port/random_kit_test.h"
#include "store/kit_test.h"

static const int64_t start_ns = 1795377343327627102;

static void which_fit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool fits;
    } cases[] = {
        {"gcra 10/s burst 5 & gcra 1/s burst 100", true},
        {"gcra 10/s burst 5 & fixed-window 100/h", true},
        {"sliding-counter 9/s & fixed-window 100/day", true},
        {"gcra 10/s burst 5 & gcra 1/s burst 100 & block 10m", true},
        {"gcra 10/s burst 5 & block 10m", false},
        {"gcra 10/s burst 5", false},
        {"gcra 10/s burst 5 & gcra 1/s burst 100 & gcra 1/m burst 1000", false},
        {"gcra 3/s burst 5 & gcra 1/s burst 100", false}, /* ticks */
        {"gcra 1/s burst 5 & gcra 3/s burst 100", false},
        {"gcra 1/s burst 5 & sliding-log 9/h", false},
        {"fixed-window 5/h from-first & gcra 1/s burst 5", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_policy p = policy_of(cases[i].text);
        if (weir_pair_fits(&p) != cases[i].fits)
            fail_msg("%s", cases[i].text);
    }
}

/* The shortest form is taken. Either word may be the later one. */
static void encodings(void **state)
{
    (void)state;
    static const char tats[] = "gcra 10/s burst 5 & gcra 1/s burst 100",
                      mixed[] = "gcra 10/s burst 5 & fixed-window 100/h";
    static const uint64_t late = 1795377343327627102, none = UINT64_MAX;
    const struct {
        const char *text;
        uint64_t late, other;
        int form; /* less than 0: it does not fit */
    } cases[] = {
        {tats, late, late, WEIR_FORM_SHORT},
        {tats, late, late - 1, WEIR_FORM_SHORT},
        {tats, late, late - ((1 << 30) - 1), WEIR_FORM_SHORT},
        {tats, late, late - (1 << 30), WEIR_FORM_LONG},
        {tats, late, late - (((uint64_t)1 << 46) - 1), WEIR_FORM_LONG},
        {tats, late, late - ((uint64_t)1 << 46), WEIR_FORM_ONE},
        {tats, late, 0, WEIR_FORM_ONE},
        {mixed, late, late, WEIR_FORM_ONE},
        {mixed, late, 1, WEIR_FORM_ONE},
        {mixed, INT64_MAX, ((uint64_t)1 << 62) - 1, WEIR_FORM_ONE},
        {mixed, INT64_MAX, (uint64_t)1 << 62, -1},
        {tats, INT64_MAX, INT64_MAX - 5, WEIR_FORM_SHORT},
        {tats, (uint64_t)INT64_MAX + 1, INT64_MAX, -1},
    };
    for (size_t i = 0; i < 4 * sizeof cases / sizeof cases[0]; i++) {
        bool second = i & 1, cheap = i & 2;
        weir_policy p = policy_of(cases[i / 4].text);
        weir_bucket_entry e = {.form = WEIR_FORM_TIME};
        uint64_t words[2], again[2] = {none, none};
        words[second] = cases[i / 4].late;
        words[!second] = cases[i / 4].other;
        bool fits = weir_pair_encode(&p, words, WEIR_CHEAP + !cheap, &e);
        assert_int_equal(fits, cases[i / 4].form >= 0);
        if (!fits)
            continue;
        assert_int_equal(e.form, cases[i / 4].form);
        assert_int_equal(e.fresh_at_ns, cases[i / 4].late);
        assert_true(e.form != WEIR_FORM_SHORT || e.words[0] >> 32 == 0);
        assert_true(e.form != WEIR_FORM_LONG || e.words[0] >> 48 == 0);
        assert_int_equal(weir_pair_used(&e), cheap ? 0 : 128);
        assert_true(weir_pair_decode(&p, &e, again));
        assert_memory_equal(again, words, sizeof words);
    }
}

/* Forms that no state of the policy has, and times that are too late. */
static void damaged_entries(void **state)
{
    (void)state;
    weir_policy tats = policy_of("gcra 10/s burst 5 & gcra 1/s burst 100");
    weir_policy mixed = policy_of("gcra 10/s burst 5 & fixed-window 100/h");
    weir_policy reverse = policy_of("fixed-window 100/h & gcra 10/s burst 5");
    for (int form = 0; form < 8; form++) {
        uint64_t words[2];
        weir_bucket_entry e = {.form = (weir_form)form, .fresh_at_ns = start_ns, .words = {5}};
        bool one = form == WEIR_FORM_ONE, lag = form == WEIR_FORM_SHORT || form == WEIR_FORM_LONG;
        assert_int_equal(weir_pair_decode(&tats, &e, words), one || lag);
        assert_int_equal(weir_pair_decode(&mixed, &e, words), one);
        assert_int_equal(weir_pair_decode(&reverse, &e, words), one);
        e.fresh_at_ns = -1;
        assert_false(weir_pair_decode(&tats, &e, words));
    }
}

/* ---- decisions ------------------------------------------------------------------------------- */

static const char *const texts[] = {
    "gcra 10/s burst 5 & gcra 1/s burst 20",
    "gcra 1/s burst 20 & gcra 10/s burst 5",
    "gcra 10/s burst 5 & fixed-window 40/m",
    "sliding-counter 9/s & gcra 1/s burst 30",
    "leaky-queue 10/s depth 9 & leaky-queue 1/s depth 5",
    "leaky-queue 1/s depth 5 & leaky-queue 10/s depth 9",
    "leaky-queue 10/s depth 20 nodelay 8 & fixed-window 50/m",
    "fixed-window 9/s & fixed-window 50/day",
};

/* The states of the core as words. */
static void encode_all(const weir_policy *p, const uint64_t *state, uint64_t ret_words[2])
{
    for (size_t i = 0; i < 2; i++) {
        assert_true(weir_word_encode(&p->layer[i], state, &ret_words[i]));
        state += p->layer[i].format == WEIR_STATE_COUNTER ? 2 : 1;
    }
}

static unsigned larger_share(const weir_policy *p, const uint64_t *state, int64_t now_ns)
{
    weir_usage usage = weir_usage_of(p, state, 0, now_ns);
    return usage.used;
}

/* Draws from a few kinds of waits and costs. Returns how many requests were allowed. */
static unsigned run(const weir_policy *p, uint64_t *seed)
{
    enum { CALLS = 2000 };
    uint64_t core[4] = {0}, words[2] = {0};
    int64_t now_ns = start_ns;
    weir_decision d = {.limit = 1};
    unsigned allowed = 0;
    for (int i = 0; i < CALLS; i++) {
        weir_decision fast;
        const int64_t waits[] = {
            0, 0, 1, -1000, d.retry_after_ns, d.retry_after_ns - 1, d.reset_after_ns};
        const int64_t costs[] = {0, 1, 1, 2, d.remaining, d.remaining + 1, d.limit + 1};
        int64_t wait_ns = waits[next_random(seed) % 7], cost = costs[next_random(seed) % 7];
        uint64_t before[2] = {words[0], words[1]};
        unsigned used = 999;
        now_ns += d.never && wait_ns > s_ns ? 0 : wait_ns;
        assert_int_equal(weir_check(p, core, 0, now_ns, cost, &d), WEIR_OK);
        if (!weir_pair_take(p, words, now_ns, cost, &fast, &used)) { /* time went back */
            encode_all(p, core, words);
            continue;
        }
        assert_same_decision(&fast, &d);
        if (!d.allowed || cost == 0) {
            assert_int_equal(used, 999);
            assert_memory_equal(words, before, sizeof words);
            continue;
        }
        assert_int_equal(used, larger_share(p, core, now_ns));
        encode_all(p, core, before);
        assert_memory_equal(words, before, sizeof words);
        allowed++;
    }
    return allowed;
}

static void pairs_decide_as_states(void **state)
{
    (void)state;
    uint64_t seed = 20261128;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weir_policy p = policy_of(texts[i]);
        assert_true(weir_pair_fits(&p));
        assert_in_range(run(&p, &seed), 100, 1900);
    }
}

/* weir_check() decides if a layer counts denied requests, or if a word does not fit. */
static void left_to_the_core(void **state)
{
    (void)state;
    static const char *const of[] = {"gcra 1/s burst 5 & fixed-window 9/h count-denied",
                                     "fixed-window 9/h count-denied & gcra 1/s burst 5",
                                     "gcra 1/s burst 5 & fixed-window 9/h",
                                     "fixed-window 9/h & gcra 1/s burst 5"};
    for (size_t i = 0; i < 4; i++) {
        weir_policy p = policy_of(of[i]);
        uint64_t words[2] = {0};
        weir_decision d;
        unsigned used;
        assert_int_equal(weir_pair_take(&p, words, start_ns, 1, &d, &used), i >= 2);
        assert_false(weir_pair_take(&p, words, WEIR_NOW_NS_MAX, 1, &d, &used));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_fit),        cmocka_unit_test(encodings),
        cmocka_unit_test(damaged_entries),  cmocka_unit_test(pairs_decide_as_states),
        cmocka_unit_test(left_to_the_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
