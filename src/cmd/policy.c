/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir policy`: prints what a policy admits, or the position of a syntax error. */

#include "cmd/kit/caret.h"
#include "cmd/kit/commands.h"
#include "cmd/kit/options.h"
#include "service/zone_cache.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: weir policy TEXT...\n"
    "\n"
    "Prints the canonical form of each policy and what it admits. For a wrong text,\n"
    "prints what was expected, and where.\n"
    "\n"
    "  --help  print this text\n"
    "\n"
    "Exit status: 0 all texts are valid, 1 failure, 2 a text is invalid, or wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir policy 'gcra 5/m burst 3'\n"
    "  weir policy 'sliding-log 5/m & fixed-window 100/day tz Europe/Berlin'\n";

static bool report(const weir_zones *zones, const char *text)
{
    weir_policy p;
    weir_policy_error e;
    if (weir_policy_parse(&p, text, strlen(text), zones, &e) != WEIR_OK) {
        caret_policy_error("weir policy", text, &e);
        return false;
    }
    char out[WEIR_POLICY_REPORT_MAX];
    weir_policy_report(&p, out, sizeof out);
    fputs(out, stdout);
    return true;
}

static int run(int texts, char **text)
{
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!cache) {
        fputs("weir policy: out of memory\n", stderr);
        return 1;
    }
    weir_zones zones = weir_zone_cache_zones(cache);
    bool good = true;
    for (int i = 0; i < texts; i++)
        good = report(&zones, text[i]) && good;
    weir_zone_cache_close(cache);
    return good ? 0 : 2;
}

int weir_cmd_policy(int argc, char **argv)
{
    static const struct option known[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    optind = 0;
    int c = options_next("weir policy", argc, argv, known);
    if (c == 'h') {
        fputs(usage, stdout);
        return 0;
    }
    if (c != -1)
        return 2;
    if (optind == argc) {
        fputs("weir policy: TEXT is missing, like 'gcra 5/m burst 3'; see weir policy --help\n",
              stderr);
        return 2;
    }
    return run(argc - optind, argv + optind);
}
