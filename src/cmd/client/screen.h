/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_SCREEN_H
#define WEIR_CMD_CLIENT_SCREEN_H
/* The screen of `weir top`: from a model to the bytes that a terminal gets. Knows no terminal,
 * socket or clock. All functions are pure, but for the width of characters, see cells_put(), and
 * top_live(), which runs the screen. */

#include "cmd/client/target.h"
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

/* ---- text and numbers in columns ------------------------------------------------------------- */

/* Appends untrusted text, at most `cols` columns of it, and returns how many columns it takes. A
 * text that does not fit is cut and ends with '~'. Bytes that are not UTF-8 become \xHH, and so do
 * characters that a terminal may obey, characters that are invisible or turn the direction of
 * writing, and combining marks after the second one in a row.
 *  cols  below 1: appends nothing.
 *  utf8  whether the terminal shows UTF-8; if not, all bytes but ASCII become \xHH. Widths are
 *        those of the process's LC_CTYPE, which must be a UTF-8 locale then. */
int cells_put(weir_buffer *out, const char *text, size_t len, int cols, bool utf8);

#define CELLS_NUMBER_MAX 16 /* bytes of the texts below, with the terminator */

/* Formats a number of 0 or more in at most 5 columns: "0", "0.25", "7", "7.5", "310", "12.3k",
 * "1.2M". */
void cells_number(double n, char ret[CELLS_NUMBER_MAX]);

/* Formats bytes: "512 B", "34.1 MiB". */
void cells_bytes(uint64_t n, char ret[CELLS_NUMBER_MAX]);

/* Formats a short time: "850 ns", "1.2 us", "12 ms", "3.5 s". */
void cells_ns(double ns, char ret[CELLS_NUMBER_MAX]);

/* ---- weir top -------------------------------------------------------------------------------- */

/* `weir top` without a policy, and with --live: a screen that shows what a daemon does now; or a
 * table for each interval, if standard output or standard input is no terminal. */
typedef struct top_live_options {
    client_login login;
    const char *policy; /* chosen at first; "": the first one */
    bool allowed;       /* show the keys that were allowed most at first */
    int64_t interval_ns, timeout_ns;
    int64_t count; /* how many times figures are shown; 0: until the user quits */
} top_live_options;

/* Returns the exit status of the command. */
int top_live(const top_live_options *o);

#endif
