/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir policy`: says what a policy text admits, or where it is wrong. */

#include "cmd/cmd.h"
#include "cmd/policy_error.h"
#include "service/zones.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "weir policy 'TEXT' ...\n"
    "\n"
    "Prints the canonical form of each policy and what it admits.\n"
    "\n"
    "Examples:\n"
    "  weir policy 'gcra 5/m burst 3'\n"
    "  weir policy 'sliding-log 5/m & fixed-window 100/day tz Europe/Berlin'\n";

static bool report(const weir_zones *zones, const char *text)
{
    weir_policy p;
    weir_policy_error e;
    if (weir_policy_parse(&p, text, strlen(text), zones, &e) != WEIR_OK) {
        policy_error_print("weir policy", text, &e);
        return false;
    }
    char out[WEIR_POLICY_REPORT_MAX];
    weir_policy_report(&p, out, sizeof out);
    fputs(out, stdout);
    return true;
}

int weir_cmd_policy(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    weir_zone_book *book = weir_zone_book_open(WEIR_ZONEINFO_DIR);
    if (!book) {
        fputs("weir policy: out of memory\n", stderr);
        return 1;
    }
    weir_zones zones = weir_zone_book_zones(book);
    bool good = true;
    for (int i = 1; i < argc; i++)
        good = report(&zones, argv[i]) && good;
    weir_zone_book_close(book);
    return good ? 0 : 2;
}
