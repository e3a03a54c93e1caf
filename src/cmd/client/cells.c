/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* wcwidth() says how wide a character is. It knows the characters of the process's locale only, so
 * ASCII, which has the width 1, does not ask it. */

#define _GNU_SOURCE /* wcwidth() */

#include "cmd/client/screen.h"

#include "port/assert.h"
#include "port/text.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

enum {
    HEX_COLS = 4, /* \xHH */
    MARKS_MAX = 2 /* combining marks in a row: more could cover the lines above */
};

/* The columns of a UTF-8 sequence; -1 if it has to be escaped. */
static int width_of(const char *at, size_t len, bool utf8)
{
    if (len == 1)
        return *at >= 0x20 && *at < 0x7F ? 1 : -1;
    if (!utf8 || weir_utf8_is_control(at, len) || weir_utf8_is_invisible(at, len))
        return -1;
    return wcwidth((wchar_t)weir_utf8_code_point(at, len));
}

/* The sequence at the front of a text. Returns its length and sets *ret_cols to its columns; -1 if
 * it has to be escaped, byte by byte.
 *  marks  how many combining marks there were in a row; changed. */
static size_t next(const char *at, size_t len, bool utf8, int *marks, int *ret_cols)
{
    bool valid;
    size_t n = weir_utf8_len(at, len, &valid);
    int cols = valid ? width_of(at, n, utf8) : -1;
    if (cols == 0 && *marks == MARKS_MAX)
        cols = -1;
    else if (cols >= 0)
        *marks = cols == 0 ? *marks + 1 : 0;
    *ret_cols = cols;
    return n;
}

static void put_escaped(weir_buffer *out, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        weir_buffer_printf(out, "\\x%02X", (unsigned)(uint8_t)at[i]);
}

/* Whether the whole text fits. */
static bool fits(const char *text, size_t len, int cols, bool utf8)
{
    int marks = 0;
    for (size_t at = 0; at < len && cols >= 0;) {
        int width;
        size_t n = next(text + at, len - at, utf8, &marks, &width);
        cols -= width < 0 ? HEX_COLS * (int)n : width;
        at += n;
    }
    return cols >= 0;
}

int cells_put(weir_buffer *out, const char *text, size_t len, int cols, bool utf8)
{
    if (cols < 1)
        return 0;
    bool cut = !fits(text, len, cols, utf8);
    int room = cols - cut, used = 0, marks = 0;
    for (size_t at = 0; at < len;) {
        int width;
        size_t n = next(text + at, len - at, utf8, &marks, &width);
        int needs = width < 0 ? HEX_COLS * (int)n : width;
        if (used + needs > room)
            break;
        if (width < 0)
            put_escaped(out, text + at, n);
        else
            weir_buffer_append(out, text + at, n);
        used += needs;
        at += n;
    }
    WEIR_ASSERT(used + cut <= cols);
    if (cut)
        weir_buffer_append_byte(out, '~');
    return used + cut;
}

/* Divides n by `base` until it is below `limit`. Returns the index of its unit, below `units`. */
static size_t scale(double *n, double base, double limit, size_t units)
{
    size_t i = 0;
    WEIR_ASSERT(*n >= 0 && units > 0);
    for (; *n >= limit && i + 1 < units; i++)
        *n /= base;
    return i;
}

void cells_number(double n, char ret[CELLS_NUMBER_MAX])
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t i = scale(&n, 1000, 999.5, sizeof units / sizeof *units);
    bool whole = i == 0 && n < 10 && n == (double)(int)n;
    int places = 0;
    if (i > 0)
        places = n < 99.95;
    else if (n >= 0.005 && !whole)
        places = n < 0.995 ? 2 : n < 9.95;
    snprintf(ret, CELLS_NUMBER_MAX, "%.*f%s", places, n < 9999 ? n : 9999, units[i]);
}

void cells_bytes(uint64_t bytes, char ret[CELLS_NUMBER_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double n = (double)bytes;
    size_t i = scale(&n, 1024, 1023.95, sizeof units / sizeof *units);
    snprintf(ret, CELLS_NUMBER_MAX, "%.*f %s", i > 0, n, units[i]);
}

void cells_ns(double ns, char ret[CELLS_NUMBER_MAX])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double n = ns;
    size_t i = scale(&n, 1000, 999.5, sizeof units / sizeof *units);
    snprintf(ret, CELLS_NUMBER_MAX, "%.*f %s", i > 0 && n < 9.95, n < 999999 ? n : 999999,
             units[i]);
}
