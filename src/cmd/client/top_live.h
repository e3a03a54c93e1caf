/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_TOP_LIVE_H
#define WEIR_CMD_CLIENT_TOP_LIVE_H
/* `weir top` without a policy, and with --live: a screen that shows what a daemon does now; or a
 * table for each interval, if standard output or standard input is no terminal. */

#include <stdbool.h>
#include <stdint.h>

typedef struct top_live_options {
    const char *server, *password; /* as client_open() */
    const char *policy;            /* chosen at first; "": the first one */
    bool allowed;                  /* show the keys that were allowed most at first */
    int64_t interval_ns, timeout_ns;
    int64_t count; /* how many times figures are shown; 0: until the user quits */
} top_live_options;

/* Returns the exit status of the command. */
int top_live(const top_live_options *o);

#endif
