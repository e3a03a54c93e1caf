/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The server is asked, and asked again after each event that may change what it said. Who begins to
 * follow does so in one of three ways. With a copy of the data set, which a child writes: a server
 * has a replication backlog, or an AOF, before it forks for that. With the backlog that another
 * replica left, or that was loaded with the data set: it is there already. With that of a replica
 * which becomes a master: its role changes. In a Cluster slots may move by a stream that begins
 * with a child as well, and no backlog tells of it.
 *
 * A server has a backlog some time before it forks for it: what is told in between is of nobody's
 * copy. A file that the server itself saves then, without a child, is a copy as well, with which a
 * replica may begin where the backlog was. */

#include "follow.h"

static bool is_sure;     /* the next is true until an event says otherwise */
static bool is_followed; /* as the server said */
static bool is_silent;   /* a server that tells no events: nothing is ever sure */
static bool has_forked;

static void on_event(redis_ctx *ctx, redis_event event, uint64_t what, void *data)
{
    (void)ctx;
    (void)what;
    (void)data;
    is_sure = false;
    has_forked = has_forked || event.id == REDIS_EVENT_FORK;
}

void weir_follow_start(redis_ctx *ctx)
{
    static const uint64_t events[] = {REDIS_EVENT_ROLE, REDIS_EVENT_FORK, REDIS_EVENT_FILE};
    is_sure = is_silent = has_forked = false;
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

bool weir_is_followed(redis_ctx *ctx)
{
    if (is_silent)
        return true;
    if (!is_sure) {
        int flags = redis.GetContextFlags(ctx);
        is_followed = (flags & REDIS_CONTEXT_AOF) ||
                      ((flags & REDIS_CONTEXT_CLUSTER) && has_forked) || has_backlog(ctx);
        is_sure = true;
    }
    return is_followed;
}
