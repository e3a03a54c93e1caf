/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_DURATION_H
#define WEIR_CMD_DURATION_H
/* Formats durations for people. */

#include <stdint.h>

#define DURATION_TEXT_MAX 48 /* bytes, with the terminator */

/* Writes a duration in its largest unit and the next smaller one, rounded up: "3s", "1h 2m",
 * "250ms".
 *  ns   0..INT64_MAX.
 *  ret  DURATION_TEXT_MAX bytes. */
void duration_text(int64_t ns, char *ret);

/* The same for milliseconds, 0..INT64_MAX, with a space before each unit: "1 h 2 m". Durations
 * below a minute are exact: "1.25 s". */
void duration_ms_text(int64_t ms, char *ret);

#endif
