/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_SCREEN_H
#define WEIR_CMD_CLIENT_SCREEN_H
/* The screen of `weir top`: from a model to the bytes that a terminal gets. Knows no terminal,
 * socket or clock. All functions are pure, but for the width of characters: see cells_put(). */

#include "cmd/client/top_stats.h"
#include "port/buffer.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum screen_sort { SCREEN_BY_DENIED, SCREEN_BY_DECIDED, SCREEN_BY_NAME } screen_sort;

typedef struct screen_row {
    const top_policy *policy;
    top_rates rates;
} screen_row;

typedef struct screen_model {
    const char *server;             /* its address */
    const top_sample *before, *now; /* NULL: not there yet */
    const top_rules *rules;
    const top_keys *keys;  /* of the chosen policy; NULL: not there yet */
    bool allowed;          /* the keys that are wanted: allowed ones, else denied ones */
    const screen_row *row; /* as screen_list() sorted them */
    size_t rows, chosen;   /* `chosen` is an index; ignored without rows */
    screen_sort sort;
    const char *filter; /* "": none */
    bool typing;        /* the filter is being typed */
    const char *notice; /* why there are no new figures, or "" */
    bool help;          /* show the help instead of the figures */
    bool colour, utf8;
} screen_model;

/* Lists and sorts the policies of a sample whose names contain `filter`. Requests without a policy,
 * such as "(texts)", are listed once there were some.
 *  before  NULL: all rates are 0.
 *  ret     TOP_POLICIES_MAX rows, which point into *now.
 * Returns how many there are. */
size_t screen_list(const top_sample *before, const top_sample *now, screen_sort sort,
                   const char *filter, screen_row *ret);

/* Appends the bytes that draw the whole screen, wherever the cursor is. They contain no line breaks
 * and write at most `cols` columns in each of `rows` lines.
 *  cols, rows  1 or more. */
void screen_draw(const screen_model *m, int cols, int rows, weir_buffer *out);

/* Appends the header and all policies as lines of text, for a file or a pipe. */
void screen_print(const screen_model *m, int cols, weir_buffer *out);

/* How many policies the screen shows at once, 1 or more: a page for PageUp and PageDown. */
int screen_page(const screen_model *m, int rows);

#endif
