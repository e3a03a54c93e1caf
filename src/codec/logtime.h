/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOGTIME_H
#define WEIR_CODEC_LOGTIME_H
/* Parses the timestamps of logs. A leap second (:60) is read as the first second of the next
 * minute, as in POSIX. Digits of a fraction after the ninth are ignored.
 *
 * Each function reads the bytes from `at` to `end` and writes *ret, in nanoseconds since 1970. It
 * returns WEIR_OK; WEIR_E_SYNTAX if there is no valid time; or WEIR_E_RANGE if the time is outside
 * 1970..WEIR_NOW_NS_MAX. Pure. */

#include <stdint.h>

#include <weir/weir.h>

/* Reads "[01/Aug/1995:02:00:04 -0400]", the time of the Common Log Format. The seconds may have a
 * fraction.
 *  ret_after  points behind the ']'; written on WEIR_OK and WEIR_E_RANGE. */
WEIR_NODISCARD weir_status weir_logtime_clf(const char *at, const char *end, int64_t *ret,
                                            const char **ret_after);

/* Reads "2026-01-02T03:04:05.123Z", or with a zone like "+01:00". Nothing may follow. Also accepts
 * 't' and 'z', and a space for the 'T'.
 * Source: RFC 3339, section 5.6. */
WEIR_NODISCARD weir_status weir_logtime_rfc3339(const char *at, const char *end, int64_t *ret);

#endif
