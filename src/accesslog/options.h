/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_OPTIONS_H
#define WEIR_ACCESSLOG_OPTIONS_H
/* The options that all commands have that read access logs: which files, what of their lines, and
 * in which order. */

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCESSLOG_REORDER_NS_DEFAULT INT64_C(10000000000)
enum { ACCESSLOG_WHERE_MAX = 64 };

/* Zeroed by the caller of accesslog_options_read(). The texts are those of the command line. */
typedef struct accesslog_options {
    char *const *paths; /* "-" is standard input */
    size_t paths_len;
    const char *format, *key, *time, *cost; /* NULL if not given */
    const char *where[ACCESSLOG_WHERE_MAX];
    size_t wheres;
    int64_t reorder_ns; /* how long requests are held to put them in order; 0: not at all */
    bool reorder_given, strict, no_progress;
    bool help; /* --help was given: the other options may be missing */
} accesslog_options;

/* The last rows of a command for getopt_long(), and their values. */
enum {
    ACCESSLOG_OPT_FORMAT = 512,
    ACCESSLOG_OPT_KEY,
    ACCESSLOG_OPT_TIME,
    ACCESSLOG_OPT_COST,
    ACCESSLOG_OPT_WHERE,
    ACCESSLOG_OPT_REORDER,
    ACCESSLOG_OPT_STRICT,
    ACCESSLOG_OPT_NO_PROGRESS
};

#define ACCESSLOG_OPTIONS                                                                          \
    {"format", required_argument, NULL, ACCESSLOG_OPT_FORMAT},                                     \
        {"key", required_argument, NULL, ACCESSLOG_OPT_KEY},                                       \
        {"time", required_argument, NULL, ACCESSLOG_OPT_TIME},                                     \
        {"cost", required_argument, NULL, ACCESSLOG_OPT_COST},                                     \
        {"where", required_argument, NULL, ACCESSLOG_OPT_WHERE},                                   \
        {"reorder", required_argument, NULL, ACCESSLOG_OPT_REORDER},                               \
        {"strict", no_argument, NULL, ACCESSLOG_OPT_STRICT},                                       \
        {"no-progress", no_argument, NULL, ACCESSLOG_OPT_NO_PROGRESS},                             \
        {"help", no_argument, NULL, 'h'},                                                          \
    {                                                                                              \
        NULL, 0, NULL, 0                                                                           \
    }

/* The help text of these options, with the columns of `weir replay --help`. */
#define ACCESSLOG_OPTIONS_HELP                                                                     \
    "  --format FORMAT    the format of the lines; detected if not given:\n"                       \
    "                       combined, common  access logs of nginx, Apache and others\n"           \
    "                       vhost_combined, vhost_common\n"                                        \
    "                                         preceded by the virtual host\n"                      \
    "                       nginx-json        JSON of nginx, with escape=json\n"                   \
    "                       caddy, traefik, envoy, haproxy, alb\n"                                 \
    "                                         those of proxies, text or JSON\n"                    \
    "                       csv, tsv          columns named by the first line; tsv\n"              \
    "                                         also t_ns TAB key [TAB cost]\n"                      \
    "                       jsonl             one JSON object a line, with a time and\n"           \
    "                                         a member that is the key\n"                          \
    "  --key FIELD        the field that is the key: client (default), user, method,\n"            \
    "                     uri, path, query, status, agent, vhost, http_NAME and so\n"              \
    "                     on; in JSON, csv and tsv any member or column (default\n"                \
    "                     key); or a template, like '$client $uri[1]',\n"                          \
    "                     '$http_x_api_key', '${client/56}'\n"                                     \
    "  --time FIELD       the member or column of JSON, csv or tsv that is the time\n"             \
    "  --cost FIELD       what a request costs: a field, like bytes. A request\n"                  \
    "                     without a cost costs 1; a cost above 2147483647 is always\n"             \
    "                     denied\n"                                                                \
    "  --where FILTER     read only requests for which the filter holds, like\n"                   \
    "                     'path=/login* status=401|403 bytes>1000'; may be repeated:\n"            \
    "                     all must hold\n"                                                         \
    "  --reorder DURATION put lines in order that are up to this far out of order\n"               \
    "                     (default 10s; 0 keeps the order of the lines)\n"                         \
    "  --strict           stop at the first line that cannot be read\n"                            \
    "  --no-progress      do not show a progress bar\n"

/* Sets the option `c`, one of ACCESSLOG_OPTIONS.
 * Returns 0, or the exit status after printing an error. */
int accesslog_options_set(accesslog_options *o, int c, const char *value);

/* The command line of a command. */
typedef struct accesslog_syntax {
    const struct option *known; /* its own options, and ACCESSLOG_OPTIONS */
    /* Sets an option other than --help: one of ACCESSLOG_OPTIONS by accesslog_options_set().
     * Returns 0, or the exit status after printing an error. */
    int (*set)(void *options, int c, const char *value);
    const char *help;
} accesslog_syntax;

/* Reads the options of a command line: calls s->set() for each. With --help it prints the help and
 * sets o->help.
 *  options  for s->set().
 * Returns 0, or the exit status after printing an error. */
int accesslog_options_read(accesslog_options *o, const accesslog_syntax *s, void *options, int argc,
                           char **argv);

/* Sets the files, which are the arguments behind the options, and the defaults of options that were
 * not given. Call it after accesslog_options_read().
 * Returns 0, or the exit status after printing an error. */
int accesslog_options_files(accesslog_options *o, int argc, char **argv);

/* Parses the value of --memory, 1m to 1024g.
 *  ret  in bytes; written only on success.
 * Returns 0, or the exit status after printing an error. */
int accesslog_options_memory(size_t *ret, const char *text);

/* Whether one of the files is standard input. */
bool accesslog_options_stdin(const accesslog_options *o);

#endif
