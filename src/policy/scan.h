/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_POLICY_SCAN_H
#define WEIR_POLICY_SCAN_H
/* The lexer of policy texts: scans words, numbers and periods, and reports syntax errors with their
 * column. parse.c has the grammar. */

#include "policy/text.h"

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

/* Consumes an anchor, where the windows of a calendar unit begin: "06:00" for days, "sunday" for
 * weeks, "17" for months, "04-01" for years. *ret is as weir_layer.anchor. (anchor.c) */
weir_status weir_anchor_scan(weir_scan *s, weir_calendar unit, int32_t *ret);

/* Reads a duration that is written like a period, such as "90s" or "1h30m", from the whole text.
 * Returns false for anything else, and for more than 64 bytes; *ret_ns is then unchanged. */
bool weir_duration_read(const char *text, size_t len, int64_t *ret_ns);

/* ---- suggestions (hint.c) -------------------------------------------------------------------- */
/* For common mistakes, such as the spellings of other rate limiters. Errors show them; they never
 * make a text valid. */

#define WEIR_HINT_DENY "to deny keys always, put them on the policy's list 'deny'"

/* Returns the unit that a word such as "sec", "hours" or "min" means, or NULL. */
const char *weir_hint_unit(const char *word, size_t len);

/* Recognises a misspelt algorithm at s->at: "GCRA", "fixed window", "sliding-window".
 *  expected  receives what to write instead.
 * Returns the end of the misspelt words, or s->at if there is no suggestion. */
size_t weir_hint_algorithm(const weir_scan *s, weir_writer *expected);

/* Recognises a rate with a fraction at s->at: "0.5/s", "2.5 /s".
 *  expected  receives the same rate in whole numbers if it is short: "write 1/2s".
 * Returns whether there is a fraction. */
bool weir_hint_fraction(const weir_scan *s, weir_writer *expected);

/* For a number without a '/' after it, as in "10r/s" or "1,000/s": writes what is expected at
 * s->at.
 *  from  the start of the number. */
void weir_hint_slash(const weir_scan *s, size_t from, weir_writer *expected);

/* For a keyword with '=' after it, as in "burst=20": writes what is expected instead. Returns false
 * if there is no '=' at s->at. */
bool weir_hint_equals(const weir_scan *s, const char *keyword, weir_writer *expected);

/* For a token bucket with a rate in place of the capacity, as in "token-bucket 10/s burst 5":
 * writes the policy that is probably meant, "token-bucket 5 refill 10/s".
 *  from  the start of the rate. */
void weir_hint_token_bucket(const weir_scan *s, size_t from, weir_writer *expected);

#endif
