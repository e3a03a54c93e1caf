/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Replaces the messages of getopt_long(). */

#define _GNU_SOURCE /* getopt_long */

#include "cmd/kit/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void print_expected(const char *command, const struct option *known)
{
    fputs(", expected ", stderr);
    for (size_t i = 0; known[i].name; i++) {
        const char *before = i == 0 ? "" : known[i + 1].name ? ", " : " or ";
        fprintf(stderr, "%s--%s", before, known[i].name);
    }
    fprintf(stderr, "; see %s --help\n", command);
}

/* Whether `found` is --NAME=... of the option whose `val` is `value`. */
static bool has_value(const char *found, int value, const struct option *known)
{
    for (; known->name; known++) {
        size_t len = strcspn(found, "=");
        if (known->val == value && found[len] == '=' && len > 2 &&
            strncmp(known->name, found + 2, len - 2) == 0)
            return true;
    }
    return false;
}

int options_next(const char *command, int argc, char **argv, const struct option *known)
{
    int c = getopt_long(argc, argv, ":h", known, NULL); /* the colon silences getopt */
    if (c != '?' && c != ':')
        return c;
    /* An unknown letter is in optopt; `found` may have several letters, such as -zx. */
    const char *found = argv[optind - 1];
    if (c == ':') {
        fprintf(stderr, "%s: %s needs a value\n", command, found);
    } else if (has_value(found, optopt, known)) {
        fprintf(stderr, "%s: %s: the option takes no value\n", command, found);
    } else if (optopt >= '0' && optopt <= '9') { /* a negative number */
        fprintf(stderr, "%s: unknown option '%s'; to pass it as an argument, write -- before it\n",
                command, found);
    } else {
        if (optopt)
            fprintf(stderr, "%s: unknown option '-%c'", command, optopt);
        else
            fprintf(stderr, "%s: unknown option '%s'", command, found);
        print_expected(command, known);
    }
    return '?';
}
