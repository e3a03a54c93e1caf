/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A daemon that decides at random moments between the two times is never found different, and one
 * with another policy always is. */

#include "cmd/replay/against_bounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS    INT64_C(1000000)
#define START (INT64_C(1780000000) * 1000 * MS)

enum { KEYS = 5, LEVELS = 12, WORDS = 4096, BATCHES = 3000 };

static const char *const policies[] = {
    "gcra 100/s burst 5",
    "gcra 7/s burst 3",
    "token-bucket 5 refill 50/s",
    "leaky-bucket 30/s capacity 4",
    "leaky-queue 40/s depth 5",
    "fixed-window 10/s",
    "fixed-window 10/s count-denied",
    "fixed-window 3/100ms from-first",
    "sliding-log 10/s",
    "sliding-log 4/200ms count-denied",
    "sliding-counter 10/s",
    "sliding-slices 10/s slices 10",
    "gcra 50/s burst 4 & fixed-window 20/s",
    "gcra 50/s burst 4 & sliding-log 20/s count-denied",
    "fixed-window 1000/day",
};

static uint64_t seed;

static int64_t below(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static weir_policy parse(const char *text)
{
    weir_policy p;
    weir_policy_error error;
    if (weir_policy_parse(&p, text, strlen(text), NULL, &error) != WEIR_OK)
        fail_msg("%s: %s", text, error.text);
    return p;
}

/* The state of the daemon for a key: at the highest level that the tests need. */
typedef struct daemon_key {
    uint64_t words[WORDS];
    unsigned level;
} daemon_key;

static against_answer answer_of(const weir_policy *p, daemon_key *k, int64_t now_ns, int64_t cost)
{
    weir_decision d;
    weir_status st;
    while ((st = weir_check(p, k->words, k->level, now_ns, cost, &d)) == WEIR_E_ROOM) {
        uint64_t from[WORDS];
        memcpy(from, k->words, sizeof from);
        weir_state_grow(p, from, k->level++, k->words);
        assert_true(k->level < LEVELS);
    }
    assert_int_equal(st, WEIR_OK);
    return (against_answer){
        .allowed = d.allowed, .reasoned = true, .limit = d.limit, .remaining = d.remaining};
}

typedef struct tally {
    int count[4]; /* by verdict */
    int first;    /* the index of the first difference */
} tally;

/* Asks a daemon with the policy `theirs`, whose states expected of `ours`.
 *  jitter_ns  a reply arrives at most so long after the request was sent */
static tally run(const char *ours, const char *theirs, int64_t jitter_ns)
{
    static daemon_key keys[KEYS];
    weir_policy p = parse(ours), daemon = parse(theirs);
    against_bounds *b = against_bounds_open();
    tally t = {.first = -1};
    int64_t now_ns = START, n = 0;
    assert_non_null(b);
    memset(keys, 0, sizeof keys);
    for (uint64_t batch = 1; batch <= BATCHES; batch++) {
        int64_t late_ns = now_ns + below(jitter_ns) + 1, at_ns = now_ns;
        for (int64_t i = below(6); i >= 0; i--, n++) {
            daemon_key *k = &keys[below(KEYS)];
            weir_decision offline;
            at_ns += below(late_ns - at_ns + 1);
            against_question q = {.key = k,
                                  .policy = &p,
                                  .cost = below(10) ? 1 : below(4),
                                  .early_ns = now_ns,
                                  .late_ns = late_ns,
                                  .batch = batch};
            against_answer a = answer_of(&daemon, k, at_ns, q.cost);
            against_verdict v = against_bounds_judge(b, &q, &a, &offline);
            if (v == AGAINST_DIFFERENT && t.first < 0)
                t.first = (int)n;
            t.count[v]++;
        }
        now_ns = late_ns + below(below(20) ? 20 * MS : 700 * MS);
    }
    against_bounds_close(b);
    return t;
}

/* The daemon of the same policy is never different, whenever it decides. */
static void test_same(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        for (seed = 1; seed < 6; seed++) {
            uint64_t from = seed;
            tally t = run(policies[i], policies[i], seed % 2 ? MS : 30 * MS);
            seed = from;
            if (t.count[AGAINST_DIFFERENT] > 0)
                fail_msg("%s, seed %d: %d different, the first is %d", policies[i], (int)seed,
                         t.count[AGAINST_DIFFERENT], t.first);
            assert_true(t.count[AGAINST_SAME] > 0);
        }
    }
}

/* With short replies, few decisions are undecided. */
static void test_sharp(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        seed = 7;
        tally t = run(policies[i], policies[i], MS / 10);
        int all = t.count[AGAINST_SAME] + t.count[AGAINST_UNDECIDED];
        if (t.count[AGAINST_UNDECIDED] * 10 > all)
            fail_msg("%s: %d of %d undecided", policies[i], t.count[AGAINST_UNDECIDED], all);
    }
}

/* Another limit is found at the first reply, by its limit. */
static void test_different(void **unused)
{
    static const char *const pairs[][2] = {{"gcra 100/s burst 5", "gcra 100/s burst 6"},
                                           {"fixed-window 10/s", "fixed-window 11/s"},
                                           {"sliding-log 10/s", "sliding-log 9/s"}};
    (void)unused;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        seed = 3;
        assert_int_equal(run(pairs[i][0], pairs[i][1], MS).first, 0);
    }
}

/* Other rates, algorithms and states are found by what remains, or by the verdict. */
static void test_different_later(void **unused)
{
    static const char *const pairs[][2] = {
        {"gcra 100/s burst 5", "gcra 20/s burst 5"},
        {"fixed-window 10/s", "sliding-log 10/s"},
        {"sliding-counter 10/s", "sliding-log 10/s"},
        {"gcra 50/s burst 4 & fixed-window 20/s", "gcra 50/s burst 4 & fixed-window 15/s"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        seed = 3;
        if (run(pairs[i][0], pairs[i][1], MS).count[AGAINST_DIFFERENT] == 0)
            fail_msg("%s: no difference to %s", pairs[i][0], pairs[i][1]);
    }
}

/* In shadow mode all is allowed; without a reason, the states still follow. */
static void test_shadow(void **unused)
{
    (void)unused;
    weir_policy p = parse("gcra 1/h burst 2");
    against_bounds *b = against_bounds_open();
    int key = 0;
    for (int i = 0; i < 6; i++) {
        weir_decision offline;
        against_question q = {.key = &key,
                              .policy = &p,
                              .cost = 1,
                              .early_ns = START + i * MS,
                              .late_ns = START + i * MS + 1,
                              .batch = 1 + (uint64_t)i,
                              .shadow = true};
        against_answer a = {.allowed = i < 5, .limit = 2, .remaining = i < 2 ? 1 - i : 0};
        against_verdict v = against_bounds_judge(b, &q, &a, &offline);
        assert_int_equal(v, i < 5 ? AGAINST_SAME : AGAINST_DIFFERENT);
        assert_int_equal(offline.allowed, i < 2);
        a = (against_answer){.allowed = true, .reasoned = true, .shadowed = false, .limit = 2};
        if (i == 4)
            assert_int_equal(against_bounds_judge(b, &q, &a, &offline), AGAINST_DIFFERENT);
    }
    against_bounds_close(b);
}

/* The verdict may be right, but what remains wrong. */
static void test_remaining(void **unused)
{
    (void)unused;
    weir_policy p = parse("gcra 1/h burst 5");
    against_bounds *b = against_bounds_open();
    int keys[3];
    for (int i = 0; i < 3; i++) {
        weir_decision offline;
        against_question q = {.key = &keys[i],
                              .policy = &p,
                              .cost = 1,
                              .early_ns = START,
                              .late_ns = START + MS,
                              .batch = 1};
        against_answer a = {.allowed = true, .limit = 5, .remaining = 3 + i};
        against_verdict v = against_bounds_judge(b, &q, &a, &offline);
        assert_int_equal(v, i == 1 ? AGAINST_SAME : AGAINST_DIFFERENT);
        assert_int_equal(offline.remaining, 4);
    }
    against_bounds_close(b);
}

/* The networks of addresses have one state, but each override has its own. */
static void test_overrides(void **unused)
{
    (void)unused;
    weir_policy policy[] = {parse("gcra 1/h burst 2"), parse("sliding-log 3/h")};
    against_bounds *b = against_bounds_open();
    int key = 0;
    for (int i = 0; i < 4; i++) {
        weir_decision offline;
        against_question q = {.key = &key,
                              .policy = &policy[i % 2],
                              .cost = 1,
                              .early_ns = START,
                              .late_ns = START + 1,
                              .batch = 1};
        against_answer a = {.allowed = true, .limit = 2 + i % 2, .remaining = 1 + i % 2 - i / 2};
        assert_int_equal(against_bounds_knows(b, &q), i >= 2);
        assert_int_equal(against_bounds_judge(b, &q, &a, &offline), AGAINST_SAME);
    }
    against_bounds_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),      cmocka_unit_test(test_sharp),
        cmocka_unit_test(test_different), cmocka_unit_test(test_different_later),
        cmocka_unit_test(test_shadow),    cmocka_unit_test(test_remaining),
        cmocka_unit_test(test_overrides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
