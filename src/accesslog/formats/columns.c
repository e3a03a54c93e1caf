/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Splits lines into cells. A cell is copied only if its text has doubled quotes. */

#include "accesslog/formats/formats.h"

#include "port/assert.h"

#include <stdio.h>

enum { TEXT_MAX = 1 << 20 };

static const char expect_header[] =
    "the names of the columns, one of which is a time: t_ns, time, ts, timestamp, @timestamp, "
    "time_local, time_iso8601, msec, datetime, or time_ms, time_us or time_ns";
static const char expect_time[] = "the names of the columns, one of which is that of --time";
static const char expect_close[] =
    "a closing quote, then a separator; a line break cannot be quoted";

void log_table_free(log_table *t)
{
    weir_buffer_free(&t->names);
    weir_buffer_free(&t->text);
}

/* Returns the end of the cell that begins at `at`; NULL if its quotes are not closed, or text
 * follows them. */
static const char *end_of_cell(char separator, const char *at, const char *end)
{
    if (separator == '\t' || at == end || *at != '"') {
        const char *found = log_find(at, end, separator);
        return found ? found : end;
    }
    for (at++;;) {
        at = log_find(at, end, '"');
        if (!at)
            return NULL;
        if (at + 1 == end || at[1] == separator)
            return at + 1;
        if (at[1] != '"')
            return NULL;
        at += 2;
    }
}

/* Splits a line into cells.
 *  ret        LOG_COLUMNS_MAX.
 *  ret_place  where a cell is wrong.
 * Returns how many; LOG_COLUMNS_MAX + 1 if there are more; 0 for a cell that is wrong. */
static size_t split(char separator, const char *at, const char *end, weir_slice *ret,
                    const char **ret_place)
{
    for (size_t n = 0;; n++) {
        const char *cell_end = end_of_cell(separator, at, end);
        *ret_place = at;
        if (!cell_end)
            return 0;
        if (n == LOG_COLUMNS_MAX)
            return n + 1;
        ret[n] = log_between(at, cell_end);
        if (cell_end == end)
            return n + 1;
        at = cell_end + 1;
    }
}

/* The text between the quotes, in which a quote is still doubled. */
static weir_slice unquoted(char separator, weir_slice cell)
{
    bool quoted =
        separator != '\t' && cell.len >= 2 && *cell.at == '"' && cell.at[cell.len - 1] == '"';
    return quoted ? log_between(cell.at + 1, cell.at + cell.len - 1) : cell;
}

/* Finds the most preferred column that is a time. Returns `columns` if there is none. */
static size_t find_time(const weir_logtime_name *times, const weir_slice *name, size_t columns,
                        int64_t *ret_unit_ns)
{
    for (const weir_logtime_name *t = times; t->name; t++)
        for (size_t i = 0; i < columns; i++)
            if (log_is(name[i], t->name)) {
                *ret_unit_ns = t->unit_ns;
                return i;
            }
    return columns;
}

/* Splits the names. Returns how many; 0 if they are not names of columns. */
static size_t split_names(char separator, const char *line, const char *end, weir_slice *ret)
{
    const char *place;
    size_t n = split(separator, line, end, ret, &place);
    for (size_t i = 0; i < n && n <= LOG_COLUMNS_MAX; i++) {
        while (ret[i].len > 0 && *ret[i].at == ' ')
            ret[i] = (weir_slice){ret[i].at + 1, ret[i].len - 1};
        while (ret[i].len > 0 && ret[i].at[ret[i].len - 1] == ' ')
            ret[i].len--;
        ret[i] = unquoted(separator, ret[i]);
    }
    return n <= LOG_COLUMNS_MAX ? n : 0;
}

bool log_table_is_header(const log_table *t, const char *line, const char *end)
{
    weir_slice name[LOG_COLUMNS_MAX];
    int64_t unit_ns;
    size_t n = split_names(t->separator, line, end, name);
    return n >= 2 && find_time(t->times, name, n, &unit_ns) < n;
}

weir_status log_table_header(log_table *t, const char *line, const char *end, weir_logline_error *e)
{
    if (!log_table_is_header(t, line, end)) {
        log_fail(line, line, t->times == weir_logtime_names ? expect_header : expect_time, e);
        return WEIR_E_SYNTAX;
    }
    weir_buffer_init(&t->names, TEXT_MAX + 2);
    weir_buffer_init(&t->text, TEXT_MAX + 2);
    weir_buffer_append(&t->names, line, (size_t)(end - line));
    if (t->names.failed)
        return WEIR_E_NOMEM;
    const char *names = (const char *)weir_buffer_data(&t->names);
    t->columns = split_names(t->separator, names, names + (end - line), t->name);
    t->time_column = find_time(t->times, t->name, t->columns, &t->unit_ns);
    t->known = true;
    return WEIR_OK;
}

size_t log_table_find(const log_table *t, const log_name *name)
{
    size_t column = t->columns;
    for (size_t i = t->columns; i-- > 0;) {
        const weir_slice *other = &t->name[i];
        if (other->len == name->text.len && memcmp(other->at, name->text.at, other->len) == 0)
            return i;
        if (name->field < LOG_FIELDS && log_field_find(other->at, other->len) == name->field)
            column = i;
    }
    return column;
}

bool log_table_is_twice(const log_table *t, size_t column)
{
    WEIR_ASSERT(column < t->columns);
    const weir_slice *name = &t->name[column];
    for (size_t i = 0; i < t->columns; i++)
        if (i != column && t->name[i].len == name->len &&
            memcmp(t->name[i].at, name->at, name->len) == 0)
            return true;
    return false;
}

bool log_table_read(log_table *t, const char *line, const char *end, int64_t *ret_ns,
                    weir_logline_error *e)
{
    const char *place = line;
    size_t n = split(t->separator, line, end, t->cell, &place);
    t->line = line;
    t->no_memory = false;
    if (n == 0)
        return log_fail(line, place, expect_close, e);
    if (n != t->columns) {
        log_fail(line, n > t->columns && n <= LOG_COLUMNS_MAX ? t->cell[t->columns].at : end,
                 "as many columns as there are names in the first line", e);
        snprintf(e->detail, sizeof e->detail, "%zu, found %s%zu", t->columns,
                 n > LOG_COLUMNS_MAX ? "more than " : "", n > LOG_COLUMNS_MAX ? n - 1 : n);
        return false;
    }
    weir_slice time = unquoted(t->separator, t->cell[t->time_column]);
    weir_status st = weir_logtime_any(time.at, time.at + time.len, t->unit_ns, ret_ns);
    if (st == WEIR_E_RANGE)
        return log_fail(line, time.at, log_expect_time_range, e);
    if (st != WEIR_OK)
        return log_fail(line, time.at, weir_logtime_expected, e);
    return true;
}

weir_slice log_table_value(log_table *t, size_t column)
{
    WEIR_ASSERT(t->known && column < t->columns);
    weir_slice cell = t->cell[column];
    weir_slice text = unquoted(t->separator, cell);
    if (text.len == cell.len || !log_find(text.at, text.at + text.len, '"'))
        return text;
    weir_buffer_clear(&t->text);
    for (const char *at = text.at, *end = at + text.len; at < end;) {
        const char *quote = log_find(at, end, '"');
        const char *next = quote ? quote + 1 : end;
        weir_buffer_append(&t->text, at, (size_t)(next - at));
        at = quote ? quote + 2 : end;
    }
    if (t->text.failed) {
        t->no_memory = true;
        return (weir_slice){0};
    }
    return (weir_slice){(const char *)weir_buffer_data(&t->text), weir_buffer_len(&t->text)};
}
