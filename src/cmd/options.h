/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_OPTIONS_H
#define WEIR_CMD_OPTIONS_H
/* What all commands say alike about a wrong option. It must not know any command. */

#include <getopt.h>

/* Reads the next option as getopt_long() does, with -h beside the long ones. At the first option of
 * a command `optind` is 0.
 *  command  "weir take": what messages begin with.
 * Returns the option's value, 'h' for help; -1 if there is none left; '?' for a wrong one, after it
 * said what was expected. */
int options_next(const char *command, int argc, char **argv, const struct option *known);

#endif
