/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_DATA_TYPE_H
#define WEIR_MODULES_REDIS_DATA_TYPE_H
/* The data type of the values. */

#include "keyspace.h"

/* Makes it known to the server, as weir_data_type. */
bool weir_data_type_create(redis_ctx *ctx);

#endif
