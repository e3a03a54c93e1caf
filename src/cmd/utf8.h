/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_UTF8_H
#define WEIR_CMD_UTF8_H
/* Where one character ends and the next begins, in bytes that may or may not be UTF-8. */

#include <stdbool.h>
#include <stddef.h>

/* The length of the UTF-8 sequence at `at`, or, with *ret_valid false, of the maximal subpart of
 * one; 1 or more, and not beyond `end`.
 *  at  at < end.
 * Threads: pure. Source: Unicode 15, table 3-7. */
size_t utf8_len(const unsigned char *at, const unsigned char *end, bool *ret_valid);

#endif
