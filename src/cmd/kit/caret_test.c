/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Untrusted text with a caret: which part of a long line is shown, and where the caret is. */

#include "cmd/kit/caret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char shown[400];

static FILE *begin(void)
{
    memset(shown, 0, sizeof shown);
    FILE *out = fmemopen(shown, sizeof shown, "w");
    assert_non_null(out);
    return out;
}

static void check_text(void **unused)
{
    (void)unused;
    static const char text[] = "a\xC3\xBC\x01\x7F\xFF\xC2\x85z";
    FILE *out = begin();
    caret_text(out, text, sizeof text - 1);
    fclose(out);
    assert_string_equal(shown, "a\xC3\xBC  ? z");
}

static void check_columns(void **unused)
{
    (void)unused;
    static const char text[] = "a\xC3\xBC\xFF\xE2\x82\xACz";
    static const size_t columns[] = {0, 1, 1, 2, 3, 3, 3, 4, 5};
    for (size_t at = 0; at < sizeof text; at++)
        assert_int_equal(caret_columns(text, sizeof text - 1, at), columns[at]);
}

/* Expects the line and the column of the caret, from 0. */
static void expect(const char *text, size_t at, const char *line, size_t column)
{
    char expected[400];
    FILE *out = begin();
    caret_print(out, text, strlen(text), at);
    fclose(out);
    snprintf(expected, sizeof expected, "  %s\n  %*s\n", line, (int)column + 1, "^");
    assert_string_equal(shown, expected);
}

#define TEN "0123456789"

static void check_lines(void **unused)
{
    (void)unused;
    static const char most[] = TEN TEN TEN TEN TEN TEN TEN "012345"; /* 76 columns */
    static const char more[] = TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN;
    expect("", 0, "", 0);
    expect("abc", 1, "abc", 1);
    expect("abc", 3, "abc", 3);
    expect("abc", 9, "abc", 3); /* beyond the end */
    expect("\xC3\xBC"
           "b",
           2,
           "\xC3\xBC"
           "b",
           1);
    expect(most, 75, most, 75);
    expect(more, 0, TEN TEN TEN TEN TEN TEN TEN "012...", 0);
    expect(more, 38, TEN TEN TEN TEN TEN TEN TEN "012...", 38);
    expect(more, 39, "...456789" TEN TEN TEN TEN TEN TEN "0123...", 38);
    expect(more, 81, "...6789" TEN TEN TEN TEN TEN TEN "012345...", 38);
    expect(more, 82, "...789" TEN TEN TEN TEN TEN TEN TEN, 38);
    expect(more, 119, "...789" TEN TEN TEN TEN TEN TEN TEN, 75);
    expect(TEN TEN TEN TEN TEN TEN TEN "0123456", 0, TEN TEN TEN TEN TEN TEN TEN "012...", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_text),
                                       cmocka_unit_test(check_columns),
                                       cmocka_unit_test(check_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
