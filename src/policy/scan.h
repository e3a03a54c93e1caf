/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_POLICY_SCAN_H
#define WEIR_POLICY_SCAN_H
/* The lexer of policy texts: scans words, numbers and periods, and reports syntax errors with their
 * column. parse.c has the grammar. */

#include <weir/weir.h>

typedef struct weir_scan {
    const char *text;
    size_t len;
    size_t at;                /* the position of the next byte */
    weir_policy_error *error; /* receives the first error; may be NULL */
} weir_scan;

/* Reports "FOUND, expected EXPECTED" at `column`, which counts from 0. Returns st. */
weir_status weir_scan_refuse(weir_scan *s, size_t column, weir_status st, const char *found,
                             const char *expected);

/* Reports that the word at `from` was found, or the end of the text. Returns WEIR_E_SYNTAX. */
weir_status weir_scan_unexpected(weir_scan *s, size_t from, const char *expected);

/* Reports that the bytes from `from` to `end` were found. Returns WEIR_E_SYNTAX. */
weir_status weir_scan_unexpected_to(weir_scan *s, size_t from, size_t end, const char *expected);

void weir_scan_space(weir_scan *s);
bool weir_scan_end(const weir_scan *s);

/* Consumes `c` if it is next, and returns whether it was. */
bool weir_scan_char(weir_scan *s, char c);

/* Consumes a word of lower-case letters, and '-' after the first. Returns its length, which may be
 * 0. */
size_t weir_scan_word(weir_scan *s, const char **ret_word);

/* Consumes the next word if it equals `word`, and returns whether it did. */
bool weir_scan_keyword(weir_scan *s, const char *word);

/* Consumes a whole number low..high. `what` describes it in an error: "a limit". */
weir_status weir_scan_number(weir_scan *s, const char *what, int64_t low, int64_t high,
                             int64_t *ret);

/* Consumes a period: "s", "90s" or "1h30m", with the units in descending order.
 *  ret_calendar  NULL if day, week, month and year are not allowed. Otherwise such a word sets it,
 *                and sets *ret_ns to 0; any other period leaves it unchanged. */
weir_status weir_scan_period(weir_scan *s, int64_t *ret_ns, weir_calendar *ret_calendar);

#endif
