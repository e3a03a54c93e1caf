/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOG_TABLE_H
#define WEIR_CODEC_LOG_TABLE_H
/* Lines of columns: csv, with the quotes of RFC 4180, and tsv, whose text is literal. The first
 * line has the names of the columns. */

#include "codec/log_line.h"
#include "codec/log_names.h"
#include "port/buffer.h"

#define LOG_COLUMNS_MAX 256

/* Zeroed by the caller. */
typedef struct log_table {
    char separator;              /* set by the caller */
    bool known;                  /* the names of the columns are known */
    size_t columns, time_column; /* if known */
    int64_t unit_ns;             /* of the time; 0: see weir_logtime_number() */
    weir_buffer names;           /* the line of names */
    weir_slice name[LOG_COLUMNS_MAX];
    const char *line;
    weir_slice cell[LOG_COLUMNS_MAX]; /* of the current line, with its quotes */
    weir_buffer text;                 /* a cell without its quotes */
} log_table;

void log_table_free(log_table *t);

/* Whether the line may be the names of columns: two or more, one of which is a time. */
bool log_table_is_header(char separator, const char *line, const char *end);

/* Reads the names. Returns WEIR_OK; WEIR_E_SYNTAX after writing *e; WEIR_E_NOMEM. */
weir_status log_table_header(log_table *t, const char *line, const char *end,
                             weir_logline_error *e);

/* The column of a name: exactly this, or another name of the same field. Returns `columns` if there
 * is none. */
size_t log_table_find(const log_table *t, const log_name *name);

/* Whether another column has the same name. */
bool log_table_is_twice(const log_table *t, size_t column);

/* Splits a line, and reads its time. Returns false after writing *e. */
bool log_table_read(log_table *t, const char *line, const char *end, int64_t *ret_ns,
                    weir_logline_error *e);

/* The text of a cell, valid until the next call. `at` is NULL without memory. */
weir_slice log_table_value(log_table *t, size_t column);

#endif
