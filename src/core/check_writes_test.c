/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests weir_state_writes(): random calls change only the words that it lists, on every kind of
 * state, and a refund of 0 changes none. And weir_state_loads(): it lists the words of the latest
 * charge. */

#include "core/check.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 64 };

static bool is_listed(const size_t *list, size_t n, size_t word)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i] == word)
            return true;
    }
    return false;
}

/* Runs one call on the state, and checks that it changes only listed words. Returns how many words
 * were listed. */
static size_t run_one(const weir_policy *p, uint64_t *state, unsigned level, int64_t now_ns,
                      int64_t cost, bool back)
{
    size_t words = weir_state_words(p, level), list[MAX];
    uint64_t *before = malloc(words * 8);
    memcpy(before, state, words * 8);
    size_t n = weir_state_writes(p, state, level, now_ns, back ? cost : 0, list, MAX);
    weir_decision d;
    weir_status st = back ? weir_refund(p, state, level, now_ns, cost, &d)
                          : weir_check(p, state, level, now_ns, cost, &d);
    assert_true(st == WEIR_OK || st == WEIR_E_ROOM);
    for (size_t i = 0; i < n && n <= MAX; i++)
        assert_true(list[i] < words);
    for (size_t i = 0; i < words && n <= MAX; i++) {
        if (state[i] != before[i])
            assert_true(is_listed(list, n, i));
    }
    free(before);
    return n;
}

static void only_listed_words_change(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "sliding-log 5/us",
        "sliding-log 5/us count-denied",
        "sliding-log 40/us",
        "sliding-log 40/us count-denied",
        "concurrent 5 lease 1us",
        "concurrent 40 lease 1us",
        "sliding-slices 20/us slices 1",
        "sliding-slices 20/us slices 7",
        "sliding-slices 20/us slices 60",
        "sliding-slices 20/us slices 200",
        "gcra 3/us burst 9 & sliding-log 9/us & fixed-window 30/us & sliding-slices 20/us slices 9",
    };
    uint64_t x = 1;
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        weir_policy p = policy_of(texts[t]);
        for (unsigned level = 0; level < 5; level++) {
            uint64_t *state = calloc(weir_state_words(&p, level), 8);
            int64_t now_ns = 1000000;
            for (int i = 0; i < 20000; i++) {
                x = x * 6364136223846793005 + 1442695040888963407;
                int64_t step_ns = (int64_t)(x >> 40) % 100;
                now_ns += x >> 62 == 0 ? 0 : x >> 62 == 1 ? -step_ns / 2 : step_ns;
                if (x >> 54 & 127)
                    run_one(&p, state, level, now_ns, (int64_t)(x >> 33) % 5,
                            !p.layer[0].count_denied && (x >> 30 & 7) == 0);
                else
                    now_ns += 700;
            }
            free(state);
        }
    }
}

/* A log lists few words, whatever its length. Slices list those that have begun since the last
 * charge. */
static void few_words_are_listed(void **unused)
{
    (void)unused;
    weir_policy log = policy_of("sliding-log 1000/m"),
                both = policy_of("sliding-log 1000/m & "
                                 "gcra 3/s burst 9"),
                leases = policy_of("concurrent 1000 lease 1m"),
                slices = policy_of("sliding-slices 1000/m slices 60");
    uint64_t *state = calloc(weir_state_words(&both, WEIR_LEVEL_MAX), 8);
    size_t list[MAX];
    for (int i = 0; i < 1000; i++)
        assert_int_equal(run_one(&log, state, WEIR_LEVEL_MAX, 1000 + i, 1, false), 5);
    assert_int_equal(weir_state_writes(&log, state, WEIR_LEVEL_MAX, 3000, 0, list, 5), 5);
    assert_int_equal(weir_state_writes(&log, state, WEIR_LEVEL_MAX, 3000, 0, list, 4), 5);
    assert_int_equal(run_one(&log, state, WEIR_LEVEL_MAX, 3000, 700, true), 3);
    assert_int_equal(run_one(&log, state, WEIR_LEVEL_MAX, 3000, 700, true), 3);
    memset(state, 0, weir_state_words(&both, WEIR_LEVEL_MAX) * 8);
    assert_int_equal(run_one(&both, state, WEIR_LEVEL_MAX, 1000, 1, false), 7);
    assert_int_equal(weir_state_writes(&both, state, WEIR_LEVEL_MAX, 1000, 0, list, 7), 7);
    assert_int_equal(weir_state_writes(&both, state, WEIR_LEVEL_MAX, 1000, 0, list, 6), 7);
    assert_int_equal(weir_state_writes(&both, state, WEIR_LEVEL_MAX, 1000, 0, list, 4), 5);
    memset(state, 0, weir_state_words(&leases, WEIR_LEVEL_MAX) * 8);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(run_one(&leases, state, WEIR_LEVEL_MAX, 1000 + i, 1, false), 5);
    assert_int_equal(run_one(&leases, state, WEIR_LEVEL_MAX, 3000, 700, true), 5);
    leases.layer[0].den = 1; /* a shorter lease may be inserted anywhere */
    assert_int_equal(weir_state_writes(&leases, state, WEIR_LEVEL_MAX, 3000, 0, list, 5), 6);
    memset(state, 0, weir_state_words(&slices, 0) * 8);
    int64_t t_ns = 6000000000000;
    run_one(&slices, state, 0, t_ns, 1, false);
    assert_int_equal(run_one(&slices, state, 0, t_ns, 1, false), 3);
    assert_int_equal(run_one(&slices, state, 0, t_ns + 4000000000, 1, false), 5);
    assert_int_equal(run_one(&slices, state, 0, t_ns + 4000000000, 1, true), 32);
    free(state);
}

/* Checks that weir_state_loads() lists the word that the charge at `now_ns` has changed: the
 * timestamp, or the count of the slice. */
static void check_loads(const weir_policy *p, const uint64_t *state, unsigned level, int64_t now_ns)
{
    size_t list[WEIR_STATE_LOADS], n = weir_state_loads(p, state[0], level, list);
    bool latest = false;
    for (size_t i = 0; i < n; i++) {
        uint64_t word = state[list[i]];
        assert_true(list[i] < weir_state_words(p, level));
        latest |= p->layer[0].format == WEIR_STATE_LOG      ? word == (uint64_t)now_ns
                  : p->layer[0].format == WEIR_STATE_LEASES ? word == (uint64_t)now_ns + 1000
                                                            : word != 0;
    }
    assert_true(latest);
}

static void loads_are_of_the_latest_charge(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"sliding-log 40/us", "sliding-log 6/us",
                                        "concurrent 40 lease 1us",
                                        "sliding-slices 2000/us slices 7"};
    uint64_t state[128], x = 1;
    size_t list[WEIR_STATE_LOADS];
    weir_decision d;
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        weir_policy p = policy_of(texts[t]);
        memset(state, 0, sizeof state);
        for (int64_t now_ns = 1000000; now_ns < 1010000; now_ns += 30) {
            assert_int_equal(weir_check(&p, state, 4, now_ns, 1, &d), WEIR_OK);
            if (d.allowed)
                check_loads(&p, state, 4, now_ns);
        }
        for (int i = 0; i < 1000; i++) { /* any first word, and any level */
            x = x * 6364136223846793005 + 1442695040888963407;
            uint64_t first = x >> 62 == 0 ? x : (x >> 40 & 63) << 32 | (x >> 50 & 63);
            size_t n = weir_state_loads(&p, first, (unsigned)(x >> 32) % 256, list);
            assert_true(n <= WEIR_STATE_LOADS);
            n = weir_state_loads(&p, first, 4, list);
            for (size_t k = 0; k < n; k++)
                assert_true(list[k] < weir_state_words(&p, 4));
        }
    }
    weir_policy p = policy_of("gcra 1/s & sliding-log 40/us");
    assert_int_equal(weir_state_loads(&p, 7, 0, list), 0);
    p = policy_of("sliding-log 40/us");
    assert_int_equal(weir_state_loads(&p, 7, WEIR_LEVEL_MAX, list), WEIR_STATE_LOADS);
    assert_int_equal(weir_state_loads(&p, 7, WEIR_LEVEL_MAX + 1, list), 0);
}

static void soundness(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("gcra 1/s burst 5 & sliding-log 5/m");
    uint64_t state[16] = {0};
    assert_true(weir_state_sound(&p, state, 0));
    state[1] = 99; /* a head beyond the ring */
    assert_false(weir_state_sound(&p, state, 0));
}

/* A refund of 0 changes nothing: what has expired counts again if the clock steps back. */
static void a_refund_of_0_writes_nothing(void **unused)
{
    (void)unused;
    static const char *const policies[] = {"sliding-log 50/100ns", "concurrent 50 lease 100ns"};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        weir_policy p = policy_of(policies[i]);
        const weir_charged of = {250, 500, 20}; /* no lease ends then */
        weir_decision d;
        uint64_t state[16] = {0}, before[16];
        assert_int_equal(weir_check(&p, state, 0, 200, 10, &d), WEIR_OK);
        assert_int_equal(weir_check(&p, state, 0, 250, 20, &d), WEIR_OK);
        memcpy(before, state, sizeof before);
        assert_int_equal(weir_refund(&p, state, 0, 310, 0, &d), WEIR_OK);
        assert_int_equal(d.remaining, 30);
        assert_int_equal(weir_refund_charge(&p, state, 0, &of, 310, 0, &d), WEIR_OK);
        assert_memory_equal(state, before, sizeof before);
        assert_int_equal(weir_refund(&p, state, 0, 310, 1, &d), WEIR_OK);
        assert_int_equal(d.remaining, 31);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_listed_words_change),
        cmocka_unit_test(a_refund_of_0_writes_nothing),
        cmocka_unit_test(few_words_are_listed),
        cmocka_unit_test(loads_are_of_the_latest_charge),
        cmocka_unit_test(soundness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
