/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decides on words and, with weir_check(), on states of the core. All fields of all decisions must
 * agree, and so must the states. */

#include "core/algorithm.h"
#include "core/decision_kit_test.h"
#include "port/random_kit_test.h"
#include "store/table/word.h"
#include "tests/kit/kit.h"

#include <weir/weir_zone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const int64_t start_ns = 1795377343327627102;

/* Small numbers are as likely as large ones. */
static int64_t draw(uint64_t *seed, int64_t max)
{
    int64_t n = (int64_t)(next_random(seed) >> (1 + next_random(seed) % 63));
    return n < max ? n : max;
}

static int64_t draw_wait(const weir_decision *d, uint64_t *seed)
{
    const int64_t waits[] = {0,
                             0,
                             1,
                             -1,
                             -900000,
                             d->reset_after_ns,
                             d->reset_after_ns - 1,
                             d->reset_after_ns / 3,
                             d->retry_after_ns,
                             d->retry_after_ns - 1,
                             draw(seed, WEIR_SPAN_NS_MAX)};
    int64_t wait_ns = waits[next_random(seed) % (sizeof waits / sizeof waits[0])];
    return wait_ns < WEIR_SPAN_NS_MAX ? wait_ns : 0;
}

/* A word and a state of the core, and how often they were decided on the fast path. */
typedef struct twins {
    weir_policy policy;
    uint64_t word, state[2];
    uint64_t fast;
} twins;

/* Decides on both. Where the fast path does not, as the table does. */
static weir_decision decide(twins *t, int64_t now_ns, int64_t cost)
{
    weir_decision fast = {.layer = 9}, slow; /* every field must be written */
    const weir_layer *l = t->policy.layer;
    uint64_t word = t->word, state[2] = {0};
    assert_int_equal(weir_check(&t->policy, t->state, 0, now_ns, cost, &slow), WEIR_OK);
    bool is_fast = weir_word_take(l, &word, now_ns, cost, &fast);
    if (is_fast) {
        assert_same_decision(&fast, &slow);
        t->word = word;
        t->fast++;
    } else if (!weir_word_encode(l, t->state, &t->word)) {
        t->word = 0; /* the state does not fit: begin again */
        memset(t->state, 0, sizeof t->state);
    }
    if (t->word != 0) {
        assert_true(weir_word_decode(l, t->word, state));
        int64_t after_ns = weir_fresh_after(&t->policy, t->state, 0, now_ns);
        assert_true(after_ns == 0 || weir_word_time(t->word) >= now_ns + after_ns);
    }
    weir_decision one, two;
    assert_int_equal(weir_peek(&t->policy, t->state, 0, now_ns, cost, &one), WEIR_OK);
    assert_int_equal(weir_peek(&t->policy, state, 0, now_ns, cost, &two), WEIR_OK);
    assert_same_decision(&one, &two);
    return slow;
}

static uint64_t run(const char *text, int64_t now_ns, uint64_t *seed)
{
    enum { CALLS = 3000 };
    twins t = {.policy = policy_of(text)};
    assert_true(weir_word_fits(t.policy.layer));
    weir_decision d = decide(&t, now_ns, 0);
    for (int i = 0; i < CALLS; i++) {
        const int64_t costs[] = {
            0, 1, 1, 2, d.remaining, d.remaining + 1, d.limit, d.limit + 1, draw(seed, 1000)};
        now_ns += draw_wait(&d, seed);
        if (now_ns < 0 || now_ns > WEIR_NOW_NS_MAX)
            now_ns = (int64_t)(next_random(seed) % (uint64_t)WEIR_NOW_NS_MAX);
        int64_t cost = costs[next_random(seed) % (sizeof costs / sizeof costs[0])];
        d = decide(&t, now_ns, cost < WEIR_COST_MAX ? cost : WEIR_COST_MAX);
    }
    return t.fast;
}

static const char *const texts[] = {
    "gcra 10/s burst 5",
    "gcra 3/s burst 1",
    "gcra 3/s burst 20",
    "gcra 7/s burst 100000",
    "gcra 9/m burst 9",
    "gcra 13/d burst 1000",
    "token-bucket 50 refill 7/s",
    "leaky-bucket 11/s capacity 40",
    "leaky-queue 3/s depth 9",
    "leaky-queue 7/m depth 40 nodelay 20",
    "leaky-queue 10/s depth 20 nodelay 8",
    "fixed-window 1/s",
    "fixed-window 100/h",
    "fixed-window 255/1us",
    "fixed-window 256/h",
    "fixed-window 100000/d count-denied",
    "fixed-window 2147483647/d",
    "fixed-window 5/day",
    "fixed-window 9000/month",
    "fixed-window 268435455/month",
    "sliding-counter 1/s",
    "sliding-counter 255/66us",
    "sliding-counter 1000/h",
    "sliding-counter 1000000/h relaxed",
    "sliding-counter 5000/m",
};

/* From today on nearly all decisions take the fast path; at other times the others are right. */
static void words_decide_as_states(void **state)
{
    (void)state;
    static const int64_t starts_ns[] = {0,
                                        1,
                                        1000000000,
                                        WEIR_TICKS_EPOCH_NS - 5,
                                        WEIR_TICKS_EPOCH_NS + ((int64_t)1 << 59) - 9,
                                        WEIR_NOW_NS_MAX - 5};
    uint64_t seed = 20261123;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t fast = run(texts[i], start_ns, &seed);
        if (fast < 100)
            fail_msg("%s: %d decisions on the fast path", texts[i], (int)fast);
        for (size_t s = 0; s < sizeof starts_ns / sizeof starts_ns[0]; s++)
            run(texts[i], starts_ns[s], &seed);
    }
}

/* Which policies do not fit in a word. */
static void others(void **state)
{
    (void)state;
    static const char *const wide[] = {"gcra 17/s burst 5",
                                       "token-bucket 20 refill 5 every 1h",
                                       "fixed-window 5/h from-first",
                                       "fixed-window 200/255ns",
                                       "fixed-window 268435456/month",
                                       "gcra 17/1001ns burst 5",
                                       "gcra 7/d burst 53376",
                                       "sliding-counter 1/65us",
                                       "sliding-counter 1048576/h",
                                       "sliding-log 2/s",
                                       "sliding-slices 9/m slices 6"};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        weir_policy p = policy_of(wide[i]);
        weir_decision d;
        uint64_t word = 0, words[8] = {0};
        if (weir_word_fits(p.layer) || weir_word_encode(p.layer, words, &word) ||
            weir_word_decode(p.layer, WEIR_TICKS, words) ||
            weir_word_decode(p.layer, (uint64_t)start_ns, words) ||
            weir_word_take(p.layer, &word, WEIR_TICKS_EPOCH_NS, 1, &d))
            fail_msg("%s", wide[i]);
    }
}

/* The most that fits in a word. */
static void limits(void **state)
{
    (void)state;
    static const char *const fit[] = {"gcra 16/1001ns burst 5", "gcra 7/d burst 53375",
                                      "fixed-window 200/256ns", "fixed-window 268435455/month",
                                      "sliding-counter 1/66us", "sliding-counter 1048575/h"};
    for (size_t i = 0; i < sizeof fit / sizeof fit[0]; i++) {
        weir_policy p = policy_of(fit[i]);
        if (!weir_word_fits(p.layer))
            fail_msg("%s", fit[i]);
    }
}

/* The class of a policy, and the used share that its words show after a charge. */
static void classes_and_used_shares(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned class;
        int64_t cost;
        unsigned used;
    } cases[] = {
        {"gcra 1/ns burst 1", 0, 1, 0},
        {"gcra 1/1048576ns burst 1", 0, 1, 255},
        {"gcra 1/1048577ns burst 1", 1, 1, 128},
        {"gcra 1/2097152ns burst 1", 1, 1, 255},
        {"gcra 1/2097153ns burst 1", 2, 1, 128},
        {"gcra 10/s burst 5", 9, 3, 143},
        {"gcra 3/s burst 3", 10, 1, 79},
        {"gcra 3/s burst 3", 10, 3, 238},
        {"gcra 1/1152921504606846975ns burst 1", 40, 1, 255},
        {"fixed-window 1/h", 41, 1, 128},
        {"fixed-window 255/h", 41, 100, 100},
        {"fixed-window 255/h", 41, 255, 255},
        {"fixed-window 256/h", 42, 256, 128},
        {"fixed-window 4095/h", 42, 100, 6},
        {"fixed-window 4096/h", 43, 3000, 93},
        {"fixed-window 2147483647/d", 47, 1 << 30, 128},
        {"fixed-window 300/day", 42, 300, 150},
        {"sliding-counter 1/h", 48, 1, 128},
        {"sliding-counter 255/h", 48, 100, 100},
        {"sliding-counter 256/h", 49, 256, 128},
        {"sliding-counter 1000/h", 49, 999, 249},
        {"sliding-counter 1048575/d", 54, 1 << 19, 128},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_policy p = policy_of(cases[i].text);
        weir_decision d;
        uint64_t word = 0, rank;
        assert_true(weir_word_fits(p.layer));
        unsigned class = weir_word_class(p.layer);
        if (class != cases[i].class)
            fail_msg("%s: class %u", cases[i].text, class);
        assert_true(weir_word_take(p.layer, &word, start_ns, cases[i].cost, &d) && d.allowed);
        rank = weir_word_rank((uint64_t)1 << 40 | class, word, start_ns);
        if (weir_rank_used(rank) != cases[i].used)
            fail_msg("%s: used %u", cases[i].text, weir_rank_used(rank));
        assert_int_equal(rank, weir_rank(cases[i].used, weir_word_time(word)));
        rank = weir_word_rank(WEIR_CLASS_OTHER, word, start_ns);
        assert_int_equal(rank, weir_rank(128, weir_word_time(word)));
        if (class <= WEIR_CLASS_TIME_MAX) /* idle */
            assert_int_equal(weir_rank_used(weir_word_rank(class, word, INT64_MAX)), 0);
    }
}

/* Of the two counts of a sliding counter, the larger one is shown. */
static void the_larger_count_is_the_used_share(void **state)
{
    (void)state;
    static const unsigned costs[][3] = {{500, 100, 125}, {100, 800, 200}, {300, 300, 75}};
    weir_policy p = policy_of("sliding-counter 1000/h");
    const int64_t hour_ns = INT64_C(3600000000000);
    for (size_t i = 0; i < 3; i++) {
        uint64_t word = 0;
        weir_decision d;
        int64_t now_ns = start_ns / hour_ns * hour_ns;
        assert_true(weir_word_take(p.layer, &word, now_ns, costs[i][0], &d) && d.allowed);
        now_ns += 2 * hour_ns - 1;
        assert_true(weir_word_take(p.layer, &word, now_ns, costs[i][1], &d) && d.allowed);
        uint64_t rank = weir_word_rank(weir_word_class(p.layer), word, now_ns);
        assert_int_equal(weir_rank_used(rank), costs[i][2]);
    }
}

/* States that do not fit, and those beside them that do. */
static void states_at_the_limits(void **state)
{
    (void)state;
    const uint64_t hour = UINT64_C(3600000000000), ticks = UINT64_C(1) << 59;
    const uint64_t first = WEIR_TICKS_EPOCH_NS, last = first + ticks - 1;
    const uint64_t end = (uint64_t)WEIR_NOW_NS_MAX / hour * hour; /* of the last whole hour */
    const struct {
        const char *text;
        uint64_t state[2];
        bool fits;
    } cases[] = {
        {"sliding-counter 1000/h", {500000 * hour, (uint64_t)1023 << 32 | 1023}, true},
        {"sliding-counter 1000/h", {500000 * hour + 1, 0}, false},
        {"sliding-counter 1000/h", {500000 * hour, (uint64_t)1024 << 32}, false},
        {"sliding-counter 1000/h", {500000 * hour, 1024}, false},
        {"sliding-counter 1000/h", {end - 2 * hour, 1}, true},
        {"sliding-counter 1000/h", {end - hour, 1}, false},
        {"sliding-counter 1000/h", {-hour, 1}, false},
        {"sliding-counter 1000/h", {0, 1}, true},
        {"fixed-window 100/h", {end - hour + 100, 0}, true},
        {"fixed-window 100/h", {end + 1, 0}, false},
        {"fixed-window 100/h", {500000 * hour + 127, 0}, true},
        {"fixed-window 100/h", {500000 * hour + 128, 0}, false},
        {"fixed-window 100/h", {-hour, 0}, false},
        {"fixed-window 100/h", {(uint64_t)WEIR_NOW_NS_MAX + 1, 0}, false},
        {"gcra 3/s burst 3", {0, 3 * first}, true},
        {"gcra 3/s burst 3", {0, 3 * first - 2}, true},
        {"gcra 3/s burst 3", {0, 3 * first - 3}, false},
        {"gcra 3/s burst 3", {0, 3 * last}, true},
        {"gcra 3/s burst 3", {0, 3 * last + 1}, false},
        {"gcra 3/s burst 3", {3, 0}, false},
        {"gcra 3/s burst 3", {1, (uint64_t)1 << 63}, false},
        {"gcra 3/s burst 3", {2, 3 * first}, false},
        {"gcra 1/s burst 3", {7, 0}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_policy p = policy_of(cases[i].text);
        uint64_t word = 0, again[2] = {0};
        if (weir_word_encode(p.layer, cases[i].state, &word) != cases[i].fits)
            fail_msg("%s: case %d", cases[i].text, (int)i);
        if (!cases[i].fits)
            continue;
        assert_true(weir_word_decode(p.layer, word, again));
        assert_memory_equal(again, cases[i].state, sizeof again);
    }
}

/* Words that no state of the policy has. */
static void damaged_words(void **state)
{
    (void)state;
    const uint64_t hour = UINT64_C(3600000000000);
    const struct {
        const char *text;
        uint64_t word;
    } cases[] = {
        {"fixed-window 100/h", 0},
        {"fixed-window 100/h", 5}, /* counts without a time */
        {"fixed-window 100/h", (uint64_t)1 << 63},
        {"fixed-window 100/h", 500000 * hour + 512},
        {"fixed-window 100/h", 500000 * hour - 512},
        {"sliding-counter 1000/h", 0},
        {"sliding-counter 1000/h", (hour + (1 << 20) - 1) >> 20 << 20},
        {"sliding-counter 1000/h", ((500000 * hour + (1 << 20) - 1) >> 20 << 20) + (1 << 20)},
        {"gcra 3/s burst 3", (uint64_t)start_ns},
        {"gcra 3/s burst 3", WEIR_TICKS | 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_policy p = policy_of(cases[i].text);
        uint64_t words[2];
        if (weir_word_decode(p.layer, cases[i].word, words))
            fail_msg("%s: case %d", cases[i].text, (int)i);
    }
}

/* After 2116, and for a word of a later window, weir_check() decides. */
static void left_to_the_core(void **state)
{
    (void)state;
    const int64_t last_ns = (int64_t)4 << 60;
    static const char *const of[] = {"fixed-window 100/h", "sliding-counter 1000/h"};
    for (size_t i = 0; i < 2; i++) {
        weir_policy p = policy_of(of[i]);
        weir_decision d;
        uint64_t word = 0, later = 0;
        assert_true(weir_word_take(p.layer, &word, last_ns, 1, &d));
        assert_false(weir_word_take(p.layer, &word, last_ns + 1, 1, &d));
        assert_true(weir_word_take(p.layer, &later, start_ns + 7200 * INT64_C(1000000000), 1, &d));
        assert_false(weir_word_take(p.layer, &later, start_ns, 1, &d));
    }
}

/* Any word is refused, or is a state on which all calls return. */
static void any_word(void **state)
{
    (void)state;
    uint64_t seed = 3, refused = 0, taken = 0;
    for (int i = 0; i < 200000; i++) {
        weir_policy p = policy_of(texts[next_random(&seed) % (sizeof texts / sizeof texts[0])]);
        uint64_t word = next_random(&seed) >> next_random(&seed) % 64, words[2];
        weir_decision d;
        int64_t now_ns = (int64_t)(next_random(&seed) >> 2);
        bool good = weir_word_decode(p.layer, word, words);
        refused += !good;
        if (good)
            assert_int_equal(weir_check(&p, words, 0, now_ns, 1, &d), WEIR_OK);
        taken += weir_word_take(p.layer, &word, now_ns, 1, &d);
        (void)weir_word_rank(next_random(&seed), word, now_ns);
    }
    assert_true(refused > 1000 && taken > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_decide_as_states),
        cmocka_unit_test(others),
        cmocka_unit_test(limits),
        cmocka_unit_test(classes_and_used_shares),
        cmocka_unit_test(the_larger_count_is_the_used_share),
        cmocka_unit_test(states_at_the_limits),
        cmocka_unit_test(damaged_words),
        cmocka_unit_test(left_to_the_core),
        cmocka_unit_test(any_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
