/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The comparison. tests/conformance/accuracy_test.py compares the whole command
 * with a model. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cmd/accuracy/accuracy.h"
#include "cmd/kit/commands.h"
#include "port/memory_kit_test.h"
#include "tests/kit/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)

/* ---- the comparison -------------------------------------------------------------------------- */

typedef struct measured {
    accuracy_measure measure;
    accuracy_key *key;
} measured;

static void open_measured(measured *m, accuracy_against against, int64_t limit, const char *text)
{
    weir_policy p = policy_of(text);
    assert_int_equal(accuracy_measure_init(&m->measure, against, limit, MINUTE), WEIR_OK);
    assert_int_equal(accuracy_measure_add(&m->measure, &p), WEIR_OK);
    m->key = accuracy_key_open(&m->measure);
    assert_non_null(m->key);
}

static void request(measured *m, int64_t seconds, int64_t cost)
{
    assert_int_equal(accuracy_request(&m->measure, m->key, seconds * SECOND, cost), WEIR_OK);
}

/* Ends the key, closes all, and returns the result. */
static accuracy_tally close_measured(measured *m)
{
    accuracy_key_end(&m->measure, m->key);
    accuracy_key_close(m->key, &m->measure);
    return m->measure.policy[0].tally;
}

/* Four units before a boundary and four after it: a fixed window allows all of them. */
static void check_fixed_window(void **unused)
{
    (void)unused;
    for (int against = 0; against < ACCURACY_AGAINST; against++) {
        measured m;
        open_measured(&m, (accuracy_against)against, 4, "fixed-window 4/m");
        for (int i = 0; i < 4; i++)
            request(&m, 59, 1);
        for (int i = 0; i < 4; i++)
            request(&m, 60, 1);
        request(&m, 61, 1); /* the ninth is denied, and rightly so */
        accuracy_tally t = close_measured(&m);
        assert_int_equal(t.allowed, 8);
        assert_int_equal(t.denied, 1);
        assert_int_equal(t.wrongly_allowed, 4);
        assert_int_equal(t.wrongly_denied, 0);
        assert_int_equal(t.keys_missed + t.keys_wrongly_denied, 0);
        assert_int_equal(t.peak, against == ACCURACY_OWN ? 8 : 0);
        assert_int_equal(m.measure.exact_denied, against == ACCURACY_OWN ? 0 : 5);
    }
}

/* The strict counter denies what the window has room for: 4 units at 0 s have left the window at
 * 60 s, but the counter assumes that they were spread over it. */
static void check_counter(void **unused)
{
    (void)unused;
    measured m;
    open_measured(&m, ACCURACY_OWN, 4, "sliding-counter 4/m");
    request(&m, 0, 4);
    request(&m, 60, 1); /* estimated 4 + 1, really 1 */
    request(&m, 75, 1); /* estimated 3 + 1 */
    accuracy_tally t = close_measured(&m);
    assert_int_equal(t.allowed, 2);
    assert_int_equal(t.wrongly_denied, 1);
    assert_int_equal(t.keys_wrongly_denied, 1);
    assert_int_equal(t.estimates, 3);
    assert_true(t.difference_max == 4.0);
    assert_true(t.difference_sum == 7.0); /* 0 + 4 + 3 */
}

/* With ACCURACY_RATE, denied requests count: one that would fit is denied. */
static void check_rate(void **unused)
{
    (void)unused;
    measured m;
    open_measured(&m, ACCURACY_RATE, 2, "sliding-slices 2/m slices 2");
    request(&m, 0, 1);
    request(&m, 10, 2); /* 3 units */
    request(&m, 59, 1); /* 4 units */
    request(&m, 61, 1); /* 4 units: that at 0 has left, the slice before 60 is 1 unit */
    request(&m, 200, 0);
    accuracy_tally t = close_measured(&m);
    assert_int_equal(m.measure.exact_denied, 3);
    assert_int_equal(t.denied, 2);
    assert_int_equal(t.wrongly_allowed, 1);
    assert_int_equal(t.wrongly_denied, 0);
    assert_int_equal(t.estimates, 4);
}

/* A log against itself never differs, with any cost and while it grows. */
static void check_log(void **unused)
{
    (void)unused;
    for (int against = 0; against < ACCURACY_AGAINST; against++) {
        measured m;
        open_measured(&m, (accuracy_against)against, 500, "sliding-log 500/m");
        for (int64_t i = 0; i < 3000; i++) {
            if (i == 1500) {
                accuracy_key_end(&m.measure, m.key);
                accuracy_key_close(m.key, &m.measure);
                m.key = accuracy_key_open(&m.measure);
                assert_non_null(m.key);
            }
            request(&m, 1000 + i % 1500 / 11, i * 7 % 5);
        }
        request(&m, 2000, 501);
        request(&m, 2000, WEIR_COST_MAX);
        accuracy_tally t = close_measured(&m);
        assert_true(t.allowed > 500 && t.denied > 500);
        assert_int_equal(t.wrongly_allowed + t.wrongly_denied, 0);
        assert_int_equal(t.keys_missed + t.keys_wrongly_denied, 0);
        assert_true(against == ACCURACY_RATE || t.difference_max == 0);
        assert_int_equal(m.measure.keys, 2);
        assert_int_equal(m.measure.requests, 3002);
    }
}

static void check_unsupported(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        weir_status status[ACCURACY_AGAINST];
    } cases[] = {
        {"leaky-queue 5/m depth 2", {WEIR_E_UNSUPPORTED, WEIR_E_UNSUPPORTED, WEIR_E_UNSUPPORTED}},
        {"gcra 5/m & gcra 5/h", {WEIR_E_UNSUPPORTED, WEIR_E_UNSUPPORTED, WEIR_E_UNSUPPORTED}},
        {"gcra 5/m", {WEIR_OK, WEIR_OK, WEIR_E_UNSUPPORTED}},
        {"fixed-window 6/m", {WEIR_OK, WEIR_OK, WEIR_E_UNSUPPORTED}},
        {"fixed-window 5/h", {WEIR_OK, WEIR_OK, WEIR_OK}},
    };
    for (int against = 0; against < ACCURACY_AGAINST; against++) {
        accuracy_measure m;
        assert_int_equal(accuracy_measure_init(&m, (accuracy_against)against, 5, MINUTE), WEIR_OK);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            weir_policy p = policy_of(cases[i].text);
            assert_int_equal(accuracy_measure_add(&m, &p), cases[i].status[against]);
        }
        weir_policy p = policy_of("sliding-log 5/m");
        while (m.len < ACCURACY_POLICIES_MAX)
            assert_int_equal(accuracy_measure_add(&m, &p), WEIR_OK);
        assert_int_equal(accuracy_measure_add(&m, &p), WEIR_E_FULL);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static const char *log_name;

/* Runs the command on standard error and output that are discarded. Returns its exit status. */
static int run_command(const char *against)
{
    const char *argv[] = {"accuracy", "--json", "--against", against, "--limit", "40/m", log_name};
    return weir_cmd_accuracy(sizeof argv / sizeof argv[0], (char **)argv);
}

static const char *attempt_against;

static bool attempt(uint64_t n, bool later)
{
    memory_fail(n, later);
    int status = run_command(attempt_against);
    bool failed = memory_stop();
    assert_int_equal(status, failed ? 1 : 0);
    return failed;
}

/* Each allocation fails once; the command then fails, and loses no memory. */
static void check_memory(void **unused)
{
    (void)unused;
    char name[] = "/tmp/accuracy_test.XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    for (int i = 0; i < 400; i++)
        fprintf(f, "%d000000000\tkey %d\n", 1000 + i / 9, i % 3);
    fclose(f);
    log_name = name;
    for (int against = 0; against < ACCURACY_AGAINST; against++) {
        attempt_against = accuracy_against_name((accuracy_against)against);
        assert_int_equal(run_command(attempt_against), 0); /* stdio allocates its buffers */
        fail_each_allocation(attempt);
    }
    (void)unlink(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_fixed_window), cmocka_unit_test(check_counter),
        cmocka_unit_test(check_rate),         cmocka_unit_test(check_log),
        cmocka_unit_test(check_unsupported),  cmocka_unit_test(check_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
