/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOGTIME_H
#define WEIR_CODEC_LOGTIME_H
/* Times as logs write them. A second 60 is the first of the next minute, as POSIX has it, and
 * digits of a fraction after the ninth are dropped. It must not know what else is in a line.
 *
 * Each function reads the bytes from `at` to `end`, writes *ret in nanoseconds since 1970, and
 * returns WEIR_OK; WEIR_E_SYNTAX if there is no such time; or WEIR_E_RANGE if the time is outside
 * 1970..WEIR_NOW_NS_MAX. Pure. */

#include <stdint.h>

#include <weir/weir.h>

/* Reads "[01/Aug/1995:02:00:04 -0400]", perhaps with ":04.123".
 *  ret_after  what follows the ']'; written on WEIR_OK and WEIR_E_RANGE. */
WEIR_NODISCARD weir_status weir_logtime_clf(const char *at, const char *end, int64_t *ret,
                                            const char **ret_after);

/* Reads "2026-01-02T03:04:05.123Z" or with "+01:00", and nothing behind it; 't', 'z' and a space
 * for the 'T' are taken too.
 * Source: RFC 3339, section 5.6. */
WEIR_NODISCARD weir_status weir_logtime_rfc3339(const char *at, const char *end, int64_t *ret);

#endif
