/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SERVE_RUNNING_H
#define WEIR_CMD_SERVE_RUNNING_H
/* The running daemon, for the files that implement it: daemon.c and status.c. */

#include "cmd/serve/daemon.h"
#include "cmd/serve/feature.h"
#include "cmd/serve/parts.h"
#include "net/server.h"

typedef struct daemon {
    const daemon_options *options;
    weir_store *store;
    weir_limiter *limiter;
    weir_server *server;
    void *part[FEATURES_MAX]; /* of each feature; NULL: it is not wanted */
    weir_config *config;      /* in use: of the start, or of the last reload */
    weir_config *replaced;    /* a list of those before, which loops may still use */
    port_mutex *lock;         /* guards `config`, for the loops */
    protocol_loop loops[WEIR_LOOPS_MAX];
    void *contexts[WEIR_LOOPS_MAX];
    unsigned loops_len;
    int64_t started_ns;
    store_events events;
    manager manager;
    take_over take_over;
    bool unreadable; /* the last attempt to read the configuration failed */
    port_counter reloads, reloads_refused;
    port_counter streams; /* open streams of /v1/live */
    port_counter changes; /* of single policies since the last tick */
} daemon;

/* The part of a feature; NULL: it is not wanted. */
static inline void *part_of(const daemon *d, const feature *f)
{
    return d->part[feature_index(f)];
}

/* Iterates with `i` over the features that are wanted and have a function. */
#define FOR_FEATURES(d, function)                                                                  \
    for (size_t i = 0; feature_at(i); i++)                                                         \
        if ((d)->part[i] && feature_at(i)->function)

/* ---- the configuration in use (in_use.c) ----------------------------------------------------- */

/* The configuration in use, which all loops read. A reload replaces it; each loop changes over when
 * it is woken, and the old one is freed once no loop has it. The configuration of the start is
 * kept, because it has what needs a restart. */

/* Replaces the configuration, which the daemon then owns, and sets the limits of the server and all
 * else that needs no loop. Call it on the thread that runs the server. */
void in_use_replace(daemon *d, weir_config *c);

/* For weir_server_options: the loop of this context changes over. Called on its thread. */
void in_use_refresh(void *context);

/* Frees the configurations that no loop has. Call it on the thread that runs the server. */
void in_use_collect(daemon *d);

/* Frees all but the one of the start. The loops have ended. */
void in_use_close(daemon *d);

/* The limits of the server with the configuration in use. */
weir_server_limits in_use_limits(const daemon *d);

/* Raises the limit on file descriptors, and logs if limits.connections needs more. */
void in_use_raise_descriptors(const daemon *d);

/* ---- status.c -------------------------------------------------------------------------------- */

/* Sets the callbacks of a loop, which report the state of the daemon. */
void status_open_loop(protocol_loop *l);

#endif
