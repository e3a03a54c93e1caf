/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_POLICY_UNITS_H
#define WEIR_POLICY_UNITS_H
/* The words of the policy language, each in one table: what the parser reads and the printer
 * writes. */

#include <weir/weir.h>

typedef struct weir_unit {
    const char *name;
    int64_t ns;
} weir_unit;

enum { WEIR_UNITS = 8, WEIR_CALENDARS = 4, WEIR_ALGORITHMS = 8 };

extern const weir_unit weir_units[WEIR_UNITS]; /* ascending; each divides the next */

/* day, week, month, year, and what is expected instead where only a length will do. */
typedef struct weir_calendar_word {
    const char *name;
    const char *instead;
    weir_calendar unit;
} weir_calendar_word;

extern const weir_calendar_word weir_calendar_words[WEIR_CALENDARS];

extern const char *const weir_algorithm_names[WEIR_ALGORITHMS]; /* by weir_algorithm */

#endif
