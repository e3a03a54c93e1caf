/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The program `weir`: the table of its commands, and dispatch by name. After a command has run,
 * main() flushes standard output and reports a write error. */

#include "cmd/kit/commands.h"

#include <weir/weir.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int version(int argc, char **argv);
static int help(int argc, char **argv);

static const struct {
    const char *name, *args, *text;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", "[FILE] [--port N]", "run the daemon: RESP, HTTP, gRPC and, for HAProxy, SPOE",
     weir_cmd_serve},
    {"check", "FILE|-", "check a configuration and print what it means", weir_cmd_check},
    {"replay", "--policy TEXT FILE...", "run access logs through policies, offline",
     weir_cmd_replay},
    {"suggest", "FILE...", "find the tightest limit that denies next to no key of a log",
     weir_cmd_suggest},
    {"accuracy", "--limit N/P FILE...", "count what approximate algorithms decide wrongly",
     weir_cmd_accuracy},
    {"policy", "TEXT...", "print what a policy admits", weir_cmd_policy},
    {"demo", "", "draw what fixed-window, sliding-log and gcra do at a boundary", weir_cmd_demo},
    {"state", "FILE", "show, back up, export or import a state file", weir_cmd_state},
    {"take", "POLICY KEY", "ask a daemon whether a request may pass", weir_cmd_client},
    {"peek", "POLICY KEY", "the same without charging the key", weir_cmd_client},
    {"refund", "POLICY KEY", "give units back that a request was charged", weir_cmd_client},
    {"charge", "POLICY KEY", "charge units that were used, whether they fit or not",
     weir_cmd_client},
    {"reserve", "POLICY KEY", "take units or slots, and settle or give them back later",
     weir_cmd_client},
    {"renew", "ID", "extend a reservation", weir_cmd_client},
    {"commit", "ID N", "settle a reservation: charge what was used", weir_cmd_client},
    {"cancel", "ID", "give all units of a reservation back", weir_cmd_client},
    {"reset", "POLICY KEY", "restore the full limit of a key", weir_cmd_client},
    {"explain", "POLICY KEY", "print which limit applies to a key, and what remains",
     weir_cmd_client},
    {"top", "[POLICY]", "show what a daemon decides now, or the keys that are denied most",
     weir_cmd_client},
    {"policies", "", "list the policies of a daemon", weir_cmd_client},
    {"ping", "", "check that a daemon answers", weir_cmd_client},
    {"help", "[COMMAND]", "print the help of a command", help},
    {"version", "", "print the version", version},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *out)
{
    fputs("weir " WEIR_VERSION ", an exact rate limiter\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++) {
        int cols = fprintf(out, "  weir %s %s", commands[i].name, commands[i].args);
        fprintf(out, "%*s  %s\n", cols < 35 ? 35 - cols : 0, "", commands[i].text);
    }
    fputs("\nweir COMMAND --help prints its options.\n", out);
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

/* Runs the command argv[0]. Returns -1 if there is no such command. */
static int run(int argc, char **argv)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[0], commands[i].name) == 0)
            return commands[i].run(argc, argv);
    }
    return -1;
}

static bool wants_help(int argc, char **argv)
{
    return argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

/* Reports a word that a command does not take. Returns the exit status. */
static int unexpected(const char *command, const char *word)
{
    fprintf(stderr, "weir %s: unexpected '%s'; see weir %s --help\n", command, word, command);
    return 2;
}

static int version(int argc, char **argv)
{
    static const char text[] = "Usage: weir version\n"
                               "\n"
                               "Prints the version.\n"
                               "\n"
                               "  --help  print this text\n"
                               "\n"
                               "Exit status: 0, or 2 for a usage error.\n"
                               "\n"
                               "Examples:\n"
                               "  weir version\n";
    if (argc > 1 && !wants_help(argc, argv))
        return unexpected("version", argv[1]);
    fputs(argc > 1 ? text : "weir " WEIR_VERSION "\n", stdout);
    return 0;
}

static int help(int argc, char **argv)
{
    static const char text[] = "Usage: weir help [COMMAND]\n"
                               "\n"
                               "Prints the help of a command, or the list of commands.\n"
                               "\n"
                               "  --help  print this text\n"
                               "\n"
                               "Exit status: 0, or 2 for a usage error, such as an unknown "
                               "command.\n"
                               "\n"
                               "Examples:\n"
                               "  weir help\n"
                               "  weir help replay\n";
    static char option[] = "--help";
    if (argc < 2) {
        print_usage(stdout);
        return 0;
    }
    if (wants_help(argc, argv)) {
        fputs(text, stdout);
        return 0;
    }
    if (argc > 2)
        return unexpected("help", argv[2]);
    char *words[] = {argv[1], option, NULL};
    int status = run(2, words);
    return status >= 0 ? status : unknown_command(argv[1]);
}

/* Flushes standard output. Returns the exit status of the command, or 1 instead of 0 if a write
 * failed. Commands that write without stdio (replay) report their own write errors. */
static int end(int status)
{
    errno = 0;
    bool flushed = fflush(stdout) == 0;
    if (flushed && !ferror(stdout))
        return status;
    int reason = flushed || errno == 0 ? EIO : errno; /* the errno of earlier writes is lost */
    fprintf(stderr, "weir: cannot write to standard output: %s\n", strerror(reason));
    return status == 0 ? 1 : status;
}

/* Occupies each standard file descriptor that is closed, so that no socket or file of the program
 * becomes one: what it prints would be sent there. Reading and writing them fail with EBADF, as if
 * they were closed. */
static void occupy_closed(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* becomes fd */
    }
}

int main(int argc, char **argv)
{
    occupy_closed();
    weir_use_guests();
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    const char *name = argv[1];
    int status = -1;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        status = help(argc - 1, argv + 1);
    else if (strcmp(name, "--version") == 0)
        status = version(argc - 1, argv + 1);
    else
        status = run(argc - 1, argv + 1);
    return end(status >= 0 ? status : unknown_command(name));
}
