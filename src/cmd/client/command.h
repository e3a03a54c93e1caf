/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_COMMAND_H
#define WEIR_CMD_CLIENT_COMMAND_H
/* The client commands: their arguments, options and help. */

#include "cmd/client/print.h"

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

/* The command with this name, such as "take", which the table in main.c has, too. */
const client_command *client_command_of(const char *name);

#endif
