/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NODE_STORES_H
#define WEIR_NODE_STORES_H
/* The stores that this process has open: one for each file, which all threads and all limiters of
 * the process share. */

#include "weir.h"

typedef struct shared_store shared_store;

typedef struct store_settings {
    const char *file; /* an absolute path without symbolic links, so that each file has one name */
    size_t memory_bytes; /* 0: the size of the file, or 256 MiB for a new one */
    bool sync;           /* write changes to the disk once a second */
    bool refuse;         /* when full, refuse new keys instead of evicting others */
} store_settings;

/* Opens the file, or returns the store that this process has open already.
 *  ret_error  written on failure: what is wrong and what to do.
 * Returns WEIR_OK; WEIR_E_RANGE if it is open with other settings; or as weir_store_open().
 * Threads: any. */
weir_status stores_open(shared_store **ret, const store_settings *settings,
                        weir_store_error *ret_error);

/* Gives up one reference. The last one closes the store. Threads: any. */
void stores_close(shared_store *s);

/* Threads: any. Valid until stores_close(). */
weir_store *stores_get(const shared_store *s);

/* Returns where the file is now; see weir_store_watch(). Threads: any. */
weir_file stores_watch(shared_store *s);

/* Returns the time zones of the system, for weir_policy_parse(). Call it before stores_open().
 * Threads: any. Valid until the process ends. */
const weir_zones *stores_zones(void);

#endif
