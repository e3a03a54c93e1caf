/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_UNITS_H
#define WEIR_CMD_KIT_UNITS_H
/* Sizes, as weir.yaml and options have them. weir_duration_read() of policy/scan.h reads durations,
 * weir_duration_print() prints them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a size such as "256m". Returns false if the text is not a size from 0 to INT64_MAX.
 *  ret  written only on success. */
bool size_read(const char *text, int64_t *ret);

/* Prints a size: "256m". Returns buf, of 24 bytes or more. */
char *size_text(uint64_t bytes, char *buf, size_t size);

#endif
