/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_COMMANDS_H
#define WEIR_MODULES_REDIS_COMMANDS_H
/* The list of commands, and what the server shows of them. */

#include "abi.h"

#include <stdbool.h>

/* Makes them all known. False if the server refuses one. */
bool weir_commands_create(redis_ctx *ctx);

int weir_state_command(redis_ctx *ctx, redis_string **argv, int argc); /* data_type.c */

#endif
