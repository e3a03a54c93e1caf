/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_CELLS_H
#define WEIR_CMD_CLIENT_CELLS_H
/* Text and numbers in the columns of a terminal. */

#include "port/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends untrusted text, at most `cols` columns of it, and returns how many columns it takes. A
 * text that does not fit is cut and ends with '~'. Bytes that are not UTF-8 become \xHH, and so do
 * characters that a terminal may obey, characters that are invisible or turn the direction of
 * writing, and combining marks after the second one in a row.
 *  cols  below 1: appends nothing.
 *  utf8  whether the terminal shows UTF-8; if not, all bytes but ASCII become \xHH. Widths are
 *        those of the process's LC_CTYPE, which must be a UTF-8 locale then. */
int cells_put(weir_buffer *out, const char *text, size_t len, int cols, bool utf8);

#define CELLS_NUMBER_MAX 16 /* bytes of the texts below, with the terminator */

/* Formats a number of 0 or more in at most 5 columns: "0", "0.25", "7", "7.5", "310", "12.3k",
 * "1.2M". */
void cells_number(double n, char ret[CELLS_NUMBER_MAX]);

/* Formats bytes: "512 B", "34.1 MiB". */
void cells_bytes(uint64_t n, char ret[CELLS_NUMBER_MAX]);

/* Formats a short time: "850 ns", "1.2 us", "12 ms", "3.5 s". */
void cells_ns(double ns, char ret[CELLS_NUMBER_MAX]);

#endif
