/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A state that grows decides as one that never has to, and begins again with full quota. */

#include "cmd/kit/key_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

#define S INT64_C(1000000000)

static const weir_policy *policy(const char *text)
{
    static weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return &p;
}

/* A state that has the memory for any log of these tests from the start. */
enum { LARGE_LEVEL = 12 };

/* Decides the same requests, at most a second apart, with both states. Returns how many were
 * denied. */
static int compare(key_state *s, const weir_policy *p, int requests)
{
    uint64_t *large = calloc(weir_state_words(p, LARGE_LEVEL), sizeof *large);
    assert_non_null(large);
    int64_t now_ns = S;
    int denied = 0;
    for (int i = 0; i < requests; i++) {
        weir_decision got, expected;
        int64_t cost = rand() % 3;
        now_ns += rand() % S;
        assert_int_equal(weir_check(p, large, LARGE_LEVEL, now_ns, cost, &expected), WEIR_OK);
        assert_int_equal(key_state_check(s, p, now_ns, cost, &got), WEIR_OK);
        assert_int_equal(got.allowed, expected.allowed);
        assert_int_equal(got.remaining, expected.remaining);
        assert_int_equal(got.retry_after_ns, expected.retry_after_ns);
        denied += !got.allowed;
    }
    free(large);
    return denied;
}

static const char *const texts[] = {"sliding-log 100/5m", "gcra 20/m burst 5",
                                    "fixed-window 2/s & sliding-log 1000/h & gcra 1/s",
                                    "sliding-log 1/s"};

static void check_growth(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        key_state s = {0};
        assert_true(compare(&s, policy(texts[i]), 3000) > 0);
        key_state_free(&s);
        assert_null(s.words);
    }
}

/* One state serves keys and policies of all sizes, one after the other. */
static void check_reset(void **unused)
{
    (void)unused;
    key_state s = {0};
    key_state_reset(&s, policy(texts[0])); /* of a state without memory */
    for (size_t i = 0; i < 40; i++) {
        const weir_policy *p = policy(texts[(size_t)rand() % (sizeof texts / sizeof *texts)]);
        key_state_reset(&s, p);
        compare(&s, p, 1 + rand() % 1000);
    }
    key_state_free(&s);
}

static bool try_log(uint64_t n, bool later)
{
    const weir_policy *p = policy("sliding-log 200/h");
    key_state s = {0};
    memory_fail(n, later);
    bool failed = false;
    for (int i = 1; i <= 200; i++) { /* a failure charges nothing: the same request fits later */
        weir_decision d;
        weir_status st = key_state_check(&s, p, i * S, 1, &d);
        if (st != WEIR_OK) {
            assert_int_equal(st, WEIR_E_NOMEM);
            failed = true;
            assert_true(memory_stop());
            assert_int_equal(key_state_check(&s, p, i * S, 1, &d), WEIR_OK);
        }
        assert_true(d.allowed);
        assert_int_equal(d.remaining, 200 - i);
    }
    if (!failed)
        assert_false(memory_stop());
    key_state_free(&s);
    return failed;
}

static void check_without_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(try_log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_growth),
        cmocka_unit_test(check_reset),
        cmocka_unit_test(check_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
