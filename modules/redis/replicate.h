/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_REPLICATE_H
#define WEIR_MODULES_REDIS_REPLICATE_H
/* Whether anybody reads what is told of changes: replicas, or an AOF. To put into words what nobody
 * reads takes as long as a third of a decision. It must not know keys or states. All of it is for
 * the server's main thread. */

#include "abi.h"

#include <stdbool.h>

/* Once, when the module is loaded. On a server that does not say when its answer may have changed,
 * everybody is taken to follow always. */
void weir_replicate_start(redis_ctx *ctx);

/* False: no replica and no AOF, now or later, reads what is told of a change that is made now, but
 * begins with a copy of the data set that holds it. */
bool weir_must_replicate(redis_ctx *ctx);

#endif
