/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_DAEMON_H
#define WEIR_CMD_DAEMON_H
/* The daemon: from a configuration it makes a store, a limiter, a service for each event loop, and
 * a server that speaks RESP and HTTP. */

#include "cmd/config/config.h"
#include "cmd/log.h"

enum { DAEMON_ADDRESSES_MAX = CONFIG_LISTENS_MAX * (CONFIG_ADDRESS_MAX + 1) };

typedef struct daemon_options {
    const char *path; /* of the configuration, for reloads; NULL: there is no file */
    weir_config *config;
    const weir_zones *zones;
    const log_target *log;
    bool reset_state; /* start with an empty state file */

    /* Both with ctx, by the thread that calls daemon_run(). */
    void *ctx;
    bool (*adjust)(void *ctx,
                   weir_config *config); /* to a file that was read anew: what the command
                                                       line says. False if there is no memory */
    /* The daemon listens now.
     *  addresses  for each protocol, joined by commas; "" if there are none. */
    void (*ready)(void *ctx, char (*addresses)[DAEMON_ADDRESSES_MAX]);
} daemon_options;

/* One thing that is wrong with a configuration, as a line of the log. */
void daemon_log_problem(const log_target *log, const config_problem *p);

/* Serves until SIGINT or SIGTERM. Says in the log why it could not. Returns the exit status. */
int daemon_run(const daemon_options *options);

#endif
