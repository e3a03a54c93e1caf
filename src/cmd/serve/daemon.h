/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SERVE_DAEMON_H
#define WEIR_CMD_SERVE_DAEMON_H
/* The daemon: builds the store, the limiter, a service for each event loop and the server from a
 * configuration, and runs them. */

#include "cmd/config/config.h"
#include "cmd/kit/log.h"

enum { DAEMON_ADDRESSES_MAX = CONFIG_LISTENS_MAX * (CONFIG_ADDRESS_MAX + 1) };

typedef struct daemon_options {
    const char *path; /* of the configuration file, for reloads; NULL: none */
    char *const *env; /* the variables that config_load_environment() reads; NULL: none */
    weir_config *config;
    const weir_zones *zones;
    log_target *log;   /* a reload changes its level and its format */
    bool reset_state;  /* start with an empty state file */
    bool take_over;    /* from the daemon that listens at config->hand_over */
    char *const *argv; /* what SIGUSR2 starts: see net_hand_over_options */

    /* The callbacks are called on the thread of daemon_run(). */
    void *ctx;
    /* Applies the options of the command line to a reloaded configuration. Returns false if memory
     * is exhausted. */
    bool (*adjust)(void *ctx, weir_config *config);
    /* The daemon listens now.
     *  addresses  for each protocol, joined by commas; "" if there are none. */
    void (*ready)(void *ctx, char (*addresses)[DAEMON_ADDRESSES_MAX]);
} daemon_options;

/* Logs an error of a configuration. */
void daemon_log_problem(const log_target *log, const config_problem *p);

/* Serves until SIGINT or SIGTERM. On failure it logs the reason. Returns the exit status. */
int daemon_run(const daemon_options *options);

#endif
