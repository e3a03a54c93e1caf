/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_SIGBUS_H
#define WEIR_CMD_KIT_SIGBUS_H
/* What commands share that open a state file: the signal handler for SIGBUS, and how the file was
 * left.
 *
 * The state file is mapped memory: if the file is truncated or the disk is full, the kernel
 * terminates the process with SIGBUS. The handler logs the reason before that. */

#include "cmd/kit/log.h"
#include "store/iterate.h"

/* Logs the first fault inside the state file, and then lets SIGBUS terminate the process. Any other
 * SIGBUS terminates it as usual.
 *  log    the descriptor and the format of the log.
 *  path   of the state file, for the log.
 *  store  for a store without a file, nothing is installed. Call sigbus_unwatch() after closing the
 *         store, because closing writes to the file. */
void sigbus_watch(const log_target *log, const char *path, const weir_store *store);

/* Restores the default SIGBUS action. */
void sigbus_unwatch(void);

/* Says how a state file was last used; `weir state` and the log of the daemon print it. */
const char *state_found_text(weir_found found);

#endif
