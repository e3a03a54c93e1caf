/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decides on words and, with weir_check(), on states of the core. All fields of all decisions must
 * agree, and so must the states. */

#include "core/algorithm.h"
#include "core/decision_kit_test.h"
#include "port/random_kit_test.h"
#include "store/table/word.h"

#include <weir/weir_zone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static weir_policy policy_of(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return p;
}

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
    weir_decision fast, slow;
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
        uint64_t fast = run(texts[i], 1795377343327627102, &seed);
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
                                       "sliding-counter 1/65us",
                                       "sliding-counter 1048576/h",
                                       "sliding-log 2/s",
                                       "sliding-slices 9/m slices 6"};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        weir_policy p = policy_of(wide[i]);
        weir_decision d;
        uint64_t word = 0, words[8] = {0};
        if (weir_word_fits(p.layer) || weir_word_encode(p.layer, words, &word) ||
            weir_word_take(p.layer, &word, WEIR_TICKS_EPOCH_NS, 1, &d))
            fail_msg("%s", wide[i]);
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
        cmocka_unit_test(any_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
