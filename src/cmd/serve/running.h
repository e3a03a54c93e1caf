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
    protocol_loop loops[WEIR_LOOPS_MAX];
    void *contexts[WEIR_LOOPS_MAX];
    unsigned loops_len;
    int64_t started_ns;
    store_events events;
    manager manager;
    take_over take_over;
    size_t policies; /* of the active configuration */
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

/* Sets the callbacks of a loop, which report the state of the daemon (status.c). */
void status_open_loop(protocol_loop *l);

#endif
