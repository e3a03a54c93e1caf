/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_LOCK_FILE_H
#define WEIR_STORE_LOCK_FILE_H
/* The lock file, FILE.lock: an empty file beside the state file, which protects its path. The locks
 * on the state file itself stay with its inode. They no longer protect the path once the file is
 * deleted, renamed or replaced. So each process also locks a byte of FILE.lock, whose number is the
 * state file's inode number. Processes that share a state file lock the same byte. A process that
 * finds another byte locked has opened a different state file from the one in use.
 *
 * The kernel releases the lock when the process ends, so FILE.lock is never stale. The last process
 * that closes its store removes it. A killed process leaves it behind, which is harmless. */

#include "store/image/file_error.h"

typedef struct weir_lock_file {
    int fd;        /* of FILE.lock; -1: there is no lock */
    uint64_t at;   /* the locked byte */
    bool borrowed; /* the descriptor belongs to another weir_lock_file */
} weir_lock_file;

#define WEIR_LOCK_FILE_NONE ((weir_lock_file){.fd = -1})

/* Locks the path for a state file. In a directory that this process cannot write there is no lock
 * file, and that is no error: no other state file can be created there.
 *  lock_path  the path of FILE.lock.
 *  file       the state file.
 *  ret        written on WEIR_OK only.
 * Returns WEIR_OK; WEIR_E_BUSY if the path is locked for another state file; WEIR_E_IO. */
weir_status weir_lock_file_take(weir_lock_file *ret, const char *lock_path, int file,
                                const weir_store_options *options);

/* Locks the path for a second state file, which will replace that of `old`. `old` must stay locked
 * until then. Returns WEIR_OK; WEIR_E_IO. */
weir_status weir_lock_file_take_beside(weir_lock_file *ret, const weir_lock_file *old, int file,
                                       const weir_store_options *options);

/* Releases the lock of the old state file, once the second has replaced it. */
void weir_lock_file_hand_over(weir_lock_file *second, weir_lock_file *old);

/* Takes the lock again if FILE.lock was removed, or could not be created before. */
void weir_lock_file_renew(weir_lock_file *c, const char *lock_path, int file,
                          const weir_store_options *options);

/* Releases the lock. Removes FILE.lock if no other process has it locked. */
void weir_lock_file_drop(weir_lock_file *c, const char *lock_path);

#endif
