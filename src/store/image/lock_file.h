/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_LOCK_FILE_H
#define WEIR_STORE_LOCK_FILE_H
/* Which state file belongs to a path. The locks on a state file stay with its inode, so they say
 * nothing at the path once the file is removed, renamed or replaced. A claim says it there: a lock
 * on FILE.lock, an empty file beside the state file. The locked byte is the state file's inode
 * number. Processes that share a state file lock the same byte; a process that finds another byte
 * locked has come to another state file than the one in use.
 *
 * The kernel drops the lock with the process, so that FILE.lock is never stale. It is removed by
 * the last process that closes its store; a killed process leaves it, which does no harm. */

#include "store/image/file_error.h"

typedef struct weir_lock_file {
    int fd;        /* of FILE.lock; -1: there is none */
    uint64_t at;   /* the byte */
    bool borrowed; /* the descriptor belongs to another claim */
} weir_lock_file;

#define WEIR_LOCK_FILE_NONE ((weir_lock_file){.fd = -1})

/* Claims the path for a state file. In a directory that this process cannot write there is no
 * claim, and that is no error: the process could not make another state file there either.
 *  lock_path  of FILE.lock.
 *  file       the state file.
 *  ret        written on WEIR_OK only.
 * Returns WEIR_OK; WEIR_E_BUSY if the path is claimed for another state file; WEIR_E_IO. */
weir_status weir_lock_file_take(weir_lock_file *ret, const char *lock_path, int file,
                                const weir_store_options *options);

/* Claims the path for a second state file, which is to replace that of `old`. `old` must not be
 * given back before. Returns WEIR_OK; WEIR_E_IO. */
weir_status weir_lock_file_take_beside(weir_lock_file *ret, const weir_lock_file *old, int file,
                                       const weir_store_options *options);

/* Ends the claim of the old state file, once the second has replaced it. */
void weir_lock_file_hand_over(weir_lock_file *second, weir_lock_file *old);

/* Makes the claim again if FILE.lock was removed, or could not be made before. */
void weir_lock_file_renew(weir_lock_file *c, const char *lock_path, int file,
                          const weir_store_options *options);

/* Gives the claim back. Removes FILE.lock if nobody else has a claim. */
void weir_lock_file_drop(weir_lock_file *c, const char *lock_path);

#endif
