/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_POLICY_HINT_H
#define WEIR_POLICY_HINT_H
/* Suggestions for common mistakes, such as the spellings of other rate limiters. The parser adds
 * them to its errors; they never make a text valid. */

#include "policy/scan.h"
#include "policy/text.h"

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
