/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_OPTIONS_H
#define WEIR_CMD_REPLAY_OPTIONS_H
/* The command line of `weir replay`. Policies, formats and fields are kept as text here and parsed
 * elsewhere. */

#include <stdbool.h>
#include <stddef.h>

#include "accesslog/options.h"

#define REPLAY_POLICIES_MAX 64

typedef struct replay_options {
    const char *policy[REPLAY_POLICIES_MAX];
    size_t policies;
    const char *config, *html; /* NULL if not given */
    accesslog_options log;
    size_t top;
    size_t memory_bytes; /* the largest store */
    bool decisions, json;
} replay_options;

/* Parses the command line. *ret points into argv.
 *  ret  unspecified after an error. Unless log.help is set, there are a path and
 *       1..REPLAY_POLICIES_MAX policies.
 * Returns 0, or the exit status after printing an error. */
int replay_options_read(replay_options *ret, int argc, char **argv);

#endif
