/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The text of EXPLAIN: durations, times, keys and layers. */

#include "service/explain_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t now_ns = INT64_C(1763715600123000001); /* 2025-11-21 09:00:00.123000001 */

static weir_policy policy(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return p;
}

static void expect_state(const char *text, weir_decision d, bool shadowed, const char *expected)
{
    weir_buffer out;
    const weir_policy p = policy(text);
    weir_buffer_init(&out, 1 << 16);
    weir_explain_state(&out, &p, &d, shadowed, now_ns);
    weir_buffer_append_byte(&out, 0);
    assert_string_equal((const char *)weir_buffer_data(&out), expected);
    weir_buffer_free(&out);
}

/* A duration is rounded up to the microsecond. */
static void check_durations(void **unused)
{
    (void)unused;
    static const struct {
        int64_t ns;
        const char *text;
    } durations[] = {
        {1, "0.000001 s"},
        {1000, "0.000001 s"},
        {1001, "0.000002 s"},
        {100000000, "0.1 s"},
        {999999001, "1 s"},
        {1000000000, "1 s"},
        {10000000000, "10 s"},
        {59999999000, "59.999999 s"},
        {60000000000, "1 m"},
        {61500000000, "1 m 1.5 s"},
        {3600000000000, "1 h"},
        {3600500000000, "1 h 0.5 s"},
        {3660000000000, "1 h 1 m"},
        {86400000000000, "1 d"},
        {INT64_C(93784050000000), "1 d 2 h 3 m 4.05 s"},
        {INT64_C(8640000000000000), "100 d"},
    };
    char expected[200];
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        weir_decision d = {.allowed = true, .limit = 5, .remaining = 3};
        d.reset_after_ns = durations[i].ns;
        snprintf(expected, sizeof expected,
                 "state    3 of 5 free; full again in %s\nnext     now\n", durations[i].text);
        expect_state("gcra 1/s burst 5", d, false, expected);
    }
    expect_state("gcra 1/s burst 5", (weir_decision){.allowed = true, .limit = 5, .remaining = 5},
                 false, "state    5 of 5 free; full\nnext     now\n");
}

static void check_denials(void **unused)
{
    (void)unused;
    weir_decision d = {.limit = 5, .layer = 1, .retry_after_ns = 1, .reset_after_ns = 1000000000};
    expect_state("gcra 1/s burst 5 & sliding-log 5/h", d, false,
                 "state    0 of 5 free under sliding-log 5/h; full again in 1 s\n"
                 "next     in 0.000001 s, at 2025-11-21 09:00:00.124 UTC\n");
    d.layer = 0;
    d.retry_after_ns = 876999999;
    expect_state("gcra 1/s burst 5 & sliding-log 5/h", d, false,
                 "state    0 of 5 free under gcra 1/s burst 5; full again in 1 s\n"
                 "next     in 0.877 s, at 2025-11-21 09:00:01.000 UTC\n");
    d.retry_after_ns = 0;
    expect_state("gcra 1/s burst 5", d, false,
                 "state    0 of 5 free; full again in 1 s\n"
                 "next     in 0 s, at 2025-11-21 09:00:00.124 UTC\n");
    d.retry_after_ns = INT64_MAX - now_ns;
    expect_state("gcra 1/s burst 5", d, false,
                 "state    0 of 5 free; full again in 1 s\n"
                 "next     in 86338 d 14 h 47 m 16.731776 s, at 2262-04-11 23:47:16.855 UTC\n");
    d.retry_after_ns++;
    expect_state("gcra 1/s burst 5", d, false,
                 "state    0 of 5 free; full again in 1 s\nnext     never\n");
    d.retry_after_ns = 1;
    d.never = true;
    expect_state("gcra 1/s burst 5", d, false,
                 "state    0 of 5 free; full again in 1 s\nnext     never\n");
    d.allowed = true;
    expect_state("gcra 1/s burst 5", d, true,
                 "state    0 of 5 free; full again in 1 s\n"
                 "next     now, because the policy is in shadow mode; its limit would deny the "
                 "request\n");
}

static void expect_key(const char *key, size_t len, const char *expected)
{
    weir_buffer out;
    weir_buffer_init(&out, 1 << 16);
    weir_explain_key(&out, key, len);
    weir_buffer_append_byte(&out, 0);
    assert_string_equal((const char *)weir_buffer_data(&out), expected);
    weir_buffer_free(&out);
}

static void check_keys(void **unused)
{
    (void)unused;
    char key[201], expected[220] = "key      ";
    expect_key("alice", 5, "key      alice\n");
    expect_key("", 0, "key      \n");
    expect_key("a b\x1f\x7f\\\0\xC3\x84~", 10, "key      a b\\x1f\\x7f\\x5c\\x00\xC3\x84~\n");
    memset(key, 'x', sizeof key);
    memset(expected + 9, 'x', 200);
    strcpy(expected + 209, "\n");
    expect_key(key, 200, expected);
    strcpy(expected + 209, "...\n");
    expect_key(key, 201, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_durations),
        cmocka_unit_test(check_denials),
        cmocka_unit_test(check_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
