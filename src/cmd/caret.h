/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CARET_H
#define WEIR_CMD_CARET_H
/* A line of somebody's text on a terminal, and a caret below a place in it. */

#include <stddef.h>
#include <stdio.h>

/* Prints `len` bytes so that a terminal obeys none of them: control characters become spaces, each
 * maximal subpart of what is not UTF-8 a '?'. */
void caret_text(FILE *out, const char *text, size_t len);

/* How many characters of the text end within its first `at` bytes. Threads: pure. */
size_t caret_columns(const char *text, size_t len, size_t at);

/* Prints "  TEXT", as caret_text() does, and on the next line "  ^" below the byte `at`. Of a long
 * text the part around the place is shown, with "..." where it was cut, so that no line has more
 * than 78 columns. Each character counts as one column.
 *  at  0..len; what is beyond is taken for len. */
void caret_print(FILE *out, const char *text, size_t len, size_t at);

#endif
