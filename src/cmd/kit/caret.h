/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_CARET_H
#define WEIR_CMD_KIT_CARET_H
/* Prints untrusted text to a terminal, with a caret below an error. */

#include <weir/weir.h>

#include <stdio.h>

/* Prints `len` bytes without control sequences: each control character becomes a space, and each
 * invalid UTF-8 sequence a '?'. */
void caret_text(FILE *out, const char *text, size_t len);

/* The number of characters that end within the first `at` bytes of a text. Pure. */
size_t caret_columns(const char *text, size_t len, size_t at);

/* Prints two lines: "  TEXT" as caret_text() does, and "  ^" below byte `at`. A long text is
 * shortened with "..." to the part around the caret, so that no line has more than 78 columns. Each
 * character counts as one column.
 *  at  0..len; a larger value is treated as len. */
void caret_print(FILE *out, const char *text, size_t len, size_t at);

/* Prints "PREFIX: column N: why" to standard error, then the policy text and a caret.
 *  prefix  the command: "weir policy".
 *  text    the whole policy text.
 *  error   error->column 1..strlen(text) + 1, in bytes. */
void caret_policy_error(const char *prefix, const char *text, const weir_policy_error *error);

#endif
