/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* getopt_long(), with messages of our own. */

#define _GNU_SOURCE /* getopt_long */

#include "cmd/options.h"

#include <stdio.h>

static void say_expected(const char *command, const struct option *known)
{
    fputs(", expected ", stderr);
    for (size_t i = 0; known[i].name; i++) {
        const char *before = i == 0 ? "" : known[i + 1].name ? ", " : " or ";
        fprintf(stderr, "%s--%s", before, known[i].name);
    }
    fprintf(stderr, "; see %s --help\n", command);
}

int options_next(const char *command, int argc, char **argv, const struct option *known)
{
    opterr = 0;
    int c = getopt_long(argc, argv, ":h", known, NULL);
    if (c != '?' && c != ':')
        return c;
    const char *found = argv[optind - 1]; /* not for letters: others may follow, as in -zx */
    if (c == ':') {
        fprintf(stderr, "%s: %s needs a value\n", command, found);
    } else if (optopt >= 256 || (optopt == 'h' && found[1] == '-')) {
        fprintf(stderr, "%s: %s: it takes no value\n", command, found);
    } else {
        if (optopt > 0)
            fprintf(stderr, "%s: unknown option '-%c'", command, optopt);
        else
            fprintf(stderr, "%s: unknown option '%s'", command, found);
        say_expected(command, known);
    }
    return '?';
}
