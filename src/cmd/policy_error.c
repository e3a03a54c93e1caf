/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A refused policy text, and a caret below the place. It must not know what a policy may say, nor
 * trust a byte of the text: it may come from anywhere, and goes to a terminal. */

#include "cmd/policy_error.h"
#include "cmd/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_COLS = 76, DOTS_COLS = 3 };

/* What a terminal would obey: C0, DEL, and C1, which is C2 80 to C2 9F. */
static bool is_control(const unsigned char *at, size_t len)
{
    return (len == 1 && (*at < 0x20 || *at == 0x7F)) || (len == 2 && *at == 0xC2 && at[1] < 0xA0);
}

static void print_character(const unsigned char *at, size_t len, bool valid)
{
    if (!valid)
        fputc('?', stderr);
    else if (is_control(at, len))
        fputc(' ', stderr);
    else
        fwrite(at, 1, len, stderr);
}

/* How many characters of at..end - 1 end at or before `stop`. */
static size_t columns(const unsigned char *at, const unsigned char *end, const unsigned char *stop)
{
    size_t cols = 0;
    bool valid;
    while (at < stop && (at += utf8_len(at, end, &valid)) <= stop)
        cols++;
    return cols;
}

/* Prints columns from..to - 1 of the text, with dots for the first or last where more is cut. */
static void print_columns(const unsigned char *at, const unsigned char *end, size_t from, size_t to,
                          size_t all)
{
    for (size_t col = 0; at < end && col < to; col++) {
        bool valid;
        size_t len = utf8_len(at, end, &valid);
        bool cut = (from > 0 && col < from + DOTS_COLS) || (to < all && col + DOTS_COLS >= to);
        if (col >= from && cut)
            fputc('.', stderr);
        else if (col >= from)
            print_character(at, len, valid);
        at += len;
    }
}

void policy_error_print(const char *prefix, const char *text, const weir_policy_error *error)
{
    const unsigned char *begin = (const unsigned char *)text, *end = begin + strlen(text);
    size_t before = error->column > 0 ? error->column - 1 : 0;
    if (before > (size_t)(end - begin))
        before = (size_t)(end - begin);
    size_t all = columns(begin, end, end), caret = columns(begin, end, begin + before);
    size_t from = 0, to = all;
    if (all > SHOWN_COLS) {
        size_t last = all - SHOWN_COLS;
        from = caret < SHOWN_COLS / 2 ? 0 : caret - SHOWN_COLS / 2;
        from = from < last ? from : last;
        to = from + SHOWN_COLS;
    }
    fprintf(stderr, "%s: column %" PRIu32 ": %s\n  ", prefix, error->column, error->text);
    print_columns(begin, end, from, to, all);
    fprintf(stderr, "\n  %*s\n", (int)(caret - from) + 1, "^");
}
