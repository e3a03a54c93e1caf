/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCESSLOG_READER_H
#define WEIR_CMD_ACCESSLOG_READER_H
/* The requests of one log file, put in order by a reorder buffer. Reports the lines that it cannot
 * read. Each file has its own reader, because each may have another format. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/accesslog/format.h"
#include "cmd/accesslog/input.h"
#include "cmd/accesslog/messages.h"
#include "cmd/accesslog/options.h"
#include "cmd/accesslog/reorder.h"
#include "cmd/accesslog/source.h"

/* What the readers of a run share. */
typedef struct accesslog_shared {
    const accesslog_options *options;
    const struct accesslog_reader *readers; /* all of them */
    size_t readers_len;
    accesslog_progress_bar progress;
    uint64_t lines;     /* read by all readers */
    uint64_t bad_shown; /* messages printed about single lines */
    int exit_status;    /* after ACCESSLOG_ERROR */
} accesslog_shared;

/* A request of the file. */
typedef struct accesslog_reader_request {
    int64_t t_ns;
    weir_slice key;
    int64_t cost;
    uint64_t line;
} accesslog_reader_request;

/* Callers may read the fields above "Private". */
typedef struct accesslog_reader {
    accesslog_file counts;            /* the source counts the requests */
    accesslog_reader_request request; /* the current one */
    int64_t ahead_ns_max;             /* by how much a line was dated after a later one; 0: never */
    uint64_t ahead_number, behind_number; /* these two lines */
    accesslog_input in;
    accesslog_format format;
    /* Private: */
    accesslog_shared *shared;
    weir_log_record record;
    accesslog_reorder reorder;
    bool header;          /* a line was a comment or had the names of columns */
    bool held;            /* `request` is in `reorder` */
    accesslog_status end; /* ACCESSLOG_REQUEST while there may be more lines */
    int64_t latest_ns;
    uint64_t latest_number; /* the line that set latest_ns */
} accesslog_reader;

/* Opens the file `path`, which must outlive the reader like `shared`. The readers of a run share
 * the limit of held requests.
 * Returns 0, or the exit status after printing an error. */
int accesslog_reader_open(accesslog_reader *r, accesslog_shared *shared, const char *path);
void accesslog_reader_close(accesslog_reader *r); /* accepts zeros */

/* Reads the next request in the order of time into r->request, whose key is valid until the next
 * call. A reader without requests is no error here. */
accesslog_status accesslog_reader_next(accesslog_reader *r);

/* Prints that no line of the file could be read, with a guess at the reason.
 *  prefix  "" or "WARNING: ". */
void accesslog_reader_complain_nothing(const accesslog_reader *r, const char *prefix);

#endif
