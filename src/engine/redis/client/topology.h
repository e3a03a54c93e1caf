/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_TOPOLOGY_H
#define WEIR_ENGINE_REDIS_TOPOLOGY_H
/* The topology: which nodes are known, and which of them serves a key. cluster.c learns the
 * topology from the slot map of a Cluster, sentinel.c from Sentinels. */

#include "engine/redis/client/node.h"

#define WEIR_REDIS_NO_NODE UINT16_MAX

typedef enum weir_redis_mode {
    WEIR_REDIS_UNKNOWN, /* no server has replied yet */
    WEIR_REDIS_SINGLE,  /* one node serves all keys: a single server, or a Sentinel's master */
    WEIR_REDIS_CLUSTER
} weir_redis_mode;

/* The state of cluster.c. */
typedef struct weir_redis_cluster {
    struct weir_redis_draft *draft; /* the map that is being read; NULL: none */
    weir_redis_node *refreshing;    /* it was asked for the map; NULL: no request is in flight */
    uint32_t refresh_number;        /* of the reply in its pipeline */
    bool refresh_wanted;
    int64_t refreshed_ns; /* when the map was last requested */
    uint16_t refresh_at;  /* the node that was asked last */
    bool is_alive;        /* a node of the map is up */
    uint32_t uncovered;   /* slots that no node serves */
    int64_t logged_ns;    /* when a map was last logged */
    bool has_changed;     /* the map is not the one that was logged */
} weir_redis_cluster;

/* The state of sentinel.c. */
typedef struct weir_redis_sentinel {
    uint16_t at; /* the seed that is the current Sentinel */
    bool asked;  /* a request is in flight */
    int64_t next_ns;
    char host[WEIR_REDIS_HOST_MAX]; /* of the master, in the reply that is being read */
    uint16_t port;
} weir_redis_sentinel;

typedef struct weir_redis_topology {
    weir_redis_context *context;
    weir_redis_mode mode;
    weir_redis_node *node[WEIR_REDIS_NODES_MAX]; /* NULL: free */
    uint32_t hash[WEIR_REDIS_NODES_MAX];         /* of node[i] */
    size_t nodes_end;                            /* one past the last that is not NULL */
    uint16_t seeds;                              /* node[0 .. seeds) are those of the URLs */
    uint32_t database;
    bool prefix_has_tag;                /* the prefix has a '{' */
    uint16_t master;                    /* SINGLE; or WEIR_REDIS_NO_NODE */
    uint16_t of_slot[WEIR_REDIS_SLOTS]; /* CLUSTER; or WEIR_REDIS_NO_NODE */
    weir_redis_cluster cluster;
    weir_redis_sentinel sentinel;
} weir_redis_topology;

/* Adds a node for each URL. Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_SYNTAX for a bad URL. */
WEIR_NODISCARD weir_status weir_redis_topology_init(weir_redis_topology *ret,
                                                    weir_redis_context *context);
void weir_redis_topology_free(weir_redis_topology *t);

/* Finds or adds a node. When there are WEIR_REDIS_NODES_MAX nodes, idle nodes outside the map are
 * removed. NULL: no memory, or no idle node. */
weir_redis_node *weir_redis_topology_add(weir_redis_topology *t, const char *host, uint16_t port);

/* The hash slot of a request's key. */
uint32_t weir_redis_topology_slot(const weir_redis_topology *t, const weir_engine_request *q);

/* The node that serves a slot; outside a Cluster, any slot. NULL: none is known. */
weir_redis_node *weir_redis_topology_node(const weir_redis_topology *t, uint32_t slot);

/* Whether calls go to the node. */
bool weir_redis_topology_serves(const weir_redis_topology *t, const weir_redis_node *n);
/* Whether there should be a connection to the node. */
bool weir_redis_topology_wants(const weir_redis_topology *t, const weir_redis_node *n);

/* ---- the slot map of a Cluster (cluster.c) --------------------------------------------------- */

/* The slot map of a Cluster, by CLUSTER SLOTS. It is requested at the start, after MOVED, and every
 * second while a node of it is not up. A server without a map is a single server. */

/* Requests the map if that is due. Lowers *wake_ns to the time of the next call. */
void weir_redis_cluster_poll(weir_redis_topology *t, int64_t now_ns, int64_t *wake_ns);

/* Takes one value of a reply to CLUSTER SLOTS. After the last one the topology may be another. */
void weir_redis_cluster_receive(weir_redis_topology *t, weir_redis_node *n,
                                const weir_resp_value *v, int64_t now_ns);

/* A connection was closed: no reply will come over it. */
void weir_redis_cluster_lost(weir_redis_topology *t, const weir_redis_node *n);

/* MOVED: a node serves a slot. So far the server may have been treated as a single server. */
void weir_redis_cluster_moved(weir_redis_topology *t, uint32_t slot, weir_redis_node *n);

/* ---- the master by Sentinels (sentinel.c) ---------------------------------------------------- */

/* Which node is the master, by Sentinels. The current Sentinel is asked every second, and more
 * often while the master is not up. If the current Sentinel cannot be reached or does not know the
 * master, the next Sentinel becomes the current one. */

/* Asks for the master if that is due. Lowers *wake_ns to the time of the next call. */
void weir_redis_sentinel_poll(weir_redis_topology *t, int64_t now_ns, int64_t *wake_ns);

/* Takes one value of a Sentinel's reply. After the last one the master may be another. */
void weir_redis_sentinel_receive(weir_redis_topology *t, weir_redis_node *n,
                                 const weir_resp_value *v, int64_t now_ns);

/* A connection was closed: no reply will come over it, and the master may have failed. */
void weir_redis_sentinel_lost(weir_redis_topology *t, const weir_redis_node *n);

#endif
