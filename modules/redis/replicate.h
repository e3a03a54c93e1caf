/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_REPLICATE_H
#define WEIR_MODULES_REDIS_REPLICATE_H
/* Writes decided states back to the keyspace, and replicates them. Replicas and the AOF receive
 * states (WEIR.STATE), never the command: a replica that ran the command at its own time would
 * decide otherwise. Main thread only. */

#include "keyspace.h"

/* Writes back the cells that changed, of n: removes idle states, sets the expiry, deletes keys
 * without a state, replicates, and publishes `event` for each key that changed. The keys must be
 * open for writing. */
void weir_cells_write(redis_ctx *ctx, weir_cell *cells, size_t n, weir_moment at,
                      const char *event);

/* Subscribes to the events that may start replication. Once, when the module is loaded. */
void weir_replicate_start(redis_ctx *ctx);

/* Whether a replica or an AOF may need a change that is made now. If not, nothing is serialised,
 * which saves a third of the time of a decision. */
bool weir_must_replicate(redis_ctx *ctx);

#endif
