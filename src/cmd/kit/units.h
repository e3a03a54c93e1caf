/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_UNITS_H
#define WEIR_CMD_KIT_UNITS_H
/* Sizes and durations, as weir.yaml and options have them, and as people read them.
 * weir_duration_read() of policy/scan.h reads durations. */

#include <stdbool.h>
#include <stddef.h>
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

/* Reads a size such as "256m". Returns false if the text is not a size from 0 to INT64_MAX.
 *  ret  written only on success. */
bool size_read(const char *text, int64_t *ret);

/* Prints a size: "256m". Returns buf, of 24 bytes or more. */
char *size_text(uint64_t bytes, char *buf, size_t size);

/* Prints a duration in the largest unit that makes it a whole number: "90s". */
void duration_exact_text(int64_t ns, char *buf, size_t size);

#endif
