/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_SIM_NET_H
#define WEIR_TESTS_SIM_NET_H
/* A simulated server and the network to it, as an engine. Messages take time, overtake each other,
 * and are lost on the way to the server or back. The server uses the clock of the world. */

#include "service/engine.h"
#include "world.h"

/* Faults of messages. Probabilities are in thousandths. */
typedef struct net_faults {
    int64_t delay_ns_min, delay_ns_max; /* of most messages */
    int64_t slow_ns_max;                /* of slow messages */
    unsigned slow, lost_there, lost_back;
    unsigned at_once; /* answers within submit() */
    int64_t deadline_ns;
} net_faults;

typedef struct net_server {
    world *world;
    weir_store *store;
    const weir_policy *policy; /* of all requests */
    net_faults faults;
    /* `units` were charged now; below 0: given back. */
    void (*charged)(void *ctx, const weir_engine_request *q, int64_t units);
    /* An answer to a take arrived at its node. The server decided at decided_ns. */
    void (*decided)(void *ctx, const char *key, int64_t decided_ns);
    void *ctx;
    uint64_t asked; /* requests that reached the server */
} net_server;

typedef struct net_call net_call;

enum { NET_KEY_MAX = 8 };

/* The network of one node. */
typedef struct net_link {
    weir_engine face;
    net_server *server;
    net_call *calls;   /* in flight, including abandoned ones */
    int64_t offset_ns; /* of the node's clock */
    bool cut;          /* partitioned: all messages are lost */
    bool knows_cut;    /* the node notices the partition, and fails requests at once */
    bool dead;         /* the node has died: nothing is sent */
} net_link;

void net_link_init(net_link *l, net_server *s, int64_t offset_ns);

#endif
