/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One pass over the lines. It looks for line ends, and in a request line for blanks; all other
 * bytes are llhttp's to judge. */

#include "codec/http_lines.h"

#include <string.h>

/* Checks the first byte of a header line. */
static const char *check_begin(char first)
{
    if (first == ' ' || first == '\t')
        return "a header line is folded: expected each header on one line";
    return first == ':' ? "expected header lines such as NAME: VALUE" : NULL;
}

/* Checks the blanks of a part of the request line.
 *  ret_bad  written on an error: the blank that may not be there. */
static const char *check_blanks(weir_http_lines *l, const char *at, const char *end,
                                const char **ret_bad)
{
    char last = l->last;
    const char *begin = at;
    for (const char *blank; (blank = memchr(at, ' ', (size_t)(end - at))); at = blank + 1) {
        bool doubled = blank > begin ? blank[-1] == ' ' : l->len > 0 && last == ' ';
        if (doubled || ++l->blanks > 2) {
            *ret_bad = blank;
            return "expected one blank before and one after the target of the request line";
        }
    }
    return NULL;
}

/* Goes over `lf`, the end of a line that began or continued at `at`. */
static const char *end_line(weir_http_lines *l, const char *at, const char *lf)
{
    char before = lf > at ? lf[-1] : l->len > 0 ? l->last : '\0';
    bool empty = (size_t)(lf - at) + l->len <= 1;
    if (before != '\r')
        return "expected CR LF at the end of a line, found LF alone";
    if (l->line == WEIR_HTTP_FIELD_LINE && empty)
        l->line = WEIR_HTTP_NO_LINE;
    else if (!empty)
        l->line = WEIR_HTTP_FIELD_LINE;
    l->len = l->blanks = 0;
    return NULL;
}

const char *weir_http_lines_check(weir_http_lines *l, const char *at, size_t len, size_t *ret_good)
{
    const char *begin = at, *end = at + len, *error = NULL;
    while (at < end && l->line != WEIR_HTTP_NO_LINE && !error) {
        if (l->len == 0 && l->line == WEIR_HTTP_FIELD_LINE && (error = check_begin(*at)))
            break;
        const char *lf = memchr(at, '\n', (size_t)(end - at)), *stop = lf ? lf : end;
        const char *bad = stop;
        if (l->line == WEIR_HTTP_REQUEST_LINE)
            error = check_blanks(l, at, stop, &bad);
        if (!error && lf)
            error = end_line(l, at, lf);
        else if (!error)
            l->len = (uint8_t)((size_t)(end - at) + l->len > 1 ? 2 : end - at + l->len);
        if (!error && !lf)
            l->last = end[-1];
        at = error ? bad : lf ? lf + 1 : end;
    }
    *ret_good = (size_t)(at - begin);
    return error;
}
