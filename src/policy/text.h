/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_POLICY_TEXT_H
#define WEIR_POLICY_TEXT_H
/* What the parser and the printer of policy texts share: the tables of unit and calendar words, and
 * a bounded string writer that needs no C library. */

#include <weir/weir.h>

typedef struct weir_unit {
    const char *name;
    int64_t ns;
} weir_unit;

enum { WEIR_UNITS = 8, WEIR_CALENDARS = 4 };

extern const weir_unit weir_units[WEIR_UNITS]; /* ascending; each divides the next */

typedef struct weir_calendar_word {
    const char *name;
    const char *instead; /* what to write where only a length is accepted */
    weir_calendar unit;
} weir_calendar_word;

extern const weir_calendar_word weir_calendar_words[WEIR_CALENDARS];

/* Returns the word of a calendar window: day, week, month or year. `calendar` is one of these. */
const char *weir_calendar_name(weir_calendar calendar);

typedef struct weir_writer { /* drops the bytes that do not fit; buf is terminated if size > 0 */
    char *buf;
    size_t size; /* of buf, with the terminator */
    size_t len;  /* without the terminator: at most size - 1 */
} weir_writer;

weir_writer weir_writer_init(char *buf, size_t size);

void weir_write_char(weir_writer *w, char c);
void weir_write_str(weir_writer *w, const char *s);
void weir_write_bytes(weir_writer *w, const char *s, size_t len);
void weir_write_u64(weir_writer *w, uint64_t n);

/* Writes an anchor as weir_anchor_scan() reads it. `unit` is WEIR_DAY to WEIR_YEAR. (anchor.c) */
void weir_anchor_write(weir_writer *w, weir_calendar unit, int32_t anchor);

/* Writes a period in its largest whole unit: "90s", "2h", and "1m" or, if bare, "m". ns >= 1. */
void weir_write_period(weir_writer *w, int64_t ns, bool bare);

#endif
