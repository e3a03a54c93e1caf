/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The program `weir`: finds the command that is asked for, and at the end of any of them sees
 * whether what it printed has arrived. */

#include "cmd/cmd.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "weir " WEIR_VERSION ", an exact rate limiter\n"
    "\n"
    "  weir serve [--port N]                 answer redis-cli and any Redis client\n"
    "  weir replay --policy 'TEXT' FILE|-    run an access log through a policy, offline\n"
    "  weir policy 'TEXT'                    say what a policy admits\n"
    "  weir check FILE|-                     say what a configuration means, or what is wrong\n"
    "  weir version\n"
    "\n"
    "weir COMMAND --help says more.\n";

static int version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("weir " WEIR_VERSION);
    return 0;
}

static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fputs(usage, stdout);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", weir_cmd_serve},
    {"replay", weir_cmd_replay},
    {"policy", weir_cmd_policy},
    {"check", weir_cmd_check},
    {"version", version},
    {"--version", version},
    {"help", help},
    {"--help", help},
    {"-h", help},
};

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
        fputs(usage, stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return end(commands[i].run(argc - 1, argv + 1));
    }
    fprintf(stderr,
            "weir: unknown command '%s', expected serve, replay, policy, check or version\n",
            argv[1]);
    return 2;
}
