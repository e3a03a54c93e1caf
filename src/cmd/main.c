/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The program `weir`: finds the command that is asked for, and at the end of any of them sees
 * whether what it printed has arrived. */

#include "cmd/cmd.h"

#include <weir/weir.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int version(int argc, char **argv);
static int help(int argc, char **argv);

static const struct {
    const char *name, *args, *text;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", "[FILE] [--port N]", "answer Redis clients and HTTP", weir_cmd_serve},
    {"check", "FILE|-", "say what a configuration means, or what is wrong", weir_cmd_check},
    {"replay", "--policy TEXT FILE|-", "run an access log through a policy, offline",
     weir_cmd_replay},
    {"policy", "TEXT...", "say what a policy admits", weir_cmd_policy},
    {"state", "FILE", "say what is in a state file; export, import", weir_cmd_state},
    {"take", "POLICY KEY", "ask a daemon whether a request may pass", weir_cmd_take},
    {"peek", "POLICY KEY", "the same, charging nothing", weir_cmd_peek},
    {"refund", "POLICY KEY", "give back what a request was charged", weir_cmd_refund},
    {"reset", "POLICY KEY", "forget what a key has used", weir_cmd_reset},
    {"explain", "POLICY KEY", "say which limit applies to a key, and what is left",
     weir_cmd_explain},
    {"top", "POLICY", "list the keys that are denied most", weir_cmd_top},
    {"policies", "", "list a daemon's policies", weir_cmd_policies},
    {"help", "[COMMAND]", "say more", help},
    {"version", "", "say which weir this is", version},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *out)
{
    fputs("weir " WEIR_VERSION ", an exact rate limiter\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++) {
        int cols = fprintf(out, "  weir %s %s", commands[i].name, commands[i].args);
        fprintf(out, "%*s  %s\n", cols < 34 ? 34 - cols : 0, "", commands[i].text);
    }
    fputs("\nweir COMMAND --help says more.\n", out);
}

static int unknown_command(const char *name)
{
    fprintf(stderr, "weir: unknown command '%s', expected ", name);
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *before = i == 0 ? "" : i + 1 < COMMANDS ? ", " : " or ";
        fprintf(stderr, "%s%s", before, commands[i].name);
    }
    fputs("\n", stderr);
    return 2;
}

/* Runs the command argv[0]; -1 if there is none of that name. */
static int run(int argc, char **argv)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[0], commands[i].name) == 0)
            return commands[i].run(argc, argv);
    }
    return -1;
}

static bool asks_help(int argc, char **argv)
{
    return argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

static int version(int argc, char **argv)
{
    static const char text[] = "Usage: weir version\n"
                               "\n"
                               "Says which weir this is.\n"
                               "\n"
                               "  --help  this text\n"
                               "\n"
                               "Exit status: 0.\n"
                               "\n"
                               "Examples:\n"
                               "  weir version\n";
    fputs(asks_help(argc, argv) ? text : "weir " WEIR_VERSION "\n", stdout);
    return 0;
}

static int help(int argc, char **argv)
{
    static const char text[] = "Usage: weir help [COMMAND]\n"
                               "\n"
                               "Says what a command does, as its --help does; or which there are.\n"
                               "\n"
                               "  --help  this text\n"
                               "\n"
                               "Exit status: 0, or 2 if there is no such command.\n"
                               "\n"
                               "Examples:\n"
                               "  weir help\n"
                               "  weir help replay\n";
    static char option[] = "--help";
    if (argc < 2) {
        print_usage(stdout);
        return 0;
    }
    if (asks_help(argc, argv)) {
        fputs(text, stdout);
        return 0;
    }
    char *words[] = {argv[1], option, NULL};
    int status = run(2, words);
    return status >= 0 ? status : unknown_command(argv[1]);
}

/* The exit status: that of the command, but not 0 if standard output did not take all of it. A
 * command that writes to it past stdio (replay) says so by itself, and leaves nothing here. */
static int end(int status)
{
    errno = 0;
    bool flushed = fflush(stdout) == 0;
    if (flushed && !ferror(stdout))
        return status;
    int reason = flushed || errno == 0 ? EIO : errno; /* of an earlier write it is not known */
    fprintf(stderr, "weir: cannot write to standard output: %s\n", strerror(reason));
    return status == 0 ? 1 : status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    const char *name = argv[1];
    int status = -1;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage(stdout);
        status = 0;
    } else if (strcmp(name, "--version") == 0) {
        status = version(1, argv);
    } else {
        status = run(argc - 1, argv + 1);
    }
    return end(status >= 0 ? status : unknown_command(name));
}
