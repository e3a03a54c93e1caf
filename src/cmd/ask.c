/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir take`, `weir peek` and `weir reset`: one question to a running daemon, and its answer in
 * words or as JSON. It must not know how anything is decided. */

#include "cmd/client.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/out.h"
#include "cmd/span.h"

#include <weir/weir.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALLOWED = 0, FAILED = 1, USAGE = 2, DENIED = 3 }; /* exit statuses */

#define TIMEOUT_MS_MAX 86400000

typedef struct verb {
    const char *name; /* "weir take" */
    const char *help;
    const char *command;      /* of RESP */
    const char *text_command; /* with --text; NULL: there is none */
    bool costs;               /* it takes --cost, and answers with a decision */
} verb;

typedef struct ask {
    const verb *verb;
    const char *server, *cost_text; /* NULL if not given */
    int64_t cost, timeout_ns;
    bool text, json, help;
    const char *policy, *key;
} ask;

/* ---- help ------------------------------------------------------------------------------------ */

#define HELP_SERVER                                                                                \
    "  --server SERVER  where the daemon is: HOST:PORT, or the path of its socket;\n"              \
    "                   else what WEIR_SERVER says, else " CLIENT_SERVER "\n"                      \
    "  --timeout TIME   how long it may take: 5s, 250ms (default 5s)\n"
#define HELP_END                                                                                   \
    "  --json           print the answer as one JSON object\n"                                     \
    "  --help           this text\n"                                                               \
    "\n"                                                                                           \
    "If the daemon asks for a password, it is taken from WEIR_PASSWORD.\n"

static const verb take = {
    "weir take",
    "Usage: weir take [OPTION]... POLICY KEY\n"
    "\n"
    "Asks a running daemon whether a request of KEY may pass, and charges it if so.\n"
    "POLICY is the name of one of the daemon's policies.\n"
    "\n"
    "  --cost N         what the request costs, 0 to 2147483647 (default 1)\n"
    "  --text           POLICY is a policy text, like 'gcra 100/s burst 20'\n" HELP_SERVER HELP_END
    "Exit status: 0 allowed, 3 denied, 1 something failed, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir take api alice\n"
    "  weir take --cost 65536 upload alice\n"
    "  weir take --text 'sliding-log 5/m' login:alice || echo 'not now'\n"
    "  weir take --server /run/weir/weir.sock --json api alice\n",
    "WEIR.TAKE",
    "WEIR.CHECK",
    true,
};

static const verb peek = {
    "weir peek",
    "Usage: weir peek [OPTION]... POLICY KEY\n"
    "\n"
    "Asks a running daemon what weir take would answer, and charges nothing.\n"
    "POLICY is the name of one of the daemon's policies.\n"
    "\n"
    "  --cost N         what the request would cost, 0 to 2147483647 (default 1)\n" HELP_SERVER
        HELP_END
    "Exit status: 0 it would be allowed, 3 denied, 1 something failed, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir peek api alice\n"
    "  weir peek --cost 65536 --json upload alice\n",
    "WEIR.PEEK",
    NULL,
    true,
};

static const verb reset = {
    "weir reset",
    "Usage: weir reset [OPTION]... POLICY KEY\n"
    "\n"
    "Makes a running daemon forget what KEY has used, so that it is as good as new.\n"
    "POLICY is the name of one of the daemon's policies.\n"
    "\n" HELP_SERVER HELP_END "Exit status: 0 done, 1 something failed, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir reset api alice\n"
    "  weir reset --server 10.0.0.5:6380 login alice\n",
    "WEIR.RESET",
    NULL,
    false,
};

/* ---- the command line ------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static int complain(const ask *a, int status,
                                                          const char *text, ...)
{
    va_list args;
    va_start(args, text);
    fprintf(stderr, "%s: ", a->verb->name);
    vfprintf(stderr, text, args);
    fputs("\n", stderr);
    va_end(args);
    return status;
}

/* Digits alone, at most `most`; *ret_end is behind them. */
static bool read_number(const char *text, int64_t most, int64_t *ret, const char **ret_end)
{
    const char *at = text;
    int64_t n = 0;
    for (; *at >= '0' && *at <= '9' && n <= most; at++)
        n = n * 10 + (*at - '0');
    *ret = n;
    *ret_end = at;
    return at > text && n <= most;
}

static int set_cost(ask *a, const char *text)
{
    const char *end;
    if (!read_number(text, WEIR_COST_MAX, &a->cost, &end) || *end)
        return complain(a, USAGE, "--cost: expected a number from 0 to %d, found '%s'",
                        WEIR_COST_MAX, text);
    a->cost_text = text;
    return 0;
}

static int set_timeout(ask *a, const char *text)
{
    int64_t n = 0;
    const char *end;
    bool good = read_number(text, TIMEOUT_MS_MAX, &n, &end);
    if (good && strcmp(end, "s") == 0)
        n *= 1000;
    else
        good = good && strcmp(end, "ms") == 0;
    if (!good || n < 1 || n > TIMEOUT_MS_MAX)
        return complain(a, USAGE,
                        "--timeout: expected a time from 1ms to 86400s, like 5s, "
                        "found '%s'",
                        text);
    a->timeout_ns = n * 1000000;
    return 0;
}

enum { OPT_COST = 256, OPT_TEXT, OPT_SERVER, OPT_TIMEOUT, OPT_JSON };

static int set_option(ask *a, int c, const char *value)
{
    switch (c) {
    case OPT_COST:
        return set_cost(a, value);
    case OPT_TIMEOUT:
        return set_timeout(a, value);
    case OPT_SERVER:
        a->server = value;
        return 0;
    case OPT_TEXT:
        a->text = true;
        return 0;
    case OPT_JSON:
        a->json = true;
        return 0;
    case 'h':
        a->help = true;
        return 0;
    default:
        return USAGE;
    }
}

/* What is given beside the options. */
static int set_words(ask *a, int argc, char **argv)
{
    if (argc < 2)
        return complain(a, USAGE, "%s missing; see %s --help",
                        argc == 0 ? "POLICY and KEY are" : "KEY is", a->verb->name);
    if (argc > 2)
        return complain(a, USAGE, "unexpected '%s' behind POLICY and KEY; see %s --help", argv[2],
                        a->verb->name);
    a->policy = argv[0];
    a->key = argv[1];
    if (!*a->policy || !*a->key)
        return complain(a, USAGE, "%s is empty", *a->policy ? "KEY" : "POLICY");
    if (!a->server)
        a->server = getenv("WEIR_SERVER");
    if (!a->server || !*a->server)
        a->server = CLIENT_SERVER;
    return 0;
}

static int read_options(ask *a, int argc, char **argv)
{
    /* The first are those that not every verb has. */
    static const struct option known[] = {
        {"text", no_argument, NULL, OPT_TEXT},
        {"cost", required_argument, NULL, OPT_COST},
        {"server", required_argument, NULL, OPT_SERVER},
        {"timeout", required_argument, NULL, OPT_TIMEOUT},
        {"json", no_argument, NULL, OPT_JSON},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const struct option *mine = a->verb->text_command ? known
                                : a->verb->costs      ? known + 1
                                                      : known + 2;
    int c;
    optind = 0;
    while ((c = options_next(a->verb->name, argc, argv, mine)) != -1) {
        int status = set_option(a, c, optarg);
        if (status != 0 || a->help)
            return status;
    }
    return set_words(a, argc - optind, argv + optind);
}

/* ---- the answer ------------------------------------------------------------------------------ */

typedef struct figures {
    int64_t allowed, limit, remaining, retry_after_ms, reset_after_ms, delay_ms, layer;
    const char *policy;
    size_t policy_len;
} figures;

/* The names come with WITHNAMES. Also looks whether each is where it can be. */
static bool read_figures(const weir_resp_reply *reply, figures *ret)
{
    const struct {
        const char *name;
        int64_t *at, low, high;
    } members[] = {
        {"allowed", &ret->allowed, 0, 1},
        {"limit", &ret->limit, 0, INT64_MAX},
        {"remaining", &ret->remaining, 0, INT64_MAX},
        {"retry_after_ms", &ret->retry_after_ms, -1, INT64_MAX},
        {"reset_after_ms", &ret->reset_after_ms, 0, INT64_MAX},
        {"delay_ms", &ret->delay_ms, 0, INT64_MAX},
        {"layer", &ret->layer, 0, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const weir_resp_node *n = weir_resp_reply_member(reply, members[i].name, WEIR_RESP_INTEGER);
        if (!n || n->integer < members[i].low || n->integer > members[i].high)
            return false;
        *members[i].at = n->integer;
    }
    const weir_resp_node *policy = weir_resp_reply_member(reply, "policy", WEIR_RESP_BULK);
    if (!policy)
        return false;
    ret->policy = policy->text;
    ret->policy_len = policy->len;
    return true;
}

/* The members and their order are those of the daemon's HTTP answers. */
static int print_json(const figures *f, const char *policy, size_t policy_len)
{
    static out_stream out; /* 64 KiB are much for a stack */
    char text[256];
    out_init(&out, STDOUT_FILENO);
    if (f) {
        snprintf(text, sizeof text,
                 "{\"allowed\":%s,\"limit\":%" PRId64 ",\"remaining\":%" PRId64
                 ",\"retry_after_ms\":%" PRId64 ",\"reset_after_ms\":%" PRId64
                 ",\"delay_ms\":%" PRId64 ",\"policy\":\"",
                 f->allowed ? "true" : "false", f->limit, f->remaining, f->retry_after_ms,
                 f->reset_after_ms, f->delay_ms);
        out_text(&out, text);
    } else {
        out_text(&out, "{\"reset\":true,\"policy\":\"");
    }
    out_json(&out, policy, policy_len);
    out_text(&out, "\"");
    if (f) {
        snprintf(text, sizeof text, ",\"layer\":%" PRId64, f->layer);
        out_text(&out, text);
    }
    out_text(&out, "}\n");
    return out_flush(&out);
}

static void print_words(const figures *f, int64_t cost)
{
    char span[SPAN_TEXT_MAX];
    if (!f->allowed && f->retry_after_ms < 0 && cost > f->limit) {
        printf("denied   for ever: it costs more than the limit of %" PRId64 "\n", f->limit);
        return;
    }
    if (!f->allowed && f->retry_after_ms < 0) { /* what could pass is denied for nothing else */
        puts("denied   for ever: the key is on the policy's deny list");
        return;
    }
    if (!f->allowed) {
        span_ms_text(f->retry_after_ms, span);
        printf("denied   retry in %s\n", span);
        return;
    }
    printf("allowed  %" PRId64 " of %" PRId64 " remaining", f->remaining, f->limit);
    if (f->delay_ms > 0) {
        span_ms_text(f->delay_ms, span);
        printf(", to be served in %s", span);
    }
    span_ms_text(f->reset_after_ms, span);
    if (f->reset_after_ms > 0)
        printf(", as good as new in %s\n", span);
    else
        puts(", as good as new");
}

/* What the daemon refuses, in its own words, without those for programs before them. */
static int refused(const ask *a, const client *c)
{
    char text[CLIENT_ERROR_MAX];
    const weir_resp_node *head = &c->reply.node[0];
    const char *at = head->text, *end = head->text + head->len;
    if (head->len > 4 && memcmp(at, "ERR ", 4) == 0)
        at += 4;
    client_printable(at, (size_t)(end - at), text, sizeof text);
    return complain(a, FAILED, "%s: %s", c->server, text);
}

static int answered(const ask *a, const client *c)
{
    const weir_resp_node *head = &c->reply.node[0];
    figures f;
    if (head->type == WEIR_RESP_REPLY_FAILED)
        return refused(a, c);
    bool good = a->verb->costs ? read_figures(&c->reply, &f)
                               : head->type == WEIR_RESP_SIMPLE && head->len == 2 &&
                                     memcmp(head->text, "OK", 2) == 0;
    if (!good)
        return complain(a, FAILED, "%s: its answer is not that of a weir", c->server);
    int error = 0;
    if (a->json && a->verb->costs)
        error = print_json(&f, f.policy, f.policy_len);
    else if (a->json)
        error = print_json(NULL, a->policy, strlen(a->policy));
    else if (a->verb->costs)
        print_words(&f, a->cost);
    else
        puts("reset");
    if (error != 0)
        return complain(a, FAILED, "cannot write to standard output: %s", strerror(error));
    return !a->verb->costs || f.allowed ? ALLOWED : DENIED;
}

static client_word word(const char *text)
{
    return (client_word){text, strlen(text)};
}

static int run(const ask *a)
{
    static client c; /* its reply is large */
    const verb *v = a->verb;
    client_word words[6] = {word(a->text && v->text_command ? v->text_command : v->command),
                            word(a->policy), word(a->key)};
    size_t n = 3;
    if (a->cost_text) {
        words[n++] = word("COST");
        words[n++] = word(a->cost_text);
    }
    if (v->costs)
        words[n++] = word("WITHNAMES");
    const char *password = getenv("WEIR_PASSWORD");
    client_status st =
        client_open(&c, a->server, password && *password ? password : NULL, a->timeout_ns);
    if (st == CLIENT_OK)
        st = client_ask(&c, words, n);
    int status = FAILED;
    if (st == CLIENT_OK)
        status = answered(a, &c);
    else if (st == CLIENT_BAD_ADDRESS)
        status = complain(a, USAGE, "%s", c.error);
    else if (st == CLIENT_UNREACHABLE)
        complain(a, FAILED,
                 "%s; `weir serve` starts a daemon, --server or WEIR_SERVER says where one is",
                 c.error);
    else
        complain(a, FAILED, "%s", c.error);
    client_close(&c);
    return status;
}

static int command(const verb *v, int argc, char **argv)
{
    ask a = {.verb = v, .policy = "", .key = "", .cost = 1, .timeout_ns = CLIENT_TIMEOUT_NS};
    int status = read_options(&a, argc, argv);
    if (status == 0 && a.help)
        fputs(v->help, stdout);
    else if (status == 0)
        status = run(&a);
    return status;
}

int weir_cmd_take(int argc, char **argv)
{
    return command(&take, argc, argv);
}

int weir_cmd_peek(int argc, char **argv)
{
    return command(&peek, argc, argv);
}

int weir_cmd_reset(int argc, char **argv)
{
    return command(&reset, argc, argv);
}
