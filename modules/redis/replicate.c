/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The server is asked, and asked again after each event that may change what it said. Who begins to
 * follow does so in one of three ways:
 * - with a copy of the data set. A child writes it, or the server itself for a file with which a
 *   replica is then begun. There is a replication backlog, or an AOF, before the copy is begun;
 *   what is told between the two nobody reads;
 * - with the backlog that another replica left, or that was loaded with the data set: it is there;
 * - with that of a replica which becomes a master: its role changes.
 * Of a Cluster each node is taken to be followed: slots can move by streams of their own. */

#include "replicate.h"

static bool is_sure;     /* the next is true until an event says otherwise */
static bool is_followed; /* as the server said */
static bool is_silent;   /* a server that tells no events: nothing is ever sure */

static void on_event(redis_ctx *ctx, redis_event event, uint64_t what, void *data)
{
    (void)ctx;
    (void)event;
    (void)what;
    (void)data;
    is_sure = false;
}

void weir_replicate_start(redis_ctx *ctx)
{
    static const uint64_t events[] = {REDIS_EVENT_ROLE, REDIS_EVENT_FORK, REDIS_EVENT_FILE};
    is_sure = is_silent = false;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        redis_event event = {events[i], REDIS_EVENT_VERSION};
        if (redis.SubscribeToServerEvent(ctx, event, on_event) != REDIS_OK)
            is_silent = true;
    }
}

static bool has_backlog(redis_ctx *ctx)
{
    int error = REDIS_OK;
    redis_info *info = redis.GetServerInfo(ctx, "replication");
    unsigned long long active =
        redis.ServerInfoGetFieldUnsigned(info, "repl_backlog_active", &error);
    redis.FreeServerInfo(ctx, info);
    return active > 0 || error != REDIS_OK;
}

bool weir_must_replicate(redis_ctx *ctx)
{
    if (is_silent)
        return true;
    if (!is_sure) {
        int flags = redis.GetContextFlags(ctx);
        is_followed = (flags & (REDIS_CONTEXT_AOF | REDIS_CONTEXT_CLUSTER)) || has_backlog(ctx);
        is_sure = true;
    }
    return is_followed;
}
