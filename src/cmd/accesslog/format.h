/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCESSLOG_FORMAT_H
#define WEIR_CMD_ACCESSLOG_FORMAT_H
/* The format of one log: reads its lines, and says what may be wrong if they cannot be read. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/accesslog/options.h"
#include "codec/logline.h"

/* Zeroed by the caller before use. The fields are private. */
typedef struct accesslog_format {
    weir_logline_reader *reader;
    bool doubted;      /* some line could not be read; the fields below describe the first */
    bool key_absent;   /* the line is JSON and lacks only the member that is the key */
    bool json;         /* the line begins with '{' */
    const char *other; /* the format that the line has; NULL: none */
    uint64_t number;   /* its line number */
} accesslog_format;

/* Opens a reader with --format, --key, --cost and --where. The options must outlive it.
 * Returns 0, or the exit status after printing an error. */
int accesslog_format_open(accesslog_format *f, const accesslog_options *o);
void accesslog_format_close(accesslog_format *f);

/* Reads line `number`, as weir_logline_read() does. It prints the error of WEIR_LOGLINE_USAGE, and
 * records the first line that is bad, for the two functions below. */
weir_logline_result accesslog_format_read(accesslog_format *f, const char *line, size_t len,
                                          uint64_t number, weir_log_record *ret,
                                          weir_logline_error *ret_error);

/* Prints warnings: that a skipped line has another format, or that no line has a field of
 * --where. */
void accesslog_format_note(const accesslog_format *f);

/* Prints a hint for a log of which no line could be read. */
void accesslog_format_hint(const accesslog_format *f, const accesslog_options *o);

#endif
