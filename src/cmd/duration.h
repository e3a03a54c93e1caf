/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_DURATION_H
#define WEIR_CMD_DURATION_H
/* Lengths of time, for people. */

#include <stdint.h>

#define DURATION_TEXT_MAX 48 /* bytes, with the terminator */

/* Writes a length of time in its largest unit and the next, rounded up: "3s", "1h 2m", "250ms".
 *  ns   0..INT64_MAX.
 *  ret  DURATION_TEXT_MAX bytes. */
void duration_text(int64_t ns, char *ret);

/* The same for ms, 0..INT64_MAX, with a space before each unit: "1 h 2 m". Below a minute the text
 * is exact: "1.25 s". */
void duration_ms_text(int64_t ms, char *ret);

#endif
