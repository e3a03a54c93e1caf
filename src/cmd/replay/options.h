/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_OPTIONS_H
#define WEIR_CMD_REPLAY_OPTIONS_H
/* The command line of `weir replay`. It must not know what the words given mean: policies, formats
 * and fields are read elsewhere. */

#include <stdbool.h>
#include <stddef.h>

#define REPLAY_POLICIES_MAX 64

extern const char replay_help[];

typedef struct replay_options {
    const char *policy[REPLAY_POLICIES_MAX];
    size_t policies;
    const char *config, *format, *key, *cost; /* NULL if not given */
    const char *path;
    size_t top;
    bool decisions, strict, no_progress, help;
} replay_options;

/* Reads the command line; what it points to is kept by reference.
 *  ret  written only if the answer is 0.
 * Returns 0, or the exit status, after it said what is wrong. With `help` set nothing else counts;
 * else there are a path and 1..REPLAY_POLICIES_MAX policies. */
int replay_options_read(replay_options *ret, int argc, char **argv);

#endif
