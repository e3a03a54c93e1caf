/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The words of the policy language. */

#include "policy/units.h"

const weir_unit weir_units[WEIR_UNITS] = {
    {"ns", 1},          {"us", 1000},         {"ms", 1000000},       {"s", 1000000000},
    {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000}, {"w", 604800000000000},
};

const weir_calendar_word weir_calendar_words[WEIR_CALENDARS] = {
    {"day", "a length: d is 24 hours", WEIR_DAY},
    {"week", "a length: w is 7 days", WEIR_WEEK},
    {"month", "a length such as 30d", WEIR_MONTH},
    {"year", "a length such as 365d", WEIR_YEAR},
};

const char *const weir_algorithm_names[WEIR_ALGORITHMS] = {
    [WEIR_GCRA] = "gcra",
    [WEIR_TOKEN_BUCKET] = "token-bucket",
    [WEIR_LEAKY_BUCKET] = "leaky-bucket",
    [WEIR_LEAKY_QUEUE] = "leaky-queue",
    [WEIR_FIXED_WINDOW] = "fixed-window",
    [WEIR_SLIDING_LOG] = "sliding-log",
    [WEIR_SLIDING_COUNTER] = "sliding-counter",
    [WEIR_SLIDING_SLICES] = "sliding-slices",
};
