/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_ACCESSLOG_H
#define WEIR_ACCESSLOG_ACCESSLOG_H
/* The requests of access logs in the order of time, for the commands that decide them again.
 * Several files are merged. It prints the lines that it cannot read, and shows the progress bar.
 *
 * Each file is put in order within --reorder, and the files are then merged by time: at equal times
 * the earlier file of the command line is first, and a file's requests of the same time stay in the
 * order of its lines. So a request of each file is compared, and no file is read further than
 * needed. For one thread. */

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "accesslog/formats/logline.h"
#include "accesslog/options.h"
#include "port/text.h"

typedef struct accesslog accesslog;

typedef struct accesslog_request {
    int64_t t_ns; /* the time in the log */
    int64_t
        now_ns; /* the time of the decision: t_ns, or the latest time before, if that is later */
    weir_slice key;   /* 1..WEIR_LOGLINE_KEY_LEN_MAX bytes, valid until the next call */
    int64_t cost;     /* 0..INT64_MAX; may exceed WEIR_COST_MAX */
    const char *file; /* for messages: where the request is */
    uint64_t line;
} accesslog_request;

/* Counts so far, of all files. */
typedef struct accesslog_counts {
    uint64_t lines;    /* all lines, also empty ones */
    uint64_t requests; /* returned by accesslog_next() */
    uint64_t bad;      /* lines that could not be read */
    uint64_t left_out; /* requests for which a --where does not hold */
    uint64_t late;     /* requests whose now_ns differs from t_ns */
} accesslog_counts;

/* Counts so far, of one file. */
typedef struct accesslog_file {
    const char *name; /* the path, or "<stdin>" */
    uint64_t lines, requests, bad, left_out;
} accesslog_file;

typedef enum accesslog_status {
    ACCESSLOG_REQUEST,
    ACCESSLOG_END,
    ACCESSLOG_ERROR /* already printed */
} accesslog_status;

/* Opens the files of the options, which must outlive the source.
 *  ret  free it with accesslog_close(), also after a failure.
 * Returns 0, or the exit status after printing an error. */
int accesslog_open(accesslog **ret, const accesslog_options *o);
void accesslog_close(accesslog *a); /* accepts NULL */

/* Reads the next request. It is an error if the files together have no request.
 *  ret  written only on ACCESSLOG_REQUEST. */
accesslog_status accesslog_next(accesslog *a, accesslog_request *ret);

/* The exit status of the command after ACCESSLOG_ERROR. */
int accesslog_exit_status(const accesslog *a);

/* Shows the progress bar from now on, if standard error is a terminal and the options allow it. */
void accesslog_progress(accesslog *a);

/* Erases the progress bar before another message is printed. */
void accesslog_progress_erase(accesslog *a);

accesslog_counts accesslog_counts_get(const accesslog *a);

/* The number of files, and the file `i` of the command line, 0..n-1. */
size_t accesslog_files(const accesslog *a);
accesslog_file accesslog_file_get(const accesslog *a, size_t i);

/* Prints what a reader must know of the log: lines left out, and requests out of order. */
void accesslog_notes(const accesslog *a);

#endif
