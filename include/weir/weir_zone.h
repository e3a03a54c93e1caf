/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_ZONE_H
#define WEIR_WEIR_ZONE_H
/* Time zones and calendar windows. The caller loads the time zone database's TZif file (RFC 9636)
 * of a zone into memory; these functions parse it. They do not allocate or open files. The only
 * built-in zone is UTC, which is passed as NULL.
 *
 *     weir_zone berlin;                               // bytes: /usr/share/zoneinfo/Europe/Berlin
 *     if (weir_zone_read(&berlin, "Europe/Berlin", 13, bytes, len) != WEIR_OK) ...
 *     weir_span day = weir_calendar_window(&berlin, WEIR_DAY, 0, now_ns); */

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility push(default)
#endif

#define WEIR_ZONE_NAME_MAX 63
/* The maximum number of clock changes in a file. The files of tzdata have at most 250, and its
 * reference code accepts 2000. */
#define WEIR_ZONE_TIMES_MAX 4096

/* The day and time of a yearly clock change, in the local time before the change. */
typedef struct weir_zone_rule {
    int32_t time_s; /* seconds after that day's midnight: +-167:59:59 */
    uint16_t day;   /* 'J': 1..365, without leap days; 'N': 0..365; 'M': weekday, 0 = Sunday */
    uint8_t month;  /* 'M': 1..12, else 0 */
    uint8_t week;   /* 'M': 1..5, 5 = the last, else 0 */
    uint8_t form;   /* 'J', 'N' or 'M', as in a POSIX TZ string */
} weir_zone_rule;

typedef enum weir_zone_course {
    WEIR_ZONE_LAST,  /* the offset after the last listed change stays */
    WEIR_ZONE_FIXED, /* the offset is base_s */
    WEIR_ZONE_YEARLY /* two changes in each year: daylight saving time */
} weir_zone_course;

/* The footer of the file: the offset from UTC after the last listed change. */
typedef struct weir_zone_tail {
    weir_zone_course course;
    int32_t base_s;  /* seconds east of UTC, before change[0] of a year and from change[1] on */
    int32_t other_s; /* seconds east of UTC, from change[0] until change[1] */
    weir_zone_rule change[2]; /* in the order within a year */
} weir_zone_tail;

/* Set by weir_zone_read(). Callers may read `name`; the other fields are internal. */
struct weir_zone {
    const uint8_t *times;   /* the instants of clock changes, big-endian, ascending, in `bytes` */
    const uint8_t *indices; /* one byte per instant: the type that applies from then on */
    const uint8_t *types;   /* 6 bytes each, first the offset; type 0 applies at the start */
    uint32_t times_count;   /* 0..WEIR_ZONE_TIMES_MAX */
    uint32_t time_size;     /* 8, or 4 in version 1 */
    weir_zone_tail tail;
    char name[WEIR_ZONE_NAME_MAX + 1];
};

/* Returns whether `name` is a valid name of a zone: 1..63 bytes of [A-Za-z0-9_+-], in parts that
 * are separated by single '/'. A valid name contains no '.' and does not begin or end with '/', so
 * it can be appended to the path of a directory.
 * Threads: pure. */
bool weir_zone_name_ok(const char *name, size_t len);

/* Parses and validates a TZif file of version 1 to 4.
 *  ret    written only on WEIR_OK. It points into `bytes`. It may be copied.
 *  name   `name_len` bytes, copied; need not be terminated.
 *  bytes  `len` bytes, which must not change or be freed while *ret is in use.
 * Returns WEIR_OK, or WEIR_E_ZONE if the name is not valid, the bytes violate RFC 9636, the footer
 * contradicts the last listed change, the two changes of the footer contradict each other in some
 * year, there are more than WEIR_ZONE_TIMES_MAX changes, or the file counts leap seconds (the files
 * under `right/`). Bytes after the footer are ignored, as tzfile(5) requires.
 * Threads: the caller owns *ret during the call. Afterwards any number of threads may read it.
 * Source: RFC 9636. */
WEIR_NODISCARD weir_status weir_zone_read(weir_zone *ret, const char *name, size_t name_len,
                                          const uint8_t *bytes, size_t len);

/* Returns the calendar window that contains t_ns.
 * A window starts at the first instant whose local time is its start or later: midnight of its
 * first date, or for days `anchor` minutes after midnight. If the clock shows that time twice, the
 * window starts at the first. If a clock change skips it, the window starts at the change. A clock
 * that goes back across it does not reopen the previous window. If a zone skipped a date, so that
 * two windows would start at the same instant, they are a single one. No window is empty, and each
 * starts where the previous one ends.
 *  zone    NULL is UTC.
 *  unit    WEIR_DAY, WEIR_WEEK, WEIR_MONTH or WEIR_YEAR; any other value is treated as WEIR_DAY.
 *  anchor  as weir_layer.anchor, in the range of the unit. 0: midnight, Monday, the 1st, or January
 *          1st.
 *  t_ns    0..WEIR_NOW_NS_MAX; a time outside is replaced by the nearest one inside.
 * Returns start_ns <= t_ns < end_ns. start_ns is 0 if the window began before 1970.
 * Threads: pure. */
weir_span weir_calendar_window(const weir_zone *zone, weir_calendar unit, int32_t anchor,
                               int64_t t_ns);

#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
