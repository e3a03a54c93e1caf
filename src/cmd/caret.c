/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Text that may come from anywhere, made harmless for a terminal, and a place in it. It must not
 * know what the text is. */

#include "cmd/caret.h"

#include "port/text.h"

#include <stdbool.h>

enum { SHOWN_COLS = 76, DOTS_COLS = 3 };

static void print_character(FILE *out, const unsigned char *at, size_t len, bool valid)
{
    if (!valid)
        fputc('?', out);
    else if (weir_utf8_is_control((const char *)at, len))
        fputc(' ', out);
    else
        fwrite(at, 1, len, out);
}

void caret_text(FILE *out, const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + len;
    while (at < end) {
        bool valid;
        size_t n = weir_utf8_len((const char *)at, (size_t)(end - at), &valid);
        print_character(out, at, n, valid);
        at += n;
    }
}

size_t caret_columns(const char *text, size_t len, size_t at)
{
    const unsigned char *from = (const unsigned char *)text, *end = from + len, *stop = from + at;
    size_t cols = 0;
    bool valid;
    while (from < stop &&
           (from += weir_utf8_len((const char *)from, (size_t)(end - from), &valid)) <= stop)
        cols++;
    return cols;
}

/* Prints columns from..to - 1 of the text, with dots for the first or last where more is cut. */
static void print_columns(FILE *out, const char *text, size_t len, size_t from, size_t to,
                          size_t all)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + len;
    for (size_t col = 0; at < end && col < to; col++) {
        bool valid;
        size_t n = weir_utf8_len((const char *)at, (size_t)(end - at), &valid);
        bool cut = (from > 0 && col < from + DOTS_COLS) || (to < all && col + DOTS_COLS >= to);
        if (col >= from && cut)
            fputc('.', out);
        else if (col >= from)
            print_character(out, at, n, valid);
        at += n;
    }
}

void caret_print(FILE *out, const char *text, size_t len, size_t at)
{
    size_t all = caret_columns(text, len, len);
    size_t caret = caret_columns(text, len, at < len ? at : len);
    size_t from = 0, to = all;
    if (all > SHOWN_COLS) {
        size_t last = all - SHOWN_COLS;
        from = caret < SHOWN_COLS / 2 ? 0 : caret - SHOWN_COLS / 2;
        from = from < last ? from : last;
        to = from + SHOWN_COLS;
    }
    fputs("  ", out);
    print_columns(out, text, len, from, to, all);
    fprintf(out, "\n  %*s\n", (int)(caret - from) + 1, "^");
}
