/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Printing untrusted text. Control characters are removed, because a terminal would obey them. */

#include "cmd/kit/caret.h"

#include "port/assert.h"
#include "port/text.h"

#include <inttypes.h>
#include <string.h>

enum { SHOWN_COLS = 76, DOTS_COLS = 3 };

static void print_character(FILE *out, const char *at, size_t len, bool valid)
{
    if (!valid)
        fputc('?', out);
    else if (weir_utf8_is_control(at, len))
        fputc(' ', out);
    else
        fwrite(at, 1, len, out);
}

void caret_text(FILE *out, const char *text, size_t len)
{
    bool valid;
    for (size_t at = 0, n; at < len; at += n) {
        n = weir_utf8_len(text + at, len - at, &valid);
        print_character(out, text + at, n, valid);
    }
}

size_t caret_columns(const char *text, size_t len, size_t at)
{
    size_t cols = 0, from = 0;
    bool valid;
    while (from < at && (from += weir_utf8_len(text + from, len - from, &valid)) <= at)
        cols++;
    return cols;
}

/* Prints columns from..to - 1 of `all`, with dots at an end where the text is cut. */
static void print_columns(FILE *out, const char *text, size_t len, size_t from, size_t to,
                          size_t all)
{
    bool valid;
    for (size_t at = 0, col = 0, n; at < len && col < to; col++, at += n) {
        n = weir_utf8_len(text + at, len - at, &valid);
        bool cut = (from > 0 && col < from + DOTS_COLS) || (to < all && col + DOTS_COLS >= to);
        if (col >= from && cut)
            fputc('.', out);
        else if (col >= from)
            print_character(out, text + at, n, valid);
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
    WEIR_ASSERT(from <= caret && caret <= to && to <= all);
    fputs("  ", out);
    print_columns(out, text, len, from, to, all);
    fprintf(out, "\n  %*s\n", (int)(caret - from) + 1, "^");
}

void caret_policy_error(const char *prefix, const char *text, const weir_policy_error *error)
{
    fprintf(stderr, "%s: column %" PRIu32 ": %s\n", prefix, error->column, error->text);
    caret_print(stderr, text, strlen(text), error->column > 0 ? error->column - 1 : 0);
}
