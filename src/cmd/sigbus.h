/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SIGBUS_H
#define WEIR_CMD_SIGBUS_H
/* A state file is mapped memory. If the file is truncated, or the disk has no room for a page of
 * it, the kernel ends the process by SIGBUS. This says in the log why, before the process dies. */

#include "cmd/log.h"
#include "store/iterate.h"

/* Logs the first fault inside the store's file, and then lets SIGBUS end the process. A SIGBUS of
 * any other cause ends it as if this had not been called.
 *  log    its descriptor and form are used.
 *  path   of the state file, for the line.
 *  store  a store in memory has no file: then nothing is watched. Call sigbus_unwatch() after the
 *         store is closed: closing it writes to the file. */
void sigbus_watch(const log_target *log, const char *path, const weir_store *store);

/* Restores the default SIGBUS action. */
void sigbus_unwatch(void);

#endif
