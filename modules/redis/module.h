/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_MODULE_H
#define WEIR_MODULES_REDIS_MODULE_H
/* What module.c registers with the server. */

#include "abi.h"

#include <stdbool.h>

/* Registers all commands (commands.c). Returns false if the server refuses one. */
bool weir_commands_create(redis_ctx *ctx);

/* Registers the data type as weir_data_type (data_type.c). Returns false if the server refuses. */
bool weir_data_type_create(redis_ctx *ctx);

int weir_state_command(redis_ctx *ctx, redis_string **argv, int argc); /* data_type.c */

#endif
