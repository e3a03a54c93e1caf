/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The client commands: `weir take`, `peek`, `refund`, `charge`, `reserve`, `renew`, `commit`,
 * `cancel`, `reset`, `explain`, `top`, `policies` and `ping`. Each of them sends one request to a
 * running daemon and prints the reply; `weir top` without a policy is in top_live.c. The daemon
 * decides; this file knows only the command lines and the requests, and command.c the help. */

#include "cmd/kit/commands.h"
#include "cmd/client/command.h"
#include "cmd/client/connection.h"
#include "cmd/client/print.h"
#include "cmd/client/screen.h"
#include "cmd/kit/caret.h"
#include "cmd/kit/input.h"
#include "cmd/kit/options.h"
#include "cmd/kit/terminal.h"
#include "port/assert.h"
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

/* Refuses a KEY with '*' of a reset, which looks like a pattern, unless it follows "--". */
static int check_star(const invocation *a)
{
    const char *name = a->command->name;
    const char *before = a->text ? "--text '" : "", *after = a->text ? "'" : "";
    if (!(a->command->options & HAS_ALL) || !strchr(a->key, '*') || a->ended)
        return 0;
    return complain(a, USAGE,
                    "KEY is '%s', which is not a pattern; to reset all keys: %s %s%s%s --all; for "
                    "the key of that name: %s %s%s%s -- '%s'",
                    a->key, name, before, a->policy, after, name, before, a->policy, after, a->key);
}

static int set_arguments(invocation *a, int argc, char **argv)
{
    static const char *const usual[] = {"POLICY", "KEY"};
    const char *const *names = a->command->names[0] ? a->command->names : usual;
    const char *name = a->command->name;
    int n = a->command->arguments - a->all;
    WEIR_ASSERT(n <= 2);
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

int weir_cmd_client(int argc, char **argv)
{
    invocation a = {.command = client_command_of(argv[0]),
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
