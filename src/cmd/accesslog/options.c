/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads the options for access logs. */

#include "cmd/accesslog/options.h"

#include "cmd/accesslog/messages.h"

int accesslog_options_set(accesslog_options *o, int c, const char *value)
{
    switch (c) {
    case ACCESSLOG_OPT_FORMAT:
        o->format = value;
        return 0;
    case ACCESSLOG_OPT_KEY:
        o->key = value;
        return 0;
    case ACCESSLOG_OPT_COST:
        o->cost = value;
        return 0;
    case ACCESSLOG_OPT_STRICT:
        o->strict = true;
        return 0;
    default: /* ACCESSLOG_OPT_NO_PROGRESS */
        o->no_progress = true;
        return 0;
    }
}

int accesslog_options_files(accesslog_options *o, int argc, char **argv, int at)
{
    if (at == argc)
        return accesslog_complain(ACCESSLOG_USAGE, "FILE is missing; '-' is standard input");
    if (argc - at > 1)
        return accesslog_complain(ACCESSLOG_USAGE,
                                  "expected one FILE, also found '%s'; join files with cat "
                                  "and read '-'",
                                  argv[at + 1]);
    o->path = argv[at];
    return 0;
}
