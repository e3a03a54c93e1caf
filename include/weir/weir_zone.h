/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_ZONE_H
#define WEIR_WEIR_ZONE_H
/* Time zones and calendar windows, from the bytes of a TZif file (RFC 9636) that the caller has
 * read. Nothing here allocates, opens a file, or knows a zone of its own other than UTC, which is
 * the zone NULL.
 *
 *     weir_zone berlin;                               // bytes: /usr/share/zoneinfo/Europe/Berlin
 *     if (weir_zone_read(&berlin, "Europe/Berlin", 13, bytes, len) != WEIR_OK) ...
 *     weir_span day = weir_calendar_window(&berlin, WEIR_DAY, now_ns); */

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility push(default)
#endif

#define WEIR_ZONE_NAME_MAX 63
/* Clock changes in a file: tzdata has at most 250, and the system's own reader takes 2000. */
#define WEIR_ZONE_TIMES_MAX 4096

/* The day and time of a yearly change, read off the clock that it ends. */
typedef struct weir_zone_rule {
    int32_t time_s; /* after that day's midnight: +-167:59:59 */
    uint16_t day;   /* 'J': 1..365, leap days not counted; 'N': 0..365; 'M': weekday, 0 = Sunday */
    uint8_t month;  /* 'M': 1..12, else 0 */
    uint8_t week;   /* 'M': 1..5, 5 = the last, else 0 */
    uint8_t form;   /* 'J', 'N' or 'M', as in the POSIX TZ text */
} weir_zone_rule;

typedef enum weir_zone_course {
    WEIR_ZONE_LAST,  /* as after the last listed change */
    WEIR_ZONE_FIXED, /* base_s for ever */
    WEIR_ZONE_YEARLY /* two changes a year */
} weir_zone_course;

/* How a zone goes on after its last listed change: the footer of the file. */
typedef struct weir_zone_tail {
    weir_zone_course course;
    int32_t base_s;  /* seconds east of UTC: before change[0] of a year, and from change[1] */
    int32_t other_s; /* from change[0] until change[1] */
    weir_zone_rule change[2]; /* in the order in which they come in a year */
} weir_zone_tail;

/* Filled by weir_zone_read(); all but `name` is for src/policy. */
struct weir_zone {
    const uint8_t *times;   /* big-endian instants, ascending, in the caller's bytes */
    const uint8_t *indices; /* a byte each: the type from that instant on */
    const uint8_t *types;   /* 6 bytes each, first the offset; type 0 is before the first instant */
    uint32_t times_count;   /* 0..WEIR_ZONE_TIMES_MAX */
    uint32_t time_size;     /* 8, or 4 in version 1 */
    weir_zone_tail tail;
    char name[WEIR_ZONE_NAME_MAX + 1];
};

/* Whether `name` may name a zone, and so be put behind the name of a directory: 1..63 bytes of
 * [A-Za-z0-9_+-], parted by single '/'. So there is no dot, and no '/' at either end.
 * Threads: pure. */
bool weir_zone_name_ok(const char *name, size_t len);

/* Reads a TZif file, version 1 to 4, and checks all that can be looked at later.
 *  ret    written only on WEIR_OK. It points into `bytes`, and may be copied.
 *  name   `name_len` bytes, copied; need not be terminated.
 *  bytes  `len` bytes, which must stay as they are for as long as *ret is used.
 * Returns WEIR_OK, or WEIR_E_ZONE: the name is not weir_zone_name_ok(), the bytes break RFC 9636,
 * the footer contradicts the last listed change or has no meaning in some year, there are more than
 * WEIR_ZONE_TIMES_MAX changes, or leap seconds are counted (the files under `right/`).
 * Bytes after the footer are ignored, as tzfile(5) wants it.
 * Threads: the caller owns *ret until this returns; then any number may read it.
 * Source: RFC 9636, which defines versions 1 to 4. */
WEIR_NODISCARD weir_status weir_zone_read(weir_zone *ret, const char *name, size_t name_len,
                                          const uint8_t *bytes, size_t len);

/* The calendar window that holds t_ns.
 * A day starts at the first instant whose local time is its midnight or later: the first midnight
 * of two, or the clock change that skips it. A clock set back over midnight does not reopen the day
 * before. Weeks start on Monday, months on the 1st, years on January 1st, when that date starts. A
 * date that the zone skipped starts with the next one, so that no window is empty, and each starts
 * where the one before it ends.
 *  zone   NULL is UTC.
 *  unit   WEIR_DAY, WEIR_WEEK, WEIR_MONTH or WEIR_YEAR; any other is taken for WEIR_DAY.
 *  t_ns   0..WEIR_NOW_NS_MAX; a time outside is taken for the nearest inside.
 * Returns start_ns <= t_ns < end_ns; start_ns is 0 where the window began before 1970.
 * Threads: pure. */
weir_span weir_calendar_window(const weir_zone *zone, weir_calendar unit, int64_t t_ns);

#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
