/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Draws into a grid of dots. A Braille character has 2 x 4 dots. */

#include "cmd/suggest/suggest.h"

#include "port/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    COLS_MAX = 56, /* of the grid, in characters */
    COLS_MIN = 10,
    ROWS = 10,
    MARGIN = 14, /* left of the grid */
    DOTS_X = 2,
    DOTS_Y = 4
};

typedef struct grid {
    int cols;
    uint8_t dots[ROWS][COLS_MAX]; /* the bits of Braille characters */
} grid;

static void set_dot(grid *g, int x, int y)
{
    WEIR_ASSERT(x >= 0 && x < g->cols * DOTS_X && y >= 0 && y < ROWS * DOTS_Y);
    static const uint8_t bits[DOTS_Y][DOTS_X] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    g->dots[y / DOTS_Y][x / DOTS_X] |= bits[y % DOTS_Y][x % DOTS_X];
}

/* The binary logarithm of n + 1 in 1/1024, linear between powers of two. */
static int64_t log_of(int64_t n)
{
    enum { ONE = 1024 };
    uint64_t v = (uint64_t)n + 1;
    int64_t whole = 0;
    while (v >> whole > 1)
        whole++;
    uint64_t power = (uint64_t)1 << whole;
    uint64_t part = power >= ONE ? (v - power) / (power / ONE) : (v - power) * ONE / power;
    return whole * ONE + (int64_t)part;
}

typedef struct axis {
    int64_t low, high;
    int dots;
} axis;

/* The position of a number, 0..dots - 1. */
static int place(const axis *a, int64_t n)
{
    int64_t low = log_of(a->low), span = log_of(a->high) - low;
    return span > 0 ? (int)((log_of(n) - low) * (a->dots - 1) / span) : 0;
}

static axis axis_of(const plot *p, bool x, int dots)
{
    axis a = {.low = INT64_MAX, .high = 0, .dots = dots};
    for (size_t i = 0; i < p->len; i++) {
        int64_t n = x ? p->point[i].x : p->point[i].y;
        a.low = n < a.low ? n : a.low;
        a.high = n > a.high ? n : a.high;
    }
    return a;
}

static void line(grid *g, int x0, int y0, int x1, int y1)
{
    int wide = x1 > x0 ? x1 - x0 : x0 - x1, high = y1 > y0 ? y1 - y0 : y0 - y1;
    int steps = wide > high ? wide : high;
    for (int i = 0; i <= steps; i++)
        set_dot(g, steps ? x0 + (x1 - x0) * i / steps : x0,
                steps ? y0 + (y1 - y0) * i / steps : y0);
}

static void put_cell(weir_buffer *out, uint8_t dots, bool utf8)
{
    const char braille[] = {(char)0xE2, (char)(0xA0 | dots >> 6), (char)(0x80 | (dots & 0x3F)), 0};
    weir_buffer_text(out, dots == 0 ? " " : utf8 ? braille : "*");
}

static void put_margin(weir_buffer *out, const axis *y, int row)
{
    if (row == 0 || row == ROWS - 1)
        weir_buffer_printf(out, "  %*" PRId64 " |", MARGIN - 4, row == 0 ? y->high : y->low);
    else
        weir_buffer_printf(out, "%*s|", MARGIN - 1, "");
}

void plot_draw(weir_buffer *out, const plot *p)
{
    grid g = {.cols = p->cols - MARGIN - 1 < COLS_MAX ? p->cols - MARGIN - 1 : COLS_MAX};
    g.cols = g.cols < COLS_MIN ? COLS_MIN : g.cols;
    axis x = axis_of(p, true, g.cols * DOTS_X), y = axis_of(p, false, ROWS * DOTS_Y);
    int last_x = 0, last_y = 0, mark_col = 0, mark_row = 0;
    for (size_t i = 0; i < p->len; i++) {
        int at_x = place(&x, p->point[i].x), at_y = y.dots - 1 - place(&y, p->point[i].y);
        line(&g, i ? last_x : at_x, i ? last_y : at_y, at_x, at_y);
        last_x = at_x;
        last_y = at_y;
        mark_col = i == p->marked ? at_x / DOTS_X : mark_col;
        mark_row = i == p->marked ? at_y / DOTS_Y : mark_row;
    }
    weir_buffer_printf(out, "%*s\n", MARGIN, p->y_name);
    for (int row = 0; row < ROWS; row++) {
        put_margin(out, &y, row);
        for (int col = 0; col < g.cols; col++) {
            if (row == mark_row && col == mark_col)
                weir_buffer_text(out, "O");
            else
                put_cell(out, g.dots[row][col], p->utf8);
        }
        weir_buffer_text(out, "\n");
    }
    weir_buffer_printf(out, "%*s+", MARGIN - 1, "");
    for (int col = 0; col < g.cols; col++)
        weir_buffer_text(out, "-");
    weir_buffer_printf(out, "\n%*s%-*" PRId64 "%*" PRId64 "  %s\n", MARGIN, "", g.cols / 2, x.low,
                       g.cols - g.cols / 2, x.high, p->x_name);
}
