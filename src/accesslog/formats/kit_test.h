/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_FORMATS_KIT_TEST_H
#define WEIR_ACCESSLOG_FORMATS_KIT_TEST_H
/* Tables of lines for the tests of log lines: each row is a line, and what is read of it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "accesslog/formats/logline.h"

#define S   INT64_C(1000000000)
#define BAD WEIR_LOGLINE_BAD

/* Opens a reader. The options must be right. */
static inline weir_logline_reader *open_reader(const char *format, const char *key,
                                               const char *cost)
{
    weir_logline_options o = {.format = format, .key = key, .cost = cost};
    weir_logline_reader *r = NULL;
    weir_logline_error e;
    char text[500] = "";
    if (weir_logline_open(&r, &o, &e) != WEIR_OK) {
        weir_logline_error_text(&e, text, sizeof text);
        fail_msg("%s", text);
    }
    return r;
}

/* Parses a copy of the line that fills its allocation, so that ASan detects a read beyond its end.
 * The key then points into *ret_copy, which the caller frees. */
static inline weir_logline_result read_copy(weir_logline_reader *r, const char *line, size_t len,
                                            weir_log_record *ret, weir_logline_error *e,
                                            char **ret_copy)
{
    *ret_copy = malloc(len + (len == 0));
    if (len > 0)
        memcpy(*ret_copy, line, len);
    return weir_logline_read(r, *ret_copy, len, ret, e);
}

typedef struct row {
    const char *kind, *key, *cost;
    const char *line;     /* behind lines that have no request, which end with LF */
    int64_t t_ns;         /* for an error: BAD */
    const char *want_key; /* for an error: its text */
    int64_t want_cost;
} line_row;

/* Reads the lines before the last one, which must have no request. Returns the last. */
static inline const char *read_header(weir_logline_reader *reader, const char *lines)
{
    weir_log_record r;
    weir_logline_error e;
    for (const char *lf; (lf = strchr(lines, '\n')); lines = lf + 1)
        assert_int_equal(weir_logline_read(reader, lines, (size_t)(lf - lines), &r, &e),
                         WEIR_LOGLINE_HEADER);
    return lines;
}

static inline void check_row(const line_row *row, bool good, const char *end)
{
    weir_logline_reader *reader = open_reader(row->kind, row->key, row->cost);
    weir_log_record r = {.t_ns = -5, .cost = -5};
    weir_logline_error e;
    char text[700] = "", line[900], *copy = NULL;
    snprintf(line, sizeof line, "%s%s", read_header(reader, row->line), end);
    weir_logline_result got = read_copy(reader, line, strlen(line), &r, &e, &copy);
    if (got == WEIR_LOGLINE_BAD)
        weir_logline_error_text(&e, text, sizeof text);
    if (good && got != WEIR_LOGLINE_REQUEST)
        fail_msg("%s: %d %s", row->line, got, text);
    if (good) {
        if (r.t_ns != row->t_ns || r.cost != row->want_cost || r.key_len != strlen(row->want_key) ||
            memcmp(r.key, row->want_key, r.key_len) != 0)
            fail_msg("%s: %lld '%.*s' %lld", row->line, (long long)r.t_ns, (int)r.key_len, r.key,
                     (long long)r.cost);
    } else {
        if (got != WEIR_LOGLINE_BAD)
            fail_msg("%s: %d", row->line, got);
        assert_string_equal(text, row->want_key);
        assert_true(r.t_ns == -5 && r.cost == -5 && !r.key && r.key_len == 0);
    }
    weir_logline_close(reader);
    free(copy);
}

static inline void check_rows(const line_row *rows, size_t n, bool good)
{
    for (size_t i = 0; i < n; i++) {
        check_row(&rows[i], good, "");
        check_row(&rows[i], good, "\n");
        check_row(&rows[i], good, "\r\n");
        check_row(&rows[i], good, "\r");
    }
}

#define CHECK(rows, good) check_rows(rows, sizeof rows / sizeof rows[0], good)

#endif
