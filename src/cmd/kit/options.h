/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_OPTIONS_H
#define WEIR_CMD_KIT_OPTIONS_H
/* Command line options, with the same error messages for all commands. */

#include <getopt.h>

/* Reads the next option with getopt_long(); -h is short for --help. Set `optind` to 0 before the
 * first option.
 *  command  for messages: "weir take".
 * Returns the option's value; 'h' for help; -1 after the last option; '?' for an invalid option,
 * after printing an error. */
int options_next(const char *command, int argc, char **argv, const struct option *known);

#endif
