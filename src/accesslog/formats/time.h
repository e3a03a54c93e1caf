/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_FORMATS_TIME_H
#define WEIR_ACCESSLOG_FORMATS_TIME_H
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
 * 't' and 'z', a space for the 'T', and a zone like "+0100".
 * Source: RFC 3339, section 5.6. */
WEIR_NODISCARD weir_status weir_logtime_rfc3339(const char *at, const char *end, int64_t *ret);

/* Reads "01/Aug/1995:02:00:04.123", the local time of HAProxy without a zone, as a time in UTC. */
WEIR_NODISCARD weir_status weir_logtime_local(const char *at, const char *end, int64_t *ret);

/* Reads a number with at most 19 digits before its '.'. Nothing may follow.
 *  unit_ns  1, 1000, 1000000 or 1000000000. Nanoseconds have no fraction. 0: the number is in
 *           seconds below 10^11, else in milliseconds below 10^14, else in microseconds below
 *           10^17, else in nanoseconds. */
WEIR_NODISCARD weir_status weir_logtime_number(const char *at, const char *end, int64_t unit_ns,
                                               int64_t *ret);

/* Reads a number, or with `unit_ns` 0 also a time of RFC 3339 or the Common Log Format, the latter
 * with or without brackets. */
WEIR_NODISCARD weir_status weir_logtime_any(const char *at, const char *end, int64_t unit_ns,
                                            int64_t *ret);

/* The names of members and columns that are times, in the order of preference; the last is NULL. */
typedef struct weir_logtime_name {
    const char *name;
    int64_t unit_ns; /* of a number; 0: see weir_logtime_number() */
} weir_logtime_name;
extern const weir_logtime_name weir_logtime_names[];

/* The unit of a number under a name: that of weir_logtime_names, or of the end _ns, _us or _ms. */
int64_t weir_logtime_unit(const char *name);

/* What a message expects for such a member. */
extern const char weir_logtime_expected[];

#endif
