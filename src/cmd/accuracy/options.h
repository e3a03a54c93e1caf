/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCURACY_OPTIONS_H
#define WEIR_CMD_ACCURACY_OPTIONS_H
/* The command line of `weir accuracy`. */

#include <stdbool.h>
#include <stddef.h>

#include "cmd/accesslog/options.h"
#include "cmd/accuracy/measure.h"
#include "cmd/accuracy/traffic.h"

extern const char accuracy_help[];

typedef struct accuracy_options {
    const char *limit;                         /* as given, or the default */
    const char *rate;                          /* NULL: the limit */
    const char *policy[ACCURACY_POLICIES_MAX]; /* those of --policy */
    size_t policies;
    accuracy_against against;
    bool generated; /* --traffic, else a log */
    traffic_options traffic;
    accesslog_options log;
    bool json, help;
} accuracy_options;

/* Parses the command line. *ret points into argv.
 *  ret  written only on success. If `help` is set, the other fields are unspecified. The rate and
 *       the period of `traffic` are not set: accuracy_measure_open() parses `limit` and `rate`.
 * Returns 0, or the exit status after printing an error. */
int accuracy_options_read(accuracy_options *ret, int argc, char **argv);

/* Parses the limit, the rate and the policies.
 *  o    its traffic gets the rate.
 *  ret  initialised.
 * Returns 0, or the exit status after printing an error. */
int accuracy_measure_open(accuracy_measure *ret, accuracy_options *o);

#endif
