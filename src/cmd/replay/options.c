/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses the options with getopt_long(), and holds the help text. */

#include "cmd/replay/options.h"

#include "accesslog/messages.h"
#include "port/text.h"

#include <string.h>

enum { TOP_DEFAULT = 10, TOP_MAX = 1000000 };

#define MEMORY_DEFAULT ((size_t)1 << 30)

static const char help[] =
    "Usage: weir replay --policy TEXT [OPTION]... FILE...\n"
    "       weir replay --config YAML --policy NAME [OPTION]... FILE...\n"
    "\n"
    "Runs the requests of logs through policies, at the logs' timestamps, and reports\n"
    "which keys would have been denied. Read-only. Several files are merged by time.\n"
    "Files may be compressed with gzip or zstd; '-' is standard input.\n"
    "\n"
    "  --policy TEXT      a policy, like 'gcra 100/m burst 20'; may be repeated:\n"
    "                     each policy decides every request by itself and is\n"
    "                     compared with the first one\n"
    "  --config YAML      a configuration of weir serve: --policy may be the name of\n"
    "                     one of its policies, with overrides, lists, ip and "
    "shadow\n" ACCESSLOG_OPTIONS_HELP
    "  --json             print the report as JSON instead of the table\n"
    "  --html FILE        also write the report as a web page, in one file\n"
    "  --decisions jsonl  print every decision as a line of JSON; the table then goes\n"
    "                     to standard error. Bytes that are not UTF-8 become U+FFFD\n"
    "  --top N            how many denied keys to list (default 10)\n"
    "  --memory SIZE      limit of the memory of all states, like 256m (default 1g).\n"
    "                     The memory in use grows with the number of keys\n"
    "  --help             print this text\n"
    "\n"
    "IPv6 addresses are limited by /64 network, as in the daemon.\n"
    "Time never goes back: a line that comes too late for --reorder is decided at\n"
    "the time of the latest decision.\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir replay --policy 'gcra 100/m burst 20' access.log\n"
    "  weir replay --config weir.yaml --policy api --policy 'gcra 5/s' access.log\n"
    "  weir replay --policy 'fixed-window 1000/day tz Europe/Berlin' \\\n"
    "              --policy 'sliding-log 1000/d' --key user access.log\n"
    "  weir replay --policy 'gcra 1000000/s burst 9000000' --cost bytes \\\n"
    "              --decisions jsonl access.log* > decisions.jsonl\n";

/* ---- the command line ------------------------------------------------------------------------ */

static int add_policy(replay_options *o, const char *text)
{
    if (o->policies == REPLAY_POLICIES_MAX)
        return accesslog_complain(ACCESSLOG_USAGE, "--policy: expected at most %d policies",
                                  REPLAY_POLICIES_MAX);
    o->policy[o->policies++] = text;
    return 0;
}

static int set_top(replay_options *o, const char *text)
{
    uint64_t n;
    if (!weir_decimal_read(text, strlen(text), TOP_MAX, &n))
        return accesslog_complain(
            ACCESSLOG_USAGE, "--top: expected a number from 0 to %d, found '%s'", TOP_MAX, text);
    o->top = n;
    return 0;
}

static int set_decisions(replay_options *o, const char *text)
{
    if (strcmp(text, "jsonl") != 0)
        return accesslog_complain(ACCESSLOG_USAGE, "--decisions: expected jsonl, found '%s'", text);
    o->decisions = true;
    return 0;
}

enum { OPT_POLICY = 256, OPT_CONFIG, OPT_DECISIONS, OPT_TOP, OPT_MEMORY, OPT_JSON, OPT_HTML };

static int set_option(void *options, int c, const char *value)
{
    replay_options *o = options;
    if (c >= ACCESSLOG_OPT_FORMAT)
        return accesslog_options_set(&o->log, c, value);
    switch (c) {
    case OPT_POLICY:
        return add_policy(o, value);
    case OPT_CONFIG:
        o->config = value;
        return 0;
    case OPT_DECISIONS:
        return set_decisions(o, value);
    case OPT_HTML:
        o->html = value;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_TOP:
        return set_top(o, value);
    default: /* OPT_MEMORY */
        return accesslog_options_memory(&o->memory_bytes, value);
    }
}

/* Checks the command line as a whole. */
static int check_options(replay_options *o, int argc, char **argv)
{
    if (o->policies == 0)
        return accesslog_complain(ACCESSLOG_USAGE,
                                  o->config
                                      ? "--policy is missing: expected the name of a policy of %s"
                                      : "--policy is missing, like --policy 'gcra 100/m burst 20'",
                                  o->config);
    int status = accesslog_options_files(&o->log, argc, argv);
    if (status == 0 && o->config && strcmp(o->config, "-") == 0 && accesslog_options_stdin(&o->log))
        return accesslog_complain(ACCESSLOG_USAGE,
                                  "--config and FILE are both '-': expected standard input only "
                                  "once");
    return status;
}

int replay_options_read(replay_options *ret, int argc, char **argv)
{
    static const struct option known[] = {
        {"policy", required_argument, NULL, OPT_POLICY},
        {"config", required_argument, NULL, OPT_CONFIG},
        {"json", no_argument, NULL, OPT_JSON},
        {"html", required_argument, NULL, OPT_HTML},
        {"decisions", required_argument, NULL, OPT_DECISIONS},
        {"top", required_argument, NULL, OPT_TOP},
        {"memory", required_argument, NULL, OPT_MEMORY},
        ACCESSLOG_OPTIONS,
    };
    static const accesslog_syntax syntax = {known, set_option, help};
    *ret = (replay_options){.top = TOP_DEFAULT, .memory_bytes = MEMORY_DEFAULT};
    int status = accesslog_options_read(&ret->log, &syntax, ret, argc, argv);
    return status == 0 && !ret->log.help ? check_options(ret, argc, argv) : status;
}
