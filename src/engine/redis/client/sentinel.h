/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_SENTINEL_H
#define WEIR_ENGINE_REDIS_SENTINEL_H
/* Which node is the master, by Sentinels. The current Sentinel is asked every second, and more
 * often while the master is not up. If the current Sentinel cannot be reached or does not know the
 * master, the next Sentinel becomes the current one. */

#include "engine/redis/client/topology.h"

/* Asks for the master if that is due. Lowers *wake_ns to the time of the next call. */
void weir_redis_sentinel_poll(weir_redis_topology *t, int64_t now_ns, int64_t *wake_ns);

/* Takes one value of a Sentinel's reply. After the last one the master may be another. */
void weir_redis_sentinel_receive(weir_redis_topology *t, weir_redis_node *n,
                                 const weir_resp_value *v, int64_t now_ns);

/* A connection was closed: no reply will come over it, and the master may have failed. */
void weir_redis_sentinel_lost(weir_redis_topology *t, const weir_redis_node *n);

#endif
