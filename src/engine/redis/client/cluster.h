/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_CLUSTER_H
#define WEIR_ENGINE_REDIS_CLUSTER_H
/* The slot map of a Cluster, by CLUSTER SLOTS. It is requested at the start, after MOVED, and every
 * second while a node of it is not up. A server without a map is a single server. */

#include "engine/redis/client/topology.h"

/* Requests the map if that is due. Lowers *wake_ns to the time of the next call. */
void weir_redis_cluster_poll(weir_redis_topology *t, int64_t now_ns, int64_t *wake_ns);

/* Takes one value of a reply to CLUSTER SLOTS. After the last one the topology may be another. */
void weir_redis_cluster_receive(weir_redis_topology *t, weir_redis_node *n,
                                const weir_resp_value *v, int64_t now_ns);

/* A connection was closed: no reply will come over it. */
void weir_redis_cluster_lost(weir_redis_topology *t, const weir_redis_node *n);

/* MOVED: a node serves a slot. So far the server may have been treated as a single server. */
void weir_redis_cluster_moved(weir_redis_topology *t, uint32_t slot, weir_redis_node *n);

#endif
