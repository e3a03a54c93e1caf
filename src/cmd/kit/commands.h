/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_COMMANDS_H
#define WEIR_CMD_KIT_COMMANDS_H
/* The commands of the program `weir`; the table of them is in main.c. Each function gets the name
 * of its command as argv[0] and returns the exit status: 0 for success, 1 for a failure, 2 for
 * wrong usage. take, peek and reserve return 3 if the request is denied. With --help a command
 * prints its usage, options, exit statuses and examples. */

/* Gives the guests of the program to the configuration. main() calls it before any command. */
void weir_use_guests(void);

int weir_cmd_serve(int argc, char **argv);
int weir_cmd_replay(int argc, char **argv);
int weir_cmd_suggest(int argc, char **argv);
int weir_cmd_policy(int argc, char **argv);
int weir_cmd_demo(int argc, char **argv);
int weir_cmd_check(int argc, char **argv);
int weir_cmd_state(int argc, char **argv);
int weir_cmd_accuracy(int argc, char **argv);

/* take, peek, refund, charge, reserve, renew, commit, cancel, reset, explain, top and policies, in
 * cmd/client/. */
int weir_cmd_client(int argc, char **argv);

#endif
