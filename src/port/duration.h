/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_DURATION_H
#define WEIR_PORT_DURATION_H
/* Durations as texts, in each style that weir prints. */

#include <stddef.h>
#include <stdint.h>

#define WEIR_DURATION_MAX 48 /* bytes, with the terminator */

typedef enum weir_duration_style {
    WEIR_DURATION_SHORT, /* the largest unit and the next smaller one, rounded up: "1h 2m" */
    WEIR_DURATION_READ,  /* for people: the same with spaces, "1 h 2 m"; below a minute seconds with
                            up to 3 decimals, "1.25 s", below a second milliseconds, rounded up */
    WEIR_DURATION_LONG,  /* all units, rounded up to microseconds: "1 d 2 h 3 m 4.5 s" */
    WEIR_DURATION_WHOLE, /* the largest unit that gives a whole number: "90s" */
    WEIR_DURATION_GO,    /* as Go prints it, rounded up to milliseconds: "1h0m4.5s", "17ms" */
    WEIR_DURATION_PROTO, /* as protobuf's JSON has it, with 0, 3, 6 or 9 decimals: "4s", "4.500s" */
} weir_duration_style;

/* Writes a duration, with a NUL. Returns its length.
 *  ns  0..INT64_MAX. */
size_t weir_duration_print(char ret[static WEIR_DURATION_MAX], int64_t ns,
                           weir_duration_style style);

#endif
