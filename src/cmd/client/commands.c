/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The client commands: `weir take`, `peek`, `refund`, `charge`, `reserve`, `renew`, `commit`,
 * `cancel`, `reset`, `explain`, `top`, `policies` and `ping`. Each of them sends one request to a
 * running daemon and prints the reply; `weir top` without a policy is in top_live.c. The daemon
 * decides; this file knows only the command lines and the requests. */

#include "cmd/kit/commands.h"
#include "cmd/client/connection.h"
#include "cmd/client/print.h"
#include "cmd/client/screen.h"
#include "cmd/kit/caret.h"
#include "cmd/kit/input.h"
#include "cmd/kit/options.h"
#include "cmd/kit/terminal.h"
#include "port/text.h"

#include <weir/weir.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, FAILED = 1, USAGE = 2, DENIED = 3 }; /* exit statuses */

#define TIMEOUT_MS_MAX    86400000
#define KEYS_MAX          1000 /* the largest value of top.keys */
#define COUNT_MAX         1000000000
#define INTERVAL_MS_MIN   100
#define PASSWORD_FILE_MAX 65536 /* bytes, as password_file of weir.yaml */

/* The options that only some commands have. */
enum {
    HAS_TEXT = 1,
    HAS_COST = 2,
    HAS_TOP = 4,
    HAS_JSON = 8,
    HAS_KEEP = 16,
    HAS_ALL = 32,
    HAS_TTL = 64
};

typedef struct client_command {
    const char *name; /* "weir take" */
    const char *help;
    const char *resp; /* the name of the RESP command: "WEIR.TAKE" */
    client_reply_kind kind;
    int options; /* HAS_* */
    int arguments;
    const char *names[2]; /* of the arguments; NULL: POLICY and KEY */
} client_command;

/* A parsed command line. */
typedef struct invocation {
    const client_command *command;
    client_login login;
    char *password;                                /* from a file; for free() */
    const char *cost_text, *keep_text, *keys_text; /* NULL if not given */
    const char *ttl_text;
    int64_t cost, keys, count, timeout_ns, interval_ns; /* count, interval_ns: 0 if not given */
    bool text, json, help, allowed, live, all;
    bool ended;                           /* "--" was given: what follows is meant literally */
    const char *policy, *key;             /* the first argument, such as an ID, and the second */
    char canonical[WEIR_POLICY_TEXT_MAX]; /* what --text gave, in canonical form */
} invocation;

/* ---- help ------------------------------------------------------------------------------------ */

#define HELP_NAME "POLICY is the name of one of the daemon's policies.\n\n"
#define HELP_KEEP                                                                                  \
    "  --keep M         what must remain for others: units, or a share such as 20%\n"              \
    "                   (default 0)\n"
#define HELP_TTL                                                                                   \
    "  --ttl TIME       when it expires, from now: 30s, 500ms, 1h30m; at most the lease of\n"      \
    "                   a policy with a concurrent layer (default: this lease)\n"
#define HELP_ID   "ID is what weir reserve printed.\n\n"
#define HELP_TEXT "  --text           POLICY is a policy text, like 'gcra 100/s burst 20'\n"
#define HELP_SERVER                                                                                \
    "  --server SERVER  where the daemon is: HOST:PORT, a PORT of this machine,\n"                 \
    "                   rediss://HOST:PORT for TLS, or the path of its socket\n"                   \
    "                   (default: $WEIR_SERVER, else " CLIENT_SERVER ")\n"                         \
    "  --tls            encrypt the connection, and check the server's certificate\n"              \
    "  --ca FILE        certificates of the authorities to trust, in PEM format\n"                 \
    "                   (default: those of the system)\n"                                          \
    "  --cert FILE      the client's certificate, in PEM format; with --key\n"                     \
    "  --key FILE       the private key of the certificate, in PEM format\n"                       \
    "  --server-name NAME  the name in the server's certificate (default: the host)\n"             \
    "  --user NAME      log in as this user; requires a password\n"                                \
    "  --password-file FILE  a file whose first line is the password\n"                            \
    "                   (default: $WEIR_PASSWORD)\n"                                               \
    "  --timeout TIME   how long to wait for the reply: 5s, 250ms (default 5s)\n"
#define HELP_JSON "  --json           print the reply as one JSON object\n"
#define HELP_END                                                                                   \
    "  --help           print this text\n"                                                         \
    "\n"                                                                                           \
    "If the daemon has a password, set the environment variable WEIR_PASSWORD to it. No option\n"  \
    "takes a password, because other users can see the arguments of a program.\n"
#define HELP_DONE "Exit status: 0 success, 1 failure, 2 wrong usage.\n\n"

static const client_command take = {
    "weir take",
    "Usage: weir take [OPTION]... POLICY KEY\n"
    "\n"
    "Asks a running daemon whether a request of KEY may pass. Charges KEY if it may.\n" HELP_NAME
    "  --cost N         what the request costs, 0 to 2147483647 (default 1)\n" HELP_KEEP HELP_TEXT
        HELP_SERVER HELP_JSON HELP_END
    "Exit status: 0 allowed, 3 denied, 1 failure, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir take api alice\n"
    "  weir take --cost 65536 upload alice\n"
    "  weir take --keep 20% provider bank\n"
    "  weir take --text 'sliding-log 5/m' login:alice || echo 'not now'\n"
    "  weir take --server /run/weir/weir.sock --json api alice\n",
    "WEIR.TAKE",
    CLIENT_REPLY_DECISION,
    HAS_TEXT | HAS_COST | HAS_KEEP | HAS_JSON,
    2,
    {NULL},
};

static const client_command peek = {
    "weir peek",
    "Usage: weir peek [OPTION]... POLICY KEY\n"
    "\n"
    "Asks a running daemon what weir take would print. Charges nothing.\n" HELP_NAME
    "  --cost N         what the request would cost, 0 to 2147483647 (default 1)\n" HELP_KEEP
        HELP_TEXT HELP_SERVER HELP_JSON HELP_END
    "Exit status: 0 it would be allowed, 3 denied, 1 failure, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir peek api alice\n"
    "  weir peek --cost 65536 --json upload alice\n"
    "  weir peek --text 'sliding-log 5/m' login:alice\n",
    "WEIR.PEEK",
    CLIENT_REPLY_DECISION,
    HAS_TEXT | HAS_COST | HAS_KEEP | HAS_JSON,
    2,
    {NULL},
};

static const client_command refund = {
    "weir refund",
    "Usage: weir refund [OPTION]... POLICY KEY\n"
    "\n"
    "Refunds units that KEY was charged. KEY never gets more than its full limit.\n" HELP_NAME
    "  --cost N         how many units, 0 to 2147483647 (default 1)\n" HELP_TEXT HELP_SERVER
        HELP_JSON HELP_END HELP_DONE "Examples:\n"
    "  weir refund api alice\n"
    "  weir refund --cost 65536 upload alice\n",
    "WEIR.REFUND",
    CLIENT_REPLY_REFUND,
    HAS_TEXT | HAS_COST | HAS_JSON,
    2,
    {NULL},
};

static const client_command charge = {
    "weir charge",
    "Usage: weir charge [OPTION]... POLICY KEY\n"
    "\n"
    "Charges units that KEY has used already, whether they fit or not. If they do not fit, KEY is\n"
    "in debt, and is denied until the debt is paid off.\n" HELP_NAME
    "  --cost N         how many units, 0 to 2147483647 (default 1)\n" HELP_TEXT HELP_SERVER
        HELP_JSON HELP_END HELP_DONE "Examples:\n"
    "  weir charge api alice\n"
    "  weir charge --cost 1200 tokens alice\n",
    "WEIR.CHARGE",
    CLIENT_REPLY_CHARGE,
    HAS_TEXT | HAS_COST | HAS_JSON,
    2,
    {NULL},
};

static const client_command reserve = {
    "weir reserve",
    "Usage: weir reserve [OPTION]... POLICY KEY\n"
    "\n"
    "Charges KEY provisionally, and prints an ID for weir commit, cancel and renew. Without\n"
    "these, all units are given back after the TTL. A concurrent layer holds them until "
    "then.\n" HELP_NAME
    "  --cost N         how many units, 0 to 2147483647 (default 1)\n" HELP_TTL HELP_TEXT
        HELP_SERVER HELP_JSON HELP_END
    "Exit status: 0 allowed, 3 denied, 1 failure, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  id=$(weir reserve reports alice | tail -n 1)\n"
    "  weir reserve --cost 4000 --ttl 1m tokens alice\n",
    "WEIR.RESERVE",
    CLIENT_REPLY_RESERVE,
    HAS_TEXT | HAS_COST | HAS_TTL | HAS_JSON,
    2,
    {NULL},
};

static const client_command renew = {
    "weir renew",
    "Usage: weir renew [OPTION]... ID\n"
    "\n"
    "Renews a reservation: it then expires after the TTL from now.\n" HELP_ID HELP_TTL HELP_SERVER
        HELP_JSON HELP_END HELP_DONE "Examples:\n"
    "  weir renew \"$id\"\n"
    "  weir renew --ttl 10s \"$id\"\n",
    "WEIR.RENEW",
    CLIENT_REPLY_RENEW,
    HAS_TTL | HAS_JSON,
    1,
    {"ID"},
};

static const client_command commit = {
    "weir commit",
    "Usage: weir commit [OPTION]... ID N\n"
    "\n"
    "Settles a reservation: charges N units, what was used, whether they fit or not, instead\n"
    "of what was reserved. A concurrent layer gets all units back.\n" HELP_ID HELP_SERVER HELP_JSON
        HELP_END HELP_DONE "Examples:\n"
    "  weir commit \"$id\" 1200\n",
    "WEIR.COMMIT",
    CLIENT_REPLY_SETTLE,
    HAS_JSON,
    2,
    {"ID", "N"},
};

static const client_command cancel = {
    "weir cancel",
    "Usage: weir cancel [OPTION]... ID\n"
    "\n"
    "Gives all units of a reservation back.\n" HELP_ID HELP_SERVER HELP_JSON HELP_END HELP_DONE
    "Examples:\n"
    "  weir cancel \"$id\"\n",
    "WEIR.CANCEL",
    CLIENT_REPLY_SETTLE,
    HAS_JSON,
    1,
    {"ID"},
};

static const client_command reset = {
    "weir reset",
    "Usage: weir reset [OPTION]... POLICY KEY\n"
    "       weir reset [OPTION]... POLICY --all\n"
    "\n"
    "Resets KEY: its full limit is available again. With --all, resets all keys of POLICY.\n"
    "KEY is no pattern. A key named '*' is written after --: weir reset api -- '*'\n" HELP_NAME
    "  --all            reset all keys of POLICY at once\n" HELP_TEXT HELP_SERVER HELP_JSON HELP_END
        HELP_DONE "Examples:\n"
    "  weir reset api alice\n"
    "  weir reset api --all\n"
    "  weir reset --server 10.0.0.5:6380 login alice\n",
    "WEIR.RESET",
    CLIENT_REPLY_RESET,
    HAS_TEXT | HAS_JSON | HAS_ALL,
    2,
    {NULL},
};

static const client_command explain = {
    "weir explain",
    "Usage: weir explain [OPTION]... POLICY KEY\n"
    "\n"
    "Prints which limit applies to KEY and why, how much of it remains, and when the\n"
    "next request may pass. Charges nothing.\n" HELP_NAME HELP_TEXT HELP_SERVER HELP_END HELP_DONE
    "Examples:\n"
    "  weir explain api alice\n"
    "  weir explain --text 'sliding-log 5/m' login:alice\n",
    "WEIR.EXPLAIN",
    CLIENT_REPLY_LINES,
    HAS_TEXT,
    2,
    {NULL},
};

static const client_command top = {
    "weir top",
    "Usage: weir top [OPTION]... [POLICY]\n"
    "\n"
    "Shows what the daemon decides now, on a live screen: its policies, and the keys that\n"
    "the chosen policy denied most. Press ? for its commands, q to quit. If standard\n"
    "input or output is no terminal, prints one table, of the next interval; with\n"
    "--interval or --count, a table for each interval.\n"
    "With POLICY, lists the keys that it denied most units in the last few minutes.\n" HELP_NAME
    "  --allowed        list the keys that POLICY allowed most units\n"
    "  --keys N         how many keys, 1 to top.keys of the configuration (default 10)\n"
    "  --live           with POLICY: the screen, with this policy chosen\n"
    "  --interval TIME  time between two updates, 100ms to 86400s (default 1s)\n"
    "  --count N        exit after N updates (default: until q or Ctrl-C)\n" HELP_SERVER HELP_JSON
        HELP_END HELP_DONE "Examples:\n"
    "  weir top\n"
    "  weir top --interval 10s --count 6 | tee load.txt\n"
    "  weir top api\n"
    "  weir top --allowed --keys 20 api\n",
    "WEIR.TOP",
    CLIENT_REPLY_TOP,
    HAS_TOP | HAS_JSON,
    1,
    {NULL},
};

static const client_command policies = {
    "weir policies",
    "Usage: weir policies [OPTION]...\n"
    "\n"
    "Lists the named policies of a running daemon.\n"
    "\n" HELP_SERVER HELP_JSON HELP_END HELP_DONE "Examples:\n"
    "  weir policies\n"
    "  weir policies --server 10.0.0.5:6380 --json\n",
    "WEIR.POLICY",
    CLIENT_REPLY_POLICIES,
    HAS_JSON,
    0,
    {NULL},
};

static const client_command ping = {
    "weir ping",
    "Usage: weir ping [OPTION]...\n"
    "\n"
    "Prints PONG if a running daemon answers: the health check of a container.\n"
    "\n" HELP_SERVER HELP_END HELP_DONE "Examples:\n"
    "  weir ping\n"
    "  weir ping --server 10.0.0.5:6380 --timeout 1s\n",
    "PING",
    CLIENT_REPLY_PONG,
    0,
    0,
    {NULL},
};

/* ---- the command line ------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static int complain(const invocation *a, int status,
                                                          const char *text, ...)
{
    va_list args;
    va_start(args, text);
    fprintf(stderr, "%s: ", a->command->name);
    vfprintf(stderr, text, args);
    fputs("\n", stderr);
    va_end(args);
    return status;
}

/* Reads the number of an option into *ret. Returns 0, or USAGE after printing an error. */
static int set_number(const invocation *a, const char *option, const char *text, int low, int high,
                      int64_t *ret)
{
    uint64_t n;
    if (!weir_decimal_read(text, strlen(text), (uint64_t)high, &n) || (int64_t)n < low)
        return complain(a, USAGE, "%s: expected a number from %d to %d, found '%s'", option, low,
                        high, text);
    *ret = (int64_t)n;
    return 0;
}

/* Reads the time of an option, from low_ms to 86400s. */
static int set_time(const invocation *a, const char *option, const char *text, uint64_t low_ms,
                    int64_t *ret_ns)
{
    uint64_t n;
    const char *unit = text + weir_digits_read(text, strlen(text), &n);
    bool seconds = strcmp(unit, "s") == 0;
    uint64_t max = seconds ? TIMEOUT_MS_MAX / 1000 : TIMEOUT_MS_MAX;
    if (unit == text || n < (seconds ? 1 : low_ms) || n > max ||
        (!seconds && strcmp(unit, "ms") != 0))
        return complain(a, USAGE, "%s: expected a time from %dms to 86400s, like 5s, found '%s'",
                        option, (int)low_ms, text);
    *ret_ns = (int64_t)n * (seconds ? 1000000000 : 1000000);
    return 0;
}

enum {
    OPT_COST = 256,
    OPT_KEEP,
    OPT_TTL,
    OPT_ALL,
    OPT_TEXT,
    OPT_ALLOWED,
    OPT_KEYS,
    OPT_LIVE,
    OPT_INTERVAL,
    OPT_COUNT,
    OPT_SERVER,
    OPT_TLS,
    OPT_CA,
    OPT_CERT,
    OPT_KEY,
    OPT_SERVER_NAME,
    OPT_USER,
    OPT_PASSWORD_FILE,
    OPT_TIMEOUT,
    OPT_JSON
};

/* Reads an option of the connection that has a value. */
static int set_login(invocation *a, int c, const char *value)
{
    static const char path[] = "the path of a file";
    client_login *l = &a->login;
    const struct {
        int option;
        const char *name, *expected, **ret;
    } known[] = {
        {OPT_SERVER, "--server", CLIENT_EXPECTED, &l->server},
        {OPT_CA, "--ca", path, &l->ca},
        {OPT_CERT, "--cert", path, &l->cert},
        {OPT_KEY, "--key", path, &l->key},
        {OPT_SERVER_NAME, "--server-name", "the name in a certificate", &l->server_name},
        {OPT_USER, "--user", "the name of a user", &l->user},
        {OPT_PASSWORD_FILE, "--password-file", path, &l->password_file},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].option != c)
            continue;
        if (!*value)
            return complain(a, USAGE, "%s: expected %s, found ''", known[i].name,
                            known[i].expected);
        *known[i].ret = value;
        return 0;
    }
    return USAGE;
}

static int set_option(invocation *a, int c, const char *value)
{
    switch (c) {
    case OPT_COST:
        a->cost_text = value;
        return set_number(a, "--cost", value, 0, WEIR_COST_MAX, &a->cost);
    case OPT_KEEP: /* the daemon checks it */
        a->keep_text = value;
        return 0;
    case OPT_TTL: /* so is this */
        a->ttl_text = value;
        return 0;
    case OPT_KEYS:
        a->keys_text = value;
        return set_number(a, "--keys", value, 1, KEYS_MAX, &a->keys);
    case OPT_TIMEOUT:
        return set_time(a, "--timeout", value, 1, &a->timeout_ns);
    case OPT_INTERVAL:
        return set_time(a, "--interval", value, INTERVAL_MS_MIN, &a->interval_ns);
    case OPT_COUNT:
        return set_number(a, "--count", value, 1, COUNT_MAX, &a->count);
    case OPT_TLS:
        a->login.tls = true;
        return 0;
    case OPT_TEXT:
        a->text = true;
        return 0;
    case OPT_ALL:
        a->all = true;
        return 0;
    case OPT_ALLOWED:
        a->allowed = true;
        return 0;
    case OPT_LIVE:
        a->live = true;
        return 0;
    case OPT_JSON:
        a->json = true;
        return 0;
    case 'h':
        a->help = true;
        return 0;
    default:
        return set_login(a, c, value);
    }
}

/* Refuses the KEY '*' of a reset, which looks like a pattern, unless it follows "--". */
static int check_star(const invocation *a)
{
    const char *name = a->command->name;
    const char *before = a->text ? "--text '" : "", *after = a->text ? "'" : "";
    if (!(a->command->options & HAS_ALL) || strcmp(a->key, "*") != 0 || a->ended)
        return 0;
    return complain(a, USAGE,
                    "KEY is '*', which is no pattern; to reset all keys: %s %s%s%s --all; for the "
                    "key named '*': %s %s%s%s -- '*'",
                    name, before, a->policy, after, name, before, a->policy, after);
}

static int set_arguments(invocation *a, int argc, char **argv)
{
    static const char *const usual[] = {"POLICY", "KEY"};
    const char *const *names = a->command->names[0] ? a->command->names : usual;
    const char *name = a->command->name;
    int n = a->command->arguments - a->all;
    if (argc == 0 && (a->command->options & HAS_TOP)) { /* the screen */
        a->policy = a->key = "";
        a->live = true;
        return 0;
    }
    if (argc == 0 && n == 2)
        return complain(a, USAGE, "%s and %s are missing; see %s --help", names[0], names[1], name);
    if (argc < n)
        return complain(a, USAGE, "%s is missing; see %s --help", names[argc], name);
    if (argc > n)
        return complain(a, USAGE, "expected %s%s%s%s, also found '%s'; see %s --help",
                        n > 0 ? "only " : "no arguments", n > 0 ? names[0] : "",
                        n > 1 ? " and " : "", n > 1 ? names[1] : "", argv[n], name);
    a->policy = n > 0 ? argv[0] : "";
    a->key = n > 1 ? argv[1] : "";
    for (int i = 0; i < n; i++) {
        if (!*argv[i])
            return complain(a, USAGE, "%s is empty", names[i]);
    }
    if (n == 2 && names != usual) /* what a commit charges */
        return set_number(a, names[1], a->key, 0, WEIR_COST_MAX, &a->cost);
    return check_star(a);
}

/* Parses the policy of --text, so that a syntax error is shown with its position before anything is
 * sent. The daemon checks the time zone: it may know zones that this machine does not. */
static int set_text(invocation *a)
{
    weir_policy p;
    weir_policy_error error;
    weir_status st = weir_policy_parse(&p, a->policy, strlen(a->policy), NULL, &error);
    if (st != WEIR_OK && st != WEIR_E_ZONE) {
        caret_policy_error(a->command->name, a->policy, &error);
        return USAGE;
    }
    if (st == WEIR_OK) {
        weir_policy_print(&p, a->canonical, sizeof a->canonical);
        a->policy = a->canonical;
    }
    return 0;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Reads the first line of --password-file. */
static int read_password(invocation *a)
{
    size_t len;
    const char *path = a->login.password_file;
    const char *why = input_read(path, PASSWORD_FILE_MAX, &a->password, &len);
    if (why)
        return complain(a, FAILED, "--password-file: cannot read %s: %s", path, why);
    a->password[strcspn(a->password, "\r\n")] = '\0';
    if (!*a->password)
        return complain(a, FAILED, "--password-file: the first line of %s is empty", path);
    a->login.password = a->password;
    return 0;
}

/* Completes the login by the environment and the file of the password. */
static int complete_login(invocation *a)
{
    client_login *l = &a->login;
    l->visible = l->server != NULL;
    if (!l->server)
        l->server = variable("WEIR_SERVER");
    if (!l->server)
        l->server = CLIENT_SERVER;
    l->password = variable("WEIR_PASSWORD");
    return l->password_file ? read_password(a) : 0;
}

enum { OPTIONS = 21 };

/* Lists the options of a command for getopt. */
static void list_options(const client_command *v, struct option ret[OPTIONS + 1])
{
    static const struct {
        int needs; /* 0: every command has this option */
        struct option option;
    } known[OPTIONS] = {
        {HAS_ALL, {"all", no_argument, NULL, OPT_ALL}},
        {HAS_TEXT, {"text", no_argument, NULL, OPT_TEXT}},
        {HAS_COST, {"cost", required_argument, NULL, OPT_COST}},
        {HAS_KEEP, {"keep", required_argument, NULL, OPT_KEEP}},
        {HAS_TTL, {"ttl", required_argument, NULL, OPT_TTL}},
        {HAS_TOP, {"allowed", no_argument, NULL, OPT_ALLOWED}},
        {HAS_TOP, {"keys", required_argument, NULL, OPT_KEYS}},
        {HAS_TOP, {"live", no_argument, NULL, OPT_LIVE}},
        {HAS_TOP, {"interval", required_argument, NULL, OPT_INTERVAL}},
        {HAS_TOP, {"count", required_argument, NULL, OPT_COUNT}},
        {0, {"server", required_argument, NULL, OPT_SERVER}},
        {0, {"tls", no_argument, NULL, OPT_TLS}},
        {0, {"ca", required_argument, NULL, OPT_CA}},
        {0, {"cert", required_argument, NULL, OPT_CERT}},
        {0, {"key", required_argument, NULL, OPT_KEY}},
        {0, {"server-name", required_argument, NULL, OPT_SERVER_NAME}},
        {0, {"user", required_argument, NULL, OPT_USER}},
        {0, {"password-file", required_argument, NULL, OPT_PASSWORD_FILE}},
        {0, {"timeout", required_argument, NULL, OPT_TIMEOUT}},
        {HAS_JSON, {"json", no_argument, NULL, OPT_JSON}},
        {0, {"help", no_argument, NULL, 'h'}},
    };
    size_t n = 0;
    for (size_t i = 0; i < OPTIONS; i++) {
        if ((v->options & known[i].needs) == known[i].needs)
            ret[n++] = known[i].option;
    }
    ret[n] = (struct option){0};
}

/* The screen and the list have options of their own. */
static int check_live(const invocation *a)
{
    if (a->live && (a->json || a->keys_text))
        return complain(a, USAGE, "%s: expected a POLICY, without --live; see weir top --help",
                        a->json ? "--json" : "--keys");
    if (!a->live && (a->interval_ns > 0 || a->count > 0))
        return complain(a, USAGE, "%s: expected --live, or no POLICY; see weir top --help",
                        a->interval_ns > 0 ? "--interval" : "--count");
    return 0;
}

static int read_options(invocation *a, int argc, char **argv)
{
    struct option known[OPTIONS + 1];
    int c;
    list_options(a->command, known);
    for (int i = 1; i < argc; i++)
        a->ended = a->ended || strcmp(argv[i], "--") == 0;
    optind = 0;
    while ((c = options_next(a->command->name, argc, argv, known)) != -1) {
        int status = set_option(a, c, optarg);
        if (status != 0 || a->help)
            return status;
    }
    int status = set_arguments(a, argc - optind, argv + optind);
    if (status == 0)
        status = check_live(a);
    if (status == 0 && a->text)
        status = set_text(a);
    return status == 0 ? complete_login(a) : status;
}

static const char *resp_of(const invocation *a)
{
    return a->all ? "WEIR.RESETALL" : a->command->resp;
}

/* ---- the reply ------------------------------------------------------------------------------- */

/* Finds words of an error that fit a RESP command only. Sets *ret_words to the words that fit the
 * command line, and *ret_before to the number of bytes before them. Returns the text after them. */
static const char *reword(const char *text, const char **ret_words, int *ret_before)
{
    static const char *const words[][2] = {
        {"WEIR.POLICY LIST shows all policies", "weir policies lists them"},
        {"k: expected a whole number", "--keys: expected a whole number"},
        {"the TTL: expected", "--ttl: expected"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *found = strstr(text, words[i][0]);
        if (found) {
            *ret_words = words[i][1];
            *ret_before = (int)(found - text);
            return found + strlen(words[i][0]);
        }
    }
    *ret_words = "";
    *ret_before = 0;
    return text;
}

/* Prints an error reply, without the code "ERR" that is meant for programs. */
static int print_error(const invocation *a, const client *c)
{
    char text[CLIENT_ERROR_MAX];
    const char *words, *after;
    int before;
    const weir_resp_value *head = &c->reply.value[0];
    size_t code = head->len > 4 && memcmp(head->text, "ERR ", 4) == 0 ? 4 : 0;
    weir_text_escape_to(text, sizeof text, head->text + code, head->len - code, WEIR_MASKED);
    after = reword(text, &words, &before);
    return complain(a, FAILED, "%s: %.*s%s%s", c->to.name, before, text, words, after);
}

static int print_reply(const invocation *a, const client *c)
{
    if (c->reply.value[0].type == WEIR_RESP_ERROR_REPLY)
        return print_error(a, c);
    switch (client_print(a->command->kind, &c->reply, a->policy, a->cost, a->keep_text, a->json)) {
    case CLIENT_PRINT_OK:
        return DONE;
    case CLIENT_PRINT_DENIED:
        return DENIED;
    case CLIENT_PRINT_NOT_WRITTEN:
        return complain(a, FAILED, "cannot write to standard output: %s", strerror(errno));
    case CLIENT_PRINT_UNEXPECTED:
        break;
    }
    return complain(a, FAILED, "%s: unexpected reply to %s; is this server a weir daemon?",
                    c->to.name, resp_of(a));
}

/* ---- the request ----------------------------------------------------------------------------- */

enum { WORDS_MAX = 8 };

static weir_slice word(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

/* Adds an option, unless it was not given. Returns how many words there are. */
static size_t list_option(weir_slice *ret, size_t n, const char *name, const char *value)
{
    if (!value)
        return n;
    ret[n] = word(name);
    ret[n + 1] = word(value);
    return n + 2;
}

/* Lists the words of the RESP command. Returns how many there are. */
static size_t list_words(const invocation *a, weir_slice ret[WORDS_MAX])
{
    size_t n = 0;
    ret[n++] = word(resp_of(a));
    if (a->command->kind == CLIENT_REPLY_POLICIES)
        ret[n++] = word("LIST");
    if (a->command->arguments > 0)
        ret[n++] = word(a->policy);
    if (a->command->arguments > 1 && !a->all)
        ret[n++] = word(a->key);
    client_reply_kind kind = a->command->kind;
    if (kind == CLIENT_REPLY_REFUND || kind == CLIENT_REPLY_RESERVE)
        ret[n++] = word(a->cost_text ? a->cost_text : "1");
    else
        n = list_option(ret, n, "COST", a->cost_text);
    n = list_option(ret, n, "KEEP", a->keep_text);
    n = list_option(ret, n, "TTL", a->ttl_text);
    if (kind <= CLIENT_REPLY_SETTLE)
        ret[n++] = word("WITHNAMES");
    if (a->command->kind == CLIENT_REPLY_TOP)
        ret[n++] = word(a->allowed ? "allowed" : "denied");
    if (a->keys_text)
        ret[n++] = word(a->keys_text);
    return n;
}

static int run_live(const invocation *a)
{
    bool once = a->count == 0 && a->interval_ns == 0 && !terminal_can_fill();
    const top_live_options options = {
        .login = a->login,
        .policy = a->policy,
        .allowed = a->allowed,
        .interval_ns = a->interval_ns > 0 ? a->interval_ns : 1000000000,
        .timeout_ns = a->timeout_ns,
        .count = once ? 1 : a->count,
    };
    return top_live(&options);
}

static int run(const invocation *a)
{
    static client c; /* its reply is large */
    weir_slice words[WORDS_MAX];
    client_status st = client_open(&c, &a->login, a->timeout_ns);
    if (st == CLIENT_OK)
        st = client_request(&c, words, list_words(a, words));
    int status = FAILED;
    if (st == CLIENT_OK)
        status = print_reply(a, &c);
    else if (st == CLIENT_USAGE)
        status = complain(a, USAGE, "%s", c.error);
    else if (st == CLIENT_UNREACHABLE)
        complain(a, FAILED,
                 "%s; start a daemon with `weir serve`, or set its address with --server or "
                 "WEIR_SERVER",
                 c.error);
    else
        complain(a, FAILED, "%s", c.error);
    client_close(&c);
    return status;
}

/* ---- the entry point ------------------------------------------------------------------------- */

/* Finds a command by its name, which the table in main.c has, too. */
static const client_command *find_command(const char *name)
{
    static const client_command *const all[] = {&take,  &peek,     &refund, &charge, &reserve,
                                                &renew, &commit,   &cancel, &reset,  &explain,
                                                &top,   &policies, &ping};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i]->name + strlen("weir "), name) == 0)
            return all[i];
    }
    abort(); /* main.c has a client command that this file does not have */
}

int weir_cmd_client(int argc, char **argv)
{
    invocation a = {.command = find_command(argv[0]),
                    .policy = "",
                    .key = "",
                    .cost = 1,
                    .timeout_ns = CLIENT_TIMEOUT_NS};
    int status = read_options(&a, argc, argv);
    if (status == 0 && a.help)
        fputs(a.command->help, stdout);
    else if (status == 0)
        status = a.live ? run_live(&a) : run(&a);
    free(a.password);
    return status;
}
