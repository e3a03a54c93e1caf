/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses the options with getopt_long(), and holds the help text. */

#include "cmd/accuracy/accuracy.h"

#include "accesslog/messages.h"
#include "cmd/kit/caret.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIMIT_DEFAULT "100/m"

static const char help[] =
    "Usage: weir accuracy [--limit N/P] [OPTION]... FILE...\n"
    "\n"
    "Decides the requests of a log with each algorithm at the same limit, and counts\n"
    "the decisions that differ from the exact ones.\n"
    "\n"
    "  --limit N/P       at most N units in any window of length P (default 100/m)\n"
    "  --against WHAT    what decides exactly:\n"
    "                      own   the limit, given what the algorithm itself allowed\n"
    "                            in the window before the request (default)\n"
    "                      log   a sliding log that decides the same requests\n"
    "                      rate  the limit, given all requests in the window; the\n"
    "                            algorithms count denied requests too\n"
    "  --policy TEXT     measure this policy instead of the usual ones, like\n"
    "                    'sliding-slices 100/m slices 30'; may be repeated\n"
    "  --json            print the results as JSON\n"
    "  --format FORMAT   how to read a log; see weir replay --help\n"
    "  --key FIELD       the field or template that is the key\n"
    "  --time FIELD      the member or column of JSON, csv or tsv that is the time\n"
    "  --cost FIELD      what a request costs\n"
    "  --where FILTER    measure only the requests for which the filter holds\n"
    "  --reorder DURATION\n"
    "                    how far out of order lines may be (default 10s)\n"
    "  --strict          stop at the first line that cannot be read\n"
    "  --no-progress     do not show a progress bar\n"
    "  --help            print this text\n"
    "\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir accuracy --limit 5/m access.log\n"
    "  weir accuracy --limit 100/m --against rate --key user access.log*\n";

/* ---- the command line ------------------------------------------------------------------------ */

enum { OPT_LIMIT = 256, OPT_AGAINST, OPT_POLICY, OPT_JSON };

static int set_against(accuracy_options *o, const char *text)
{
    for (int i = 0; i < ACCURACY_AGAINST; i++) {
        if (strcmp(text, accuracy_against_name((accuracy_against)i)) == 0) {
            o->against = (accuracy_against)i;
            return 0;
        }
    }
    return accesslog_complain(ACCESSLOG_USAGE, "--against: expected own, log or rate, found '%s'",
                              text);
}

static int add_policy(accuracy_options *o, const char *text)
{
    if (o->policies == ACCURACY_POLICIES_MAX)
        return accesslog_complain(ACCESSLOG_USAGE, "--policy: expected at most %d policies",
                                  ACCURACY_POLICIES_MAX);
    o->policy[o->policies++] = text;
    return 0;
}

static int set_option(void *options, int c, const char *value)
{
    accuracy_options *o = options;
    if (c >= ACCESSLOG_OPT_FORMAT)
        return accesslog_options_set(&o->log, c, value);
    switch (c) {
    case OPT_LIMIT:
        o->limit = value;
        return 0;
    case OPT_AGAINST:
        return set_against(o, value);
    case OPT_POLICY:
        return add_policy(o, value);
    default: /* OPT_JSON */
        o->json = true;
        return 0;
    }
}

int accuracy_options_read(accuracy_options *ret, int argc, char **argv)
{
    static const struct option known[] = {
        {"limit", required_argument, NULL, OPT_LIMIT},
        {"against", required_argument, NULL, OPT_AGAINST},
        {"policy", required_argument, NULL, OPT_POLICY},
        {"json", no_argument, NULL, OPT_JSON},
        ACCESSLOG_OPTIONS,
    };
    static const accesslog_syntax syntax = {known, set_option, help};
    *ret = (accuracy_options){.limit = LIMIT_DEFAULT};
    int status = accesslog_options_read(&ret->log, &syntax, ret, argc, argv);
    if (status != 0 || ret->log.help)
        return status;
    return accesslog_options_files(&ret->log, argc, argv);
}

/* ---- policies -------------------------------------------------------------------------------- */

/* Parses the limit "N/P". */
static int read_limit(const char *text, int64_t *ret_n, int64_t *ret_period_ns)
{
    weir_policy p;
    char log[64] = "";
    int len = snprintf(log, sizeof log, "sliding-log %s", text);
    if (len >= (int)sizeof log || strchr(text, '&') || strchr(text, ' ') ||
        weir_policy_parse(&p, log, (size_t)len, NULL, NULL) != WEIR_OK)
        return accesslog_complain(ACCESSLOG_USAGE,
                                  "--limit: expected a number and a period such as 5/m, found '%s'",
                                  text);
    *ret_n = p.layer[0].limit;
    *ret_period_ns = p.layer[0].period_ns;
    return 0;
}

static int add_text(accuracy_measure *m, const char *text)
{
    weir_policy p;
    weir_policy_error error;
    if (weir_policy_parse(&p, text, strlen(text), NULL, &error) != WEIR_OK) {
        caret_policy_error("weir accuracy", text, &error);
        return ACCESSLOG_USAGE;
    }
    weir_status st = accuracy_measure_add(m, &p);
    if (st == WEIR_E_UNSUPPORTED && m->against == ACCURACY_RATE)
        return accesslog_complain(
            ACCESSLOG_USAGE,
            "--policy: --against rate compares counts of one window: '%s' has "
            "none with the limit %" PRId64,
            text, m->limit);
    if (st != WEIR_OK)
        return accesslog_complain(ACCESSLOG_USAGE,
                                  "--policy: expected a policy of one layer other than "
                                  "leaky-queue and concurrent, found '%s'",
                                  text);
    return 0;
}

/* Adds the policies that are measured without --policy. */
static int add_usual(accuracy_measure *m, const char *limit)
{
    static const char *const usual[] = {
        "sliding-counter %s",          "sliding-counter %s relaxed",  "sliding-slices %s slices 6",
        "sliding-slices %s slices 10", "sliding-slices %s slices 60", "fixed-window %s"};
    char text[160];
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        const char *rest = strchr(usual[i], '%') + 2;
        snprintf(text, sizeof text, "%.*s%s%s", (int)(rest - 2 - usual[i]), usual[i], limit, rest);
        weir_policy p; /* a period of few nanoseconds has no 60 slices */
        if (weir_policy_parse(&p, text, strlen(text), NULL, NULL) == WEIR_OK &&
            accuracy_measure_add(m, &p) != WEIR_OK)
            return accesslog_complain_memory();
    }
    if (m->against == ACCURACY_RATE)
        return 0;
    snprintf(text, sizeof text, "gcra %s burst %" PRId64, limit, m->limit);
    int status = add_text(m, text);
    snprintf(text, sizeof text, "gcra %s", limit);
    bool same = m->limit == 1; /* as with that burst */
    return status != 0 || same ? status : add_text(m, text);
}

int accuracy_measure_open(accuracy_measure *ret, const accuracy_options *o)
{
    int64_t limit = 0, period_ns = 0;
    int status = read_limit(o->limit, &limit, &period_ns);
    if (status != 0)
        return status;
    if (accuracy_measure_init(ret, o->against, limit, period_ns) != WEIR_OK)
        return accesslog_complain_memory();
    for (size_t i = 0; i < o->policies && status == 0; i++)
        status = add_text(ret, o->policy[i]);
    return o->policies > 0 ? status : add_usual(ret, o->limit);
}
