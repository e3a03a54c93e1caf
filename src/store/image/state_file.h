/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STATE_FILE_H
#define WEIR_STORE_STATE_FILE_H
/* Opening and creating state files: finding the file, locking it against other processes, and
 * replacing it atomically. Of the contents it knows only the magic number.
 *
 * There are three kinds of locks, each on one byte of the file:
 *   OPENING       held exclusively while a process opens, closes or replaces the file
 *   IN_USE        held as long as the file is open: exclusively, or shared by many processes
 *   PROCESS + id  held by the opening with that id, so that others can check whether it is alive
 * A new file is created at PATH.new, with its OPENING lock held, and then renamed to PATH. After
 * waiting for an OPENING lock, a process therefore checks that its file is still the one at
 * PATH. */

#include "port/file.h"

#include <weir/weir_store.h>

/* ---- errors (file_error.c) ------------------------------------------------------------------- */

/* Each message is one line "PATH: what is wrong" in *options->ret_error, unless that is NULL. */

/* Formats a message.
 *  suffix  of the file's name: ".new" or ".lock"; "" is the state file itself. */
__attribute__((format(printf, 3, 4))) void
weir_file_message(const weir_store_options *options, const char *suffix, const char *format, ...);

/* Formats a message; its value is the status `st`. */
#define weir_file_error(st, ...) (weir_file_message(__VA_ARGS__), (st))

/* A system call failed. Returns WEIR_E_IO. */
weir_status weir_file_error_system(const weir_store_options *options, const char *suffix,
                                   port_file_error error);

/* Other processes have a lock on byte `at` of the file: the message names them.
 *  subject  the beginning of the message: "the state file is in use by".
 *  what     the end of the message.
 * Returns WEIR_E_BUSY. */
weir_status weir_file_error_in_use(const weir_store_options *options, int fd, uint64_t at,
                                   const char *subject, const char *what);

/* Refuses a file that another user owns or may write, unless the options trust other users. Returns
 * WEIR_OK; WEIR_E_IO, with a message. */
weir_status weir_file_check_rights(const weir_store_options *options, const char *suffix, int fd);

/* ---- the lock file (lock_file.c) ------------------------------------------------------------- */

/* The lock file, FILE.lock: an empty file beside the state file, which protects its path. The locks
 * on the state file itself stay with its inode. They no longer protect the path once the file is
 * deleted, renamed or replaced. So each process also locks a byte of FILE.lock, whose number is the
 * state file's inode number. Processes that share a state file lock the same byte. A process that
 * finds another byte locked has opened a different state file from the one in use.
 *
 * The kernel releases the lock when the process ends, so FILE.lock is never stale. The last process
 * that closes its store removes it. A killed process leaves it behind, which is harmless. */
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

/* ---- the state file -------------------------------------------------------------------------- */

typedef struct weir_state_file {
    int fd; /* -1: none */
    bool shared;
    bool is_new; /* created by this opening; at PATH.new until weir_state_file_install() */
    bool is_installed;
    bool is_first; /* no other process had it open */
    int replaces;  /* the file at PATH, while this one is at PATH.new; -1: none */
    weir_lock_file claim;
    char *path, *beside, *lock; /* PATH, PATH.new, PATH.lock */
} weir_state_file;

#define WEIR_STATE_FILE_NONE                                                                       \
    ((weir_state_file){.fd = -1, .replaces = -1, .claim = WEIR_LOCK_FILE_NONE})

/* Whether another opening uses the file. weir_state_file_used_error() writes the message that names
 * the other process, and returns WEIR_E_BUSY. */
bool weir_state_file_is_used(int fd);
weir_status weir_state_file_used_error(const weir_store_options *options, int fd, const char *what);

/* Opens the file, or creates a new one, with its OPENING and IN_USE locks. Call
 * weir_state_file_end_opening() or weir_state_file_close() next.
 *  f  also written on failure, for weir_state_file_close(). */
weir_status weir_state_file_open(weir_state_file *f, const weir_store_options *options);

/* Opens an existing file with its OPENING lock, whether it is in use or not. Takes neither the
 * IN_USE lock nor the one on PATH.lock, so that other openings are not kept from using the file. */
weir_status weir_state_file_visit(weir_state_file *f, const weir_store_options *options);

/* Creates a new file beside `old`, with the OPENING locks of both. */
weir_status weir_state_file_open_beside(weir_state_file *f, weir_state_file *old,
                                        const weir_store_options *options);

/* Renames a new file to PATH, once it is complete. */
weir_status weir_state_file_install(weir_state_file *f, const weir_store_options *options);

/* Releases the OPENING lock. Shares the IN_USE lock if the file is shared. */
weir_status weir_state_file_end_opening(weir_state_file *f, const weir_store_options *options);

/* weir_state_file_share() lets other openings with `shared` use the file. weir_state_file_own()
 * takes the file back, unless another opening uses it. They return whether the file is now shared,
 * or owned. */
bool weir_state_file_share(weir_state_file *f);
bool weir_state_file_own(weir_state_file *f);

/* Reports where the file is now. Takes the lock on PATH.lock again if it was lost. Only one thread
 * at a time may call it.
 *  bytes    the size of the mapping.
 *  options  file and trust_others are read. */
weir_file weir_state_file_watch(weir_state_file *f, uint64_t bytes,
                                const weir_store_options *options);

/* Takes the OPENING lock again, so that no process opens the file meanwhile. */
void weir_state_file_begin_closing(weir_state_file *f);

/* Takes the lock of an opening's id. Sets *ret_taken to false if another opening has it. */
weir_status weir_state_file_take_process_id(weir_state_file *f, uint64_t id, bool *ret_taken,
                                            const weir_store_options *options);
bool weir_state_file_has_process(const weir_state_file *f, uint64_t id); /* any thread */

/* Closes the file and releases its locks. A new file that was not installed is removed. */
void weir_state_file_close(weir_state_file *f);

#endif
