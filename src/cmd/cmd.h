/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CMD_H
#define WEIR_CMD_CMD_H
/* The commands of the program `weir`. Each gets its own name as argv[0] and returns the exit
 * status: 0, 1 if it failed while running, 2 if it was called wrongly; take and peek: 3 if denied.
 * --help shows "Usage:", what it does, its options, exit statuses and examples. */

int weir_cmd_serve(int argc, char **argv);
int weir_cmd_replay(int argc, char **argv);
int weir_cmd_policy(int argc, char **argv);
int weir_cmd_check(int argc, char **argv);
int weir_cmd_state(int argc, char **argv);
int weir_cmd_take(int argc, char **argv);
int weir_cmd_peek(int argc, char **argv);
int weir_cmd_refund(int argc, char **argv);
int weir_cmd_reset(int argc, char **argv);
int weir_cmd_explain(int argc, char **argv);
int weir_cmd_top(int argc, char **argv);
int weir_cmd_policies(int argc, char **argv);

#endif
