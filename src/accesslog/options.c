/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads the options for access logs. */

#include "accesslog/options.h"

#include "accesslog/messages.h"
#include "cmd/kit/options.h"
#include "cmd/kit/units.h"
#include "policy/scan.h"
#include "port/assert.h"

#include <string.h>
#include <unistd.h>

static int add_where(accesslog_options *o, const char *filter)
{
    if (o->wheres == ACCESSLOG_WHERE_MAX)
        return accesslog_complain(ACCESSLOG_USAGE, "--where: expected at most %d filters",
                                  ACCESSLOG_WHERE_MAX);
    o->where[o->wheres++] = filter;
    return 0;
}

static int set_reorder(accesslog_options *o, const char *text)
{
    o->reorder_given = true;
    o->reorder_ns = 0;
    if (strcmp(text, "0") == 0 || weir_duration_read(text, strlen(text), &o->reorder_ns))
        return 0;
    return accesslog_complain(ACCESSLOG_USAGE,
                              "--reorder: expected a duration such as 10s or 1m, or 0 for the "
                              "order of the lines, found '%s'",
                              text);
}

int accesslog_options_set(accesslog_options *o, int c, const char *value)
{
    switch (c) {
    case ACCESSLOG_OPT_FORMAT:
        o->format = value;
        return 0;
    case ACCESSLOG_OPT_KEY:
        o->key = value;
        return 0;
    case ACCESSLOG_OPT_TIME:
        o->time = value;
        return 0;
    case ACCESSLOG_OPT_COST:
        o->cost = value;
        return 0;
    case ACCESSLOG_OPT_WHERE:
        return add_where(o, value);
    case ACCESSLOG_OPT_REORDER:
        return set_reorder(o, value);
    case ACCESSLOG_OPT_STRICT:
        o->strict = true;
        return 0;
    default: /* ACCESSLOG_OPT_NO_PROGRESS */
        o->no_progress = true;
        return 0;
    }
}

int accesslog_options_files(accesslog_options *o, int argc, char **argv)
{
    size_t stdins = 0;
    WEIR_ASSERT(optind > 0 && optind <= argc);
    if (optind == argc)
        return accesslog_complain(ACCESSLOG_USAGE, "FILE is missing; '-' is standard input");
    o->paths = argv + optind;
    o->paths_len = (size_t)(argc - optind);
    for (size_t i = 0; i < o->paths_len; i++)
        stdins += strcmp(o->paths[i], "-") == 0;
    if (stdins > 1)
        return accesslog_complain(ACCESSLOG_USAGE,
                                  "FILE is '-' twice: expected standard input only once");
    if (!o->reorder_given)
        o->reorder_ns = ACCESSLOG_REORDER_NS_DEFAULT;
    return 0;
}

int accesslog_options_read(accesslog_options *o, const accesslog_syntax *s, void *options, int argc,
                           char **argv)
{
    int status = 0, c;
    optind = 0; /* resets getopt, which main may have used */
    while (status == 0 && (c = options_next(accesslog_command(NULL), argc, argv, s->known)) != -1) {
        if (c == 'h') {
            o->help = true;
            return accesslog_print(STDOUT_FILENO, s->help, strlen(s->help));
        }
        status = c == '?' ? ACCESSLOG_USAGE : s->set(options, c, optarg);
    }
    return status;
}

int accesslog_options_memory(size_t *ret, const char *text)
{
    const int64_t mib = (int64_t)1 << 20;
    int64_t bytes;
    if (!size_read(text, &bytes) || bytes < mib || bytes > mib << 20)
        return accesslog_complain(ACCESSLOG_USAGE,
                                  "--memory: expected a size from 1m to 1024g, such as 256m (units "
                                  "k, m, g), found '%s'",
                                  text);
    *ret = (size_t)bytes;
    return 0;
}

bool accesslog_options_stdin(const accesslog_options *o)
{
    for (size_t i = 0; i < o->paths_len; i++) {
        if (strcmp(o->paths[i], "-") == 0)
            return true;
    }
    return false;
}
