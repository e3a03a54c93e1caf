/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCESSLOG_OPTIONS_H
#define WEIR_CMD_ACCESSLOG_OPTIONS_H
/* The options that all commands have that read access logs: which files, what of their lines, and
 * in which order. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCESSLOG_REORDER_NS_DEFAULT INT64_C(10000000000)
enum { ACCESSLOG_WHERE_MAX = 64 };

/* Zeroed by the caller, who then calls accesslog_options_set() for each option and
 * accesslog_options_files() once. The texts are those of the command line. */
typedef struct accesslog_options {
    char *const *paths; /* "-" is standard input */
    size_t paths_len;
    const char *format, *key, *cost; /* NULL if not given */
    const char *where[ACCESSLOG_WHERE_MAX];
    size_t wheres;
    int64_t reorder_ns; /* how long requests are held to put them in order; 0: not at all */
    bool reorder_given, strict, no_progress;
} accesslog_options;

/* The rows of these options for getopt_long(), and their values. */
enum {
    ACCESSLOG_OPT_FORMAT = 512,
    ACCESSLOG_OPT_KEY,
    ACCESSLOG_OPT_COST,
    ACCESSLOG_OPT_WHERE,
    ACCESSLOG_OPT_REORDER,
    ACCESSLOG_OPT_STRICT,
    ACCESSLOG_OPT_NO_PROGRESS
};

#define ACCESSLOG_OPTIONS                                                                          \
    {"format", required_argument, NULL, ACCESSLOG_OPT_FORMAT},                                     \
        {"key", required_argument, NULL, ACCESSLOG_OPT_KEY},                                       \
        {"cost", required_argument, NULL, ACCESSLOG_OPT_COST},                                     \
        {"where", required_argument, NULL, ACCESSLOG_OPT_WHERE},                                   \
        {"reorder", required_argument, NULL, ACCESSLOG_OPT_REORDER},                               \
        {"strict", no_argument, NULL, ACCESSLOG_OPT_STRICT},                                       \
    {                                                                                              \
        "no-progress", no_argument, NULL, ACCESSLOG_OPT_NO_PROGRESS                                \
    }

/* Sets the option `c`, one of ACCESSLOG_OPTIONS.
 * Returns 0, or the exit status after printing an error. */
int accesslog_options_set(accesslog_options *o, int c, const char *value);

/* Sets the files, the arguments from `at` on, and the defaults of options that were not given.
 * Returns 0, or the exit status after printing an error. */
int accesslog_options_files(accesslog_options *o, int argc, char **argv, int at);

/* Parses the value of --memory, 1m to 1024g.
 *  ret  in bytes; written only on success.
 * Returns 0, or the exit status after printing an error. */
int accesslog_options_memory(size_t *ret, const char *text);

/* Whether one of the files is standard input. */
bool accesslog_options_stdin(const accesslog_options *o);

#endif
