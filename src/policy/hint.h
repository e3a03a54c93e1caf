/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_POLICY_HINT_H
#define WEIR_POLICY_HINT_H
/* What to write instead: the spellings of other tools and of habit, for the errors of the parser.
 * A hint never makes a text valid. */

#include "policy/scan.h"
#include "policy/text.h"

/* The unit that a word such as "sec", "Hours" or "min" means. Returns NULL if it means none. */
const char *weir_hint_unit(const char *word, size_t len);

/* Looks for a misspelt algorithm at the scan's place: "GCRA", "fixed window", "sliding-window".
 *  expected  gets what to write instead.
 * Returns the end of the misspelt words in the text, or the scan's place if there is no hint. */
size_t weir_hint_algorithm(const weir_scan *s, weir_writer *expected);

/* Looks for a rate with a fraction at the scan's place: "0.5/s", "2.5 /s".
 *  expected  gets the same rate in whole numbers where there is a short one: "write 1/2s".
 * Returns whether a fraction is there. */
bool weir_hint_fraction(const weir_scan *s, weir_writer *expected);

/* A number of a rate that no '/' follows: "10r/s", "1,000/s". Writes what is expected at the scan's
 * place.
 *  from  where the number begins. */
void weir_hint_slash(const weir_scan *s, size_t from, weir_writer *expected);

/* A keyword that '=' follows: "burst=20". Writes what is expected instead. Returns false if no '='
 * is at the scan's place. */
bool weir_hint_equals(const weir_scan *s, const char *keyword, weir_writer *expected);

/* A token bucket whose capacity, at `from`, is followed by "/": "10/s burst 5". Writes the policy
 * that is probably meant: "token-bucket 5 refill 10/s". */
void weir_hint_token_bucket(const weir_scan *s, size_t from, weir_writer *expected);

#endif
