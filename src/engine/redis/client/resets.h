/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_RESETS_H
#define WEIR_ENGINE_REDIS_RESETS_H
/* Reads the tokens of resets from Redis; client.h describes them. A client asks the node that has
 * their hash, and applies the whole reply. A reply that was on its way while another thread reset a
 * policy is dropped, and read again. Private to the client. */

#include "engine/redis/client/topology.h"

/* Sets the token of a request's policy, which was reset. Any thread. */
void weir_redis_resets_set(weir_redis_resets *r, const weir_engine_request *q, uint64_t token);

typedef struct weir_redis_resets_draft {
    uint64_t policy, token;
} weir_redis_resets_draft;

/* The state of a client. All zero at first. */
typedef struct weir_redis_resets_reader {
    weir_redis_node *asked; /* NULL: no request is in flight */
    int64_t next_ns;        /* of the next request */
    uint64_t version;       /* of the tokens when it was sent */
    uint64_t policy;        /* in the reply that is being read */
    size_t len;
    weir_redis_resets_draft *draft; /* of WEIR_REDIS_RESETS_MAX; NULL: not needed so far */
} weir_redis_resets_reader;

void weir_redis_resets_close(weir_redis_resets_reader *p);

/* The hash slot of the tokens. */
uint32_t weir_redis_resets_slot(const weir_redis_topology *t);

/* Reads the tokens if that is due. Lowers *wake_ns to the time of the next call. */
void weir_redis_resets_poll(weir_redis_resets_reader *p, weir_redis_topology *t, int64_t now_ns,
                            int64_t *wake_ns);

/* Takes one value of the reply. */
void weir_redis_resets_receive(weir_redis_resets_reader *p, weir_redis_topology *t,
                               weir_redis_node *n, const weir_resp_value *v, int64_t now_ns);

/* A connection was closed: no reply will come over it. */
void weir_redis_resets_lost(weir_redis_resets_reader *p, const weir_redis_node *n);

#endif
