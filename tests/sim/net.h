/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_SIM_NET_H
#define WEIR_TESTS_SIM_NET_H
/* A server that has the state, and the way there, as an engine: messages take time, overtake each
 * other, and are lost on the way there or back. The server's clock is the world's. */

#include "service/engine.h"
#include "world.h"

/* What may happen to messages, in the same unit everywhere: of 1000. */
typedef struct net_weather {
    int64_t delay_ns_min, delay_ns_max; /* of most */
    int64_t slow_ns_max;                /* of the others */
    unsigned slow, lost_there, lost_back;
    unsigned at_once; /* answers that take no time at all, from within ask() */
    int64_t deadline_ns;
} net_weather;

typedef struct net_server {
    world *world;
    weir_store *store;
    const weir_policy *policy; /* of all requests */
    net_weather weather;
    /* So much was charged for a key, at the world's time; below 0: given back. */
    void (*charged)(void *ctx, const weir_engine_request *q, int64_t units);
    /* An answer to a take, whose key lay at `key`, has arrived: it was decided at that time of the
     * world. */
    void (*told)(void *ctx, const char *key, int64_t decided_ns);
    void *ctx;
    uint64_t asked; /* requests that came to the server */
} net_server;

typedef struct net_call net_call;

enum { NET_KEY_MAX = 8 };

/* The way of one node. */
typedef struct net_link {
    weir_engine face;
    net_server *server;
    net_call *calls;   /* under way, and those that nobody waits for any more */
    int64_t offset_ns; /* of the node's clock */
    bool cut;          /* nothing goes through */
    bool knows_cut;    /* and the node knows it, and says so at once */
    bool dead;         /* the node is no more: nothing is sent */
} net_link;

void net_link_init(net_link *l, net_server *s, int64_t offset_ns);

#endif
