/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* wcwidth() says how wide a character is. It knows the characters of the process's locale only, so
 * ASCII, which has the width 1, does not ask it. */

#define _GNU_SOURCE /* wcwidth() */

#include "cmd/client/cells.h"

#include "port/text.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

enum { HEX_COLS = 4 }; /* \xHH */

static uint32_t code_point(const char *at, size_t len)
{
    const uint8_t *byte = (const uint8_t *)at;
    static const uint8_t first[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = byte[0] & first[len];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (byte[i] & 0x3F);
    return c;
}

/* Whether a character has no shape and changes the direction of what follows it. */
static bool turns_direction(uint32_t c)
{
    return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* The columns of a UTF-8 sequence; -1 if it has to be escaped. */
static int width_of(const char *at, size_t len, bool utf8)
{
    if (len == 1)
        return *at >= 0x20 && *at < 0x7F ? 1 : -1;
    uint32_t c = code_point(at, len);
    return utf8 && !weir_utf8_is_control(at, len) && !turns_direction(c) ? wcwidth((wchar_t)c) : -1;
}

/* The sequence at the front of a text. Returns its length and sets *ret_cols to its columns; -1 if
 * it has to be escaped, byte by byte. */
static size_t next(const char *at, size_t len, bool utf8, int *ret_cols)
{
    bool valid;
    size_t n = weir_utf8_len(at, len, &valid);
    *ret_cols = valid ? width_of(at, n, utf8) : -1;
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
    for (size_t at = 0; at < len && cols >= 0;) {
        int width;
        size_t n = next(text + at, len - at, utf8, &width);
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
    int room = cols - cut, used = 0;
    for (size_t at = 0; at < len;) {
        int width;
        size_t n = next(text + at, len - at, utf8, &width);
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
    if (cut)
        weir_buffer_append_byte(out, '~');
    return used + cut;
}

/* Divides n by `base` until it is below `limit`. Returns the index of its unit, below `units`. */
static size_t scale(double *n, double base, double limit, size_t units)
{
    size_t i = 0;
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
