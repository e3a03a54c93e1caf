/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SUGGEST_PLOT_H
#define WEIR_CMD_SUGGEST_PLOT_H
/* A curve through a few points in the characters of a terminal, with logarithmic axes. It must not
 * know what the points are. */

#include "cmd/out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct plot_point {
    int64_t x, y; /* 0 or more; 0 is drawn where 1 would be one step further */
} plot_point;

typedef struct plot {
    const plot_point *point; /* by ascending x */
    size_t len;              /* 1 or more */
    size_t marked;           /* the point that is drawn as a circle */
    const char *x_name, *y_name;
    int cols;  /* of the terminal */
    bool utf8; /* draw with Braille characters; else with ASCII */
} plot;

/* Draws the curve, with the largest and the smallest number at each axis. */
void plot_draw(out_stream *out, const plot *p);

#endif
