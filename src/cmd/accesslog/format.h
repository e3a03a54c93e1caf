/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCESSLOG_FORMAT_H
#define WEIR_CMD_ACCESSLOG_FORMAT_H
/* The format of a log: the one of --format, or the one detected from the first line. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/accesslog/options.h"
#include "codec/logline.h"

#define ACCESSLOG_FORMAT_LIST "combined, common, vhost_combined, vhost_common, tsv or jsonl"

/* Zeroed by the caller before use. Callers may read all fields. */
typedef struct accesslog_format {
    bool known;
    weir_logline_format format; /* if known */
    const char *name;           /* its name, if known */
    bool doubted;      /* some line could not be read; the fields below describe the first */
    bool key_absent;   /* the line is JSON and lacks only the member that is the key */
    const char *other; /* a format in which it can be read; NULL: none */
    uint64_t number;   /* its line number */
} accesslog_format;

/* Sets the format by name, with --key and --cost.
 * Returns 0, or the exit status after printing an error; then *f is unchanged. */
int accesslog_format_set(accesslog_format *f, const accesslog_options *o, const char *name);

/* Detects the format of a line. Returns its name, or NULL if no format fits.
 *  line     `len` bytes, at least 1.
 *  scratch  a record for weir_logline_read(). */
const char *accesslog_format_guess(const char *line, size_t len, weir_log_record *scratch);

/* Records line `number`, which could not be read because of `error`, for accesslog_format_hint() and
 * accesslog_format_note(). Only the first such line is recorded. The other parameters are those of
 * accesslog_format_guess(). */
void accesslog_format_doubt(accesslog_format *f, const accesslog_options *o, const char *line,
                            size_t len, uint64_t number, const weir_logline_error *error,
                            weir_log_record *scratch);

/* Prints a warning if a skipped line has another format. */
void accesslog_format_note(const accesslog_format *f);

/* Prints a hint for a log of which no line could be read. */
void accesslog_format_hint(const accesslog_format *f, const accesslog_options *o);

#endif
