/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Finds the line ends and, in a request line, the spaces and the version. llhttp checks all other
 * bytes. */

#include "codec/http/syntax.h"

#include "port/assert.h"

#include <endian.h>
#include <string.h>

static const char one_blank[] =
    "malformed request line, expected one space before and one after the target";
static const char request_line[] = WEIR_HTTP_BAD_REQUEST_LINE;
static const char http_1[] = WEIR_HTTP_BAD_VERSION;

/* Checks the first byte of a header line. */
static const char *check_begin(char first)
{
    if (first == ' ' || first == '\t')
        return "folded header line, expected each header on one line";
    return first == ':' ? WEIR_HTTP_BAD_HEADER_LINE : NULL;
}

/* Checks the next byte of the version. */
static const char *check_version(weir_http_syntax *l, char c)
{
    static const char form[] = "HTTP/1.1\r";
    enum { MAJOR = 5, MINOR = 7 };
    unsigned i = l->version;
    WEIR_ASSERT(i < sizeof form - 1); /* the check of CR LF allows no byte after CR */
    if (c == form[i] || (c == '0' && i == MINOR)) {
        l->version++;
        return NULL;
    }
    if (c == ' ')
        return one_blank;
    if (c >= '0' && c <= '9' && (i == MAJOR || i == MINOR)) {
        l->status = 505;
        return http_1;
    }
    return request_line;
}

/* Checks the spaces and the version in a part of the request line. CR may only be its last byte.
 *  ret_bad  written on an error: the first byte that breaks a rule. */
static const char *check_request_line(weir_http_syntax *l, const char *at, const char *end,
                                      const char **ret_bad)
{
    char last = l->last;
    const char *begin = at, *error = NULL;
    for (const char *blank; l->blanks < 2 && (blank = memchr(at, ' ', (size_t)(end - at)));
         at = blank + 1) {
        bool doubled = blank > begin ? blank[-1] == ' ' : l->len > 0 && last == ' ';
        if (doubled) {
            *ret_bad = blank;
            return one_blank;
        }
        l->blanks++;
    }
    if (l->blanks < 2)
        return NULL;
    for (; at < end && !error; at++) {
        if ((error = check_version(l, *at)))
            *ret_bad = at;
    }
    return error;
}

/* Returns the first byte below `floor`, or `end`. Compares eight bytes at a time. */
static inline const char *find_below(const char *at, const char *end, uint8_t floor)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    for (uint64_t eight, low; end - at >= 8; at += 8) {
        memcpy(&eight, at, 8);
        eight = le64toh(eight);
        low = (eight - ones * floor) & ~eight & ones * 0x80; /* its lowest bit is exact */
        if (low)
            return at + __builtin_ctzll(low) / 8;
    }
    while (at < end && (uint8_t)*at >= floor)
        at++;
    return at;
}

/* Returns the end of the part of a line that begins at `at`: LF, the byte after a CR, or `end`. */
static const char *find_stop(const weir_http_syntax *l, const char *at, const char *end)
{
    if (l->len > 0 && l->last == '\r')
        return at;
    at = find_below(at, end, '\r' + 1);
    while (at < end && *at != '\r' && *at != '\n')
        at++;
    return at < end && *at == '\r' ? at + 1 : at;
}

/* The fast path for a complete request line "METHOD TARGET HTTP/1.1": returns its end, or NULL if
 * the input does not begin with one. The loop of weir_http_syntax_check() accepts the same line. */
static const char *skip_usual(const char *at, const char *end)
{
    static const char rest[] = " HTTP/1.1\r\n";
    const char *target = find_below(at, end, ' ' + 1);
    if (target == end || *target++ != ' ')
        return NULL;
    const char *blank = find_below(target, end, ' ' + 1);
    bool usual = blank > target && (size_t)(end - blank) >= sizeof rest - 1 &&
                 memcmp(blank, rest, sizeof rest - 1) == 0;
    return usual ? blank + sizeof rest - 1 : NULL;
}

/* Checks the end of a line. `lf` is its LF; its last part begins at `at`. */
static const char *end_line(weir_http_syntax *l, const char *at, const char *lf)
{
    char before = lf > at ? lf[-1] : l->len > 0 ? l->last : '\0';
    bool empty = (size_t)(lf - at) + l->len <= 1;
    if (before != '\r')
        return "expected CR LF at the end of each line, found LF alone";
    if (l->line == WEIR_HTTP_REQUEST_LINE && !empty && l->blanks < 2) {
        l->status = l->blanks == 1 ? 505 : 400; /* "GET /" is HTTP/0.9 */
        return l->blanks == 1 ? http_1 : request_line;
    }
    if (l->line == WEIR_HTTP_FIELD_LINE && empty)
        l->line = WEIR_HTTP_NO_LINE;
    else if (!empty)
        l->line = WEIR_HTTP_FIELD_LINE;
    l->len = l->blanks = l->version = 0;
    return NULL;
}

const char *weir_http_syntax_check(weir_http_syntax *l, const char *at, size_t len,
                                   size_t *ret_good)
{
    const char *begin = at, *end = at + len, *error = NULL;
    l->status = 400;
    if (l->line == WEIR_HTTP_REQUEST_LINE && l->len == 0) {
        const char *usual = skip_usual(at, end);
        l->line = usual ? WEIR_HTTP_FIELD_LINE : l->line;
        at = usual ? usual : at;
    }
    while (at < end && l->line != WEIR_HTTP_NO_LINE && !error) {
        if (l->len == 0 && l->line == WEIR_HTTP_FIELD_LINE && (error = check_begin(*at)))
            break;
        const char *stop = find_stop(l, at, end), *bad = stop, *earlier;
        const char *lf = stop < end && *stop == '\n' ? stop : NULL;
        if (stop < end && !lf)
            error = "expected LF after CR, found another byte";
        if (l->line == WEIR_HTTP_REQUEST_LINE && (earlier = check_request_line(l, at, stop, &bad)))
            error = earlier;
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
