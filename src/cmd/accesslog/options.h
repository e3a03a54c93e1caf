/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCESSLOG_OPTIONS_H
#define WEIR_CMD_ACCESSLOG_OPTIONS_H
/* The options that all commands have that read access logs: which files, and what of their lines. */

#include <stdbool.h>
#include <stddef.h>

typedef struct accesslog_options {
    const char *path;                /* "-" is standard input */
    const char *format, *key, *cost; /* NULL if not given */
    bool strict, no_progress;
} accesslog_options;

/* The rows of these options for getopt_long(), and their values. */
enum {
    ACCESSLOG_OPT_FORMAT = 512,
    ACCESSLOG_OPT_KEY,
    ACCESSLOG_OPT_COST,
    ACCESSLOG_OPT_STRICT,
    ACCESSLOG_OPT_NO_PROGRESS
};

#define ACCESSLOG_OPTIONS                                                                          \
    {"format", required_argument, NULL, ACCESSLOG_OPT_FORMAT},                                     \
        {"key", required_argument, NULL, ACCESSLOG_OPT_KEY},                                       \
        {"cost", required_argument, NULL, ACCESSLOG_OPT_COST},                                     \
        {"strict", no_argument, NULL, ACCESSLOG_OPT_STRICT},                                       \
    {                                                                                              \
        "no-progress", no_argument, NULL, ACCESSLOG_OPT_NO_PROGRESS                                \
    }

/* Sets the option `c`, one of ACCESSLOG_OPTIONS.
 * Returns 0, or the exit status after printing an error. */
int accesslog_options_set(accesslog_options *o, int c, const char *value);

/* Sets the files: the arguments from `at` on.
 * Returns 0, or the exit status after printing an error. */
int accesslog_options_files(accesslog_options *o, int argc, char **argv, int at);

#endif
