/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_STATE_H
#define WEIR_MODULES_REDIS_STATE_H
/* The data type of the values. */

#include "decide.h"

/* Makes it known to the server, as weir_type. */
bool weir_type_create(redis_ctx *ctx);

#endif
