/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_FORMAT_H
#define WEIR_CMD_REPLAY_FORMAT_H
/* Which format the lines of a log have: as the options say, or as the lines look. It must not know
 * what becomes of a line that was read. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/replay/options.h"
#include "codec/logline.h"

#define REPLAY_FORMAT_LIST "combined, common, vhost_combined, vhost_common, tsv or jsonl"

/* Zeroed before use; the fields may be read by anybody. */
typedef struct replay_format {
    bool known;
    weir_logline_format format; /* if known */
    const char *name;           /* its name, if known */
    bool doubted;               /* some line could not be read; of the first of them: */
    bool key_absent;            /* it is JSON, and has all but the key's member */
    const char *other;          /* a format that the line has; or NULL */
    uint64_t number;            /* of that line */
} replay_format;

/* Takes the format of that name, with the options' key and cost.
 * Returns 0; else the exit status, after it said what is wrong, and *f stays as it was. */
int replay_format_set(replay_format *f, const replay_options *o, const char *name);

/* The name of the format that the line seems to have; NULL if there is none.
 *  line     `len` bytes, at least 1.
 *  scratch  a record, as weir_logline_read() wants it. */
const char *replay_format_guess(const char *line, size_t len, weir_log_record *scratch);

/* Learns from line `number`, which could not be read for `error`, what replay_format_hint() and
 * replay_format_note() will say. Only the first such line counts. Else as replay_format_guess(). */
void replay_format_doubt(replay_format *f, const replay_options *o, const char *line, size_t len,
                         uint64_t number, const weir_logline_error *error,
                         weir_log_record *scratch);

/* Says on standard error that a line which was left out has another format, if so. */
void replay_format_note(const replay_format *f);

/* Says on standard error what might help if no line could be read. */
void replay_format_hint(const replay_format *f, const replay_options *o);

#endif
