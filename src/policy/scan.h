/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_POLICY_SCAN_H
#define WEIR_POLICY_SCAN_H
/* The words and numbers of a policy text, and the errors that name a column. It knows how the
 * language is spelt; what a policy may say is parse.c's business. */

#include <weir/weir.h>

typedef struct weir_scan {
    const char *text;
    size_t len;
    size_t at;                /* the next byte */
    weir_policy_error *error; /* NULL if nobody asks */
} weir_scan;

/* Says what was found at `column` (from 0) and what was expected. Returns st. */
weir_status weir_scan_refuse(weir_scan *s, size_t column, weir_status st, const char *found,
                             const char *expected);

/* "found WORD": the text from `from` to the end of that word, or the end of the text. */
weir_status weir_scan_unexpected(weir_scan *s, size_t from, const char *expected);

/* The same for the text from `from` to `end`. */
weir_status weir_scan_unexpected_to(weir_scan *s, size_t from, size_t end, const char *expected);

void weir_scan_space(weir_scan *s);
bool weir_scan_end(const weir_scan *s);

/* Takes `c` if it is next. */
bool weir_scan_char(weir_scan *s, char c);

/* Takes the longest run of lower-case letters and inner '-' at the place; may be empty. */
size_t weir_scan_word(weir_scan *s, const char **ret_word);

/* Takes the word if exactly it is next. */
bool weir_scan_keyword(weir_scan *s, const char *word);

/* Takes a whole number low..high. `what` names it in the error: "a limit". */
weir_status weir_scan_number(weir_scan *s, const char *what, int64_t low, int64_t high,
                             int64_t *ret);

/* Takes a period: "s", "90s", "1h30m", units descending.
 *  ret_calendar  NULL if a calendar word is an error here, else set to its unit, with *ret_ns = 0,
 *                if the period is one; untouched if it is not. */
weir_status weir_scan_period(weir_scan *s, int64_t *ret_ns, weir_calendar *ret_calendar);

#endif
